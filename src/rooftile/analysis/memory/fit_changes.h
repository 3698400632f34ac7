// What makes a network fit into the memory of its GPU, and what that costs.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/memory/memory.h"

namespace rooftile {

// smaller_batch: fewer samples a pass. checkpointing: layers keep their inputs and compute the rest
// again. half_precision, eight_bits, four_bits: weights stored in so many bits. sharding: weights,
// gradients and optimizer spread over GPUs (FSDP, ZeRO-3). tensor_parallel: every layer spread over
// GPUs.
enum class FitBy {
  smaller_batch,
  checkpointing,
  half_precision,
  eight_bits,
  four_bits,
  sharding,
  tensor_parallel
};
std::string_view to_string(FitBy by);

struct FitChange {
  FitBy by = FitBy::smaller_batch;
  std::int64_t amount = 0;  // samples of a smaller batch, GPUs of a spread one; else 0
  bool with_checkpointing = false;
  Bytes per_gpu;                       // expected, on each GPU
  std::optional<Range<Seconds>> cost;  // time that it adds to a pass, nothing overlapped
};

// Those that make it fit, the cheapest to try first; empty where it fits as it is, or nothing does.
std::vector<FitChange> changes_that_fit(const Workload& workload, const Analysis& analysis,
                                        const TimeModel& model, const MemoryEstimate& memory);

}  // namespace rooftile
