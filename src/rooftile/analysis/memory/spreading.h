// A pass on several GPUs: who holds what, and what they send each other.
#pragma once

#include <cstdint>
#include <optional>

#include "rooftile/analysis/analysis.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// That NVLink joins on one board (HGX); beyond, the time depends on the network between boards.
inline constexpr std::int64_t kMostLinkedGpus = 8;

// Weights and optimizer sharded: weights are gathered for the forward and again for the backward
// pass, gradients are reduced. Empty where the model knows no such time.
std::optional<Range<Seconds>> sharding_transfers(const Workload& workload, const TimeModel& model,
                                                 std::int64_t gpus);

// Whether so many GPUs, up to a node of them, can share the layers of a pass: each takes as many
// query heads, and key-value heads of its own or one that several GPUs hold. Source: vLLM and
// Megatron-LM refuse other numbers.
bool divides_heads(const Workload& workload, std::int64_t gpus);

// Every GPU holds a share of each layer: heads of attention, channels or heads of Mamba and linear
// attention, columns of the feed-forward block. Each block ends in a sum over all GPUs before its
// output is added to its input. Empty where no block is seen to end.
std::optional<Range<Seconds>> tensor_parallel_sums(const Workload& workload, const TimeModel& model,
                                                   std::int64_t gpus);

// Keys and values that each of so many GPUs holds, as a share: heads are not split, and a latent
// cache has one.
double share_of_cache(const Workload& workload, std::int64_t gpus);

// Experts of a mixture, each on one GPU; the other layers on every GPU, for its share of the
// samples.
struct ExpertPlacement {
  double expert_share = 0;  // of the weights, that the GPUs divide
  // Time of a pass on one of the GPUs over that on a single one; what tokens need to reach their
  // experts and come back.
  double pass_share = 1;
  std::optional<Range<Seconds>> transfers;
};
// Empty without experts, or with fewer than GPUs.
std::optional<ExpertPlacement> place_experts(const Workload& workload, const TimeModel& model,
                                             std::int64_t gpus);

}  // namespace rooftile
