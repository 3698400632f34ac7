#include "rooftile/analysis/trace/busy_parts.h"

#include <algorithm>

#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/windows.h"

namespace rooftile::trace {

BusyParts::BusyParts(const Timeline& timeline, const GpuTrack& track,
                     const std::vector<Nanoseconds>& beyond, const std::vector<HostWait>& waits,
                     const std::vector<Window>& held_up) {
  // Ranks wait at the start of a collective; what holds a kernel up may come at any time.
  std::vector<Window> computing, steady, communicating, moving;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i];
    const Window run{timeline.gpu.time.start(row), timeline.gpu.time.end(row)};
    const Nanoseconds more = beyond.empty() ? 0 : beyond[row];
    if (track.classes[i] == GpuClass::compute) {
      computing.push_back(run);
      steady.push_back({run.start, run.end - more});
    } else if (track.classes[i] == GpuClass::communication) {
      communicating.push_back(run);
      moving.push_back({run.start + more, run.end});
    }
  }
  computing = united(std::move(computing));
  stretched_ = without(computing, united(std::move(steady)));
  const std::vector<Window> exposed = without(united(std::move(communicating)), computing);
  const std::vector<Window> free = without(exposed, held_up);
  auto next = free.begin();
  for (std::uint32_t i = 0; i < waits.size(); ++i) {
    const HostWait& wait = waits[i];
    if (wait.cause != IdleCause::allocator) continue;
    while (next != free.end() && next->end <= wait.start) ++next;
    for (auto part = next; part != free.end() && part->start < wait.end; ++part) {
      const Nanoseconds start = std::max(part->start, wait.start);
      const Nanoseconds end = std::min(part->end, wait.end);
      beside_allocation_.push_back({start, end, IdleCause::allocator, i});
      allocating_.push_back({start, end});
    }
  }
  rank_waiting_ = without(without(exposed, allocating_), united(std::move(moving)));
  awaited_ = common(rank_waiting_, held_up);
}

void BusyParts::set_parts(const Window& window, TimeBreakdown& time) const {
  time.rank_waiting = to_seconds(length_within(rank_waiting_, window));
  time.awaited_rank_waiting = to_seconds(length_within(awaited_, window));
  time.communication_beside_allocation = to_seconds(length_within(allocating_, window));
  time.stretched = to_seconds(length_within(stretched_, window));
}

}  // namespace rooftile::trace
