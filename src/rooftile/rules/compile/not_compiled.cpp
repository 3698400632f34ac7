#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace not_compiled {

constexpr std::string_view kDoc = R"md(
## What it finds
A program for PyTorch 2 that trains on a GPU and does not use `torch.compile`. The message says how
much work the model would be, by the graph breaks in its `forward`. Information, hidden unless asked
for.

## Why it costs time
Without compilation each operation is a kernel of its own: pointwise chains read and write memory
again and again, and Python launches every kernel.

## How to fix
`model = torch.compile(model)` after the model is on its device, and after `DistributedDataParallel`.

## How the saving is estimated
Not from the source alone. A recording shows the time of pointwise kernels and of gaps between
kernels, which are what there is to gain.

## When not to
- Short runs: the compilation takes a minute or more.
- Shapes that change from step to step recompile, unless `dynamic=True` helps.
- Models that are nearly all large matrix products.

## Evidence
- PyTorch documentation, "torch.compile".
- Ansel et al., "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and
  Graph Compilation" (2024).
)md";

using namespace source;

std::size_t breaks_in(const SourceFacts& facts, const FunctionDef& forward) {
  std::size_t breaks = 0;
  for (const FunctionDef* function : traced_functions(forward)) {
    breaks += graph_breaks(facts, *function).size();
  }
  return breaks;
}

std::string class_text(const SourceFacts& facts, const Call& forward) {
  if (forward.target == nullptr) return "";
  const std::size_t breaks = breaks_in(facts, *forward.target);
  return fmt::format("; compiling it: {} ({} graph break{} found)", work_class(breaks), breaks,
                     breaks == 1 ? "" : "s");
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<const Call*> told;
  for (const Program* program : training_programs(facts)) {
    if (!shows_pytorch_2(*program) || compiles(*program) || !runs_training(*program)) continue;
    if (program->entry != nullptr && program->entry->is_notebook) continue;
    const Call* forward = forward_call(facts, *program);
    if (forward == nullptr || std::count(told.begin(), told.end(), forward) > 0) continue;
    told.push_back(forward);
    Finding finding =
        finding_at(*forward,
                   fmt::format("the model runs kernel by kernel, without torch.compile{}",
                               class_text(facts, *forward)),
                   {"Compile it once before training: model = torch.compile(model)",
                    Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::published("PyTorch documentation, torch.compile"),
        Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace not_compiled

extern const Rule compile_not_compiled{.id = "compile/not-compiled",
                                       .level = Level::info,
                                       .cause = Cause::none,
                                       .summary = "PyTorch 2 program trains without torch.compile",
                                       .doc = not_compiled::kDoc,
                                       .in_scripts = not_compiled::find};

}  // namespace rooftile
