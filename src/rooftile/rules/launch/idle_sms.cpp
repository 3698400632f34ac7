#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_idle_sms_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Kernels that take a twentieth of the time or more and start fewer thread blocks than the GPU has
multiprocessors (SMs); of kernels of the program's own also those of which an SM holds one block or two, and
whose blocks fill a few waves of the GPU and leave the last one mostly empty.

## Why it costs time
A block runs on one SM. Where there are fewer blocks than SMs, or a few are left after full waves, the other
SMs have nothing to do.

## How to fix
A kernel of one's own: smaller tiles or blocks, a reduction split over several blocks (split-K), several small
problems in one launch. A library chooses its grid by the sizes: more rows at a time fill it.

## How the saving is estimated
High: the share of the SMs, or of the waves, that is idle, of the measured time, and of blocks of fewer
than 32 threads also the rest of the warp. Low: 0, because a kernel
that waits for memory needs not all SMs. A third is assumed likely, half where blocks are less than a warp; of a kernel of fewer than 32 threads in all nine
tenths, and half for certain, as it uses next to nothing of the GPU. Where the same kernel ran with blocks for all SMs
in a third of the time or less, the difference is likely, and half of it certain.

## When not to
- Kernels of libraries: information, as their grid is not the program's to choose. The same where much of the
  work overlaps with other kernels, which may use the SMs.
- Communication, which leaves SMs to others by design, and copies.

## Evidence
- NVIDIA CUDA C++ Best Practices Guide, "Thread and Block Heuristics": more blocks than multiprocessors, so
  that all of them have work.
- NVIDIA, Matrix Multiplication Background User's Guide, "Wave Quantization".
)md";

constexpr double kMinShare = threshold::kBeyondModelError;  // of the window
// Of the SMs, or of the waves: above, little is idle; so of four waves and more.
constexpr double kMostOccupied = 0.75;
constexpr double kLikely = 1.0 / 3;
constexpr double kWarp = 32;
constexpr double kLikelyOfSerial = 0.9;     // of a kernel of fewer threads than a warp
constexpr double kLikelyOfPartWarps = 0.5;  // of one whose blocks are less than a warp
constexpr double kCertain = 0.5;            // of what is likely, where that is sure
constexpr double kFarFaster = 3;            // times: another grid of the same kernel
constexpr double kMostOverlap = 0.1;        // of the kernel time
constexpr Seconds kLong = microseconds(5);

bool is_candidate(const KernelUse& kernel) {
  const KernelClass kernel_class = kernel.facts.kernel_class;
  return kernel_class != KernelClass::communication && kernel_class != KernelClass::copy &&
         kernel_class != KernelClass::fill && kernel.count > 0 &&
         kernel.time >= kLong * static_cast<double>(kernel.count);
}

double blocks_of(const LaunchShape& launch) {
  double blocks = 1;
  for (const std::uint32_t extent : launch.grid) blocks *= extent;
  return blocks;
}

double threads_of_block(const KernelUse& kernel) {
  double threads = 1;
  for (const std::uint32_t extent : kernel.launch.block) threads *= extent;
  return threads;
}

// Of a warp, what a block of the program's own kernel fills at most; 1 where it is not recorded.
double lanes_of(const KernelUse& kernel) {
  const double threads = threads_of_block(kernel);
  return threads > 0 && is_own_kernel(kernel) ? std::min(1.0, threads / kWarp) : 1;
}

// How much of the GPU has work, and in words where that is by waves; 1 where all of it has.
struct Occupied {
  double share = 1;
  std::string waves;
};

Occupied occupied_in_waves(const KernelUse& kernel, const Device& device) {
  // Where an SM holds more blocks, those of the last wave run faster.
  constexpr double kFewPerSm = 2;
  const auto waves = block_waves(kernel.launch, device);
  const bool is_judged = is_own_kernel(kernel) && !is_matrix_kernel(kernel) && waves &&
                         waves->per_sm <= kFewPerSm && waves->waves > 1;
  if (!is_judged) return {};
  const double wave = waves->per_sm * device.sms;
  return {
      waves->efficiency,
      fmt::format("starts {:.0f} blocks, where {:.0f} run at a time: {:.0f} waves, the last one {} "
                  "full",
                  waves->blocks, wave, waves->waves,
                  share_text(waves->blocks / wave - (waves->waves - 1)))};
}

// Kernels of one name, wherever they are launched: all with fewer blocks than SMs, or those of one
// grid that fill waves.
struct Launches {
  const KernelUse* kernel = nullptr;
  std::string waves;            // words, of a grid that fills them
  double fewest = 0, most = 0;  // blocks
  std::int64_t count = 0;
  Seconds time, idle;               // of the window
  const KernelUse* wide = nullptr;  // the same kernel with blocks for all SMs, far faster
};

Seconds each(const KernelUse& kernel) { return kernel.time / static_cast<double>(kernel.count); }

// Launches of the kernel that fill the GPU, if they take far less time: the fewest blocks first.
const KernelUse* wide_launch_of(const TraceSummary& trace, const Launches& launches, int sms) {
  const KernelUse* wide = nullptr;
  const auto look = [&](const KernelUse& kernel) {
    const bool is_wide = kernel.name == launches.kernel->name && blocks_of(kernel.launch) >= sms &&
                         kFarFaster * each(kernel) <= each(*launches.kernel);
    if (is_wide && (wide == nullptr || blocks_of(kernel.launch) < blocks_of(wide->launch))) {
      wide = &kernel;
    }
  };
  for (const OpUse& use : trace.ops) std::ranges::for_each(use.kernels, look);
  std::ranges::for_each(trace.orphans, look);
  return wide;
}

template <class OccupiedBy>
std::vector<Launches> launches_of(const TraceSummary& trace, OccupiedBy occupied_by) {
  std::map<std::pair<std::string, std::string>, Launches> by_name;
  const auto add = [&](const KernelUse& kernel) {
    const double blocks = blocks_of(kernel.launch);
    if (blocks < 1 || !is_candidate(kernel)) return;
    const Occupied occupied = occupied_by(kernel);
    if (occupied.share > kMostOccupied) return;
    Launches& all = by_name[{kernel.name, occupied.waves}];
    const Seconds time = kernel.time * table_part(trace);
    all.fewest = all.kernel == nullptr ? blocks : std::min(all.fewest, blocks);
    all.most = std::max(all.most, blocks);
    if (all.kernel == nullptr || kernel.time > all.kernel->time) all.kernel = &kernel;
    all.waves = occupied.waves;
    all.count += table_count(trace, kernel.count);
    all.time += time;
    all.idle += (1 - occupied.share) * time;
  };
  for (const OpUse& use : trace.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(trace.orphans, add);
  std::vector<Launches> all;
  for (const auto& [key, launches] : by_name) all.push_back(launches);
  return all;
}

// Of all blocks at most; none where the blocks' size was not recorded.
double threads_of(const Launches& launches) {
  const double threads = launches.most * threads_of_block(*launches.kernel);
  return threads > 0 ? threads : std::numeric_limits<double>::max();
}

std::string blocks_words(const Launches& launches, int sms) {
  if (!launches.waves.empty()) return launches.waves;
  const double threads = threads_of_block(*launches.kernel);
  const std::string small =
      threads > 0 && threads < kWarp
          ? fmt::format(" of {:.0f} {}", threads, threads > 1 ? "threads" : "thread")
          : "";
  const std::string fewest =
      launches.fewest < launches.most ? fmt::format("{:.0f} to ", launches.fewest) : "";
  return fmt::format("starts {}{:.0f} {}{} on a GPU of {} SMs", fewest, launches.most,
                     launches.most == 1 ? "block" : "blocks", small, sms);
}

// What enough blocks save, of the window.
Range<Seconds> saved_by_blocks(const Launches& launches) {
  const bool is_own = is_own_kernel(*launches.kernel);
  if (is_own && launches.wide != nullptr) {
    const Seconds likely = std::min(
        launches.idle, launches.time * (1 - each(*launches.wide) / each(*launches.kernel)));
    return {kCertain * likely, likely, std::max(likely, launches.idle)};
  }
  if (is_own && threads_of(launches) < kWarp) {
    return {kCertain * launches.idle, kLikelyOfSerial * launches.idle, launches.idle};
  }
  const double likely = lanes_of(*launches.kernel) < 1 ? kLikelyOfPartWarps : kLikely;
  return {Seconds(0), likely * launches.idle, launches.idle};
}

// Kernels with one cause and one remedy are one finding, the longest first.
Finding describe(const TraceSummary& trace, const std::vector<Launches>& all, int sms) {
  const Launches& launches = all.front();
  const KernelUse& kernel = *launches.kernel;
  const bool overlaps = overlapped_kernel_time(trace) > kMostOverlap * trace.kernel_time_in_steps;
  std::vector<std::string> parts;
  Range<Seconds> saved{};
  std::int64_t count = 0;
  for (const Launches& one : all) {
    parts.push_back(fmt::format("{} {} and takes {}", short_kernel_name(one.kernel->name),
                                blocks_words(one, sms), cost_text(trace, one.time)));
    if (one.wide != nullptr) {
      parts.back() +=
          fmt::format("; with {:.0f} blocks it took {} instead of {}", blocks_of(one.wide->launch),
                      time_text(each(*one.wide)), time_text(each(*one.kernel)));
    }
    saved += saved_by_blocks(one);
    count += one.count;
  }
  Finding finding = about_trace(
      trace, join(parts, "; "),
      is_own_kernel(kernel)
          ? Fix{std::string("Give the kernel more blocks: smaller tiles, a reduction split over "
                            "several blocks, or several problems in one launch") +
                    (lanes_of(kernel) < 1 ? "; and each block 128 threads or more" : ""),
                Exactness::exact_arithmetic}
          : Fix{"Work on more rows at a time: the library chooses its blocks by the sizes",
                Exactness::changes_training},
      gain_of_kernel_time(trace, saved));
  finding.location.node = kernel.name;
  finding.count = count;
  if (saved.low > Seconds(0)) finding.own_level = Level::warning;
  if (!is_own_kernel(kernel) || overlaps) finding.own_level = Level::info;
  const auto& [x, y, z] = kernel.launch.grid;
  const auto& [bx, by, bz] = kernel.launch.block;
  finding.evidence = {
      Evidence::measured(
          fmt::format("grid {}x{}x{}, {}x{}x{} threads a block", x, y, z, bx, by, bz)),
      Evidence::published("more blocks than multiprocessors",
                          "NVIDIA CUDA C++ Best Practices Guide, Thread and Block Heuristics")};
  note_pace(trace, finding);
  return finding;
}

template <class OccupiedBy>
std::vector<TraceCase> judge(const TraceSummary& trace, int sms, OccupiedBy occupied_by) {
  std::vector<TraceCase> cases;
  std::vector<Launches> own;
  for (Launches& launches : launches_of(trace, occupied_by)) {
    if (launches.time < kMinShare * trace.time.span) continue;
    launches.wide = wide_launch_of(trace, launches, sms);
    if (is_own_kernel(*launches.kernel) && launches.waves.empty()) {
      own.push_back(launches);
      continue;
    }
    add_if_visible(trace, launches.kernel->name, describe(trace, {launches}, sms), cases);
  }
  std::ranges::stable_sort(own, std::greater{}, &Launches::time);
  if (!own.empty()) {
    add_if_visible(trace, own.front().kernel->name, describe(trace, own, sms), cases);
  }
  return cases;
}

// Fewer blocks than SMs, each perhaps with less than a warp; the launch alone tells.
std::vector<TraceCase> judge_blocks(const TraceSummary& trace, int sms) {
  if (trace.is_foreign || sms <= 0) return {};
  return judge(trace, sms, [&](const KernelUse& kernel) {
    const double blocks = std::min(1.0, blocks_of(kernel.launch) / sms);
    return Occupied{blocks < 1 ? blocks * lanes_of(kernel) : 1, ""};
  });
}

int recorded_sms(const TraceSummary& trace) { return trace.device ? trace.device->sm_count : 0; }

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  const Device& device = input.device();
  if (trace.is_foreign || !is_recorded_on(trace, device)) return {};
  std::vector<TraceCase> cases = judge(trace, device.sms, [&](const KernelUse& kernel) {
    return occupied_in_waves(kernel, device);
  });
  if (recorded_sms(trace) > 0) return cases;
  std::ranges::move(judge_blocks(trace, device.sms), std::back_inserter(cases));
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

// Where the trace says how many SMs its GPU has.
std::vector<Finding> check_any(std::span<const TraceSummary> ranks) {
  return judge_ranks(
      ranks, [](const TraceSummary& trace) { return judge_blocks(trace, recorded_sms(trace)); });
}

}  // namespace launch_idle_sms_rule

extern const Rule launch_idle_sms{.id = "launch/idle-sms",
                                  .level = Level::advice,
                                  .cause = Cause::none,
                                  .summary = "Long kernel leaves multiprocessors without work",
                                  .doc = launch_idle_sms_rule::kDoc,
                                  .in_traces = launch_idle_sms_rule::check,
                                  .in_any_trace = launch_idle_sms_rule::check_any};

}  // namespace rooftile
