#include "rooftile/reports/trace_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "rooftile/base/mangled_name.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/unknown_kernels.h"

namespace rooftile {
namespace {

constexpr std::string_view kNsight = "Nsight Systems";
constexpr double kSmallPart = 0.002;  // of the span: has no row

struct CauseWords {
  IdleCause cause;
  std::string_view words;
};

constexpr CauseWords kCauses[] = {
    {IdleCause::launch, "idle: launch-bound"},
    {IdleCause::synchronization, "idle: the host waited for the GPU, then launched"},
    {IdleCause::restart, "idle: launched work started late after such a wait"},
    {IdleCause::data_loading, "idle: waiting for the next batch"},
    {IdleCause::communication_wait, "idle: waiting for other ranks"},
    {IdleCause::allocator, "idle: allocating GPU or pinned memory"},
    {IdleCause::copy, "idle: the host in calls that copy"},
    {IdleCause::host_work, "idle: the host's own code, or waiting outside CUDA"},
    {IdleCause::module_loading, "idle: first calls, loading or compiling kernels"},
    {IdleCause::between_kernels, "idle: inter-kernel gaps"},
    {IdleCause::unrecorded_work, "idle: launched work started late"},
    {IdleCause::start_up, "idle: start-up, before the first work"},
    {IdleCause::outside, "idle: before and after the work"},
    {IdleCause::profiler, "idle: the profiler's own work"},
    {IdleCause::asleep, "idle: the program asleep, until input, a clock or a thread"},
    {IdleCause::migration, "idle: page faults and migrations of managed memory"},
    {IdleCause::unknown, "idle: cause not recorded"}};

Seconds idle_of(const TraceSummary& trace, IdleCause cause) {
  const auto found = trace.time.idle_by_cause.find(cause);
  return found == trace.time.idle_by_cause.end() ? Seconds() : found->second;
}

// The row of a cause; of the host's other work by what it is, where the trace names it.
std::string row_words(const TraceSummary& trace, const CauseWords& entry) {
  constexpr double kNearlyAll = 0.8, kMost = 0.5, kSome = 0.1;  // of that idle time
  constexpr std::size_t kLongestName = 40;
  if (entry.cause != IdleCause::host_work) return std::string(entry.words);
  const Seconds all = idle_of(trace, IdleCause::host_work);
  Seconds operators;
  for (const HostWorkUse& use : trace.host_work) {
    if (use.cause != IdleCause::host_work) continue;
    if (!use.name.empty() && use.exposed > kNearlyAll * all) {
      return "idle: the host in " + cut_end(printable(use.name), kLongestName);
    }
    if (use.is_operator()) operators += use.exposed;
  }
  if (operators > kMost * all) return "idle: the host in operators that launch nothing";
  return operators > kSome * all ? "idle: operators that launch nothing, or the host's own code"
                                 : std::string(entry.words);
}

// "median of 5 (40.8–41.9 ms)"; with the mean where that is another number, as it is what the
// table of a step's time adds up to.
std::string median_words(const std::vector<Seconds>& steps) {
  constexpr double kSame = 0.02;
  const auto [low, high] = std::minmax_element(steps.begin(), steps.end());
  Seconds mean;
  for (const Seconds step : steps) mean += step / static_cast<double>(steps.size());
  const Seconds middle = median(steps);
  const bool is_same = std::abs((mean - middle).value()) <= kSame * middle.value();
  return fmt::format("{}, median of {} ({}{})", time_text(middle), steps.size(),
                     range_text({*low, *low, *high}), is_same ? "" : "; mean " + time_text(mean));
}

std::string_view work_words(ServingStage work) {
  switch (work) {
    case ServingStage::prefill:
      return "prefill step";
    case ServingStage::decode:
      return "decode step";
    default:
      return "step of prefill and decode";
  }
}

// "Serving: decode step 8.1 ms, median of 120 (8.0–9.2 ms); prefill step 45 ms": by time spent.
std::string engine_words(const Steps& steps) {
  std::map<ServingStage, std::vector<Seconds>> by_work;
  for (std::size_t i = 0; i < steps.work.size(); ++i) {
    by_work[steps.work[i]].push_back(steps.durations[i]);
  }
  std::vector<std::pair<Seconds, std::string>> parts;
  for (const auto& [work, durations] : by_work) {
    Seconds sum;
    for (const Seconds step : durations) sum += step;
    const std::string time = durations.size() == 1 ? time_text(sum) : median_words(durations);
    parts.emplace_back(sum, fmt::format("{} {}", work_words(work), time));
  }
  std::ranges::sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (auto& [sum, text] : parts) words.push_back(std::move(text));
  return "Serving: " + join(words, "; ");
}

}  // namespace

bool is_judged_whole(const TraceSummary& trace) {
  constexpr double kAllOfIt = 0.99;
  return trace.time.span > kAllOfIt * trace.whole.span;
}

namespace {

// "Step 41.2 ms, median of 5 (40.8–41.9 ms)" or "Recorded 1.2 s, no steps found".
std::string pass_words(const TraceSummary& trace) {
  const std::vector<Seconds>& steps = trace.steps.durations;
  if (steps.empty()) {
    constexpr double kSetUp = 0.1;
    const std::string text =
        fmt::format("Recorded {}, no steps found", time_text(trace.whole.span));
    if (is_judged_whole(trace)) return text;
    const bool has_set_up = idle_of(trace, IdleCause::module_loading) > kSetUp * trace.time.span;
    return fmt::format("{}; judged are {} of it, {}", text, time_text(trace.time.span),
                       has_set_up ? "from the first to the last work of the GPU"
                                  : "without start-up, first calls and end");
  }
  if (trace.steps.work.size() == steps.size()) return engine_words(trace.steps);
  if (steps.size() == 1) {
    return fmt::format("One step of {}{}", time_text(steps.front()),
                       is_single_user_step(trace) ? ", which shows no steady state" : "");
  }
  return "Step " + median_words(steps);
}

std::string_view limit_words(StepPart part) {
  switch (part) {
    case StepPart::compute:
      return "GPU computation";
    case StepPart::exposed_communication:
      return "communication";
    case StepPart::exposed_copy:
      return "copies";
    case StepPart::idle_launch:
      return "the host's launching";
    case StepPart::idle_synchronization:
    case StepPart::idle_restart:
      return "the host's waiting for the GPU";
    case StepPart::idle_data_loading:
      return "waiting for the next batch";
    case StepPart::idle_communication_wait:
      return "waiting for other ranks";
    case StepPart::idle_allocator:
      return "allocating GPU or pinned memory";
    case StepPart::idle_copy:
      return "calls that copy";
    case StepPart::idle_host_work:
      return "other work of the host";
    case StepPart::idle_module_loading:
      return "first calls, loading or compiling kernels";
    case StepPart::idle_between_kernels:
      return "pauses between kernels";
    case StepPart::idle_unrecorded_work:
      return "GPU work that is not in the trace";
    case StepPart::idle_start_up:
      return "start-up";
    case StepPart::idle_outside:
      return "time before the first and after the last work";
    case StepPart::idle_profiler:
      return "the profiler's own work";
    case StepPart::idle_asleep:
      return "the program's sleep";
    case StepPart::idle_migration:
      return "migrations of managed memory";
    case StepPart::idle_unknown:
      break;
  }
  return "idle time of unknown cause";
}

// What makes a step slower than others that do the same.
std::string_view slow_words(StepPart part) {
  return part == StepPart::exposed_communication
             ? "longer collectives, as when another rank comes late"
             : limit_words(part);
}

using StepsByPart = std::vector<std::pair<StepPart, std::vector<std::size_t>>>;

// Most steps first, of equal ones the earlier.
StepsByPart by_size(const std::map<StepPart, std::vector<std::size_t>>& by_part) {
  StepsByPart groups(by_part.begin(), by_part.end());
  std::ranges::sort(groups, [](const auto& a, const auto& b) {
    const std::size_t most = a.second.size(), other = b.second.size();
    return most != other ? most > other : a.second.front() < b.second.front();
  });
  return groups;
}

// " (no. 2: 41.2 ms, no. 5: 40.8 ms)"; empty for many steps.
std::string numbered(const std::vector<std::size_t>& which, const Steps& steps) {
  constexpr std::size_t kFew = 3;
  if (which.size() > kFew) return "";
  std::vector<std::string> named;
  for (const std::size_t step : which) {
    named.push_back(fmt::format("no. {}: {}", step + 1, time_text(steps.durations[step])));
  }
  return fmt::format(" ({})", join(named, ", "));
}

// "2 of 6 steps are slower than most: 2 by calls that copy (no. 1: 182 ms, no. 5: 164 ms)."
std::string slow_line(const Steps& steps) {
  std::map<StepPart, std::vector<std::size_t>> by_part;
  for (const SlowStep& slow : steps.slow) {
    const auto step = static_cast<std::size_t>(slow.step);
    if (step < steps.durations.size()) by_part[slow.part].push_back(step);
  }
  std::vector<std::string> parts;
  for (const auto& [part, which] : by_size(by_part)) {
    const std::string words = fmt::format("by {}{}", slow_words(part), numbered(which, steps));
    parts.push_back(by_part.size() == 1 ? words : fmt::format("{} {}", which.size(), words));
  }
  if (parts.empty()) return "";
  return fmt::format("{} of {} steps {} slower than most: {}.", steps.slow.size(),
                     steps.durations.size(), steps.slow.size() == 1 ? "is" : "are",
                     join(parts, ", "));
}

// "4 of 6 steps are limited by GPU computation, 2 by communication (no. 2: 178 ms, no. 4: 182 ms)."
// Empty where one cause limits all: the table of a step's time shows it.
std::string limits_line(const Steps& steps) {
  if (steps.limits.size() != steps.durations.size()) return "";
  std::map<StepPart, std::vector<std::size_t>> by_part;
  for (std::size_t i = 0; i < steps.limits.size(); ++i) by_part[steps.limits[i].part].push_back(i);
  if (by_part.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [part, which] : by_size(by_part)) {
    if (!parts.empty()) {
      parts.push_back(
          fmt::format("{} by {}{}", which.size(), limit_words(part), numbered(which, steps)));
      continue;
    }
    parts.push_back(fmt::format("{} of {} steps {} limited by {}", which.size(),
                                steps.limits.size(), which.size() == 1 ? "is" : "are",
                                limit_words(part)));
  }
  return join(parts, ", ") + ".";
}

// "Set apart, in no figure per step: the first step (182 ms, 45 ms longer by calls that copy)."
std::string apart_line(const Steps& steps) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view which, const std::optional<StepApart>& step) {
    if (!step || step->duration <= Seconds()) return;
    const std::string extra =
        step->beyond > Seconds()
            ? fmt::format(", {} longer by {}", time_text(step->beyond), limit_words(step->part))
            : ", shorter than the others";
    const std::string number = step->steps == 1 ? "step" : fmt::format("{} steps", step->steps);
    parts.push_back(fmt::format("the {} {} ({}{})", which, number, time_text(step->duration),
                                step->is_cut ? ", cut: not a whole step" : extra));
  };
  add("first", steps.first_apart);
  add("last", steps.last_apart);
  if (parts.empty()) return "";
  return fmt::format("Set apart, in no figure per step: {}.", join(parts, ", "));
}

// Of a kernel's name in C++ the function.
std::string plain_name(const std::string& name) {
  return name.starts_with("void ") ? function_of_kernel(name) : name;
}

// "The host's other work while the GPU idles: preprocess at train.py:33 (217 ms), aten::ones (3
// ms)."
std::string host_work_line(const TraceSummary& trace, IdleCause cause, std::string_view title,
                           std::string_view advice = "") {
  constexpr std::size_t kMostNamed = 3;
  constexpr double kVisible = 0.02;  // of the span
  std::vector<std::string> parts;
  for (const HostWorkUse& use : trace.host_work) {
    if (use.cause != cause || use.name.empty()) continue;
    if (parts.size() == kMostNamed || use.exposed < kVisible * trace.time.span) break;
    const std::string place =
        use.source.line > 0 ? fmt::format(" at {}:{}", printable(use.source.file), use.source.line)
                            : "";
    // What happens once is no step's.
    const double steps = cause == IdleCause::module_loading ? 1 : window_steps(trace);
    parts.push_back(fmt::format("{}{} ({})", cut_end(printable(plain_name(use.name)), 60), place,
                                time_text(use.exposed / steps)));
  }
  return parts.empty() ? "" : fmt::format("{}: {}.{}", title, join(parts, ", "), advice);
}

std::string_view path_words(PathKind kind) {
  switch (kind) {
    case PathKind::compute:
      return "kernels";
    case PathKind::communication:
      return "collectives";
    case PathKind::copy:
      return "copies";
    case PathKind::launch:
      return "launches up to their start";
    case PathKind::host:
      return "the host";
    case PathKind::data_loading:
      return "the next batch";
    case PathKind::communication_wait:
      return "other ranks";
    case PathKind::allocator:
      return "allocating GPU or pinned memory";
    case PathKind::module_loading:
      return "loading or compiling kernels";
    case PathKind::pause:
      return "pauses between kernels";
    case PathKind::unrecorded:
      return "launched work that started late";
    case PathKind::profiler:
      return "the profiler";
    case PathKind::asleep:
      return "the program asleep";
    case PathKind::unknown:
      break;
  }
  return "what is not known";
}

// "train.py:12", else the name: what most of a kind's time on the path is.
std::string path_place(const PathPart& part) {
  constexpr std::size_t kLongestName = 48;
  if (part.source.line > 0) {
    return fmt::format("{}:{}", printable(part.source.file), part.source.line);
  }
  constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
  const std::string_view name = part.name;
  if (name.starts_with(kNode)) return cut_end(printable(name.substr(kNode.size())), kLongestName);
  const bool is_kernel = part.kind == PathKind::compute || part.kind == PathKind::communication;
  return cut_end(printable(is_kernel ? function_of_kernel(part.name) : part.name), kLongestName);
}

// "train.py:12 30 %": where most of a kind's time on the path is.
std::vector<std::string> main_places(const TraceSummary& trace, PathKind kind, Seconds all) {
  constexpr double kNamed = 0.05;  // of the span
  constexpr std::size_t kMostPlaces = 2;
  std::map<std::string, Seconds> by_place;
  for (const PathPart& part : trace.path.parts) {
    if (part.kind != kind) continue;
    std::string place = path_place(part);
    if (place.empty() && kind == PathKind::host) {
      place = trace.has_stacks ? "in no line of the program" : "not recorded";
    }
    by_place[std::move(place)] += part.time;
  }
  std::vector<std::pair<Seconds, std::string>> sorted;
  for (auto& [place, time] : by_place) {
    if (!place.empty() && time >= kNamed * all) sorted.emplace_back(time, place);
  }
  std::ranges::sort(sorted, std::greater{});
  std::vector<std::string> places;
  for (const auto& [time, place] : sorted) {
    if (places.size() == kMostPlaces) break;
    places.push_back(fmt::format("{} {}", place, share_text(time / all)));
  }
  return places;
}

// "Critical path of a step: kernels 56 % (sgemm_128x64 12 %), the next batch 33 %, the host 8 %."
std::string path_line(const TraceSummary& trace) {
  if (trace.launches_block) return "";  // each launch holds its kernel
  constexpr double kVisible = 0.03;     // of the span
  std::map<PathKind, Seconds> by_kind;
  Seconds all;
  for (const PathStep& step : trace.path.steps) {
    for (const PathShare& share : step.shares) {
      by_kind[share.kind] += share.time;
      all += share.time;
    }
  }
  if (all <= Seconds()) return "";
  // Beside a busy GPU the host's part saves no more than the idle time; and a host that asks the
  // GPU in a loop looks as if it worked.
  constexpr double kTimesIdle = 6, kMostOfHost = 0.3;
  const double host = (by_kind[PathKind::host] + by_kind[PathKind::module_loading]) / all;
  if (host > kMostOfHost && host > kTimesIdle * (trace.time.idle / trace.time.span)) return "";
  std::vector<std::pair<Seconds, PathKind>> kinds;
  for (const auto& [kind, time] : by_kind) kinds.emplace_back(time, kind);
  std::ranges::sort(kinds, std::greater{});
  std::vector<std::string> parts;
  for (const auto& [time, kind] : kinds) {
    if (time < kVisible * all) break;
    const std::vector<std::string> places = main_places(trace, kind, all);
    parts.push_back(fmt::format("{} {}{}", path_words(kind), share_text(time / all),
                                places.empty() ? "" : " (" + join(places, ", ") + ")"));
  }
  return fmt::format("Critical path of {}: {}.",
                     trace.steps.durations.empty() ? "the recording" : "a step", join(parts, ", "));
}

// torch.autograd.profiler.emit_nvtx makes them.
bool has_range_for_each_operator(const TraceSummary& trace) {
  return trace.format == kNsight && std::ranges::any_of(trace.ops, [](const OpUse& use) {
           return use.name.starts_with("aten::");
         });
}

// Whether the host matters: a host that is far ahead, or one that the recorder slows.
std::string host_line(const TraceSummary& trace) {
  constexpr double kBusy = 0.9, kHardly = 0.02, kLimits = 0.1;
  constexpr Seconds kAhead = milliseconds(1);
  const Seconds span = trace.time.span;
  const Seconds host = idle_of(trace, IdleCause::launch) + idle_of(trace, IdleCause::host_work);
  if ((trace.has_stacks || has_range_for_each_operator(trace)) && host > kLimits * span) {
    return trace.has_stacks
               ? "Python stacks were recorded, which slows the host: what launching costs is less "
                 "without them."
               : "An NVTX range for each operator was recorded (emit_nvtx), which slows the host: "
                 "what launching costs is less without them.";
  }
  const bool is_ahead = trace.queue && trace.queue->delay.median > kAhead;
  if (!is_ahead || trace.time.gpu_busy < kBusy * span || host > kHardly * span) return "";
  return fmt::format("The host is {} ahead of the GPU in the median: launching is no issue.",
                     time_text(trace.queue->delay.median));
}

// Where the program's own code on the CPU is what the GPU waits for, and nothing names it.
std::string own_code_line(const TraceSummary& trace) {
  constexpr double kLimits = 0.1;  // of the span
  Seconds own = idle_of(trace, IdleCause::host_work);
  for (const HostWorkUse& use : trace.host_work) {
    if (use.cause == IdleCause::host_work && !use.name.empty()) own -= use.exposed;
  }
  if (own < kLimits * trace.time.span) return "";
  const bool is_torch = trace.format == "Kineto";
  const bool has_operators = std::ranges::any_of(
      trace.ops, [](const OpUse& use) { return use.name.starts_with("aten::"); });
  return fmt::format(
      "The GPU idles {} of the time while the host is in no call of CUDA{}, but in code "
      "of its own, input or sleep: {}.",
      share_text(own / trace.time.span), is_torch && has_operators ? " and no operator" : "",
      is_torch && !has_operators ? "ProfilerActivity.CPU would show operators"
      : is_torch && !trace.has_stacks && !falls_behind(trace) ? "with_stack=True would show what"
                                                              : "profile the CPU");
}

// Where something outside sets the pace, no saving makes the program faster.
std::string pace_line(const TraceSummary& trace) {
  constexpr double kMostly = 0.33;  // of the span
  const Seconds asleep = idle_of(trace, IdleCause::asleep);
  if (asleep < kMostly * trace.time.span) return "";
  return fmt::format(
      "The thread that launches sleeps outside of CUDA while the GPU idles, {} of the time: input, "
      "a clock or another thread sets the pace{}.",
      share_text(asleep / trace.time.span),
      trace.steps.durations.size() > 1 ? ", and what a step saves elsewhere it waits instead" : "");
}

// "Each mark of a step holds 10 equal rounds of kernels: a round counts as a step."
std::string rounds_line(const Steps& steps) {
  if (steps.rounds == 0) return "";
  return fmt::format("Each mark of a step holds {} equal rounds of {}: a round counts as a step.",
                     steps.rounds + (steps.source == StepSource::optimizer ? 1 : 0),
                     steps.source == StepSource::optimizer ? "an optimizer" : "kernels");
}

// "Left out are 8.7 ms at the start of the step, before anything is recorded in it: …"
std::string silent_line(const Steps& steps) {
  constexpr double kVisible = 0.05;  // of the first step
  if (steps.durations.empty() || steps.silent_head < kVisible * steps.durations.front()) return "";
  return fmt::format(
      "Left out are {} at the start of the {}step, before anything is recorded in it: most often "
      "the profiler's own start.",
      time_text(steps.silent_head), steps.durations.size() > 1 ? "first " : "");
}

// What runs beside the judged part, by the ranges that the program names.
std::string unjudged_line(const TraceSummary& trace) {
  constexpr double kVisible = 0.05;  // of the kernel time
  const Seconds all = trace.kernel_time - trace.leftover_time;
  const Seconds rest = all - trace.kernel_time_in_steps;
  if (!trace.has_tables_of_window || rest < kVisible * all) return "";
  std::vector<std::string> names;
  for (const UnjudgedRange& range : trace.unjudged) {
    if (range.kernel_time < kVisible * all) break;
    names.push_back(fmt::format("{} ({} of kernels)", cut_end(printable(range.name), 60),
                                time_text(range.kernel_time)));
  }
  if (names.empty()) return "";
  return fmt::format("Outside the judged part and in no table: {}.", join(names, ", "));
}

// Whole steps may be little of what was recorded.
std::string part_line(const TraceSummary& trace) {
  constexpr double kMost = 0.5;
  if (trace.steps.durations.empty() || trace.time.span >= kMost * trace.whole.span) return "";
  return fmt::format("The judged steps are {} of {} recorded.", time_text(trace.time.span),
                     time_text(trace.whole.span));
}

// "Before the judged part: 117 ms (cudaHostAlloc 109 ms)."
std::string before_line(const TraceSummary& trace) {
  constexpr double kVisible = 0.2, kMost = 0.5;  // of the recording
  constexpr Seconds kShort = milliseconds(1);
  constexpr std::size_t kMostNamed = 3;
  if (trace.before < kVisible * trace.whole.span || trace.before < kShort) return "";
  if (trace.before_work.empty() && trace.before < kMost * trace.whole.span) return "";
  const Seconds idle = trace.whole.span - trace.whole.gpu_busy;
  if (idle < kMost * trace.before) return "";  // the GPU has work of before the recording
  std::vector<std::string> parts;
  for (const HostWorkUse& use : trace.before_work) {
    if (parts.size() == kMostNamed) break;
    parts.push_back(
        fmt::format("{} {}", cut_end(printable(plain_name(use.name)), 60), time_text(use.time)));
  }
  return fmt::format("Before the judged part: {}{}.", time_text(trace.before),
                     parts.empty() ? "" : " (" + join(parts, ", ") + ")");
}

// Steps that grow shorter until the last one: no median tells the steady time.
bool is_warming_up(const std::vector<Seconds>& steps) {
  constexpr std::size_t kFewest = 5, kMost = 64;
  constexpr double kShorter = 0.8, kNearlyAll = 0.9;
  const bool is_some = kFewest <= steps.size() && steps.size() <= kMost;
  if (!is_some || steps.back() > kShorter * steps.front()) return false;
  std::size_t pairs = 0, falling = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t k = i + 1; k < steps.size(); ++k, ++pairs) falling += steps[k] < steps[i];
  }
  return static_cast<double>(falling) >= kNearlyAll * static_cast<double>(pairs);
}

std::string warm_up_line(const Steps& steps) {
  return fmt::format(
      "The steps grow shorter to the end, from {} to {}: the warm-up is not over, a steady step is "
      "no longer than the last.",
      time_text(steps.durations.front()), time_text(steps.durations.back()));
}

std::string lost_line(const TraceSummary& trace) {
  if (trace.lost_launches == 0) return "";
  return fmt::format(
      "The recording ends early: the last {} of {} launches ({}) have no kernel in it. Figures are "
      "of what was recorded, not of the whole.",
      count_text(static_cast<double>(trace.lost_launches)),
      count_text(static_cast<double>(trace.kernel_launches)),
      share_text(static_cast<double>(trace.lost_launches) /
                 static_cast<double>(trace.kernel_launches)));
}

// What fills the idle time, what was left out, and what is missing.
std::vector<std::string> remarks(const TraceSummary& trace) {
  constexpr double kVisible = 0.05;  // of the span
  std::vector<std::string> lines{
      lost_line(trace),
      part_line(trace),
      before_line(trace),
      rounds_line(trace.steps),
      silent_line(trace.steps),
      path_line(trace),
      host_line(trace),
      apart_line(trace.steps),
      unjudged_line(trace),
      host_work_line(trace, IdleCause::host_work, "The host's other work while the GPU idles"),
      own_code_line(trace),
      pace_line(trace),
      host_work_line(trace, IdleCause::module_loading,
                     "First calls (library set-up, loading or compiling kernels)",
                     " Record after a warm-up.")};
  const bool starts_late = idle_of(trace, IdleCause::unrecorded_work) > kVisible * trace.time.span;
  if (starts_late && trace.time_slice > Seconds()) {
    lines.push_back(fmt::format(
        "Launched work starts every {}, whatever was launched when: another process has the GPU "
        "between, in time slices (nvidia-smi names it). Record on a GPU of its own.",
        time_text(trace.time_slice)));
  } else if (starts_late) {
    lines.emplace_back(
        "Launched work started late on a GPU that seemed idle. The trace lacks what held it up: "
        "kernels that were not recorded, another process on the GPU, another GPU, or, on Windows "
        "and "
        "WSL, the driver, which collects launches.");
  }
  if (trace.time.stretched > kVisible * trace.time.span) {
    const StretchedRuns& runs = trace.stretched;
    lines.push_back(fmt::format(
        "{}, {} up to {} instead of {}: something else, as another process on the GPU, held {} up. "
        "What is beyond the usual time is in no finding.",
        runs.count == 1
            ? "One kernel ran far longer than the same work elsewhere"
            : fmt::format("{} kernels ran far longer than the same work elsewhere", runs.count),
        cut_end(printable(function_of_kernel(runs.kernel)), 48), time_text(runs.longest),
        time_text(runs.usual), runs.count == 1 ? "it" : "them"));
  }
  if (trace.leftover_kernels > 0) {
    lines.push_back(fmt::format(
        "{} kernels ({}) were launched before the trace began: they are in no step and no table.{}",
        trace.leftover_kernels, time_text(trace.leftover_time),
        falls_behind(trace) ? " The host was that far ahead, and is late now: recording slows it. "
                              "Compare with the time of a step without the profiler."
                            : ""));
  }
  std::erase(lines, "");
  return lines;
}

std::string busy_words(const TraceSummary& trace) {
  if (trace.kernels == 0) {
    if (trace.whole.copy > Seconds()) return "the GPU only copied: no kernel ran";
    if (is_of_host_alone(trace)) return "nothing of a GPU was recorded";
    return trace.format == kNsight
               ? "no kernel was recorded: profile with nsys profile --trace=cuda to see the GPU"
               : "no kernel was recorded: profile with ProfilerActivity.CUDA to see the GPU";
  }
  const Seconds span = trace.time.span;
  return fmt::format("GPU busy {}, idle {}", share_text(trace.time.gpu_busy / span),
                     share_text(trace.time.idle / span));
}

// "1,353 kernels a step, 223 ms; 0 % of kernel time unclassified."
std::string kernels_line(const TraceSummary& trace) {
  const double steps = window_steps(trace), each = 1 / table_steps(trace);
  const UnknownKernels unknown = unknown_kernels(trace);
  const std::string in_graphs =
      unknown.graphs > Seconds()
          ? fmt::format(" {} lies in CUDA graphs that were recorded as a whole.",
                        share_text(unknown.graphs / unknown.all))
          : "";
  const double kernels = each * static_cast<double>(kernels_in_tables(trace));
  return fmt::format(
      "{} {}{}, {}; {} of kernel time unclassified.{}", count_text(kernels),
      kernels == 1 ? "kernel" : "kernels", trace.steps.durations.empty() ? "" : " a step",
      time_text(trace.kernel_time_in_steps / steps),
      share_text(unknown.all > Seconds() ? (unknown.own + unknown.other) / unknown.all : 0),
      in_graphs);
}

// Of several processes in one file each has its place among all.
std::string rank_name(const Report& report, std::size_t index) {
  const TraceSummary& trace = report.traces.begin()[index];
  if (trace.rank) return fmt::format("{}", *trace.rank);
  if (trace.files.empty()) return fmt::format("#{}", index);
  const auto same = std::ranges::count_if(
      report.traces, [&](const TraceSummary& other) { return other.files == trace.files; });
  const std::string file = printable(trace.files.front());
  return same == 1 ? file : fmt::format("{} #{}", file, index);
}

bool is_told(const Report& report, auto tells) {
  return std::ranges::any_of(report.findings, [&](const Finding& finding) {
    return finding.level > Level::info && tells(finding);
  });
}

// Whether the report ends with why nothing was judged.
bool says_why_not(const Report& report) {
  return !report.not_judged_because.empty() &&
         !is_told(report, [](const Finding&) { return true; });
}

// Kernels that no rule looks into, where they are much of the time and nothing else names them.
std::string own_kernels_line(const Report& report) {
  constexpr double kMuch = 0.2;  // of the span
  if (says_why_not(report)) return "";
  const TraceSummary& trace = report.traces.front();
  const UnknownKernels unknown = unknown_kernels(trace);
  const KernelUse* longest = unknown.longest;
  const Seconds span = trace.time.span * (table_steps(trace) / window_steps(trace));
  if (longest == nullptr || unknown.own < kMuch * span) return "";
  const bool is_named =
      is_told(report, [&](const Finding& one) { return one.location.node == longest->name; });
  if (is_named) return "";
  return fmt::format(
      "The program's own kernels, which no rule looks into, take {} of the time, {} alone {}: see "
      "{}.",
      share_text(unknown.own / span), rooftile::quoted(function_of_kernel(longest->name)),
      share_text(longest->time / span), ncu_command(longest->name));
}

// What is copied where that is much of the time and nothing else tells of it.
std::string copies_line(const Report& report) {
  constexpr double kMuch = 0.1;  // of the span
  const TraceSummary& trace = report.traces.front();
  const Seconds copies = trace.time.exposed_copy - trace.time.exposed_fill;
  const bool is_named = is_told(
      report, [](const Finding& finding) { return finding.rule.starts_with("input_pipeline/"); });
  const std::string words = transfers_words(trace);
  if (is_named || copies < kMuch * trace.time.span || words.empty()) return "";
  if (contains(report.not_judged_because, words)) return "";
  return fmt::format(
      "The GPU only copies for {} of the time: {}.{}", share_text(copies / trace.time.span), words,
      contains(words, "pageable") ? " Pinned memory that is used again and again copies faster."
                                  : "");
}

// Whether most communication that nothing hides is of unknown size: how long it sends, and how long
// it waits for other ranks, one rank does not tell.
bool may_be_waiting(const TraceSummary& trace) {
  Seconds unknown, all;
  for (const CollectiveUse& use : trace.collectives) {
    all += use.exposed;
    if (use.shape.in_elements <= 0 && use.shape.out_elements <= 0) unknown += use.exposed;
  }
  return all > Seconds() && 2 * unknown >= all;
}

// What only the recordings of the other ranks tell.
std::string waiting_line(const Report& report) {
  constexpr double kMuch = 0.3;  // of the span
  const TraceSummary& trace = report.traces.front();
  const bool is_unknown = may_be_waiting(trace);
  const Seconds waiting = is_unknown ? trace.time.exposed_communication : trace.time.rank_waiting;
  const bool is_alone = report.traces.size() == 1 && !says_why_not(report);
  const bool is_named = is_told(
      report, [](const Finding& finding) { return finding.rule.starts_with("distributed/"); });
  if (!is_alone || is_named || waiting < kMuch * trace.time.span) return "";
  return fmt::format(
      "This rank {} for {} of the time: record all ranks and compare them (rooftile check with one "
      "trace of each). What is saved here {}.",
      is_unknown ? "sends what has no recorded size, or waits for others," : "waits for others",
      share_text(waiting / trace.time.span),
      is_unknown ? "may be waited instead" : "is waited instead");
}

// Of several ranks the tables are those of the first.
std::string whose_words(const Report& report) {
  if (report.traces.size() < 2) return "";
  const TraceSummary& trace = report.traces.front();
  return trace.rank ? fmt::format("Rank {}: ", *trace.rank) : "First process: ";
}

}  // namespace

std::string transfers_words(const TraceSummary& trace) {
  struct Transfers {
    Bytes bytes;
    Seconds time, pageable;
  };
  std::map<CopyKind, Transfers> by_kind;
  for (const TransferUse& use : trace.transfers) {
    Transfers& transfers = by_kind[use.kind];
    transfers.bytes += use.bytes;
    transfers.time += use.time;
    if (use.pageable) transfers.pageable += use.time;
  }
  std::vector<std::string> parts;
  const auto add = [&](CopyKind kind, std::string_view where) {
    const Transfers& transfers = by_kind[kind];
    if (transfers.time <= Seconds()) return;
    parts.push_back(fmt::format("{} {} at {}{}", traffic_text(transfers.bytes), where,
                                rate_text(transfers.bytes / transfers.time),
                                2.0 * transfers.pageable > transfers.time ? ", pageable" : ""));
  };
  add(CopyKind::host_to_device, "to the GPU");
  add(CopyKind::device_to_host, "to the host");
  return join(parts, "; ");
}

std::string ncu_command(std::string_view kernel) {
  const std::string name = function_of_kernel(kernel);
  const std::size_t cut = name.find("...");  // Nsight Systems shortens names so
  return "ncu --kernel-name " +
         rooftile::quoted(cut == std::string::npos ? name : "regex:^" + name.substr(0, cut));
}

std::string_view idle_words(IdleCause cause) {
  constexpr std::string_view kPrefix = "idle: ";
  for (const CauseWords& entry : kCauses) {
    if (entry.cause == cause) return std::string_view(entry.words).substr(kPrefix.size());
  }
  return "";
}

std::string_view step_source_words(StepSource source) {
  switch (source) {
    case StepSource::profiler_step:
      return "ProfilerStep marks";
    case StepSource::user_range:
      return "ranges named by the program";
    case StepSource::engine:
      return "ranges named by the serving engine";
    case StepSource::optimizer:
      return "optimizer steps";
    case StepSource::data_loader:
      return "batches of the data loader";
    case StepSource::repetition:
      return "the repeating sequence of kernels";
    case StepSource::none:
      break;
  }
  return "";
}

std::vector<std::string> trace_lines(const Report& report) {
  const TraceSummary& trace = report.traces.front();
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("{}{}; {}.", whose_words(report), pass_words(trace), busy_words(trace)));
  if (trace.kernels > 0) {
    lines.push_back(kernels_line(trace));
  }
  const std::string slow = slow_line(trace.steps);
  const std::string unlike = is_warming_up(trace.steps.durations) ? warm_up_line(trace.steps)
                             : slow.empty()                       ? limits_line(trace.steps)
                                                                  : slow;
  if (!unlike.empty()) lines.push_back(unlike);
  if (has_pass(trace)) std::ranges::move(remarks(trace), std::back_inserter(lines));
  for (std::string line : {own_kernels_line(report), copies_line(report), waiting_line(report)}) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  const bool is_torch = trace.format == "Kineto" && trace.kernels > 0;
  if (is_torch && !trace.has_shapes) {
    lines.emplace_back(
        "Shapes were not recorded: record_shapes=True would show which layers to change.");
  }
  if (is_torch && !trace.has_stacks) {
    lines.emplace_back(
        "Source lines were not recorded: with_stack=True would show where in the program.");
  }
  return lines;
}

bool has_pass(const TraceSummary& trace) { return trace.kernels > 0; }

std::vector<PassPart> pass_parts(const TraceSummary& trace, bool is_of_several) {
  const TimeBreakdown& time = trace.time;
  std::vector<PassPart> parts;
  const auto add = [&](std::string_view name, Seconds part) {
    const double share = time.span.value() > 0 ? part / time.span : 0;
    if (share >= kSmallPart) parts.push_back({std::string(name), part, share});
  };
  add("compute", time.compute - time.stretched);
  add("kernels held up by something else", time.stretched);
  add(!is_of_several && may_be_waiting(trace) ? "communication of unknown size, or waiting in it"
                                              : "communication, not overlapped",
      time.exposed_communication - time.rank_waiting - time.communication_beside_allocation);
  add("waiting for other ranks, in collectives", time.rank_waiting);
  add("allocating GPU memory, beside communication", time.communication_beside_allocation);
  add("copies, not overlapped", time.exposed_copy - time.exposed_fill - time.exposed_migration);
  add("fills, not overlapped", time.exposed_fill);
  add("migrations of managed memory, not overlapped", time.exposed_migration);
  for (const CauseWords& entry : kCauses) {
    const auto found = time.idle_by_cause.find(entry.cause);
    if (found != time.idle_by_cause.end()) add(row_words(trace, entry), found->second);
  }
  return parts;
}

TextTable pass_table(const TraceSummary& trace, bool is_of_several) {
  const bool has_steps = !trace.steps.durations.empty();
  std::string title = has_steps ? "a step's time goes to" : "the time goes to";
  if (is_of_several) {
    title += trace.rank ? fmt::format(" (rank {})", *trace.rank) : " (first process)";
  }
  TextTable table{{{std::move(title)}, {"time", true}, {"share", true}}, {}};
  for (const PassPart& part : pass_parts(trace, is_of_several)) {
    table.rows.push_back(
        {part.name, time_text(part.time / window_steps(trace)), share_text(part.share)});
  }
  return table;
}

TextTable ranks_table(const Report& report) {
  TextTable table{{{"rank"},
                   {"step", true},
                   {"busy", true},
                   {"compute", true},
                   {"exposed communication", true},
                   {"idle", true}},
                  {}};
  for (std::size_t i = 0; i < report.traces.size(); ++i) {
    const TraceSummary& trace = report.traces.begin()[i];
    const TimeBreakdown& time = trace.time;
    const auto share = [&](Seconds part) {
      return time.span.value() > 0 ? share_text(part / time.span) : "";
    };
    table.rows.push_back({rank_name(report, i), time_text(pass_time(trace)), share(time.gpu_busy),
                          share(time.compute), share(time.exposed_communication),
                          share(time.idle)});
  }
  return table;
}

}  // namespace rooftile
