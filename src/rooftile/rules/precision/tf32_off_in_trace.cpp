#include <fmt/format.h>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_tf32_off_in_trace {

constexpr double kMinSixteenBit = 0.1;  // of the matrix time
constexpr double kMostSaved = 0.75;     // where no shape is known

bool is_on_cuda_cores(const OpUse* use, const KernelUse& kernel) {
  return is_matrix_kernel(kernel) && kernel.facts.tensor_core == false &&
         !is_vector_kernel(kernel) && operand_dtype(use, kernel) == Dtype::fp32;
}

bool is_sixteen_bit(const OpUse* use, const KernelUse& kernel) {
  const std::optional<Dtype> dtype = operand_dtype(use, kernel);
  return is_matrix_kernel(kernel) && dtype && is_16_bit_float(*dtype);
}

bool is_any(const OpUse*, const KernelUse& kernel) { return is_matrix_kernel(kernel); }

Range<Seconds> saving_of(const RuleInput& input, const UseGroup& group) {
  const auto in_tf32 = [](const Op& op) {
    Op changed = op;
    changed.dtypes = Dtypes(Dtype::tf32);
    return changed;
  };
  if (const auto saving = saving_if(input.model, group, in_tf32)) return *saving;
  return {Seconds(0), 0.5 * kMostSaved * group.time, kMostSaved * group.time};
}

Finding describe(const TraceSummary& trace, const RuleInput& input, const UseGroup& group,
                 const Range<Seconds>& gain) {
  Finding finding = about_group(
      trace, group,
      fmt::format("{}: an fp32 GEMM on CUDA cores takes {} in a program that otherwise runs in "
                  "16 bits",
                  group_text(group), cost_text(trace, group.time)),
      {"Allow TF32 (torch.set_float32_matmul_precision(\"high\")), or cast if fp32 was not meant",
       Exactness::changes_numerics},
      gain);
  finding.count = group.kernels;
  finding.ops = workload_ops_of(input, group);
  finding.evidence = {
      Evidence::measured(fmt::format("{} runs of kernel {}", group.kernels,
                                     short_kernel_name(group.kernel->name))),
      Evidence::published("fp32 0.11 s, TF32 0.016 s on an A100", "PyTorch CUDA semantics, TF32")};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  const Device& device = input.device();
  if (trace.is_foreign || !device.has_tensor_cores(Dtype::tf32) || !is_recorded_on(trace, device)) {
    return {};
  }
  const Seconds all = time_of_kernels(trace, is_any);
  if (time_of_kernels(trace, is_sixteen_bit) < kMinSixteenBit * all) return {};
  std::vector<TraceCase> cases;
  for (const UseGroup& group : group_by_shape(trace, is_on_cuda_cores)) {
    if (!is_visible(trace, group.time)) break;
    const Range<Seconds> gain = gain_of_kernel_time(trace, saving_of(input, group));
    if (gain.expected <= Seconds(0)) continue;
    cases.push_back({group.name + group.shape, describe(trace, input, group, gain)});
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace precision_tf32_off_in_trace

}  // namespace rooftile
