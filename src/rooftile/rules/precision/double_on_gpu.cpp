#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_double_on_gpu_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`model.double()`, `model.to(torch.float64)` or a default dtype of float64 in a program that trains
on a GPU.

## Why it costs time
Most GPUs run float64 at 1/32 or 1/64 of the fp32 rate; those for computing centres at one half.
Every tensor takes twice the memory and bandwidth of fp32.

## How to fix
Train in fp32. Where sums over a whole epoch lose digits, convert only those.

## How the saving is estimated
Not from the source alone. With a trace (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Scientific code that needs it: not reported with second-order derivatives in the program, or with a
  comment at the line that says so.
- Statistics on the host.

## Evidence
- NVIDIA CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions".
)md";

using namespace source;

// `model.double()` and `model.to(torch.float64)`.
bool makes_module_double(const SourceFacts& facts, const Call& call) {
  if (call.receiver == nullptr || !call.receiver_type().is(TypeKind::module)) return false;
  if (call.method == "double") return call.arguments.empty();
  if (call.method != "to") return false;
  return is_dtype(facts.argument(call, "dtype", 0), {"float64", "double"});
}

// What a context manager sets holds for its body.
bool is_for_a_while(const Call& call) {
  return call.function != nullptr && call.function->class_def != nullptr &&
         call.function->name == "__enter__";
}

bool makes_default_double(const SourceFacts& facts, const Call& call) {
  if (is_for_a_while(call)) return false;
  if (call.name == "torch.set_default_dtype") {
    return is_dtype(facts.argument(call, "d", 0), {"float64", "double"});
  }
  const Value type = facts.argument(call, "t", 0);
  return call.name == "torch.set_default_tensor_type" && is_dtype(type, {"DoubleTensor"});
}

// The author says that it is meant: a comment on the line or on the one above.
bool is_explained(const Call& call) {
  const std::string_view text = call.file->text;
  const std::size_t end = std::min(text.find('\n', call.close_paren), text.size());
  std::string_view before = text.substr(0, call.expr->range.begin);
  before = before.substr(0, before.rfind('\n'));
  const std::size_t begin = before.rfind('\n') + 1;  // 0 in the first two lines
  const std::string_view around = text.substr(begin, end - begin);
  const std::size_t comment = around.find('#');
  if (comment == std::string_view::npos) return false;
  for (const std::string_view word : {"double", "float64", "precision", "64-bit", "numerical"}) {
    if (around.find(word, comment) != std::string_view::npos) return true;
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<const Call*> calls;
  for (const std::string_view method :
       {"double", "to", "set_default_dtype", "set_default_tensor_type"}) {
    for (const Call* call : facts.method_calls(method)) calls.push_back(call);
  }
  for (const Call* call : calls) {
    if (!makes_module_double(facts, *call) && !makes_default_double(facts, *call)) continue;
    if (!trains_on_gpu(facts, *call->file) || is_explained(*call)) continue;
    if (!is_reached_by_default(facts, *call)) continue;
    const auto programs = training_programs_of(facts, *call->file);
    if (mentions(*programs.front(), {"create_graph=True", "gradgradcheck"})) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("{} makes the training run in float64: no Tensor Core speed-up, 1/64 of the "
                    "fp32 rate on most GPUs, and twice the memory",
                    code_text(*call->file, call->expr)),
        {"Train in float32 and keep float64 for sums of metrics", Exactness::changes_numerics});
    finding.evidence = {Evidence::published(
        "float64 at 1/64 of float32 on compute capability 8.6 and 8.9, at 1/2 on 8.0 and 9.0",
        "NVIDIA CUDA C++ programming guide, Arithmetic instructions")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace precision_double_on_gpu_rule

extern const Rule precision_double_on_gpu{.id = "precision/double-on-gpu",
                                          .level = Level::warning,
                                          .cause = Cause::none,
                                          .summary = "Model is trained in float64 on the GPU",
                                          .doc = precision_double_on_gpu_rule::kDoc,
                                          .in_scripts = precision_double_on_gpu_rule::find};

}  // namespace rooftile
