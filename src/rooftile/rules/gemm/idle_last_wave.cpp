#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_idle_last_wave_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Kernels of GEMMs and convolutions whose recorded grid fills a few waves of the GPU and
leaves the last one mostly empty, or fills less than half of one.

## Why it costs time
All thread blocks of a wave run at once and take about the same time. A last wave with few blocks takes
as long as a full one.

## How to fix
Change the number of tokens or images per step so that the blocks fill whole waves; the message gives
the number of blocks to aim at. For less than half a wave, run more rows at a time.

## How the saving is estimated
High: the share of the SMs that is idle over all waves, of the measured time. Low: 0, because blocks do
not all take equally long and the library may choose another tile at another size. A third is assumed
likely.

## When not to
- Kernels that stay on the SMs and fetch tiles themselves (Hopper's, stream-K) and split-K kernels are
  not judged.
- Another batch size changes training.

## Evidence
- NVIDIA, Matrix Multiplication Background User's Guide, "Wave Quantization": 22 to 45 per cent of the
  throughput on an A100.
- CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", for the blocks that an
  SM holds.
)md";

constexpr double kMinShare = threshold::kShowsInARun;  // of the window
constexpr double kMostWaves = 6;                       // above, a tail costs little
constexpr double kFull = 0.8;
constexpr Seconds kLong = microseconds(20);
constexpr double kLikely = 1.0 / 3;
constexpr int kHopper = 90;

bool is_judged(const KernelUse& kernel) {
  // Persistent kernels came with Hopper; their grid is the number of SMs, whatever the work.
  return is_matrix_kernel(kernel) && kernel.facts.tensor_core.value_or(false) &&
         !kernel.facts.split_k && kernel.facts.compute_capability < kHopper &&
         kernel.launch.grid[2] <= 1 && kernel.count > 0 &&
         kernel.time >= kLong * static_cast<double>(kernel.count);
}

std::string waves_text(const BlockWaves& waves, const Device& device) {
  const double wave = waves.per_sm * device.sms;
  if (waves.waves <= 1) {
    return fmt::format("{:.0f} blocks fill {} of one wave of {:.0f}", waves.blocks,
                       share_text(waves.efficiency), wave);
  }
  return fmt::format("{:.0f} blocks make {:.0f} waves of {:.0f}, the last {} full", waves.blocks,
                     waves.waves, wave, share_text(waves.blocks / wave - (waves.waves - 1)));
}

std::string aim_text(const BlockWaves& waves, const Device& device) {
  const double wave = waves.per_sm * device.sms;
  const double below = (waves.waves - 1) * wave, above = waves.waves * wave;
  if (waves.waves <= 1)
    return fmt::format("Run {:.1f} times the rows at a time", above / waves.blocks);
  return fmt::format(
      "Choose tokens per step for {:.0f} blocks ({:.2f} times the rows) or {:.0f} "
      "({:.2f} times)",
      below, below / waves.blocks, above, above / waves.blocks);
}

Seconds kernel_time(const UseGroup& group) { return group.kernel->time * group.window_part; }

Finding describe(const RuleInput& input, const TraceSummary& trace, const UseGroup& group,
                 const BlockWaves& waves) {
  const Seconds idle = (1 - waves.efficiency) * kernel_time(group);
  Finding finding = about_group(
      trace, group,
      fmt::format("{}: {}; the kernel takes {}", group_text(group),
                  waves_text(waves, input.device()), cost_text(trace, kernel_time(group))),
      {aim_text(waves, input.device()), Exactness::changes_training},
      gain_of_kernel_time(trace, {Seconds(0), kLikely * idle, idle}));
  finding.count = group.kernel->count;
  finding.ops = workload_ops_of(input, group);
  const auto& [x, y, z] = group.kernel->launch.grid;
  finding.evidence = {
      Evidence::measured(fmt::format("kernel {}, grid {}x{}x{}, {:.0f} blocks per SM by registers, "
                                     "threads and shared memory, {} SMs",
                                     short_kernel_name(group.kernel->name), x, y, z, waves.per_sm,
                                     input.device().sms)),
      Evidence::published(
          "NVIDIA Matrix Multiplication Background User's Guide, Wave Quantization")};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  if (trace.is_foreign || !is_recorded_on(trace, input.device())) return cases;
  const auto wanted = [](const OpUse*, const KernelUse& kernel) { return is_judged(kernel); };
  for (const UseGroup& group : group_by_shape(trace, wanted)) {
    if (kernel_time(group) < kMinShare * trace.time.span) continue;
    const auto waves = block_waves(group.kernel->launch, input.device());
    if (!waves || waves->waves > kMostWaves || waves->efficiency >= kFull) continue;
    add_if_visible(trace, group.name + group.shape, describe(input, trace, group, *waves), cases);
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace gemm_idle_last_wave_rule

extern const Rule gemm_idle_last_wave{.id = "gemm/idle-last-wave",
                                      .level = Level::advice,
                                      .cause = Cause::tile_shape,
                                      .summary = "Kernel's last wave is mostly empty",
                                      .doc = gemm_idle_last_wave_rule::kDoc,
                                      .in_traces = gemm_idle_last_wave_rule::check};

}  // namespace rooftile
