#include "rooftile/analysis/trace/steps.h"

#include <algorithm>
#include <limits>
#include <map>

#include "rooftile/analysis/trace/stages.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kFewestRounds = 3;
constexpr std::size_t kMostSteps = 65536;
constexpr std::size_t kMostAnchors = 256;
// Anchors tried as the start of the first round. What is before it is a quarter at the most, in
// number and in time: a loop within a step leaves more.
constexpr std::size_t kMostFirst = 32;
// Entries compared in all, in lengths of the sequence: bounds the time.
constexpr std::size_t kMostCompared = 64;

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

// At least three marks: two intervals between them tell a period.
StepMarks steps_between_marks(const Timeline& timeline, const Links& links) {
  std::vector<Nanoseconds> marks;
  for (const Window& range : ranges_of_first_name(timeline, links, RangeKind::optimizer_step)) {
    marks.push_back(range.end);
  }
  if (marks.size() >= kFewestRounds) return {StepSource::optimizer, between(marks), {}};
  marks.clear();
  for (const Window& range : ranges_of_first_name(timeline, links, RangeKind::loader)) {
    marks.push_back(range.start);
  }
  if (marks.size() >= kFewestRounds) return {StepSource::data_loader, between(marks), {}};
  return {};
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

// Names of the activities, and where a copy between host and device or the start of a graph may
// begin a step. Layers repeat as steps do; a step takes in data or gives out a result.
StepMarks steps_of_repetition(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  const GpuActivities& gpu = timeline.gpu;
  std::vector<std::uint32_t> names;
  std::vector<std::size_t> anchors;
  std::uint32_t graph = kNone;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i];
    names.push_back(gpu.name[row]);
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
    if ((crosses || starts_graph) && anchors.size() < kMostAnchors) anchors.push_back(i);
  }
  const auto repetition = find_repetition(names, anchors);
  if (!repetition) return {};
  std::vector<Nanoseconds> marks;
  for (std::size_t k = 0; k <= std::min(repetition->count, kMostSteps); ++k) {
    const std::size_t at = repetition->first + k * repetition->period;
    marks.push_back(at < track.rows.size() ? gpu.time.start(track.rows[at])
                                           : gpu.time.end(track.rows.back()));
  }
  const Nanoseconds all = gpu.time.end(track.rows.back()) - gpu.time.start(track.rows.front());
  if (4 * (marks.back() - marks.front()) < 3 * all) return {};
  return {StepSource::repetition, between(marks), {}};
}

bool repeats(std::span<const std::uint32_t> sequence, std::size_t period) {
  const std::size_t compared = sequence.size() - period;
  const std::size_t allowed = compared / 20;
  std::size_t different = 0;
  for (std::size_t i = 0; i < compared; ++i) {
    if (sequence[i] != sequence[i + period] && ++different > allowed) return false;
  }
  return true;
}

}  // namespace

StepMarks find_steps(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  if (auto steps = ranges_of(timeline, links, RangeKind::step); !steps.empty()) {
    return {StepSource::profiler_step, std::move(steps), {}};
  }
  if (auto steps = ranges_of(timeline, links, RangeKind::user_step); steps.size() > 1) {
    return {StepSource::user_range, std::move(steps), {}};
  }
  if (StepMarks marks = engine_steps(timeline, links); marks.steps.size() > 1) return marks;
  StepMarks marks = steps_between_marks(timeline, links);
  if (marks.source != StepSource::none) return marks;
  // Periods within the one step that an engine names are its layers.
  if (!ranges_of(timeline, links, RangeKind::engine_step).empty()) return {};
  return steps_of_repetition(timeline, links, track);
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
    end = std::max(end, timeline.gpu.time.end(row));
  }
  // What outlasts the step's own work, as a kernel that runs throughout, says nothing of its start.
  if (earlier < bounds[1]) bounds.front() = earlier;
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
      const std::size_t count = (sequence.size() - first) / period;
      if (count < kFewestRounds) break;
      if (sequence[first] != sequence[first + period]) continue;
      if (count * period * 10 < (sequence.size() - first) * 9) continue;
      if (start > 0 && count * period * 4 < sequence.size() * 3) continue;
      if (left < sequence.size()) return std::nullopt;
      left -= sequence.size();
      if (repeats(sequence.subspan(first), period)) return Repetition{first, period, count};
    }
  }
  return std::nullopt;
}

}  // namespace rooftile::trace
