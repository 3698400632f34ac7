// What makes a network fit into the memory of its GPU, and what that costs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/memory/memory.h"

namespace rooftile {

// shorter_input: fewer positions of each sample. smaller_batch: fewer samples a pass. chunked_loss,
// checkpointing: as in Keeping. autocast: fp32 activations of a training step in 16 bits.
// eight_bit_states: of Adam, in 8 bits. eight_bit_cache: keys and values. half_precision,
// eight_bits, four_bits: weights stored in so many bits. sharding: weights, gradients and optimizer
// spread over GPUs (FSDP, ZeRO-3). tensor_parallel: every layer spread over the GPUs of a node, and
// groups of layers over nodes. expert_parallel: experts of a mixture spread over GPUs, all else on
// each of them.
enum class FitBy {
  shorter_input,
  smaller_batch,
  chunked_loss,
  checkpointing,
  autocast,
  eight_bit_states,
  half_precision,
  eight_bit_cache,
  eight_bits,
  four_bits,
  sharding,
  tensor_parallel,
  expert_parallel
};
std::string_view to_string(FitBy by);

// One way to make it fit: changes that it takes together.
struct FitChange {
  std::vector<FitBy> by;    // the one that spreads it over GPUs first
  std::int64_t batch = 0;   // of smaller_batch
  std::int64_t length = 0;  // of shorter_input
  std::int64_t gpus = 1;
  Bytes per_gpu;                            // expected, on each GPU
  Fit fit = Fit::fits;                      // or tight
  std::optional<Range<Seconds>> cost = {};  // time that it adds to a pass, nothing overlapped
  double pass_share = 1;                    // of the time of a pass, where GPUs share its work

  bool uses(FitBy one) const;
};

// Those that make it fit: a smaller batch, or a shorter input where no batch does, then what fits
// with the fewest changes on this GPU, the cheapest first, then more GPUs: with the fewest other
// changes, and with more of them where that at least halves the GPUs. Empty where it fits as it is,
// or nothing does.
std::vector<FitChange> changes_that_fit(const Workload& workload, const Analysis& analysis,
                                        const TimeModel& model, const MemoryEstimate& memory);

// "Any of these makes it fit: batch 4 (12.1 GiB), …", each with its price against a pass of today.
std::string fit_text(const std::vector<FitChange>& changes, Seconds pass);

}  // namespace rooftile
