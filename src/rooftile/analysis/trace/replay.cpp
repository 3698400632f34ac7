#include "rooftile/analysis/trace/replay.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::min() / 4;
// Longer than a launch or a pause between kernels takes: something else held the activity up.
constexpr Nanoseconds kLongDelay = 30'000;
// What a call for synchronisation costs by itself.
constexpr Nanoseconds kOwnTime = 5'000;
// Clocks of whole microseconds let a wait end before what it waits for.
constexpr Nanoseconds kSlack = 2'000;
// Activities looked at for the one that a wait or a stream waited for.
constexpr int kMostLooks = 256;
// What the GPU pauses between kernels; of a few that were queued, some waited for a copy or an
// event.
constexpr Nanoseconds kLongestPause = 2'000;
constexpr std::size_t kFewestPauses = 8;
// A batch that workers have ready takes up to 1.4 ms to hand over in recordings.
constexpr Nanoseconds kLongestHandover = 1'500'000;
// CUDA queues 1024 launches at most; events and other entries take some of it.
constexpr std::ptrdiff_t kFullQueue = 512;

}  // namespace

Nanoseconds Replay::start(std::size_t position) const {
  return timeline_.gpu.time.start(track_.rows[position]);
}
Nanoseconds Replay::end(std::size_t position) const {
  return timeline_.gpu.time.end(track_.rows[position]);
}
// When its launch was called; an activity without a call started by itself.
Nanoseconds Replay::called(std::size_t position) const {
  const std::uint32_t call = links_.gpu_call[track_.rows[position]];
  return call == kNone ? start(position) : timeline_.calls.time.start(call);
}

Replay::Replay(const Timeline& timeline, const Links& links, const GpuTrack& track,
               const BusySplit& split, const std::vector<HostWait>& waits, const Window& steps,
               Nanoseconds first_end)
    : timeline_(timeline), links_(links), track_(track), steps_(steps) {
  by_end_.resize(track.rows.size());
  std::iota(by_end_.begin(), by_end_.end(), 0U);
  std::sort(by_end_.begin(), by_end_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return end(a) < end(b); });
  add_activities(split);
  add_waits(waits);
  add_batches(waits);
  add_full_queue();
  events_.push_back({first_end, EventKind::first_step_end, 0});
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : a.kind < b.kind;
  });
}

void Replay::add_activities(const BusySplit& split) {
  latency_ = trace::usual_latency(timeline_, links_, track_, split);
  ready_.assign(timeline_.streams.size(), kNever);
  std::vector<std::size_t> before(timeline_.streams.size(), track_.rows.size());
  std::vector<Nanoseconds> pauses;
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    std::size_t& last = before[timeline_.gpu.stream[track_.rows[i]]];
    if (last < i && called(i) + latency_ <= end(last) && start(i) - end(last) < kLongDelay) {
      pauses.push_back(start(i) - end(last));
    }
    last = i;
  }
  if (!pauses.empty()) {
    pause_ = std::max<Nanoseconds>(0, median(pauses));
    if (pauses.size() < kFewestPauses) pause_ = std::min(pause_, kLongestPause);
  }
  std::fill(before.begin(), before.end(), track_.rows.size());
  activities_.reserve(track_.rows.size());
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    const std::uint16_t stream = timeline_.gpu.stream[track_.rows[i]];
    activities_.push_back(activity_of(i, before[stream]));
    before[stream] = i;
    if (is_migrated(timeline_, track_.rows[i])) continue;  // nothing launches or awaits it
    if (steps_.contains(called(i))) {
      events_.push_back({called(i), EventKind::launch, static_cast<std::uint32_t>(i)});
    } else if (called(i) < steps_.start) {
      ready_[stream] = std::max(ready_[stream], end(i));
    }
  }
}

// What held the activity up in the recording, and what would have without that. `before` is the
// one before it on its stream; none = the number of all.
Replay::Activity Replay::activity_of(std::size_t position, std::size_t before) const {
  const std::uint32_t row = track_.rows[position];
  Activity activity;
  activity.kind = track_.classes[position];
  activity.stream = timeline_.gpu.stream[row];
  activity.duration = timeline_.gpu.time.duration(row);
  activity.end = end(position);
  const Nanoseconds delay = start(position) - called(position);
  activity.latency = std::min(delay, latency_);
  activity.pause = pause_;
  const bool has_before = before < track_.rows.size();
  const bool queued = has_before && called(position) + latency_ <= end(before);
  if (queued) activity.waited_for = static_cast<std::uint32_t>(before);
  if (queued && start(position) - end(before) < kLongDelay) {
    activity.pause = start(position) - end(before);
  } else if (!queued && delay < latency_ + kLongDelay) {
    activity.latency = delay;
    if (has_before) activity.pause = std::min(pause_, start(position) - end(before));
  } else {
    wait_for_other_stream(position, activity);
    if (activity.after != kNone) {
      activity.waited_for = activity.after;
      return activity;
    }
    (queued ? activity.pause : activity.latency) = queued ? start(position) - end(before) : delay;
  }
  return activity;
}

// An activity that neither its launch nor its stream explains began when one on another stream
// ended, which an event told it.
void Replay::wait_for_other_stream(std::size_t position, Activity& activity) const {
  const Nanoseconds started = start(position);
  auto at =
      std::upper_bound(by_end_.begin(), by_end_.end(), started + kSlack,
                       [&](Nanoseconds time, std::uint32_t other) { return time < end(other); });
  for (int looks = 0; looks < kMostLooks && at != by_end_.begin(); ++looks) {
    const std::uint32_t other = *--at;
    if (started - end(other) > kLongDelay) return;
    const bool is_elsewhere = timeline_.gpu.stream[track_.rows[other]] != activity.stream &&
                              !is_migrated(timeline_, track_.rows[other]);
    if (!is_elsewhere || called(other) > called(position)) continue;
    activity.after = other;
    activity.lag = started - end(other);
    return;
  }
}

std::uint32_t Replay::awaited_by(const HostWait& wait) const {
  auto at =
      std::upper_bound(by_end_.begin(), by_end_.end(), wait.end + kSlack,
                       [&](Nanoseconds time, std::uint32_t other) { return time < end(other); });
  for (int looks = 0; looks < kMostLooks && at != by_end_.begin(); ++looks) {
    const std::uint32_t other = *--at;
    if (called(other) < wait.start && !is_migrated(timeline_, track_.rows[other])) return other;
  }
  return kNone;
}

std::uint32_t Replay::last_ended(Nanoseconds at) const {
  const auto next =
      std::upper_bound(by_end_.begin(), by_end_.end(), at,
                       [&](Nanoseconds time, std::uint32_t other) { return time < end(other); });
  return next == by_end_.begin() ? kNone : *(next - 1);
}

void Replay::add_waits(const std::vector<HostWait>& waits) {
  std::vector<std::uint32_t> position_of_call(timeline_.calls.time.size(), kNone);
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    const std::uint32_t call = links_.gpu_call[track_.rows[i]];
    if (call != kNone) position_of_call[call] = static_cast<std::uint32_t>(i);
  }
  for (const HostWait& host_wait : waits) {
    // Those of the recorder, which lie outside, stay whatever the program does.
    const bool is_for_gpu = host_wait.cause == IdleCause::synchronization ||
                            host_wait.cause == IdleCause::copy || is_recorders(host_wait.cause);
    if (!host_wait.is_call || !is_for_gpu || !steps_.contains(host_wait.start)) continue;
    Wait wait;
    wait.start = host_wait.start;
    wait.end = host_wait.end;
    wait.cause = host_wait.cause;
    wait.own = wait.end - wait.start;
    const CallKind kind = links_.kind_of_call(timeline_, host_wait.row);
    wait.until = kind == CallKind::device_wait   ? Until::device
                 : kind == CallKind::stream_wait ? Until::stream
                                                 : Until::activity;
    const std::uint32_t started = position_of_call[host_wait.row];
    const bool is_plain = host_wait.cause == IdleCause::synchronization && started == kNone;
    wait.activity = is_wait(kind) || is_plain ? awaited_by(host_wait) : started;
    if (wait.activity == kNone) {
      wait.until = Until::never;
    } else if (end(wait.activity) + kSlack >= wait.start) {
      wait.lag = wait.end - end(wait.activity);
      wait.own = std::min(wait.own, kOwnTime);
    }
    add(wait);
  }
}

void Replay::add(const Wait& wait) {
  const auto index = static_cast<std::uint32_t>(waits_.size());
  events_.push_back({wait.start, EventKind::wait_start, index});
  events_.push_back({wait.end, EventKind::wait_end, index});
  waits_.push_back(wait);
}

void Replay::add_batches(const std::vector<HostWait>& waits) {
  for (const HostWait& host_wait : waits) {
    const bool is_loader = host_wait.cause == IdleCause::data_loading && !host_wait.is_call &&
                           host_wait.row != kNone && steps_.contains(host_wait.start);
    if (!is_loader || host_wait.end - host_wait.start < kLongestHandover) continue;
    if (!contains(timeline_.strings[timeline_.ops.name[host_wait.row]], "MultiProcessing"))
      continue;
    Wait wait;
    wait.start = host_wait.start;
    wait.end = host_wait.end;
    wait.cause = host_wait.cause;
    wait.own = kOwnTime;
    wait.until = Until::batch;
    add(wait);
  }
}

// A launch call that finds the queue full takes until the GPU has done what makes room.
void Replay::add_full_queue() {
  std::vector<Nanoseconds> launched;
  for (std::size_t i = 0; i < track_.rows.size(); ++i) launched.push_back(called(i));
  std::ranges::sort(launched);
  for (std::uint32_t call = 0; call < timeline_.calls.time.size(); ++call) {
    Wait wait;
    wait.start = timeline_.calls.time.start(call);
    wait.end = timeline_.calls.time.end(call);
    const bool is_long = wait.end - wait.start > kLongDelay && steps_.contains(wait.start);
    const CallKind kind = links_.kind_of_call(timeline_, call);
    if (!is_long || (kind != CallKind::launch && kind != CallKind::graph_launch)) continue;
    const auto begun = std::ranges::upper_bound(track_.rows, wait.end, {}, [&](std::uint32_t row) {
      return timeline_.gpu.time.start(row);
    });
    const auto queued = (std::ranges::upper_bound(launched, wait.end) - launched.begin()) -
                        (begun - track_.rows.begin());
    wait.activity = last_ended(wait.end + kSlack);
    if (queued < kFullQueue || wait.activity == kNone) continue;
    wait.until = Until::activity;
    wait.lag = wait.end - end(wait.activity);
    wait.own = kOwnTime;
    add(wait);
  }
}

// One run. A time of the recording becomes one of the run by what was removed before it and by
// `shift`, which the waits change.
struct Replay::Run {
  const Change& change;
  std::vector<Nanoseconds> ready;  // by stream: end of the last activity launched on it
  Nanoseconds shift = 0;
  Nanoseconds removed_before = 0;  // in whole intervals
  std::size_t next_removed = 0;

  Nanoseconds removed(Nanoseconds at) {
    const std::vector<Window>& all = change.removed;
    for (; next_removed < all.size() && all[next_removed].end <= at; ++next_removed) {
      removed_before += all[next_removed].span();
    }
    if (next_removed == all.size()) return removed_before;
    return removed_before + std::max<Nanoseconds>(0, at - all[next_removed].start);
  }
  Nanoseconds time(Nanoseconds at) { return at - removed(at) + shift; }

  void launch(Activity& activity, const std::vector<Activity>& all, Nanoseconds at) {
    Nanoseconds start = std::max(at + activity.latency, ready[activity.stream] + activity.pause);
    if (activity.after != kNone) start = std::max(start, all[activity.after].end + activity.lag);
    const double factor = activity.kind == GpuClass::compute ? change.kernel_time
                          : activity.kind == GpuClass::copy  ? change.copy_time
                          : change.no_communication          ? 0
                                                             : 1;
    const double duration = static_cast<double>(activity.duration) * factor;
    activity.end = start + static_cast<Nanoseconds>(duration);
    ready[activity.stream] = std::max(ready[activity.stream], activity.end);
  }

  void end_wait(const Wait& wait, const std::vector<Activity>& all) {
    const bool returns_at_once =
        (wait.cause == IdleCause::synchronization && change.no_synchronization) ||
        (wait.cause == IdleCause::copy && change.asynchronous_copies);
    const Nanoseconds recorded = wait.end - removed(wait.end);
    Nanoseconds done = kNever;
    if (wait.until == Until::activity) done = all[wait.activity].end;
    if (wait.until == Until::stream) done = ready[all[wait.activity].stream];
    if (wait.until == Until::device) done = *std::max_element(ready.begin(), ready.end());
    if (wait.until == Until::batch) {
      const Nanoseconds stays = wait.end - wait.start - (removed(wait.end) - wait.removed);
      done = change.no_late_batches ? wait.began + stays : wait.end;
    }
    const Nanoseconds own = std::min(wait.own, returns_at_once ? kOwnTime : wait.own);
    Nanoseconds returned = wait.began + own;
    if (!returns_at_once) returned = std::max(returned, done + wait.lag);
    shift = returned - recorded;
  }
};

Nanoseconds Replay::time_of(GpuClass kind, const Window& window) const {
  Nanoseconds sum = 0;
  for (const Event& event : events_) {
    if (event.kind != EventKind::launch || !window.contains(event.at)) continue;
    const Activity& activity = activities_[event.index];
    if (activity.kind == kind) sum += activity.duration;
  }
  return sum;
}

Nanoseconds Replay::last_late_batch() const {
  Nanoseconds last = 0;
  int late = 0;
  for (const Wait& wait : waits_) {
    if (wait.until != Until::batch) continue;
    last = std::max(last, wait.end);
    ++late;
  }
  const bool tells = late > 1 && 2 * (last - steps_.start) > steps_.span();
  return tells ? last : steps_.end;
}

ReplayTimes Replay::run(const Change& change) {
  Run run{change, ready_};
  ReplayTimes times;
  const auto done_at = [&](Nanoseconds host) {
    for (const Nanoseconds ready : run.ready) host = std::max(host, ready);
    return host - steps_.start;
  };
  for (const Event& event : events_) {
    switch (event.kind) {
      case EventKind::launch:
        run.launch(activities_[event.index], activities_, run.time(event.at));
        break;
      case EventKind::wait_start:
        waits_[event.index].began = run.time(event.at);
        waits_[event.index].removed = run.removed(event.at);
        break;
      case EventKind::wait_end:
        run.end_wait(waits_[event.index], activities_);
        if (waits_[event.index].until == Until::batch) {
          times.last_batch = run.time(event.at) - steps_.start;
        }
        break;
      case EventKind::first_step_end:
        times.first_step = done_at(run.time(event.at));
        break;
    }
  }
  times.all = done_at(run.time(steps_.end));
  return times;
}

}  // namespace rooftile::trace
