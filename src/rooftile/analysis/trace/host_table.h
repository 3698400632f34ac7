// What the host waited for and what was copied, added up by place.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// Rows of the summary beyond these many become one named "other".
inline constexpr std::size_t kMostSites = 512;

// Everything that these tables read.
struct HostView {
  const Timeline& timeline;
  const Links& links;
  const std::vector<HostWait>& waits;
  PythonSites& sites;
  Window steps;                // of the host: what begins in it counts
  Window window;               // of the GPU: what is judged
  Nanoseconds first_end = 0;   // of the first step
  std::size_t step_count = 1;  // 1 where there are none
  bool has_steps = false;

  bool is_in_first(Nanoseconds at) const { return step_count > 1 && at < first_end; }
};

// A sum over the steps. What the first of three or more steps has more than three times as much of
// as the others have on average is a warm-up (a first copy pins its buffers, a first wait loads
// modules) and counts as in the others.
class SteadySum {
 public:
  void add(bool is_in_first, Nanoseconds time) { (is_in_first ? first_ : rest_) += time; }
  Seconds over(std::size_t steps) const;

 private:
  Nanoseconds first_ = 0, rest_ = 0;
};

std::vector<SyncUse> tabulate_syncs(const HostView& view);
std::vector<LoaderUse> tabulate_loaders(const HostView& view);
AllocatorUse tabulate_allocator(const HostView& view, std::int32_t device);

// `compute` covers the kernels of the GPU that `track` shows.
std::vector<CopyUse> tabulate_copies(const HostView& view, const GpuTrack& track,
                                     const Cover& compute);
// Copies of the GPU that `track` shows, by direction, pinned or not, and size: by kind, then size.
std::vector<TransferUse> tabulate_transfers(const Timeline& timeline, const GpuTrack& track);
// `held_up` covers the times in which computation waits for other work on the GPU, `beyond` is what
// activities take beyond the usual time.
std::vector<CollectiveUse> tabulate_collectives(const Timeline& timeline, const Links& links,
                                                const KernelNames& names, const GpuTrack& track,
                                                const Cover& compute, const Cover& held_up,
                                                const std::vector<Nanoseconds>& beyond);
// Whether kernels that send experts' tokens out and back come in halves, or for two batches by
// turns, with computation between.
bool overlaps_exchanges(const Timeline& timeline, const GpuTrack& track);

// The frames around each of these runtime calls.
std::vector<SiteRef> frames_of_calls(const HostView& view, const std::vector<std::uint32_t>& calls);
// Module, line and innermost operator as a key of few words; `op` is what a call lies in.
using SiteKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
SiteKey key_of(const HostView& view, SiteRef site, std::uint32_t op);
TraceSite site_of(const HostView& view, SiteRef site, std::uint32_t op);

struct LaunchCounts {
  std::int64_t launches = 0, graphs = 0;
  Nanoseconds launch_time = 0;
  Nanoseconds busy = 0;  // of the busiest thread
};
LaunchCounts count_launches(const HostView& view);

}  // namespace rooftile::trace
