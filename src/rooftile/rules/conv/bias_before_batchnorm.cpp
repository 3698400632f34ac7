// A bias that the following BatchNorm subtracts again, in training.
#include <fmt/format.h>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/trace_finding.h"
#include "rooftile/workload/graph.h"

namespace rooftile {

// bias_before_batchnorm_in_source.cpp
std::vector<Finding> biases_before_batchnorm(const source::SourceFacts& facts);

namespace conv_bias_before_batchnorm_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a training step: a convolution or Linear layer with a bias whose output is read by a BatchNorm of
the same width and by nothing else. One finding for the network.

In traces: a convolution that adds its bias, followed on its thread by a BatchNorm of as many channels that
computes statistics.

In training scripts: `nn.Conv` or `nn.Linear` with a bias directly before BatchNorm, as neighbours in
`nn.Sequential`, in a list of layers, in two lists that run in pairs or in `forward`, in a program that
trains on a GPU. One finding per
class or function. The edit is safe only where nothing touches a bias and no checkpoint is loaded.

## Why it costs time
In training BatchNorm subtracts the mean of each channel, and a constant added to the channel changes
the mean by the same amount. The bias has no effect, but it is added in the forward pass and its
gradient is a sum over the whole output in the backward pass.

## How to fix
`bias=False`. BatchNorm's own shift takes the bias's place. For a trained checkpoint that is used in
evaluation mode afterwards, subtract the bias from `running_mean`, else its outputs change.

## How the saving is estimated
Expected: the reduction that computes the bias gradient, one read of the output gradient. High: also
one read and write of the output to add the bias. Low: nothing, where both are fused into other
kernels. No measured figure is published; the gain is small. In traces: the measured time of the kernels
that add the bias and reduce its gradient; half of it at the low end. Where the GPU waits for launches, their
share of that idle time is the high end's, half of it likely.

## When not to
- BatchNorm that is frozen (evaluation mode during fine-tuning) uses stored statistics, and the bias
  counts. The graph does not show it.
- GroupNorm and LayerNorm subtract the mean of several channels: the bias is not cancelled. They are
  not reported, nor is a layer whose output also goes elsewhere or passes an activation or add first.
- In inference the bias is part of what folding computes; see `conv/unfolded-batchnorm`.
- Weights shared with a layer that has no BatchNorm.
- Scripts: a norm layer that is chosen at run time, an activation or add between, frozen BatchNorm. Linear
  layers, classes with less than two convolutions that are known to have 128 channels or more, networks beside
  those that are trained: information.

## Evidence
- PyTorch Performance Tuning Guide, "Disable bias for convolutions directly followed by a batch norm".
- torchvision's ResNets have no convolution bias.
)md";

std::int64_t width_with_bias(const Op& op) {
  if (const auto* conv = std::get_if<Convolution>(&op.body)) return conv->bias ? conv->k : 0;
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) {
    return gemm->bias && gemm->weight_is_parameter ? gemm->n : 0;
  }
  return 0;
}

double output_elements(const Op& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) {
    return static_cast<double>(gemm->m) * static_cast<double>(gemm->n);
  }
  const auto& conv = std::get<Convolution>(op.body);
  return static_cast<double>(conv.n) * static_cast<double>(conv.k) *
         element_count(output_extents(conv));
}

bool is_cancelled(const Workload& workload, const Graph& graph, std::size_t op) {
  if (workload.ops[op].phase != Phase::forward) return false;
  const auto reader = graph.sole_consumer(op);
  if (!reader) return false;
  const auto* norm = std::get_if<Normalization>(&workload.ops[*reader].body);
  return norm != nullptr && norm->fn == NormKind::batch &&
         norm->cols == width_with_bias(workload.ops[op]);
}

// Time to stream the output `passes` times, without the launches of kernels of their own.
Seconds stream_output(const RuleInput& input, const Op& op, double passes) {
  const Bytes output = storage(output_elements(op), op.dtypes.output);
  return output * passes / input.device().dram_bandwidth * static_cast<double>(op.count);
}

Range<Seconds> bias_time(const RuleInput& input, const LayerGroup& layers) {
  constexpr double kGradientPasses = 1, kAddPasses = 2;
  Range<Seconds> sum{};
  for (const std::size_t layer : layers.ops) {
    const Op& op = input.workload.ops[layer];
    sum.expected += stream_output(input, op, kGradientPasses);
    sum.high += stream_output(input, op, kGradientPasses + kAddPasses);
  }
  return sum;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  if (input.workload.mode != Mode::training) return {};
  const Graph& graph = input.graph;
  const LayerGroup layers =
      select(input, [&](std::size_t op) { return is_cancelled(input.workload, graph, op); });
  if (!matters(layers)) return {};
  const auto& norm =
      std::get<Normalization>(input.workload.ops[*graph.sole_consumer(layers.ops.front())].body);
  Finding finding = finding_at_groups(
      input, {layers},
      fmt::format(
          "The bias in front of BatchNorm ({} channels at the first layer) has no effect in "
          "training: BatchNorm subtracts it again.",
          norm.cols),
      {"Set bias=False; to keep using a trained checkpoint, subtract the bias from running_mean.",
       Exactness::exact_arithmetic},
      bias_time(input, layers));
  finding.evidence = {
      Evidence::published("BatchNorm(x + b) = BatchNorm(x) when the statistics come from the batch",
                          "PyTorch Performance Tuning Guide, \"Disable bias for convolutions "
                          "directly followed by a batch norm\"")};
  return {finding};
}

// Idle time of the GPU for the launches of these kernels, where launching is what it waits for.
Seconds launching(const TraceSummary& trace, std::int64_t kernels) {
  const auto idle = trace.time.idle_by_cause.find(IdleCause::launch);
  const std::int64_t all = table_count(trace, kernels_in_tables(trace));
  if (idle == trace.time.idle_by_cause.end() || all <= 0) return {};
  return idle->second * (static_cast<double>(kernels) / static_cast<double>(all));
}

// The operators do not say what reads their results, their order in a trace does.
std::vector<TraceCase> judge(const TraceSummary& trace) {
  const ConvBiasUse& bias = trace.conv_bias;
  const Seconds added = bias.added * table_part(trace);
  const Seconds gradient = bias.gradient * table_part(trace);
  const std::int64_t kernels = table_count(trace, bias.count) * (gradient > Seconds() ? 2 : 1);
  const Seconds late = launching(trace, kernels);
  const Range<Seconds> gain =
      gain_of_kernel_time(trace, {0.5 * (added + gradient), added + gradient, added + gradient}) +
      Range<Seconds>{Seconds(), 0.5 * late, late};
  if (bias.count <= 0 || !is_visible(trace, gain.expected)) return {};
  Finding finding = about_site(
      trace, bias.site,
      fmt::format("the bias of convolutions before BatchNorm costs {} and has no effect in "
                  "training: BatchNorm subtracts it again",
                  cost_text(trace, added + gradient)),
      {"Set bias=False; to keep using a trained checkpoint, subtract the bias from running_mean",
       Exactness::exact_arithmetic},
      gain);
  finding.count = bias.count;
  finding.evidence = {Evidence::measured(
      fmt::format("adding the bias takes {}, its gradient {}, in {}",
                  time_text(per_step(trace, added)), time_text(per_step(trace, gradient)),
                  count_text(trace, table_count(trace, bias.count), "convolution")))};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check_traces(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace conv_bias_before_batchnorm_rule

extern const Rule conv_bias_before_batchnorm{
    .id = "conv/bias-before-batchnorm",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "BatchNorm cancels the bias of the layer before it",
    .doc = conv_bias_before_batchnorm_rule::kDoc,
    .in_ops = conv_bias_before_batchnorm_rule::check_operations,
    .in_traces = conv_bias_before_batchnorm_rule::check_traces,
    .in_scripts = biases_before_batchnorm};

}  // namespace rooftile
