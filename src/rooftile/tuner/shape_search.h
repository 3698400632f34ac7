// Searches widths, depth, heads and batch of a model near its parameter count for less time a
// sample and less memory. Knows no files: whoever calls it builds the workloads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "rooftile/analysis/memory/memory.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/base/result.h"
#include "rooftile/workload/model_shape.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct ShapeSearch {
  ModelShape present;
  // The workload at these sizes; empty where they make no model. Called from several threads.
  std::function<std::optional<Workload>(const ModelShape&)> build;
  double parameters = 0.02;    // how far the count may move, as a share
  std::int64_t multiple = 64;  // of hidden and ffn
  ModelShape fixed;            // sizes that have this value in every candidate
  // To try with every shape, besides the present one; unused where the batch is not in `present`.
  std::vector<std::int64_t> batches = {};
  std::size_t most = 100'000;  // candidates
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct ShapeCandidate {
  ModelShape shape;
  Seconds time;  // of one pass, expected
  // As many optimizer steps a sample as at the present batch: what accumulated gradients leave.
  Seconds per_sample;
  double parameters = 0;
  MemoryEstimate memory{};
  Range<Seconds> saving{};  // over the present shape, for the samples of its pass
  // Of the present sizes at this candidate's batch; whether the candidate surely takes less.
  Seconds present_at_batch;
  bool surely_less = false;
};

struct ShapeSearchResult {
  ShapeCandidate present;
  // Of those that fit: no candidate is better in one of time per sample, memory and parameters
  // (more are better) and as good in the others, small differences aside; the fastest first. Where
  // nothing fits, of all, by time per sample and parameters.
  std::vector<ShapeCandidate> front;
  bool nothing_fits = false;
  // The fastest with no less parameters and no more memory than the present shape.
  std::optional<ShapeCandidate> better;
  // The fastest of each set of changed sizes, by the number of sizes that change.
  std::vector<ShapeCandidate> by_change;
  std::size_t candidates = 0;  // besides the present shape
  std::size_t too_large = 0;   // of these, those that do not fit the GPU
};

// Names of the sizes that differ.
std::vector<ShapeSize> changed_sizes(const ModelShape& from, const ModelShape& to);

// Sizes near the present ones: widths and depth by at most a third, FFN and heads to go with them,
// the vocabulary padded; each at all batches. At most `most`, those nearest to the present shape.
std::vector<ModelShape> nearby_shapes(const ShapeSearch& search);

// An error where the present shape cannot be built.
Result<ShapeSearchResult> search_shapes(const ShapeSearch& search, const TimeModel& model);

// What the one saves over the other: operations paired by name and phase, for two estimates of one
// model share most of their error. `samples`: those of `before` over those of `after`, whose passes
// count as often, but not its optimizer steps.
Range<Seconds> saving_between(const Workload& before, const Workload& after, const TimeModel& model,
                              double samples = 1);

}  // namespace rooftile
