#include "rooftile/analysis/trace/critical_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/steps.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kMostPathParts = 64;
constexpr std::size_t kPathKinds = static_cast<std::size_t>(PathKind::unknown) + 1;
// An activity that ends this shortly before the step is what it ended with.
constexpr Nanoseconds kPathSlack = 2'000;
// Longer than a launch to an idle GPU or a pause between kernels takes: something else that the
// trace lacks held the activity up.
constexpr Nanoseconds kLongPathDelay = 100'000;

bool lasts_all(Nanoseconds time, Nanoseconds whole) { return 20 * time > 17 * whole; }

PathKind path_kind(GpuClass kind) {
  if (kind == GpuClass::communication) return PathKind::communication;
  return kind == GpuClass::copy ? PathKind::copy : PathKind::compute;
}

PathKind path_kind(IdleCause cause) {
  switch (cause) {
    case IdleCause::data_loading:
      return PathKind::data_loading;
    case IdleCause::communication_wait:
      return PathKind::communication_wait;
    case IdleCause::allocator:
      return PathKind::allocator;
    case IdleCause::module_loading:
      return PathKind::module_loading;
    case IdleCause::between_kernels:
      return PathKind::pause;
    case IdleCause::unrecorded_work:
    case IdleCause::restart:
      return PathKind::unrecorded;
    case IdleCause::migration:
      return PathKind::copy;
    case IdleCause::profiler:
      return PathKind::profiler;
    case IdleCause::asleep:
      return PathKind::asleep;
    case IdleCause::unknown:
      return PathKind::unknown;
    default:
      return PathKind::host;
  }
}

// The time of the pieces by step and by place. Where pieces of the host's time are in the program
// is asked for many at once.
class PathSums {
 public:
  PathSums(const Timeline& timeline, PythonSites& sites, std::size_t steps)
      : timeline_(timeline),
        sites_(sites),
        encloses_all_(functions_around_all(timeline)),
        by_step_(steps) {}

  // `name` is of the StringTable.
  void add(std::size_t step, PathKind kind, std::uint32_t name, Nanoseconds length) {
    by_step_[step].at(static_cast<std::size_t>(kind)) += length;
    add_at_place(kind, name, {}, length);
  }
  // Named by the operator around it where `name` is 0.
  void ask(std::size_t step, PathKind kind, std::uint32_t name, Nanoseconds length,
           const SiteQuery& query) {
    constexpr std::size_t kMostAsked = std::size_t{1} << 16U;
    by_step_[step].at(static_cast<std::size_t>(kind)) += length;
    queries_.push_back(query);
    asked_.push_back({length, name, kind});
    if (asked_.size() == kMostAsked) answer();
  }
  CriticalPath finish();

 private:
  struct HostPlace {
    std::uint32_t op = 0;     // name
    std::uint32_t frame = 0;  // of the user's code
    auto operator<=>(const HostPlace&) const = default;
  };
  struct Asked {
    Nanoseconds length = 0;
    std::uint32_t name = 0;
    PathKind kind = PathKind::unknown;
  };
  // By name: functions that one call of is most of the recording, as main is. That they go on says
  // nothing.
  static std::vector<bool> functions_around_all(const Timeline& timeline);
  void answer();
  void add_at_place(PathKind kind, std::uint32_t name, const HostPlace& place, Nanoseconds length);
  PathPart part_at(PathKind kind, std::uint32_t name, const HostPlace& place) const;

  const Timeline& timeline_;
  PythonSites& sites_;
  std::vector<bool> encloses_all_;
  std::vector<SiteQuery> queries_;
  std::vector<Asked> asked_;  // by query
  std::vector<std::array<Nanoseconds, kPathKinds>> by_step_;
  std::map<std::tuple<PathKind, std::uint32_t, HostPlace>, std::size_t> index_;
  std::vector<std::pair<Nanoseconds, PathPart>> parts_;
};

std::vector<bool> PathSums::functions_around_all(const Timeline& timeline) {
  std::vector<bool> around(timeline.strings.size());
  const Nanoseconds whole = whole_recording(timeline).span();
  const PythonCalls& python = timeline.python;
  for (std::uint32_t row = 0; row < python.time.size(); ++row) {
    if (lasts_all(python.time.duration(row), whole)) around[python.name[row]] = true;
  }
  return around;
}

PathPart PathSums::part_at(PathKind kind, std::uint32_t name, const HostPlace& place) const {
  PathPart part;
  part.kind = kind;
  part.name = timeline_.strings[name != 0 ? name : place.op];
  if (place.frame != 0) {
    SiteRef site;
    site.frame = place.frame;
    part.source = sites_.source(site);
  }
  return part;
}

void PathSums::add_at_place(PathKind kind, std::uint32_t name, const HostPlace& place,
                            Nanoseconds length) {
  const auto [at, is_new] = index_.try_emplace({kind, name, place}, parts_.size());
  if (is_new) parts_.emplace_back(0, part_at(kind, name, place));
  parts_[at->second].first += length;
  ++parts_[at->second].second.count;
}

void PathSums::answer() {
  const std::vector<SiteRef> found = sites_.at(queries_);
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Asked& asked = asked_[i];
    const std::uint32_t op = queries_[i].op == kNone ? 0 : timeline_.ops.name[queries_[i].op];
    const std::uint32_t frame = encloses_all_[found[i].frame] ? 0 : found[i].frame;
    add_at_place(asked.kind, asked.name, {op, frame}, asked.length);
  }
  queries_.clear();
  asked_.clear();
}

CriticalPath PathSums::finish() {
  answer();
  std::ranges::stable_sort(parts_, [](const auto& a, const auto& b) { return a.first > b.first; });
  CriticalPath path;
  for (auto& [length, part] : parts_) {
    if (path.parts.size() == kMostPathParts) break;
    part.time = to_seconds(length);
    path.parts.push_back(std::move(part));
  }
  for (const auto& times : by_step_) {
    PathStep& step = path.steps.emplace_back();
    for (std::size_t kind = 0; kind < times.size(); ++kind) {
      if (times.at(kind) <= 0) continue;
      step.shares.push_back({static_cast<PathKind>(kind), to_seconds(times.at(kind))});
    }
  }
  return path;
}

class PathWalk {
 public:
  PathWalk(const Timeline& timeline, const Links& links, const GpuTrack& track,
           const std::vector<HostWait>& waits, const std::vector<IdlePiece>& pieces,
           const Replay& replay, PathSums& sums)
      : timeline_(timeline),
        links_(links),
        track_(track),
        waits_(waits),
        pieces_(pieces),
        replay_(replay),
        sums_(sums),
        whole_(whole_recording(timeline)) {
    for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
      if (is_launch(links.kind_of_call(timeline, call))) launches_.push_back(call);
    }
    std::ranges::stable_sort(launches_, {}, [&](std::uint32_t call) { return called(call); });
    turns_ = 4 * (track.rows.size() + waits.size() + launches_.size());
  }

  void walk(std::size_t step, const Window& window);

 private:
  Nanoseconds gpu_start(std::uint32_t position) const {
    return timeline_.gpu.time.start(track_.rows[position]);
  }
  Nanoseconds gpu_end(std::uint32_t position) const {
    return timeline_.gpu.time.end(track_.rows[position]);
  }
  Nanoseconds called(std::uint32_t call) const { return timeline_.calls.time.start(call); }
  // To `start`, or the step's, from where the walk has come; how far.
  Nanoseconds go_back_to(Nanoseconds start) {
    start = std::max(start, window_.start);
    if (start >= at_) return 0;
    return std::min(std::exchange(at_, start), window_.end) - start;
  }
  void add(PathKind kind, Nanoseconds start, std::uint32_t name) {
    if (const Nanoseconds length = go_back_to(start)) sums_.add(step_, kind, name, length);
  }
  void add(PathKind kind, Nanoseconds start, std::uint32_t name, const SiteQuery& query) {
    if (const Nanoseconds length = go_back_to(start)) sums_.ask(step_, kind, name, length, query);
  }
  void add_work(Nanoseconds start, std::uint32_t call, std::uint32_t before);
  std::uint32_t outermost_op(std::uint32_t call) const;
  std::uint32_t op_around(std::uint16_t thread, Nanoseconds at) const;
  bool is_around_all(std::uint32_t op) const;
  void add_pause(Nanoseconds start);
  void add_call(std::uint32_t call);
  void go_back_on_gpu();
  void go_back_on_host();
  void go_back_in_wait(const HostWait& wait);
  void add_host_work(Nanoseconds start);
  void add_calls(std::uint16_t thread, Nanoseconds start);

  const Timeline& timeline_;
  const Links& links_;
  const GpuTrack& track_;
  const std::vector<HostWait>& waits_;
  const std::vector<IdlePiece>& pieces_;
  const Replay& replay_;
  PathSums& sums_;
  Window whole_;
  std::vector<std::uint32_t> launches_;  // calls, by start
  std::size_t turns_ = 0;                // left, of all steps

  std::size_t step_ = 0;
  Window window_;
  Nanoseconds at_ = 0;
  std::uint32_t activity_ = kNone;  // position in the track, ending where the walk is; or the host
};

void PathWalk::walk(std::size_t step, const Window& window) {
  step_ = step;
  window_ = window;
  at_ = window.end;
  activity_ = replay_.last_ended(window.end);
  if (activity_ != kNone && gpu_end(activity_) + kPathSlack < window.end) activity_ = kNone;
  // Each turn goes back by an activity, a wait or a piece of the host's work. Clocks of whole
  // microseconds may make two short activities wait for each other.
  while (at_ > window_.start && turns_ > 0) {
    --turns_;
    if (activity_ != kNone) {
      go_back_on_gpu();
    } else {
      go_back_on_host();
    }
  }
  add(PathKind::unknown, window_.start, 0);
}

// From `start` to here work was with the GPU and did not begin. Of a long time the causes of the
// GPU's idle time say why.
void PathWalk::add_pause(Nanoseconds start) {
  start = std::max(start, window_.start);
  auto piece = std::ranges::lower_bound(pieces_, at_, {}, &IdlePiece::start);
  const bool is_long = at_ - start > kLongPathDelay;
  while (is_long && piece != pieces_.begin() && (--piece)->end > start) {
    add(PathKind::pause, piece->end, 0);
    add(path_kind(piece->cause), std::max(start, piece->start), 0);
  }
  add(PathKind::pause, start, 0);
}

void PathWalk::go_back_on_gpu() {
  const std::uint32_t position = activity_;
  const std::uint32_t row = track_.rows[activity_];
  add(PathKind::pause, gpu_end(activity_), 0);
  add(path_kind(track_.classes[activity_]), gpu_start(activity_), timeline_.gpu.name[row]);
  const Replay::Origin origin = replay_.origin_of(activity_);
  const std::uint32_t call = links_.gpu_call[row];
  activity_ = origin.activity;
  if (activity_ != kNone) {
    // Beside a GPU that works on other streams it waited for those.
    const std::uint32_t other = replay_.last_ended(at_);
    if (at_ - gpu_end(activity_) > kLongPathDelay && other != kNone && other != position &&
        gpu_end(other) > gpu_end(activity_)) {
      activity_ = other;
    }
    return add_pause(gpu_end(activity_));
  }
  if (call == kNone) {
    // What had ended before says how the GPU came here.
    const std::uint32_t before = replay_.last_ended(at_);
    if (before == kNone || before == position || gpu_end(before) <= window_.start) {
      return add(PathKind::unknown, window_.start, 0);
    }
    activity_ = before;
    return add_pause(gpu_end(before));
  }
  // The call and the usual latency; what is beyond held the launched work up unseen.
  const Nanoseconds through =
      std::max(timeline_.calls.time.end(call), called(call) + replay_.usual_latency());
  if (at_ - through > kLongPathDelay) add_pause(through);
  add_call(call);
}

// A launch, and what it loads.
void PathWalk::add_call(std::uint32_t call) {
  const std::uint32_t name = timeline_.calls.name[call];
  const Nanoseconds returned = std::min(at_, timeline_.calls.time.end(call));
  auto wait = std::ranges::lower_bound(waits_, returned, {}, &HostWait::start);
  while (wait != waits_.begin() && (--wait)->start >= called(call)) {
    if (!is_other_work(wait->cause)) continue;
    add(PathKind::launch, wait->end, name);
    go_back_in_wait(*wait);
  }
  add(PathKind::launch, called(call), name);
}

void PathWalk::go_back_on_host() {
  // The last wait that began before.
  const auto next =
      std::lower_bound(waits_.begin(), waits_.end(), at_,
                       [](const HostWait& wait, Nanoseconds at) { return wait.start < at; });
  if (next == waits_.begin()) {
    add_host_work(window_.start);
    return;
  }
  const HostWait& wait = *(next - 1);
  add_host_work(wait.end);
  if (at_ > window_.start) go_back_in_wait(wait);
}

void PathWalk::go_back_in_wait(const HostWait& wait) {
  const bool names_nothing = wait.row == kNone || (!wait.is_call && is_around_all(wait.row));
  const std::uint32_t name = names_nothing  ? 0
                             : wait.is_call ? timeline_.calls.name[wait.row]
                                            : timeline_.ops.name[wait.row];
  // Also where the recorder waits.
  const bool is_for_gpu = wait.cause == IdleCause::synchronization ||
                          wait.cause == IdleCause::copy || is_recorders(wait.cause);
  const std::uint32_t awaited = is_for_gpu && wait.is_call ? replay_.awaited_by(wait) : kNone;
  if (awaited != kNone && gpu_end(awaited) > wait.start) {
    add(PathKind::host, gpu_end(awaited), name);
    activity_ = awaited;
    return;
  }
  if (!is_other_work(wait.cause)) return add(path_kind(wait.cause), wait.start, name);
  const Nanoseconds middle = wait.start + (wait.end - wait.start) / 2;
  add(path_kind(wait.cause), wait.start, name, {wait.thread, middle, kNone});
}

// A range that is most of the recording names nothing, nor does a step.
bool PathWalk::is_around_all(std::uint32_t op) const {
  const RangeKind kind = links_.kind_of_op(timeline_, op);
  const bool is_step = kind == RangeKind::step || kind == RangeKind::user_step;
  return is_step || lasts_all(timeline_.ops.time.duration(op), whole_.span());
}

// Host work from one launch, `before`, to the next: of the outermost operator around this one since
// it began, that of the ranges around, of one that launches nothing, or of nothing that was
// recorded, and of the operator around the one before until it ended; without one, that launch
// itself.
void PathWalk::add_work(Nanoseconds start, std::uint32_t call, std::uint32_t before) {
  if (call == kNone) return add(PathKind::host, start, 0);
  const std::uint16_t thread = timeline_.calls.thread[call];
  std::vector<std::uint32_t> around;
  for (std::uint32_t op = links_.call_op[call]; op != kNone; op = links_.op_parent[op]) {
    const bool is_op = timeline_.ops.kind[op] == HostKind::op;
    if (!is_op && is_around_all(op)) continue;
    if (is_op) around.clear();
    around.push_back(op);
  }
  const bool is_same_thread = before != kNone && timeline_.calls.thread[before] == thread;
  const std::uint32_t last = is_same_thread ? outermost_op(before) : kNone;
  const auto until = [&](Nanoseconds end) { return std::clamp(end, start, std::max(start, at_)); };
  const Nanoseconds left = last != kNone    ? until(timeline_.ops.time.end(last))
                           : is_same_thread ? until(timeline_.calls.time.end(before))
                                            : start;
  for (const std::uint32_t op : around) {
    const Nanoseconds from = std::max(op == last ? start : left, timeline_.ops.time.start(op));
    add(PathKind::host, from, 0, {thread, std::min(at_, called(call)), op});
  }
  const std::uint32_t without_launch = op_around(thread, left + (at_ - left) / 2);
  if (without_launch == kNone) {
    add_calls(thread, left);
  } else {
    add(PathKind::host, left, 0, {thread, std::max(left, at_ - 1), without_launch});
  }
  if (last != kNone) return add(PathKind::host, start, 0, {thread, start, last});
  add(PathKind::launch, start, is_same_thread ? timeline_.calls.name[before] : 0);
}

// Host work outside of operators and ranges, back to `start`: of the calls of the thread, and of
// nothing that was recorded between them.
void PathWalk::add_calls(std::uint16_t thread, Nanoseconds start) {
  const std::span<const std::uint32_t> rows = links_.call_order.of(thread);
  const EventTimes& time = timeline_.calls.time;
  auto next =
      std::ranges::lower_bound(rows, at_, {}, [&](std::uint32_t row) { return time.start(row); });
  while (at_ > start && next != rows.begin() && time.end(*--next) > start) {
    add(PathKind::host, time.end(*next), 0, {thread, at_ - 1, kNone});
    const Nanoseconds from = std::max(start, time.start(*next));
    add(PathKind::host, from, timeline_.calls.name[*next], {thread, at_ - 1, kNone});
  }
  add(PathKind::host, start, 0, {thread, std::max(start, at_ - 1), kNone});
}

// The outermost operator there, else the innermost range that is no step; kNone in neither.
std::uint32_t PathWalk::op_around(std::uint16_t thread, Nanoseconds at) const {
  const std::span<const std::uint32_t> rows = links_.op_order.of(thread);
  const EventTimes& time = timeline_.ops.time;
  const auto next =
      std::ranges::upper_bound(rows, at, {}, [&](std::uint32_t row) { return time.start(row); });
  if (next == rows.begin()) return kNone;
  std::uint32_t around = kNone;
  for (std::uint32_t op = *(next - 1); op != kNone; op = links_.op_parent[op]) {
    if (time.end(op) <= at || is_around_all(op)) continue;
    if (timeline_.ops.kind[op] == HostKind::op || around == kNone) around = op;
  }
  return around;
}

// Around a call; kNone outside of operators.
std::uint32_t PathWalk::outermost_op(std::uint32_t call) const {
  std::uint32_t outermost = kNone;
  for (std::uint32_t op = links_.call_op[call]; op != kNone; op = links_.op_parent[op]) {
    if (timeline_.ops.kind[op] == HostKind::op) outermost = op;
  }
  return outermost;
}

// The host's way from `start` to here, cut where it launched: each part leads to a launch.
void PathWalk::add_host_work(Nanoseconds start) {
  start = std::max(start, window_.start);
  auto launch = std::ranges::upper_bound(launches_, at_, {},
                                         [&](std::uint32_t call) { return called(call); });
  std::uint32_t call = launch == launches_.begin() ? kNone : *(launch - 1);
  while (launch != launches_.begin() && called(*(launch - 1)) > start) {
    --launch;
    if (called(*launch) < at_) add_work(called(*launch), call, *launch);
    call = *launch;
  }
  add_work(start, call, kNone);
}

}  // namespace

CriticalPath critical_path(const Timeline& timeline, const Links& links, const GpuTrack& track,
                           const std::vector<HostWait>& waits, const std::vector<IdlePiece>& pieces,
                           const Replay& replay, PythonSites& sites,
                           const std::vector<Nanoseconds>& bounds) {
  PathSums sums(timeline, sites, bounds.size() - 1);
  PathWalk walk(timeline, links, track, waits, pieces, replay, sums);
  for (std::size_t step = 0; step + 1 < bounds.size(); ++step) {
    walk.walk(step, {bounds[step], bounds[step + 1]});
  }
  return sums.finish();
}

}  // namespace rooftile::trace
