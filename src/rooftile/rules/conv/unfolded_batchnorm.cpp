// BatchNorm that runs on its own in inference, where it is a constant scale and shift.
#include <fmt/format.h>

#include "rooftile/analysis/batchnorm.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/workload/graph.h"

namespace rooftile {
namespace conv_unfolded_batchnorm_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In inference: a BatchNorm that directly follows a convolution or Linear layer of the same width and is
the only reader of its output. One finding for the network.

## Why it costs time
With stored statistics BatchNorm is a constant scale and shift of each channel. On its own it reads and
writes the whole tensor; folded into the weights it costs nothing.

## How to fix
Scale the layer's weights and move the shift into its bias: `torch.nn.utils.fuse_conv_bn_eval`,
`torch.fx` experimental fuse, Inductor's freezing, or the graph optimisation of the inference runtime.

## How the saving is estimated
The time of the BatchNorm operations. A bias that a layer gets by folding is added inside the kernel.

## When not to
- Never in training: the statistics come from the batch.
- The runtime may fold when it loads the model. TensorRT and ONNX Runtime do; the finding then concerns
  only what runs in eager mode.
- BatchNorm behind an activation or add, or of an output with other readers, cannot be folded backwards
  and is not reported.

## Evidence
- PyTorch tutorial "Building a Convolution/Batch Norm fuser in FX".
- Folding is exact in real arithmetic: (w x + b - mean) * s + shift = (s w) x + (b - mean) s + shift.
)md";

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode != Mode::inference) return {};
  const Graph& graph = input.graph;
  const LayerGroup norms =
      select(input, [&](std::size_t op) { return folds_into_layer(input.workload, graph, op); });
  if (!matters(norms)) return {};
  Finding finding = finding_at_groups(
      input, {norms},
      fmt::format("BatchNorm right behind a convolution or Linear layer takes {} of the time; "
                  "in inference it is a constant that belongs into the weights.",
                  share_text(norms.time_share)),
      {"Fold it into the layer before: fuse_conv_bn_eval, Inductor freezing, or the runtime's "
       "graph "
       "optimisation.",
       Exactness::exact_arithmetic},
      total_time(input, norms).time);
  finding.evidence = {Evidence::estimated(
      "Each BatchNorm reads and writes its tensor once; folded it moves nothing.")};
  return {finding};
}

}  // namespace conv_unfolded_batchnorm_rule

extern const Rule conv_unfolded_batchnorm{
    .id = "conv/unfolded-batchnorm",
    .level = Level::warning,
    .cause = Cause::fusion,
    .summary = "BatchNorm runs as a separate operation in inference",
    .doc = conv_unfolded_batchnorm_rule::kDoc,
    .in_ops = conv_unfolded_batchnorm_rule::check};

}  // namespace rooftile
