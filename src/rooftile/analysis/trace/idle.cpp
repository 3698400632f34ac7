#include "rooftile/analysis/trace/idle.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "rooftile/analysis/trace/host_parts.h"
#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

// A start later than this after its call was held up by something else than the launch: ten times
// what a launch to an idle GPU takes in public recordings (5 to 10 us).
constexpr Nanoseconds kLongestLatency = 100'000;
// The launch of a graph of thousands of nodes takes the GPU longer.
constexpr Nanoseconds kLongestGraphLatency = 1'000'000;
// Longer than the driver takes to handle the page faults of a batch and to move it, and to begin
// anew on a GPU that had run out of work; assumed.
constexpr Nanoseconds kLongestRestart = 1'000'000;
// How long a driver that submits launches in batches keeps them; assumed.
constexpr Nanoseconds kLongestBatch = 10'000'000;

// By how much the host would have come earlier without its past waits.
class Credits {
 public:
  void add(std::uint32_t wait, IdleCause cause, Nanoseconds length) {
    if (length > 0) credits_.push_back({wait, cause, length});
  }
  // A wait for the GPU lets only credit of its own cause survive.
  void keep_only(IdleCause cause) {
    std::erase_if(credits_, [&](const Credit& credit) { return credit.cause != cause; });
  }
  // Of waits that were over by then and count.
  template <class Counts>
  void end(const std::vector<HostWait>& waits, Nanoseconds by, Counts counts) {
    std::erase_if(credits_, [&](const Credit& credit) {
      const HostWait& wait = waits[credit.wait];
      return wait.end <= by && counts(wait);
    });
  }

  // Uses credit for [start, end), the latest first; what is left of the interval is the launch's.
  void explain(Nanoseconds start, Nanoseconds end, std::vector<IdlePiece>& pieces) {
    while (start < end && !credits_.empty()) {
      Credit& credit = credits_.back();
      const Nanoseconds used = std::min(credit.left, end - start);
      pieces.push_back({start, start + used, credit.cause, credit.wait});
      start += used;
      credit.left -= used;
      if (credit.left == 0) credits_.pop_back();
    }
    if (start < end) pieces.push_back({start, end, IdleCause::launch, kNone});
  }

 private:
  struct Credit {
    std::uint32_t wait;
    IdleCause cause;
    Nanoseconds left;
  };

  std::vector<Credit> credits_;
};

// When GPUs of the trace other than the track's are busy.
Cover work_of_other_gpus(const Timeline& timeline, const GpuTrack& track) {
  Cover work;
  if (track.other_devices == 0) return work;
  const GpuActivities& gpu = timeline.gpu;
  for (const std::uint32_t row : rows_by_start(gpu.time)) {
    if (timeline.streams[gpu.stream[row]].device == track.device) continue;
    work.add(gpu.time.start(row), gpu.time.end(row));
  }
  return work;
}

// A launch of something for the track's GPU.
struct LaunchTimes {
  Nanoseconds called = 0;
  Nanoseconds started = 0;  // of what it launched
};

// In the order of their calls.
std::vector<LaunchTimes> launch_times(const Timeline& timeline, const Links& links,
                                      const GpuTrack& track) {
  std::vector<LaunchTimes> launches;
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone) continue;
    launches.push_back({timeline.calls.time.start(call), timeline.gpu.time.start(row)});
  }
  std::ranges::stable_sort(launches, {}, &LaunchTimes::called);
  return launches;
}

class GapExplainer {
 public:
  GapExplainer(const Timeline& timeline, const Links& links, const GpuTrack& track,
               const BusySplit& split, const std::vector<HostWait>& waits)
      : timeline_(timeline),
        links_(links),
        track_(track),
        split_(split),
        waits_(waits),
        other_gpus_(work_of_other_gpus(timeline, track)),
        latency_(usual_latency(timeline, links, track, split)),
        launches_(launch_times(timeline, links, track)),
        first_(first_activities(timeline, links)),
        host_parts_(timeline, links) {
    for (const Gap& gap : split.gaps) idle_.add(gap.start, gap.end);
    find_leads();
  }

  std::vector<IdlePiece> explain() {
    for (const Gap& gap : split_.gaps) {
      pass_waits(gap.start);
      const std::size_t first = pieces_.size();
      explain(gap);
      set_apart_from_launching(gap, first);
    }
    join_late_starts();
    return std::move(pieces_);
  }

 private:
  void explain(const Gap& gap);
  void explain_start_up(const Gap& gap);
  void explain_migration(const Gap& gap);
  void set_apart_from_launching(const Gap& gap, std::size_t first);
  bool is_start_up(const Gap& gap) const;
  void explain_by_host(const Gap& gap, std::uint32_t call);
  Nanoseconds explain_by_waits(Nanoseconds start, Nanoseconds end, IdleCause otherwise);
  void explain_queued(Nanoseconds start, Nanoseconds end, IdleCause usual, std::uint32_t call);
  void join_late_starts();
  std::uint32_t wait_right_before(Nanoseconds called) const;

  // When the GPU had work in its queue: a launch that waited there, behind other work and not for
  // an event on an idle GPU, or a wait of the host.
  void find_leads() {
    for (const LaunchTimes& launch : launches_) {
      const Nanoseconds queued =
          launch.started - launch.called - idle_.within(launch.called, launch.started);
      if (queued > latency_ + kLongestLatency) leads_.push_back(launch.called);
    }
    for (const HostWait& wait : waits_) {
      if (is_for_gpu(wait) && busy_within(wait) > kLongestLatency) leads_.push_back(wait.start);
    }
    std::ranges::sort(leads_);
  }
  // A wait for the GPU is no longer to blame once the host is ahead of the GPU again, another one
  // once it has launched something.
  void end_credit(Nanoseconds called) {
    const auto lead = std::ranges::lower_bound(leads_, called);
    if (lead != leads_.begin()) credits_.end(waits_, *(lead - 1), is_for_gpu);
    const auto launch = std::ranges::lower_bound(launches_, called, {}, &LaunchTimes::called);
    if (launch == launches_.begin()) return;
    credits_.end(waits_, (launch - 1)->called,
                 [](const HostWait& wait) { return !is_for_gpu(wait); });
  }
  static bool is_for_gpu(const HostWait& wait) {
    return wait.cause == IdleCause::synchronization || wait.cause == IdleCause::copy;
  }
  Nanoseconds busy_within(const HostWait& wait) const {
    return wait.end - wait.start - idle_.within(wait.start, wait.end);
  }
  // Waits that are over by `until` leave their credit.
  void pass_waits(Nanoseconds until) {
    while (next_ < waits_.size() && waits_[next_].end <= until) pass_wait();
  }
  void pass_wait() {
    const HostWait& wait = waits_[next_];
    if (is_for_gpu(wait)) credits_.keep_only(wait.cause);
    const bool has_credit = wait.cause != IdleCause::module_loading && !is_recorders(wait.cause) &&
                            !is_full_queue(wait);
    if (has_credit) {
      credits_.add(static_cast<std::uint32_t>(next_), wait.cause, busy_within(wait));
    }
    ++next_;
  }
  // A launch call that waits for room in the queue is as long as one that loads a module, but
  // beside a GPU that is busy until it returns.
  bool is_full_queue(const HostWait& wait) const {
    const Nanoseconds last = std::max(wait.start, wait.end - kLongestRestart);
    return is_other_work(wait.cause) && wait.is_call &&
           is_launch(links_.kind_of_call(timeline_, wait.row)) &&
           2 * idle_.within(last, wait.end) < wait.end - last;
  }
  // The idle time of the next wait. A copy to memory that is not pinned goes on after the GPU's
  // part of it: the driver copies on from its own buffer.
  void add_wait(Nanoseconds start, Nanoseconds end) {
    const HostWait& wait = waits_[next_];
    const auto index = static_cast<std::uint32_t>(next_);
    Nanoseconds copied = end;
    const std::uint32_t copy = wait.is_call ? first_[wait.row] : kNone;
    const bool is_copy = wait.cause == IdleCause::synchronization && copy != kNone &&
                         timeline_.gpu.kind[copy] == GpuKind::copy;
    if (is_copy) copied = std::clamp(timeline_.gpu.time.end(copy), start, end);
    if (copied > start) pieces_.push_back({start, copied, wait.cause, index});
    if (end > copied) pieces_.push_back({copied, end, IdleCause::copy, index});
  }
  // The host's own work, by credit or else by `otherwise`.
  void add_work(Nanoseconds start, Nanoseconds end, IdleCause otherwise) {
    if (end <= start) return;
    if (otherwise == IdleCause::launch) {
      credits_.explain(start, end, pieces_);
    } else {
      pieces_.push_back({start, end, otherwise, kNone});
    }
  }

  const Timeline& timeline_;
  const Links& links_;
  const GpuTrack& track_;
  const BusySplit& split_;
  const std::vector<HostWait>& waits_;
  Cover other_gpus_;
  Nanoseconds latency_;
  std::vector<LaunchTimes> launches_;
  std::vector<std::uint32_t> first_;  // activity of each call
  HostParts host_parts_;
  std::vector<Nanoseconds> leads_;  // times at which the host is ahead of the GPU, sorted
  Credits credits_;
  Cover idle_;
  std::size_t next_ = 0;  // the first wait that is not over
  std::vector<IdlePiece> pieces_;
};

// Before the first work of a program that is recorded from its start: CUDA's own start shows.
bool GapExplainer::is_start_up(const Gap& gap) const {
  if (gap.next != 0 || links_.leftover[track_.rows[0]]) return false;
  const RuntimeCalls& calls = timeline_.calls;
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    if (links_.kind_of_call(timeline_, call) != CallKind::start_up) continue;
    if (calls.time.start(call) < gap.end) return true;
  }
  return false;
}

// What the recorder itself did meanwhile is its own.
void GapExplainer::explain_start_up(const Gap& gap) {
  Nanoseconds at = gap.start;
  const auto add = [&](Nanoseconds until, IdleCause cause, std::uint32_t wait) {
    if (until > at) pieces_.push_back({at, until, cause, wait});
    at = std::max(at, until);
  };
  for (std::size_t i = next_; i < waits_.size() && waits_[i].start < gap.end; ++i) {
    if (waits_[i].cause != IdleCause::profiler) continue;
    add(waits_[i].start, IdleCause::start_up, kNone);
    add(std::min(waits_[i].end, gap.end), IdleCause::profiler, static_cast<std::uint32_t>(i));
  }
  while (next_ < waits_.size() && waits_[next_].end <= gap.end) ++next_;
  add(gap.end, IdleCause::start_up, kNone);
}

void GapExplainer::explain(const Gap& gap) {
  if (gap.next == track_.rows.size()) {
    // Nothing was launched any more: only what kept the host from going on counts.
    const bool has_host = timeline_.calls.time.size() + timeline_.ops.time.size() > 0;
    const IdleCause rest = has_host ? IdleCause::outside : IdleCause::unknown;
    add_work(explain_by_waits(gap.start, gap.end, rest), gap.end, rest);
    return;
  }
  if (is_start_up(gap)) return explain_start_up(gap);
  const std::uint32_t call = links_.gpu_call[track_.rows[gap.next]];
  if (call != kNone) return explain_by_host(gap, call);
  if (is_migrated(timeline_, track_.rows[gap.next])) return explain_migration(gap);
  add_work(explain_by_waits(gap.start, gap.end, IdleCause::unknown), gap.end, IdleCause::unknown);
}

// No call starts it: one side touched the pages, or the driver moves them ahead.
void GapExplainer::explain_migration(const Gap& gap) {
  if (gap.end - gap.start <= kLongestRestart) {
    pieces_.push_back({gap.start, gap.end, IdleCause::migration, kNone});
    return;
  }
  const bool has_host = timeline_.calls.time.size() > 0;
  const IdleCause rest = has_host ? IdleCause::host_work : IdleCause::unknown;
  add_work(explain_by_waits(gap.start, gap.end, rest), gap.end, rest);
}

// Of the pieces from `first` on, those that the launches do not cause.
void GapExplainer::set_apart_from_launching(const Gap& gap, std::size_t first) {
  if (gap.next == track_.rows.size()) return;
  const std::uint32_t call = links_.gpu_call[track_.rows[gap.next]];
  if (call == kNone) return;
  const std::uint16_t thread = timeline_.calls.thread[call];
  const bool is_copy = timeline_.gpu.kind[track_.rows[gap.next]] == GpuKind::copy;
  const std::vector<IdlePiece> whole(pieces_.begin() + static_cast<std::ptrdiff_t>(first),
                                     pieces_.end());
  pieces_.resize(first);
  for (const IdlePiece& piece : whole) {
    Nanoseconds at = piece.start;
    const auto add = [&](Nanoseconds until, IdleCause cause) {
      if (until > at) pieces_.push_back({at, until, cause, piece.wait});
      at = until;
    };
    // From the call on it is the launch's, or the copy's.
    const Nanoseconds until = std::min(piece.end, timeline_.calls.time.start(call));
    if (piece.cause == IdleCause::launch && piece.start < until) {
      for (const HostPart& part : host_parts_.within(thread, piece.start, until)) {
        add(part.start, IdleCause::launch);
        add(part.end, part.cause);
      }
      add(until, IdleCause::launch);
    }
    add(piece.end, piece.cause == IdleCause::launch && is_copy ? IdleCause::copy : piece.cause);
  }
}

// Pieces for [start, end) up to the returned time, from where no wait remains.
Nanoseconds GapExplainer::explain_by_waits(Nanoseconds start, Nanoseconds end,
                                           IdleCause otherwise) {
  while (next_ < waits_.size() && waits_[next_].start < end) {
    const HostWait& wait = waits_[next_];
    const Nanoseconds from = std::max(start, wait.start);
    const Nanoseconds to = std::min(end, wait.end);
    add_work(start, from, otherwise);
    bool counts = true;
    if (otherwise == IdleCause::outside) {
      counts = wait.cause == IdleCause::data_loading || wait.cause == IdleCause::allocator ||
               (wait.cause == IdleCause::host_work && wait.goes_on);
    } else if (otherwise == IdleCause::unknown) {
      counts = !is_other_work(wait.cause);  // launches are missing
    } else {
      counts = !is_full_queue(wait);
    }
    if (to > from && counts) {
      add_wait(from, to);
    } else if (to > from) {
      pieces_.push_back({from, to, otherwise, kNone});
    }
    start = std::max(start, to);
    if (wait.end > end) break;
    pass_wait();
  }
  return start;
}

void GapExplainer::explain_by_host(const Gap& gap, std::uint32_t call) {
  const Nanoseconds called = timeline_.calls.time.start(call);
  const Nanoseconds returned = timeline_.calls.time.end(call);
  Nanoseconds at = gap.start;
  end_credit(called);
  if (called > gap.start) {
    at = explain_by_waits(gap.start, std::min(called, gap.end), IdleCause::launch);
    add_work(at, std::min(called, gap.end), IdleCause::launch);
    at = std::min(called, gap.end);
  }
  const bool is_wait = next_ < waits_.size() && waits_[next_].is_call && waits_[next_].row == call;
  if (is_wait && !is_full_queue(waits_[next_])) {
    // A copy that blocks: the gap until it starts is its own. Other calls explain it until they
    // return.
    const IdleCause cause = waits_[next_].cause;
    const Nanoseconds until = is_other_work(cause) ? std::clamp(returned, at, gap.end) : gap.end;
    if (at < until) pieces_.push_back({at, until, cause, static_cast<std::uint32_t>(next_)});
    at = until;
  }
  // What the call itself waits for, as for a module to be loaded.
  const bool loads = next_ < waits_.size() && waits_[next_].start >= called &&
                     (is_other_work(waits_[next_].cause) || is_recorders(waits_[next_].cause));
  if (loads && returned > at) {
    at = explain_by_waits(at, std::min(returned, gap.end), IdleCause::launch);
  }
  const Nanoseconds launched = std::clamp(std::max(returned, called + latency_), at, gap.end);
  add_work(at, launched, IdleCause::launch);
  explain_queued(launched, gap.end,
                 called > gap.start ? IdleCause::launch : IdleCause::between_kernels, call);
}

// The wait for the GPU after which the thread launched nothing until then; kNone without one.
std::uint32_t GapExplainer::wait_right_before(Nanoseconds called) const {
  const auto after = std::ranges::upper_bound(waits_, called, {}, &HostWait::end);
  if (after == waits_.begin() || !is_for_gpu(*(after - 1))) return kNone;
  const auto launch =
      std::ranges::lower_bound(launches_, (after - 1)->end, {}, &LaunchTimes::called);
  if (launch == launches_.end() || launch->called < called) return kNone;
  return static_cast<std::uint32_t>(after - 1 - waits_.begin());
}

// The work was with the GPU and did not start.
void GapExplainer::explain_queued(Nanoseconds start, Nanoseconds end, IdleCause usual,
                                  std::uint32_t call) {
  const bool is_graph = links_.kind_of_call(timeline_, call) == CallKind::graph_launch;
  if (end - start <= (is_graph ? kLongestGraphLatency : kLongestLatency)) {
    add_work(start, end, usual);
    return;
  }
  // A GPU that ran out of work for the host's wait takes longer to begin anew.
  const std::uint32_t wait = wait_right_before(timeline_.calls.time.start(call));
  if (wait != kNone && end - start <= kLongestRestart) {
    pieces_.push_back({start, end, IdleCause::restart, wait});
    return;
  }
  if (timeline_.submits_in_batches && end - start <= kLongestBatch) {
    add_work(start, end, IdleCause::launch);
    return;
  }
  const bool waits_for_gpu = 2 * other_gpus_.within(start, end) >= end - start;
  add_work(start, end, waits_for_gpu ? IdleCause::between_kernels : IdleCause::unrecorded_work);
}

// Where launched work starts late behind no wait, too, and for longer in all, waits are not why.
void GapExplainer::join_late_starts() {
  Nanoseconds late = 0, restarting = 0;
  for (const IdlePiece& piece : pieces_) {
    if (piece.cause == IdleCause::unrecorded_work) late += piece.end - piece.start;
    if (piece.cause == IdleCause::restart) restarting += piece.end - piece.start;
  }
  if (late <= restarting) return;
  for (IdlePiece& piece : pieces_) {
    if (piece.cause != IdleCause::restart) continue;
    piece = {piece.start, piece.end, IdleCause::unrecorded_work, kNone};
  }
}

}  // namespace

std::vector<IdlePiece> explain_gaps(const Timeline& timeline, const Links& links,
                                    const GpuTrack& track, const BusySplit& split,
                                    const std::vector<HostWait>& waits) {
  return GapExplainer(timeline, links, track, split, waits).explain();
}

std::map<IdleCause, Nanoseconds> idle_by_cause(const std::vector<IdlePiece>& pieces,
                                               const Window& window) {
  std::map<IdleCause, Nanoseconds> sums;
  for (const IdlePiece& piece : pieces) {
    const Nanoseconds length =
        std::min(piece.end, window.end) - std::max(piece.start, window.start);
    if (length > 0) sums[piece.cause] += length;
  }
  return sums;
}

Nanoseconds usual_latency(const Timeline& timeline, const Links& links, const GpuTrack& track,
                          const BusySplit& split) {
  std::vector<Nanoseconds> latencies;
  for (const Gap& gap : split.gaps) {
    if (gap.next == track.rows.size()) continue;
    const std::uint32_t row = track.rows[gap.next];
    if (links.gpu_call[row] == kNone || timeline.gpu.kind[row] != GpuKind::kernel) continue;
    const Nanoseconds called = timeline.calls.time.start(links.gpu_call[row]);
    if (called < gap.start || gap.end - called > kLongestLatency) continue;
    latencies.push_back(gap.end - called);
  }
  return latencies.empty() ? 0 : median(std::move(latencies));
}

Nanoseconds time_slice_of(const std::vector<IdlePiece>& pieces) {
  constexpr std::size_t kFewest = 6;
  constexpr Nanoseconds kUnlike = 10;       // a tenth of the median
  constexpr std::ptrdiff_t kMayDiffer = 5;  // one of so many
  std::vector<Nanoseconds> starts, between;
  for (const IdlePiece& piece : pieces) {
    if (piece.cause == IdleCause::unrecorded_work) starts.push_back(piece.end);
  }
  for (std::size_t i = 1; i < starts.size(); ++i) between.push_back(starts[i] - starts[i - 1]);
  if (between.size() < kFewest) return 0;
  const Nanoseconds usual = median(between);
  const auto unlike = std::ranges::count_if(
      between, [&](Nanoseconds length) { return kUnlike * std::abs(length - usual) > usual; });
  return kMayDiffer * unlike <= std::ssize(between) ? usual : 0;
}

}  // namespace rooftile::trace
