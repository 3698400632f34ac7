// Depthwise convolutions, which no alignment or Tensor Core advice can speed up.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace conv_depthwise_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Depthwise convolutions, one input channel a group, that take a visible share of the time. One finding
for the network.

## Why it costs time
A 3x3 depthwise layer in 16-bit does about 4.5 flop for each byte it moves. Every GPU needs hundreds
before its Tensor Cores are the limit. The layer's time is that of its memory traffic.

## How to fix
Move fewer bytes: 16-bit tensors, channels_last memory format, and a compiler that fuses the following
normalisation and activation. A dense convolution of the same cost in time is often more accurate;
that is another model.

## How the saving is estimated
No saving is given: nothing at this layer can be changed alone.

## When not to
- Do not widen the layer to multiples of 8 for speed. Rooftile gives no alignment advice for it.
- Networks made for phones use these layers for their low flop count. On a GPU flop count does not
  predict their time.

## Evidence
- Arithmetic intensity: 2 * 9 flop for 2 + 2 bytes of one 16-bit element in and out is 4.5 flop per
  byte.
- PyTorch Inductor, layout heuristics (torch/_inductor/graph.py): a depthwise 3x3 layer runs 1.86 times
  as fast in channels_last.
)md";

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup layers = select(input, [&](std::size_t op) {
    const auto* conv = std::get_if<Convolution>(&input.workload.ops[op].body);
    return conv != nullptr && is_depthwise(*conv);
  });
  if (layers.ops.empty() || !matters(layers)) return {};
  const std::size_t first = layers.ops.front();
  const Dtype dtype = input.workload.ops[first].dtypes.input;
  const auto ridge = input.device().ridge(dtype);
  Finding finding = finding_at_groups(
      input, {layers},
      fmt::format(
          "Depthwise convolutions take {:.0f} % of the time and are memory-bound: the first "
          "does {:.1f} flop per byte{}.",
          100 * layers.time_share, input.analysis.ops[first].cost.intensity().value(),
          ridge ? fmt::format(", {} needs {:.0f}", input.device().name, ridge->value()) : ""),
      {"Reduce bytes, not flop: 16-bit channels_last tensors, and fuse the neighbouring "
       "normalisation and activation.",
       Exactness::not_applicable},
      std::nullopt);
  finding.evidence = {"Minimal traffic of the layer against the data sheet's ridge."};
  return {finding};
}

}  // namespace conv_depthwise_rule

extern const Rule conv_depthwise{.id = "conv/depthwise",
                                 .level = Level::info,
                                 .cause = Cause::none,
                                 .summary = "Depthwise convolutions wait for memory",
                                 .doc = conv_depthwise_rule::kDoc,
                                 .check = conv_depthwise_rule::check};

}  // namespace rooftile
