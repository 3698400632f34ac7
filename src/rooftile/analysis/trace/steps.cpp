#include "rooftile/analysis/trace/steps.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/lost_work.h"
#include "rooftile/analysis/trace/stages.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kFewestRounds = 3;
constexpr std::size_t kMostSteps = 65536;
constexpr std::size_t kMostAnchors = 256;
// Anchors tried as the start of the first round. What is before it is a quarter at the most, in
// number and in time: a loop within a step leaves more.
constexpr std::size_t kMostFirst = 32;
constexpr std::size_t kMayDiffer = 20;  // one entry of so many, and one round
// Entries compared in all, in lengths of the sequence: bounds the time.
constexpr std::size_t kMostCompared = 64;
// Activities of a round that nothing but its names tells from a layer.
constexpr std::size_t kFewestUnmarked = 16;

// Ranges of one kind on the thread that has most of them; nested and overlapping ones left out.
std::vector<Window> ranges_of(const Timeline& timeline, const Links& links, RangeKind kind) {
  std::map<std::uint16_t, std::vector<Window>> by_thread;
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (links.kind_of_op(timeline, op) != kind) continue;
    by_thread[timeline.ops.thread[op]].push_back(
        {timeline.ops.time.start(op), timeline.ops.time.end(op)});
  }
  std::vector<Window> most;
  for (auto& [thread, ranges] : by_thread) {
    if (ranges.size() > most.size()) most = std::move(ranges);
  }
  std::sort(most.begin(), most.end(), [](const Window& a, const Window& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<Window> disjoint;
  for (const Window& range : most) {
    if (disjoint.size() == kMostSteps) break;
    if (disjoint.empty() || range.start >= disjoint.back().end) disjoint.push_back(range);
  }
  return disjoint;
}

// Whether the steps launch most of what the GPU computes: ranges that repeat within a step do not.
// Copies do not count: a program uploads its weights before its first step.
bool cover_most_kernels(const std::vector<Window>& steps, const Timeline& timeline,
                        const Links& links) {
  Nanoseconds all = 0, inside = 0;
  for (std::size_t row = 0; row < timeline.gpu.time.size(); ++row) {
    if (timeline.gpu.kind[row] != GpuKind::kernel || links.leftover[row]) continue;
    const std::uint32_t call = links.gpu_call[row];
    const Nanoseconds launched =
        call == kNone ? timeline.gpu.time.start(row) : timeline.calls.time.start(call);
    all += timeline.gpu.time.duration(row);
    const auto next =
        std::upper_bound(steps.begin(), steps.end(), launched,
                         [](Nanoseconds at, const Window& step) { return at < step.start; });
    if (next != steps.begin() && std::prev(next)->contains(launched)) {
      inside += timeline.gpu.time.duration(row);
    }
  }
  return 2 * inside >= all;
}

// Of ranges with several names, as two optimizers have, those of the first name.
std::vector<Window> ranges_of_first_name(const Timeline& timeline, const Links& links,
                                         RangeKind kind) {
  std::uint32_t name = kNone;
  std::vector<Window> ranges;
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (links.kind_of_op(timeline, op) != kind) continue;
    if (name == kNone) name = timeline.ops.name[op];
    if (timeline.ops.name[op] != name || ranges.size() == kMostSteps) continue;
    ranges.push_back({timeline.ops.time.start(op), timeline.ops.time.end(op)});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Window& a, const Window& b) { return a.start < b.start; });
  return ranges;
}

std::vector<Window> between(const std::vector<Nanoseconds>& marks) {
  std::vector<Window> steps;
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    if (marks[i + 1] > marks[i]) steps.push_back({marks[i], marks[i + 1]});
  }
  return steps;
}

// What the track's GPU was given to do, in the order of the launches.
class LaunchOrder {
 public:
  LaunchOrder(const Timeline& timeline, const Links& links, const GpuTrack& track) {
    for (const std::uint32_t row : track.rows) {
      const std::uint32_t call = links.gpu_call[row];
      if (call != kNone) launched_.emplace_back(timeline.calls.time.start(call), row);
    }
    std::ranges::stable_sort(launched_, {}, &Launched::first);
    for (const Launched& one : launched_) rows_.push_back(one.second);
  }

  std::span<const std::uint32_t> all() const { return rows_; }
  std::span<const std::uint32_t> within(const Window& window) const {
    const auto from = std::ranges::lower_bound(launched_, window.start, {}, &Launched::first);
    const auto to = std::ranges::lower_bound(launched_, window.end, {}, &Launched::first);
    return std::span(rows_).subspan(static_cast<std::size_t>(from - launched_.begin()),
                                    static_cast<std::size_t>(to - from));
  }

 private:
  using Launched = std::pair<Nanoseconds, std::uint32_t>;

  std::vector<Launched> launched_;
  std::vector<std::uint32_t> rows_;
};

// Whether a part starts about as many activities.
bool is_alike(const LaunchOrder& order, const Window& part, const Window& other) {
  constexpr double kUnlike = 0.2;
  const auto size = static_cast<double>(order.within(part).size());
  const auto others = static_cast<double>(order.within(other).size());
  return others > 0 && std::abs(size - others) <= kUnlike * others;
}

// At least three marks: two intervals between them tell a period. What comes before the first mark
// is a step, too, where it has the work of one.
StepMarks steps_between_marks(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  std::vector<Nanoseconds> marks;
  for (const Window& range : ranges_of_first_name(timeline, links, RangeKind::optimizer_step)) {
    marks.push_back(range.end);
  }
  if (marks.size() >= kFewestRounds) {
    const LaunchOrder order(timeline, links, track);
    const Window head{whole_recording(timeline).start, marks.front()};
    if (is_alike(order, head, {marks[0], marks[1]})) marks.insert(marks.begin(), head.start);
    return {StepSource::optimizer, between(marks), {}};
  }
  marks.clear();
  for (const Window& range : ranges_of_first_name(timeline, links, RangeKind::loader)) {
    marks.push_back(range.start);
  }
  std::vector<Window> steps = between(marks);
  const bool are_steps =
      marks.size() >= kFewestRounds && cover_most_kernels(steps, timeline, links);
  return are_steps ? StepMarks{StepSource::data_loader, std::move(steps), {}} : StepMarks{};
}

// With the work of each where all names say it.
StepMarks engine_steps(const Timeline& timeline, const Links& links) {
  StepMarks marks{StepSource::engine, ranges_of(timeline, links, RangeKind::engine_step), {}};
  std::map<std::pair<Nanoseconds, Nanoseconds>, ServingStage> work_of;
  for (std::uint32_t op = 0; op < timeline.ops.time.size() && !marks.steps.empty(); ++op) {
    if (links.kind_of_op(timeline, op) != RangeKind::engine_step) continue;
    const ServingStage work = stage_of_label(timeline.strings[timeline.ops.name[op]]);
    if (work == ServingStage::none) continue;
    work_of[{timeline.ops.time.start(op), timeline.ops.time.end(op)}] = work;
  }
  for (const Window& step : marks.steps) {
    const auto work = work_of.find({step.start, step.end});
    if (work == work_of.end()) {
      marks.work.clear();
      break;
    }
    marks.work.push_back(work->second);
  }
  return marks;
}

// Whether nearly each round holds an anchor: a layer that repeats takes in no data.
bool has_anchors(const std::vector<std::size_t>& anchors, const Repetition& repetition) {
  std::size_t with = 0, next = repetition.first;
  for (const std::size_t anchor : anchors) {
    if (anchor < next) continue;
    const std::size_t round = (anchor - repetition.first) / repetition.period;
    if (round >= repetition.count) break;
    ++with;
    next = repetition.first + (round + 1) * repetition.period;
  }
  return with + repetition.count / kMayDiffer >= repetition.count;
}

// From the start of each round to that of the next.
StepMarks steps_of_rounds(const Timeline& timeline, std::span<const std::uint32_t> rows,
                          const Repetition& repetition) {
  const EventTimes& time = timeline.gpu.time;
  std::vector<Nanoseconds> marks;
  for (std::size_t k = 0; k <= std::min(repetition.count, kMostSteps); ++k) {
    const std::size_t at = repetition.first + k * repetition.period;
    marks.push_back(at < rows.size() ? time.start(rows[at]) : time.end(rows.back()));
  }
  // Most of the time, or of the time of kernels: a start-up with uploads takes long.
  const auto work_of = [&](std::span<const std::uint32_t> some) {
    Nanoseconds sum = 0;
    for (const std::uint32_t row : some) {
      if (timeline.gpu.kind[row] == GpuKind::kernel) sum += time.duration(row);
    }
    return sum;
  };
  const Nanoseconds all = time.end(rows.back()) - time.start(rows.front());
  const auto inside = rows.subspan(repetition.first, repetition.count * repetition.period);
  const bool is_most =
      4 * (marks.back() - marks.front()) >= 3 * all || 4 * work_of(inside) >= 3 * work_of(rows);
  if (!is_most) return {};
  return {StepSource::repetition, between(marks), {}};
}

std::vector<std::uint32_t> names_of(const Timeline& timeline, std::span<const std::uint32_t> rows) {
  std::vector<std::uint32_t> names;
  for (const std::uint32_t row : rows) names.push_back(timeline.gpu.name[row]);
  return names;
}

// One kernel with the copy of its input or result is no step; with both it is.
bool is_step(const Timeline& timeline, std::span<const std::uint32_t> round) {
  const auto count = [&](auto counts) { return std::ranges::count_if(round, counts); };
  const auto copies = [&](CopyKind kind) {
    return count([&](std::uint32_t row) {
      return timeline.gpu.kind[row] == GpuKind::copy &&
             timeline.copies[timeline.gpu.details[row]].kind == kind;
    });
  };
  const auto kernels =
      count([&](std::uint32_t row) { return timeline.gpu.kind[row] == GpuKind::kernel; });
  return kernels > 1 || (kernels == 1 && copies(CopyKind::host_to_device) > 0 &&
                         copies(CopyKind::device_to_host) > 0);
}

// Layers are followed by other kernels at the end of each pass, so only whole passes repeat without
// a difference.
StepMarks steps_of_exact_repetition(const Timeline& timeline, const GpuTrack& track) {
  const auto repetition = find_exact_repetition(names_of(timeline, track.rows));
  if (!repetition || repetition->period < kFewestUnmarked) return {};
  return steps_of_rounds(timeline, track.rows, *repetition);
}

// A few kernels may be those of layers; but for many rounds of them and, beside copies before and
// after, nothing else.
StepMarks steps_of_all_kernels(const Timeline& timeline, const GpuTrack& track) {
  constexpr std::size_t kManyRounds = 100;  // more than a network has layers
  constexpr std::size_t kNearlyAll = 50;    // but for one in so many
  const auto is_kernel = [&](std::uint32_t row) {
    return timeline.gpu.kind[row] == GpuKind::kernel;
  };
  const auto first = std::ranges::find_if(track.rows, is_kernel);
  const auto last = std::find_if(track.rows.rbegin(), track.rows.rend(), is_kernel).base();
  if (first >= last) return {};
  const std::span rows(first, last);
  const auto repetition = find_exact_repetition(names_of(timeline, rows));
  const bool is_all = repetition && repetition->count >= kManyRounds &&
                      kNearlyAll * repetition->first <= rows.size() &&
                      is_step(timeline, rows.subspan(repetition->first, repetition->period));
  return is_all ? steps_of_rounds(timeline, rows, *repetition) : StepMarks{};
}

// What tells an activity from others: the operator that launched it, as a library chooses among
// kernels by sizes that grow from step to step; else its own name.
std::uint32_t token_of(const Timeline& timeline, const Links& links, std::uint32_t row) {
  const std::uint32_t call = links.gpu_call[row];
  const bool is_kernel = timeline.gpu.kind[row] == GpuKind::kernel && call != kNone &&
                         links.kind_of_call(timeline, call) == CallKind::launch;
  const std::uint32_t op = is_kernel ? links.call_op[call] : kNone;
  const bool has_op = op != kNone && timeline.ops.kind[op] == HostKind::op;
  return has_op ? timeline.ops.name[op] : timeline.gpu.name[row];
}

// Names of the activities, and where a copy between host and device or the start of a graph may
// begin a step. Layers repeat as steps do; a step takes in data or gives out a result.
StepMarks steps_of_repetition(const Timeline& timeline, const Links& links, const GpuTrack& track,
                              bool ends_early) {
  const GpuActivities& gpu = timeline.gpu;
  std::vector<std::uint32_t> names;
  std::vector<std::size_t> anchors;
  std::uint32_t graph = kNone;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i];
    names.push_back(token_of(timeline, links, row));
    const std::uint32_t call = links.gpu_call[row];
    const bool is_graph =
        call != kNone && links.kind_of_call(timeline, call) == CallKind::graph_launch;
    const bool starts_graph = is_graph && call != graph;
    if (is_graph) graph = call;
    bool crosses = false;
    if (gpu.kind[row] == GpuKind::copy) {
      const CopyKind kind = timeline.copies[gpu.details[row]].kind;
      crosses = kind == CopyKind::host_to_device || kind == CopyKind::device_to_host;
    }
    if (crosses || starts_graph) anchors.push_back(i);
  }
  const auto repetition =
      find_repetition(names, std::span(anchors).first(std::min(anchors.size(), kMostAnchors)));
  if (!repetition || !has_anchors(anchors, *repetition)) {
    if (ends_early) return {};
    StepMarks marks = steps_of_exact_repetition(timeline, track);
    return marks.steps.empty() ? steps_of_all_kernels(timeline, track) : std::move(marks);
  }
  const auto round = std::span(track.rows).subspan(repetition->first, repetition->period);
  if (!is_step(timeline, round)) return {};
  return steps_of_rounds(timeline, track.rows, *repetition);
}

// What the GPU was given to do between two waits of the host for it: equal work has one id.
struct Block {
  std::size_t first = 0, last = 0;  // of the launch order
  std::size_t id = 0;
};

// Waits of the host for the GPU that may end a round of a loop; within an operator, as in one that
// reads a size back, they are a layer's.
std::vector<Nanoseconds> waits_of_loops(const Timeline& timeline, const Links& links,
                                        const GpuTrack& track, bool is_plain) {
  std::vector<Nanoseconds> waits;
  for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
    const std::uint32_t op = links.call_op[call];
    const bool is_outside = op == kNone || timeline.ops.kind[op] == HostKind::annotation;
    if (is_wait(links.kind_of_call(timeline, call)) && is_outside) {
      waits.push_back(timeline.calls.time.end(call));
    }
  }
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    const bool blocks =
        call != kNone && links.kind_of_call(timeline, call) == CallKind::blocking_copy;
    if (is_plain && blocks) waits.push_back(timeline.calls.time.end(call));
  }
  std::ranges::sort(waits);
  return waits;
}

std::vector<Block> blocks_between(const std::vector<Nanoseconds>& waits, const Timeline& timeline,
                                  const LaunchOrder& order) {
  std::map<std::vector<std::uint32_t>, std::size_t> ids;
  std::vector<Block> blocks;
  std::size_t first = 0;
  Nanoseconds from = std::numeric_limits<Nanoseconds>::min();
  for (const Nanoseconds until : waits) {
    const auto rows = order.within({from, until});
    from = until;
    if (rows.empty()) continue;
    const std::size_t id = ids.try_emplace(names_of(timeline, rows), ids.size()).first->second;
    blocks.push_back({first, first + rows.size(), id});
    first += rows.size();
  }
  return blocks;
}

// The rounds of a loop of the program: equal work, each followed by a wait of the host, that is
// most of what the GPU did.
StepMarks steps_of_loop(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  constexpr std::size_t kMostBlocks = 8;  // of a round
  constexpr std::size_t kMany = 10;       // rounds: beside half as much that happens once
  const LaunchOrder order(timeline, links, track);
  const bool is_plain = !has_operators(timeline, links);
  const std::vector<Block> blocks =
      blocks_between(waits_of_loops(timeline, links, track, is_plain), timeline, order);
  const auto rows = order.all();
  const auto kernel_time = [&](std::size_t first, std::size_t last) {
    Nanoseconds sum = 0;
    for (const std::uint32_t row : rows.subspan(first, last - first)) {
      if (timeline.gpu.kind[row] == GpuKind::kernel) sum += timeline.gpu.time.duration(row);
    }
    return sum;
  };
  const Nanoseconds all = kernel_time(0, rows.size());
  for (std::size_t period = 1; period <= kMostBlocks; ++period) {
    for (std::size_t begin = 0; begin + kFewestRounds * period <= blocks.size();) {
      std::size_t end = begin + period;
      while (end < blocks.size() && blocks[end].id == blocks[end - period].id) ++end;
      const std::size_t count = (end - begin) / period;
      const std::size_t last = begin + count * period - 1;
      const Nanoseconds inside = kernel_time(blocks[begin].first, blocks[last].last);
      const std::size_t activities = blocks[last].last - blocks[begin].first;
      const auto round = rows.subspan(blocks[begin].first, activities / count);
      const bool is_most = 4 * inside >= 3 * all || (count >= kMany && 2 * inside >= all &&
                                                     4 * activities >= 3 * rows.size());
      if (count >= kFewestRounds && inside > 0 && is_most &&
          (is_plain || is_step(timeline, round))) {
        std::vector<Nanoseconds> marks;
        for (std::size_t k = 0; k < count && k < kMostSteps; ++k) {
          marks.push_back(timeline.gpu.time.start(rows[blocks[begin + k * period].first]));
        }
        marks.push_back(timeline.gpu.time.end(rows[blocks[last].last - 1]));
        return {StepSource::repetition, between(marks), {}};
      }
      begin = std::max(begin + 1, end - period);
    }
  }
  return {};
}

// Time of the kernels of the first step that start before then.
Nanoseconds work_before(Nanoseconds until, const std::vector<Window>& steps,
                        const Timeline& timeline, const Links& links) {
  Nanoseconds sum = 0;
  for (std::size_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone || timeline.gpu.kind[row] != GpuKind::kernel) continue;
    if (!steps.front().contains(timeline.calls.time.start(call))) continue;
    if (timeline.gpu.time.start(row) < until) sum += timeline.gpu.time.duration(row);
  }
  return sum;
}

// Steps that a range holds, from the end of one optimizer step to that of the next, where they are
// alike: about as many activities in each.
std::vector<Window> optimizer_rounds(std::span<const Window> optimizer_steps,
                                     const LaunchOrder& order, const Window& range) {
  std::vector<Nanoseconds> marks;
  auto step = std::ranges::lower_bound(optimizer_steps, range.start, {}, &Window::start);
  for (; step != optimizer_steps.end() && step->start < range.end; ++step) {
    marks.push_back(step->end);
  }
  if (marks.size() < kFewestRounds) return {};
  std::vector<Window> rounds = between(marks);
  const bool are_alike = std::ranges::all_of(
      rounds, [&](const Window& round) { return is_alike(order, round, rounds.front()); });
  return are_alike ? rounds : std::vector<Window>{};
}

// The same by the names of the kernels.
std::vector<Window> kernel_rounds(const Timeline& timeline, const LaunchOrder& order,
                                  const Window& range) {
  const std::span<const std::uint32_t> rows = order.within(range);
  const auto repetition = find_exact_repetition(names_of(timeline, rows));
  if (!repetition || repetition->period < kFewestUnmarked) return {};
  return steps_of_rounds(timeline, rows, *repetition).steps;
}

// Steps of the profiler or the user, or what they all hold several of.
StepMarks in_rounds(StepMarks marks, const Timeline& timeline, const Links& links,
                    const GpuTrack& track) {
  const LaunchOrder order(timeline, links, track);
  const auto split = [&](StepSource source, const auto& rounds_of) -> std::optional<StepMarks> {
    StepMarks finer{source, {}, {}, 0, marks.silent_head};
    for (const Window& step : marks.steps) {
      if (order.within(step).empty()) continue;
      const std::vector<Window> rounds = rounds_of(step);
      if (rounds.empty()) return std::nullopt;
      finer.rounds = std::max(finer.rounds, rounds.size());
      std::ranges::copy(rounds, std::back_inserter(finer.steps));
    }
    return finer.steps.empty() ? std::nullopt : std::optional(std::move(finer));
  };
  const std::vector<Window> optimizer_steps =
      ranges_of_first_name(timeline, links, RangeKind::optimizer_step);
  auto finer = split(StepSource::optimizer, [&](const Window& step) {
    return optimizer_rounds(optimizer_steps, order, step);
  });
  if (!finer) {
    finer = split(StepSource::repetition,
                  [&](const Window& step) { return kernel_rounds(timeline, order, step); });
  }
  return finer ? std::move(*finer) : std::move(marks);
}

// From the step's start until anything in it is recorded to begin.
Nanoseconds silence(const Timeline& timeline, const Links& links, const Window& step) {
  Nanoseconds first = step.end;
  const auto see = [&](Nanoseconds start) {
    if (start >= step.start) first = std::min(first, start);
  };
  for (std::uint32_t op = 0; op < timeline.ops.time.size(); ++op) {
    if (links.kind_of_op(timeline, op) != RangeKind::step) see(timeline.ops.time.start(op));
  }
  for (const EventTimes* time : {&timeline.calls.time, &timeline.python.time}) {
    for (std::uint32_t row = 0; row < time->size(); ++row) see(time->start(row));
  }
  return first - step.start;
}

// What comes before anything is recorded in the profiler's first step is its own start: far longer
// than in the next step. Its length; 0 where nothing is cut.
Nanoseconds cut_silent_head(const Timeline& timeline, const Links& links,
                            std::vector<Window>& steps) {
  constexpr Nanoseconds kShortest = 200'000;
  const Nanoseconds head = silence(timeline, links, steps.front());
  if (head < kShortest || head >= steps.front().span()) return 0;
  if (steps.size() > 1 && 2 * silence(timeline, links, steps[1]) > head) return 0;
  steps.front().start += head;
  return head;
}

// Where whole rounds must begin to cover what follows, but for a part of one: at `first`, or
// before, as the recording may begin with the rest of a round. Behind a later anchor than the first
// they must be most of the sequence.
std::optional<std::size_t> begin_of_rounds(std::span<const std::uint32_t> sequence,
                                           std::size_t first, std::size_t period,
                                           bool is_first_anchor) {
  const auto covers = [&](std::size_t from) {
    const std::size_t all = sequence.size() - from, covered = all / period * period;
    return covered * 10 >= all * 9 && (is_first_anchor || covered * 4 >= sequence.size() * 3);
  };
  if (covers(first)) return first;
  std::size_t begin = first;
  while (begin > 0 && first - begin < period &&
         sequence[begin - 1] == sequence[begin - 1 + period]) {
    --begin;
  }
  return covers(begin) ? std::optional(begin) : std::nullopt;
}

bool repeats(std::span<const std::uint32_t> sequence, std::size_t period) {
  const std::size_t compared = sequence.size() - period;
  const std::size_t allowed = compared / kMayDiffer;
  std::size_t different = 0;
  for (std::size_t i = 0; i < compared; ++i) {
    if (sequence[i] != sequence[i + period] && ++different > allowed) return false;
  }
  return true;
}

}  // namespace

StepMarks find_steps(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  if (auto steps = ranges_of(timeline, links, RangeKind::step); !steps.empty()) {
    const Nanoseconds head = cut_silent_head(timeline, links, steps);
    return in_rounds({StepSource::profiler_step, std::move(steps), {}, 0, head}, timeline, links,
                     track);
  }
  StepMarks named{StepSource::user_range, ranges_of(timeline, links, RangeKind::user_step), {}};
  if (!named.steps.empty() && !cover_most_kernels(named.steps, timeline, links))
    named.steps.clear();
  if (named.steps.size() > 1) return in_rounds(std::move(named), timeline, links, track);
  if (StepMarks marks = engine_steps(timeline, links);
      !marks.steps.empty() && cover_most_kernels(marks.steps, timeline, links)) {
    return marks;
  }
  StepMarks marks = steps_between_marks(timeline, links, track);
  if (marks.source != StepSource::none) return marks;
  // Periods within the one step that an engine names are its layers.
  if (!ranges_of(timeline, links, RangeKind::engine_step).empty()) return {};
  marks = steps_of_repetition(timeline, links, track, ends_early(lost_work(timeline, links)));
  if (marks.source != StepSource::none) return marks;
  marks = steps_of_loop(timeline, links, track);
  if (marks.source != StepSource::none) return marks;
  return named.steps.empty() ? StepMarks{} : named;
}

Window whole_recording(const Timeline& timeline) {
  Window window{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  for (const EventTimes* time : {&timeline.ops.time, &timeline.calls.time, &timeline.gpu.time}) {
    for (std::size_t row = 0; row < time->size(); ++row) {
      window.start = std::min(window.start, time->start(row));
      window.end = std::max(window.end, time->end(row));
    }
  }
  return window.start > window.end ? Window{} : window;
}

std::vector<Nanoseconds> step_bounds(const StepMarks& marks, const Timeline& timeline,
                                     const Links& links) {
  const std::vector<Window>& steps = marks.steps;
  std::vector<Nanoseconds> bounds{steps.front().start};
  for (const Window& step : steps) bounds.push_back(step.end);
  if (marks.source == StepSource::repetition) return bounds;
  Nanoseconds earlier = bounds.front();
  Nanoseconds first_work = std::numeric_limits<Nanoseconds>::max();  // of the first step
  for (std::size_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const std::uint32_t call = links.gpu_call[row];
    if (links.leftover[row]) earlier = std::max(earlier, timeline.gpu.time.end(row));
    if (call == kNone) continue;
    const Nanoseconds launched = timeline.calls.time.start(call);
    if (launched < steps.front().start) earlier = std::max(earlier, timeline.gpu.time.end(row));
    if (launched < steps.front().start || launched >= steps.back().end) continue;
    const auto next =
        std::upper_bound(steps.begin(), steps.end(), launched,
                         [](Nanoseconds at, const Window& step) { return at < step.start; });
    // The first bound is the start, so this is the end of the step before `next`.
    Nanoseconds& end = bounds[static_cast<std::size_t>(next - steps.begin())];
    if (&end == &bounds[1]) first_work = std::min(first_work, timeline.gpu.time.start(row));
    end = std::max(end, timeline.gpu.time.end(row));
  }
  // What outlasts most of the step's own work, on another stream, says nothing of its start.
  if (earlier < bounds[1] && 2 * work_before(earlier, steps, timeline, links) <
                                 work_before(bounds[1], steps, timeline, links)) {
    bounds.front() = earlier;
  }
  // The GPU is behind the host by as much at the end of each step, and at the start of the first;
  // one that finds it idle shows no steady start.
  const Nanoseconds behind = steps.front().start + (bounds[1] - steps.front().end);
  const bool counts =
      steps.size() > 1 || (marks.source != StepSource::engine && earlier <= steps.front().start);
  if (counts && bounds.front() < std::min(behind, first_work)) {
    bounds.front() = std::min(behind, first_work);
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) bounds[i] = std::max(bounds[i], bounds[i - 1]);
  return bounds;
}

std::optional<Repetition> find_repetition(std::span<const std::uint32_t> sequence,
                                          std::span<const std::size_t> anchors) {
  std::size_t left = kMostCompared * sequence.size();
  for (std::size_t start = 0; start < std::min(anchors.size(), kMostFirst); ++start) {
    const std::size_t first = anchors[start];
    if (start > 0 && 4 * first > sequence.size()) break;
    for (std::size_t i = start + 1; i < anchors.size(); ++i) {
      const std::size_t period = anchors[i] - first;
      if ((sequence.size() - first) / period < kFewestRounds) break;
      if (sequence[first] != sequence[first + period]) continue;
      const auto begin = begin_of_rounds(sequence, first, period, start == 0);
      if (!begin) continue;
      if (left < sequence.size()) return std::nullopt;
      left -= sequence.size();
      if (repeats(sequence.subspan(*begin), period)) {
        return Repetition{*begin, period, (sequence.size() - *begin) / period};
      }
    }
  }
  return std::nullopt;
}

std::optional<Repetition> find_exact_repetition(std::span<const std::uint32_t> sequence) {
  // Of each prefix of the reversed sequence the longest one that also begins and is not all of it.
  const std::size_t size = sequence.size();
  const auto at = [&](std::size_t i) { return sequence[size - 1 - i]; };
  std::vector<std::size_t> borders(size);
  for (std::size_t i = 1, border = 0; i < size; ++i) {
    while (border > 0 && at(i) != at(border)) border = borders[border - 1];
    if (at(i) == at(border)) ++border;
    borders[i] = border;
  }
  for (std::size_t length = size; length > 0 && 2 * length >= size; --length) {
    const std::size_t period = length - borders[length - 1];
    const std::size_t count = length / period;
    if (count >= kFewestRounds) return Repetition{size - count * period, period, count};
  }
  return std::nullopt;
}

}  // namespace rooftile::trace
