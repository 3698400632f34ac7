#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_host_bound_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A program in which the GPU is idle for a tenth of the time or more because the host launches kernels
more slowly than the GPU runs them. Idle time for other causes (synchronisation, data loading,
allocator, copies, the program's own code, waiting for other ranks) is not counted; other rules tell of it.
Nor is a program whose idle time is that of an optimizer with a kernel for each parameter, or one that
`launch/sync-every-step` tells of, because it reads a value in each round of a loop.

## Why it costs time
In eager mode each operator costs the host some ten microseconds of Python, dispatch and launch.
Kernels shorter than that leave the GPU waiting for the next launch.

## How to fix
More work per launch: a larger batch. Fewer launches: `torch.compile`, fused optimizers. Cheaper
launches: `torch.compile(mode="reduce-overhead")` or CUDA graphs, for static shapes, of a compiled program
once its graph breaks are out; of a serving
engine its own option for CUDA graphs. Where the host waits for the GPU every few kernels, a graph between two
waits saves next to nothing: work on all items of the loop at once. Under FSDP, which gathers weights between the blocks: the blocks compiled,
fewer and larger units. Where the
kernels are long, something else keeps the host busy between launches: profile the Python code. Where operators
that compute nothing (`aten::view`, `aten::as_strided`) take the host more than 8 µs in the median, it is the host
that is slow, whatever is launched: fewer cores than busy threads and processes, a low clock, a debugger, or
code that wraps each operator. That comes first.

## How the saving is estimated
By a replay of the recording in which operators cost the host nothing, held to the measured idle time:
likely and high are at most what launching causes. Where the replay does not fit, high: the
idle time that launching causes, less half a microsecond for each kernel, which remains between the
kernels of a CUDA graph; low: half of that. With Python stacks or a range for each
operator (`emit_nvtx`) recorded the low end is 0, because recording them slows the host itself.

## When not to
- Profiling slows the host. Record again without stacks and shapes before a large change. Where the GPU had much
  work in its queue as the recording began and waits now, it is information.
- CUDA graphs need static shapes and keep their memory.
- A larger batch changes training.

## Evidence
- In 57 of 60 public recordings of PyTorch the faster of `aten::view` and `aten::as_strided` takes 0.3 to 2.1 µs in
  the median; in the other three, 4, 17 and 23 µs.
- NVIDIA blog, "Getting Started with CUDA Graphs": 2.9 µs kernels take 3.8 µs each when launched
  ahead and 3.4 µs in a graph.
- ML Engineering book (S. Bekman), `torch.compile` chapter: a 1B model at batch 1 goes from 48.8 to
  8.1 ms.
)md";

constexpr double kMinIdleShare = threshold::kWorthADay;
constexpr double kFewKernels = 10;  // a recording of so few is no program
// Above so much idle time for each kernel the host does something else than launching.
constexpr Seconds kLongestLaunch = milliseconds(2);
constexpr Seconds kGraphGap = microseconds(0.5);    // 3.4 - 2.9 µs of the blog's figures
constexpr Seconds kShortKernel = microseconds(20);  // about what an eager operator takes the host
constexpr double kMostlyShort = 0.4;                // of the kernels

// But for loops over collectives, which reduce one after another: those have a rule of their own.
Seconds launching_idle(const TraceSummary& trace) {
  const Seconds idle = idle_of(trace, {IdleCause::launch});
  return std::max(Seconds(), idle - trace.between_collectives);
}

// Share of the kernels that take less time than launching an operator.
double share_of_short_kernels(const TraceSummary& trace) {
  std::int64_t all = 0, few = 0;
  const auto add = [&](const KernelUse& kernel) {
    all += kernel.count;
    if (kernel.time < kShortKernel * static_cast<double>(kernel.count)) few += kernel.count;
  };
  for (const OpUse& use : trace.ops) std::for_each(use.kernels.begin(), use.kernels.end(), add);
  std::for_each(trace.orphans.begin(), trace.orphans.end(), add);
  return all > 0 ? static_cast<double>(few) / static_cast<double>(all) : 0;
}

// In the window.
std::int64_t kernels_of(const TraceSummary& trace) {
  return table_count(trace, kernels_in_tables(trace));
}

Range<Seconds> saving_of(const TraceSummary& trace) {
  for (const Prediction& prediction : trace.predictions) {
    if (prediction.remedy != Remedy::batched_launches) continue;
    Range<Seconds> saved = prediction.saved;
    saved.high = std::min(saved.high, launching_idle(trace));
    saved.expected = std::min(saved.expected, saved.high);
    saved.low = std::min(saved.low, saved.expected);
    if (slows_host(trace)) saved.low = std::min(saved.low, Seconds(0));
    return saved;
  }
  const Seconds left = kGraphGap * static_cast<double>(kernels_of(trace));
  const Seconds most = std::max(Seconds(0), launching_idle(trace) - left);
  return {slows_host(trace) ? Seconds(0) : 0.5 * most, 0.75 * most, most};
}

// Four times what the slowest host takes that nothing holds up.
constexpr Seconds kSlowOperator = microseconds(8);

bool has_slow_host(const TraceSummary& trace) { return trace.lightest_operator > kSlowOperator; }

// FSDP gathers and frees weights between the blocks, which no graph records.
bool is_sharded(const TraceSummary& trace) {
  return std::ranges::any_of(trace.annotations, [](const PlaceUse& range) {
    return range.name.starts_with("FSDP::") || range.name.starts_with("FullyShardedDataParallel.");
  });
}

// The range of the training loop in which most of the launches' idle time lies; null where none
// has.
const RangeUse* main_range(const TraceSummary& trace, Seconds idle) {
  constexpr double kMost = 0.4;
  const auto found = std::ranges::max_element(trace.ranges, {}, &RangeUse::idle);
  return found == trace.ranges.end() || found->idle < kMost * idle ? nullptr : &*found;
}

// Where `share` of the idle time is the optimizer's; `elsewhere` is for the rest.
Fix propose_for_optimizer(double share, const Fix& elsewhere) {
  constexpr double kNearlyAll = 0.8;
  const std::string text =
      "Launch less in the optimizer's step: fuse its updates and copies over lists of tensors "
      "(torch._foreach_*, foreach=True), or compile it (torch.compile)";
  return {share >= kNearlyAll ? text : fmt::format("{}. Elsewhere: {}", text, elsewhere.text),
          Exactness::exact_arithmetic};
}

// "812 kernels per step, 68 % of them shorter than 20 µs"; with CUDA graphs, of which one call
// launches many, "13 launch calls per step and 1 CUDA graph per step".
std::string launches_text(const TraceSummary& trace, double short_share) {
  if (trace.graph_launches == 0) {
    return fmt::format("{}, {} of them shorter than {}",
                       count_text(trace, kernels_of(trace), "kernel"), share_text(short_share),
                       time_text(kShortKernel));
  }
  return fmt::format("{} and {}", count_text(trace, trace.launches, "launch call"),
                     count_text(trace, trace.graph_launches, "CUDA graph"));
}

// Where the host cannot launch ahead, since it waits for the GPU every few kernels.
const Fix kWithoutWaits{
    "Work on all items at once, with operators over a batch and masks, in place of a loop that "
    "reads values of each; no graph spans those reads",
    Exactness::exact_arithmetic};

Fix propose(const TraceSummary& trace, double short_share) {
  const bool is_torch = uses_torch(trace);
  if (has_slow_host(trace)) {
    return {
        "First find what slows every operator on the host: more busy threads and processes than "
        "cores, a low clock, a debugger, or code that wraps each operator. Then torch.compile or a "
        "larger batch",
        Exactness::exact_arithmetic};
  }
  if (short_share < kMostlyShort) {
    if (!is_torch) {
      return {
          "Profile what the host does between the launches: most kernels are long enough to hide "
          "ordinary launches",
          Exactness::not_applicable};
    }
    return {
        "Profile the Python code between the launches: most kernels are long enough to hide "
        "ordinary launches",
        Exactness::not_applicable};
  }
  if (trace.graph_launches > 0) {
    return {
        "Put the launches that are still outside the CUDA graphs into them, or use a larger "
        "batch",
        Exactness::exact_arithmetic};
  }
  if (is_served(trace)) {
    return {
        "Let the engine run its steps as CUDA graphs (vLLM without --enforce-eager, SGLang without "
        "--disable-cuda-graph, TensorRT-LLM with cuda_graph_config), or serve larger batches",
        Exactness::exact_arithmetic};
  }
  if (!is_torch) {
    return {"Capture the launches in a CUDA graph, fuse small kernels, or use larger batches",
            Exactness::exact_arithmetic};
  }
  if (uses_compiler(trace)) {
    return {
        "It is compiled already: mode=\"reduce-overhead\" where shapes are static and the graph "
        "has no breaks (fullgraph=True says where they are), or a larger batch",
        Exactness::exact_arithmetic};
  }
  if (is_sharded(trace)) {
    return {
        "Compile the blocks that FSDP wraps (torch.compile), make its units fewer and larger, or "
        "use a larger batch",
        Exactness::exact_arithmetic};
  }
  return {
      "torch.compile(mode=\"reduce-overhead\") or CUDA graphs where shapes are static, or a "
      "larger batch",
      Exactness::exact_arithmetic};
}

// Operators that keep the host busy longest.
std::vector<Evidence> slow_operators(const TraceSummary& trace) {
  constexpr std::size_t kMostTold = 3;
  std::map<std::string, std::pair<Seconds, std::int64_t>> by_name;
  for (const OpUse& use : trace.ops) {
    by_name[use.name].first += use.host_time;
    by_name[use.name].second += use.count;
  }
  std::vector<std::pair<Seconds, std::string>> sorted;
  for (const auto& [name, sum] : by_name) sorted.emplace_back(sum.first, name);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<Evidence> lines;
  for (const auto& [time, name] : sorted) {
    if (lines.size() == kMostTold || !is_visible(trace, time * table_part(trace))) break;
    lines.push_back(Evidence::measured(
        fmt::format("{} takes the host {} for {}", name, cost_text(trace, time * table_part(trace)),
                    count_text(trace, table_count(trace, by_name[name].second), "call"))));
  }
  return lines;
}

// The optimizer, which launches a kernel for each parameter, causes nearly all of it: it has a rule
// of its own.
bool is_of_optimizer(const TraceSummary& trace, Seconds idle) {
  constexpr double kNearlyAll = 0.8;
  constexpr std::int64_t kMany = 50;  // kernels a call
  const bool works_on_lists = std::ranges::any_of(trace.ops, [](const OpUse& use) {
    return use.phase == Phase::optimizer && (use.name.find("_foreach_") != std::string::npos ||
                                             use.name.find("_fused_") != std::string::npos);
  });
  if (works_on_lists) return false;
  Seconds sum;
  for (const RangeUse& range : trace.ranges) {
    const bool is_step = range.name.starts_with("Optimizer.step") && range.count > 0;
    if (is_step && range.kernels >= kMany * range.count) sum += range.idle;
  }
  return sum >= kNearlyAll * idle;
}

// Whether launch/sync-every-step tells of a loop that reads a value in each round, with its
// launches.
bool are_rounds_told(const TraceSummary& trace, Seconds idle) {
  constexpr double kPart = 0.1;  // of the launches' idle time
  return std::ranges::any_of(trace.syncs, [&](const SyncUse& sync) {
    return is_visible(trace, sync.exposed) && sync.exposed > kPart * idle &&
           rounds_of(trace, sync).has_value();
  });
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (is_mostly_set_up(trace) || trace.launches_block) return {};
  const Seconds idle = launching_idle(trace);
  const double kernels = static_cast<double>(kernels_of(trace));
  if (trace.launches + trace.graph_launches <= 0 || kernels < kFewKernels) return {};
  if (idle < kMinIdleShare * trace.time.span || idle > kLongestLaunch * kernels) return {};
  if (uses_torch(trace) && is_of_optimizer(trace, idle)) return {};
  const std::optional<double> between_waits = kernels_between_waits(trace);
  if (between_waits && (!uses_torch(trace) || are_rounds_told(trace, idle))) return {};
  Range<Seconds> gain = saving_of(trace);
  if (!is_visible(trace, gain.expected)) return {};
  if (between_waits) gain.low = std::min(gain.low, Seconds());
  const double short_share = share_of_short_kernels(trace);
  const RangeUse* range = main_range(trace, idle);
  const bool in_optimizer =
      range != nullptr && range->name.starts_with("Optimizer.step") && uses_torch(trace);
  Fix fix = propose(trace, short_share);
  if (in_optimizer) fix = propose_for_optimizer(range->idle / idle, fix);
  Finding finding =
      about_trace(trace,
                  fmt::format("the GPU is idle {}, launch-bound: {}", cost_text(trace, idle),
                              launches_text(trace, short_share)),
                  between_waits ? kWithoutWaits : fix, gain);
  finding.count = trace.launches;
  // The host was ahead without the recording.
  if (falls_behind(trace)) finding.own_level = Level::info;
  if (range != nullptr) {
    finding.message += fmt::format("; {} of it in {}", share_text(range->idle / idle), range->name);
  }
  finding.evidence = {
      Evidence::measured(fmt::format("the GPU is busy {} of the time; {}",
                                     share_text(trace.time.gpu_busy / trace.time.span),
                                     count_text(trace, trace.launches, "launch call"))),
      Evidence::published("2.9 µs kernels take 3.4 µs each in a CUDA graph",
                          "NVIDIA blog, Getting Started with CUDA Graphs")};
  if (between_waits) {
    finding.message += "; the host waits for the GPU " + pace_text(*between_waits);
  }
  if (has_slow_host(trace)) {
    finding.message += fmt::format(
        "; the host is slow: an operator that computes nothing takes it {}, where 2 µs are usual",
        time_text(trace.lightest_operator));
  }
  for (Evidence& line : slow_operators(trace)) finding.evidence.push_back(std::move(line));
  if (slows_host(trace)) {
    finding.evidence.push_back(Evidence::found(
        fmt::format("{} recorded, which slows the host: part of the idle time may be the "
                    "profiler's",
                    trace.has_stacks ? "Python stacks were" : "a range for each operator was")));
  }
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace launch_host_bound_rule

extern const Rule launch_host_bound{
    .id = "launch/host-bound",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Launch-bound: GPU waits for the host to launch kernels",
    .doc = launch_host_bound_rule::kDoc,
    .in_any_trace = launch_host_bound_rule::check};

}  // namespace rooftile
