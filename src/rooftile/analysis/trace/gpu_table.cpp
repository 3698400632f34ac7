// Copies and collectives, added up by what they move and where they were asked for.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/host_table.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes; NCCL moves 16 bytes a thread

// Bytes of one element; 0 = unknown name.
std::int64_t element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 20> kSizes{
      {{"float", 4},  {"float32", 4}, {"half", 2},     {"float16", 2},       {"bfloat16", 2},
       {"double", 8}, {"float64", 8}, {"byte", 1},     {"char", 1},          {"int8", 1},
       {"uint8", 1},  {"bool", 1},    {"short", 2},    {"int", 4},           {"int32", 4},
       {"long", 8},   {"int64", 8},   {"longlong", 8}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}}};
  const std::string name = lower(dtype);
  for (const auto& [known, bytes] : kSizes) {
    if (name == known) return bytes;
  }
  return 0;
}

bool is_misaligned(const CollectiveShape& shape) {
  const std::int64_t bytes = element_bytes(shape.dtype);
  if (bytes == 0 || shape.in_elements <= 0) return false;
  return shape.in_elements % (kAlignment / std::min(bytes, kAlignment)) != 0;
}

// What a collective moved: as its kernel says, else as the operator that launched it.
std::uint32_t collective_of(const Timeline& timeline, const Links& links, std::uint32_t row) {
  const std::uint32_t shape = timeline.launches[timeline.gpu.details[row]].collective;
  if (shape != 0) return shape;
  const HostOps& ops = timeline.ops;
  for (std::uint32_t op = links.gpu_op[row]; op != kNone; op = links.op_parent[op]) {
    if (op < ops.collective.size() && ops.collective[op] != 0) return ops.collective[op];
  }
  return 0;
}

// Time of an activity during which nothing computes, on the GPU that `compute` covers.
Nanoseconds exposed_time(const Timeline& timeline, const GpuTrack& track, const Cover& compute,
                         std::uint32_t row) {
  const GpuActivities& gpu = timeline.gpu;
  if (timeline.streams[gpu.stream[row]].device != track.device) return 0;
  const Nanoseconds start = gpu.time.start(row);
  const Nanoseconds end = gpu.time.end(row);
  return end - start - compute.within(start, end);
}

Nanoseconds launched_at(const HostView& view, std::uint32_t row) {
  const std::uint32_t call = view.links.gpu_call[row];
  return call == kNone ? view.timeline.gpu.time.start(row) : view.timeline.calls.time.start(call);
}

struct CopySums {
  CopyUse use;
  SteadySum time, exposed, blocked;
};

}  // namespace

std::vector<CopyUse> tabulate_copies(const HostView& view, const GpuTrack& track,
                                     const Cover& compute) {
  const GpuActivities& gpu = view.timeline.gpu;
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> calls;
  for (std::uint32_t row = 0; row < gpu.time.size(); ++row) {
    if (gpu.kind[row] != GpuKind::copy || view.links.leftover[row]) continue;
    if (!view.steps.contains(launched_at(view, row))) continue;
    rows.push_back(row);
    if (view.links.gpu_call[row] != kNone) calls.push_back(view.links.gpu_call[row]);
  }
  const std::vector<SiteRef> frames = frames_of_calls(view, calls);
  using Key = std::tuple<CopyKind, bool, SiteKey>;
  constexpr SiteKey kOtherPlaces{kNone, kNone, kNone};
  std::map<Key, CopySums> uses;
  std::size_t next_frame = 0;
  for (const std::uint32_t row : rows) {
    const CopyShape& shape = view.timeline.copies[gpu.details[row]];
    const std::uint32_t call = view.links.gpu_call[row];
    const SiteRef frame = call == kNone ? SiteRef{} : frames[next_frame++];
    const std::uint32_t op = view.links.gpu_op[row];
    Key key{shape.kind, shape.pageable, key_of(view, frame, op)};
    const bool is_full = uses.size() >= kMostSites && !uses.contains(key);
    if (is_full) std::get<SiteKey>(key) = kOtherPlaces;
    CopySums& sums = uses[key];
    CopyUse& use = sums.use;
    if (use.count == 0) use.site = is_full ? TraceSite{"other", {}, {}} : site_of(view, frame, op);
    use.shape.kind = shape.kind;
    use.shape.pageable = shape.pageable;
    use.shape.bytes += shape.bytes;
    ++use.count;
    const bool is_first = view.is_in_first(launched_at(view, row));
    sums.time.add(is_first, gpu.time.duration(row));
    sums.exposed.add(is_first, exposed_time(view.timeline, track, compute, row));
    if (call != kNone && wait_cause(view.timeline, view.links, call, row) != IdleCause::launch) {
      sums.blocked.add(is_first, view.timeline.calls.time.duration(call));
    }
  }
  std::vector<CopyUse> copies;
  for (auto& [key, sums] : uses) {
    sums.use.time = sums.time.over(view.step_count);
    sums.use.exposed = sums.exposed.over(view.step_count);
    sums.use.blocked = sums.blocked.over(view.step_count);
    copies.push_back(std::move(sums.use));
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const CopyUse& a, const CopyUse& b) { return a.time > b.time; });
  return copies;
}

std::vector<CollectiveUse> tabulate_collectives(const Timeline& timeline, const Links& links,
                                                const GpuTrack& track, const Cover& compute) {
  const GpuActivities& gpu = timeline.gpu;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> index;  // shape, name
  std::vector<CollectiveUse> uses;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] != GpuClass::communication) continue;
    const std::uint32_t row = track.rows[i];
    const std::uint32_t shape = collective_of(timeline, links, row);
    const auto [at, is_new] = index.try_emplace({shape, gpu.name[row]}, uses.size());
    if (is_new && uses.size() > kMostSites) at->second = kMostSites;
    if (at->second == uses.size()) {
      CollectiveUse& use = uses.emplace_back();
      const bool is_other = uses.size() > kMostSites;
      use.kernel = is_other ? "other" : timeline.strings[gpu.name[row]];
      if (!is_other) use.shape = timeline.collectives[shape];
    }
    CollectiveUse& use = uses[at->second];
    ++use.count;
    use.time += to_seconds(gpu.time.duration(row));
    use.exposed += to_seconds(exposed_time(timeline, track, compute, row));
    if (is_misaligned(timeline.collectives[shape])) ++use.misaligned;
    if (use.runs.size() < CollectiveUse::kMostRuns) {
      use.runs.push_back(to_seconds(gpu.time.duration(row)));
    }
  }
  return uses;
}

}  // namespace rooftile::trace
