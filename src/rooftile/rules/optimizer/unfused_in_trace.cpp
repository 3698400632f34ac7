#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace optimizer_unfused_in_trace {

constexpr double kMinShare = threshold::kBeyondModelError;  // of the window

// torch._foreach_…: one formula's step over a list of tensors, and no fused optimizer.
bool is_over_list(const OpUse*, const KernelUse& kernel) {
  return kernel.facts.kernel_class == KernelClass::optimizer &&
         contains(kernel.name, "multi_tensor_apply") && !contains(lower(kernel.name), "fused");
}

// Of the time, by the streams of the formula.
struct Streams {
  double likely = 0, most = 0;
};

Streams saved_by_fusing(const TraceSummary& trace) {
  const bool is_adam = std::ranges::any_of(trace.ranges, [](const RangeUse& range) {
    return range.name.starts_with("Optimizer.step") && contains(range.name, "Adam");
  });
  return is_adam ? Streams{0.5, 0.65} : Streams{0.25, 0.65};
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const Seconds time = time_of_kernels(trace, is_over_list);
  if (time < kMinShare * trace.time.span) return {};
  std::int64_t kernels = 0;
  for (const UseGroup& group : group_by_shape(trace, is_over_list)) kernels += group.kernels;
  const Streams saved = saved_by_fusing(trace);
  Finding finding = about_trace(
      trace,
      fmt::format("the optimizer takes {} in {} over lists of tensors, each of which reads and "
                  "writes weights or states again",
                  cost_text(trace, time), count_text(trace, table_count(trace, kernels), "kernel")),
      {"Pass fused=True to the optimizer (Adam, AdamW, SGD, Adagrad)", Exactness::exact_arithmetic},
      gain_of_kernel_time(trace,
                          {0.5 * saved.likely * time, saved.likely * time, saved.most * time}));
  finding.count = kernels;
  finding.evidence = {
      Evidence::published("fused implementations are typically the fastest, then foreach",
                          "PyTorch documentation, torch.optim, Algorithms")};
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace optimizer_unfused_in_trace

}  // namespace rooftile
