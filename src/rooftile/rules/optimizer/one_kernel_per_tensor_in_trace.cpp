#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace optimizer_one_kernel_per_tensor_in_trace {

constexpr std::int64_t kMany = 50;            // kernels in one step of the optimizer
constexpr Seconds kShort = microseconds(20);  // on average
// The shortest kernels in traces of V100 to H100 take 1 to 2 µs.
constexpr Seconds kLeastKernel = microseconds(1.5);

bool is_step(const RangeUse& range) {
  return range.name.starts_with("Optimizer.step") && range.count > 0;
}

bool is_over_lists(const KernelUse& kernel) {
  return kernel.name.find("multi_tensor") != std::string::npos ||
         kernel.name.find("Fused") != std::string::npos ||
         kernel.name.find("fused") != std::string::npos;
}

// Optimizers that work on lists show at least one such kernel in the trace.
bool works_on_lists(const TraceSummary& trace) {
  return std::any_of(trace.ops.begin(), trace.ops.end(), [](const OpUse& use) {
    if (use.phase != Phase::optimizer) return false;
    return use.name.find("_foreach_") != std::string::npos ||
           use.name.find("_fused_") != std::string::npos ||
           std::any_of(use.kernels.begin(), use.kernels.end(), is_over_lists);
  });
}

// Idle time of the window, in the optimizer or later, that launching its kernels causes.
Seconds idle_by(const TraceSummary& trace, const RangeUse& range) {
  Seconds host;
  for (const RangeUse& other : trace.ranges) {
    if (is_step(other)) host += other.host_time;
  }
  for (const Prediction& prediction : trace.predictions) {
    if (prediction.remedy != Remedy::fused_optimizer || host <= Seconds()) continue;
    return std::max(range.idle, prediction.saved.expected * (range.host_time / host));
  }
  return range.idle;
}

// "AdamW" of "Optimizer.step#AdamW.step".
std::string_view class_of(std::string_view range) {
  const std::size_t begin = range.find('#');
  if (begin == std::string_view::npos) return {};
  const std::string_view name = range.substr(begin + 1);
  return name.substr(0, name.find('.'));
}

// torch.optim's Adam and AdamW divide with addcdiv; a class of that name without it is the
// program's own. Says nothing where no operator of the optimizer was recorded.
bool is_written_by_hand(const TraceSummary& trace, std::string_view optimizer) {
  if (!is_one_of(optimizer, {"Adam", "AdamW"})) return false;
  bool has_ops = false;
  for (const OpUse& use : trace.ops) {
    if (use.phase != Phase::optimizer) continue;
    if (contains(use.name, "addcdiv")) return false;
    has_ops = true;
  }
  return has_ops;
}

// By the arguments of torch.optim's classes: since PyTorch 2.0 they update lists unless told not
// to, so that one kernel for each tensor is of an older version or foreach=False. SGD takes fused
// since 2.3 only.
std::string remedy_for(const TraceSummary& trace, std::string_view optimizer) {
  if (is_written_by_hand(trace, optimizer)) {
    return fmt::format(
        "Use torch.optim.{} with fused=True, or update lists of parameters (torch._foreach_add_ "
        "and others): the class that ran is none of torch.optim",
        optimizer);
  }
  if (is_one_of(optimizer, {"Adam", "AdamW"})) return "Pass fused=True to the optimizer";
  if (optimizer == "SGD") {
    return "Pass foreach=True to the optimizer (PyTorch 1.12 or newer), or fused=True (2.3 or "
           "newer)";
  }
  if (is_one_of(optimizer,
                {"Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"})) {
    return "Pass foreach=True to the optimizer";
  }
  if (optimizer.empty()) return "Pass fused=True or foreach=True to the optimizer";
  return "Update lists of parameters (torch._foreach_add_ and others), or use an optimizer of "
         "torch.optim, which does";
}

Finding describe(const TraceSummary& trace, const RangeUse& range) {
  const double kernels = static_cast<double>(range.kernels);
  const Seconds starts = std::min(range.kernel_time, kLeastKernel * kernels);
  const Seconds late = idle_by(trace, range);
  const Range<Seconds> idle{0.5 * range.idle, std::max(0.75 * range.idle, 0.75 * late), late};
  const Range<Seconds> busy = gain_of_kernel_time(trace, {Seconds(0), 0.5 * starts, starts});
  Finding finding = about_site(
      trace, range.site,
      fmt::format("{} updates one parameter at a time: {} of {} on average; launching them takes "
                  "the host {}, and the GPU idles {} for it, there or later",
                  range.name, count_text(trace, range.kernels, "kernel"),
                  time_text(range.kernel_time / kernels), cost_text(trace, range.host_time),
                  cost_text(trace, late)),
      {remedy_for(trace, class_of(range.name)), Exactness::exact_arithmetic}, idle + busy);
  finding.location.node = range.name;
  finding.count = range.kernels;
  finding.evidence = {Evidence::measured(fmt::format(
                          "{} of the host's time, {} of kernels and {} of idle GPU",
                          cost_text(trace, range.host_time), cost_text(trace, range.kernel_time),
                          cost_text(trace, range.idle))),
                      Evidence::published("no kernel over lists of tensors in it",
                                          "PyTorch profiler, OptimizerSingleTensorPattern")};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const RangeUse& range : trace.ranges) {
    if (!is_step(range) || range.kernels < kMany * range.count) continue;
    if (range.kernel_time > kShort * static_cast<double>(range.kernels)) continue;
    if (!is_visible(trace, range.kernel_time + idle_by(trace, range))) continue;
    if (works_on_lists(trace)) continue;
    cases.push_back({range.name, describe(trace, range)});
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace optimizer_one_kernel_per_tensor_in_trace

}  // namespace rooftile
