#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>

#include "rooftile/analysis/trace/benchmarks.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_host_busy_elsewhere_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A function, range or operator of the program that keeps the host from launching for a millisecond or
more, in each step, while the GPU idles: preprocessing, scheduling, tokenizing, saving. Where the
program marks a single step, once in that step is enough; where it marks none, a function or range that
takes a tenth of the recording, after the first launch. Code that the trace does not name, as without Python
stacks, counts where it comes five times or more and takes a tenth.

Stretches of 10 ms or more that are equally long to within 0.2 ms and four thousandths are no work: a sleep, a
timeout, or the wait for a clock. The finding says so.

Work whose names differ by a number only (`layer_0_weights`, `layer_1_weights`) counts as one.

## Why it costs time
The GPU runs what the host launched before and then has nothing to do. Work of the host costs nothing as
long as the queue holds out, and all of its time after that.

## How to fix
Take it off the thread that launches: into the loader's worker processes, or a thread that works one step
ahead. Work whose result does not change belongs before the loop. Launch the next step's kernels first,
then do the work while they run. Code that torch.compile made should run as it was recorded: where its host
part takes long, it is compiled or its CUDA graph recorded again, which `TORCH_LOGS=recompiles,cudagraphs`
tells. A sleep or a timeout is to be found and taken out: no other thread makes it shorter.

## How the saving is estimated
High: the GPU's idle time that follows from it. Low: half of that, because the next thing that holds the
host up may take over; 0 where one step was recorded. Of code that the trace does not name half is likely.

## When not to
- An optimizer's step has to follow the gradients: not reported.
- At the start of a program or the end of an epoch: only what comes back in the steps is reported,
  or is inside the only one that was marked, or long in a recording without steps. Whether it comes
  back there, the reader knows.
- In the first call of an operator, which sets up libraries and loads kernels: record after a warm-up.
  Operators of a single step are not reported for that reason.
- With Python stacks recorded the host is slower than usual. Where the GPU had much work in its
  queue as the recording began and waits now, recording slows the host, and it is information.
- Where the work needs this step's result, it can only be made faster.

## Evidence
- PyTorch Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
- vLLM blog, "vLLM v0.6.0: 2.7x Throughput Improvement and 5x Latency Reduction" (2024): Llama 3 8B on one
  H100 spent 29 % of the time on scheduling by the host and 33 % on the HTTP server.
)md";

constexpr std::int64_t kFewest = 3;       // times: fewer are no habit of the program
constexpr double kLeastIdleShare = 0.05;  // of the window; assumed worth a change of the program
constexpr double kLongShare = 0.1;        // of a recording without steps
constexpr Seconds kFinest = microseconds(1);  // said of lengths

// Takes microseconds by itself: of a longer one a tensor subclass, fake tensors or a dispatch mode
// makes Python code.
bool is_view(const HostWorkUse& work) {
  constexpr std::array<std::string_view, 18> kViews{
      "aten::view",    "aten::as_strided", "aten::split",   "aten::split_with_sizes",
      "aten::chunk",   "aten::slice",      "aten::select",  "aten::expand",
      "aten::permute", "aten::t",          "aten::squeeze", "aten::unsqueeze",
      "aten::narrow",  "aten::transpose",  "aten::detach",  "aten::alias",
      "aten::unbind",  "aten::unflatten"};
  return std::ranges::find(kViews, work.name) != kViews.end();
}

// No work takes the same time again and again: a clock ends it.
bool is_timed(const HostWorkUse& work) {
  constexpr Seconds kShortest = milliseconds(10), kSpread = microseconds(200);
  constexpr double kRelativeSpread = 0.004;
  const Seconds spread = work.longest - work.shortest;
  return work.count >= kFewest && work.shortest >= kShortest && spread <= kSpread &&
         spread <= kRelativeSpread * work.shortest;
}

Fix propose(const TraceSummary& trace, const HostWorkUse& work) {
  if (is_timed(work)) {
    return {
        "Find what sleeps or waits for a fixed time there, as time.sleep, a timeout or a polling "
        "interval, and take it out or wait for the event itself",
        Exactness::bit_exact};
  }
  // DistributedDataParallel packs a module's buffers to broadcast them before each forward pass.
  if (work.name.find("flatten_dense_tensors") != std::string::npos) {
    return {
        "Give DistributedDataParallel broadcast_buffers=False where ranks need not share buffers "
        "in each forward pass: batch norm's running statistics then differ by rank",
        Exactness::changes_training};
  }
  if (auto fix = made_on_gpu(work.name)) return *std::move(fix);
  if (is_view(work)) {
    return {
        "Find the code that runs operators on shapes alone (fake tensors, a tensor subclass, a "
        "dispatch mode), and do it once before the loop",
        Exactness::exact_arithmetic};
  }
  if (is_compiled_range(work.name)) {
    return {
        "Let the compiled code run as it was recorded: TORCH_LOGS=recompiles,cudagraphs tells why "
        "it is compiled, or its CUDA graph recorded, again",
        Exactness::bit_exact};
  }
  if (work.is_operator()) {
    return {
        "Call this operator less often or once before the loop, or give it data on the GPU: it "
        "takes the host that long and launches nothing",
        Exactness::exact_arithmetic};
  }
  if (!uses_torch(trace) || trace.format == "Nsight Systems") {
    return {
        "Do this work ahead in a second thread, with copies on a stream of its own, or after the "
        "next kernels are launched",
        Exactness::bit_exact};
  }
  return {
      "Do this work in loader workers, in a thread one step ahead, or after the next step's "
      "kernels are launched",
      Exactness::bit_exact};
}

// "ensure_layer_#_weights" of "ensure_layer_3_weights": the same work for one layer after another.
// What stands between two letters is part of a word: h2d, conv2d.
std::string without_numbers(const std::string& name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string text;
  for (auto at = name.begin(); at != name.end();) {
    const auto end = std::find_if_not(at, name.end(), is_digit);
    const bool is_in_word =
        !text.empty() && is_letter(text.back()) && end != name.end() && is_letter(*end);
    if (end == at) {
      text += *at++;
      continue;
    }
    text += is_in_word ? std::string(at, end) : "#";
    at = end;
  }
  return text;
}

// Work whose names differ by a number only is one.
struct JoinedWork {
  HostWorkUse work;   // with '#' for the numbers
  std::string place;  // the name of the largest
};

std::vector<JoinedWork> joined_work(const TraceSummary& trace) {
  std::map<std::tuple<IdleCause, bool, std::string>, std::vector<const HostWorkUse*>> same;
  for (const HostWorkUse& work : trace.host_work) {
    const std::string name = work.is_operator() ? work.name : without_numbers(work.name);
    same[{work.cause, work.is_first, name}].push_back(&work);
  }
  std::vector<JoinedWork> joined;
  for (const auto& [key, uses] : same) {
    HostWorkUse whole = **std::ranges::max_element(uses, {}, &HostWorkUse::exposed);
    std::string place = whole.name;
    if (uses.size() > 1) {
      whole.name = std::get<std::string>(key);
      whole.count = 0;
      whole.time = whole.exposed = {};
      for (const HostWorkUse* use : uses) {
        whole.shortest = std::min(whole.shortest, use->shortest);
        whole.longest = std::max(whole.longest, use->longest);
        whole.count += use->count;
        whole.time += use->time;
        whole.exposed += use->exposed;
      }
    }
    joined.push_back({std::move(whole), std::move(place)});
  }
  std::ranges::stable_sort(joined, std::greater{},
                           [](const JoinedWork& one) { return one.work.exposed; });
  return joined;
}

// The program, and no guess from the kernels, says where steps begin.
bool marks_steps(const TraceSummary& trace) {
  const StepSource source = trace.steps.source;
  return source == StepSource::profiler_step || source == StepSource::user_range ||
         source == StepSource::engine;
}

bool is_one_marked_step(const TraceSummary& trace) {
  return marks_steps(trace) && trace.steps.durations.size() == 1;
}

// Stretches that make a habit: one in each of two marked steps tells as much as three anywhere.
std::int64_t fewest(const TraceSummary& trace) {
  return marks_steps(trace) ? std::min(kFewest, std::ssize(trace.steps.durations)) : kFewest;
}

// Without steps a recording is one run; what comes before its first launch may be its start.
bool is_long_in_one_run(const TraceSummary& trace, const HostWorkUse& work) {
  return trace.steps.durations.empty() && !work.is_first && !work.is_operator() &&
         work.exposed >= kLongShare * trace.time.span;
}

Finding describe(const TraceSummary& trace, const JoinedWork& joined) {
  const HostWorkUse& work = joined.work;
  TraceSite site;
  site.op = joined.place;
  site.source = work.source;
  const std::string place = work.source.line > 0 ? " at " + place_text(site) : "";
  Finding finding = about_site(
      trace, site,
      fmt::format("{}{} keeps the host from launching ({}), and the GPU then idles {}", work.name,
                  place, count_text(trace, work.count, "time"), cost_text(trace, work.exposed)),
      propose(trace, work), gain_of_idle_time(work.exposed));
  if (is_one_marked_step(trace)) {
    finding.message += "; one step was recorded: this counts where each step does it";
    finding.saving->low = Seconds();
    if (work.count < kFewest) finding.own_level = Level::info;
  } else if (work.count < fewest(trace)) {
    finding.message += "; one run was recorded: this counts where each run does it";
    finding.saving->low = Seconds();
  }
  if (is_timed(work)) {
    finding.message += fmt::format(
        "; each time lasts {}, to within {}: a clock ends it, so it is a sleep or a timeout",
        time_text(work.shortest), time_text(std::max(work.longest - work.shortest, kFinest)));
  } else if (is_view(work)) {
    finding.message += "; a view takes microseconds, so Python runs for each operator there";
  }
  finding.count = work.count;
  finding.evidence = {Evidence::measured(
      fmt::format("{} of the host's time; only the {} in which the GPU idles count",
                  time_text(work.time), time_text(work.exposed)))};
  if (work.is_operator() && !benchmark_because(trace).empty()) {
    finding.own_level = Level::info;
    finding.message += "; the inputs of a benchmark cost no program anything";
  }
  if (trace.has_stacks) {
    finding.evidence.push_back(
        Evidence::found("Python stacks were recorded, which slows the host: part of the idle time "
                        "may be the profiler's"));
  }
  return finding;
}

// Code that the recording does not name, as without stacks that between the operators of one batch
// and the next.
bool is_unnamed_habit(const TraceSummary& trace, const HostWorkUse& work) {
  constexpr std::int64_t kHabit = 5;  // times
  return work.name.empty() && !work.is_first && work.count >= kHabit && trace.format == "Kineto" &&
         !trace.has_stacks && !falls_behind(trace) && work.exposed >= kLongShare * trace.time.span;
}

Finding describe_unnamed(const TraceSummary& trace, const HostWorkUse& work) {
  const Seconds most = work.exposed;
  Finding finding = about_trace(
      trace,
      fmt::format("code of the program's own, which the trace does not name, keeps the host from "
                  "launching ({}, {} to {} each), and the GPU then idles {}",
                  count_text(trace, work.count, "time"), time_text(work.shortest),
                  time_text(work.longest), cost_text(trace, work.exposed)),
      {"Record Python stacks to see it (with_stack=True); what needs no result of the GPU can run "
       "in loader workers or in a thread, one batch ahead",
       Exactness::bit_exact},
      Range<Seconds>{Seconds(), 0.5 * most, most});
  finding.count = work.count;
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const JoinedWork& joined : joined_work(trace)) {
    const HostWorkUse& work = joined.work;
    if (work.cause != IdleCause::host_work) continue;
    if (is_unnamed_habit(trace, work)) cases.push_back({"", describe_unnamed(trace, work)});
    if (work.name.empty()) continue;
    // It follows the gradients: launch/host-bound and the rules on optimizers tell of it.
    if (work.name.starts_with("Optimizer.step#")) continue;
    // One call compiles or records; only what comes back is a habit.
    if (is_compiled_range(work.name) && work.count < 2) continue;
    if (work.count < fewest(trace) && !is_long_in_one_run(trace, work)) continue;
    // What an operator does once may be its set-up.
    if (work.is_operator() && is_one_marked_step(trace)) continue;
    if (work.exposed < kLeastIdleShare * trace.time.span) continue;
    cases.push_back({work.name, describe(trace, joined)});
    // The host was ahead without the recording.
    if (falls_behind(trace)) cases.back().finding.own_level = Level::info;
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace launch_host_busy_elsewhere_rule

extern const Rule launch_host_busy_elsewhere{
    .id = "launch/host-busy-elsewhere",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Host does other work while the GPU idles",
    .doc = launch_host_busy_elsewhere_rule::kDoc,
    .in_any_trace = launch_host_busy_elsewhere_rule::check};

}  // namespace rooftile
