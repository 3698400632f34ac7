// When a GPU works, with what, and when it does not: unions of intervals over its streams.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/workload/kernel_facts.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

struct Window {
  Nanoseconds start = 0, end = 0;

  Nanoseconds span() const { return end - start; }
  bool contains(Nanoseconds at) const { return start <= at && at < end; }
  bool operator==(const Window&) const = default;
};

enum class GpuClass : std::uint8_t { compute, communication, copy };

// What the names of the kernels say, each name read once.
class KernelNames {
 public:
  explicit KernelNames(const Timeline& timeline);

  // Of a GPU activity that is a kernel.
  const KernelFacts& facts(std::uint32_t activity) const {
    return facts_[index_[timeline_.gpu.name[activity]]];
  }
  GpuClass class_of(std::uint32_t activity) const;

 private:
  const Timeline& timeline_;
  std::vector<std::uint32_t> index_;  // by name
  std::vector<KernelFacts> facts_;
};

// The GPU that is busy longest, and what ran on it, by start.
struct GpuTrack {
  std::int32_t device = 0;
  std::vector<std::uint32_t> rows;
  std::vector<GpuClass> classes;  // of each of `rows`
  std::size_t other_devices = 0;  // that did something too
};
GpuTrack busiest_gpu(const Timeline& timeline, const KernelNames& names);

// A time at which no stream works, until `next` starts (an index into the track's rows; their
// number = nothing follows).
struct Gap {
  Nanoseconds start = 0, end = 0;
  std::size_t next = 0;
};

// In nanoseconds; busy = compute + exposed_communication + exposed_copy, busy + gaps = the window.
struct BusySplit {
  Nanoseconds busy = 0, compute = 0;
  Nanoseconds communication = 0, exposed_communication = 0;
  Nanoseconds copy = 0, exposed_copy = 0;
  // Of the exposed: fills while nothing is copied, migrations while nothing else is.
  Nanoseconds exposed_fill = 0, exposed_migration = 0;
  std::vector<Gap> gaps;
};
BusySplit split_busy(const Timeline& timeline, const GpuTrack& track, const Window& window);

// Whether the activity moves pages of managed memory.
bool is_migrated(const Timeline& timeline, std::uint32_t activity);

// Disjoint intervals in order, for asking how much of another interval they cover.
class Cover {
 public:
  // Starts must not decrease.
  void add(Nanoseconds start, Nanoseconds end);
  // How much of [start, end) is covered.
  Nanoseconds within(Nanoseconds start, Nanoseconds end) const {
    return end <= start ? 0 : before(end) - before(start);
  }
  Nanoseconds total() const { return sum_; }

 private:
  struct Piece {
    Nanoseconds start, end, sum_before;
  };
  // How much lies before `at`.
  Nanoseconds before(Nanoseconds at) const;

  std::vector<Piece> pieces_;
  Nanoseconds sum_ = 0;
};

}  // namespace rooftile::trace
