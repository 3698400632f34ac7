#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_below_attainable_rate_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
GEMMs and convolutions that take longer than the time model's whole range for this shape,
precision and GPU, when no other reason is known: they run on the expected units, with wide loads.

## Why it costs time
The same GEMM has been measured to run faster on this GPU. Another kernel choice of the library, a
lower clock, memory used by something else or an old library version are the usual reasons.

## How to fix
Compare library versions; for convolutions `torch.backends.cudnn.benchmark = True`; for GEMMs
`torch.backends.cuda.preferred_blas_library("cublaslt")` or `torch.compile(mode="max-autotune")`. Check
the GPU's clocks and power limit under load.

## How the saving is estimated
The measured time less the model's range. What other kernels or the host hide is taken off.

## When not to
- Short kernels, GPUs without a calibration of their generation, and traces in which communication
  runs beside computation for a good part are not judged.

## Evidence
- The time model and its accuracy on measured GEMMs: docs/time_model.md.
)md";

constexpr double kMinShare = threshold::kShowsInARun;  // of the window
constexpr double kBeyond = 1.1;                        // of the model's high end
constexpr double kMostOverlap = 0.1;  // of the window, communication beside computation
constexpr Seconds kLong = microseconds(30);

// A reason of its own, which another rule tells.
bool has_known_reason(const OpUse& use, const KernelUse& kernel) {
  const std::optional<Dtype> dtype = operand_dtype(&use, kernel);
  const double bytes = dtype ? kernel.facts.alignment * size_in_bytes(*dtype) : 0;
  return !kernel.facts.tensor_core.value_or(false) || (bytes > 0 && bytes < 16);
}

bool is_judged(const OpUse* use, const KernelUse& kernel) {
  if (use == nullptr || !use->op || !is_matrix_kernel(kernel) || use->count <= 0) return false;
  if (!std::holds_alternative<Gemm>(use->op->body) &&
      !std::holds_alternative<Convolution>(use->op->body)) {
    return false;
  }
  return std::none_of(use->kernels.begin(), use->kernels.end(), [&](const KernelUse& other) {
    return is_matrix_kernel(other) && has_known_reason(*use, other);
  });
}

// The operator in the precision that its kernel multiplies.
Op as_run(const OpUse& use) {
  Op op = *use.op;
  const bool is_tf32 = op.dtypes.input == Dtype::fp32;  // on Tensor Cores, as is_judged asks
  if (is_tf32) op.dtypes = Dtypes(Dtype::tf32);
  return op;
}

struct Judged {
  Range<Seconds> model{};  // of all runs
  std::int64_t runs = 0;
};

std::optional<Judged> modelled(const RuleInput& input, const UseGroup& group) {
  Judged judged;
  for (const OpUse* use : group.uses) {
    const std::optional<TimeEstimate> estimate = input.model.estimate(as_run(*use));
    if (!estimate) return std::nullopt;
    judged.model += estimate->time * static_cast<double>(use->count);
    judged.runs += use->count;
  }
  return judged;
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const UseGroup& group,
                 const Judged& judged) {
  const Range<Seconds> saved{group.time - judged.model.high, group.time - judged.model.expected,
                             group.time - judged.model.low};
  const double runs = static_cast<double>(judged.runs);
  Finding finding = about_group(
      trace, group,
      fmt::format(
          "{} reaches {} of the rate this GPU attains for the shape: {} instead of about {} "
          "a run, {} in all",
          group_text(group), share_text(judged.model.expected / group.time),
          time_text(group.time / runs), time_text(judged.model.expected / runs),
          cost_text(trace, group.time)),
      {"Compare library versions and kernel choices (cudnn.benchmark, cuBLASLt, max-autotune), and "
       "the GPU's clock under load",
       Exactness::exact_arithmetic},
      gain_of_kernel_time(trace, saved));
  finding.count = judged.runs;
  finding.ops = workload_ops_of(input, group);
  finding.evidence = {Evidence::measured(fmt::format(
      "{} a run in {}; the model says {} to {}", time_text(group.time / runs), kernels_text(group),
      time_text(judged.model.low / runs), time_text(judged.model.high / runs)))};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  const Seconds beside = trace.time.communication - trace.time.exposed_communication;
  if (trace.is_foreign || !input.model.calibrated() || !is_recorded_on(trace, input.device()) ||
      beside > kMostOverlap * trace.time.span) {
    return cases;
  }
  for (const UseGroup& group : group_by_shape(trace, is_judged)) {
    if (group.time < kMinShare * trace.time.span) break;
    const std::optional<Judged> judged = modelled(input, group);
    if (!judged || group.time < kLong * static_cast<double>(judged->runs)) continue;
    if (group.time < kBeyond * judged->model.high) continue;
    add_if_visible(trace, group.name + group.shape, describe(input, trace, group, *judged), cases);
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace gemm_below_attainable_rate_rule

extern const Rule gemm_below_attainable_rate{
    .id = "gemm/below-attainable-rate",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "A GEMM runs below the rate this GPU attains for the shape",
    .doc = gemm_below_attainable_rate_rule::kDoc,
    .in_traces = gemm_below_attainable_rate_rule::check};

}  // namespace rooftile
