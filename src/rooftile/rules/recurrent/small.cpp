// Recurrent layers whose steps are too small to fill the GPU.
#include <fmt/format.h>

#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace recurrent_small_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A recurrent layer whose GEMM from one time step to the next is not math-bound: minibatch or hidden
size are too small for the GPU.

## Why it costs time
The steps follow each other. Each multiplies a minibatch by the same recurrent weights; when the
minibatch is small, reading the weights and starting the kernel take longer than the arithmetic.

## How to fix
Use a larger minibatch: twice the batch often takes much less than twice the time. A larger hidden size
costs little extra time for the same reason. A longer sequence helps only where it is very short.

## How the saving is estimated
No saving is given. The message compares the time of the layer with that at twice the batch.

## When not to
- A layer that waits for latency at its natural batch, as in streaming speech, has no batch to grow.
- A larger batch changes training.

## Evidence
- NVIDIA, Recurrent Layers User's Guide: minibatch and hidden size decide the efficiency of the recurrent
  GEMM; below a batch of 128 or a hidden size of 256 it is limited by bandwidth on V100.
)md";

// Time at twice the batch over the present one, up to which a larger batch is worth the mention.
constexpr double kWorthwhileRatio = 1.6;

bool is_recurrent(const Op& op) { return std::holds_alternative<Recurrent>(op.body); }

const MatrixProduct* recurrent_product(const OpAnalysis& analysis) {
  for (const MatrixProduct& product : analysis.products) {
    if (product.part == "recurrent") return &product;
  }
  return nullptr;
}

// Why twice the batch may take less time than now.
std::string reason_text(const RuleInput& input, const Op& op) {
  Recurrent larger = std::get<Recurrent>(op.body);
  const RnnChoice now = cudnn_rnn_algorithm(larger, op.dtypes.input, input.device());
  larger.batch *= 2;
  const RnnChoice then = cudnn_rnn_algorithm(larger, op.dtypes.input, input.device());
  const bool becomes_persistent =
      now.forward == RnnAlgorithm::standard && then.forward != RnnAlgorithm::standard;
  return becomes_persistent ? ", for PyTorch then takes cuDNN's persistent algorithm, which keeps "
                              "the weights on chip over all steps"
                            : "";
}

std::optional<Finding> small_at(const RuleInput& input, const LayerGroup& layer) {
  const std::size_t first = layer.ops.front();
  const auto& rnn = std::get<Recurrent>(input.workload.ops[first].body);
  const MatrixProduct* product = recurrent_product(input.analysis.ops[first]);
  if (product == nullptr || is_math_bound(input, *product) || rnn.seq < 2) return std::nullopt;
  const auto extra = saving_if_all(input, layer, [](Op op) {
    std::get<Recurrent>(op.body).batch *= 2;
    return op;
  });
  if (!extra) return std::nullopt;
  const double ratio = 1 - extra->expected / total_time(input, layer).time.expected;
  if (ratio > kWorthwhileRatio) return std::nullopt;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format(
          "Each of the {} steps multiplies {} rows by a {} x {} weight, too little work for "
          "{}: batch {} would take {:.2f} times as long{}.",
          rnn.seq, rnn.batch, product->n, product->k, input.device().name, 2 * rnn.batch, ratio,
          reason_text(input, input.workload.ops[first])),
      {"Use a larger minibatch if training allows it.", Exactness::changes_training}, std::nullopt);
  finding.evidence = {Evidence::published(
      "Recurrent GEMMs below batch 128 or hidden size 256 are bandwidth-limited on V100",
      "NVIDIA Recurrent Layers User's Guide")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, is_recurrent)) {
    if (!matters(layer)) continue;
    if (auto finding = small_at(input, layer)) findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace recurrent_small_rule

extern const Rule recurrent_small{.id = "recurrent/small",
                                  .level = Level::info,
                                  .cause = Cause::none,
                                  .summary = "Steps of a recurrent layer are too small for the GPU",
                                  .doc = recurrent_small_rule::kDoc,
                                  .in_ops = recurrent_small_rule::check};

}  // namespace rooftile
