#include "rooftile/analysis/trace/held_up.h"

#include <algorithm>
#include <limits>

namespace rooftile::trace {
namespace {

// Kernels looked at for one that is launched early: those of other streams may be recorded behind
// the next one.
constexpr std::size_t kMostAhead = 32;

class HeldUpTimes {
 public:
  HeldUpTimes(const Timeline& timeline, const Links& links, const GpuTrack& track,
              const std::vector<HostWait>& waits, const Cover& collectives, Nanoseconds latency)
      : timeline_(timeline), links_(links), collectives_(collectives), latency_(latency) {
    for (std::size_t i = 0; i < track.rows.size(); ++i) {
      if (track.classes[i] == GpuClass::compute) computing_.push_back(track.rows[i]);
    }
    for (const HostWait& wait : waits) {
      if (wait.cause == IdleCause::synchronization) waits_.push_back({wait.start, wait.end});
    }
  }

  std::vector<Window> find(Nanoseconds start, Nanoseconds end) {
    Nanoseconds reach = start;
    for (std::size_t i = 0; i < computing_.size(); ++i) {
      const Nanoseconds next = timeline_.gpu.time.start(computing_[i]);
      if (collectives_.within(reach, next) > 0) add({reach, next}, first_launch(i));
      reach = std::max(reach, timeline_.gpu.time.end(computing_[i]));
    }
    if (end > reach) times_.push_back({reach, end});
    return std::move(times_);
  }

 private:
  // When the earliest of the next kernels could have started, by its launch.
  Nanoseconds first_launch(std::size_t next) const {
    Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
    const std::size_t end = std::min(computing_.size(), next + kMostAhead);
    for (; next < end; ++next) {
      const std::uint32_t call = links_.gpu_call[computing_[next]];
      if (call == kNone) return std::numeric_limits<Nanoseconds>::min();
      first = std::min(first, timeline_.calls.time.start(call) + latency_);
    }
    return first;
  }
  // Waits of the host up to `launched`, and all from there on.
  void add(const Window& gap, Nanoseconds launched) {
    const Nanoseconds from = std::clamp(launched, gap.start, gap.end);
    while (next_wait_ < waits_.size() && waits_[next_wait_].end <= gap.start) ++next_wait_;
    for (std::size_t i = next_wait_; i < waits_.size() && waits_[i].start < from; ++i) {
      times_.push_back({std::max(gap.start, waits_[i].start), std::min(from, waits_[i].end)});
    }
    if (from < gap.end) times_.push_back({from, gap.end});
  }

  const Timeline& timeline_;
  const Links& links_;
  const Cover& collectives_;
  Nanoseconds latency_;
  std::vector<std::uint32_t> computing_;  // activities, by start
  std::vector<Window> waits_;
  std::size_t next_wait_ = 0;
  std::vector<Window> times_;
};

}  // namespace

std::vector<Window> held_up_times(const Timeline& timeline, const Links& links,
                                  const GpuTrack& track, const std::vector<HostWait>& waits,
                                  const Cover& collectives, Nanoseconds latency) {
  if (track.rows.empty()) return {};
  Nanoseconds end = std::numeric_limits<Nanoseconds>::min();
  for (const std::uint32_t row : track.rows) end = std::max(end, timeline.gpu.time.end(row));
  return HeldUpTimes(timeline, links, track, waits, collectives, latency)
      .find(timeline.gpu.time.start(track.rows.front()), end);
}

Cover communication_cover(const Timeline& timeline, const GpuTrack& track) {
  Cover cover;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] != GpuClass::communication) continue;
    cover.add(timeline.gpu.time.start(track.rows[i]), timeline.gpu.time.end(track.rows[i]));
  }
  return cover;
}

Nanoseconds covered(const Cover& cover, const std::vector<Window>& windows, const Window& bounds) {
  Nanoseconds sum = 0;
  for (const Window& window : windows) {
    sum += cover.within(std::max(window.start, bounds.start), std::min(window.end, bounds.end));
  }
  return sum;
}

}  // namespace rooftile::trace
