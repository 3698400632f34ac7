#include "rooftile/analysis/trace/links.h"

#include <algorithm>
#include <limits>

namespace rooftile::trace {
namespace {

// Clocks of whole microseconds put a call up to this far outside its operator.
constexpr Nanoseconds kClockSlack = 2000;
// Operators with one sequence number that are looked at for the forward one.
constexpr int kMostTries = 64;

bool is_around(const EventTimes& outer, std::uint32_t row, Nanoseconds at) {
  return outer.start(row) - kClockSlack <= at && at <= outer.end(row) + kClockSlack;
}

// An external id names the operator exactly, which clocks of whole microseconds do not; but where
// no operator was active Kineto writes the correlation id in its place, which may be the id of
// some operator. So it counts only where that operator was running.
std::vector<std::uint32_t> ops_of_calls(const Timeline& timeline, const Links& links,
                                        const IdIndex& by_external_id) {
  const RuntimeCalls& calls = timeline.calls;
  const HostOps& ops = timeline.ops;
  std::vector<std::uint32_t> found =
      innermost_at_start(ops.time, links.op_order, calls.time, links.call_order);
  for (std::uint32_t call = 0; call < found.size(); ++call) {
    const std::uint32_t id = calls.external_id[call];
    const std::uint32_t nested = found[call];
    if (id == 0 || id == calls.correlation[call]) continue;
    if (nested != kNone && ops.external_id[nested] == id) continue;
    const std::uint32_t named = by_external_id.row_of(id);
    if (named == kNone || !is_around(ops.time, named, calls.time.start(call))) continue;
    if (nested == kNone || ops.thread[named] == calls.thread[call]) found[call] = named;
  }
  return found;
}

void link_gpu(const Timeline& timeline, Links& links, const IdIndex& by_external_id) {
  const GpuActivities& gpu = timeline.gpu;
  const IdIndex by_correlation(timeline.calls.correlation);
  links.gpu_call.resize(gpu.time.size(), kNone);
  links.gpu_op.resize(gpu.time.size(), kNone);
  for (std::size_t i = 0; i < gpu.time.size(); ++i) {
    const std::uint32_t call = by_correlation.row_of(gpu.correlation[i]);
    links.gpu_call[i] = call;
    if (call != kNone) {
      links.gpu_op[i] = links.call_op[call];
      links.launches[timeline.calls.thread[call]] = true;
    } else if (gpu.external_id[i] != gpu.correlation[i]) {
      const std::uint32_t op = by_external_id.row_of(gpu.external_id[i]);
      if (op != kNone && timeline.ops.time.start(op) <= gpu.time.start(i)) links.gpu_op[i] = op;
    }
  }
}

// On a stream work runs in the order of its launches, so what no recorded call launched and comes
// before what one did was in the queue when the recording began. The first of it, on any stream,
// starts before any recorded launch can have started it. So was all else that starts that early.
void find_leftover(const Timeline& timeline, Links& links) {
  constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  const GpuActivities& gpu = timeline.gpu;
  links.leftover.assign(gpu.time.size(), false);
  Nanoseconds first_launch = kNever;
  Nanoseconds begins = kNever;  // what no recorded call launched
  std::vector<Nanoseconds> linked(timeline.streams.size(), kNever);
  for (std::size_t i = 0; i < gpu.time.size(); ++i) {
    const std::uint32_t call = links.gpu_call[i];
    Nanoseconds& first = call == kNone ? begins : linked[gpu.stream[i]];
    first = std::min(first, gpu.time.start(i));
    if (call != kNone) first_launch = std::min(first_launch, timeline.calls.time.start(call));
  }
  for (std::size_t i = 0; i < gpu.time.size(); ++i) {
    const std::uint16_t stream = gpu.stream[i];
    if (first_launch == kNever || links.gpu_call[i] != kNone || links.gpu_op[i] != kNone) continue;
    const bool is_before_linked = linked[stream] != kNever && gpu.time.start(i) < linked[stream];
    links.leftover[i] =
        gpu.time.start(i) < first_launch || (is_before_linked && begins < first_launch);
  }
}

}  // namespace

IdIndex::IdIndex(const Column<std::uint32_t>& ids) {
  std::uint32_t highest = 0;
  lowest_ = kNone;
  std::size_t count = 0;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] == 0) continue;
    lowest_ = std::min(lowest_, ids[row]);
    highest = std::max(highest, ids[row]);
    ++count;
  }
  if (count == 0) return;
  if (highest - lowest_ <= 4 * count) {
    dense_.resize(std::size_t{highest} - lowest_ + 1, kNone);
    for (std::size_t row = ids.size(); row-- > 0;) {
      if (ids[row] != 0) dense_[ids[row] - lowest_] = static_cast<std::uint32_t>(row);
    }
    return;
  }
  sparse_.reserve(count);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] != 0) sparse_.emplace_back(ids[row], static_cast<std::uint32_t>(row));
  }
  if (!std::is_sorted(sparse_.begin(), sparse_.end())) std::sort(sparse_.begin(), sparse_.end());
}

std::uint32_t IdIndex::row_of(std::uint32_t id) const {
  if (id == 0) return kNone;
  if (!dense_.empty()) {
    const std::uint32_t at = id - lowest_;  // of an id below the lowest: beyond all
    return at < dense_.size() ? dense_[at] : kNone;
  }
  const auto found = std::lower_bound(sparse_.begin(), sparse_.end(), std::pair(id, 0U));
  return found != sparse_.end() && found->first == id ? found->second : kNone;
}

Links link_events(const Timeline& timeline) {
  Links links;
  links.call_kinds = kinds_of<CallKind>(timeline.strings, timeline.calls.name, call_kind);
  links.range_kinds = kinds_of<RangeKind>(timeline.strings, timeline.ops.name, range_kind);
  links.op_order = rows_by_thread(timeline.ops.time, timeline.ops.thread, timeline.ops.external_id);
  links.call_order = rows_by_thread(timeline.calls.time, timeline.calls.thread);
  links.op_parent = parents_of(timeline.ops.time, links.op_order);
  links.launches.resize(timeline.threads.size());
  const IdIndex by_external_id(timeline.ops.external_id);
  links.call_op = ops_of_calls(timeline, links, by_external_id);
  link_gpu(timeline, links, by_external_id);
  find_leftover(timeline, links);
  return links;
}

ForwardOps::ForwardOps(const Timeline& timeline, const Links& links)
    : timeline_(timeline), links_(links) {
  // Operators without gradients show the number that the next one with a gradient will get, so of
  // the operators with one number the last to start made the node.
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (timeline.ops.sequence[op] == 0 || links.kind_of_op(timeline, op) == RangeKind::autograd) {
      continue;
    }
    by_sequence_.emplace_back(timeline.ops.sequence[op], op);
  }
  std::sort(by_sequence_.begin(), by_sequence_.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return timeline.ops.time.start(a.second) < timeline.ops.time.start(b.second);
  });
}

std::uint32_t ForwardOps::of(std::uint32_t op) const {
  const HostOps& ops = timeline_.ops;
  for (; op != kNone; op = links_.op_parent[op]) {
    if (links_.kind_of_op(timeline_, op) != RangeKind::autograd || ops.sequence[op] == 0) continue;
    const std::uint32_t sequence = ops.sequence[op];
    auto found =
        std::upper_bound(by_sequence_.begin(), by_sequence_.end(), std::pair(sequence, kNone));
    for (int tries = 0; tries < kMostTries && found != by_sequence_.begin(); ++tries) {
      if ((--found)->first != sequence) break;
      // What the backward pass itself runs counts numbers of its own thread.
      const std::uint32_t forward = found->second;
      if (ops.time.start(forward) < ops.time.start(op) &&
          !is_backward(timeline_, links_, forward)) {
        return forward;
      }
    }
    return kNone;
  }
  return kNone;
}

bool has_operators(const Timeline& timeline, const Links& links) {
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (links.kind_of_op(timeline, op) == RangeKind::operation) return true;
  }
  return false;
}

bool is_backward(const Timeline& timeline, const Links& links, std::uint32_t op) {
  for (; op != kNone; op = links.op_parent[op]) {
    if (links.kind_of_op(timeline, op) == RangeKind::autograd) return true;
  }
  return false;
}

}  // namespace rooftile::trace
