// What collectives are, what they move, and how long ranks wait for each other in them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// By the recorded name of the collective, else by the kernel's; empty for other communication.
std::optional<CollectiveKind> kind_of(const CollectiveUse& use);
std::string_view kind_words(std::optional<CollectiveKind> kind);  // "all-reduce"

// The part of the runs that the forward pass launched. Tensor parallelism runs the same collective
// in the forward and the backward pass, gradients never in the forward one.
double forward_share(const CollectiveUse& use);

// Bytes of one element of a recorded dtype ("BFloat16"); 0 for a name that is not known.
std::int64_t element_bytes(std::string_view dtype);

// The message as nccl-tests counts it: what a rank has after gathering or before scattering, else
// what it sends. Empty where not recorded.
std::optional<Bytes> message_bytes(const CollectiveUse& use);

// What each rank's link moves for each byte of the message, so that the link's rate bounds the
// quotient of both and the time (nccl-tests, doc/PERFORMANCE.md).
double bus_factor(std::optional<CollectiveKind> kind, std::int64_t ranks);

// The median; empty for no runs.
std::optional<Seconds> median_run(std::vector<Seconds> runs);

// A collective that all ranks ran equally often, with the runs of each, in the order of the ranks.
struct SharedCollective {
  const CollectiveUse* first = nullptr;  // of the first rank
  std::vector<const std::vector<Seconds>*> runs;
};
std::vector<SharedCollective> shared_collectives(std::span<const TraceSummary> ranks);

// Sums over the window of each rank, in their order. A rank's run beyond the shortest among the
// ranks is waiting for the last to arrive, at the least.
struct RankWaits {
  std::vector<Seconds> waited;
  // What all save if this rank came when the last of the others does: in the collectives at which
  // it is the last, the wait of the one before it.
  std::vector<Seconds> delayed;
  std::vector<std::int64_t> last;  // runs at which it is the last
  std::int64_t runs = 0;           // of each rank
};

// Empty for fewer than two ranks, or when no collective can be compared.
std::optional<RankWaits> waits_of_ranks(std::span<const TraceSummary> ranks);

}  // namespace rooftile
