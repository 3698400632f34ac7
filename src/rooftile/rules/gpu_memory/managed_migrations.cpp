#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gpu_memory_managed_migrations_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Managed memory (`cudaMallocManaged`) whose pages move between the host and the GPU for a twentieth of the
time or more, while the GPU computes nothing.

## Why it costs time
A page that the other side touches is a fault: the driver stops the thread, moves a few pages and goes on to
the next fault. That is many times slower than one large copy, and every kernel or loop that touches the
memory again on the other side starts anew.

## How to fix
`cudaMemPrefetchAsync` before the memory is used, to the GPU and, for results, back to the host
(`cudaCpuDeviceId`); `cudaMemAdvise` for what both only read. Or `cudaMalloc` and one `cudaMemcpyAsync` each way.

## How the saving is estimated
The time in which the GPU only migrates pages or waits for faults, less the same bytes at 10 GB/s, as PCIe 3.0
carries them: high. Low is half of that.

## When not to
- Where the program touches little of a large allocation, a prefetch of all of it moves more.
- On systems where CPU and GPU share memory or a coherent link (Grace Hopper, Jetson) faults cost less.

## Evidence
- NVIDIA blog, "Maximizing Unified Memory Performance in CUDA": faults are handled in small groups, a prefetch
  moves the range in bulk.
)md";

constexpr double kLeast = 0.05;  // of the window
constexpr BytesPerSecond kBulk(10e9);

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const Seconds cost = trace.time.exposed_migration + idle_of(trace, {IdleCause::migration});
  if (cost < kLeast * trace.time.span) return {};
  std::int64_t count = 0;
  Bytes to_gpu, to_host;
  for (const TransferUse& use : trace.transfers) {
    if (!is_migration(use.kind)) continue;
    count += use.count;
    (use.kind == CopyKind::migration_to_device ? to_gpu : to_host) += use.bytes;
  }
  if (count == 0) return {};
  const Seconds saved = std::max(Seconds(), cost - (to_gpu + to_host) / kBulk);
  Finding finding = about_trace(
      trace,
      fmt::format("managed memory moves page by page, {} to the GPU and {} to the host in {} "
                  "migrations: meanwhile the GPU does not compute, for {}",
                  bytes_text(to_gpu), bytes_text(to_host), count, cost_text(trace, cost)),
      {"Prefetch it before it is used (cudaMemPrefetchAsync, to the host with cudaCpuDeviceId), or "
       "use cudaMalloc and one copy each way",
       Exactness::bit_exact},
      gain_of_idle_time(saved));
  finding.count = count;
  finding.evidence = {
      Evidence::measured(fmt::format(
          "the GPU only migrates for {}, and idles for {} before migrations",
          time_text(trace.time.exposed_migration), time_text(cost - trace.time.exposed_migration))),
      Evidence::published("faults are handled in small groups, a prefetch moves the range in bulk",
                          "NVIDIA blog, Maximizing Unified Memory Performance in CUDA")};
  std::vector<TraceCase> cases;
  add_if_visible(trace, "", std::move(finding), cases);
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace gpu_memory_managed_migrations_rule

extern const Rule gpu_memory_managed_migrations{
    .id = "gpu_memory/managed-migrations",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Managed memory moves page by page",
    .doc = gpu_memory_managed_migrations_rule::kDoc,
    .in_any_trace = gpu_memory_managed_migrations_rule::check};

}  // namespace rooftile
