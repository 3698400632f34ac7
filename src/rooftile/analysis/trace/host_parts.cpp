#include "rooftile/analysis/trace/host_parts.h"

#include <algorithm>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// What lies between two launches at most: of a program that calls the runtime itself the recorder's
// own few microseconds; of a framework an operator's Python code, some ten to a hundred
// microseconds.
constexpr Nanoseconds kLongestBetweenCalls = 5'000;
constexpr Nanoseconds kLongestBetweenOperators = 200'000;
// The same with Python stacks recorded, which cost the host several times its own time.
constexpr Nanoseconds kLongestWithStacks = 1'000'000;

// An operator that takes so long and launches nothing computes on the CPU; views take a few
// microseconds.
constexpr Nanoseconds kLongOperator = 100'000;

bool is_operator(RangeKind kind) {
  return kind == RangeKind::operation || kind == RangeKind::autograd;
}

bool runs_a_framework(const Timeline& timeline, const Links& links) {
  const HostOps& ops = timeline.ops;
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    if (is_operator(links.kind_of_op(timeline, op))) return true;
  }
  const GpuActivities& gpu = timeline.gpu;
  std::vector<bool> seen(timeline.strings.size());
  for (std::uint32_t row = 0; row < gpu.time.size(); ++row) {
    if (seen[gpu.name[row]]) continue;
    seen[gpu.name[row]] = true;
    const std::string_view name = timeline.strings[gpu.name[row]];
    if (contains(name, "at::native") || contains(name, "2at6native")) return true;
  }
  return false;
}

Nanoseconds longest_launching(const Timeline& timeline, const Links& links) {
  if (timeline.python.time.size() > 0) return kLongestWithStacks;
  return runs_a_framework(timeline, links) ? kLongestBetweenOperators : kLongestBetweenCalls;
}

// By operator: it, or one inside it, calls the runtime.
std::vector<bool> calling_operators(const Timeline& timeline, const Links& links) {
  std::vector<bool> calls(timeline.ops.time.size());
  for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
    for (std::uint32_t op = links.call_op[call]; op != kNone && !calls[op];
         op = links.op_parent[op]) {
      calls[op] = true;
    }
  }
  return calls;
}

// Not a fill.
bool copies(const Timeline& timeline, std::uint32_t call) {
  return contains(timeline.strings[timeline.calls.name[call]], "Memcpy");
}

// What a thread is at.
struct Covered {
  Nanoseconds start = 0, end = 0;
  IdleCause part = IdleCause::launch;  // what it is a part of
};

// What is not launching of one thread's time.
std::vector<HostPart> parts_of(std::vector<Covered> covered, Nanoseconds longest) {
  std::vector<HostPart> parts;
  if (covered.empty()) return parts;
  std::ranges::stable_sort(covered, {}, &Covered::start);
  Nanoseconds reach = covered.front().end;
  for (const Covered& one : covered) {
    if (one.start - reach > longest) parts.push_back({reach, one.start, IdleCause::host_work});
    const Nanoseconds from = parts.empty() ? one.start : std::max(one.start, parts.back().end);
    if (one.part != IdleCause::launch && one.end > from) {
      parts.push_back({from, one.end, one.part});
    }
    reach = std::max(reach, one.end);
  }
  return parts;
}

IdleCause part_of_call(const Timeline& timeline, const Links& links, std::uint32_t call) {
  const CallKind kind = links.kind_of_call(timeline, call);
  const bool is_copy =
      kind == CallKind::blocking_copy || (kind == CallKind::copy && copies(timeline, call));
  return is_copy ? IdleCause::copy : IdleCause::launch;
}

}  // namespace

HostParts::HostParts(const Timeline& timeline, const Links& links) : parts_(links.launches.size()) {
  std::vector<std::vector<Covered>> covered(links.launches.size());
  const auto add = [&](std::uint16_t thread, const EventTimes& time, std::uint32_t row,
                       IdleCause part) {
    if (links.launches[thread]) covered[thread].push_back({time.start(row), time.end(row), part});
  };
  const std::vector<bool> calls = calling_operators(timeline, links);
  for (std::uint32_t op = 0; op < calls.size(); ++op) {
    if (!is_operator(links.kind_of_op(timeline, op))) continue;
    if (!calls[op] && timeline.ops.time.duration(op) < kLongOperator) continue;
    add(timeline.ops.thread[op], timeline.ops.time, op,
        calls[op] ? IdleCause::launch : IdleCause::host_work);
  }
  for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
    add(timeline.calls.thread[call], timeline.calls.time, call,
        part_of_call(timeline, links, call));
  }
  const Nanoseconds longest = longest_launching(timeline, links);
  for (std::size_t thread = 0; thread < covered.size(); ++thread) {
    parts_[thread] = parts_of(std::move(covered[thread]), longest);
  }
}

std::vector<HostPart> HostParts::within(std::uint16_t thread, Nanoseconds start,
                                        Nanoseconds end) const {
  std::vector<HostPart> found;
  const std::vector<HostPart>& all = parts_[thread];
  for (auto one = std::ranges::upper_bound(all, start, {}, &HostPart::end);
       one != all.end() && one->start < end; ++one) {
    found.push_back({std::max(one->start, start), std::min(one->end, end), one->cause});
  }
  return found;
}

}  // namespace rooftile::trace
