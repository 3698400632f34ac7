// Time and memory of one network over its batch: where more samples stop paying.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/bound_share.h"
#include "rooftile/analysis/coverage.h"
#include "rooftile/analysis/host_time.h"
#include "rooftile/analysis/memory/memory.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// One batch. Times are of one pass.
struct BatchPoint {
  std::int64_t batch = 1;
  Range<Seconds> time{};  // as Analysis::total
  TimeEstimate sum;       // of all operations the model knows, for savings
  MemoryEstimate memory{};
  BoundShare bound;
  HostEstimate host;      // to start it operation by operation
  bool replayed = false;  // by an engine, at once: the host does not matter
  KnownRuns runs;

  // Enough of the network has a time.
  bool is_known() const { return runs.are_enough(); }
  bool waits_for_host() const {
    return !replayed && is_known() && is_launch_bound(host, time.expected);
  }
  // The longer of kernels and launches.
  Seconds step() const { return waits_for_host() ? host.time.expected : time.expected; }
  Seconds per_sample() const { return step() / to_double(batch); }
  Seconds kernels_per_sample() const { return time.expected / to_double(batch); }
};

// The largest batch that is in use.
std::int64_t most_in_use(Mode mode);

// The workload's own batch, which it states.
BatchPoint batch_point(const Workload& workload, const TimeModel& model);

struct BatchCurve {
  std::vector<BatchPoint> points;  // batches ascend
  bool ends_at_memory = false;     // the last point is the largest that fits
  Mode mode = Mode::inference;
};

// The same where launches cost nothing: CUDA graphs, or a runtime that starts few kernels.
BatchCurve without_launches(BatchCurve curve);

// The largest batch that is good, from one that is to one that is not.
std::int64_t largest_good(std::int64_t good, std::int64_t bad,
                          const std::function<bool(std::int64_t)>& is_good);

// Share of the time per sample that doubling the batch of point `i` saves; between points that are
// not doublings, per doubling. Below 0 where it costs time.
double gain_of_doubling(const BatchCurve& curve, std::size_t i);

// The first point whose doubling saves less than a tenth; empty where all before the last save
// more.
std::optional<std::size_t> find_knee(const BatchCurve& curve);

// The first point from which on most of the time is bound by math, to the end of the curve.
std::optional<std::size_t> find_ridge_crossing(const BatchCurve& curve);

// Starts with the workload and doubles its batch until doublings save nearly nothing, the end of
// the GPU's memory, where the largest batch that fits is the last point, the largest batch that is
// in use, or a batch that `at` does not give.
BatchCurve batch_curve(const Workload& workload, const TimeModel& model,
                       const std::function<std::optional<Workload>(std::int64_t)>& at);

// The batch to run: the smallest that fits with memory to spare and takes at most a twentieth more
// time per sample than the best of those; where somebody waits for each pass, up to that one the
// batch with the most throughput over latency. Where none leaves memory to spare, the first that is
// tight. Empty where none fits.
std::optional<std::size_t> find_best_batch(const BatchCurve& curve);

// Wide ranges of GPUs without measurements leave smaller gains of a batch open; both times share
// their cause.
inline constexpr double kLargeGain = 1.0 / 3;

// The best batch, if its kernels alone save more than a third over the first point, which fits, in
// training a fifth unless the model's error may explain it. In training, where a larger batch is
// another recipe, the smallest over which the best saves no twentieth of the first point's time.
struct BetterBatch {
  std::size_t point = 0;
  Range<Seconds> saving{};  // at the work of the first point's pass
};
std::optional<BetterBatch> find_better_batch(const BatchCurve& curve);

}  // namespace rooftile
