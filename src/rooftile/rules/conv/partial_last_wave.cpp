// A batch size at which the tiles of the convolutions leave many SMs idle in their last wave.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace conv_partial_last_wave_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A network that spends most of its time in convolutions, at a batch size where another multiple of 8, up
to a quarter larger or smaller, takes clearly less time per sample. One finding for the network.

## Why it costs time
A GPU computes the tiles of a layer in waves of one tile per SM. When the last wave is nearly empty,
most SMs wait for a few. With N*P*Q rows and K columns the batch is the knob that changes nothing else
in the layer.

## How to fix
Use the batch size named, or scan its neighbourhood. Scale the learning rate as you would for any change
of the batch.

## How the saving is estimated
The time model runs on all convolutions at each batch; times are compared per sample. No layer saves
more than the share of its time in which SMs have no tile. What a larger batch saves by spreading
launches over more samples is not counted. What a smaller batch loses is: more
launches for the same samples in every operation, and the optimizer step. The saving is for one pass at
the present number of samples.

## When not to
- NVIDIA's checklist asks for a batch and channels that are divisible by 64, ideally 256. For channels
  that is tile quantization, see `conv/channels-not-multiple-of-64`. For the batch it is sufficient, not
  necessary: rows of the tiles are N*P*Q. At 56x56 = 49 * 64 positions any batch fills tiles of 64 rows;
  at 7x7 only a multiple of 64 does, but the last partly filled tile is one of hundreds. What remains is
  the count of tiles against the SMs, where 256 is no better than its neighbours: 256 * 56 * 56 rows of
  64 channels are 6272 tiles of 128x64, or 58.07 waves on 108 SMs. With many waves the last one does not
  matter, so a batch of 256 is rarely reported.
- Only multiples of 8 are proposed, below a batch of 24 multiples of the power of two in the present one:
  odd batches make data loading, sharding and the layers after the convolutions awkward.
- The best batch differs from layer to layer; all of them are weighed. Kernels chosen by cuDNN may
  have other tiles than assumed.
- A larger batch needs more memory, and it changes training.
- Networks that are not dominated by convolutions are not reported.

## Evidence
- NVIDIA, Matrix Multiplication Background User's Guide, "Wave Quantization".
- NVIDIA, Convolutional Layers User's Guide: the implicit GEMM of the forward pass is (N*P*Q) x K x
  (C*R*S); checklist: batch and channels divisible by at least 64 and ideally 256.
)md";

constexpr double kDominantShare = threshold::kMost;
constexpr double kMinGain = threshold::kBeyondModelError;  // of the convolutions' time, per sample
constexpr std::int64_t kCandidates = 16;
constexpr std::int64_t kBatchStep = 8;
constexpr std::int64_t kSmallBatch = 24;  // a quarter of it is less than the step

// The batch that all candidates share; 0 where they differ.
std::int64_t common_batch(const RuleInput& input, const LayerGroup& convs) {
  std::int64_t batch = 0;
  for (const std::size_t op : convs.ops) {
    const std::int64_t n = std::get<Convolution>(input.workload.ops[op].body).n;
    if (batch != 0 && n != batch) return 0;
    batch = n;
  }
  return batch;
}

// Batches from three to five quarters of the present one, evenly spaced.
std::vector<std::int64_t> nearby_batches(std::int64_t batch) {
  const std::int64_t reach = batch / 4;
  const std::int64_t unit = batch < kSmallBatch ? std::gcd(batch, kBatchStep) : kBatchStep;
  const std::int64_t step = round_up(std::max<std::int64_t>(1, 2 * reach / kCandidates), unit);
  std::vector<std::int64_t> batches;
  for (std::int64_t n = round_up(batch - reach, step); n <= batch + reach; n += step) {
    if (n != batch) batches.push_back(n);
  }
  return batches;
}

struct Choice {
  std::int64_t batch = 0;
  Range<Seconds> saving{};
};

// Saving of one run at another batch, for the present number of samples and without amortised
// launches. What other kernels would save at that batch is no matter of waves.
std::optional<Range<Seconds>> saving_of_run(const RuleInput& input, std::size_t op,
                                            std::int64_t other) {
  Op changed = input.workload.ops[op];
  auto& conv = std::get<Convolution>(changed.body);
  const double samples = static_cast<double>(conv.n) / static_cast<double>(other);
  conv.n = other;
  const std::optional<TimeEstimate>& before = input.analysis.ops[op].time;
  const std::optional<TimeEstimate> after = input.model.estimate(changed);
  if (!before || !after) return std::nullopt;
  const Seconds launches = before->launch - after->launch * samples;
  const Range<Seconds> saving = estimate_saving(*before, *after * samples) +
                                Range<Seconds>{-1.0 * launches, -1.0 * launches, -1.0 * launches};
  return capped(saving, idle_in_waves(*before));
}

// Of all runs; equal operations are estimated once.
Range<Seconds> saving_at(const RuleInput& input, const std::vector<LayerGroup>& layers,
                         std::int64_t other) {
  Range<Seconds> sum{};
  for (const LayerGroup& layer : layers) {
    for (const Phase phase : {Phase::forward, Phase::dgrad, Phase::wgrad}) {
      const auto first = std::find_if(layer.ops.begin(), layer.ops.end(), [&](std::size_t op) {
        return input.workload.ops[op].phase == phase;
      });
      if (first == layer.ops.end()) continue;
      const auto saving = saving_of_run(input, *first, other);
      if (saving) sum += *saving * count_runs(input.workload, layer, phase);
    }
  }
  return sum;
}

// Time that does not shrink with the batch: the optimizer step and the launches of all operations.
Seconds fixed_time(const RuleInput& input) {
  Seconds sum;
  for (std::size_t i = 0; i < input.workload.ops.size(); ++i) {
    const Op& op = input.workload.ops[i];
    const auto& time = input.analysis.ops[i].time;
    if (!time) continue;
    const bool per_step = std::holds_alternative<OptimizerStep>(op.body);
    sum += (per_step ? time->time.expected : time->launch) * static_cast<double>(op.count);
  }
  return sum;
}

Choice best_batch(const RuleInput& input, std::int64_t batch) {
  const std::vector<LayerGroup> layers =
      group_equal_layers(input.workload, input.analysis, is_convolution);
  const Seconds fixed = fixed_time(input);
  Choice best;
  for (const std::int64_t other : nearby_batches(batch)) {
    const double more_steps = static_cast<double>(batch) / static_cast<double>(other) - 1;
    const Seconds loss = fixed * std::max(0.0, more_steps);
    const Range<Seconds> saving =
        saving_at(input, layers, other) + Range<Seconds>{-1.0 * loss, -1.0 * loss, -1.0 * loss};
    if (saving.expected > best.saving.expected) best = {other, saving};
  }
  return best;
}

// Mean busy share of the SMs, weighted with time.
double mean_wave_efficiency(const RuleInput& input, const LayerGroup& convs) {
  double weight = 0, sum = 0;
  for (const std::size_t op : convs.ops) {
    const auto& time = input.analysis.ops[op].time;
    if (!time || !time->grid) continue;
    weight += input.analysis.ops[op].time_share;
    sum += input.analysis.ops[op].time_share * time->grid->wave_efficiency;
  }
  return weight > 0 ? sum / weight : 1;
}

Finding partial_wave_finding(const RuleInput& input, const LayerGroup& convs, std::int64_t batch,
                             const Choice& best) {
  const bool training = input.workload.mode == Mode::training;
  const double gain = best.saving.expected / total_time(input, convs).time.expected;
  return finding_at_groups(
      input, {convs},
      fmt::format("At batch {} the convolutions' last waves of tiles leave SMs idle (mean wave "
                  "efficiency {}): batch {} takes {} less of their time per sample.",
                  batch, share_text(mean_wave_efficiency(input, convs)), best.batch,
                  share_text(gain)),
      {fmt::format("Use batch {} (activation memory {}).", best.batch,
                   share_text(static_cast<double>(best.batch) / static_cast<double>(batch) - 1)),
       training ? Exactness::changes_training : Exactness::exact_arithmetic},
      best.saving);
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows the real grids: gemm/idle-last-wave judges them.
  if (!input.workload.traces.empty()) return {};
  // sizing/batch-leaves-throughput names a batch for the whole network instead.
  if (input.curve != nullptr && find_better_batch(*input.curve)) return {};
  const LayerGroup convs =
      select(input, [&](std::size_t op) { return is_convolution(input.workload.ops[op]); });
  if (convs.time_share < kDominantShare) return {};
  const std::int64_t batch = common_batch(input, convs);
  if (batch < 4) return {};
  const Choice best = best_batch(input, batch);
  if (best.saving.expected < kMinGain * total_time(input, convs).time.expected) return {};
  Finding finding = partial_wave_finding(input, convs, batch, best);
  finding.evidence = {Evidence::published(
      fmt::format("{} SMs compute one tile each at a time", input.device().sms),
      "NVIDIA Matrix Multiplication Background User's Guide, \"Wave Quantization\"")};
  return {finding};
}

}  // namespace conv_partial_last_wave_rule

extern const Rule conv_partial_last_wave{
    .id = "conv/partial-last-wave",
    .level = Level::advice,
    .cause = Cause::tile_shape,
    .summary = "Batch leaves the convolutions' last wave nearly empty",
    .doc = conv_partial_last_wave_rule::kDoc,
    .in_ops = conv_partial_last_wave_rule::check};

}  // namespace rooftile
