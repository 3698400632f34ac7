#include "rooftile/analysis/trace/place_table.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rooftile/analysis/trace/grouped_times.h"
#include "rooftile/analysis/trace/nesting.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/stages.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr std::string_view kModuleFrame = "nn.Module: ";
// Modules that an activity lies in; deeper ones count for the outer ones alone.
constexpr std::size_t kDeepestPlaces = 64;
constexpr std::size_t kMostPlaceNames = std::size_t{1} << 18U;

// Calls of modules, or of ranges, as they nest on their threads.
struct PlaceCalls {
  EventTimes time;
  Column<std::uint16_t> thread;
  std::vector<std::uint32_t> parent;  // by call
  std::vector<std::uint32_t> place;   // by call: index into names
  std::vector<std::string> names;     // by place
  ThreadRows order;
  bool has_calls = true;  // else a row of `time` is no call
};

// Gives each call the place that `name_of(call, place of the call around it)` names.
template <class NameOf>
void name_places(PlaceCalls& calls, NameOf name_of) {
  calls.order = rows_by_thread(calls.time, calls.thread);
  calls.parent = parents_of(calls.time, calls.order);
  calls.place.resize(calls.time.size(), kNone);
  for (const std::uint32_t call : calls.order.rows) {
    const std::uint32_t parent = calls.parent[call];
    calls.place[call] = name_of(call, parent == kNone ? kNone : calls.place[parent]);
  }
}

// Frames of modules: a place is the path of their names. The outermost is left out of the paths
// below it, as elsewhere.
PlaceCalls calls_of_frames(const Timeline& timeline) {
  const PythonCalls& python = timeline.python;
  const std::vector<bool> is_module =
      kinds_of<bool>(timeline.strings, python.name,
                     [](std::string_view name) { return name.starts_with(kModuleFrame); });
  PlaceCalls calls;
  std::vector<std::uint32_t> names;
  for (std::size_t row = 0; row < python.time.size(); ++row) {
    if (!is_module[python.name[row]]) continue;
    calls.time.push_back(python.time.start(row), python.time.duration(row));
    calls.thread.push_back(python.thread[row]);
    names.push_back(python.name[row]);
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> paths;  // (outer, name)
  std::vector<std::uint32_t> outer_of;                                     // by path
  name_places(calls, [&](std::uint32_t call, std::uint32_t outer) {
    if (calls.names.size() == kMostPlaceNames) return outer;
    const auto [at, is_new] =
        paths.try_emplace({outer, names[call]}, static_cast<std::uint32_t>(calls.names.size()));
    if (is_new) {
      const std::string own = timeline.strings[names[call]].substr(kModuleFrame.size());
      const bool is_below_path = outer != kNone && outer_of[outer] != kNone;
      calls.names.push_back(is_below_path ? calls.names[outer] + '.' + own : own);
      outer_of.push_back(outer);
    }
    return at->second;
  });
  return calls;
}

// The module that a range names: "[pl][module]torch.nn.modules.linear.Linear: net.fc" of PyTorch
// Lightning, "{'Module': 'model.layers.0', …}" of vLLM.
std::optional<std::string_view> module_of_range(std::string_view name) {
  constexpr std::string_view kLightning = "[pl][module]", kLayerwise = "{'Module': '";
  if (name.starts_with(kLightning)) {
    const std::size_t colon = name.find(": ");
    if (colon == std::string_view::npos) return std::nullopt;
    return name.substr(colon + 2);
  }
  if (!name.starts_with(kLayerwise)) return std::nullopt;
  name.remove_prefix(kLayerwise.size());
  return name.substr(0, name.find('\''));
}

// What a range is listed as. The numbers in labels of serving steps differ from step to step.
std::string listed_name(const std::string& name) {
  if (stage_of_label(name) == ServingStage::none) return name;
  std::string listed;
  for (const char c : name) {
    const bool is_digit = '0' <= c && c <= '9';
    if (!is_digit) listed += c;
    if (is_digit && (listed.empty() || listed.back() != '#')) listed += '#';
  }
  return listed;
}

// Ranges for which `name_of(text)` gives a place. Steps are no places.
template <class NameOf>
PlaceCalls calls_of_ranges(const Timeline& timeline, const Links& links, NameOf name_of) {
  const HostOps& ops = timeline.ops;
  PlaceCalls calls;
  std::unordered_map<std::uint32_t, std::uint32_t> known;  // name -> place, kNone where it is none
  std::unordered_map<std::string, std::uint32_t> places;
  std::vector<std::uint32_t> place_of;
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    if (ops.kind[op] != HostKind::annotation) continue;
    const RangeKind kind = links.kind_of_op(timeline, op);
    if (kind == RangeKind::step || kind == RangeKind::user_step) continue;
    const auto [at, is_new] = known.try_emplace(ops.name[op], kNone);
    if (is_new) {
      const std::optional<std::string> name = name_of(timeline.strings[ops.name[op]]);
      if (name && calls.names.size() < kMostPlaceNames) {
        const auto next = static_cast<std::uint32_t>(calls.names.size());
        at->second = places.try_emplace(*name, next).first->second;
        if (at->second == next) calls.names.push_back(*name);
      }
    }
    if (at->second == kNone) continue;
    calls.time.push_back(ops.time.start(op), ops.time.duration(op));
    calls.thread.push_back(ops.thread[op]);
    place_of.push_back(at->second);
  }
  name_places(calls, [&](std::uint32_t call, std::uint32_t) { return place_of[call]; });
  return calls;
}

// Operators of old traces that note their module, "Net.encoder.fc".
PlaceCalls operators_with_module(const Timeline& timeline) {
  const HostOps& ops = timeline.ops;
  PlaceCalls calls;
  calls.has_calls = false;
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  std::vector<std::uint32_t> place_of;
  for (std::uint32_t op = 0; op < ops.module.size(); ++op) {
    if (ops.module[op] == 0) continue;
    const auto [at, is_new] =
        places.try_emplace(ops.module[op], static_cast<std::uint32_t>(calls.names.size()));
    if (is_new) calls.names.push_back(timeline.strings[ops.module[op]]);
    calls.time.push_back(ops.time.start(op), ops.time.duration(op));
    calls.thread.push_back(ops.thread[op]);
    place_of.push_back(at->second);
  }
  name_places(calls, [&](std::uint32_t call, std::uint32_t) { return place_of[call]; });
  return calls;
}

// Whose stack shows where an activity belongs: its own launch's; of a backward pass also that of
// its forward operator, and that of the forward operator's thread, which waits for the backward
// pass.
enum class Stack : std::uint8_t { own, meanwhile, forward };

// Of each activity in the track.
struct Launches {
  std::vector<std::uint32_t> forward;  // operator, kNone where there is none
  std::vector<bool> backward;
};

Launches launches_of(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  const ForwardOps forward_ops(timeline, links);
  Launches launches;
  launches.forward.resize(track.rows.size(), kNone);
  launches.backward.resize(track.rows.size());
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t op = links.gpu_op[track.rows[i]];
    if (!is_backward(timeline, links, op)) continue;
    launches.backward[i] = true;
    launches.forward[i] = forward_ops.of(op);
  }
  return launches;
}

// The innermost calls around points of time on host threads.
class InnermostCalls {
 public:
  InnermostCalls(const Timeline& timeline, const Links& links, const GpuTrack& track,
                 const Launches& launches)
      : timeline_(timeline), links_(links), track_(track), launches_(launches) {}

  // By activity; kNone where the stack shows none.
  std::vector<std::uint32_t> on(Stack stack, const PlaceCalls& calls) const;

 private:
  struct Points {
    EventTimes time;
    Column<std::uint16_t> thread;
    std::vector<std::uint32_t> activity;
  };
  void add_point(std::size_t activity, Stack stack, Points& points) const;

  const Timeline& timeline_;
  const Links& links_;
  const GpuTrack& track_;
  const Launches& launches_;
};

void InnermostCalls::add_point(std::size_t activity, Stack stack, Points& points) const {
  const std::uint32_t row = track_.rows[activity], forward = launches_.forward[activity];
  const std::uint32_t op = links_.gpu_op[row], call = links_.gpu_call[row];
  if ((op == kNone && call == kNone) || (stack != Stack::own && forward == kNone)) return;
  const bool by_call = call != kNone;
  Nanoseconds at = by_call ? timeline_.calls.time.start(call) : timeline_.ops.time.start(op);
  std::uint16_t thread = by_call ? timeline_.calls.thread[call] : timeline_.ops.thread[op];
  if (stack != Stack::own) {
    if (stack == Stack::meanwhile && thread == timeline_.ops.thread[forward]) return;
    thread = timeline_.ops.thread[forward];
  }
  if (stack == Stack::forward) at = timeline_.ops.time.start(forward);
  points.time.push_back(at, 0);
  points.thread.push_back(thread);
  points.activity.push_back(static_cast<std::uint32_t>(activity));
}

std::vector<std::uint32_t> InnermostCalls::on(Stack stack, const PlaceCalls& calls) const {
  Points points;
  for (std::size_t i = 0; i < track_.rows.size(); ++i) add_point(i, stack, points);
  const std::vector<std::uint32_t> at = innermost_at_start(
      calls.time, calls.order, points.time, rows_by_thread(points.time, points.thread));
  std::vector<std::uint32_t> found(track_.rows.size(), kNone);
  for (std::size_t i = 0; i < at.size(); ++i) found[points.activity[i]] = at[i];
  return found;
}

struct PlaceSum {
  std::int64_t calls = 0, kernels = 0;
  Nanoseconds host = 0, gpu = 0, backward = 0, busy = 0, busy_until = 0;
};

class PlaceTabulator {
 public:
  PlaceTabulator(const Timeline& timeline, const GpuTrack& track, const PlaceCalls& calls)
      : timeline_(timeline),
        track_(track),
        calls_(calls),
        sums_(calls.names.size()),
        outermost_(calls.time.size(), true),
        call_time_(calls.time.size()) {
    find_outermost();
  }

  std::vector<PlaceUse> tabulate(const InnermostCalls& innermost,
                                 const std::vector<bool>& backward);

 private:
  // The outermost call of its place around an activity, for each place.
  struct Around {
    std::array<std::uint32_t, kDeepestPlaces> calls;
    std::size_t size = 0;
  };

  void find_outermost();
  void add_around(std::uint32_t call, Around& around) const;
  void add_activity(std::size_t index, const Around& around, bool backward);

  const Timeline& timeline_;
  const GpuTrack& track_;
  const PlaceCalls& calls_;
  std::vector<PlaceSum> sums_;
  std::vector<bool> outermost_;  // by call: no call of the same place lies around it
  std::vector<Nanoseconds> call_time_;
};

void PlaceTabulator::find_outermost() {
  for (std::uint32_t call = 0; call < calls_.time.size(); ++call) {
    std::uint32_t around = calls_.parent[call];
    for (std::size_t depth = 0; around != kNone && depth < kDeepestPlaces; ++depth) {
      if (calls_.place[around] == calls_.place[call]) outermost_[call] = false;
      around = calls_.parent[around];
    }
    if (!outermost_[call] || calls_.place[call] == kNone) continue;
    ++sums_[calls_.place[call]].calls;
    sums_[calls_.place[call]].host += calls_.time.duration(call);
  }
}

void PlaceTabulator::add_around(std::uint32_t call, Around& around) const {
  const std::size_t before = around.size;  // of another point: its calls come first
  for (; call != kNone && around.size < kDeepestPlaces; call = calls_.parent[call]) {
    if (!outermost_[call] || calls_.place[call] == kNone) continue;
    const auto known = std::find_if(
        around.calls.begin(), around.calls.begin() + static_cast<std::ptrdiff_t>(before),
        [&](std::uint32_t other) { return calls_.place[other] == calls_.place[call]; });
    if (known == around.calls.begin() + static_cast<std::ptrdiff_t>(before)) {
      around.calls.at(around.size++) = call;
    }
  }
}

void PlaceTabulator::add_activity(std::size_t index, const Around& around, bool backward) {
  const std::uint32_t row = track_.rows[index];
  const Nanoseconds start = timeline_.gpu.time.start(row), end = timeline_.gpu.time.end(row);
  for (std::size_t i = 0; i < around.size; ++i) {
    const std::uint32_t call = around.calls.at(i);
    PlaceSum& sum = sums_[calls_.place[call]];
    if (sum.kernels == 0) sum.busy_until = start;
    ++sum.kernels;
    sum.gpu += end - start;
    if (backward) sum.backward += end - start;
    sum.busy += std::max<Nanoseconds>(0, end - std::max(start, sum.busy_until));
    sum.busy_until = std::max(sum.busy_until, end);
    call_time_[call] += end - start;
  }
}

std::vector<PlaceUse> PlaceTabulator::tabulate(const InnermostCalls& innermost,
                                               const std::vector<bool>& backward) {
  const auto own = innermost.on(Stack::own, calls_);
  const auto meanwhile = innermost.on(Stack::meanwhile, calls_);
  const auto forward = innermost.on(Stack::forward, calls_);
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    Around around;
    add_around(own[i], around);
    add_around(meanwhile[i], around);
    add_around(forward[i], around);
    add_activity(i, around, backward[i]);
  }
  std::vector<TimeSample> samples = samples_by_group(
      sums_.size(), calls_.time.size(),
      [&](std::uint32_t call) { return outermost_[call] ? calls_.place[call] : kNone; },
      [&](std::uint32_t call) { return call_time_[call]; });
  std::vector<PlaceUse> uses;
  for (std::size_t place = 0; place < sums_.size(); ++place) {
    const PlaceSum& sum = sums_[place];
    PlaceUse& use = uses.emplace_back();
    use.name = calls_.names[place];
    use.kernels = sum.kernels;
    use.gpu_time = to_seconds(sum.gpu);
    use.backward_time = to_seconds(sum.backward);
    use.busy = to_seconds(sum.busy);
    if (!calls_.has_calls) continue;
    use.calls = sum.calls;
    use.host_time = to_seconds(sum.host);
    use.times = std::move(samples[place]);
  }
  std::ranges::stable_sort(uses, std::greater{}, [](const PlaceUse& use) {
    return std::pair(use.gpu_time, use.host_time);
  });
  if (uses.size() > kMostPlaces) uses.resize(kMostPlaces);
  return uses;
}

PlaceCalls calls_of_modules(const Timeline& timeline, const Links& links) {
  PlaceCalls calls = calls_of_frames(timeline);
  if (!calls.names.empty()) return calls;
  calls = calls_of_ranges(timeline, links, [](std::string_view name) {
    const auto module = module_of_range(name);
    return module ? std::optional(std::string(*module)) : std::nullopt;
  });
  return calls.names.empty() ? operators_with_module(timeline) : std::move(calls);
}

}  // namespace

PlaceTables tabulate_places(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  PlaceTables tables;
  const PlaceCalls modules = calls_of_modules(timeline, links);
  const PlaceCalls ranges = calls_of_ranges(
      timeline, links, [](const std::string& name) { return std::optional(listed_name(name)); });
  if (modules.names.empty() && ranges.names.empty()) return tables;
  const Launches launches = launches_of(timeline, links, track);
  const InnermostCalls innermost(timeline, links, track, launches);
  const auto places = [&](const PlaceCalls& calls) {
    return calls.names.empty()
               ? std::vector<PlaceUse>{}
               : PlaceTabulator(timeline, track, calls).tabulate(innermost, launches.backward);
  };
  tables.modules = places(modules);
  // Modules run for nothing often enough: dropout, identity.
  std::erase_if(tables.modules, [](const PlaceUse& use) { return use.kernels == 0; });
  tables.annotations = places(ranges);
  return tables;
}

namespace {

// The ranges of steps by their start: what any thread does meanwhile belongs to them.
class StepRanges {
 public:
  StepRanges(const Timeline& timeline, const Links& links) : timeline_(timeline) {
    for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
      if (timeline.ops.kind[op] != HostKind::annotation) continue;
      if (links.kind_of_op(timeline, op) == RangeKind::step) ops_.push_back(op);
    }
    std::ranges::stable_sort(ops_, {}, [&](std::uint32_t op) { return start(op); });
  }

  // The last one to begin before the op, if it has not ended; else kNone.
  std::uint32_t around(std::uint32_t op) const {
    const auto next = std::ranges::upper_bound(ops_, start(op), {},
                                               [&](std::uint32_t range) { return start(range); });
    if (next == ops_.begin()) return kNone;
    return start(op) < timeline_.ops.time.end(next[-1]) ? next[-1] : kNone;
  }

 private:
  Nanoseconds start(std::uint32_t op) const { return timeline_.ops.time.start(op); }

  const Timeline& timeline_;
  std::vector<std::uint32_t> ops_;
};

// The names of the ranges around an operator, from the innermost on.
template <class Visit>
void visit_ranges_around(const Timeline& timeline, const Links& links, const StepRanges& steps,
                         std::uint32_t op, const Visit& visit) {
  if (op == kNone) return;
  bool is_in_range = false;
  for (std::uint32_t at = op; at != kNone; at = links.op_parent[at]) {
    if (timeline.ops.kind[at] != HostKind::annotation) continue;
    is_in_range = true;
    visit(timeline.ops.name[at]);
  }
  const std::uint32_t step = is_in_range ? kNone : steps.around(op);
  if (step != kNone) visit(timeline.ops.name[step]);
}

}  // namespace

std::vector<UnjudgedRange> unjudged_ranges(const Timeline& timeline, const Links& links,
                                           const GpuTrack& track, const Window& window) {
  constexpr std::size_t kMostRanges = 8;
  const StepRanges steps(timeline, links);
  const auto visit_names = [&](std::uint32_t row, const auto& visit) {
    visit_ranges_around(timeline, links, steps, links.gpu_op[row], visit);
  };
  const auto counts = [&](std::uint32_t row) {
    return timeline.gpu.kind[row] == GpuKind::kernel && !links.leftover[row];
  };
  std::set<std::uint32_t> judged;
  for (const std::uint32_t row : track.rows) {
    if (!counts(row) || !window.contains(timeline.gpu.time.start(row))) continue;
    visit_names(row, [&](std::uint32_t name) { judged.insert(name); });
  }
  std::map<std::uint32_t, std::pair<std::int64_t, Nanoseconds>> sums;  // by name
  for (const std::uint32_t row : track.rows) {
    if (!counts(row) || window.contains(timeline.gpu.time.start(row))) continue;
    std::uint32_t outermost = kNone;
    visit_names(row, [&](std::uint32_t name) {
      if (!judged.contains(name)) outermost = name;
    });
    if (outermost == kNone) continue;
    auto& [kernels, time] = sums[outermost];
    ++kernels;
    time += timeline.gpu.time.duration(row);
  }
  std::vector<UnjudgedRange> ranges;
  for (const auto& [name, sum] : sums) {
    ranges.push_back({timeline.strings[name], sum.first, to_seconds(sum.second)});
  }
  std::ranges::stable_sort(ranges, std::greater{}, &UnjudgedRange::kernel_time);
  if (ranges.size() > kMostRanges) ranges.resize(kMostRanges);
  return ranges;
}

}  // namespace rooftile::trace
