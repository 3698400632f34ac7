// Shapes near a model's own, on one GPU; a renderer needs nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/findings/report.h"

namespace rooftile {

struct TunedSize {
  std::string name;  // "vocabulary"
  std::int64_t from = 0, to = 0;
};

// A shape with what differs from the model's own; times are of one pass.
struct TunedShape {
  std::vector<TunedSize> changes;
  Seconds time;
  Range<Seconds> saving{};  // over the model's own shape
  double parameters = 0;
  Range<Bytes> memory{};
  std::string fit;  // "fits", "tight", "does_not_fit"

  // Whether the gain is more than the model's error.
  bool is_certain() const { return saving.low > Seconds(); }
  // Only the vocabulary grows: rows that nobody looks up, so no result changes.
  bool is_padding() const;
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
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // of the model
  TunedShape present;
  // Nothing timed is better in one of time, memory and parameters and as good in the others; the
  // fastest first, and none slower than the present one.
  std::vector<TunedShape> front;
  // The fastest that holds no less parameters and no more memory.
  std::optional<TunedShape> better;
  // The one of the fewest changed sizes with most of the gain that is certain.
  std::optional<TunedShape> smallest;
  // A batch for the present shape that leaves less time per sample, and how much, as a share.
  std::optional<std::int64_t> larger_batch;
  double gain_of_batch = 0;
  std::vector<std::string> notes;
};

// Least share of the time that a change has to save: of a padded vocabulary, and of sizes that make
// another model, below which the time model's own error decides.
inline constexpr double kWorthPadding = 0.01, kWorthTraining = 0.05;

// alone: no other shape keeps the parameters; on_front: none that does saves as much; within_error:
// one is expected to, but the model's error may explain it; faster: one surely does.
enum class TuningVerdict { alone, on_front, within_error, faster };
TuningVerdict verdict_of(const Tuning& tuning);

}  // namespace rooftile
