#include "rooftile/analysis/batch_curve.h"

#include <algorithm>
#include <cmath>

namespace rooftile {
namespace {

// Below it, a larger batch buys latency for little throughput.
constexpr double kKneeGain = 0.1;
// Nobody changes a batch for less, and the model's error on a whole network is of this size. Where
// each pass gets slower, the throughput has to grow by half.
constexpr double kMinBetterStep = 0.2, kMinBetterPass = 1.0 / 3;

double min_better(Mode mode) { return mode == Mode::training ? kMinBetterStep : kMinBetterPass; }
constexpr double kMostMath = 0.5;
// Of the least time per sample: a smaller batch with about the same throughput answers sooner.
constexpr double kAboutBest = 0.05;
// What doublings save halves from one to the next, for it is the fixed cost of a pass: after a gain
// of so much, all further ones together stay below kAboutBest. Two in a row, for tiles and waves
// make single ones irregular.
constexpr double kNoGain = kAboutBest / 2;
constexpr std::size_t kDoublingsWithoutGain = 2;
// The largest batches in use. SGD with momentum keeps its accuracy on ImageNet up to 8,192 images
// (Goyal et al., "Accurate, Large Minibatch SGD", arXiv:1706.02677); TensorRT-LLM builds engines
// for batches up to 2,048 unless told otherwise (its max_batch_size).
constexpr std::int64_t kMostTrained = 8192, kMostServed = 2048;

// What the points from `i` to `best` save together, of the first point's time per sample.
double share_saved_by(const BatchCurve& curve, std::size_t i, std::size_t best) {
  return (curve.points[i].per_sample() - curve.points[best].per_sample()) /
         curve.points.front().per_sample();
}

// Samples a second over the seconds that each waits: Kleinrock's power of a queue, whose maximum is
// the knee. Beyond it a pass grows faster than what it does.
double throughput_over_latency(const BatchPoint& point) {
  const double step = point.step().value();
  return to_double(point.batch) / (step * step);
}

// From the best batch back to the smallest that saves about as much.
std::size_t smallest_about_as_good(const BatchCurve& curve, std::size_t best) {
  std::size_t i = 0;
  while (i < best && share_saved_by(curve, i, best) > kAboutBest) ++i;
  return i;
}

}  // namespace

std::int64_t most_in_use(Mode mode) { return mode == Mode::training ? kMostTrained : kMostServed; }

BatchCurve without_launches(BatchCurve curve) {
  for (BatchPoint& point : curve.points) point.host = {};
  return curve;
}

std::int64_t largest_good(std::int64_t good, std::int64_t bad,
                          const std::function<bool(std::int64_t)>& is_good) {
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (is_good(middle) ? good : bad) = middle;
  }
  return good;
}

BatchPoint batch_point(const Workload& workload, const TimeModel& model) {
  const Analysis analysis = analyse(workload, model);
  BatchPoint point;
  point.batch = workload.batch.value_or(1);
  point.time = analysis.total;
  point.memory = estimate_memory(workload, model.device());
  point.bound = bound_share(workload, analysis, model.device());
  point.host = estimate_host(workload);
  point.replayed = !waits_for_launches(workload.mode);
  point.runs = known_runs(workload, analysis);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const auto& time = analysis.ops[i].time;
    if (time) point.sum = point.sum + *time * to_double(workload.ops[i].count);
  }
  return point;
}

double gain_of_doubling(const BatchCurve& curve, std::size_t i) {
  const BatchPoint &now = curve.points[i], &next = curve.points[i + 1];
  if (now.per_sample() <= Seconds()) return 0;
  const double left = next.per_sample() / now.per_sample();
  const double doublings = std::log2(to_double(next.batch) / to_double(now.batch));
  return 1 - std::pow(left, 1 / doublings);
}

std::optional<std::size_t> find_knee(const BatchCurve& curve) {
  for (std::size_t i = 0; i + 1 < curve.points.size(); ++i) {
    if (gain_of_doubling(curve, i) < kKneeGain) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> find_ridge_crossing(const BatchCurve& curve) {
  std::optional<std::size_t> crossing;
  for (std::size_t i = curve.points.size(); i-- > 0;) {
    if (curve.points[i].bound.math <= kMostMath) break;
    crossing = i;
  }
  return crossing;
}

BatchCurve batch_curve(const Workload& workload, const TimeModel& model,
                       const std::function<std::optional<Workload>(std::int64_t)>& at) {
  BatchCurve curve;
  curve.mode = workload.mode;
  if (!workload.batch) return curve;
  const auto fits = [&](const Workload& one) {
    return estimate_memory(one, model.device()).fit() == Fit::fits;
  };
  const auto add = [&](Workload one, std::int64_t batch) {
    one.batch = batch;
    curve.points.push_back(batch_point(one, model));
  };
  add(workload, *workload.batch);
  if (!fits(workload)) return curve;
  std::size_t without_gain = 0;
  for (std::int64_t next = 2 * *workload.batch; next <= most_in_use(workload.mode); next *= 2) {
    const std::optional<Workload> larger = at(next);
    if (!larger) break;
    if (!fits(*larger)) {
      const std::int64_t last = curve.points.back().batch;
      const std::int64_t most = largest_good(last, next, [&](std::int64_t batch) {
        const std::optional<Workload> between = at(batch);
        return between && fits(*between);
      });
      if (most > last) add(*at(most), most);
      curve.ends_at_memory = true;
      break;
    }
    add(*larger, next);
    const bool gains = gain_of_doubling(curve, curve.points.size() - 2) >= kNoGain;
    without_gain = gains ? 0 : without_gain + 1;
    if (without_gain == kDoublingsWithoutGain) break;
  }
  return curve;
}

std::optional<std::size_t> find_best_batch(const BatchCurve& curve) {
  std::optional<Seconds> least;
  std::optional<std::size_t> tight;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const BatchPoint& point = curve.points[i];
    const Fit fit = point.memory.fit();
    if (fit == Fit::fits) least = std::min(least.value_or(point.per_sample()), point.per_sample());
    if (fit == Fit::tight && !tight) tight = i;
  }
  if (!least) return tight;
  const auto about_least = std::ranges::find_if(curve.points, [&](const BatchPoint& point) {
    return point.memory.fit() == Fit::fits && point.per_sample() <= *least * (1 + kAboutBest);
  });
  const auto last = static_cast<std::size_t>(about_least - curve.points.begin());
  if (curve.mode == Mode::training) return last;
  std::size_t best = last;
  for (std::size_t i = last; i-- > 0;) {
    const bool fits = curve.points[i].memory.fit() == Fit::fits;
    if (fits &&
        throughput_over_latency(curve.points[i]) > throughput_over_latency(curve.points[best])) {
      best = i;
    }
  }
  return best;
}

std::optional<BetterBatch> find_better_batch(const BatchCurve& curve) {
  std::optional<std::size_t> best = find_best_batch(curve);
  if (!best || *best == 0) return std::nullopt;
  if (curve.mode == Mode::training) best = smallest_about_as_good(curve, *best);
  const BatchPoint& now = curve.points.front();
  const BatchPoint& then = curve.points[*best];
  const double left = then.kernels_per_sample() / now.kernels_per_sample();
  if (left > 1 - min_better(curve.mode)) return std::nullopt;
  const double share = to_double(now.batch) / to_double(then.batch);
  Range<Seconds> saving = estimate_saving(now.sum, then.sum * share);
  const bool is_large = left <= 1 - kLargeGain;
  if (saving.low <= Seconds() && !is_large) return std::nullopt;
  // More samples never take longer each.
  saving.low = std::max(saving.low, Seconds());
  return BetterBatch{*best, saving};
}

}  // namespace rooftile
