#include "rooftile/analysis/trace/step_parts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

// How much of each step a union of intervals covers. Starts must not decrease.
class UnionBySteps {
 public:
  explicit UnionBySteps(const std::vector<Nanoseconds>& bounds)
      : bounds_(bounds), lengths_(bounds.size() - 1), reach_(bounds.front()) {}

  void add(Nanoseconds start, Nanoseconds end) {
    start = std::max(start, reach_);
    end = std::min(end, bounds_.back());
    reach_ = std::max(reach_, end);
    while (start < end) {
      while (bounds_[step_ + 1] <= start) ++step_;
      const Nanoseconds to = std::min(end, bounds_[step_ + 1]);
      lengths_[step_] += to - start;
      start = to;
    }
  }
  Nanoseconds in_step(std::size_t step) const { return lengths_[step]; }

 private:
  const std::vector<Nanoseconds>& bounds_;
  std::vector<Nanoseconds> lengths_;
  std::size_t step_ = 0;
  Nanoseconds reach_;
};

constexpr std::size_t kStepParts = static_cast<std::size_t>(StepPart::idle_unknown) + 1;
using StepTimes = std::array<Nanoseconds, kStepParts>;

Nanoseconds& time_of(StepTimes& times, StepPart part) {
  return times.at(static_cast<std::size_t>(part));
}

StepLimit largest(const StepTimes& times) {
  const auto most = std::max_element(times.begin(), times.end());
  if (*most <= 0) return {};  // a step without length: the GPU still worked for the one before
  return {static_cast<StepPart>(most - times.begin()), to_seconds(*most)};
}

void add_busy(const std::vector<Nanoseconds>& bounds, const Timeline& timeline,
              const GpuTrack& track, std::vector<StepTimes>& steps) {
  UnionBySteps all(bounds), kernels(bounds), compute(bounds);
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const Nanoseconds start = timeline.gpu.time.start(track.rows[i]);
    const Nanoseconds end = timeline.gpu.time.end(track.rows[i]);
    all.add(start, end);
    if (track.classes[i] != GpuClass::copy) kernels.add(start, end);
    if (track.classes[i] == GpuClass::compute) compute.add(start, end);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    time_of(steps[i], StepPart::compute) = compute.in_step(i);
    time_of(steps[i], StepPart::exposed_communication) = kernels.in_step(i) - compute.in_step(i);
    time_of(steps[i], StepPart::exposed_copy) = all.in_step(i) - kernels.in_step(i);
  }
}

void add_idle(const std::vector<Nanoseconds>& bounds, const std::vector<IdlePiece>& pieces,
              std::vector<StepTimes>& steps) {
  std::vector<UnionBySteps> causes(static_cast<std::size_t>(IdleCause::unknown) + 1,
                                   UnionBySteps(bounds));
  for (const IdlePiece& piece : pieces) {
    causes[static_cast<std::size_t>(piece.cause)].add(piece.start, piece.end);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t cause = 0; cause < causes.size(); ++cause) {
      time_of(steps[i], part_of(static_cast<IdleCause>(cause))) = causes[cause].in_step(i);
    }
  }
}

Nanoseconds length_of(const StepTimes& times) {
  return std::accumulate(times.begin(), times.end(), Nanoseconds{0});
}

constexpr double kSlow = 1.2;  // times the median

// The median of each part and of the whole.
struct UsualStep {
  explicit UsualStep(std::span<const StepTimes> steps) {
    std::vector<Nanoseconds> values;
    for (const StepTimes& times : steps) values.push_back(length_of(times));
    least_slow = kSlow * static_cast<double>(median(values));
    for (std::size_t part = 0; part < kStepParts; ++part) {
      values.clear();
      for (const StepTimes& times : steps) values.push_back(times.at(part));
      parts.at(part) = median(values);
    }
  }
  bool is_slow(const StepTimes& step) const {
    return static_cast<double>(length_of(step)) >= least_slow;
  }
  bool is_twice_as_long(const StepTimes& step) const {
    return kSlow * static_cast<double>(length_of(step)) >= 2 * least_slow;
  }
  // The part that is longest beyond its median.
  StepLimit beyond(const StepTimes& step) const {
    StepTimes more{};
    for (std::size_t part = 0; part < kStepParts; ++part) {
      more.at(part) = step.at(part) - parts.at(part);
    }
    return largest(more);
  }

  StepTimes parts{};  // medians
  double least_slow = 0;
};

std::vector<SlowStep> slow_steps(const std::vector<StepTimes>& steps) {
  constexpr std::size_t kFewest = 3;
  if (steps.size() < kFewest) return {};
  const UsualStep usual(steps);
  std::vector<SlowStep> slow;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!usual.is_slow(steps[i])) continue;
    const StepLimit most = usual.beyond(steps[i]);
    if (most.time > Seconds()) slow.push_back({static_cast<std::int64_t>(i), most.part, most.time});
  }
  return slow;
}

std::vector<StepTimes> times_of(const std::vector<Nanoseconds>& bounds, const Timeline& timeline,
                                const GpuTrack& track, const std::vector<IdlePiece>& pieces) {
  std::vector<StepTimes> steps(bounds.size() - 1);
  add_busy(bounds, timeline, track, steps);
  add_idle(bounds, pieces, steps);
  return steps;
}

// What a cause keeps from running beside collectives is that cause's.
void move_to_causes(const std::vector<Nanoseconds>& bounds,
                    const std::vector<IdlePiece>& beside_communication,
                    std::vector<StepTimes>& steps) {
  std::vector<StepTimes> moved(steps.size());
  add_idle(bounds, beside_communication, moved);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t part = 0; part < kStepParts; ++part) {
      steps[i].at(part) += moved[i].at(part);
      time_of(steps[i], StepPart::exposed_communication) -= moved[i].at(part);
    }
  }
}

// Its largest part; of a step unlike most, where that part is no longer than usual, the part that
// has grown by a tenth of the step, or what limits most.
std::vector<StepLimit> limits_of(const std::vector<StepTimes>& steps, bool are_alike) {
  constexpr std::size_t kFewest = 3;
  constexpr Nanoseconds kGrown = 10;
  std::vector<StepLimit> limits;
  for (const StepTimes& times : steps) limits.push_back(largest(times));
  if (steps.size() < kFewest || !are_alike) return limits;
  std::array<std::size_t, kStepParts> counts{};
  for (const StepLimit& limit : limits) ++counts.at(static_cast<std::size_t>(limit.part));
  const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
  const UsualStep usual(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto part = static_cast<std::size_t>(limits[i].part);
    const Nanoseconds least = length_of(steps[i]) / kGrown;
    if (part == most || steps[i].at(part) - usual.parts.at(part) >= least) continue;
    const StepLimit grown = usual.beyond(steps[i]);
    const auto limit =
        grown.time >= to_seconds(least) ? static_cast<std::size_t>(grown.part) : most;
    limits[i] = {static_cast<StepPart>(limit), to_seconds(steps[i].at(limit))};
  }
  return limits;
}

bool is_one_work(const std::vector<ServingStage>& work) {
  return std::ranges::all_of(work, [&](ServingStage one) { return one == work.front(); });
}

void take_last(StepMarks& marks, std::vector<Nanoseconds>& bounds) {
  bounds.pop_back();
  marks.steps.pop_back();
  if (!marks.work.empty()) marks.work.pop_back();
}

void take_first(StepMarks& marks, std::vector<Nanoseconds>& bounds) {
  bounds.erase(bounds.begin());
  marks.steps.erase(marks.steps.begin());
  if (!marks.work.empty()) marks.work.erase(marks.work.begin());
}

// Activities that begin in each step.
std::vector<Nanoseconds> work_of(const std::vector<Nanoseconds>& bounds, const Timeline& timeline,
                                 const GpuTrack& track) {
  std::vector<Nanoseconds> work(bounds.size() - 1);
  std::size_t step = 0;
  for (const std::uint32_t row : track.rows) {
    const Nanoseconds start = timeline.gpu.time.start(row);
    while (step < work.size() && bounds[step + 1] <= start) ++step;
    if (step == work.size()) break;
    if (start >= bounds[step]) ++work[step];
  }
  return work;
}

void add_apart(std::optional<StepApart>& apart, const StepApart& step) {
  if (!apart) {
    apart = step;
    return;
  }
  apart->duration += step.duration;
  ++apart->steps;
  if (step.beyond <= apart->beyond) return;
  apart->part = step.part;
  apart->beyond = step.beyond;
}

// Ends with hardly any of the work that the others have, or from which on work is lost.
void cut_ends(StepMarks& marks, std::vector<Nanoseconds>& bounds, const Timeline& timeline,
              const GpuTrack& track, const LostWork& lost, StepsApart& apart) {
  constexpr Nanoseconds kLess = 10;
  const auto cut = [&](Nanoseconds length) {
    return StepApart{.duration = to_seconds(length), .is_cut = true, .beyond = {}};
  };
  while (marks.steps.size() > 1 && ends_early(lost) && marks.steps.back().end > lost.from) {
    add_apart(apart.last, cut(bounds.back() - bounds.end()[-2]));
    take_last(marks, bounds);
  }
  std::vector<Nanoseconds> work = work_of(bounds, timeline, track);
  if (work.size() > 1 && kLess * work.back() < median({work.begin(), work.end() - 1})) {
    add_apart(apart.last, cut(bounds.back() - bounds.end()[-2]));
    take_last(marks, bounds);
    work.pop_back();
  }
  if (work.size() > 1 && kLess * work.front() < median({work.begin() + 1, work.end()})) {
    add_apart(apart.first, cut(bounds[1] - bounds[0]));
    take_first(marks, bounds);
  }
}

// Slow by what a program does once. Batches may come late in any step; the first of a loader takes
// most of one.
bool is_of_start(const StepApart& slow) {
  if (slow.part == StepPart::idle_data_loading) return 2.0 * slow.beyond > slow.duration;
  return slow.part == StepPart::idle_start_up || slow.part == StepPart::idle_module_loading ||
         slow.part == StepPart::idle_allocator;
}

// What makes a step slow beside the others; empty where it is not.
std::optional<StepApart> slower_than(std::span<const StepTimes> others, const StepTimes& step) {
  const UsualStep usual(others);
  if (!usual.is_slow(step)) return std::nullopt;
  const StepLimit most = usual.beyond(step);
  return StepApart{.duration = to_seconds(length_of(step)), .part = most.part, .beyond = most.time};
}

// A step that is much shorter than the others, which are alike: the GPU still had work from before
// the recording, or the input was another one.
std::optional<StepApart> shorter_than(std::span<const StepTimes> others, const StepTimes& step) {
  constexpr double kMuchShorter = 0.6, kAlike = 1.2;
  std::vector<Nanoseconds> lengths;
  for (const StepTimes& one : others) lengths.push_back(length_of(one));
  const auto usual = static_cast<double>(median(lengths));
  const Nanoseconds length = length_of(step);
  const bool are_alike = std::ranges::all_of(lengths, [&](Nanoseconds one) {
    return static_cast<double>(one) * kAlike >= usual && static_cast<double>(one) <= kAlike * usual;
  });
  if (!are_alike || static_cast<double>(length) > kMuchShorter * usual) return std::nullopt;
  return StepApart{.duration = to_seconds(length), .beyond = {}};
}

// Ends that take much longer than the steps between. Behind a first step that does, one as long as
// two of the others belongs to the start, too. So does a first one that is much shorter.
void slow_ends(StepMarks& marks, std::vector<Nanoseconds>& bounds, const Timeline& timeline,
               const GpuTrack& track, const std::vector<IdlePiece>& pieces, StepsApart& apart) {
  constexpr std::size_t kFewest = 4;
  const std::vector<StepTimes> times = times_of(bounds, timeline, track, pieces);
  std::span<const StepTimes> steps(times);
  if (!apart.last && steps.size() >= kFewest) {
    apart.last = slower_than(steps.subspan(1, steps.size() - 2), steps.back());
    if (apart.last) {
      take_last(marks, bounds);
      steps = steps.first(steps.size() - 1);
    }
  }
  const bool was_apart = apart.first.has_value();
  const bool has_many = times.size() >= kFewest;
  for (bool is_first = true; steps.size() > 1; is_first = false) {
    const auto slow = slower_than(steps.subspan(1), steps.front());
    if (!slow) break;
    const bool is_twice = UsualStep(steps.subspan(1)).is_twice_as_long(steps.front());
    const bool is_far = has_many ? is_first || is_twice : is_first && is_twice && steps.size() > 2;
    if (!is_of_start(*slow) && !(is_far && !was_apart)) break;
    add_apart(apart.first, *slow);
    take_first(marks, bounds);
    steps = steps.subspan(1);
  }
  if (apart.first || steps.size() < kFewest) return;
  if (const auto short_one = shorter_than(steps.subspan(1), steps.front())) {
    apart.first = short_one;
    take_first(marks, bounds);
  }
}

}  // namespace

Steps measure_steps(const StepMarks& marks, const std::vector<Nanoseconds>& bounds,
                    const Timeline& timeline, const GpuTrack& track,
                    const std::vector<IdlePiece>& pieces,
                    const std::vector<IdlePiece>& beside_communication) {
  Steps measured;
  measured.source = marks.source;
  measured.rounds = static_cast<std::int64_t>(marks.rounds);
  measured.silent_head = to_seconds(marks.silent_head);
  measured.work = marks.work;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    measured.durations.push_back(to_seconds(bounds[i + 1] - bounds[i]));
  }
  if (track.rows.empty() || bounds.size() < 2) return measured;
  std::vector<StepTimes> steps = times_of(bounds, timeline, track, pieces);
  move_to_causes(bounds, beside_communication, steps);
  measured.limits = limits_of(steps, is_one_work(marks.work));
  if (is_one_work(marks.work)) measured.slow = slow_steps(steps);
  return measured;
}

StepsApart set_apart(StepMarks& marks, std::vector<Nanoseconds>& bounds, const Timeline& timeline,
                     const GpuTrack& track, const std::vector<IdlePiece>& pieces,
                     const LostWork& lost) {
  StepsApart apart;
  if (track.rows.empty() || !is_one_work(marks.work)) return apart;
  cut_ends(marks, bounds, timeline, track, lost, apart);
  slow_ends(marks, bounds, timeline, track, pieces, apart);
  return apart;
}

}  // namespace rooftile::trace
