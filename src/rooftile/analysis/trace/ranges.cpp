#include "rooftile/analysis/trace/ranges.h"

#include <map>
#include <string_view>

#include "rooftile/analysis/trace/kernel_context.h"
#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

constexpr std::string_view kAccumulates = "torch::autograd::AccumulateGrad";

bool is_training_range(std::string_view name) {
  return name == kCopiesOutOfBucket || name.starts_with("Optimizer.step") ||
         name.starts_with("Optimizer.zero_grad") || name.starts_with("zero_grad") ||
         name == kAccumulates;
}

// Which of the collected ranges each host op lies in, found once for each op on the way up.
class EnclosingRange {
 public:
  EnclosingRange(const Timeline& timeline, const Links& links)
      : timeline_(timeline), links_(links), known_(timeline.ops.time.size(), kUnasked) {}

  // The outermost training range around the op, or the op itself; kNone where there is none.
  std::uint32_t of(std::uint32_t op) {
    std::uint32_t range = kNone, at = op;
    std::vector<std::uint32_t> way;
    while (at != kNone && known_[at] == kUnasked) {
      way.push_back(at);
      at = links_.op_parent[at];
    }
    if (at != kNone) range = known_[at];
    for (auto step = way.rbegin(); step != way.rend(); ++step) {
      if (range == kNone && is_range(*step)) range = *step;
      known_[*step] = range;
    }
    return range;
  }

  bool is_range(std::uint32_t op) const {
    return is_training_range(timeline_.strings[timeline_.ops.name[op]]);
  }

 private:
  static constexpr std::uint32_t kUnasked = kNone - 1;

  const Timeline& timeline_;
  const Links& links_;
  std::vector<std::uint32_t> known_;
};

using RangesByName = std::map<std::string_view, RangeUse>;

// In part: the window of a recording without steps begins and ends with a launch in a range.
bool is_in(const Window& window, const Timeline& timeline, std::uint32_t op) {
  return timeline.ops.time.start(op) < window.end && timeline.ops.time.end(op) > window.start;
}

void add_host_side(const Timeline& timeline, EnclosingRange& enclosing,
                   const std::vector<IdlePiece>& pieces, const Window& window, PythonSites& sites,
                   RangesByName& ranges) {
  Cover idle;
  for (const IdlePiece& piece : pieces) {
    if (piece.cause == IdleCause::launch) idle.add(piece.start, piece.end);
  }
  std::vector<std::uint32_t> first;  // of each name
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (!enclosing.is_range(op) || enclosing.of(op) != op) continue;
    if (!is_in(window, timeline, op)) continue;
    const Nanoseconds start = timeline.ops.time.start(op), end = timeline.ops.time.end(op);
    const std::string& name = timeline.strings[timeline.ops.name[op]];
    RangeUse& range = ranges[name];
    range.name = name;
    if (++range.count == 1) first.push_back(op);
    range.host_time += to_seconds(end - start);
    range.idle += to_seconds(idle.within(start, end));
  }
  for (TraceSite& site : sites.sites_of(first)) {
    RangeUse& range = ranges[site.op];
    range.site = std::move(site);
  }
}

struct BackwardPass {
  Window computing{-1, -1};  // -1: not begun
  Window reducing{-1, -1};
  std::int64_t reductions = 0;

  static void extend(Window& window, Nanoseconds start, Nanoseconds end) {
    if (window.start < 0) window.start = start;
    window.end = std::max(window.end, end);
  }
  void add_to(GradientReductions& sum) const {
    if (reductions < 2) return;
    ++sum.passes;
    sum.reductions += reductions;
    sum.backward += to_seconds(computing.span());
    const Nanoseconds first = std::min(reducing.start, computing.end);
    sum.before_first += to_seconds(first - computing.start);
    sum.after += to_seconds(std::max<Nanoseconds>(0, reducing.end - computing.end));
  }
};

}  // namespace

std::vector<RangeUse> training_ranges(const Timeline& timeline, const Links& links,
                                      const GpuTrack& track, const std::vector<IdlePiece>& pieces,
                                      const Window& window, PythonSites& sites) {
  EnclosingRange enclosing(timeline, links);
  RangesByName ranges;
  add_host_side(timeline, enclosing, pieces, window, sites, ranges);
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t op = enclosing.of(links.gpu_op[row]);
    if (op == kNone || !is_in(window, timeline, op)) continue;
    const std::string& name = timeline.strings[timeline.ops.name[op]];
    if (timeline.gpu.kind[row] == GpuKind::copy && name != kCopiesOutOfBucket) continue;
    // A gradient of another layout is copied there, which is none of the additions.
    const std::string& inner = timeline.strings[timeline.ops.name[links.gpu_op[row]]];
    if (name == kAccumulates && inner != "aten::add_" && inner != "aten::add") continue;
    RangeUse& range = ranges[name];
    ++range.kernels;
    range.kernel_time += to_seconds(timeline.gpu.time.duration(row));
  }
  std::vector<RangeUse> result;
  for (auto& [name, range] : ranges) result.push_back(std::move(range));
  return result;
}

// PyTorch's own kernels, those that cuDNN runs for it, and a compiler's. Kernels that other
// libraries and extensions bring are closed to torch.compile, and often fused already.
bool is_open_to_compilers(const KernelFacts& facts) {
  return facts.library == "pytorch" || facts.library == "cudnn" || facts.library == "triton";
}

PointwiseUse pointwise_runs(const Timeline& timeline, const Links& links, const KernelNames& names,
                            const GpuTrack& track, const Window& window,
                            const std::vector<bool>& others) {
  EnclosingRange enclosing(timeline, links);
  PointwiseUse use;
  std::map<std::uint16_t, bool> in_run;  // by stream
  for (const std::uint32_t row : track.rows) {
    if (timeline.gpu.kind[row] != GpuKind::kernel) continue;
    if (!window.contains(timeline.gpu.time.start(row))) continue;
    const KernelFacts& facts = names.facts(row);
    bool& running = in_run[timeline.gpu.stream[row]];
    const bool is_other = (!others.empty() && others[row]) || works_on_list(timeline, row) ||
                          !is_open_to_compilers(facts);
    if (!is_pointwise(facts.kernel_class) || is_other || enclosing.of(links.gpu_op[row]) != kNone) {
      running = false;
      continue;
    }
    if (!running) ++use.runs;
    running = true;
    ++use.kernels;
    const Seconds time = to_seconds(timeline.gpu.time.duration(row));
    use.time += time;
    if (facts.library == "triton") use.compiled_time += time;
  }
  return use;
}

// A loop over the parameters reduces one after another, each with a copy or two of its result.
Seconds idle_between_collectives(const Timeline& timeline, const GpuTrack& track,
                                 const std::vector<IdlePiece>& pieces, const Window& window) {
  constexpr std::size_t kFewBetween = 3;    // activities
  constexpr Nanoseconds kNoLayer = 50'000;  // of one of those: no computation of a model
  Cover idle;
  for (const IdlePiece& piece : pieces) {
    const bool is_between_calls = piece.wait == kNone && (piece.cause == IdleCause::host_work ||
                                                          piece.cause == IdleCause::copy);
    const bool is_hosts = piece.cause == IdleCause::launch || is_between_calls ||
                          piece.cause == IdleCause::synchronization ||
                          piece.cause == IdleCause::restart ||
                          piece.cause == IdleCause::between_kernels;
    if (is_hosts) idle.add(piece.start, piece.end);
  }
  Nanoseconds sum = 0,
              since = -1;  // the end of the last collective; -1 = computation came after it
  std::size_t between = 0;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const Nanoseconds start = timeline.gpu.time.start(track.rows[i]);
    const Nanoseconds end = timeline.gpu.time.end(track.rows[i]);
    if (track.classes[i] == GpuClass::communication) {
      if (since >= 0 && window.contains(since))
        sum += idle.within(since, std::min(start, window.end));
      since = end;
      between = 0;
    } else if (++between > kFewBetween || end - start > kNoLayer) {
      since = -1;
    }
  }
  return to_seconds(sum);
}

GradientReductions gradient_reductions(const Timeline& timeline, const Links& links,
                                       const GpuTrack& track, const Window& window) {
  GradientReductions sum;
  BackwardPass pass;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i];
    if (track.classes[i] == GpuClass::copy) continue;
    const Nanoseconds start = timeline.gpu.time.start(row), end = timeline.gpu.time.end(row);
    const bool computes = track.classes[i] == GpuClass::compute;
    const bool backward = is_backward(timeline, links, links.gpu_op[row]);
    if (backward && computes && window.contains(start)) {
      BackwardPass::extend(pass.computing, start, end);
    } else if (backward && !computes && pass.computing.start >= 0) {
      BackwardPass::extend(pass.reducing, start, end);
      ++pass.reductions;
    } else if (computes) {
      pass.add_to(sum);
      pass = {};
    }
  }
  pass.add_to(sum);
  return sum;
}

}  // namespace rooftile::trace
