#include "rooftile/pipeline/not_judged.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/benchmarks.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/python/folder.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/workload/source_facts.h"
#include "rooftile/workload/unknown_kernels.h"

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
  if (std::ranges::any_of(facts.programs, &source::Program::infers_on_gpu)) {
    return "nothing here trains; of programs that only run a network, rules on scripts look at its "
           "precision and attention alone: check a trace of it";
  }
  return "nothing here trains on a GPU, as far as the source tells; if the training loop is in "
         "another file, give the folder";
}

// Where most of the kernel time is of kernels that rules know nothing of.
std::string no_rule_for_kernels(const TraceSummary& trace) {
  constexpr double kMost = 0.5;
  const UnknownKernels unknown = unknown_kernels(trace);
  const Seconds all = unknown.all;
  if (unknown.graphs + unknown.own <= kMost * all) return "";
  if (unknown.graphs >= unknown.own) {
    return fmt::format(
        "{} of the kernel time is in CUDA graphs whose kernels were not recorded: record with nsys "
        "profile --cuda-graph-trace=node",
        share_text(unknown.graphs / all));
  }
  constexpr double kMuch = 0.1;  // of the span, for a look into the kernel
  const KernelUse& longest = *unknown.longest;
  const std::string name = short_kernel_name(longest.name);
  return fmt::format(
      "{} of the kernel time is in the program's own kernels, which no rule looks into, {} of it "
      "in {}{}",
      share_text(unknown.own / all), share_text(longest.time / unknown.own), name,
      longest.time < kMuch * trace.time.span ? "" : ": see " + ncu_command(longest.name));
}

// Where the GPU does little but copy.
std::string mostly_copies(const TraceSummary& trace) {
  constexpr double kMostly = 0.5;  // of the span
  const Seconds time = trace.time.exposed_copy - trace.time.exposed_fill;
  if (time <= kMostly * trace.time.span) return "";
  const std::string copies = transfers_words(trace);
  if (copies.empty()) return "";
  return fmt::format(
      "for {} of the time the GPU only copies ({}): fewer bytes, or computation beside the copies",
      share_text(time / trace.time.span), copies);
}

// Why silence about a trace does not mean that all is well; empty where it does. The shares are
// assumed: what is left may hide as much as what is seen.
std::string too_little_seen(const TraceSummary& trace) {
  constexpr double kMostIdle = 0.9;
  if (is_of_host_alone(trace)) {
    return trace.format == "Nsight Systems"
               ? "nothing of a GPU was recorded; record a program that uses one with nsys profile "
                 "--trace=cuda,nvtx"
               : "nothing of a GPU was recorded; record a program that uses one with "
                 "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";
  }
  if (trace.kernels == 0) return "no kernel was recorded";
  const Seconds span = trace.time.span;
  if (!is_mostly_set_up(trace)) {
    if (std::string reason = mostly_copies(trace); !reason.empty()) return reason;
    if (std::string reason = no_rule_for_kernels(trace); !reason.empty()) return reason;
  }
  if (span <= Seconds()) return "";
  if (is_mostly_unexplained(trace) && trace.time_slice > Seconds()) {
    return fmt::format("for {} of the time another process has the GPU, in slices of {}",
                       share_text(unexplained_time(trace) / span), time_text(trace.time_slice));
  }
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
  if (runs_once(trace)) {
    return "nothing repeats, hardly a kernel runs twice: record several passes after a warm-up";
  }
  if (is_single_user_step(trace)) {
    return "one step was recorded, which may be the first: record several after a warm-up";
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
  if (std::string reason = too_little_seen(trace); !reason.empty()) return reason;
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
