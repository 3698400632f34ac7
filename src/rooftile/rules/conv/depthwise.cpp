// Depthwise convolutions, which no alignment or Tensor Core advice can speed up.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/analysis/cost.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/trace_finding.h"

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
In this model move fewer bytes: 16-bit tensors, channels_last memory format, and a compiler that fuses
the following normalisation and activation. In the next one prefer dense layers: the finding names the
dense layer that takes as long as the depthwise layer of most time with the 1x1 layer behind it. It has
fewer channels, at least half of them, and does more arithmetic.

## How the saving is estimated
No saving is given, because the dense layer is another model. The time model runs on both, forward; of
the multiples of 64 (below that 32 and 16) the widest that takes no longer is named.

## When not to
- Do not widen the layer to multiples of 8 for speed. There is no alignment advice for it.
- Accuracy comes first: whether the dense layer is as accurate has to be measured.
- Networks made for phones use these layers for their low flop count. On a GPU flop count does not
  predict their time.

## Evidence
- Arithmetic intensity: 2 * 9 flop for 2 + 2 bytes of one 16-bit element in and out is 4.5 flop per
  byte.
- M. Tan, Q. Le, "EfficientNetV2", 2021: depthwise convolutions are slow in early layers; dense 3x3 layers
  in place of expansion and depthwise layer train faster.
- PyTorch Inductor, layout heuristics (torch/_inductor/graph.py): a depthwise 3x3 layer runs 1.86 times
  as fast in channels_last.
)md";

constexpr std::int64_t kMostChannels = 4096;  // of a dense layer that is tried
constexpr double kMinMoreFlop = 1.2;          // of the dense layer, to be worth a word
constexpr int kMostBetween = 4;  // norms and activations between depthwise and 1x1 layer

bool is_depthwise_forward(const Op& op) {
  const auto* conv = std::get_if<Convolution>(&op.body);
  return conv != nullptr && op.phase == Phase::forward && is_depthwise(*conv) && !conv->transposed;
}

Seconds time_of_one(const RuleInput& input, std::size_t op) {
  const auto& time = input.analysis.ops[op].time;
  return time ? time->time.expected : Seconds(0);
}

bool is_pointwise_behind(const Op& op, const Convolution& depthwise) {
  const auto* conv = std::get_if<Convolution>(&op.body);
  return conv != nullptr && is_pointwise(*conv) && conv->groups == 1 && conv->c == depthwise.k;
}

// The 1x1 layer that reads the depthwise one's output, norms and activations between them.
std::optional<std::size_t> pointwise_behind(const RuleInput& input, std::size_t depthwise) {
  const auto& conv = std::get<Convolution>(input.workload.ops[depthwise].body);
  std::optional<std::size_t> op = depthwise;
  for (int step = 0; step < kMostBetween && op; ++step) {
    op = input.graph.sole_consumer(*op);
    if (op && is_pointwise_behind(input.workload.ops[*op], conv)) return op;
  }
  const bool is_listed_next = depthwise + 1 < input.workload.ops.size() &&
                              is_pointwise_behind(input.workload.ops[depthwise + 1], conv);
  return is_listed_next ? std::optional(depthwise + 1) : std::nullopt;
}

struct Separable {
  std::size_t depthwise = 0, pointwise = 0;
};

// The depthwise layer that takes most of the time with all its runs, and its 1x1 layer.
std::optional<Separable> largest_separable(const RuleInput& input, const LayerGroup& layers) {
  std::optional<Separable> best;
  const auto share = [&](std::size_t op) { return input.analysis.ops[op].time_share; };
  for (const std::size_t op : layers.ops) {
    if (!is_depthwise_forward(input.workload.ops[op])) continue;
    if (best && share(op) <= share(best->depthwise)) continue;
    if (const auto behind = pointwise_behind(input, op)) best = Separable{op, *behind};
  }
  return best;
}

struct Dense {
  std::int64_t channels = 0;
  Seconds time;
  double more_flop = 0;  // of the layers it stands for
};

// The widest dense layer with the depthwise one's kernel that takes no longer than `time`.
std::optional<Dense> dense_in(const RuleInput& input, std::size_t depthwise, Seconds time,
                              Flop flop) {
  Op dense = input.workload.ops[depthwise];
  auto& conv = std::get<Convolution>(dense.body);
  const std::int64_t widest = std::min(conv.c, kMostChannels) / 64 * 64;
  conv.groups = 1;
  std::vector<std::int64_t> widths;
  for (std::int64_t width = widest; width >= 64; width -= 64) widths.push_back(width);
  widths.insert(widths.end(), {32, 16});
  for (const std::int64_t width : widths) {
    conv.c = conv.k = width;
    const auto estimate = input.model.estimate(dense);
    if (!estimate || estimate->time.expected > time) continue;
    const double more = count_cost(dense).flop / flop;
    return more >= kMinMoreFlop ? std::optional(Dense{width, estimate->time.expected, more})
                                : std::nullopt;
  }
  return std::nullopt;
}

// "a dense 3x3 layer of 128 channels in place of dw and the 1x1 layer behind it …"; empty where no
// dense layer of half their channels is as fast.
std::optional<std::string> dense_text(const RuleInput& input, const LayerGroup& layers) {
  const auto pair = largest_separable(input, layers);
  if (!pair) return std::nullopt;
  const Op& op = input.workload.ops[pair->depthwise];
  const auto& conv = std::get<Convolution>(op.body);
  const auto& pointwise = std::get<Convolution>(input.workload.ops[pair->pointwise].body);
  const Seconds time = time_of_one(input, pair->depthwise) + time_of_one(input, pair->pointwise);
  const Flop flop =
      input.analysis.ops[pair->depthwise].cost.flop + input.analysis.ops[pair->pointwise].cost.flop;
  const auto dense = dense_in(input, pair->depthwise, time, flop);
  if (!dense || 2 * dense->channels < std::min(conv.c, pointwise.k)) return std::nullopt;
  std::vector<std::string> kernel;
  for (const std::int64_t size : conv.kernel) kernel.push_back(std::to_string(size));
  return fmt::format(
      "a dense {} layer of {} channels in place of {} and the 1x1 layer behind it ({} to {} "
      "channels): {} instead of {}, for {:.2g} times the flop",
      join(kernel, "x"), dense->channels, op.name, conv.c, pointwise.k, time_text(dense->time),
      time_text(time), dense->more_flop);
}

Fix fix_for(const RuleInput& input, const LayerGroup& layers) {
  constexpr std::string_view kBytes =
      "In this model reduce bytes, not flop: 16-bit channels_last tensors, and fuse the "
      "neighbouring normalisation and activation.";
  const auto dense = dense_text(input, layers);
  if (!dense) return {std::string(kBytes), Exactness::not_applicable};
  return {fmt::format("{} In the next one try {}.", kBytes, *dense), Exactness::changes_training};
}

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup layers = select(input, [&](std::size_t op) {
    const auto* conv = std::get_if<Convolution>(&input.workload.ops[op].body);
    return conv != nullptr && is_depthwise(*conv);
  });
  if (!matters(layers)) return {};
  const std::size_t first = layers.ops.front();
  const Dtype dtype = input.workload.ops[first].dtypes.input;
  const auto ridge = input.device().ridge(dtype);
  Finding finding = finding_at_groups(
      input, {layers},
      fmt::format(
          "Depthwise convolutions take {} of the time and are memory-bound: the first "
          "does {:.1f} flop per byte{}.",
          share_text(layers.time_share), input.analysis.ops[first].cost.intensity().value(),
          ridge ? fmt::format(", {} needs {:.0f}", input.device().name, ridge->value()) : ""),
      fix_for(input, layers), std::nullopt);
  finding.evidence = {
      Evidence::estimated("Minimal traffic of the layer against the data sheet's ridge")};
  return {finding};
}

}  // namespace conv_depthwise_rule

extern const Rule conv_depthwise{.id = "conv/depthwise",
                                 .level = Level::info,
                                 .cause = Cause::none,
                                 .summary = "Depthwise convolutions are memory-bound",
                                 .doc = conv_depthwise_rule::kDoc,
                                 .in_ops = conv_depthwise_rule::check};

}  // namespace rooftile
