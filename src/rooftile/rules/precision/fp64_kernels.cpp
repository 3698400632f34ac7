#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_fp64_kernels_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Kernels that compute in fp64, in a recording that trains or otherwise computes in less: a tensor made
from NumPy or from Python numbers under a default dtype of float64, a model after `.double()`. And kernels
of the program's own with `double` among their arguments that take a fifth of the time or more, on a GPU
that runs fp64 at 1/16 of the fp32 rate or less.

## Why it costs time
Most GPUs run fp64 at 1/32 or 1/64 of the fp32 rate; those for computing centres at one half. Each
tensor takes twice the memory and bandwidth of fp32.

## How to fix
Convert to float32 where the data enters: `torch.from_numpy(x).float()`, `torch.tensor(x,
dtype=torch.float32)`; train in fp32. Keep fp64 for sums that lose digits. A kernel of one's own: `float`
where the digits allow it, literals with an `f`, or a GPU of computing centres.

## How the saving is estimated
High: all but the share that the GPU's rates in fp32 and fp64 leave, and at least half, as half the
bytes are moved. Half of the time is assumed likely, of the program's own kernels, whose arithmetic the name
does not show, a quarter. The low end is 0: a short kernel stays as long.

## When not to
- Scientific code that needs it: a program without training that computes mostly in fp64 by libraries is
  not reported.

## Evidence
- NVIDIA CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions".
)md";

constexpr double kMinShare = threshold::kShowsInARun;  // of the window
constexpr double kMostly = threshold::kMost;           // of the kernel time

bool is_fp64(const OpUse* use, const KernelUse& kernel) {
  return operand_dtype(use, kernel) == Dtype::fp64;
}

bool is_any_kernel(const OpUse*, const KernelUse&) { return true; }

// Of fp64 time, what the GPU's rate in fp32 leaves.
double time_left(const Device& device) {
  const auto fp32 = device.cuda_core_peak.find(Dtype::fp32);
  const auto fp64 = device.cuda_core_peak.find(Dtype::fp64);
  if (fp32 == device.cuda_core_peak.end() || fp64 == device.cuda_core_peak.end()) return 0.5;
  return std::min(0.5, fp64->second / fp32->second);
}

// A kernel of the program's own with `double` in its signature.
bool is_own_with_doubles(const OpUse* use, const KernelUse& kernel) {
  const std::size_t open = kernel.name.find('(');
  return use == nullptr && kernel.facts.kernel_class == KernelClass::unknown &&
         kernel.facts.library.empty() && open != std::string::npos &&
         contains(std::string_view(kernel.name).substr(open), "double");
}

// Too few threads to keep the GPU busy: they wait for results and memory, not for the fp64 units.
bool is_starved(const KernelUse& kernel, const Device& device) {
  constexpr double kFewThreads = 256;  // an SM
  double threads = 1;
  for (const std::uint32_t extent : kernel.launch.grid) threads *= extent;
  for (const std::uint32_t extent : kernel.launch.block) threads *= extent;
  return threads > 0 && threads < kFewThreads * device.sms;
}

std::vector<TraceCase> judge_own(const RuleInput& input, const TraceSummary& trace) {
  constexpr double kLarge = 0.2, kSlowRate = 1.0 / 16, kLikely = 0.25;
  const double left = time_left(input.device());
  const KernelTest fills_gpu = [&](const OpUse* use, const KernelUse& kernel) {
    return is_own_with_doubles(use, kernel) && !is_starved(kernel, input.device());
  };
  const Seconds time = time_of_kernels(trace, fills_gpu);
  if (left > kSlowRate || time < kLarge * trace.time.span) return {};
  const UseGroup group = group_by_shape(trace, fills_gpu).front();
  Finding finding = about_group(
      trace, group,
      fmt::format(
          "{} works on doubles and takes {}: this GPU runs fp64 at 1/{:.0f} of its fp32 rate",
          group_text(group), cost_text(trace, time), 1 / left),
      {"Compute in float where the digits allow it (literals too: 0.5f), and keep double for sums "
       "that "
       "need it; or use a GPU with a full fp64 rate (A100, H100)",
       Exactness::changes_numerics},
      gain_of_kernel_time(trace, {Seconds(0), kLikely * time, (1 - left) * time}));
  finding.evidence = {Evidence::published(
      "float64 at 1/64 of float32 on compute capability 8.6 and 8.9, at 1/2 on 8.0 and 9.0",
      "NVIDIA CUDA C++ programming guide, Arithmetic instructions")};
  return {{"own", std::move(finding)}};
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  if (trace.is_foreign || !is_recorded_on(trace, input.device())) return {};
  if (auto own = judge_own(input, trace); !own.empty()) return own;
  const Seconds time = time_of_kernels(trace, is_fp64);
  if (time < kMinShare * trace.time.span) return {};
  if (!trains(trace) && time > kMostly * time_of_kernels(trace, is_any_kernel)) return {};
  const std::vector<UseGroup> groups = group_by_shape(trace, is_fp64);
  const Seconds most = (1 - time_left(input.device())) * time;
  Finding finding = about_group(
      trace, groups.front(),
      fmt::format("fp64 kernels take {}, most of it in {}", cost_text(trace, time),
                  group_text(groups.front())),
      {"Convert to float32 where the data enters (from_numpy(x).float(), dtype=torch.float32), "
       "unless the digits are needed",
       Exactness::changes_numerics},
      gain_of_kernel_time(trace, {Seconds(0), 0.5 * time, most}));
  for (const UseGroup& group : groups) {
    if (finding.evidence.size() == 3) break;
    finding.evidence.push_back(
        Evidence::measured(fmt::format("{} takes {} in {}", group_text(group),
                                       cost_text(trace, group.time), kernels_text(group))));
  }
  finding.evidence.push_back(Evidence::published(
      "float64 at 1/64 of float32 on compute capability 8.6 and 8.9, at 1/2 on 8.0 and 9.0",
      "NVIDIA CUDA C++ programming guide, Arithmetic instructions"));
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace precision_fp64_kernels_rule

extern const Rule precision_fp64_kernels{.id = "precision/fp64-kernels",
                                         .level = Level::advice,
                                         .cause = Cause::none,
                                         .summary = "Kernels compute in fp64",
                                         .doc = precision_fp64_kernels_rule::kDoc,
                                         .in_traces = precision_fp64_kernels_rule::check};

}  // namespace rooftile
