#include <fmt/format.h>

#include <string>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace sizing_batch_leaves_throughput_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A network whose batch is so small that a larger one, which fits the GPU's memory, takes at least a
third less time per sample, in training a fifth.

## Why it costs time
Weights are read once for all samples of a batch, and small kernels leave most of the GPU idle: up
to some batch, more samples cost little more time. `rooftile sweep` shows the whole curve.

## How to fix
Run the batch that the message names, if latency and the training recipe allow it. In serving, let
the server collect requests (dynamic batching).

## How the saving is estimated
The time model predicts the whole network at twice the batch, four times, and so on, until doubling
saves nearly nothing per sample; where memory ends first, up to the largest batch that leaves a tenth
of it; at most up to a batch that is in use, 8,192 in training and 2,048 otherwise. For inference the
message names the batch with the most throughput over latency (Kleinrock's power), for beyond it a pass
grows faster than what it does; in training, where a larger batch is another recipe, the smallest over
which the best one saves less than 5 % of today's time. Doublings count
while they help the kernels or, where these are shorter, PyTorch's host code that launches them; the
gain is that of the kernels. In training the saving is at the work of today's
step. For inference no saving is given, because one pass gets slower: the message gives the throughput.

## When not to
- Latency comes first: each pass takes longer, as the message says.
- Another batch is another training run: learning rate and schedule may have to follow. Gradient
  accumulation can then take fewer and larger micro-batches for the same batch.
- Where samples are of unlike length, padding takes part of the gain.
- Where the range of the estimate leaves the gain open, in training too only gains of a third are
  reported; none where the batch is not known.

## Evidence
- NVIDIA GPU Performance Background User's Guide, "Understanding Performance": a layer of 4096 x
  1024 has an intensity of 1 at batch 1 and 315 at batch 512.
- NVIDIA Linear/Fully-Connected Layers User's Guide, "Batch size": throughput grows with the batch
  until the GPU is filled.
- L. Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer
  Communications", ICC 1979: throughput over delay is largest at the knee.
- Goyal et al., "Accurate, Large Minibatch SGD" (arXiv:1706.02677): ResNet-50 on ImageNet keeps its
  accuracy up to a batch of 8,192 and loses it beyond. TensorRT-LLM's default of max_batch_size is 2,048.
)md";

// "3.3×": two digits, without decimals from ten on.
std::string factor_text(double factor) {
  return factor < 10 ? fmt::format("{:.1f}×", factor) : fmt::format("{:.0f}×", factor);
}

std::string_view sample_name(const RuleInput& input) {
  return input.workload.mode == Mode::decode ? "token" : "sample";
}

// "; 10× where the host launches each operation", empty where the GPU takes longer than that.
std::string launched_text(const BatchPoint& now, const BatchPoint& better) {
  if (!now.waits_for_host()) return "";
  return fmt::format("; {} where the host launches each operation",
                     factor_text(now.per_sample() / better.per_sample()));
}

std::string message_of(const RuleInput& input, const BatchPoint& now, const BatchPoint& better) {
  const double longer = better.time.expected / now.time.expected;
  return fmt::format(
      "batch {} leaves throughput unused: batch {} takes {} the time, {} the {}s per second{}",
      now.batch, better.batch, factor_text(longer),
      factor_text(now.kernels_per_sample() / better.kernels_per_sample()), sample_name(input),
      launched_text(now, better));
}

Fix fix_of(const RuleInput& input, const BatchPoint& now, const BatchPoint& better) {
  const bool training = input.workload.mode == Mode::training;
  return {fmt::format("Run batch {} where {} allows it: {} instead of {} for each {}", better.batch,
                      training ? "the training recipe" : "latency", time_text(better.time.expected),
                      time_text(now.time.expected), training ? "step" : "pass"),
          training ? Exactness::changes_training : Exactness::exact_arithmetic};
}

std::string curve_text(const BatchCurve& curve) {
  std::string text;
  for (const BatchPoint& point : curve.points) {
    text += fmt::format("{}{} at {}", text.empty() ? "" : ", ",
                        time_text(point.kernels_per_sample()), point.batch);
  }
  return text;
}

std::string limit_text(const RuleInput& input, const BatchCurve& curve, std::size_t better) {
  if (better + 1 < curve.points.size() && curve.mode == Mode::training) {
    return fmt::format("all batches beyond, up to {}, save less than 5 % of the present time",
                       curve.points.back().batch);
  }
  if (better + 1 < curve.points.size()) {
    const BatchPoint &now = curve.points[better], &most = curve.points.back();
    return fmt::format(
        "batch {} has {} the {}s per second of batch {}, and a pass takes {} as long", most.batch,
        factor_text(now.per_sample() / most.per_sample()), sample_name(input), now.batch,
        factor_text(most.step() / now.step()));
  }
  return curve.ends_at_memory
             ? "no larger batch leaves a tenth of the GPU's memory free"
             : fmt::format("larger batches than {} were not tried", curve.points[better].batch);
}

// Empty where the GPU takes longer than the host.
std::string launch_text(const BatchPoint& now) {
  if (!now.waits_for_host()) return "";
  return fmt::format(
      "at batch {} PyTorch's host code takes {} to launch {:.0f} operations, kernels "
      "{}",
      now.batch, time_text(now.host.time.expected), now.host.launches,
      time_text(now.time.expected));
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.curve == nullptr || !input.workload.traces.empty()) return {};
  const std::optional<BetterBatch> found = find_better_batch(*input.curve);
  if (!found || !input.curve->points.front().is_known()) return {};
  const BatchPoint& now = input.curve->points.front();
  const BatchPoint& better = input.curve->points[found->point];
  Finding finding;
  finding.message = message_of(input, now, better);
  if (!input.workload.sources.empty()) finding.location.file = input.workload.sources.front();
  finding.fix = fix_of(input, now, better);
  if (input.workload.mode == Mode::training) finding.saving = found->saving;
  finding.evidence = {
      Evidence::estimated(
          fmt::format("predicted time per {}: {}", sample_name(input), curve_text(*input.curve))),
      Evidence::estimated(limit_text(input, *input.curve, found->point)),
      Evidence::published("throughput grows with the batch until the GPU is filled",
                          "NVIDIA Linear/Fully-Connected Layers User's Guide, Batch size")};
  const std::string launches = launch_text(now);
  if (!launches.empty()) finding.evidence.push_back(Evidence::estimated(launches));
  return {finding};
}

}  // namespace sizing_batch_leaves_throughput_rule

extern const Rule sizing_batch_leaves_throughput{
    .id = "sizing/batch-leaves-throughput",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "A larger batch takes much less time per sample",
    .doc = sizing_batch_leaves_throughput_rule::kDoc,
    .in_ops = sizing_batch_leaves_throughput_rule::check};

}  // namespace rooftile
