#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_partial_warps_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Kernels of the program's own that take a twentieth of the time or more and whose blocks leave a quarter or
more of the threads of their warps without work: blocks of fewer than 32 threads, or not of a multiple of 32.

## Why it costs time
The GPU runs threads in warps of 32. A block of 4 x 4 threads takes a whole warp and uses half of it, and
reads memory in rows of 4 elements where a warp could read 32 at once.

## How to fix
Blocks of a multiple of 32 threads, 128 to 256 as a start, with the fastest axis of memory along x: 32 x 8 in
place of 4 x 4.

## How the saving is estimated
High: the share of the warps' threads that has no work, of the measured time. Low: 0, because a kernel that
waits for memory may not gain in proportion. Half is assumed likely.

## When not to
- Where the kernel starts fewer blocks than the GPU has multiprocessors: launch/idle-sms tells of it.
- Kernels of libraries choose their blocks themselves.

## Evidence
- NVIDIA CUDA C++ Best Practices Guide, "Thread and Block Heuristics": threads per block should be a multiple
  of the warp size.
)md";

constexpr double kMinShare = threshold::kBeyondModelError;  // of the window
constexpr double kMostWithoutWork = 0.25;                   // of a warp's threads
constexpr double kWarp = 32;
constexpr double kFewBlocks = 256;  // more than the largest GPU has multiprocessors

double product(const std::array<std::uint32_t, 3>& extents) {
  double all = 1;
  for (const std::uint32_t extent : extents) all *= extent;
  return all;
}

// Of the warps' threads.
double without_work(const LaunchShape& launch) {
  const double threads = product(launch.block);
  if (threads < 1) return 0;
  return 1 - threads / (kWarp * std::ceil(threads / kWarp));
}

struct Launches {
  const KernelUse* kernel = nullptr;
  std::int64_t count = 0;
  Seconds time, idle;  // of the window
};

Finding describe(const TraceSummary& trace, const Launches& launches) {
  const KernelUse& kernel = *launches.kernel;
  const auto& [x, y, z] = kernel.launch.block;
  const double threads = product(kernel.launch.block);
  Finding finding = about_trace(
      trace,
      fmt::format("{} runs blocks of {:.0f} {} ({}x{}x{}), which fill {} of {}, and takes {}",
                  short_kernel_name(kernel.name), threads, threads > 1 ? "threads" : "thread", x, y,
                  z, share_text(1 - without_work(kernel.launch)),
                  threads <= kWarp ? "a warp" : "their warps", cost_text(trace, launches.time)),
      {"Use blocks of a multiple of 32 threads, 128 or 256 as a start, with neighbouring elements "
       "along x (32x8)",
       Exactness::exact_arithmetic},
      gain_of_kernel_time(trace, {Seconds(0), 0.5 * launches.idle, launches.idle}));
  finding.location.node = kernel.name;
  finding.count = launches.count;
  finding.evidence = {
      Evidence::measured(fmt::format("{:.0f} blocks", product(kernel.launch.grid))),
      Evidence::published("threads per block should be a multiple of the warp size",
                          "NVIDIA CUDA C++ Best Practices Guide, Thread and Block Heuristics")};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (trace.is_foreign) return {};
  std::map<std::string, Launches> by_name;
  const auto add = [&](const KernelUse& kernel) {
    const double blocks = product(kernel.launch.grid);
    const double sms =
        trace.device && trace.device->sm_count > 0 ? trace.device->sm_count : kFewBlocks;
    const bool counts =
        is_own_kernel(kernel) && blocks >= sms && without_work(kernel.launch) >= kMostWithoutWork;
    if (!counts) return;
    Launches& all = by_name[kernel.name];
    const Seconds time = kernel.time * table_part(trace);
    if (all.kernel == nullptr || kernel.time > all.kernel->time) all.kernel = &kernel;
    all.count += table_count(trace, kernel.count);
    all.time += time;
    all.idle += without_work(kernel.launch) * time;
  };
  for (const OpUse& use : trace.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(trace.orphans, add);
  std::vector<TraceCase> cases;
  for (const auto& [name, launches] : by_name) {
    if (launches.time < kMinShare * trace.time.span) continue;
    add_if_visible(trace, name, describe(trace, launches), cases);
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace launch_partial_warps_rule

extern const Rule launch_partial_warps{.id = "launch/partial-warps",
                                       .level = Level::advice,
                                       .cause = Cause::none,
                                       .summary = "Blocks leave threads of their warps idle",
                                       .doc = launch_partial_warps_rule::kDoc,
                                       .in_any_trace = launch_partial_warps_rule::check};

}  // namespace rooftile
