#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace conv_nchw_on_tensor_cores_in_trace {

constexpr double kMinShare = threshold::kWorthADay;  // of convolutions: else it is another network

bool is_of_convolution(const OpUse* use) {
  return use != nullptr && contains(lower(use->name), "conv");
}

bool is_conversion(const OpUse* use, const KernelUse& kernel) {
  if (kernel.facts.kernel_class != KernelClass::layout_conversion) return false;
  // Of cuDNN's own folded layout, which channels last needs too.
  if (contains(lower(kernel.name), "folded")) return false;
  // cuDNN's own are of convolutions wherever they are launched; others where the operator says so.
  return kernel.facts.library == "cudnn" || is_of_convolution(use);
}

// Winograd's products are those of a convolution.
bool is_convolution(const OpUse* use, const KernelUse& kernel) {
  return kernel.facts.kernel_class == KernelClass::convolution ||
         (kernel.facts.kernel_class == KernelClass::gemm && is_of_convolution(use));
}

// In channels_last CUDA cores are slower: cuDNN has no Winograd there.
bool is_on_cuda_cores(const OpUse* use, const KernelUse& kernel) {
  return is_convolution(use, kernel) && !kernel.facts.tensor_core.value_or(true);
}

std::vector<Evidence> evidence_of(const TraceSummary& trace, const std::vector<UseGroup>& groups,
                                  Seconds convolutions) {
  constexpr std::size_t kMostTold = 3;
  std::vector<Evidence> lines;
  for (const UseGroup& group : groups) {
    if (lines.size() == kMostTold) break;
    lines.push_back(Evidence::measured(
        fmt::format("{} in {} runs of kernel {} under {}", time_text(group.time), group.kernels,
                    short_kernel_name(group.kernel->name), group_text(group))));
  }
  lines.push_back(Evidence::measured(
      fmt::format("the convolutions themselves take {}", cost_text(trace, convolutions))));
  return lines;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (trace.is_foreign) return {};
  const std::vector<UseGroup> groups = group_by_shape(trace, is_conversion);
  Seconds time;
  std::int64_t kernels = 0;
  for (const UseGroup& group : groups) {
    time += group.time;
    kernels += group.kernels;
  }
  const Seconds convolutions = time_of_kernels(trace, is_convolution);
  const bool is_convolutional = convolutions >= kMinShare * trace.time.span;
  const bool on_cuda_cores = 2 * time_of_kernels(trace, is_on_cuda_cores) > convolutions;
  if (!is_visible(trace, time) || !is_convolutional || on_cuda_cores) return {};
  Finding finding = about_group(
      trace, groups.front(),
      fmt::format("converting between NCHW and NHWC around convolutions takes {} in {}",
                  cost_text(trace, time), count_text(trace, table_count(trace, kernels), "kernel")),
      {"Keep the whole network in channels_last: model.to(memory_format=torch.channels_last), and "
       "the input of each step",
       Exactness::exact_arithmetic},
      gain_of_kernel_time(trace, {0.5 * time, 0.75 * time, time}));
  finding.count = kernels;
  finding.evidence = evidence_of(trace, groups, convolutions);
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace conv_nchw_on_tensor_cores_in_trace

}  // namespace rooftile
