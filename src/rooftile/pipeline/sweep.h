// A network at several batches and lengths: reads its input again for each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rooftile/analysis/batch_curve.h"
#include "rooftile/base/result.h"
#include "rooftile/findings/sweep.h"
#include "rooftile/hardware/device.h"
#include "rooftile/readers/reader.h"

namespace rooftile {

struct SweepRequest {
  std::vector<std::string> inputs;  // as for read_all()
  ReadOptions read;
  std::vector<std::int64_t> batches;    // ascending, at least one
  std::vector<std::int64_t> sequences;  // ascending; empty: that of `read`
  // Readings done, and about how many there will be.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

// Each row is what check() says of that batch. Inputs whose batch is not a matter of reading are an
// error: recordings, scripts, and text that states none.
Result<Sweep> sweep(const SweepRequest& request, const Device& device);

// The curve of what was read from these inputs, for check(): configs are read again, other models
// are scaled. Empty where the batch is unknown.
BatchCurve curve_of(const Workload& workload, std::span<const std::string> inputs,
                    const ReadOptions& options, const Device& device);

}  // namespace rooftile
