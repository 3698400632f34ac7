// Copies and collectives, added up by what they move and where they were asked for.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/collective_shape.h"
#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/analysis/trace/host_table.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// Smallest sizes of the classes of copies, in bytes. Below 64 KiB the start of a copy takes as long
// as its transfer at 10 to 25 GB/s.
constexpr std::array<std::uint64_t, 5> kCopySizes{0, 1U << 16U, 1U << 20U, 1U << 24U, 1U << 28U};
constexpr std::int64_t kAlignment = 16;  // bytes; NCCL moves 16 bytes a thread

bool is_misaligned(const CollectiveShape& shape) {
  const std::int64_t bytes = element_bytes(shape.dtype);
  if (bytes == 0 || shape.in_elements <= 0) return false;
  return shape.in_elements % (kAlignment / bytes) != 0;
}

// In which part of a step the host launched something, for launches in their order.
class PassMarks {
 public:
  PassMarks(const Timeline& timeline, const Links& links, const KernelNames& names);

  bool is_after_backward(Nanoseconds launch) const {
    const auto next = std::upper_bound(
        marks_.begin(), marks_.end(), launch,
        [](Nanoseconds at, const std::pair<Nanoseconds, bool>& mark) { return at < mark.first; });
    return next != marks_.begin() && std::prev(next)->second;
  }

 private:
  std::vector<std::pair<Nanoseconds, bool>> marks_;  // a launch; of the backward pass
};

// Layers of a forward pass; what updates or averages gradients is none.
bool is_layer(KernelClass kernel_class) {
  return kernel_class == KernelClass::gemm || kernel_class == KernelClass::convolution ||
         kernel_class == KernelClass::attention || kernel_class == KernelClass::recurrent ||
         kernel_class == KernelClass::normalization || kernel_class == KernelClass::embedding ||
         kernel_class == KernelClass::indexing;
}

PassMarks::PassMarks(const Timeline& timeline, const Links& links, const KernelNames& names) {
  for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const std::uint32_t call = links.gpu_call[row];
    if (timeline.gpu.kind[row] != GpuKind::kernel || call == kNone) continue;
    const KernelClass kernel_class = names.facts(row).kernel_class;
    if (kernel_class == KernelClass::communication) continue;
    const bool backward = is_backward(timeline, links, links.gpu_op[row]);
    if (!backward && !is_layer(kernel_class)) continue;
    marks_.emplace_back(timeline.calls.time.start(call), backward);
  }
  std::sort(marks_.begin(), marks_.end());
}

// Operators that make a tensor from nothing, and what torch.tensor(list) ends with.
constexpr std::array<std::string_view, 13> kMakers{
    "aten::ones",    "aten::zeros",    "aten::full",      "aten::rand", "aten::randn",
    "aten::randint", "aten::arange",   "aten::eye",       "aten::tril", "aten::linspace",
    "aten::normal_", "aten::randperm", "aten::lift_fresh"};

// Outermost operators of each thread in order, to find what ran just before one.
class BeforeOps {
 public:
  BeforeOps(const Timeline& timeline, const Links& links) : timeline_(timeline), links_(links) {}

  // The name of the operator that made, in this size, what `op` copies to the device; 0 where none
  // did or sizes are not recorded.
  std::uint32_t maker_of(std::uint32_t op) {
    const std::int64_t elements = elements_of(op);
    if (elements == 0) return 0;
    if (before_.empty()) collect();
    std::uint32_t outer = kNone;
    for (; op != kNone; op = links_.op_parent[op]) {
      if (links_.kind_of_op(timeline_, op) == RangeKind::operation) outer = op;
    }
    constexpr int kMostViews = 3;  // and casts of the new tensor
    for (int tried = 0; outer != kNone && tried < kMostViews; ++tried) {
      outer = before_[outer];
      if (outer == kNone) return 0;
      const std::uint32_t name = timeline_.ops.name[outer];
      const bool makes =
          std::find(kMakers.begin(), kMakers.end(), timeline_.strings[name]) != kMakers.end();
      if (makes && fills(outer, elements)) return name;
    }
    return 0;
  }

 private:
  // Of the operator's first tensor; 0 where not recorded.
  std::int64_t elements_of(std::uint32_t op) const {
    const OpArguments& arguments = timeline_.arguments[timeline_.ops.arguments[op]];
    if (arguments.dims.empty() || arguments.dims.front().empty()) return 0;
    double elements = 1;  // of untrusted sizes, which may overflow
    for (const std::int64_t size : arguments.dims.front()) elements *= static_cast<double>(size);
    constexpr double kMost = 1e15;
    return elements > 0 && elements < kMost ? static_cast<std::int64_t>(elements) : 0;
  }
  // Whether the operator, or one within it, works on a tensor of as many elements.
  bool fills(std::uint32_t op, std::int64_t elements) const {
    constexpr std::size_t kMostWithin = 16;
    const auto rows = links_.op_order.of(timeline_.ops.thread[op]);
    for (std::size_t at = position_[op], tried = 0; at < rows.size() && tried < kMostWithin;
         ++at, ++tried) {
      if (timeline_.ops.time.start(rows[at]) >= timeline_.ops.time.end(op)) return false;
      if (elements_of(rows[at]) == elements) return true;
    }
    return false;
  }
  bool is_outermost(std::uint32_t op) const {
    if (links_.kind_of_op(timeline_, op) != RangeKind::operation) return false;
    for (op = links_.op_parent[op]; op != kNone; op = links_.op_parent[op]) {
      if (links_.kind_of_op(timeline_, op) == RangeKind::operation) return false;
    }
    return true;
  }
  void collect() {
    before_.assign(timeline_.ops.time.size(), kNone);
    position_.assign(timeline_.ops.time.size(), 0);
    for (std::size_t thread = 0; thread < links_.op_order.threads(); ++thread) {
      std::uint32_t last = kNone;
      const auto rows = links_.op_order.of(thread);
      for (std::size_t at = 0; at < rows.size(); ++at) {
        if (!is_outermost(rows[at])) continue;
        before_[rows[at]] = last;
        position_[rows[at]] = at;
        last = rows[at];
      }
    }
  }

  const Timeline& timeline_;
  const Links& links_;
  std::vector<std::uint32_t> before_;  // by operator
  std::vector<std::size_t> position_;  // by operator: in the order of its thread
};

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

bool is_copy_of_steps(const HostView& view, std::uint32_t row) {
  return view.timeline.gpu.kind[row] == GpuKind::copy && !view.links.leftover[row] &&
         view.steps.contains(launched_at(view, row));
}

struct CopySums {
  CopyUse use;
  SteadySum time, exposed, blocked, in_line;
};

// By stream.
std::vector<bool> computing_streams(const Timeline& timeline, const GpuTrack& track) {
  std::vector<bool> computing(timeline.streams.size());
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] == GpuClass::compute) computing[timeline.gpu.stream[track.rows[i]]] = true;
  }
  return computing;
}

}  // namespace

std::vector<CopyUse> tabulate_copies(const HostView& view, const GpuTrack& track,
                                     const Cover& compute) {
  const GpuActivities& gpu = view.timeline.gpu;
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> calls;
  for (std::uint32_t row = 0; row < gpu.time.size(); ++row) {
    if (!is_copy_of_steps(view, row)) continue;
    rows.push_back(row);
    if (view.links.gpu_call[row] != kNone) calls.push_back(view.links.gpu_call[row]);
  }
  const std::vector<SiteRef> frames = frames_of_calls(view, calls);
  BeforeOps before(view.timeline, view.links);
  using Key = std::tuple<CopyKind, bool, std::uint32_t, SiteKey>;
  constexpr SiteKey kOtherPlaces{kNone, kNone, kNone};
  std::map<Key, CopySums> uses;
  const std::vector<bool> computing = computing_streams(view.timeline, track);
  std::size_t next_frame = 0;
  for (const std::uint32_t row : rows) {
    const CopyShape& shape = view.timeline.copies[gpu.details[row]];
    const std::uint32_t call = view.links.gpu_call[row];
    const SiteRef frame = call == kNone ? SiteRef{} : frames[next_frame++];
    const std::uint32_t op = view.links.gpu_op[row];
    const bool is_upload = shape.kind == CopyKind::host_to_device && op != kNone;
    const std::uint32_t maker = is_upload ? before.maker_of(op) : 0;
    Key key{shape.kind, shape.pageable, maker, key_of(view, frame, op)};
    const bool is_full = uses.size() >= kMostSites && !uses.contains(key);
    if (is_full) std::get<SiteKey>(key) = kOtherPlaces;
    CopySums& sums = uses[key];
    CopyUse& use = sums.use;
    if (use.count == 0) use.site = is_full ? TraceSite{"other", {}, {}} : site_of(view, frame, op);
    use.maker = view.timeline.strings[maker];
    use.shape.kind = shape.kind;
    use.shape.pageable = shape.pageable;
    use.shape.bytes += shape.bytes;
    ++use.count;
    const bool is_first = view.is_in_first(launched_at(view, row));
    sums.time.add(is_first, gpu.time.duration(row));
    const Nanoseconds exposed = exposed_time(view.timeline, track, compute, row);
    sums.exposed.add(is_first, exposed);
    if (computing[gpu.stream[row]]) sums.in_line.add(is_first, exposed);
    if (call != kNone && wait_cause(view.timeline, view.links, call, row) != IdleCause::launch) {
      sums.blocked.add(is_first, view.timeline.calls.time.duration(call));
    }
  }
  std::vector<CopyUse> copies;
  for (auto& [key, sums] : uses) {
    sums.use.time = sums.time.over(view.step_count);
    sums.use.exposed = sums.exposed.over(view.step_count);
    sums.use.blocked = sums.blocked.over(view.step_count);
    sums.use.in_line = sums.in_line.over(view.step_count);
    copies.push_back(std::move(sums.use));
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const CopyUse& a, const CopyUse& b) { return a.time > b.time; });
  return copies;
}

std::vector<TransferUse> tabulate_transfers(const Timeline& timeline, const GpuTrack& track) {
  const GpuActivities& gpu = timeline.gpu;
  using Key = std::tuple<CopyKind, bool, std::uint64_t>;
  std::map<Key, std::pair<TransferUse, std::vector<double>>> classes;
  for (const std::uint32_t row : track.rows) {
    if (gpu.kind[row] != GpuKind::copy) continue;
    const CopyShape& shape = timeline.copies[gpu.details[row]];
    const Seconds time = to_seconds(gpu.time.duration(row));
    if (shape.bytes == 0 || time <= Seconds()) continue;
    const std::uint64_t size = *std::prev(std::ranges::upper_bound(kCopySizes, shape.bytes));
    auto& [use, rates] = classes[{shape.kind, shape.pageable, size}];
    const auto bytes = Bytes(static_cast<double>(shape.bytes));
    ++use.count;
    use.bytes += bytes;
    use.time += time;
    rates.push_back((bytes / time).value());
  }
  std::vector<TransferUse> uses;
  for (auto& [key, entry] : classes) {
    auto& [use, rates] = entry;
    std::ranges::sort(rates);
    use.kind = std::get<CopyKind>(key);
    use.pageable = std::get<bool>(key);
    use.at_least = Bytes(static_cast<double>(std::get<std::uint64_t>(key)));
    use.p10 = BytesPerSecond(quantile(rates, 0.1));
    use.median = BytesPerSecond(quantile(rates, 0.5));
    use.p90 = BytesPerSecond(quantile(rates, 0.9));
    uses.push_back(use);
  }
  return uses;
}

namespace {

// What a run of a collective adds to those of its kind.
struct CollectiveAdder {
  const Timeline& timeline;
  const Links& links;
  const GpuTrack& track;
  const Cover& compute;
  const Cover& held_up;
  const std::vector<Nanoseconds>& beyond;
  PassMarks marks;

  // Between `last`, the collective before it, and its start.
  bool computes_between(std::uint32_t last, std::uint32_t row) const {
    const EventTimes& time = timeline.gpu.time;
    return compute.within(time.start(last), time.start(row)) > 0;
  }
  // `last` is the collective before it; kNone for the first.
  void add(std::uint32_t row, std::uint32_t last, const CollectiveShape& shape,
           CollectiveUse& use) const {
    const Seconds time = to_seconds(timeline.gpu.time.duration(row));
    ++use.count;
    if (last != kNone && !computes_between(last, row)) ++use.back_to_back;
    use.time += time;
    use.exposed += to_seconds(exposed_time(timeline, track, compute, row));
    use.awaited +=
        to_seconds(held_up.within(timeline.gpu.time.start(row), timeline.gpu.time.end(row)));
    if (!beyond.empty()) use.waiting += to_seconds(beyond[row]);
    if (is_misaligned(shape)) ++use.misaligned;
    if (use.runs.size() < CollectiveUse::kMostRuns) use.runs.push_back(time);
    const std::uint32_t call = links.gpu_call[row];
    if (is_backward(timeline, links, links.gpu_op[row])) {
      ++use.in_backward;
    } else if (call != kNone && marks.is_after_backward(timeline.calls.time.start(call))) {
      ++use.after_backward;
    }
  }
};

}  // namespace

std::vector<CollectiveUse> tabulate_collectives(const Timeline& timeline, const Links& links,
                                                const KernelNames& names, const GpuTrack& track,
                                                const Cover& compute, const Cover& held_up,
                                                const std::vector<Nanoseconds>& beyond) {
  const GpuActivities& gpu = timeline.gpu;
  const CollectiveAdder adder{
      timeline, links, track, compute, held_up, beyond, PassMarks(timeline, links, names)};
  std::map<std::pair<std::uint32_t, CollectiveShape>, std::size_t> index;  // by kernel
  std::vector<CollectiveUse> uses;
  std::uint32_t last = kNone;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] != GpuClass::communication) continue;
    const std::uint32_t row = track.rows[i];
    if (links.leftover[row]) continue;
    const CollectiveShape shape = collective_shape(timeline, links, row);
    const auto [at, is_new] = index.try_emplace({gpu.name[row], shape}, uses.size());
    if (is_new && uses.size() > kMostSites) at->second = kMostSites;
    if (at->second == uses.size()) {
      CollectiveUse& use = uses.emplace_back();
      const bool is_other = uses.size() > kMostSites;
      use.kernel = is_other ? "other" : timeline.strings[gpu.name[row]];
      if (!is_other) use.shape = shape;
    }
    adder.add(row, std::exchange(last, row), shape, uses[at->second]);
  }
  return uses;
}

bool overlaps_exchanges(const Timeline& timeline, const GpuTrack& track) {
  // Without it an exchange out follows one back.
  constexpr int kFewest = 4, kSome = 4;  // a quarter of them
  enum class Way : std::uint8_t { none, out, back };
  Way last = Way::none;
  bool computes = false;
  int all = 0, split = 0;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] == GpuClass::compute) computes = true;
    if (track.classes[i] != GpuClass::communication) continue;
    const std::string_view name = timeline.strings[timeline.gpu.name[track.rows[i]]];
    if (contains_any(name, {"notify", "layout"})) continue;
    const Way way = contains(name, "dispatch")  ? Way::out
                    : contains(name, "combine") ? Way::back
                                                : Way::none;
    if (way == Way::none) continue;
    ++all;
    if (way == last && computes) ++split;
    last = way;
    computes = false;
  }
  return all >= kFewest && kSome * split >= all;
}

}  // namespace rooftile::trace
