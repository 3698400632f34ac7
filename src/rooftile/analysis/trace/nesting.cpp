#include "rooftile/analysis/trace/nesting.h"

#include <algorithm>
#include <numeric>

namespace rooftile::trace {
namespace {

// Rows grouped by thread, in recorded order within each.
ThreadRows grouped_rows(const Column<std::uint16_t>& thread) {
  ThreadRows order;
  std::size_t threads = 0;
  for (std::size_t i = 0; i < thread.size(); ++i) {
    threads = std::max<std::size_t>(threads, std::size_t{thread[i]} + 1);
  }
  order.first.assign(threads + 1, 0);
  for (std::size_t i = 0; i < thread.size(); ++i) ++order.first[std::size_t{thread[i]} + 1];
  std::partial_sum(order.first.begin(), order.first.end(), order.first.begin());
  order.rows.resize(thread.size());
  std::vector<std::uint32_t> next(order.first.begin(), order.first.end() - 1);
  for (std::size_t i = 0; i < thread.size(); ++i) {
    order.rows[next[thread[i]]++] = static_cast<std::uint32_t>(i);
  }
  return order;
}

}  // namespace

ThreadRows rows_by_thread(const EventTimes& time, const Column<std::uint16_t>& thread,
                          const Column<std::uint32_t>& tie) {
  ThreadRows order = grouped_rows(thread);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const Nanoseconds a_start = time.start(a);
    const Nanoseconds b_start = time.start(b);
    if (a_start != b_start) return a_start < b_start;
    const Nanoseconds a_duration = time.duration(a);
    const Nanoseconds b_duration = time.duration(b);
    if (a_duration != b_duration) return a_duration > b_duration;
    return !tie.empty() && tie[a] < tie[b];
  };
  for (std::size_t i = 0; i + 1 < order.first.size(); ++i) {
    const auto from = order.rows.begin() + order.first[i];
    const auto to = order.rows.begin() + order.first[i + 1];
    if (!std::is_sorted(from, to, before)) std::stable_sort(from, to, before);
  }
  return order;
}

std::vector<std::uint32_t> rows_by_start(const EventTimes& time) {
  std::vector<std::uint32_t> rows(time.size());
  std::iota(rows.begin(), rows.end(), 0U);
  const auto start = [&](std::uint32_t row) { return time.start(row); };
  if (!std::ranges::is_sorted(rows, {}, start)) std::ranges::stable_sort(rows, {}, start);
  return rows;
}

std::uint32_t OpenIntervals::open(std::uint32_t row, Nanoseconds start, Nanoseconds end) {
  advance(start);
  while (!open_.empty() && open_.back().end < end) {
    const Nanoseconds inside = open_.back().end - start;
    if (inside >= end - start - inside) {
      end = open_.back().end;
    } else {
      open_.pop_back();
    }
  }
  const std::uint32_t parent = innermost();
  open_.push_back({end, row});
  return parent;
}

std::vector<std::uint32_t> parents_of(const EventTimes& time, const ThreadRows& order) {
  std::vector<std::uint32_t> parents(time.size(), kNone);
  OpenIntervals open;
  for (std::size_t thread = 0; thread < order.threads(); ++thread) {
    open.clear();
    for (const std::uint32_t row : order.of(thread)) {
      parents[row] = open.open(row, time.start(row), time.end(row));
    }
  }
  return parents;
}

std::vector<std::uint32_t> innermost_at_start(const EventTimes& outer,
                                              const ThreadRows& outer_order,
                                              const EventTimes& inner,
                                              const ThreadRows& inner_order) {
  std::vector<std::uint32_t> found(inner.size(), kNone);
  OpenIntervals open;
  for (std::size_t thread = 0; thread < inner_order.threads(); ++thread) {
    open.clear();
    const auto around = outer_order.of(thread);
    std::size_t next = 0;
    for (const std::uint32_t row : inner_order.of(thread)) {
      const Nanoseconds at = inner.start(row);
      for (; next < around.size() && outer.start(around[next]) <= at; ++next) {
        open.open(around[next], outer.start(around[next]), outer.end(around[next]));
      }
      open.advance(at);
      found[row] = open.innermost();
    }
  }
  return found;
}

}  // namespace rooftile::trace
