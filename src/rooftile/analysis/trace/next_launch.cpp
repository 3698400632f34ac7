#include "rooftile/analysis/trace/next_launch.h"

#include <algorithm>
#include <limits>

namespace rooftile::trace {

NextLaunches::NextLaunches(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  const RuntimeCalls& calls = timeline.calls;
  std::vector<bool> launches(links.launches.size());
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone) continue;
    launches_.push_back({calls.time.start(call), calls.thread[call]});
    launches[calls.thread[call]] = true;
  }
  std::ranges::sort(launches_, {}, &Launch::at);
  if (std::ranges::count(launches, true) < 2) return;
  threads_.resize(launches.size());
  const auto add = [&](std::uint16_t thread, Nanoseconds start, Nanoseconds end) {
    if (!launches[thread]) return;
    threads_[thread].signs.push_back(start);
    threads_[thread].signs.push_back(end);
  };
  std::vector<std::vector<Window>> open(launches.size());
  const auto add_open = [&](std::uint16_t thread, Nanoseconds start, Nanoseconds end) {
    add(thread, start, end);
    if (launches[thread]) open[thread].push_back({start, end});
  };
  const HostOps& ops = timeline.ops;
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    const bool is_op = ops.kind[op] == HostKind::op;
    if (is_op) {
      add_open(ops.thread[op], ops.time.start(op), ops.time.end(op));
    } else {
      add(ops.thread[op], ops.time.start(op), ops.time.end(op));
    }
  }
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    add_open(calls.thread[call], calls.time.start(call), calls.time.end(call));
  }
  const PythonCalls& python = timeline.python;
  for (std::uint32_t frame = 0; frame < python.time.size(); ++frame) {
    add(python.thread[frame], python.time.start(frame), python.time.end(frame));
  }
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
    std::ranges::sort(threads_[thread].signs);
    std::ranges::sort(open[thread], {}, &Window::start);
    for (const Window& one : open[thread]) threads_[thread].open.add(one.start, one.end);
  }
}

bool NextLaunches::is_dormant(std::uint16_t thread, const Window& part) const {
  const Thread& other = threads_[thread];
  if (other.open.within(part.start, part.end) > 0) return false;
  const auto sign = std::ranges::upper_bound(other.signs, part.start);
  return sign == other.signs.end() || *sign >= part.end;
}

std::vector<Window> NextLaunches::held_up(std::uint16_t thread, const Window& wait) const {
  if (threads_.empty()) return {wait};
  std::vector<Window> parts;
  Window part{wait.start, wait.start};
  auto next = std::ranges::lower_bound(launches_, wait.start, {}, &Launch::at);
  while (part.end < wait.end) {
    const bool is_last = next == launches_.end();
    const Nanoseconds launched = is_last ? std::numeric_limits<Nanoseconds>::max() : next->at;
    part.end = std::min(wait.end, launched);
    // Who still waits as another thread launches did not hold it up.
    const bool counts = is_last || next->thread == thread ||
                        (part.end == wait.end && is_dormant(next->thread, part));
    if (counts && part.end > part.start) {
      if (!parts.empty() && parts.back().end == part.start) {
        parts.back().end = part.end;
      } else {
        parts.push_back(part);
      }
    }
    part.start = part.end;
    if (!is_last) ++next;
  }
  return parts;
}

}  // namespace rooftile::trace
