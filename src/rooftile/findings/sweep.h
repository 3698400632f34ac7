// One network at several batches on one GPU; a renderer needs nothing else.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/findings/report.h"

namespace rooftile {

// One batch; times are of one pass.
struct SweepRow {
  std::int64_t batch = 1;
  Range<Seconds> time{};    // of the kernels
  Range<Seconds> launch{};  // of the host, to start them operation by operation
  bool launch_bound = false;
  Range<Bytes> memory{};
  std::string fit;  // "fits", "tight", "does_not_fit"
  BoundShares bound;
  Coverage coverage;

  // The longer of kernels and launches.
  Seconds step() const { return launch_bound ? launch.expected : time.expected; }
  Seconds per_sample() const { return step() / to_double(batch); }
  double samples_per_second() const {
    return step() > Seconds() ? to_double(batch) / step().value() : 0;
  }
};

// All batches at one sequence length.
struct SweepCurve {
  std::optional<std::int64_t> sequence;  // where it was swept
  std::vector<SweepRow> rows;            // batches ascend
  // Of the first row whose doubling saves less than a tenth per sample; empty where each saves
  // more. `gain_at_end` is what the last doubling saved.
  std::optional<std::int64_t> knee;
  double gain_at_end = 0;
  std::optional<std::int64_t> kernel_knee;      // where launches cost nothing
  double launches = 0;                          // of a pass
  std::optional<std::int64_t> math_bound_from;  // most of the time, from this batch on
  // The largest batch of the range that fits with memory to spare, and the largest that fits at
  // all; found between the rows. Empty where none does.
  std::optional<std::int64_t> largest, largest_tight;
  // The batch to run: the smallest that fits with about the least time per sample.
  std::optional<std::int64_t> best;
  // A larger one than the range has, where it takes much less time per sample, as check() names it;
  // how many times the samples per second of `best` it does.
  std::optional<std::int64_t> best_beyond;
  double gain_beyond = 1;
  // Expected memory: whatever the batch, for each sample, and of that the KV cache and the states
  // of recurrent layers.
  Bytes constant, each_sample, each_cache, each_state;
  std::string makes_it_fit;  // what does, where the first row does not fit
};

struct Sweep {
  std::vector<std::string> inputs;
  DeviceSummary device;
  Mode mode = Mode::inference;
  std::vector<std::pair<std::string, std::string>> options;  // as Report::options
  Bytes usable;                                              // of the GPU's memory
  std::vector<SweepCurve> curves;
  std::vector<std::string> notes;
};

// The row of `best`; null where none fits.
const SweepRow* best_row(const SweepCurve& curve);

}  // namespace rooftile
