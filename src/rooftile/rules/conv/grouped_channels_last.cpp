// Grouped convolutions in channels_last, which cuDNN runs slowly.
#include <fmt/format.h>

#include "rooftile/analysis/conv_layout.h"
#include "rooftile/analysis/convolution.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_grouped_channels_last_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A convolution in NHWC (channels_last) with more than one group and more than one channel a group.

## Why it costs time
cuDNN has fewer fast NHWC kernels for grouped convolutions. Depending on version and shape it falls back
to kernels that are slower than those for NCHW, in bad cases by more than ten times.

## How to fix
Time the layer in both memory formats on your versions, and keep it NCHW where that is faster. The two
conversions around it are part of the comparison.

## How the saving is estimated
Expected: PyTorch Inductor's mean ratio, 1.358 times the contiguous time. The low end is no saving, as
recent versions differ; the high end is the worst published case, 31 times.

## When not to
- Depthwise layers, one channel a group, get faster in channels_last. They are not reported.
- The published cases are from older cuDNN versions. Treat the finding as a reason to measure.

## Evidence
- PyTorch Inductor, torch/_inductor/graph.py: 32x224x112x112 with 2 groups is 31 times slower in
  channels_last; mean over the grouped convolutions of a model benchmark 1.358.
- PyTorch issue 34977: a ResNeXt-like layer takes 4.11 ms in NCHW and 143 ms in channels_last on V100.
)md";

constexpr double kWorstPublished = 31;

bool is_grouped_nhwc(const Op& op) {
  const auto* conv = std::get_if<Convolution>(&op.body);
  return conv != nullptr && conv->layout == TensorLayout::nhwc && conv->groups > 1 &&
         !is_depthwise(*conv);
}

Range<Seconds> possible_saving(const RuleInput& input, const LayerGroup& layer) {
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  const Seconds time = total_time(input, layer).time.expected;
  // The model's time is that of a layer without the penalty, so the penalty comes on top.
  return {Seconds(0), time * (channels_last_factor(conv) - 1), time * (kWorstPublished - 1)};
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_grouped_nhwc)) {
    if (!matters(layer)) continue;
    const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
    Finding finding = finding_at_groups(
        input, {layer},
        fmt::format(
            "{} groups of {} channels in channels_last: cuDNN has few fast kernels for them.",
            conv.groups, input_channels_per_group(conv)),
        {"Measure the layer in NCHW too, and keep it there if it is faster.",
         Exactness::exact_arithmetic},
        possible_saving(input, layer));
    finding.evidence = {Evidence::published("Mean ratio 1.358, worst published 31",
                                            "PyTorch Inductor, torch/_inductor/graph.py")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace conv_grouped_channels_last_rule

extern const Rule conv_grouped_channels_last{.id = "conv/grouped-channels-last",
                                             .level = Level::advice,
                                             .cause = Cause::layout,
                                             .summary = "Grouped convolutions run in channels_last",
                                             .doc = conv_grouped_channels_last_rule::kDoc,
                                             .in_ops = conv_grouped_channels_last_rule::check};

}  // namespace rooftile
