#include <fmt/format.h>

#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace max_autotune {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.compile(mode="max-autotune")` for a model whose large layers are matrix products. Information,
hidden unless asked for.

## Why it costs time
The mode measures generated kernels against cuBLAS for every product and compiles for many minutes.
For large aligned products cuBLAS mostly wins, so that little is gained.

## How to fix
Compare the step time with the default mode, and with `mode="reduce-overhead"` for small batches.

## How the saving is estimated
Not estimated.

## When not to
- Long trainings, where minutes of compilation do not count and every per cent does.

## Evidence
- PyTorch documentation, `torch.compile`, parameter mode.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : training_calls(facts, {"torch.compile"})) {
    const Value mode = facts.argument(*call, "mode", 4);
    if (!mode.is("max-autotune") && !mode.is("max-autotune-no-cudagraphs")) continue;
    for (const Program* program : training_programs_of(facts, *call->file)) {
      const auto layer = tensor_core_sized_layer(facts, *program);
      if (!layer) continue;
      Finding finding = finding_at(
          *call,
          fmt::format("mode=\"{}\" compiles for many minutes; for large GEMMs ({}) cuBLAS mostly "
                      "wins anyway",
                      mode.text, layer->text),
          {"Compare the step time with the default mode", Exactness::exact_arithmetic});
      finding.evidence = {
          Evidence::published("PyTorch documentation, torch.compile, parameter mode"),
          Evidence::to_check("settle it: time a hundred steps in both modes")};
      findings.push_back(std::move(finding));
      break;
    }
  }
  return findings;
}

}  // namespace max_autotune

extern const Rule compile_max_autotune{.id = "compile/max-autotune",
                                       .level = Level::info,
                                       .cause = Cause::none,
                                       .summary = "max-autotune for a model of large GEMMs",
                                       .doc = max_autotune::kDoc,
                                       .in_scripts = max_autotune::find};

}  // namespace rooftile
