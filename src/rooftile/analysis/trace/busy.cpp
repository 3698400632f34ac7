#include "rooftile/analysis/trace/busy.h"

#include <algorithm>
#include <map>

#include "rooftile/analysis/kernel_name.h"
#include "rooftile/analysis/trace/nesting.h"

namespace rooftile::trace {
namespace {

// The length of a union of intervals that arrive by start.
class RunningUnion {
 public:
  explicit RunningUnion(Nanoseconds from) : reach_(from) {}

  void add(Nanoseconds start, Nanoseconds end) {
    start = std::max(start, reach_);
    if (end <= start) return;
    length_ += end - start;
    reach_ = end;
  }
  Nanoseconds reach() const { return reach_; }
  Nanoseconds length() const { return length_; }

 private:
  Nanoseconds reach_;
  Nanoseconds length_ = 0;
};

}  // namespace

KernelNames::KernelNames(const Timeline& timeline)
    : timeline_(timeline), index_(timeline.strings.size()) {
  facts_.emplace_back();
  for (std::size_t i = 0; i < timeline.gpu.time.size(); ++i) {
    const std::uint32_t name = timeline.gpu.name[i];
    if (timeline.gpu.kind[i] != GpuKind::kernel || index_[name] != 0) continue;
    index_[name] = static_cast<std::uint32_t>(facts_.size());
    facts_.push_back(parse_kernel_name(timeline.strings[name]));
  }
}

GpuClass KernelNames::class_of(std::uint32_t activity) const {
  if (timeline_.gpu.kind[activity] != GpuKind::kernel) return GpuClass::copy;
  return facts(activity).kernel_class == KernelClass::communication ? GpuClass::communication
                                                                    : GpuClass::compute;
}

GpuTrack busiest_gpu(const Timeline& timeline, const KernelNames& names) {
  const GpuActivities& gpu = timeline.gpu;
  const std::vector<std::uint32_t> rows = rows_by_start(gpu.time);
  std::map<std::int32_t, RunningUnion> busy;
  for (const std::uint32_t row : rows) {
    busy.try_emplace(timeline.streams[gpu.stream[row]].device, gpu.time.start(row))
        .first->second.add(gpu.time.start(row), gpu.time.end(row));
  }
  GpuTrack track;
  if (busy.empty()) return track;
  const auto most = std::max_element(busy.begin(), busy.end(), [](const auto& a, const auto& b) {
    return a.second.length() < b.second.length();
  });
  track.device = most->first;
  track.other_devices = busy.size() - 1;
  for (const std::uint32_t row : rows) {
    if (timeline.streams[gpu.stream[row]].device != track.device) continue;
    track.rows.push_back(row);
    track.classes.push_back(names.class_of(row));
  }
  return track;
}

bool is_migrated(const Timeline& timeline, std::uint32_t activity) {
  return timeline.gpu.kind[activity] == GpuKind::copy &&
         is_migration(timeline.copies[timeline.gpu.details[activity]].kind);
}

BusySplit split_busy(const Timeline& timeline, const GpuTrack& track, const Window& window) {
  const EventTimes& time = timeline.gpu.time;
  RunningUnion all(window.start), compute(window.start), communication(window.start),
      copy(window.start), kernels(window.start), copies(window.start), fills(window.start);
  BusySplit split;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const Nanoseconds start = std::max(time.start(track.rows[i]), window.start);
    const Nanoseconds end = std::min(time.end(track.rows[i]), window.end);
    if (end <= start) continue;
    if (start > all.reach()) split.gaps.push_back({all.reach(), start, i});
    all.add(start, end);
    if (track.classes[i] == GpuClass::copy) copy.add(start, end);
    if (track.classes[i] == GpuClass::compute) compute.add(start, end);
    if (track.classes[i] == GpuClass::communication) communication.add(start, end);
    const bool is_kernel = track.classes[i] != GpuClass::copy;
    const bool is_fill = timeline.gpu.kind[track.rows[i]] == GpuKind::fill;
    const bool is_moved = !is_kernel && !is_fill && is_migrated(timeline, track.rows[i]);
    if (is_kernel) kernels.add(start, end);
    if (!is_fill && !is_moved) copies.add(start, end);
    if (!is_moved) fills.add(start, end);
  }
  if (all.reach() < window.end) {
    split.gaps.push_back({all.reach(), window.end, track.rows.size()});
  }
  split.busy = all.length();
  split.compute = compute.length();
  split.communication = communication.length();
  split.exposed_communication = kernels.length() - compute.length();
  split.copy = copy.length();
  split.exposed_copy = all.length() - kernels.length();
  split.exposed_fill = fills.length() - copies.length();
  split.exposed_migration = all.length() - fills.length();
  return split;
}

void Cover::add(Nanoseconds start, Nanoseconds end) {
  if (!pieces_.empty()) start = std::max(start, pieces_.back().end);
  if (end <= start) return;
  if (!pieces_.empty() && pieces_.back().end == start) {
    pieces_.back().end = end;
  } else {
    pieces_.push_back({start, end, sum_});
  }
  sum_ += end - start;
}

Nanoseconds Cover::before(Nanoseconds at) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), at,
                       [](Nanoseconds value, const Piece& piece) { return value < piece.start; });
  if (after == pieces_.begin()) return 0;
  const Piece& piece = *(after - 1);
  return piece.sum_before + std::min(at, piece.end) - piece.start;
}

}  // namespace rooftile::trace
