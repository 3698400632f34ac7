// The last few output channels of a layer that cost a whole column of tiles.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_channels_not_multiple_of_64_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A dense, math-bound convolution on Tensor Cores whose output channels are whole 16-byte groups but not
a multiple of 64, and whose last channels cost much more time than their share.

## Why it costs time
The implicit matrix product is computed in tiles whose sides are 64, 128 or 256 for the efficient
kernels. 136 channels need as many columns of tiles as 192 do, or smaller tiles that reuse less.

## How to fix
Choose the multiple of 64 below or above before training. The one below is a little smaller and much
faster; the one above has more channels for nearly the same time.

## How the saving is estimated
The time model runs on the layer with its output channels rounded down to a multiple of 64, in every
phase the workload has. The rule speaks when the share of time saved is at least twice the share of
channels removed, so what counts is the waste and not the smaller layer.

## When not to
- Trained weights: the channels are there for a reason, and dropping them changes the model.
- Libraries have more tile sizes than the guide lists; not every odd multiple of 8 is slow.
- Memory-bound, grouped and depthwise layers stay silent.

## Evidence
- NVIDIA, Convolutional Layers User's Guide, checklist: batch and channels divisible by at least 64,
  ideally 256, to avoid tile quantization.
- NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization".
)md";

constexpr std::int64_t kTileSide = 64;
// Time saved over channels removed, both as shares.
constexpr double kMinGainPerChannel = 2;

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const OpAnalysis& analysis = input.analysis.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  if (conv.groups > 1 || conv.k <= kTileSide || conv.k % kTileSide == 0) return false;
  return on_tensor_cores(analysis, input.device()) && is_math_bound(analysis, input.device()) &&
         conv.k % alignment_elements(analysis.products.front().math) == 0 && matters(layer);
}

Finding waste_at(const RuleInput& input, const LayerGroup& layer, std::int64_t fewer,
                 const Range<Seconds>& saving, double saved_share) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(op.body);
  const std::int64_t more = round_up(conv.k, kTileSide);
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format(
          "The last {} of {} output channels are {:.0f} % of the layer and cost {:.0f} % of "
          "its time: they start tiles of their own.",
          conv.k - fewer, conv.k,
          100.0 * static_cast<double>(conv.k - fewer) / static_cast<double>(conv.k),
          100 * saved_share),
      {fmt::format("Choose {} output channels, or {} for nearly the same time as now; this changes "
                   "the model.",
                   fewer, more),
       Exactness::changes_training},
      saving);
  const auto& time = input.analysis.ops[layer.ops.front()].time;
  if (time && time->grid) {
    finding.evidence = {fmt::format(
        "{}x{} tiles: {:.0f} % of what they compute is used (NVIDIA Matrix Multiplication "
        "Background "
        "User's Guide, \"Tile Quantization\").",
        time->grid->tile.rows, time->grid->tile.cols, 100 * time->grid->tile_efficiency)};
  }
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_candidate(input, layer)) continue;
    const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
    const std::int64_t fewer = conv.k / kTileSide * kTileSide;
    const auto saving = saving_if_all(input, layer, [&](Op op) {
      std::get<Convolution>(op.body).k = fewer;
      return op;
    });
    if (!is_gain(input, saving)) continue;
    const double saved_share = saving->expected / total_time(input, layer).time.expected;
    const double removed_share = static_cast<double>(conv.k - fewer) / static_cast<double>(conv.k);
    if (saved_share < kMinGainPerChannel * removed_share) continue;
    findings.push_back(waste_at(input, layer, fewer, *saving, saved_share));
  }
  return findings;
}

}  // namespace conv_channels_not_multiple_of_64_rule

extern const Rule conv_channels_not_multiple_of_64{
    .id = "conv/channels-not-multiple-of-64",
    .level = Level::advice,
    .cause = Cause::tile_shape,
    .summary = "The last output channels of a convolution start tiles of their own",
    .doc = conv_channels_not_multiple_of_64_rule::kDoc,
    .check = conv_channels_not_multiple_of_64_rule::check};

}  // namespace rooftile
