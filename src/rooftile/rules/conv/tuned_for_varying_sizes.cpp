#include <fmt/format.h>

#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace tuned_for_varying_sizes {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.backends.cudnn.benchmark = True` in a program that trains convolutions on a GPU with inputs
whose size differs from batch to batch: a collate function pads to the batch's longest, each batch is
resized to a size drawn at random, or a detector of torchvision (Faster, Mask and Keypoint R-CNN,
RetinaNet, FCOS) pads a list of images (`collate_fn=lambda batch: tuple(zip(*batch))`) to the largest.

## Why it costs time
For each new input size cuDNN runs all algorithms of each convolution before it uses one. With many
sizes most steps are such measurements.

## How to fix
Remove the line, or make sizes few: pad to a multiple, or sort samples into buckets of equal size.

## How the saving is estimated
Not from the source alone. A trace shows the measurements as many different kernels of one
convolution.

## When not to
- A handful of sizes: each is measured once, and the results are kept.
- An option that is off by default.
- Training on pieces of one size, cut from audio files or images; detectors on images that are resized
  to one size, and SSD, which has one.

## Evidence
- PyTorch documentation, "Reproducibility": benchmarking runs for every new set of size parameters.
- PyTorch performance tuning guide, "Enable cuDNN auto-tuner".
)md";

using namespace source;

bool has_convolution(const SourceFacts& facts, const Program& program, const SizeSign& size) {
  const bool is_detector = size.call->name.starts_with("torchvision.models.");
  if (is_detector || main_convolution(facts, program)) return true;
  return !calls_in(facts, program,
                   {"torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d",
                    "torch.nn.ConvTranspose1d", "torch.nn.ConvTranspose2d"})
              .empty();
}

Finding finding_for(const Statement& statement, const SizeSign& size) {
  Fix fix{"Remove the line, or pad to a few sizes only", Exactness::exact_arithmetic};
  add_edit(replace(*statement.file, statement.value->range, "False"), fix);
  Finding finding =
      finding_at(statement,
                 fmt::format("cuDNN measures all algorithms again for every new input size, and {}",
                             size.text),
                 std::move(fix));
  finding.evidence = {
      Evidence::found(fmt::format("{} ({})", size.text, place_text(*size.call, *statement.file))),
      Evidence::published("benchmarking runs for each new set of sizes",
                          "PyTorch documentation, Reproducibility")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Statement* statement : facts.assignments("torch.backends.cudnn.benchmark")) {
    const Value value = facts.value(statement->value);
    if (!value.is_true() || !value.fixed() || !is_reached_by_default(facts, *statement)) continue;
    for (const Program* program : training_programs_of(facts, *statement->file)) {
      const auto size = varying_input_size(facts, *program);
      if (!size || !has_convolution(facts, *program, *size)) continue;
      findings.push_back(finding_for(*statement, *size));
      break;
    }
  }
  return findings;
}

}  // namespace tuned_for_varying_sizes

extern const Rule conv_tuned_for_varying_sizes{
    .id = "conv/tuned-for-varying-sizes",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "cuDNN re-benchmarks its algorithms for every new input size",
    .doc = tuned_for_varying_sizes::kDoc,
    .in_scripts = tuned_for_varying_sizes::find};

}  // namespace rooftile
