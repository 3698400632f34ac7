#include "rooftile/analysis/trace/lateness.h"

#include <algorithm>

#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

struct LaggingRun {
  Nanoseconds launched = 0, ended = 0;
  Nanoseconds lag() const { return ended - launched; }
};

std::vector<LaggingRun> lagging_runs(const Timeline& timeline, const Links& links,
                                     const GpuTrack& track,
                                     const std::vector<Nanoseconds>& beyond) {
  constexpr Nanoseconds kVisible = 100'000;
  std::vector<LaggingRun> runs;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i], call = links.gpu_call[row];
    if (track.classes[i] != GpuClass::communication || call == kNone) continue;
    const Nanoseconds excess = beyond[row];
    if (excess < kVisible || 2 * excess < timeline.gpu.time.duration(row)) continue;
    runs.push_back({timeline.calls.time.start(call), timeline.gpu.time.end(row)});
  }
  std::ranges::stable_sort(runs, {}, &LaggingRun::launched);
  return runs;
}

}  // namespace

std::optional<Seconds> steady_lateness(const Timeline& timeline, const Links& links,
                                       const GpuTrack& track,
                                       const std::vector<Nanoseconds>& beyond) {
  constexpr std::size_t kFewest = 8;
  constexpr double kSteady = 0.2;  // between the quarters, of the median
  constexpr double kMost = 0.8;
  if (beyond.empty()) return std::nullopt;
  const std::vector<LaggingRun> runs = lagging_runs(timeline, links, track, beyond);
  if (runs.size() < kFewest) return std::nullopt;
  // A host that waits for each collective launches at the pace of the others, not at its own.
  std::size_t ahead = 0;
  std::vector<Nanoseconds> lags;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    lags.push_back(runs[i].lag());
    if (i + 1 < runs.size() && runs[i + 1].launched < runs[i].ended) ++ahead;
  }
  if (static_cast<double>(ahead) < kMost * static_cast<double>(runs.size() - 1)) {
    return std::nullopt;
  }
  std::ranges::sort(lags);
  const Nanoseconds middle = lags[lags.size() / 2];
  const Nanoseconds spread = lags[3 * lags.size() / 4] - lags[lags.size() / 4];
  if (static_cast<double>(spread) > kSteady * static_cast<double>(middle)) return std::nullopt;
  return to_seconds(middle);
}

}  // namespace rooftile::trace
