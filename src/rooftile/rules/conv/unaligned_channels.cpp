// Channels that are not whole 16-byte groups, the unit that Tensor Core convolutions load.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/workload/graph.h"

namespace rooftile {

// channels_in_source.cpp
std::vector<Finding> unaligned_channels_in_source(const source::SourceFacts& facts);

namespace conv_unaligned_channels_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A dense convolution on Tensor Cores whose input or output channels are not a multiple of 16 bytes: 8
channels for fp16 and bf16, 4 for TF32, 16 for int8 and fp8.

In training scripts: `nn.Conv` with written channels of 16 or more of which one is not a multiple of 8
and is also written at another layer of the class. One finding per class, at level advice.

## Why it costs time
Channels are the contiguous dimension of the NHWC kernels, and the n and k of the implicit matrix
product. Channels that are not whole 16-byte groups cannot be loaded with full-width vector loads:
cuDNN pads them on the fly or takes a kernel with narrower loads.

## How to fix
Choose widths that are multiples of 8 before training; pruning tools have a rounding option for it.
For trained weights, append channels with zero weights: a padded output channel is read by zero
weights of the next layer or sliced off, a padded input channel is multiplied by zero.

## How the saving is estimated
The time model runs on the layer with both channel counts rounded up, in every phase the workload
has. The extra work of the padding is part of that time. The traffic of neighbouring layers, which
grows with the width, is not.

## When not to
- The layer is memory-bound: vector width then changes little, and nothing is reported.
- Depthwise convolutions do not use Tensor Cores. Grouped ones have their own rule.
- Up to four input channels are the first layer, which has its own rule too.
- A small last layer, such as a map of 21 classes, rarely takes one per cent of the time and is not
  reported below that.
- If BatchNorm follows, a padded channel comes out as the value of its shift. The consumer's weights
  for it must be zero and stay zero.
- Scripts: first and last layers, grouped layers, and nets whose layers all have fewer than 32 channels. Where
  the program chooses no precision: information.

## Evidence
- NVIDIA, Convolutional Layers User's Guide, "Quick Start Checklist": choose input and output
  channels divisible by 8 (for TF32 by 4) to enable efficient Tensor Core kernels.
- NVIDIA, Deep Learning Performance Documentation, "Get Started": cuDNN 7.6.3 and later use Tensor
  Cores without this, but efficiency is better with multiples of 16 bytes.
)md";

constexpr std::int64_t kFewChannels = 4;  // a first layer

Convolution aligned(Convolution conv, std::int64_t step) {
  conv.c = round_up(conv.c, step);
  conv.k = round_up(conv.k, step);
  return conv;
}

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const OpAnalysis& analysis = input.analysis.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  return conv.groups == 1 && conv.c > kFewChannels && on_tensor_cores(analysis, input.device()) &&
         is_math_bound(analysis, input.device()) && matters(layer);
}

// "50 input and 30 output channels are"
std::string unaligned_counts(const Convolution& conv, std::int64_t step) {
  const bool in = conv.c % step != 0, out = conv.k % step != 0;
  if (in && out) return fmt::format("{} input and {} output channels are", conv.c, conv.k);
  return in ? fmt::format("{} input channels are", conv.c)
            : fmt::format("{} output channels are", conv.k);
}

bool feeds_batch_norm(const Graph& graph, const Workload& workload, std::size_t op) {
  const auto next = graph.sole_consumer(op);
  if (!next) return false;
  const auto* norm = std::get_if<Normalization>(&workload.ops[*next].body);
  return norm != nullptr && norm->fn == NormKind::batch;
}

Fix widen(const Op& op, const Convolution& wide, bool before_batch_norm) {
  const auto& conv = std::get<Convolution>(op.body);
  Op widened = op;
  widened.body = wide;
  const double extra = count_parameters(widened) - count_parameters(op);
  std::string text = fmt::format(
      "Use {} -> {} channels instead of {} -> {} (+{:.0f} parameters, +{} of the layer); for "
      "trained weights append zero channels",
      wide.c, wide.k, conv.c, conv.k, extra, share_text(extra / count_parameters(op)));
  text += before_batch_norm
              ? " and keep the next layer's weights for them at zero, since BatchNorm shifts them."
              : " that the next layer reads with zero weights.";
  return {std::move(text), Exactness::exact_arithmetic};
}

Finding unaligned_at(const RuleInput& input, const Graph& graph, const LayerGroup& layer,
                     const Convolution& wide, const Range<Seconds>& saving) {
  const std::size_t first = layer.ops.front();
  const Op& op = input.workload.ops[first];
  const Dtype math = input.analysis.ops[first].products.front().math;
  const std::int64_t step = alignment_elements(math);
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("{} not a multiple of {}, so {} Tensor Core kernels cannot load whole 16-byte "
                  "groups.",
                  unaligned_counts(std::get<Convolution>(op.body), step), step, to_string(math)),
      widen(op, wide, feeds_batch_norm(graph, input.workload, first)), saving);
  finding.evidence = {
      Evidence::published(fmt::format("16 bytes are {} channels of {}", step, to_string(math)),
                          "NVIDIA Convolutional Layers User's Guide, checklist"),
      Evidence::published(
          "cuDNN before 7.6.3 leaves the Tensor Cores out here, newer versions are only slower",
          "NVIDIA, Get Started With Deep Learning Performance"),
      Evidence::estimated(
          fmt::format("{:.0f} flop per byte: math-bound on {} (minimal traffic, data-sheet ridge).",
                      input.analysis.ops[first].cost.intensity().value(), input.device().name))};
  soften_unless_clear(input, finding);
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  const Graph& graph = input.graph;
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_candidate(input, layer)) continue;
    const std::size_t first = layer.ops.front();
    const auto& conv = std::get<Convolution>(input.workload.ops[first].body);
    const Dtype math = input.analysis.ops[first].products.front().math;
    const Convolution wide = aligned(conv, alignment_elements(math));
    if (wide == conv) continue;
    const auto change = [&](Op op) {
      op.body = wide;
      return op;
    };
    const auto saving = saving_if_all(input, layer, change);
    if (!is_gain(input, saving)) continue;
    findings.push_back(unaligned_at(input, graph, layer, wide, *saving));
    note_changes(input, layer, change, findings.back());
  }
  return findings;
}

}  // namespace conv_unaligned_channels_rule

extern const Rule conv_unaligned_channels{
    .id = "conv/unaligned-channels",
    .level = Level::warning,
    .level_in_scripts = Level::advice,
    .cause = Cause::alignment,
    .summary = "Convolution channels are not whole 16-byte groups",
    .doc = conv_unaligned_channels_rule::kDoc,
    .in_ops = conv_unaligned_channels_rule::check_operations,
    .in_scripts = unaligned_channels_in_source};

}  // namespace rooftile
