#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace training_loop_batchnorm_statistics_in_inference_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Batch normalisation that computes the statistics of the batch, in a trace without a backward pass: the
model was not put into evaluation mode.

## Why it costs time
Statistics are a pass over all activations before the one that normalises. In evaluation mode the stored
ones are used, which a compiler or `torch.nn.utils.fusion.fuse_conv_bn_eval` folds into the convolution:
then nothing is left of it. Results also depend on what else is in the batch.

## How to fix
`model.eval()` before inference, and `torch.inference_mode()`.

## How the saving is estimated
High: the kernels that compute statistics, as if all were folded. Half of that is assumed likely, because
normalising stays where nothing folds it. The low end is 0.

## When not to
- The trace shows only the forward pass of training.
- Statistics of the batch are wanted, as in test-time adaptation.

## Evidence
- PyTorch documentation, `torch.nn.BatchNorm2d`: in evaluation mode the running estimates normalise.
- PyTorch documentation, `torch.nn.utils.fusion.fuse_conv_bn_eval`.
)md";

// PyTorch's own kernels, and cuDNN's of the forward pass of training.
bool computes_statistics(const KernelUse& kernel) {
  return contains_any(kernel.name, {"batch_norm_collect_statistics", "bn_fw_tr_", "batchnorm_fwtr",
                                    "BatchNormFwdTrain"});
}

struct Sum {
  const OpUse* largest = nullptr;
  std::int64_t count = 0;
  Seconds time;
};

Sum statistics_of(const TraceSummary& trace) {
  Sum sum;
  Seconds most;
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) {
      if (!computes_statistics(kernel)) continue;
      sum.count += kernel.count;
      sum.time += kernel.time;
      if (kernel.time <= most) continue;
      most = kernel.time;
      sum.largest = &use;
    }
  }
  return sum;
}

// Where operators are not recorded, kernels tell.
bool has_backward_kernels(const TraceSummary& trace) {
  const auto is_one = [](const KernelUse& kernel) {
    return contains_any(kernel.name, {"backward", "bn_bw", "wgrad", "dgrad"});
  };
  return std::ranges::any_of(trace.orphans, is_one) ||
         std::ranges::any_of(
             trace.ops, [&](const OpUse& use) { return std::ranges::any_of(use.kernels, is_one); });
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (trains(trace) || has_backward_kernels(trace)) return {};
  const Sum sum = statistics_of(trace);
  const Seconds in_window = sum.time * table_part(trace);
  if (sum.largest == nullptr || !is_visible(trace, in_window)) return {};
  std::optional<Range<Seconds>> gain =
      gain_of_kernel_time(trace, {Seconds(), 0.5 * in_window, in_window});
  // The results are another matter than the time, so it is told even where nothing is saved.
  if (gain->expected < threshold::kSavingReported * trace.time.span) gain.reset();
  Finding finding = about_site(
      trace, sum.largest->site,
      fmt::format("batch normalisation computes the batch's statistics, {} in {}, and the trace "
                  "holds no backward pass: for inference the model is in training mode",
                  cost_text(trace, in_window),
                  count_text(trace, table_count(trace, sum.count), "kernel")),
      {"Call model.eval() before inference", Exactness::changes_training}, gain);
  finding.count = sum.count;
  finding.evidence = {Evidence::measured(
      fmt::format("{} of kernels that compute statistics", time_text(in_window)))};
  if (finding.saving) note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace training_loop_batchnorm_statistics_in_inference_rule

extern const Rule training_loop_batchnorm_statistics_in_inference{
    .id = "training_loop/batchnorm-statistics-in-inference",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Inference normalises with each batch's own statistics",
    .doc = training_loop_batchnorm_statistics_in_inference_rule::kDoc,
    .in_any_trace = training_loop_batchnorm_statistics_in_inference_rule::check};

}  // namespace rooftile
