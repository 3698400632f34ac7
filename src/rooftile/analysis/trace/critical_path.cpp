#include "rooftile/analysis/trace/critical_path.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kMostPathParts = 64;
constexpr std::size_t kPathKinds = static_cast<std::size_t>(PathKind::unknown) + 1;
// An activity that ends this shortly before the step is what it ended with.
constexpr Nanoseconds kPathSlack = 2'000;
// Longer than a launch to an idle GPU or a pause between kernels takes: something else that the
// trace lacks held the activity up.
constexpr Nanoseconds kLongPathDelay = 100'000;

constexpr Nanoseconds kUnasked = std::numeric_limits<Nanoseconds>::min();

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
    default:
      return PathKind::host;
  }
}

// A piece of a step, in the host's time or the GPU's.
struct PathPiece {
  PathKind kind = PathKind::unknown;
  std::size_t step = 0;
  Nanoseconds start = 0, end = 0;
  std::uint32_t name = 0;    // StringTable; 0 = by the operator
  std::uint32_t op = kNone;  // around the host's work
  std::uint16_t thread = 0;
  Nanoseconds asked = kUnasked;  // when, on the thread, for the line of the program
};

class PathWalk {
 public:
  PathWalk(const Timeline& timeline, const Links& links, const GpuTrack& track,
           const std::vector<HostWait>& waits, const Replay& replay)
      : timeline_(timeline), links_(links), track_(track), waits_(waits), replay_(replay) {
    for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
      if (is_launch(links.kind_of_call(timeline, call))) {
        launches_.emplace_back(timeline.calls.time.start(call), call);
      }
    }
    std::sort(launches_.begin(), launches_.end());
    turns_ = 4 * (track.rows.size() + waits.size() + launches_.size());
  }

  void walk(std::size_t step, const Window& window);
  std::vector<PathPiece> take() { return std::move(pieces_); }

 private:
  Nanoseconds gpu_start(std::uint32_t position) const {
    return timeline_.gpu.time.start(track_.rows[position]);
  }
  Nanoseconds gpu_end(std::uint32_t position) const {
    return timeline_.gpu.time.end(track_.rows[position]);
  }
  // From `start`, or the step's, up to where the walk has come.
  PathPiece& add(PathKind kind, Nanoseconds start, std::uint32_t name) {
    start = std::max(start, window_.start);
    if (start >= at_) return none_;
    at_ = std::min(at_, window_.end);
    pieces_.push_back({kind, step_, start, at_, name});
    at_ = start;
    return pieces_.back();
  }
  // Host work that leads to a launch.
  void add_work(Nanoseconds start, std::uint32_t call) {
    PathPiece& piece = add(PathKind::host, start, 0);
    if (call == kNone) return;
    piece.op = links_.call_op[call];
    piece.thread = timeline_.calls.thread[call];
    piece.asked = timeline_.calls.time.start(call);
  }
  void go_back_on_gpu();
  void go_back_on_host();
  void go_back_in_wait(const HostWait& wait);
  void add_host_work(Nanoseconds start);

  const Timeline& timeline_;
  const Links& links_;
  const GpuTrack& track_;
  const std::vector<HostWait>& waits_;
  const Replay& replay_;
  std::vector<std::pair<Nanoseconds, std::uint32_t>> launches_;  // start, call; sorted
  std::vector<PathPiece> pieces_;
  PathPiece none_;         // takes what is said of a piece without length
  std::size_t turns_ = 0;  // left, of all steps

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

void PathWalk::go_back_on_gpu() {
  const std::uint32_t row = track_.rows[activity_];
  add(PathKind::pause, gpu_end(activity_), 0);
  add(path_kind(track_.classes[activity_]), gpu_start(activity_), timeline_.gpu.name[row]);
  const Replay::Origin origin = replay_.origin_of(activity_);
  const std::uint32_t call = links_.gpu_call[row];
  activity_ = origin.activity;
  if (activity_ != kNone) {
    const bool is_long = at_ - gpu_end(activity_) > kLongPathDelay;
    add(is_long ? PathKind::unrecorded : PathKind::pause, gpu_end(activity_), 0);
    return;
  }
  if (call == kNone) {
    add(PathKind::unknown, window_.start, 0);
    return;
  }
  // The call and the usual latency; what is beyond held the launched work up unseen.
  const Nanoseconds called = timeline_.calls.time.start(call);
  const Nanoseconds through =
      std::max(timeline_.calls.time.end(call), called + replay_.usual_latency());
  if (at_ - through > kLongPathDelay) add(PathKind::unrecorded, through, 0);
  add(PathKind::launch, called, timeline_.calls.name[call]);
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
  const std::uint32_t name = !wait.is_call ? wait.row == kNone ? 0 : timeline_.ops.name[wait.row]
                                           : timeline_.calls.name[wait.row];
  // Also where the recorder waits.
  const bool is_for_gpu = wait.cause == IdleCause::synchronization ||
                          wait.cause == IdleCause::copy || wait.cause == IdleCause::outside;
  const std::uint32_t awaited = is_for_gpu && wait.is_call ? replay_.awaited_by(wait) : kNone;
  if (awaited != kNone && gpu_end(awaited) > wait.start) {
    add(PathKind::host, gpu_end(awaited), name);
    activity_ = awaited;
    return;
  }
  PathPiece& piece = add(path_kind(wait.cause), wait.start, name);
  if (!is_other_work(wait.cause)) return;
  piece.thread = wait.thread;
  piece.asked = wait.start + (wait.end - wait.start) / 2;
}

// The host's way from `start` to here, cut where it launched: each part leads to a launch.
void PathWalk::add_host_work(Nanoseconds start) {
  start = std::max(start, window_.start);
  auto launch = std::upper_bound(launches_.begin(), launches_.end(), std::pair(at_, kNone));
  std::uint32_t call = launch == launches_.begin() ? kNone : (launch - 1)->second;
  while (launch != launches_.begin() && (launch - 1)->first > start) {
    --launch;
    if (launch->first < at_) add_work(launch->first, call);
    call = launch->second;
  }
  add_work(start, call);
}

// Names for pieces on the host, and sums.
class PathSums {
 public:
  PathSums(const Timeline& timeline, const Links& links, PythonSites& sites)
      : timeline_(timeline), links_(links), sites_(sites) {}

  CriticalPath sum(const std::vector<PathPiece>& pieces, std::size_t steps);

 private:
  struct HostPlace {
    std::uint32_t op = 0;     // name
    std::uint32_t frame = 0;  // of the user's code
    auto operator<=>(const HostPlace&) const = default;
  };
  std::vector<HostPlace> places_of(const std::vector<PathPiece>& pieces);
  std::uint32_t outermost_op(std::uint32_t op) const {
    std::uint32_t found = 0;
    for (; op != kNone; op = links_.op_parent[op]) {
      const RangeKind kind = links_.kind_of_op(timeline_, op);
      const bool is_step = kind == RangeKind::step || kind == RangeKind::user_step;
      if (timeline_.ops.kind[op] == HostKind::op || (found == 0 && !is_step)) {
        found = timeline_.ops.name[op];
      }
    }
    return found;
  }
  PathPart part_of_piece(const PathPiece& piece, const HostPlace& place) const;

  const Timeline& timeline_;
  const Links& links_;
  PythonSites& sites_;
};

std::vector<PathSums::HostPlace> PathSums::places_of(const std::vector<PathPiece>& pieces) {
  std::vector<SiteQuery> queries;
  std::vector<std::size_t> asked;
  std::vector<HostPlace> places(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PathPiece& piece = pieces[i];
    if (piece.asked == kUnasked) continue;
    places[i].op = outermost_op(piece.op);
    queries.push_back({piece.thread, piece.asked, piece.op});
    asked.push_back(i);
  }
  const std::vector<SiteRef> found = sites_.at(queries);
  for (std::size_t i = 0; i < asked.size(); ++i) places[asked[i]].frame = found[i].frame;
  return places;
}

PathPart PathSums::part_of_piece(const PathPiece& piece, const HostPlace& place) const {
  PathPart part;
  part.kind = piece.kind;
  part.name = timeline_.strings[piece.name != 0 ? piece.name : place.op];
  if (place.frame != 0) {
    SiteRef site;
    site.frame = place.frame;
    part.source = sites_.source(site);
  }
  return part;
}

CriticalPath PathSums::sum(const std::vector<PathPiece>& pieces, std::size_t steps) {
  const std::vector<HostPlace> places = places_of(pieces);
  std::vector<std::array<Nanoseconds, kPathKinds>> by_step(steps);
  std::map<std::tuple<PathKind, std::uint32_t, HostPlace>, std::size_t> index;
  std::vector<std::pair<Nanoseconds, PathPart>> parts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PathPiece& piece = pieces[i];
    const Nanoseconds length = piece.end - piece.start;
    by_step[piece.step].at(static_cast<std::size_t>(piece.kind)) += length;
    const auto [at, is_new] = index.try_emplace({piece.kind, piece.name, places[i]}, parts.size());
    if (is_new) parts.emplace_back(0, part_of_piece(piece, places[i]));
    parts[at->second].first += length;
    ++parts[at->second].second.count;
  }
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  CriticalPath path;
  for (auto& [length, part] : parts) {
    if (path.parts.size() == kMostPathParts) break;
    part.time = to_seconds(length);
    path.parts.push_back(std::move(part));
  }
  for (const auto& times : by_step) {
    PathStep& step = path.steps.emplace_back();
    for (std::size_t kind = 0; kind < times.size(); ++kind) {
      if (times.at(kind) <= 0) continue;
      step.shares.push_back({static_cast<PathKind>(kind), to_seconds(times.at(kind))});
    }
  }
  return path;
}

}  // namespace

CriticalPath critical_path(const Timeline& timeline, const Links& links, const GpuTrack& track,
                           const std::vector<HostWait>& waits, const Replay& replay,
                           PythonSites& sites, const std::vector<Nanoseconds>& bounds) {
  PathWalk walk(timeline, links, track, waits, replay);
  for (std::size_t step = 0; step + 1 < bounds.size(); ++step) {
    walk.walk(step, {bounds[step], bounds[step + 1]});
  }
  return PathSums(timeline, links, sites).sum(walk.take(), bounds.size() - 1);
}

}  // namespace rooftile::trace
