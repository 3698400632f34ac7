#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace graph_break {

constexpr std::string_view kDoc = R"md(
## What it finds
In a function or model that the program compiles, what `torch.compile` cannot put into a graph:
`.item()`, `float()` or `int()` of a tensor, `.tolist()`, `print`, logging, a debugger, NumPy on
tensors, `if` and `while` on a tensor's value. One finding per function, at the first line. The
message says how much work the compiled model is: just works (no break found), little work (1 to 3
breaks) or slog (more). A model without a break gets a finding of level info.

## Why it costs time
At each break the graph ends: the kernels before and after are not fused, Python runs in between, and
CUDA graphs are split. `.item()` and branches also wait for the GPU.

## How to fix
Move logging and reading of values out of the compiled code, use `torch.where` in place of a branch,
or keep the part out with `torch.compiler.disable`. `fullgraph=True` turns the next break into an
error with its place.

## How the saving is estimated
Not from the source alone. `TORCH_LOGS=graph_breaks python train.py` lists what really breaks.

## When not to
- Code under `torch.compiler.is_compiling()`, or kept out with `torch.compiler.disable`.
- `torch._dynamo.config.capture_scalar_outputs = True` keeps `.item()` in the graph.

## Evidence
- PyTorch documentation, "torch.compile", section on graph breaks: data-dependent control flow,
  printing and logging, `.item()`.
)md";

using namespace source;

struct Broken {
  const FunctionDef* function = nullptr;
  std::vector<GraphBreak> breaks;
};

std::string compiled_text(const Compiled& compiled, const File& from) {
  if (compiled.call == nullptr) {
    return fmt::format("torch.compile decorates {} at {}", compiled.function->name,
                       place_text(*compiled.function->statement, from));
  }
  return fmt::format("compiled at {}", place_text(*compiled.call, from));
}

Finding broken_finding(const Compiled& compiled, const Broken& broken, std::size_t total) {
  const GraphBreak& first = broken.breaks.front();
  std::vector<std::string> more;
  for (std::size_t i = 1; i < std::min<std::size_t>(broken.breaks.size(), 5); ++i) {
    more.push_back(fmt::format("{} at {}", broken.breaks[i].text,
                               place_text(*broken.breaks[i].statement, *broken.function->file)));
  }
  Finding finding = finding_at(
      *first.statement,
      fmt::format("{} ends the graph that torch.compile makes of {}; {} break{} in all the code "
                  "compiled with it: {}",
                  first.text, broken.function->name, total, total == 1 ? "" : "s",
                  work_class(total)),
      {"Move it out of the compiled code, or keep its function out with torch.compiler.disable",
       Exactness::exact_arithmetic});
  finding.count = static_cast<std::int64_t>(broken.breaks.size());
  finding.evidence = {Evidence::found(compiled_text(compiled, *broken.function->file))};
  if (!more.empty()) finding.evidence.push_back(Evidence::found("also " + join(more, ", ")));
  finding.evidence.push_back(
      Evidence::to_check("settle it: TORCH_LOGS=graph_breaks python train.py"));
  return finding;
}

Finding whole_finding(const Compiled& compiled, std::size_t functions) {
  const std::string message =
      fmt::format("no graph break found in {} ({} function{} of these files): just works",
                  compiled.function->name, functions, functions == 1 ? "" : "s");
  const Fix fix{"Nothing to change; fullgraph=True makes sure of it", Exactness::not_applicable};
  Finding finding = compiled.call != nullptr
                        ? finding_at(*compiled.call, message, fix)
                        : finding_at(*compiled.function->statement, message, fix);
  finding.own_level = Level::info;
  finding.evidence = {Evidence::to_check("settle it: TORCH_LOGS=graph_breaks python train.py")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::set<const FunctionDef*> told;
  for (const Compiled& compiled : compiled_code(facts)) {
    if (!told.insert(compiled.function).second) continue;
    std::vector<Broken> all;
    std::size_t total = 0;
    const std::vector<const FunctionDef*> traced = traced_functions(*compiled.function);
    for (const FunctionDef* function : traced) {
      Broken broken{function, graph_breaks(facts, *function)};
      total += broken.breaks.size();
      if (!broken.breaks.empty()) all.push_back(std::move(broken));
    }
    if (total == 0) findings.push_back(whole_finding(compiled, traced.size()));
    for (const Broken& broken : all) {
      const bool is_new =
          broken.function == compiled.function || told.insert(broken.function).second;
      if (is_new) findings.push_back(broken_finding(compiled, broken, total));
    }
  }
  return findings;
}

}  // namespace graph_break

extern const Rule compile_graph_break{
    .id = "compile/graph-break",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Graph breaks: torch.compile leaves parts of the code to Python",
    .doc = graph_break::kDoc,
    .in_scripts = graph_break::find};

}  // namespace rooftile
