// Grouped convolutions whose groups are narrower than one 16-byte load.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// channels_in_source.cpp
std::vector<Finding> narrow_groups_in_source(const source::SourceFacts& facts);

namespace conv_narrow_groups_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A grouped convolution on Tensor Cores with several channels a group, but no whole 16-byte groups of
them: 4 or 12 channels a group in fp16 or bf16, for example.

In training scripts: written groups of fewer than 8 channels; information, hidden unless asked for.

## Why it costs time
Each group is a separate GEMM with n = output channels a group and k = input channels a
group times the kernel. With 4 channels most of every tile and of every load is empty.

## How to fix
Use fewer and wider groups, so that each has a multiple of 8 channels in 16-bit. This changes the
model: wider groups also have more weights. Where a pretrained model fixes the groups, keep the layer
in the memory format that measures faster.

## How the saving is estimated
The time model runs on the layer with fewer groups. That layer does more arithmetic, so a saving means
that it is faster in spite of it. With no gain expected it is not reported.

## When not to
- Depthwise layers have one channel a group and do not use Tensor Cores; they have their own rule.
- Zero-padding the channels of each group multiplies the work and the traffic of the whole layer.
- Grouped layers keep the flop count low by design. Compare accuracy at equal time, not at equal flop.

## Evidence
- NVIDIA, Convolutional Layers User's Guide, checklist: channels divisible by 8 in fp16; for a grouped
  convolution that holds for the channels of a group.
- PyTorch issue 34977: ResNeXt-like layers, groups of 64 channels, run 35 times as long in channels_last
  with the cuDNN of 2020.
)md";

// The most groups that leave whole 16-byte groups of channels on both sides; 0 where there are
// none.
std::int64_t wider_groups(const Convolution& conv, std::int64_t step) {
  for (std::int64_t groups = conv.groups - 1; groups > 1; --groups) {
    if (conv.c % (groups * step) == 0 && conv.k % (groups * step) == 0) return groups;
  }
  return 0;
}

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const OpAnalysis& analysis = input.analysis.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  if (is_depthwise(conv) || !matters(layer)) return false;
  if (!on_tensor_cores(analysis, input.device())) return false;
  const std::int64_t step = alignment_elements(analysis.products.front().math);
  return input_channels_per_group(conv) % step != 0 || output_channels_per_group(conv) % step != 0;
}

Finding narrow_at(const RuleInput& input, const LayerGroup& layer, std::int64_t groups,
                  const Range<Seconds>& saving) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(op.body);
  const Dtype math = input.analysis.ops[layer.ops.front()].products.front().math;
  Convolution wide = conv;
  wide.groups = groups;
  Op changed = op;
  changed.body = wide;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format(
          "{} groups of {} -> {} channels: {} Tensor Core kernels load {} channels at a time.",
          conv.groups, input_channels_per_group(conv), output_channels_per_group(conv),
          to_string(math), alignment_elements(math)),
      {fmt::format("Use {} groups of {} -> {} channels ({:+.0f} parameters): more arithmetic, less "
                   "time. This changes the model.",
                   groups, input_channels_per_group(wide), output_channels_per_group(wide),
                   count_parameters(changed) - count_parameters(op)),
       Exactness::changes_training},
      saving);
  finding.evidence = {Evidence::published("Whole 16-byte groups of channels in each group",
                                          "NVIDIA Convolutional Layers User's Guide, checklist")};
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_candidate(input, layer)) continue;
    const std::size_t first = layer.ops.front();
    const auto& conv = std::get<Convolution>(input.workload.ops[first].body);
    const Dtype math = input.analysis.ops[first].products.front().math;
    const std::int64_t groups = wider_groups(conv, alignment_elements(math));
    if (groups == 0) continue;
    const auto saving = saving_if_all(input, layer, [&](Op op) {
      std::get<Convolution>(op.body).groups = groups;
      return op;
    });
    if (is_gain(input, saving)) findings.push_back(narrow_at(input, layer, groups, *saving));
  }
  return findings;
}

}  // namespace conv_narrow_groups_rule

extern const Rule conv_narrow_groups{
    .id = "conv/narrow-groups",
    .level = Level::advice,
    .level_in_scripts = Level::info,
    .cause = Cause::alignment,
    .summary = "Convolution groups are narrower than a 16-byte load",
    .doc = conv_narrow_groups_rule::kDoc,
    .in_ops = conv_narrow_groups_rule::check_operations,
    .in_scripts = narrow_groups_in_source};

}  // namespace rooftile
