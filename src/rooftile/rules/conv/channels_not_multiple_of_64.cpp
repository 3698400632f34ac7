// The last few output channels of a layer that cost a whole column of tiles.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_channels_not_multiple_of_64_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A dense, math-bound convolution on Tensor Cores whose output channels are whole 16-byte groups but not
a multiple of 64, and whose last channels cost much more time than their share.

## Why it costs time
The implicit GEMM is computed in tiles whose sides are 64, 128 or 256 for the efficient
kernels. 136 channels need as many columns of tiles as 192 do, or smaller tiles that reuse less.

## How to fix
Choose the multiple of 64 below or above before training. The message compares both per unit of width.

## How the saving is estimated
The time model runs on the layer at both multiples of 64, in every phase the workload has. The saving
is at equal work: time per channel times the present channels. It is reported when the channels above
the lower multiple take at least twice their share of the time, so what counts is the waste and not the
smaller layer.

## When not to
- Trained weights: the channels are there for a reason, and dropping them changes the model.
- Libraries have more tile sizes than the guide lists; not every odd multiple of 8 is slow.
- The efficient kernels are not the only ones: a layer of 160 channels may run in five columns of 32 or
  in 128 and 32. The range of the saving covers that; measure.
- Memory-bound, grouped and depthwise layers are not reported.

## Evidence
- NVIDIA, Convolutional Layers User's Guide, checklist: batch and channels divisible by at least 64,
  ideally 256, to avoid tile quantization.
- NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization".
)md";

constexpr std::int64_t kTileSide = 64;
// Share of the time over share of the channels, from which on it is waste.
constexpr double kMinTimePerChannel = 2;

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const OpAnalysis& analysis = input.analysis.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  if (conv.groups > 1 || conv.k <= kTileSide || conv.k % kTileSide == 0) return false;
  return on_tensor_cores(analysis, input.device()) && is_math_bound(analysis, input.device()) &&
         conv.k % alignment_elements(analysis.products.front().math) == 0 && matters(layer);
}

Op with_outputs(const Op& op, std::int64_t channels) {
  Op changed = op;
  std::get<Convolution>(changed.body).k = channels;
  return changed;
}

// Share of the layer's time that the channels above the multiple of 64 below take.
std::optional<double> share_of_rest(const RuleInput& input, const LayerGroup& layer,
                                    std::int64_t fewer) {
  const auto saving =
      saving_if_all(input, layer, [&](const Op& op) { return with_outputs(op, fewer); });
  if (!saving) return std::nullopt;
  return saving->expected / total_time(input, layer).time.expected;
}

Finding waste_at(const RuleInput& input, const LayerGroup& layer,
                 const std::vector<WidthOption>& options, double rest_share) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const std::int64_t channels = std::get<Convolution>(op.body).k;
  const std::int64_t rest = channels % kTileSide;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("{} output channels are not a multiple of {}: the last {} are {} of the "
                  "layer and take {} of its time, since they do not fill their last tile.",
                  channels, kTileSide, rest,
                  share_text(static_cast<double>(rest) / static_cast<double>(channels)),
                  share_text(rest_share)),
      {fmt::format("In the next model choose {} output channels instead of {}.",
                   width_options_text(options, total_time(input, layer).time.expected), channels),
       Exactness::changes_training},
      best_saving(options));
  const auto& time = input.analysis.ops[layer.ops.front()].time;
  if (time && time->grid) {
    finding.evidence = {Evidence::estimated(fmt::format(
        "{}x{} tiles: {} of what they compute is used (NVIDIA Matrix Multiplication "
        "Background User's Guide, \"Tile Quantization\").",
        time->grid->tile.rows, time->grid->tile.cols, share_text(time->grid->tile_efficiency)))};
  }
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_candidate(input, layer)) continue;
    const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
    const std::int64_t rest = conv.k % kTileSide;
    const auto rest_share = share_of_rest(input, layer, conv.k - rest);
    const double channel_share = static_cast<double>(rest) / static_cast<double>(conv.k);
    if (!rest_share || *rest_share < kMinTimePerChannel * channel_share) continue;
    const auto options = tile_edges(input, layer, conv.k, kTileSide, with_outputs);
    if (options.empty() || !is_gain(input, best_saving(options))) continue;
    findings.push_back(waste_at(input, layer, options, *rest_share));
  }
  return findings;
}

}  // namespace conv_channels_not_multiple_of_64_rule

extern const Rule conv_channels_not_multiple_of_64{
    .id = "conv/channels-not-multiple-of-64",
    .level = Level::advice,
    .cause = Cause::tile_shape,
    .summary = "Output channels not a multiple of 64: last tile mostly padding",
    .doc = conv_channels_not_multiple_of_64_rule::kDoc,
    .in_ops = conv_channels_not_multiple_of_64_rule::check};

}  // namespace rooftile
