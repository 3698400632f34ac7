// What changed between two recordings: the span by its parts, then operators and kernels.
#include "rooftile/pipeline/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rooftile/pipeline/diff_rows.h"
#include "rooftile/workload/trace_names.h"

namespace rooftile {
namespace {

// Fewer tell nothing of how steps vary.
constexpr std::size_t kLeastSteps = 3;
constexpr double kDeviations = 1.4826;
// All common kernels slower or faster by this much: a clock, not the program.
constexpr double kOtherClock = 0.05;

struct Paired {
  std::vector<const TraceSummary*> before, after;
};

Paired pair_ranks(std::span<const TraceSummary> before, std::span<const TraceSummary> after) {
  if (before.size() == 1 && after.size() == 1) return {{&before[0]}, {&after[0]}};
  std::map<std::int64_t, const TraceSummary*> by_rank;
  for (const TraceSummary& summary : before) {
    if (summary.rank) by_rank.try_emplace(*summary.rank, &summary);
  }
  Paired paired;
  std::set<std::int64_t> used;
  for (const TraceSummary& summary : after) {
    if (!summary.rank || !by_rank.contains(*summary.rank)) continue;
    if (!used.insert(*summary.rank).second) continue;
    paired.before.push_back(by_rank[*summary.rank]);
    paired.after.push_back(&summary);
  }
  return paired;
}

bool have_steps(const std::vector<const TraceSummary*>& side) {
  return std::ranges::all_of(
      side, [](const TraceSummary* summary) { return !summary->steps.durations.empty(); });
}

TraceSide weighted(const std::vector<const TraceSummary*>& summaries, bool is_per_step) {
  TraceSide side;
  const auto ranks = static_cast<double>(summaries.size());
  for (const TraceSummary* summary : summaries) {
    const double window = is_per_step ? window_steps(*summary) : 1;
    const double recording = is_per_step ? table_steps(*summary) : 1;
    side.push_back({summary, 1 / (window * ranks), 1 / (recording * ranks)});
  }
  return side;
}

// Of what is counted in the window.
template <class Value>
Seconds window_mean(const TraceSide& side, const Value& value) {
  Seconds sum;
  for (const WeightedTrace& trace : side) sum += value(*trace.summary) * trace.window_weight;
  return sum;
}

// Of what is counted in the whole recording.
template <class Value>
double recorded_mean(const TraceSide& side, const Value& value) {
  double sum = 0;
  for (const WeightedTrace& trace : side) sum += value(*trace.summary) * trace.recording_weight;
  return sum;
}

// How far steps lie from their median, as a standard deviation, mean over the ranks. By the median
// distance, which a few odd steps do not change: of a normal distribution it is 1/1.4826 of the
// standard deviation.
std::optional<Seconds> spread_of(const TraceSide& side) {
  Seconds sum;
  for (const WeightedTrace& trace : side) {
    const std::vector<Seconds>& steps = trace.summary->steps.durations;
    if (steps.size() < kLeastSteps) return std::nullopt;
    const Seconds middle = median(steps);
    std::vector<Seconds> distances;
    for (const Seconds step : steps) distances.emplace_back(std::abs((step - middle).value()));
    sum += kDeviations * median(distances);
  }
  return sum / static_cast<double>(side.size());
}

TraceDiffSide describe_side(std::span<const TraceSummary> summaries) {
  TraceDiffSide side;
  side.ranks = static_cast<std::int64_t>(summaries.size());
  for (const TraceSummary& summary : summaries) {
    side.files.insert(side.files.end(), summary.files.begin(), summary.files.end());
    if (side.format.empty()) side.format = summary.format;
    if (side.gpu.empty() && summary.device) side.gpu = summary.device->name;
    side.steps +=
        static_cast<double>(summary.steps.durations.size()) / static_cast<double>(summaries.size());
  }
  return side;
}

// The parts that add up to the span.
void add_parts(const TraceSide& before, const TraceSide& after, TraceDiff& diff) {
  const auto add = [&](std::string key, const std::function<Seconds(const TraceSummary&)>& value) {
    const ChangedTime time{window_mean(before, value), window_mean(after, value)};
    if (time.before != Seconds() || time.after != Seconds()) {
      diff.parts.push_back({std::move(key), time});
    }
  };
  add("compute", [](const TraceSummary& summary) { return summary.time.compute; });
  add("exposed_communication",
      [](const TraceSummary& summary) { return summary.time.exposed_communication; });
  add("exposed_copy", [](const TraceSummary& summary) { return summary.time.exposed_copy; });
  std::set<IdleCause> causes;
  for (const TraceSide* side : {&before, &after}) {
    for (const WeightedTrace& trace : *side) {
      for (const auto& [cause, time] : trace.summary->time.idle_by_cause) causes.insert(cause);
    }
  }
  for (const IdleCause cause : causes) {
    add(fmt::format("idle.{}", name_of(cause)), [cause](const TraceSummary& summary) {
      const auto found = summary.time.idle_by_cause.find(cause);
      return found == summary.time.idle_by_cause.end() ? Seconds() : found->second;
    });
  }
  std::ranges::stable_sort(diff.parts, [](const TraceDiffPart& a, const TraceDiffPart& b) {
    return std::abs(a.time.change().value()) > std::abs(b.time.change().value());
  });
}

void add_totals(const TraceSide& before, const TraceSide& after, TraceDiff& diff) {
  const auto time = [&](const auto& value) {
    return ChangedTime{window_mean(before, value), window_mean(after, value)};
  };
  diff.span = time([](const TraceSummary& summary) { return summary.time.span; });
  diff.gpu_busy = time([](const TraceSummary& summary) { return summary.time.gpu_busy; });
  diff.communication = time([](const TraceSummary& summary) { return summary.time.communication; });
  diff.copy = time([](const TraceSummary& summary) { return summary.time.copy; });
  diff.launch_time = time([](const TraceSummary& summary) { return summary.launch_time; });
  const auto kernel_time = [](const TraceSummary& summary) {
    return (summary.has_tables_of_window ? summary.kernel_time_in_steps
                                         : summary.kernel_time - summary.leftover_time)
        .value();
  };
  diff.kernel_time = {Seconds(recorded_mean(before, kernel_time)),
                      Seconds(recorded_mean(after, kernel_time))};
  const auto kernels = [](const TraceSummary& summary) {
    return static_cast<double>(kernels_in_tables(summary));
  };
  diff.kernel_runs = {recorded_mean(before, kernels), recorded_mean(after, kernels)};
}

void add_notes(const TraceSide& before, const TraceSide& after, TraceDiff& diff) {
  const auto most = std::max(diff.before.ranks, diff.after.ranks);
  if (diff.paired_ranks < most) {
    diff.notes.push_back(fmt::format(
        "{} of {} and {} recordings have the same rank on both sides; the others are left out.",
        diff.paired_ranks, diff.before.ranks, diff.after.ranks));
  }
  if (!diff.is_per_step) {
    diff.notes.push_back(
        "No steps were found on both sides, so the whole recordings are compared: a longer "
        "recording is not a slower program.");
  }
  const bool other_gpu =
      !diff.before.gpu.empty() && !diff.after.gpu.empty() && diff.before.gpu != diff.after.gpu;
  if (other_gpu) diff.notes.push_back("The GPUs differ.");
  if (diff.before.format != diff.after.format) {
    diff.notes.push_back(
        "Two profilers recorded: they name some kernels differently and slow the host "
        "differently.");
  }
  const double ratio = common_kernel_ratio(before, after);
  if (!other_gpu && std::abs(ratio - 1) > kOtherClock) {
    diff.notes.push_back(
        fmt::format("Kernels that both sides run equally often take {:.0f} % {} in the second: "
                    "clocks, power or "
                    "a shared GPU changed rather than the program.",
                    std::abs(ratio - 1) * 100, ratio > 1 ? "longer" : "less"));
  }
}

}  // namespace

TraceDiff diff_traces(std::span<const TraceSummary> before, std::span<const TraceSummary> after) {
  TraceDiff diff;
  diff.before = describe_side(before);
  diff.after = describe_side(after);
  const Paired paired = pair_ranks(before, after);
  diff.paired_ranks = static_cast<std::int64_t>(paired.before.size());
  if (paired.before.empty()) {
    diff.notes.emplace_back("No recording of one side has the rank of one of the other side.");
    return diff;
  }
  diff.is_per_step = have_steps(paired.before) && have_steps(paired.after);
  const TraceSide old_side = weighted(paired.before, diff.is_per_step);
  const TraceSide new_side = weighted(paired.after, diff.is_per_step);
  add_totals(old_side, new_side, diff);
  add_parts(old_side, new_side, diff);
  const auto old_spread = spread_of(old_side), new_spread = spread_of(new_side);
  if (diff.is_per_step && old_spread && new_spread)
    diff.spread = std::max(*old_spread, *new_spread);
  add_changed_rows(old_side, new_side, diff);
  add_notes(old_side, new_side, diff);
  return diff;
}

}  // namespace rooftile
