#include <fmt/format.h>

#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace cuda_graphs_with_varying_shapes {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.compile` with `mode="reduce-overhead"` or `"max-autotune"`, which record CUDA graphs, together
with `dynamic=True` or with batches that are padded to their longest sample.

## Why it costs time
A CUDA graph holds fixed shapes. Each new shape is recorded anew: a warm-up, a capture, and memory of
its own. With shapes that rarely repeat the recording is all the program does.

## How to fix
Pad to a few fixed lengths, or use the default mode, or `mode="max-autotune-no-cudagraphs"`.

## How the saving is estimated
Not from the source alone. `TORCH_LOGS=cudagraphs` lists the recordings.

## When not to
- A handful of lengths, each of which repeats often.

## Evidence
- PyTorch documentation, "CUDAGraph Trees", section on dynamic shapes: one graph is recorded for each
  set of input sizes, with a warning after 50.
)md";

using namespace source;

bool records_graphs(const SourceFacts& facts, const Call& call) {
  const Value mode = facts.argument(call, "mode");
  return mode.is("reduce-overhead") || mode.is("max-autotune");
}

// Why shapes differ; empty where nothing shows it.
std::string reason(const SourceFacts& facts, const Call& call) {
  const Value dynamic = facts.argument(call, "dynamic");
  if (dynamic.is_true() && dynamic.fixed()) return "dynamic=True expects shapes that differ";
  for (const Program* program : training_programs_of(facts, *call.file)) {
    if (const auto sign = padded_to_longest(facts, *program)) return sign->text;
  }
  return "";
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : training_calls(facts, {"torch.compile"})) {
    if (!records_graphs(facts, *call)) continue;
    const std::string why = reason(facts, *call);
    if (why.empty()) continue;
    const Value mode = facts.argument(*call, "mode");
    Fix fix{"Pad to a few fixed lengths, or leave mode out", Exactness::exact_arithmetic};
    if (const Argument* written = call->argument("mode"); written != nullptr) {
      add_edit(mode.is("max-autotune")
                   ? replace_argument(*call, *written, "\"max-autotune-no-cudagraphs\"")
                   : remove_argument(*call, *written),
               fix);
    }
    Finding finding = finding_at(
        *call,
        fmt::format("mode=\"{}\" records a CUDA graph for every new shape, and {}", mode.text, why),
        std::move(fix));
    finding.evidence = {
        Evidence::published("PyTorch documentation, CUDAGraph Trees, dynamic shapes"),
        Evidence::to_check("settle it: TORCH_LOGS=cudagraphs python train.py")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace cuda_graphs_with_varying_shapes

extern const Rule compile_cuda_graphs_with_varying_shapes{
    .id = "compile/cuda-graphs-with-varying-shapes",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "CUDA graphs recaptured for every new shape",
    .doc = cuda_graphs_with_varying_shapes::kDoc,
    .in_scripts = cuda_graphs_with_varying_shapes::find};

}  // namespace rooftile
