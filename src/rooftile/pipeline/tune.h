// Shapes near a model's own, and batches, that take less time a sample: reads a config.json,
// searches, compares.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/findings/tuning.h"
#include "rooftile/hardware/device.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/model_shape.h"

namespace rooftile {

struct TuneRequest {
  std::string input;
  ReadOptions read;
  double parameters = 0.02;    // how far the count may move, as a share
  std::int64_t multiple = 64;  // of hidden and FFN width
  // Sizes to keep at a value, by name ("hidden", "batch") or by the config's key ("n_embd").
  std::vector<std::pair<std::string, std::int64_t>> fixed;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

// Errors: inputs that are no config.json of one stack of layers.
Result<Tuning> tune(const TuneRequest& request, const Device& device);

}  // namespace rooftile
