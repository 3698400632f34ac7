// Where the steps of a recording begin and end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct StepMarks {
  StepSource source = StepSource::none;
  std::vector<Window> steps;       // complete ones, disjoint and in order
  std::vector<ServingStage> work;  // of each, where a serving engine names it
  // Where the recording's marks hold several equal rounds, which are the steps: how many each.
  std::size_t rounds = 0;
  Nanoseconds silent_head = 0;  // cut off the first one: nothing was recorded in it yet
};

// By the first of these that there is: the profiler's steps, ranges that the user or a serving
// engine calls steps, the ends of the optimizer, the starts of the loader, the repetition of the
// kernels' names, a single range that the user calls a step. Those of the user, the engine and the
// loader launch half of the kernels' time. Steps of the profiler or the user that hold three or
// more equal rounds are told by those.
StepMarks find_steps(const Timeline& timeline, const Links& links, const GpuTrack& track);

// From the first start to the last end of operators, ranges, runtime calls and GPU activities.
Window whole_recording(const Timeline& timeline);

// The start of the first step and the end of each: when the host has left it and the last GPU
// activity launched up to then is done. So the first begins when what was launched before it is
// done. Never decreases; the marks must hold a step. Steps found from the kernels themselves end
// where the next one's first kernel starts.
std::vector<Nanoseconds> step_bounds(const StepMarks& marks, const Timeline& timeline,
                                     const Links& links);

// A sequence that repeats itself from `first` on, `count` times `period` long.
struct Repetition {
  std::size_t first = 0, period = 0, count = 0;

  bool operator==(const Repetition&) const = default;
};

// The shortest period of at least three rounds that begins at an anchor, a position where a step
// can begin, and covers the sequence from there on but for a part of a round. What is before the
// first round, a prefill or a warm-up, is a quarter at the most. Up to one entry in twenty may
// differ from the round before.
std::optional<Repetition> find_repetition(std::span<const std::uint32_t> sequence,
                                          std::span<const std::size_t> anchors);

// The shortest period of at least three rounds that the end of the sequence keeps without a
// difference. What is before the first round is half of the sequence at the most.
std::optional<Repetition> find_exact_repetition(std::span<const std::uint32_t> sequence);

}  // namespace rooftile::trace
