// Which runtime call started a GPU activity, and which operator made the call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/calls.h"
#include "rooftile/analysis/trace/nesting.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

// Rows by id. Of rows with one id the first recorded is found.
class IdIndex {
 public:
  // Rows with id 0 have none and are left out.
  explicit IdIndex(const Column<std::uint32_t>& ids);
  std::uint32_t row_of(std::uint32_t id) const;

 private:
  std::uint32_t lowest_ = 0;
  std::vector<std::uint32_t> dense_;                             // by id - lowest_
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sparse_;  // sorted; where ids lie far apart
};

struct Links {
  std::vector<CallKind> call_kinds;    // by name
  std::vector<RangeKind> range_kinds;  // by name
  ThreadRows op_order, call_order;
  std::vector<std::uint32_t> op_parent;  // by op: the operator or range around it
  std::vector<std::uint32_t> call_op;    // by call: the innermost operator or range
  std::vector<std::uint32_t> gpu_call;   // by GPU activity; kNone = not recorded
  std::vector<std::uint32_t> gpu_op;     // by GPU activity: the innermost operator or range
  std::vector<bool> launches;            // by thread: starts work on a GPU
  std::vector<bool> leftover;            // by GPU activity: launched before the recording began

  CallKind kind_of_call(const Timeline& timeline, std::uint32_t call) const {
    return call_kinds[timeline.calls.name[call]];
  }
  RangeKind kind_of_op(const Timeline& timeline, std::uint32_t op) const {
    return range_kinds[timeline.ops.name[op]];
  }
};

Links link_events(const Timeline& timeline);

// Forward operators by sequence number.
class ForwardOps {
 public:
  ForwardOps(const Timeline& timeline, const Links& links);

  // The forward operator whose gradient `op` belongs to: that of the nearest autograd node around
  // it; kNone where there is none, or its forward operator was not recorded.
  std::uint32_t of(std::uint32_t op) const;

 private:
  const Timeline& timeline_;
  const Links& links_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> by_sequence_;  // sorted; (sequence, op)
};

// Whether `op` is an autograd node or lies in one.
bool is_backward(const Timeline& timeline, const Links& links, std::uint32_t op);
// Whether the recording has operators of a framework.
bool has_operators(const Timeline& timeline, const Links& links);

}  // namespace rooftile::trace
