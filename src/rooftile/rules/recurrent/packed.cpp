// Packed variable-length sequences, which always take cuDNN's standard algorithm.
#include <fmt/format.h>

#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace recurrent_packed_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A recurrent layer that reads packed variable-length sequences and would run with one of cuDNN's
persistent algorithms if it read a padded tensor.

## Why it costs time
Persistent algorithms keep the recurrent weights in registers or shared memory over all steps. PyTorch
selects the standard algorithm, one GEMM per step, whenever the sequences are packed.

## How to fix
Compare the padding share with the gain. Sorting or bucketing sequences by length makes the padding
small; then a padded tensor is faster. With much padding, packing saves the work of the padded steps and
stays the better choice.

## How the saving is estimated
No saving is given: it depends on the lengths, which the graph does not show. The message states the time
of the layer with a padded tensor of the same size.

## When not to
- Bidirectional layers need packing for correct results at the end of each sequence.
- Padded outputs have to be masked, and the final state taken at each sequence's own end.

## Evidence
- PyTorch, aten/src/ATen/native/cudnn/RNN.cpp, `get_algo`: batch sizes of packed input exclude the
  persistent algorithms.
)md";

bool loses_persistence(const RuleInput& input, const Op& op) {
  const auto* rnn = std::get_if<Recurrent>(&op.body);
  if (rnn == nullptr || !rnn->packed) return false;
  Recurrent padded = *rnn;
  padded.packed = false;
  return cudnn_rnn_algorithm(padded, op.dtypes.input, input.device()).forward !=
         RnnAlgorithm::standard;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return loses_persistence(input, op); };
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (!matters(layer)) continue;
    const auto saving = saving_if_all(input, layer, [](Op op) {
      std::get<Recurrent>(op.body).packed = false;
      std::get<Recurrent>(op.body).tokens = 0;  // with the padding
      return op;
    });
    if (!is_gain(input, saving)) continue;
    const double ratio = 1 - saving->expected / total_time(input, layer).time.expected;
    Finding finding = finding_at_groups(
        input, {layer},
        fmt::format("Packed sequences keep this layer from cuDNN's persistent algorithm; a padded "
                    "tensor of this size would take {} of the time.",
                    share_text(ratio)),
        {"Sort or bucket by length and pass a padded tensor, if little of it is padding; mask the "
         "outputs.",
         Exactness::exact_arithmetic},
        std::nullopt);
    finding.evidence = {
        Evidence::published("PyTorch, aten/src/ATen/native/cudnn/RNN.cpp, get_algo")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace recurrent_packed_rule

extern const Rule recurrent_packed{
    .id = "recurrent/packed",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Packed sequences keep a layer from the persistent algorithm",
    .doc = recurrent_packed_rule::kDoc,
    .in_ops = recurrent_packed_rule::check};

}  // namespace rooftile
