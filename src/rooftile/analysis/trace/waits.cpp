#include "rooftile/analysis/trace/waits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rooftile/analysis/trace/first_calls.h"
#include "rooftile/analysis/trace/host_work.h"
#include "rooftile/analysis/trace/next_launch.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/windows.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

IdleCause copy_cause(const Timeline& timeline, std::uint32_t call, std::uint32_t activity,
                     bool always_blocks) {
  if (activity == kNone || timeline.gpu.kind[activity] != GpuKind::copy) {
    return always_blocks ? IdleCause::synchronization : IdleCause::launch;
  }
  const CopyShape& shape = timeline.copies[timeline.gpu.details[activity]];
  const bool crosses =
      shape.kind == CopyKind::host_to_device || shape.kind == CopyKind::device_to_host;
  const bool waited = shape.pageable && crosses &&
                      timeline.calls.time.end(call) >= timeline.gpu.time.start(activity);
  if (!always_blocks && !waited) return IdleCause::launch;
  return shape.kind == CopyKind::host_to_device ? IdleCause::copy : IdleCause::synchronization;
}

bool copies_from_host(const Timeline& timeline, std::uint32_t activity) {
  return activity != kNone && timeline.gpu.kind[activity] == GpuKind::copy &&
         timeline.copies[timeline.gpu.details[activity]].kind == CopyKind::host_to_device;
}

// The wait of an operator for the copy from the host that it has just started is part of the copy.
void add_call_waits(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  const std::vector<std::uint32_t> activities = first_activities(timeline, links);
  std::uint32_t copying_op = kNone;
  for (const std::uint32_t call : links.call_order.rows) {
    const std::uint16_t thread = timeline.calls.thread[call];
    if (!links.launches[thread]) continue;
    if (copies_from_host(timeline, activities[call])) copying_op = links.call_op[call];
    IdleCause cause = wait_cause(timeline, links, call, activities[call]);
    if (cause == IdleCause::launch) continue;
    const bool is_of_copy = copying_op != kNone && links.call_op[call] == copying_op;
    if (cause == IdleCause::synchronization && is_of_copy) cause = IdleCause::copy;
    waits.push_back({timeline.calls.time.start(call), timeline.calls.time.end(call), cause, thread,
                     true, call});
  }
}

// When the thread of a call was last seen before it: at a call, or where an operator begins or
// ends.
Nanoseconds last_seen(const Timeline& timeline, const Links& links, std::uint32_t call,
                      Nanoseconds last_call) {
  const Nanoseconds called = timeline.calls.time.start(call);
  const auto rows = links.op_order.of(timeline.calls.thread[call]);
  const EventTimes& time = timeline.ops.time;
  const auto next = std::ranges::lower_bound(rows, called, {},
                                             [&](std::uint32_t row) { return time.start(row); });
  if (next == rows.begin()) return last_call;
  Nanoseconds seen = std::max(last_call, time.start(*(next - 1)));
  for (std::uint32_t op = *(next - 1); op != kNone; op = links.op_parent[op]) {
    if (time.end(op) <= called) seen = std::max(seen, time.end(op));
  }
  return seen;
}

// CUDA gives the time between two events once both are over. A thread that was in no call until
// then, as the GPU ended some work, waited for that: some recorders leave the call out.
void add_waits_for_elapsed_times(const Timeline& timeline, const Links& links,
                                 std::vector<HostWait>& waits) {
  constexpr Nanoseconds kLeast = 1'000'000, kSoon = 100'000;
  const auto asks = kinds_of<bool>(
      timeline.strings, timeline.calls.name,
      [](std::string_view name) { return name.starts_with("cudaEventElapsedTime"); });
  std::vector<Nanoseconds> ends;
  std::map<std::uint16_t, Nanoseconds> last_calls;
  for (const std::uint32_t call : links.call_order.rows) {
    const std::uint16_t thread = timeline.calls.thread[call];
    const Nanoseconds called = timeline.calls.time.start(call);
    Nanoseconds& last_call = last_calls.try_emplace(thread, called).first->second;
    const Nanoseconds before = std::exchange(last_call, timeline.calls.time.end(call));
    if (!asks[timeline.calls.name[call]] || !links.launches[thread]) continue;
    const Nanoseconds since = last_seen(timeline, links, call, before);
    if (called - since < kLeast) continue;
    if (ends.empty()) {
      for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
        ends.push_back(timeline.gpu.time.end(row));
      }
      std::ranges::sort(ends);
    }
    const auto later = std::ranges::upper_bound(ends, called);
    if (later == ends.begin() || called - *(later - 1) > kSoon) continue;
    waits.push_back({since, called, IdleCause::synchronization, thread, true, call});
  }
}

std::optional<IdleCause> cause_of_range(RangeKind kind) {
  if (kind == RangeKind::loader) return IdleCause::data_loading;
  if (kind == RangeKind::rank_wait) return IdleCause::communication_wait;
  if (kind == RangeKind::compilation) return IdleCause::module_loading;
  return std::nullopt;
}

void add_range_waits(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    const RangeKind kind = links.kind_of_op(timeline, op);
    const std::optional<IdleCause> cause = cause_of_range(kind);
    const std::uint16_t thread = timeline.ops.thread[op];
    if (!cause || !links.launches[thread]) continue;
    waits.push_back(
        {timeline.ops.time.start(op), timeline.ops.time.end(op), *cause, thread, false, op});
  }
}

// Functions of a compiler. All that happens inside the outermost of nested ranges and functions is
// one compilation: benchmarks of kernels, waits for them, and the memory they take.
void add_compilations(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  const PythonCalls& python = timeline.python;
  const std::vector<bool> compiles =
      kinds_of<bool>(timeline.strings, python.name, names_a_compiler);
  for (std::uint32_t row = 0; row < python.time.size(); ++row) {
    const std::uint16_t thread = python.thread[row];
    if (!compiles[python.name[row]] || !links.launches[thread]) continue;
    waits.push_back({python.time.start(row), python.time.end(row), IdleCause::module_loading,
                     thread, false, kNone});
  }
}

enum class CaptureCall : std::uint8_t { other, synchronize, begin, end };

CaptureCall capture_call(std::string_view name) {
  if (contains(name, "DeviceSynchronize")) return CaptureCall::synchronize;
  if (contains(name, "StreamBeginCapture")) return CaptureCall::begin;
  return contains(name, "StreamEndCapture") ? CaptureCall::end : CaptureCall::other;
}

// What is launched while a CUDA graph is recorded does not run. All of the recording is one wait,
// with what comes before it from a wait for the device on: the program collects garbage and frees
// memory.
void add_captures(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  constexpr Nanoseconds kSetUp = 1'000'000;  // what a graph sets up as it begins, as random numbers
  struct Recording {
    Nanoseconds waited = -1, launched = -1;  // for the device, and first since then
    Nanoseconds begun = -1;
  };
  const RuntimeCalls& calls = timeline.calls;
  const auto kinds = kinds_of<CaptureCall>(timeline.strings, calls.name, capture_call);
  std::map<std::uint16_t, Recording> threads;
  for (const std::uint32_t call : links.call_order.rows) {
    const CaptureCall kind = kinds[calls.name[call]];
    Recording& recording = threads[calls.thread[call]];
    const Nanoseconds start = calls.time.start(call);
    if (kind == CaptureCall::synchronize && recording.begun < 0) {
      recording = {calls.time.end(call)};
    } else if (kind == CaptureCall::begin) {
      const bool is_prepared =
          recording.waited >= 0 && (recording.launched < 0 || start - recording.launched < kSetUp);
      recording.begun = is_prepared ? recording.waited : start;
    } else if (kind == CaptureCall::end && recording.begun >= 0) {
      waits.push_back({recording.begun, calls.time.end(call), IdleCause::module_loading,
                       calls.thread[call], false, kNone});
      recording = {};
    } else if (recording.launched < 0 && is_launch(links.kind_of_call(timeline, call))) {
      recording.launched = start;
    }
  }
}

// CUPTI's and Nsight's own work is the profiler's; CUDA's loading is a first call. Of the rest the
// kind is not known, or the program causes it.
std::optional<IdleCause> overhead_cause(std::string_view name) {
  constexpr std::array kLoading{"module loading", "function loading", "driver compiler"};
  constexpr std::array kRecorders{"buffer flush",   "buffer request", "instrumentation",
                                  "resource",       "initialization", "chunk allocation",
                                  "tls allocation", "profiling"};
  const std::string text = lower(name);
  const auto has = [&](std::string_view part) { return contains(text, part); };
  if (std::ranges::any_of(kLoading, has)) return IdleCause::module_loading;
  if (std::ranges::any_of(kRecorders, has)) return IdleCause::profiler;
  return std::nullopt;
}

struct Launch {
  Nanoseconds at = 0, end = 0;
  std::uint16_t thread = 0;

  Nanoseconds duration() const { return end - at; }
};

Nanoseconds median_duration(const std::vector<Launch>& launches) {
  std::vector<Nanoseconds> durations;
  for (const Launch& launch : launches) durations.push_back(launch.duration());
  return durations.empty() ? 0 : median(std::move(durations));
}

// Whether the launch behind the recorder's own work takes far longer than others: it goes on there.
bool holds_recorder(const Launch& launch, Nanoseconds end, Nanoseconds usual) {
  constexpr Nanoseconds kSoon = 1'000'000, kLong = 100'000;
  constexpr Nanoseconds kFarLonger = 20;  // times
  return launch.at - end < kSoon && launch.duration() >= kLong &&
         launch.duration() > kFarLonger * usual;
}

// When CUDA loads or compiles, as CUPTI says.
Cover loading_time(const Timeline& timeline) {
  const Overheads& overheads = timeline.overheads;
  std::vector<Window> windows;
  for (std::uint32_t row = 0; row < overheads.time.size(); ++row) {
    if (overhead_cause(timeline.strings[overheads.name[row]]) != IdleCause::module_loading)
      continue;
    windows.push_back({overheads.time.start(row), overheads.time.end(row)});
  }
  Cover cover;
  for (const Window& window : united(std::move(windows))) cover.add(window.start, window.end);
  return cover;
}

// Overhead during which no launch is called holds up the next one.
void add_overheads(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  const Overheads& overheads = timeline.overheads;
  std::vector<Launch> launches;
  const RuntimeCalls& calls = timeline.calls;
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    if (!is_launch(links.kind_of_call(timeline, call))) continue;
    launches.push_back({calls.time.start(call), calls.time.end(call), calls.thread[call]});
  }
  std::ranges::sort(launches, {}, &Launch::at);
  const Nanoseconds usual = median_duration(launches);
  const Cover loading = loading_time(timeline);
  for (std::uint32_t row = 0; row < overheads.time.size(); ++row) {
    const auto cause = overhead_cause(timeline.strings[overheads.name[row]]);
    const Window time{overheads.time.start(row), overheads.time.end(row)};
    const auto next = std::ranges::upper_bound(launches, time.start, {}, &Launch::at);
    if (!cause || next == launches.end() || next->at < time.end) continue;
    waits.push_back({time.start, time.end, *cause, next->thread, false, kNone});
    const bool loads = 2 * loading.within(next->at, next->end) > next->duration();
    if (*cause == IdleCause::profiler && !loads && holds_recorder(*next, time.end, usual)) {
      waits.push_back({next->at, next->end, *cause, next->thread, false, kNone});
    }
  }
}

// The profiler's own functions, as it starts and stops.
std::vector<Window> profiler_frames(const Timeline& timeline) {
  std::vector<Window> frames;
  const PythonCalls& python = timeline.python;
  for (std::uint32_t row = 0; row < python.time.size(); ++row) {
    if (!contains(timeline.strings[python.name[row]], "torch/profiler/profiler.py")) continue;
    frames.push_back({python.time.start(row), python.time.end(row)});
  }
  return frames;
}

Nanoseconds first_launch(const Timeline& timeline, const Links& links) {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  for (const std::uint32_t call : links.gpu_call) {
    if (call != kNone) first = std::min(first, timeline.calls.time.start(call));
  }
  return first;
}

// A wait before anything was launched is for work from before the recording, and the profiler waits
// when it starts and stops: neither is the program's.
void set_recorder_apart(const Timeline& timeline, const Links& links,
                        std::vector<HostWait>& waits) {
  const std::vector<Window> frames = profiler_frames(timeline);
  const Nanoseconds launch = first_launch(timeline, links);
  if (launch == std::numeric_limits<Nanoseconds>::max()) return;
  for (HostWait& wait : waits) {
    if (wait.cause != IdleCause::synchronization) continue;
    const bool is_profilers = std::ranges::any_of(
        frames, [&](const Window& frame) { return frame.contains(wait.start); });
    if (is_profilers) {
      wait.cause = IdleCause::profiler;
    } else if (wait.start < launch) {
      wait.cause = IdleCause::outside;
    }
  }
}

// Of each wait what holds up the next launch.
std::vector<HostWait> that_hold_up(const std::vector<HostWait>& waits,
                                   const NextLaunches& launches) {
  std::vector<HostWait> kept;
  for (HostWait wait : waits) {
    for (const Window& part : launches.held_up(wait.thread, {wait.start, wait.end})) {
      wait.start = part.start;
      wait.end = part.end;
      kept.push_back(wait);
    }
  }
  return kept;
}

std::vector<HostWait> disjoint(std::vector<HostWait> waits) {
  std::sort(waits.begin(), waits.end(), [](const HostWait& a, const HostWait& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  Nanoseconds reach = waits.empty() ? 0 : waits.front().start;
  std::vector<HostWait> kept;
  for (HostWait wait : waits) {
    wait.start = std::max(wait.start, reach);
    if (wait.end <= wait.start) continue;
    reach = wait.end;
    kept.push_back(wait);
  }
  return kept;
}

// Of the host's own work what it slept through.
std::vector<HostWait> with_sleeps(const Timeline& timeline, std::vector<HostWait> waits) {
  if (timeline.sleeps.time.size() == 0) return waits;
  std::map<std::uint16_t, std::vector<Window>> by_thread;
  for (std::uint32_t row = 0; row < timeline.sleeps.time.size(); ++row) {
    by_thread[timeline.sleeps.thread[row]].push_back(
        {timeline.sleeps.time.start(row), timeline.sleeps.time.end(row)});
  }
  for (auto& [thread, sleeps] : by_thread) sleeps = united(std::move(sleeps));
  std::vector<HostWait> parts;
  for (const HostWait& wait : waits) {
    const auto thread = by_thread.find(wait.thread);
    if (wait.cause != IdleCause::host_work || wait.is_call || thread == by_thread.end()) {
      parts.push_back(wait);
      continue;
    }
    HostWait part = wait;
    const auto add = [&](Nanoseconds until, IdleCause cause) {
      part.end = std::min(until, wait.end);
      part.cause = cause;
      if (part.end > part.start) parts.push_back(part);
      part.start = std::max(part.start, part.end);
    };
    auto sleep = std::ranges::upper_bound(thread->second, wait.start, {}, &Window::end);
    for (; sleep != thread->second.end() && sleep->start < wait.end; ++sleep) {
      add(sleep->start, IdleCause::host_work);
      add(sleep->end, IdleCause::asleep);
    }
    add(wait.end, IdleCause::host_work);
  }
  return parts;
}

}  // namespace

std::vector<std::uint32_t> first_activities(const Timeline& timeline, const Links& links) {
  std::vector<std::uint32_t> first(timeline.calls.time.size(), kNone);
  for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const std::uint32_t call = links.gpu_call[row];
    if (call != kNone && first[call] == kNone) first[call] = row;
  }
  return first;
}

IdleCause wait_cause(const Timeline& timeline, const Links& links, std::uint32_t call,
                     std::uint32_t activity) {
  const CallKind kind = links.kind_of_call(timeline, call);
  if (is_wait(kind)) return IdleCause::synchronization;
  if (kind == CallKind::allocation || kind == CallKind::release) return IdleCause::allocator;
  if (kind == CallKind::load) return IdleCause::module_loading;
  if (kind == CallKind::copy) return copy_cause(timeline, call, activity, false);
  if (kind == CallKind::blocking_copy) return copy_cause(timeline, call, activity, true);
  return IdleCause::launch;
}

std::vector<HostWait> find_waits(const Timeline& timeline, const Links& links,
                                 const GpuTrack& track) {
  std::vector<HostWait> waits;
  add_call_waits(timeline, links, waits);
  add_waits_for_elapsed_times(timeline, links, waits);
  add_range_waits(timeline, links, waits);
  add_compilations(timeline, links, waits);
  add_captures(timeline, links, waits);
  add_overheads(timeline, links, waits);
  waits = disjoint(that_hold_up(waits, NextLaunches(timeline, links, track)));
  set_recorder_apart(timeline, links, waits);
  set_library_start_apart(timeline, links, waits);
  add_other_work(timeline, links, waits);
  waits = with_sleeps(timeline, disjoint(std::move(waits)));
  add_first_calls(timeline, links, waits);
  return disjoint(std::move(waits));
}

}  // namespace rooftile::trace
