// Which intervals lie in which: order of rows on each thread, parents, the innermost at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

// No row: no parent, no call, no operator.
inline constexpr std::uint32_t kNone = 0xffffffffU;

// Rows of one table, grouped by thread; within a thread by start, the longest first.
struct ThreadRows {
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> first;  // of each thread in `rows`, and the end of the last

  std::size_t threads() const { return first.size() - 1; }
  std::span<const std::uint32_t> of(std::size_t thread) const {
    if (thread >= threads()) return {};
    return std::span(rows).subspan(first[thread], first[thread + 1] - first[thread]);
  }
};

// Of intervals that begin and end together, the one with the smaller `tie` comes first, then the
// one recorded first; an empty `tie` column compares nothing.
ThreadRows rows_by_thread(const EventTimes& time, const Column<std::uint16_t>& thread,
                          const Column<std::uint32_t>& tie = {});

// All rows in the order of their starts.
std::vector<std::uint32_t> rows_by_start(const EventTimes& time);

// EventTimes open at a moving point of time on one thread. An interval that starts in another and
// ends after it is cut at the outer one's end, as clocks of whole microseconds make children stick
// out; it is no child where most of it lies outside.
class OpenIntervals {
 public:
  struct Open {
    Nanoseconds end = 0;
    std::uint32_t row = kNone;
  };

  // Closes what ended at or before `at`.
  void advance(Nanoseconds at) {
    while (!open_.empty() && open_.back().end <= at) open_.pop_back();
  }
  // Opens a row that starts at `start`, no earlier than any before; returns its parent.
  std::uint32_t open(std::uint32_t row, Nanoseconds start, Nanoseconds end);
  std::uint32_t innermost() const { return open_.empty() ? kNone : open_.back().row; }
  std::size_t depth() const { return open_.size(); }
  void clear() { open_.clear(); }

 private:
  std::vector<Open> open_;
};

// The row around each row, kNone where it stands alone.
std::vector<std::uint32_t> parents_of(const EventTimes& time, const ThreadRows& order);

// The innermost of `outer` at the start of each row of `inner`, both ordered by thread.
std::vector<std::uint32_t> innermost_at_start(const EventTimes& outer,
                                              const ThreadRows& outer_order,
                                              const EventTimes& inner,
                                              const ThreadRows& inner_order);

}  // namespace rooftile::trace
