#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_fp64_kernels_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Kernels that compute in fp64, in a recording that trains or otherwise computes in less: a tensor made
from NumPy or from Python numbers under a default dtype of float64, a model after `.double()`.

## Why it costs time
Most GPUs run fp64 at 1/32 or 1/64 of the fp32 rate; those for computing centres at one half. Each
tensor takes twice the memory and bandwidth of fp32.

## How to fix
Convert to float32 where the data enters: `torch.from_numpy(x).float()`, `torch.tensor(x,
dtype=torch.float32)`; train in fp32. Keep fp64 for sums that lose digits.

## How the saving is estimated
High: all but the share that the GPU's rates in fp32 and fp64 leave, and at least half, as half the
bytes are moved. Half of the time is assumed likely. The low end is 0: a short kernel stays as long.

## When not to
- Scientific code that needs it: a program without training that computes mostly in fp64 is not
  reported.

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

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  if (trace.is_foreign || !is_recorded_on(trace, input.device())) return {};
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
