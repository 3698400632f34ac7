// Shapes near a model's own, on one GPU; a renderer needs nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/findings/report.h"

namespace rooftile {

struct TunedSize {
  std::string name;  // "vocabulary"
  std::int64_t from = 0, to = 0;
};

// A shape with what differs from the model's own.
struct TunedShape {
  std::vector<TunedSize> changes;
  std::int64_t batch = 1;
  Seconds time;             // of one pass
  Seconds per_sample;       // with as many optimizer steps a sample as at the present batch
  Range<Seconds> saving{};  // over the model's own shape, for the samples of its pass
  double parameters = 0;
  Range<Bytes> memory{};
  std::string fit;       // "fits", "tight", "does_not_fit"
  bool certain = false;  // the gain is more than the model's error
  // Time per sample of the model's own sizes at this batch; whether the others surely take less.
  Seconds present_at_batch;
  bool sizes_certain = false;

  bool changes_size(std::string_view name) const;
  // Only the vocabulary grows: rows that nobody looks up, so no result changes.
  bool is_padding() const;
  // The same weights but for that: nothing to train again.
  bool keeps_model() const;
  // Only the batch is another one.
  bool keeps_sizes() const { return changes.size() == 1 && changes_size("batch"); }
  // Share of the time per sample that the sizes save at this batch.
  double sizes_gain() const {
    return present_at_batch > Seconds() ? 1 - per_sample / present_at_batch : 0;
  }
};

struct Tuning {
  std::vector<std::string> inputs;
  DeviceSummary device;
  Mode mode = Mode::inference;
  std::vector<std::pair<std::string, std::string>> options;  // as Report::options
  std::int64_t batch = 1;
  Bytes usable;                                             // of the GPU's memory
  double tolerance = 0;                                     // of the parameters
  double candidates = 0;                                    // other shapes that were timed
  double too_large = 0;                                     // of these, that do not fit the GPU
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // of the model, and the batch
  std::vector<Finding> first;                               // of another precision: it comes first
  TunedShape present;
  std::string makes_it_fit;  // what does, where the present shape does not fit
  // Of those that fit, nothing timed is better in one of time per sample, memory and parameters and
  // as good in the others; the fastest first, and none slower than the present one. Where nothing
  // fits, of all, by time per sample and parameters.
  std::vector<TunedShape> front;
  // The fastest that holds no less parameters and no more memory.
  std::optional<TunedShape> better;
  // What leaves the model as it is before what makes another one, then the fewest changed sizes,
  // with most of the gain that is certain. Of a model that does not fit: one that does.
  std::optional<TunedShape> smallest;
  // The same with the batch as it is, where `smallest` changes it.
  std::optional<TunedShape> smallest_at_batch;
  // Only the vocabulary padded, where that is possible; it may save nothing.
  std::optional<TunedShape> padded;
  // The model's own sizes at the batch that suits them best, where that is another one.
  std::optional<TunedShape> same_sizes;
  // Its batch, where it takes much less time per sample.
  std::optional<std::int64_t> larger_batch;
  std::vector<std::string> notes;
};

// Least share of the time that a change has to save: of a padded vocabulary; of a batch, as at the
// knee of a sweep; of sizes that make another model, below which the time model's own error
// decides.
inline constexpr double kWorthPadding = 0.01, kWorthBatch = 0.1, kWorthTraining = 0.05;

// nothing_fits: neither the present shape nor another one; too_large: the present one does not, but
// another one does. Of one that fits: alone: no other shape keeps the parameters; on_front: none
// that does saves as much; within_error: one is expected to, but the model's error may explain it;
// faster: one surely does.
enum class TuningVerdict { nothing_fits, too_large, alone, on_front, within_error, faster };
std::string_view to_string(TuningVerdict verdict);
TuningVerdict verdict_of(const Tuning& tuning);

}  // namespace rooftile
