#include "rooftile/pipeline/not_judged.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "rooftile/analysis/trace/benchmarks.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/python/folder.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {
namespace {

// Why silence about scripts means nothing; empty where it means that they are fine.
std::string scripts_not_judged_because(const source::SourceFacts& facts,
                                       const SourceSummary& scripts) {
  // What a link leads to was not named, so nobody expects a word on it.
  const auto skipped = std::ranges::count_if(
      facts.skipped, [](const auto& file) { return file.reason != python::kLinkOut; });
  if (skipped + scripts.with_errors > 0) {
    return fmt::format("{} of {} Python files could not be read in full",
                       skipped + scripts.with_errors,
                       skipped + scripts.files + scripts.passed_over);
  }
  if (scripts.training > 0) return "";
  const bool trains = std::ranges::any_of(
      facts.programs, [](const source::Program& one) { return !one.training_loops.empty(); });
  if (trains) {
    return "nothing here says that it trains on a GPU; if it does, name it, e.g. --gpu h100";
  }
  return "nothing here trains on a GPU, as far as the source tells; if the training loop is in "
         "another file, give the folder";
}

// A user-defined kernel that leaves all SMs but one idle for a large part of the time; no rule
// looks at those. The share is assumed.
const KernelUse* kernel_on_one_sm(const TraceSummary& trace) {
  constexpr double kLarge = 0.2;
  const auto found = std::ranges::find_if(trace.orphans, [&](const KernelUse& kernel) {
    return kernel.launch.grid == std::array<std::uint32_t, 3>{1, 1, 1} &&
           kernel.time > kLarge * trace.kernel_time;
  });
  return found == trace.orphans.end() ? nullptr : &*found;
}

// Why silence about a trace does not mean that all is well; empty where it does. The shares are
// assumed: what is left may hide as much as what is seen.
std::string too_little_seen(const TraceSummary& trace) {
  constexpr double kMostUnclassified = 0.5, kMostIdle = 0.9;
  if (is_of_host_alone(trace)) {
    return trace.format == "Nsight Systems"
               ? "nothing of a GPU was recorded; record a program that uses one with nsys profile "
                 "--trace=cuda,nvtx"
               : "nothing of a GPU was recorded; record a program that uses one with "
                 "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";
  }
  if (trace.kernels == 0) return "no kernel was recorded";
  if (trace.unclassified_time > kMostUnclassified * trace.kernel_time) {
    return fmt::format("{} of the kernel time is in kernels of unknown names",
                       share_text(trace.unclassified_time / trace.kernel_time));
  }
  if (const KernelUse* kernel = kernel_on_one_sm(trace)) {
    return fmt::format("{} of the kernel time is in {}, a single block, which runs on one SM",
                       share_text(kernel->time / trace.kernel_time), kernel->name);
  }
  const Seconds span = trace.time.span;
  if (span <= Seconds()) return "";
  if (is_mostly_unexplained(trace)) {
    return fmt::format("for {} of the time the trace does not show what holds the GPU up",
                       share_text(unexplained_time(trace) / span));
  }
  constexpr double kNearlyAll = 0.7;
  if (const Seconds lost = unexplained_time(trace) + trace.time.rank_waiting;
      trace.time.rank_waiting > Seconds() && lost > kNearlyAll * span) {
    return fmt::format(
        "for {} of the time this rank waits for others, or the trace does not show what holds the "
        "GPU up: record all ranks, on GPUs of their own",
        share_text(lost / span));
  }
  if (is_mostly_set_up(trace)) {
    const Seconds start = idle_of(trace, {IdleCause::start_up});
    return fmt::format(
        "{} of the time goes to {}first calls, loading or compiling kernels: record after a "
        "warm-up",
        share_text(set_up_of(trace) / span), start > Seconds() ? "start-up, " : "");
  }
  if (std::string reason = benchmark_because(trace); !reason.empty()) return reason;
  if (std::string reason = toy_because(trace); !reason.empty()) return reason;
  if (trace.time.idle > kMostIdle * span) {
    const auto [cause, time] = *std::ranges::max_element(
        trace.time.idle_by_cause, {}, [](const auto& entry) { return entry.second; });
    return fmt::format("the GPU is idle for {} of the time ({}: {}), which no rule advises on",
                       share_text(trace.time.idle / span), idle_words(cause),
                       share_text(time / span));
  }
  return "";
}

}  // namespace

std::string no_advice_because(const TraceSummary& trace) {
  if (trace.is_foreign) {
    return "the trace is of another maker's GPU; advice on kernels is for NVIDIA GPUs";
  }
  if (trace.kernels == 0) return too_little_seen(trace);
  if (trace.device && !trace.device->name.empty()) {
    return fmt::format("{} is not a GPU that `rooftile gpus` lists; name the nearest with --gpu",
                       trace.device->name);
  }
  return "the trace does not name its GPU; name one with --gpu";
}

std::string not_judged_because(const Workload& workload, const Report& report) {
  if (!workload.traces.empty()) {
    std::string reason = too_little_seen(workload.traces.front());
    if (!reason.empty()) return reason;
  }
  const bool scripts_only = workload.ops.empty() && workload.source && workload.traces.empty();
  if (scripts_only) return scripts_not_judged_because(*workload.source, *report.scripts);
  for (const auto& [what, count] : workload.skipped) {
    if (contains(what, "(--max-")) return "not all was read: " + what;
  }
  if (report.coverage.ops <= 0) return "no operation was found";
  if (is_sufficient(report.coverage)) return "";
  return fmt::format("only {:.0f} of {:.0f} operations could be timed, at least {} are needed",
                     report.coverage.ops_with_time, report.coverage.ops,
                     share_text(kEnoughCoverage));
}

}  // namespace rooftile
