#include "rooftile/analysis/trace/host_work.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/first_calls.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/steps.h"
#include "rooftile/base/mangled_name.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// An operator takes the host some ten microseconds, its Python code at most a few hundred, as in
// recordings with stacks. Longer than this between two launches is no launching.
constexpr Nanoseconds kLongStretch = 1'000'000;
constexpr Nanoseconds kMostBuckets = Nanoseconds{1} << 22;
constexpr std::size_t kMostWork = 64;
constexpr Nanoseconds kUnknownLength = std::numeric_limits<Nanoseconds>::max() / 8;
// Of a stretch: what a name must cover.
constexpr double kMostOfIt = 0.5;
// Enclosing intervals looked at for a name.
constexpr int kMostEnclosing = 256;

bool is_any_step(RangeKind kind) {
  return kind == RangeKind::step || kind == RangeKind::user_step || kind == RangeKind::engine_step;
}

struct Stretch {
  Nanoseconds start = 0, end = 0;
  std::uint16_t thread = 0;  // of the launch that ends it
};

// Stretches without a mark, found without sorting: a long one holds an empty bucket.
class Stretches {
 public:
  explicit Stretches(const Window& window)
      : window_(window),
        bucket_(std::max(kLongStretch / 2, window.span() / kMostBuckets + 1)),
        marked_(static_cast<std::size_t>(window.span() / bucket_ + 1)) {}

  void mark(Nanoseconds at) { marked_[bucket_of(at)] = true; }

  // After all marks.
  void find_empty() {
    for (std::size_t i = 0; i < marked_.size(); ++i) {
      if (marked_[i]) continue;
      if (i == 0 || marked_[i - 1]) {
        first_.push_back(i);
        found_.push_back({window_.start, window_.end, 0});
      }
    }
  }
  // Again each mark: those beside an empty bucket bound it.
  void bound(Nanoseconds at, std::uint16_t thread) {
    const std::size_t bucket = bucket_of(at);
    if (bucket + 1 < marked_.size() && !marked_[bucket + 1]) {
      Stretch& after = stretch_from(bucket + 1);
      after.start = std::max(after.start, at);
    }
    if (bucket > 0 && !marked_[bucket - 1]) {
      Stretch& before = stretch_from(bucket - 1);
      if (at <= before.end) before = {before.start, at, thread};
    }
  }
  std::vector<Stretch> take() {
    std::erase_if(
        found_, [](const Stretch& stretch) { return stretch.end - stretch.start < kLongStretch; });
    return std::move(found_);
  }

 private:
  std::size_t bucket_of(Nanoseconds at) const {
    return static_cast<std::size_t>((std::clamp(at, window_.start, window_.end) - window_.start) /
                                    bucket_);
  }
  // The one that holds an empty bucket.
  Stretch& stretch_from(std::size_t bucket) {
    const auto after = std::upper_bound(first_.begin(), first_.end(), bucket);
    return found_[static_cast<std::size_t>(after - first_.begin()) - 1];
  }

  Window window_;
  Nanoseconds bucket_;
  std::vector<bool> marked_;
  std::vector<std::size_t> first_;  // empty bucket of each stretch
  std::vector<Stretch> found_;
};

// The program's own ranges, but for its steps: work of two ranges is two.
class OwnRanges {
 public:
  OwnRanges(const Timeline& timeline, const Links& links) {
    const HostOps& ops = timeline.ops;
    for (std::uint32_t row = 0; row < ops.time.size(); ++row) {
      if (ops.kind[row] != HostKind::annotation || ops.time.duration(row) < kLongStretch) continue;
      if (is_any_step(links.kind_of_op(timeline, row))) continue;
      const Window range{ops.time.start(row), ops.time.end(row)};
      bounds_.push_back({ops.thread[row], range.start, range});
      bounds_.push_back({ops.thread[row], range.end, range});
    }
    std::ranges::stable_sort(bounds_, {}, place_of);
  }

  // At the bounds of the outermost ranges that do not hold all of it, in pieces that are long
  // themselves.
  std::vector<Stretch> cut(const Stretch& whole) const {
    const std::span<const Bound> inside(
        std::ranges::upper_bound(bounds_, std::pair(whole.thread, whole.start), {}, place_of),
        std::ranges::lower_bound(bounds_, std::pair(whole.thread, whole.end), {}, place_of));
    Nanoseconds reach = whole.start;
    for (const Bound& bound : inside) {
      if (bound.range.start <= whole.start) reach = bound.at;
    }
    std::vector<Stretch> pieces{whole};
    add_cut(reach, pieces);
    for (const Bound& bound : inside) {
      if (bound.at != bound.range.start || bound.at < reach) continue;
      reach = bound.range.end;
      add_cut(bound.at, pieces);
      add_cut(reach, pieces);
    }
    return pieces;
  }

 private:
  struct Bound {
    std::uint16_t thread = 0;
    Nanoseconds at = 0;
    Window range;
  };
  static std::pair<std::uint16_t, Nanoseconds> place_of(const Bound& bound) {
    return {bound.thread, bound.at};
  }
  static void add_cut(Nanoseconds at, std::vector<Stretch>& pieces) {
    Stretch& last = pieces.back();
    if (at - last.start < kLongStretch || last.end - at < kLongStretch) return;
    const Stretch rest{at, last.end, last.thread};
    last.end = at;
    pieces.push_back(rest);
  }

  std::vector<Bound> bounds_;
};

// `visit(time, thread)` at the start and end of each launch and wait.
template <class Visit>
void visit_marks(const Timeline& timeline, const Links& links, const std::vector<HostWait>& waits,
                 Visit visit) {
  for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
    if (!is_launch(links.kind_of_call(timeline, call))) continue;
    visit(timeline.calls.time.start(call), timeline.calls.thread[call]);
    visit(timeline.calls.time.end(call), timeline.calls.thread[call]);
  }
  for (const HostWait& wait : waits) {
    visit(wait.start, wait.thread);
    visit(wait.end, wait.thread);
  }
}

enum class Table : std::uint8_t { call, op, python };

// Something that lasts long enough to be what a stretch is spent in.
struct Interval {
  Nanoseconds start = 0, end = 0;
  Table table = Table::call;
  std::uint16_t thread = 0;
  std::uint32_t row = 0;
};

// The intervals active at moving points of time, the latest to start first.
class ActiveIntervals {
 public:
  explicit ActiveIntervals(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
    std::stable_sort(intervals_.begin(), intervals_.end(), [](const auto& a, const auto& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
  }

  // Until one is accepted. Points must not decrease.
  template <class Accept>
  void visit_at(Nanoseconds at, Accept accept) {
    for (; next_ < intervals_.size() && intervals_[next_].start <= at; ++next_) {
      open_.push_back(intervals_[next_]);
    }
    while (!open_.empty() && open_.back().end <= at) open_.pop_back();
    int looks = 0;
    for (auto one = open_.rbegin(); one != open_.rend() && looks < kMostEnclosing; ++one, ++looks) {
      if (one->end > at && accept(*one)) return;
    }
  }

 private:
  std::vector<Interval> intervals_, open_;
  std::size_t next_ = 0;
};

void add_long(const EventTimes& time, const Column<std::uint16_t>& thread, const Links& links,
              Table table, std::vector<Interval>& intervals) {
  const auto least = static_cast<Nanoseconds>(kMostOfIt * kLongStretch);
  for (std::uint32_t row = 0; row < time.size(); ++row) {
    if (time.duration(row) < least || !links.launches[thread[row]]) continue;
    intervals.push_back({time.start(row), time.end(row), table, thread[row], row});
  }
}

// What a stretch is spent in. `row` is that of the innermost operator or call.
struct Name {
  IdleCause cause = IdleCause::host_work;
  std::string_view text;
  std::string_view frame;    // the innermost function of the user's code
  std::string_view library;  // a function of a library inside `text`
  bool is_call = false;
  std::uint32_t row = kNone;
  Nanoseconds until = 0;     // the end of what `text` names
  std::uint32_t op = kNone;  // that `text` names
  bool goes_on = false;      // something of the program is around that began before
  bool is_profiler = false;
  bool is_kernel = false;  // `text` is what the stretch prepares

  bool says_nothing() const {
    return text.empty() && frame.empty() && library.empty() && row == kNone;
  }
};

class Namer {
 public:
  Namer(const Timeline& timeline, const Links& links)
      : timeline_(timeline),
        links_(links),
        first_calls_(timeline, links),
        active_(all_intervals()),
        whole_(whole_recording(timeline).span()) {}

  // Stretches must come in order. `thread` launches what ends it; where that one does nothing, it
  // waits for another.
  Name name_of(Nanoseconds start, Nanoseconds end, std::uint16_t thread) {
    Name name;
    std::optional<Interval> around;  // the innermost operator that does much else
    const auto look = [&](const Interval& interval) {
      const std::string_view text = text_of(interval);
      see_around(interval, start, end, name);
      if (!covers(interval, start, end)) return false;
      if (interval.table == Table::call) {
        name_by_call(interval, text, name);
        return true;
      }
      if (names_a_compiler(text)) {  // the outermost is the whole compilation
        name_by_call(interval, text, name);
        return false;
      }
      if (interval.table == Table::op && name.row == kNone) name.row = interval.row;
      if (says_nothing(interval)) return false;
      if (!is_around(interval, end - start)) {
        name_by_place(interval, text, name);
      } else if (!around && is_operator(interval)) {
        around = interval;
      }
      return false;
    };
    const Nanoseconds middle = start + (end - start) / 2;
    active_.visit_at(middle, [&](const Interval& interval) {
      return interval.thread == thread && look(interval);
    });
    if (name.says_nothing()) {
      active_.visit_at(middle, [&](const Interval& interval) {
        return interval.thread != thread && look(interval);
      });
    }
    if (around && name.text.empty() && name.frame.empty()) {
      name.text = text_of(*around);
      name.until = around->end;
      name.op = around->row;
    }
    if (name.cause == IdleCause::host_work && !name.is_call)
      name_first_call(start, end, thread, name);
    return name;
  }

 private:
  // What ends in a first call.
  void name_first_call(Nanoseconds start, Nanoseconds end, std::uint16_t thread, Name& name) {
    if (first_calls_.is_one(name.row, start, end)) {
      name.text = timeline_.strings[timeline_.ops.name[name.row]];
    } else if (const std::uint32_t kernel =
                   first_calls_.next_first_kernel(end, thread, end - start)) {
      name.text = timeline_.strings[kernel];
      name.is_kernel = true;
    } else {
      return;
    }
    name.cause = IdleCause::module_loading;
    name.library = {};
  }
  // A call of the runtime, or what compiles kernels, says it all.
  void name_by_call(const Interval& interval, std::string_view text, Name& name) const {
    name.is_call = interval.table == Table::call;
    const bool is_set_up = !name.is_call || first_calls_.is_first_call(interval.row);
    name.cause = is_set_up ? IdleCause::module_loading : IdleCause::host_work;
    name.text = text;
    name.library = {};
    name.row = interval.row;
    name.until = interval.end;
  }
  // The innermost function of the user's code, range or operator, with a library's function in it.
  void name_by_place(const Interval& interval, std::string_view text, Name& name) const {
    const bool is_python = interval.table == Table::python;
    const FrameKind kind = is_python ? frame_kind(text) : FrameKind::user;
    // The line is that of the function's definition: of one that is most of the recording no place.
    const bool is_around_all = 20 * (interval.end - interval.start) > 17 * whole_;
    if (is_python && kind == FrameKind::user && name.frame.empty() && !is_around_all) {
      name.frame = text;
    }
    if (name.cause == IdleCause::module_loading) return;
    if (!name.text.empty()) return;
    if (kind == FrameKind::user) {
      name.text = text;
      name.until = interval.end;
      if (is_operator(interval)) name.op = interval.row;
    }
    if (kind == FrameKind::library && name.library.empty()) name.library = text;
  }
  // What began before the stretch and ends no earlier, but for the file as a whole.
  void see_around(const Interval& interval, Nanoseconds start, Nanoseconds end, Name& name) const {
    const std::string_view text = text_of(interval);
    if (interval.table == Table::python && contains(text, "torch/profiler/profiler.py")) {
      name.is_profiler = true;
    }
    if (interval.start >= start || interval.end < end || interval.table == Table::call) return;
    const bool is_program =
        interval.table == Table::op
            ? timeline_.ops.kind[interval.row] == HostKind::annotation
            : frame_kind(text) == FrameKind::user && !text.ends_with("<module>");
    name.goes_on = name.goes_on || is_program;
  }
  static bool covers(const Interval& interval, Nanoseconds start, Nanoseconds end) {
    const Nanoseconds covered = std::min(interval.end, end) - std::max(interval.start, start);
    return static_cast<double>(covered) >= kMostOfIt * static_cast<double>(end - start);
  }
  std::vector<Interval> all_intervals() const {
    std::vector<Interval> intervals;
    add_long(timeline_.python.time, timeline_.python.thread, links_, Table::python, intervals);
    add_long(timeline_.ops.time, timeline_.ops.thread, links_, Table::op, intervals);
    add_long(timeline_.calls.time, timeline_.calls.thread, links_, Table::call, intervals);
    return intervals;
  }
  std::string_view text_of(const Interval& interval) const {
    const auto& names = interval.table == Table::python ? timeline_.python.name
                        : interval.table == Table::op   ? timeline_.ops.name
                                                        : timeline_.calls.name;
    return timeline_.strings[names[interval.row]];
  }
  // An operator or range that does much else has the stretch in it, but is not what it is spent in.
  static bool is_around(const Interval& interval, Nanoseconds stretch) {
    constexpr Nanoseconds kMuchElse = 3;  // times the stretch
    return interval.table == Table::op && interval.end - interval.start > kMuchElse * stretch;
  }
  bool is_operator(const Interval& interval) const {
    return interval.table == Table::op && timeline_.ops.kind[interval.row] == HostKind::op;
  }
  // A step's range: the program runs.
  bool says_nothing(const Interval& interval) const {
    return interval.table == Table::op && is_any_step(links_.kind_of_op(timeline_, interval.row));
  }

  const Timeline& timeline_;
  const Links& links_;
  FirstCalls first_calls_;
  ActiveIntervals active_;
  Nanoseconds whole_;
};

// "train.py(33): preprocess" -> preprocess.
std::string function_of(std::string_view frame) {
  const std::size_t colon = frame.find("): ");
  return std::string(colon == std::string_view::npos ? frame : frame.substr(colon + 3));
}

// The user's function with that of the library it is in: "step → schedule".
HostWorkUse use_of(const Name& name) {
  HostWorkUse use;
  use.cause = name.cause;
  use.source = source_of_frames(name.frame.empty() ? name.library : name.frame);
  std::vector<std::string> parts;
  for (const std::string_view text : {name.text, name.library}) {
    if (!text.empty()) parts.push_back(function_of(text));
  }
  use.name = join(parts, " → ");
  if (name.is_kernel) use.name = "before the first " + function_of_kernel(name.text);
  return use;
}

// Of one of a name's stretches; several may be of one call.
void add_stretch(const HostWait& wait, bool is_first, bool is_new_call, HostWorkUse& use) {
  const bool is_only = use.time <= Seconds();
  const Seconds length = to_seconds(wait.end - wait.start);
  use.is_first = is_first && (is_only || use.is_first);
  use.shortest = is_only ? length : std::min(use.shortest, length);
  use.longest = std::max(use.longest, length);
  use.count += is_new_call ? 1 : 0;
  use.time += length;
  use.exposed += to_seconds(wait.exposed);
}

// A call to allocate or free the GPU's memory takes milliseconds at most, and may wait for the GPU.
// On a GPU that does next to nothing so long a one sets CUDA or a library up.
bool takes_far_too_long(const Timeline& timeline, const HostWait& wait) {
  constexpr Nanoseconds kFarTooLong = 100'000'000;
  constexpr Nanoseconds kMostBusy = 10;  // a tenth of it
  const Nanoseconds length = wait.end - wait.start;
  const std::string_view name = timeline.strings[timeline.calls.name[wait.row]];
  if (length < kFarTooLong || contains(name, "Host")) return false;
  Nanoseconds busy = 0;
  for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const Nanoseconds start = std::max(timeline.gpu.time.start(row), wait.start);
    busy += std::max<Nanoseconds>(0, std::min(timeline.gpu.time.end(row), wait.end) - start);
  }
  return busy < length / kMostBusy;
}

bool takes_memory(const Timeline& timeline, const Links& links, const HostWait& wait) {
  if (!wait.is_call) return false;
  const CallKind kind = links.kind_of_call(timeline, wait.row);
  return kind == CallKind::allocation || kind == CallKind::release;
}

// Each node of a graph takes the call one to two microseconds where a profiler records it.
bool launches_large_graph(const Timeline& timeline, const Links& links, std::uint32_t call) {
  constexpr Nanoseconds kMostPerNode = 4'000;
  if (links.kind_of_call(timeline, call) != CallKind::graph_launch) return false;
  const auto nodes = std::ranges::count(links.gpu_call, call);
  return timeline.calls.time.duration(call) <= kMostPerNode * nodes;
}

}  // namespace

void add_other_work(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  if (timeline.calls.time.size() == 0) return;
  Stretches stretches(whole_recording(timeline));
  visit_marks(timeline, links, waits, [&](Nanoseconds at, std::uint16_t) { stretches.mark(at); });
  stretches.find_empty();
  visit_marks(timeline, links, waits,
              [&](Nanoseconds at, std::uint16_t thread) { stretches.bound(at, thread); });
  Namer namer(timeline, links);
  const OwnRanges ranges(timeline, links);
  auto wait = waits.begin();
  std::vector<HostWait> others;
  std::vector<Stretch> pieces;
  for (const Stretch& stretch : stretches.take()) {
    while (wait != waits.end() && wait->end <= stretch.start) ++wait;
    if (wait != waits.end() && wait->start < stretch.end) continue;  // it is this wait
    const std::vector<Stretch> cut = ranges.cut(stretch);
    pieces.insert(pieces.end(), cut.begin(), cut.end());
  }
  wait = waits.begin();
  for (const Stretch& stretch : pieces) {
    while (wait != waits.end() && wait->end <= stretch.start) ++wait;
    Name name = namer.name_of(stretch.start, stretch.end, stretch.thread);
    if (name.is_call && launches_large_graph(timeline, links, name.row)) {
      name.cause = IdleCause::profiler;
    }
    // Compiling ends as the module is loaded; work that ends before is something else.
    const bool loads_next = wait != waits.end() && wait->cause == IdleCause::module_loading &&
                            wait->start == stretch.end && !takes_memory(timeline, links, *wait);
    if (loads_next && (name.text.empty() || name.until > stretch.end)) {
      name.cause = IdleCause::module_loading;
    }
    others.push_back(
        {stretch.start, stretch.end, name.cause, stretch.thread, name.is_call, name.row});
    others.back().goes_on = name.goes_on && !name.is_profiler && !name.text.empty();
  }
  waits.insert(waits.end(), others.begin(), others.end());
}

void set_library_start_apart(const Timeline& timeline, const Links& links,
                             std::vector<HostWait>& waits) {
  const auto allocates = [](const HostWait& wait) {
    return wait.cause == IdleCause::allocator && wait.is_call;
  };
  if (std::ranges::none_of(waits, allocates)) return;
  FirstCalls first_calls(timeline, links);
  for (HostWait& wait : waits) {
    if (!allocates(wait)) continue;
    const bool is_set_up =
        first_calls.sets_library_up(links.call_op[wait.row]) ||
        takes_far_too_long(timeline, wait) || first_calls.creates_context(wait.row) ||
        (!first_calls.has_operators() && wait.end - wait.start >= kLongStretch &&
         first_calls.next_first_kernel(wait.end, wait.thread, kUnknownLength) != 0);
    if (is_set_up) wait.cause = IdleCause::module_loading;
  }
}

std::vector<HostWorkUse> tabulate_other_work(const Timeline& timeline, const Links& links,
                                             const std::vector<HostWait>& waits,
                                             const Window& steps) {
  Namer namer(timeline, links);
  using Key = std::tuple<IdleCause, std::string_view, std::string_view, std::string_view>;
  Nanoseconds launch = std::numeric_limits<Nanoseconds>::max();
  for (const std::uint32_t call : links.gpu_call) {
    if (call != kNone) launch = std::min(launch, timeline.calls.time.start(call));
  }
  std::map<Key, HostWorkUse> by_name;
  std::set<std::uint32_t> seen;  // operators: one with several stretches is one call
  for (const HostWait& wait : waits) {
    const bool is_in_steps = wait.start < steps.end && wait.end > steps.start;
    if (!is_other_work(wait.cause) || wait.cause == IdleCause::asleep || !is_in_steps) continue;
    if (wait.exposed == 0) continue;
    Name name = namer.name_of(wait.start, wait.end, wait.thread);
    name.cause = wait.cause;
    const bool is_one_op = !wait.is_call && wait.row != kNone;
    const bool is_compilation =
        is_one_op && links.kind_of_op(timeline, wait.row) == RangeKind::compilation;
    if (is_compilation || (is_one_op && wait.end - wait.start < kLongStretch)) {
      name = {};
      name.cause = wait.cause;
      name.text = timeline.strings[timeline.ops.name[wait.row]];
    }
    const bool is_first = wait.end <= launch;
    Key key{name.cause, name.text, name.frame, name.library};
    if (by_name.size() >= kMostWork && !by_name.contains(key)) {
      name.text = name.frame = name.library = {};
      key = {name.cause, {}, {}, {}};
    }
    HostWorkUse& use = by_name.try_emplace(key, use_of(name)).first->second;
    add_stretch(wait, is_first, name.op == kNone || seen.insert(name.op).second, use);
  }
  std::vector<HostWorkUse> uses;
  for (auto& [name, use] : by_name) uses.push_back(std::move(use));
  std::stable_sort(uses.begin(), uses.end(), [](const HostWorkUse& a, const HostWorkUse& b) {
    return a.exposed > b.exposed;
  });
  return uses;
}

std::vector<HostWorkUse> tabulate_all_work(const Timeline& timeline, const Links& links,
                                           const std::vector<HostWait>& waits, const Window& part) {
  constexpr double kVisible = 0.1;
  Namer namer(timeline, links);
  std::map<std::string, HostWorkUse> by_name;
  for (const HostWait& wait : waits) {
    const Window common{std::max(wait.start, part.start), std::min(wait.end, part.end)};
    if (common.span() <= 0) continue;
    Name name;
    name.cause = wait.cause;
    if (is_other_work(wait.cause) || wait.row == kNone) {
      name = namer.name_of(wait.start, wait.end, wait.thread);
    } else {
      name.text =
          timeline
              .strings[wait.is_call ? timeline.calls.name[wait.row] : timeline.ops.name[wait.row]];
    }
    const HostWorkUse named = use_of(name);
    if (named.name.empty()) continue;
    HostWorkUse& use = by_name.try_emplace(named.name, named).first->second;
    ++use.count;
    use.time += to_seconds(common.span());
  }
  std::vector<HostWorkUse> uses;
  for (auto& [name, use] : by_name) {
    if (use.time >= kVisible * to_seconds(part.span())) uses.push_back(std::move(use));
  }
  std::ranges::stable_sort(
      uses, [](const HostWorkUse& a, const HostWorkUse& b) { return a.time > b.time; });
  return uses;
}

}  // namespace rooftile::trace
