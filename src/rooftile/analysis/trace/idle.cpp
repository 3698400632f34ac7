#include "rooftile/analysis/trace/idle.h"

#include <algorithm>
#include <array>
#include <deque>

namespace rooftile::trace {
namespace {

// Launches that CUDA queues before a launch call blocks: about 1024.
constexpr Nanoseconds kQueueDepth = 1000;
// A start later than this after its call was held up by something else than the launch.
constexpr Nanoseconds kLongestLatency = 100'000;

// How far ahead the host would be without its past waits.
class Credits {
 public:
  explicit Credits(Nanoseconds most) : most_(most) {}

  void add(std::uint32_t wait, IdleCause cause, Nanoseconds length) {
    if (length <= 0) return;
    of(cause).push_back({wait, cause, length});
    sum_ += length;
    while (sum_ > most_) {
      std::deque<Credit>* const credits = earliest();
      const Nanoseconds excess = std::min(credits->front().left, sum_ - most_);
      credits->front().left -= excess;
      sum_ -= excess;
      if (credits->front().left == 0) credits->pop_front();
    }
  }

  // A wait for the GPU lets only credit of its own cause survive.
  void keep_only(IdleCause cause) {
    for (std::deque<Credit>& credits : by_cause_) {
      if (credits.empty() || credits.front().cause == cause) continue;
      for (const Credit& credit : credits) sum_ -= credit.left;
      credits.clear();
    }
  }

  // Uses credit for [start, end); what is left of the interval is the launches'.
  void explain(Nanoseconds start, Nanoseconds end, std::vector<IdlePiece>& pieces) {
    while (start < end && sum_ > 0) {
      std::deque<Credit>* const credits = latest();
      Credit& credit = credits->back();
      const Nanoseconds used = std::min(credit.left, end - start);
      pieces.push_back({start, start + used, credit.cause, credit.wait});
      start += used;
      credit.left -= used;
      sum_ -= used;
      if (credit.left == 0) credits->pop_back();
    }
    if (start < end) pieces.push_back({start, end, IdleCause::launch, kNone});
  }

 private:
  struct Credit {
    std::uint32_t wait;
    IdleCause cause;
    Nanoseconds left;
  };

  std::deque<Credit>& of(IdleCause cause) { return by_cause_.at(static_cast<std::size_t>(cause)); }
  std::deque<Credit>* earliest() {
    std::deque<Credit>* first = nullptr;
    for (std::deque<Credit>& credits : by_cause_) {
      if (credits.empty()) continue;
      if (first == nullptr || credits.front().wait < first->front().wait) first = &credits;
    }
    return first;
  }
  std::deque<Credit>* latest() {
    std::deque<Credit>* last = nullptr;
    for (std::deque<Credit>& credits : by_cause_) {
      if (credits.empty()) continue;
      if (last == nullptr || credits.back().wait > last->back().wait) last = &credits;
    }
    return last;
  }

  // Of each cause by the waits' order. Waits have only the causes before between_kernels.
  std::array<std::deque<Credit>, static_cast<std::size_t>(IdleCause::between_kernels)> by_cause_;
  Nanoseconds sum_ = 0, most_;
};

class GapExplainer {
 public:
  GapExplainer(const Timeline& timeline, const Links& links, const GpuTrack& track,
               const BusySplit& split, const std::vector<HostWait>& waits)
      : timeline_(timeline),
        links_(links),
        track_(track),
        split_(split),
        waits_(waits),
        latency_(usual_latency(timeline, links, track, split)),
        credits_(track.rows.empty()
                     ? 0
                     : split.busy / static_cast<Nanoseconds>(track.rows.size()) * kQueueDepth) {
    for (const Gap& gap : split.gaps) idle_.add(gap.start, gap.end);
  }

  std::vector<IdlePiece> explain() {
    for (const Gap& gap : split_.gaps) {
      pass_waits(gap.start);
      explain(gap);
    }
    return std::move(pieces_);
  }

 private:
  void explain(const Gap& gap);
  void explain_by_host(const Gap& gap, std::uint32_t call);
  Nanoseconds explain_by_waits(Nanoseconds start, Nanoseconds end, IdleCause otherwise);

  // Waits that are over by `until` leave their credit.
  void pass_waits(Nanoseconds until) {
    while (next_ < waits_.size() && waits_[next_].end <= until) pass_wait();
  }
  void pass_wait() {
    const HostWait& wait = waits_[next_];
    const bool is_for_gpu =
        wait.cause == IdleCause::synchronization || wait.cause == IdleCause::copy;
    if (is_for_gpu) credits_.keep_only(wait.cause);
    credits_.add(static_cast<std::uint32_t>(next_), wait.cause,
                 wait.end - wait.start - idle_.within(wait.start, wait.end));
    ++next_;
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
  Nanoseconds latency_;
  Credits credits_;
  Cover idle_;
  std::size_t next_ = 0;  // the first wait that is not over
  std::vector<IdlePiece> pieces_;
};

void GapExplainer::explain(const Gap& gap) {
  if (gap.next == track_.rows.size()) {
    // Nothing was launched any more: only what kept the host from going on counts.
    const bool has_host = timeline_.calls.time.size() + timeline_.ops.time.size() > 0;
    const IdleCause rest = has_host ? IdleCause::outside : IdleCause::unknown;
    add_work(explain_by_waits(gap.start, gap.end, rest), gap.end, rest);
    return;
  }
  const std::uint32_t call = links_.gpu_call[track_.rows[gap.next]];
  if (call != kNone) return explain_by_host(gap, call);
  add_work(explain_by_waits(gap.start, gap.end, IdleCause::unknown), gap.end, IdleCause::unknown);
}

// Pieces for [start, end) up to the returned time, from where no wait remains.
Nanoseconds GapExplainer::explain_by_waits(Nanoseconds start, Nanoseconds end,
                                           IdleCause otherwise) {
  while (next_ < waits_.size() && waits_[next_].start < end) {
    const HostWait& wait = waits_[next_];
    const Nanoseconds from = std::max(start, wait.start);
    const Nanoseconds to = std::min(end, wait.end);
    add_work(start, from, otherwise);
    const bool counts = otherwise != IdleCause::outside || wait.cause == IdleCause::data_loading ||
                        wait.cause == IdleCause::allocator;
    if (to > from) {
      pieces_.push_back({from, to, counts ? wait.cause : otherwise,
                         counts ? static_cast<std::uint32_t>(next_) : kNone});
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
  if (called > gap.start) {
    at = explain_by_waits(gap.start, std::min(called, gap.end), IdleCause::launch);
    add_work(at, std::min(called, gap.end), IdleCause::launch);
    at = std::min(called, gap.end);
  }
  // A copy that blocks: the gap until it starts is its own.
  if (next_ < waits_.size() && waits_[next_].is_call && waits_[next_].row == call) {
    if (at < gap.end) {
      pieces_.push_back({at, gap.end, waits_[next_].cause, static_cast<std::uint32_t>(next_)});
    }
    return;
  }
  const Nanoseconds launched = std::max(returned, called + latency_);
  const Nanoseconds queued = called > gap.start ? gap.end : std::clamp(launched, at, gap.end);
  add_work(at, queued, IdleCause::launch);
  add_work(queued, gap.end, IdleCause::between_kernels);
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
  if (latencies.empty()) return 0;
  const auto middle = latencies.begin() + static_cast<std::ptrdiff_t>(latencies.size() / 2);
  std::nth_element(latencies.begin(), middle, latencies.end());
  return *middle;
}

}  // namespace rooftile::trace
