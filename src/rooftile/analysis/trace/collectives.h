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

// What each rank waits in its window, in their order: a run beyond the shortest among the ranks is
// waiting for the last to arrive, at the least. Empty for fewer than two ranks, or when no
// collective can be compared.
std::vector<Seconds> waits_of_ranks(std::span<const TraceSummary> ranks);

// What ranks that come late cost, per step.
struct LateRanks {
  std::vector<std::size_t> ranks;
  // What all save if these came when the last of the others does: in the collectives at which one
  // of them is the last, the wait of the first of the others before it.
  Seconds gain;
  Seconds recurring;                // of it, without the two collectives that wait longest
  Seconds own;                      // waiting of the last of them
  Seconds others;                   // waiting of each other rank in the mean
  std::int64_t last = 0, runs = 0;  // collectives at which one of them is the last; all
};

// Of at least one rank and one other, as indices.
LateRanks cost_of_late(std::span<const TraceSummary> all, std::vector<std::size_t> late);

}  // namespace rooftile
