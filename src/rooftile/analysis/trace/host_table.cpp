#include "rooftile/analysis/trace/host_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/windows.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr std::string_view kOtherSites = "other";

// The innermost operator around a call; ranges are none.
std::uint32_t innermost_op(const HostView& view, std::uint32_t op) {
  while (op != kNone && view.timeline.ops.kind[op] != HostKind::op) op = view.links.op_parent[op];
  return op;
}

bool is_in_steps(const HostView& view, Nanoseconds at) { return view.steps.contains(at); }

// Rows by key; the last one takes what comes after kMostSites distinct keys.
template <class Row, class Key>
class RowSet {
 public:
  // The row of `key`; new ones are made by `make`, and `other` for the last one.
  template <class Make, class Other>
  Row& at(const Key& key, Make make, Other other) {
    const auto known = ids_.find(key);
    if (known != ids_.end()) return rows_[known->second];
    if (rows_.size() < kMostSites) {
      ids_.emplace(key, rows_.size());
      return rows_.emplace_back(make());
    }
    if (rows_.size() == kMostSites) rows_.push_back(other());
    return rows_.back();
  }
  const Row* first() const { return rows_.data(); }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  std::map<Key, std::size_t> ids_;
  std::vector<Row> rows_;
};

struct SyncSums {
  SteadySum blocked, exposed;
};

}  // namespace

Seconds SteadySum::over(std::size_t steps) const {
  constexpr std::size_t kFewest = 3;
  constexpr Nanoseconds kMuch = 3;
  if (steps < kFewest || rest_ <= 0) return to_seconds(first_ + rest_);
  const auto others = static_cast<Nanoseconds>(steps - 1);
  if (first_ * others <= kMuch * rest_) return to_seconds(first_ + rest_);
  return to_seconds(rest_ + rest_ / others);
}

SiteKey key_of(const HostView& view, SiteRef site, std::uint32_t op) {
  const std::uint32_t inner = innermost_op(view, op);
  return {site.module, site.frame, inner == kNone ? 0 : view.timeline.ops.name[inner]};
}

TraceSite site_of(const HostView& view, SiteRef site, std::uint32_t op) {
  const std::uint32_t inner = innermost_op(view, op);
  TraceSite place;
  if (inner != kNone) place.op = view.timeline.strings[view.timeline.ops.name[inner]];
  place.module = view.sites.module_path(site);
  place.source = view.sites.source(site);
  return place;
}

std::vector<SiteRef> frames_of_calls(const HostView& view,
                                     const std::vector<std::uint32_t>& calls) {
  std::vector<SiteQuery> queries;
  queries.reserve(calls.size());
  for (const std::uint32_t call : calls) {
    queries.push_back({view.timeline.calls.thread[call], view.timeline.calls.time.start(call),
                       view.links.call_op[call]});
  }
  return view.sites.at(queries);
}

std::vector<SyncUse> tabulate_syncs(const HostView& view) {
  std::vector<std::uint32_t> calls;
  std::vector<const HostWait*> waits;
  for (const HostWait& wait : view.waits) {
    const bool counts = wait.cause == IdleCause::synchronization || wait.cause == IdleCause::copy;
    if (!wait.is_call || !counts || !is_in_steps(view, wait.start)) continue;
    calls.push_back(wait.row);
    waits.push_back(&wait);
  }
  const std::vector<SiteRef> frames = frames_of_calls(view, calls);
  RowSet<SyncUse, std::pair<std::uint32_t, SiteKey>> rows;
  std::vector<SyncSums> sums;  // of each row
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::uint32_t op = view.links.call_op[calls[i]];
    const std::uint32_t name = view.timeline.calls.name[calls[i]];
    SyncUse& row = rows.at(
        {name, key_of(view, frames[i], op)},
        [&] {
          return SyncUse{view.timeline.strings[name], site_of(view, frames[i], op), 0, {}, {}};
        },
        [] {
          return SyncUse{std::string(kOtherSites), {}, 0, {}, {}};
        });
    ++row.count;
    const auto index = static_cast<std::size_t>(&row - rows.first());
    sums.resize(std::max(sums.size(), index + 1));
    const bool is_first = view.is_in_first(waits[i]->start);
    sums[index].blocked.add(is_first, view.timeline.calls.time.duration(calls[i]));
    sums[index].exposed.add(is_first, waits[i]->exposed);
  }
  std::vector<SyncUse> syncs = rows.take();
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    syncs[i].blocked = sums[i].blocked.over(view.step_count);
    syncs[i].exposed = sums[i].exposed.over(view.step_count);
  }
  std::stable_sort(syncs.begin(), syncs.end(),
                   [](const SyncUse& a, const SyncUse& b) { return a.exposed > b.exposed; });
  return syncs;
}

// How often batches come while the loader is behind. What it had ready before, or got ready during
// a pause of the program, tells nothing: the count begins behind the longest row of batches in
// time.
class LateBatches {
 public:
  void add(const HostWait& wait) { batches_.push_back({wait.start, wait.end}); }
  Seconds interval() const {
    const auto first =
        std::ranges::find_if(batches_.begin() + first_late(), batches_.end(), is_late);
    const auto last = std::find_if(batches_.rbegin(), batches_.rend(), is_late).base();
    const auto count = last - first - 1;
    return count <= 0 ? Seconds()
                      : to_seconds((last - 1)->end - first->end) / static_cast<double>(count);
  }

 private:
  static bool is_late(const Window& batch) {
    constexpr Nanoseconds kLongestHandover = 1'500'000;  // of a batch that is ready
    return batch.span() > kLongestHandover;
  }
  // Behind the longest row in time, where half of the batches are left.
  std::ptrdiff_t first_late() const {
    std::ptrdiff_t longest = 0, end = 0, row = 0;
    for (std::ptrdiff_t i = 0; i < std::ssize(batches_); ++i) {
      row = is_late(batches_[static_cast<std::size_t>(i)]) ? 0 : row + 1;
      if (row < std::max<std::ptrdiff_t>(longest, 1)) continue;
      longest = row;
      end = i + 1;
    }
    return 2 * end <= std::ssize(batches_) ? end : 0;
  }

  std::vector<Window> batches_;
};

std::vector<LoaderUse> tabulate_loaders(const HostView& view) {
  RowSet<LoaderUse, std::uint32_t> rows;
  std::vector<LateBatches> batches;  // of each row
  std::vector<std::uint32_t> first;  // of each row but the last
  for (const HostWait& wait : view.waits) {
    if (wait.cause != IdleCause::data_loading || !is_in_steps(view, wait.start)) continue;
    const std::uint32_t name = view.timeline.ops.name[wait.row];
    LoaderUse& row = rows.at(
        name,
        [&] {
          LoaderUse use;
          first.push_back(wait.row);
          use.name = view.timeline.strings[name];
          use.in_process = use.name.find("SingleProcess") != std::string::npos;
          return use;
        },
        [] { return LoaderUse{std::string(kOtherSites), false, 0, {}, {}, {}, {}}; });
    ++row.count;
    // Without steps the first call of a loader may start its workers, and tells no rate.
    const bool is_start_up = !view.has_steps && std::ranges::find(first, wait.row) != first.end();
    if (is_start_up) continue;
    row.waiting += to_seconds(view.timeline.ops.time.duration(wait.row));
    row.exposed += to_seconds(wait.exposed);
    const auto index = static_cast<std::size_t>(&row - rows.first());
    batches.resize(std::max(batches.size(), index + 1));
    batches[index].add(wait);
  }
  std::vector<LoaderUse> loaders = rows.take();
  for (std::size_t i = 0; i < batches.size(); ++i) loaders[i].interval = batches[i].interval();
  for (std::size_t i = 0; TraceSite & site : view.sites.sites_of(first)) {
    loaders[i++].site = std::move(site);
  }
  return loaders;
}

AllocatorUse tabulate_allocator(const HostView& view, std::int32_t device) {
  AllocatorUse use;
  // What only the first step allocates is kept from there on.
  const bool comes_back = std::ranges::any_of(view.waits, [&](const HostWait& wait) {
    return wait.cause == IdleCause::allocator && is_in_steps(view, wait.start) &&
           !view.is_in_first(wait.start);
  });
  for (const HostWait& wait : view.waits) {
    if (!comes_back) break;
    if (wait.cause != IdleCause::allocator || !is_in_steps(view, wait.start)) continue;
    const CallKind kind = view.links.kind_of_call(view.timeline, wait.row);
    ++(kind == CallKind::release ? use.frees : use.mallocs);
    const std::string_view name = view.timeline.strings[view.timeline.calls.name[wait.row]];
    if (contains(name, "llocAsync") || contains(name, "AllocFromPool")) ++use.from_pool;
    use.blocked += to_seconds(view.timeline.calls.time.duration(wait.row));
    use.exposed += to_seconds(wait.exposed);
  }
  const MemoryEvents& memory = view.timeline.memory;
  for (std::size_t i = 0; i < memory.at.size(); ++i) {
    if (memory.device[i] != device) continue;
    const auto raise = [](std::optional<Bytes>& peak, std::int64_t bytes) {
      if (bytes < 0) return;
      peak = std::max(peak.value_or(Bytes()), Bytes(static_cast<double>(bytes)));
    };
    raise(use.peak_allocated, memory.allocated[i]);
    raise(use.peak_reserved, memory.reserved[i]);
  }
  return use;
}

namespace {

// In order of their starts; what lies no further apart than `gap` is one.
void extend(std::vector<Window>& windows, Nanoseconds start, Nanoseconds end, Nanoseconds gap = 0) {
  if (!windows.empty() && start - windows.back().end <= gap) {
    windows.back().end = std::max(windows.back().end, end);
  } else {
    windows.push_back({start, end});
  }
}

// What each thread that launches does in operators, with the Python code between two, and in calls
// outside of them.
std::vector<std::vector<Window>> work_of_threads(const HostView& view) {
  constexpr Nanoseconds kPythonBetween = 200'000;
  const Links& links = view.links;
  std::vector<std::vector<Window>> work(links.launches.size()), calls(links.launches.size());
  const HostOps& ops = view.timeline.ops;
  for (const std::uint32_t op : links.op_order.rows) {
    const std::size_t thread = ops.thread[op];
    if (ops.kind[op] != HostKind::op || !links.launches[thread]) continue;
    extend(work[thread], ops.time.start(op), ops.time.end(op), kPythonBetween);
  }
  const RuntimeCalls& all = view.timeline.calls;
  for (const std::uint32_t call : links.call_order.rows) {
    const std::size_t thread = all.thread[call];
    if (!links.launches[thread]) continue;
    const std::uint32_t op = links.call_op[call];
    if (op != kNone && ops.kind[op] == HostKind::op) continue;
    extend(calls[thread], all.time.start(call), all.time.end(call));
  }
  for (std::size_t thread = 0; thread < work.size(); ++thread) {
    work[thread].insert(work[thread].end(), calls[thread].begin(), calls[thread].end());
    work[thread] = united(std::move(work[thread]));
  }
  return work;
}

// Launch calls of a kernel that wait for room in the queue, but for what a launch takes by itself.
void add_full_queues(const HostView& view, std::vector<std::vector<Window>>& waiting) {
  constexpr Nanoseconds kLaunch = 20'000, kLong = 100'000;
  const RuntimeCalls& calls = view.timeline.calls;
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    if (calls.time.duration(call) < kLong) continue;
    if (view.links.kind_of_call(view.timeline, call) != CallKind::launch) continue;
    waiting[calls.thread[call]].push_back({calls.time.start(call) + kLaunch, calls.time.end(call)});
  }
}

// Time in which a thread that launches is in operators and calls, waits taken off: main and
// autograd's thread take turns.
Nanoseconds time_of_work(const HostView& view) {
  const std::vector<std::vector<Window>> work = work_of_threads(view);
  std::vector<std::vector<Window>> waiting(work.size());
  for (const HostWait& wait : view.waits) {
    if (!is_other_work(wait.cause)) extend(waiting[wait.thread], wait.start, wait.end);
  }
  add_full_queues(view, waiting);
  std::vector<Window> busy;
  for (std::size_t thread = 0; thread < work.size(); ++thread) {
    const std::vector<Window> own = without(work[thread], united(std::move(waiting[thread])));
    busy.insert(busy.end(), own.begin(), own.end());
  }
  return length_within(united(std::move(busy)), view.steps);
}

}  // namespace

LaunchCounts count_launches(const HostView& view) {
  const RuntimeCalls& calls = view.timeline.calls;
  LaunchCounts counts;
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    const CallKind kind = view.links.kind_of_call(view.timeline, call);
    if (kind != CallKind::launch && kind != CallKind::graph_launch) continue;
    if (!is_in_steps(view, calls.time.start(call))) continue;
    ++(kind == CallKind::launch ? counts.launches : counts.graphs);
    if (view.links.launches[calls.thread[call]]) counts.launch_time += calls.time.duration(call);
  }
  counts.busy = time_of_work(view);
  return counts;
}

}  // namespace rooftile::trace
