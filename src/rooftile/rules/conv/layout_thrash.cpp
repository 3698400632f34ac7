// Layout conversions on both sides of convolutions.
#include <fmt/format.h>

#include <deque>
#include <set>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/workload/graph.h"

namespace rooftile {
namespace conv_layout_thrash_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A copy that moves the channel axis (NCHW to NHWC or back) in front of convolutions and another one
behind them, found through the data flow. One finding for the network.

## Why it costs time
Each conversion reads and writes the whole tensor and computes nothing. Around a memory-bound layer a
pair of them costs as much as the layer.

## How to fix
Keep one memory order from end to end: channels_last for the whole network, so that permutes to
channels-last order are views, or the form of the neighbouring layers that takes channels first.

## How the saving is estimated
The time of the conversions: all of it at the high end, half of it at the low end, because a conversion
at the border of the network may have to stay.

## When not to
- One conversion at the network's input or in front of its head, as after a patch embedding, is not a
  pair and is not reported.
- In PyTorch a permute is a view. It costs time only where the next operation needs contiguous data. An
  ONNX Transpose is a copy.

## Evidence
- PyTorch issue 81940: conversion kernels take 16.6 and 15.7 per cent of the GPU time of one network.
- NVIDIA, Convolutional Layers User's Guide, "Tensor Layouts": NHWC avoids the transposes that Tensor
  Core kernels otherwise need.
)md";

constexpr std::size_t kMaxSteps = 64;  // operations followed behind one conversion

// Last axis to channel position or back: 0x2x3x1 and 0x3x1x2, and their 1-D and 3-D forms.
bool moves_channels(const LayoutConversion& conversion) {
  const Extents& perm = conversion.perm;
  if (perm.empty()) return true;
  const auto rank = static_cast<std::int64_t>(perm.size());
  if (rank < 3 || perm.front() != 0) return false;
  const bool to_last = perm.back() == 1;
  const bool to_first = perm[1] == rank - 1;
  for (std::size_t axis = 1; axis + 1 < perm.size(); ++axis) {
    const auto at = static_cast<std::int64_t>(axis);
    if (to_last && perm[axis] != at + 1) return false;
    if (!to_last && perm[axis + 1] != at) return false;
  }
  return to_last || to_first;
}

bool is_conversion(const Op& op) {
  const auto* conversion = std::get_if<LayoutConversion>(&op.body);
  return conversion != nullptr && moves_channels(*conversion);
}

// What keeps the order of its input; anything else, such as attention, ends the search.
bool keeps_order(const Op& op) {
  return std::holds_alternative<Convolution>(op.body) ||
         std::holds_alternative<Elementwise>(op.body) ||
         std::holds_alternative<Normalization>(op.body) ||
         std::holds_alternative<Pooling>(op.body) || std::holds_alternative<Cast>(op.body);
}

// The conversion that undoes `start` behind at least one convolution.
class PairSearch {
 public:
  PairSearch(const Workload& workload, const Graph& graph) : workload_(workload), graph_(graph) {}

  std::optional<std::size_t> partner(std::size_t start) const {
    std::deque<Step> queue{{start, false}};
    std::set<Step> seen;
    while (!queue.empty() && seen.size() < kMaxSteps) {
      const Step step = queue.front();
      queue.pop_front();
      for (const std::size_t next : readers(step.op)) {
        const Op& op = workload_.ops[next];
        if (is_conversion(op) && step.behind_convolution) return next;
        const Step follow{next,
                          step.behind_convolution || std::holds_alternative<Convolution>(op.body)};
        if (keeps_order(op) && seen.insert(follow).second) queue.push_back(follow);
      }
    }
    return std::nullopt;
  }

 private:
  struct Step {
    std::size_t op;
    bool behind_convolution;
    auto operator<=>(const Step&) const = default;
  };

  std::vector<std::size_t> readers(std::size_t op) const {
    std::vector<std::size_t> all;
    for (const std::string& value : workload_.ops[op].outputs) {
      const std::vector<std::size_t>& some = graph_.consumers(value);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  const Workload& workload_;
  const Graph& graph_;
};

std::vector<std::size_t> paired_conversions(const Workload& workload, const Graph& graph) {
  const PairSearch search(workload, graph);
  std::set<std::size_t> paired;
  for (std::size_t op = 0; op < workload.ops.size(); ++op) {
    if (workload.ops[op].phase != Phase::forward || !is_conversion(workload.ops[op])) continue;
    if (const auto partner = search.partner(op)) {
      paired.insert(op);
      paired.insert(*partner);
    }
  }
  return {paired.begin(), paired.end()};
}

// Assumed: the first conversion of a pair can stay, when the network's input or output needs it.
constexpr double kLeastSaved = 0.5;

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup conversions =
      with_gradients(input, paired_conversions(input.workload, input.graph));
  if (!matters(conversions)) return {};
  const Range<Seconds> time = total_time(input, conversions).time;
  Finding finding = finding_at_groups(
      input, {conversions},
      fmt::format("Layout conversions around convolutions take {} of the time and compute "
                  "nothing.",
                  share_text(conversions.time_share)),
      {"Keep one memory order from end to end: channels_last makes these permutes views.",
       Exactness::exact_arithmetic},
      Range<Seconds>{time.low * kLeastSaved, time.expected * (kLeastSaved + 1) / 2, time.high});
  finding.evidence = {Evidence::estimated("Each conversion reads and writes its tensor once.")};
  return {finding};
}

}  // namespace conv_layout_thrash_rule

extern const Rule conv_layout_thrash{
    .id = "conv/layout-thrash",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Tensors change layout around convolutions and back",
    .doc = conv_layout_thrash_rule::kDoc,
    .in_ops = conv_layout_thrash_rule::check};

}  // namespace rooftile
