// Recurrent layers whose widths are not whole 16-byte groups.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// unaligned_sizes_in_source.cpp
std::vector<Finding> unaligned_recurrent_sizes(const source::SourceFacts& facts);

namespace recurrent_unaligned_sizes_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An LSTM, GRU or RNN on Tensor Cores whose input (embedding), hidden or projection size is not a multiple
of 16 bytes (8 for fp16 and bf16, 4 for TF32). Information where the layer is too small for a visible
saving, such as an input of 100 for 512 hidden units.

In training scripts: `nn.LSTM`, `GRU` or `RNN` with a hidden size of 64 or more, written or an option's
default, that is not a multiple of 8, at level advice; information for an input size.

## Why it costs time
These sizes are the row lengths of the weights and of the activations. Rows that are not whole 16-byte
groups cannot be loaded with full-width vector loads, so the library takes a slower kernel: for the
hidden size in every step, for the input size in the GEMM over all steps.

## How to fix
Round the size up before training. Trained layers can be padded exactly: zero weights and biases for
all gates and a zero initial state keep the added units of LSTM, GRU, tanh and ReLU cells at zero. Padded
inputs get zero weights.

## How the saving is estimated
The time model runs on the layer with rounded sizes, in every phase the workload has; the added
arithmetic is part of it.

## When not to
- The minibatch is never the length of a row of these GEMMs, so a batch of 20 or 511 breaks no
  alignment. NVIDIA's checklist names it too, for cuBLAS before 11. Here it is not reported: an odd batch
  only leaves a tile partly empty.
- Where the padded layer is not expected to be faster nothing is reported.
- Small layers wait for the launch of the next step. Aligned sizes then save little.

## Evidence
- NVIDIA, Recurrent Layers User's Guide, checklist: hidden size and input size divisible by 8 in fp16,
  by 4 in TF32.
- cuBLAS documentation, "Tensor Core Usage": row lengths and strides of 16 bytes.
)md";

bool is_recurrent(const Op& op) { return std::holds_alternative<Recurrent>(op.body); }

Recurrent aligned(Recurrent rnn, std::int64_t step) {
  rnn.input = round_up(rnn.input, step);
  rnn.hidden = round_up(rnn.hidden, step);
  rnn.projection = round_up(rnn.projection, step);
  return rnn;
}

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const OpAnalysis& analysis = input.analysis.ops[layer.ops.front()];
  return !analysis.products.empty() && matters(layer) &&
         input.device().has_tensor_cores(analysis.products.front().math);
}

// "Input size 100 and hidden size 650 are"
std::string unaligned_names(const Recurrent& rnn, const Recurrent& wide) {
  std::vector<std::string> names;
  if (rnn.input != wide.input) names.push_back(fmt::format("input size {}", rnn.input));
  if (rnn.hidden != wide.hidden) names.push_back(fmt::format("hidden size {}", rnn.hidden));
  if (rnn.projection != wide.projection) {
    names.push_back(fmt::format("projection {}", rnn.projection));
  }
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) text += " and " + names[i];
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text + (names.size() > 1 ? " are" : " is");
}

Finding unaligned_at(const RuleInput& input, const LayerGroup& layer, const Recurrent& wide,
                     std::int64_t step, const Range<Seconds>& saving) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& rnn = std::get<Recurrent>(op.body);
  Op changed = op;
  changed.body = wide;
  const double extra = count_parameters(changed) / count_parameters(op) - 1;
  const std::string projection =
      wide.projection > 0 ? fmt::format(", projection {}", wide.projection) : "";
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("{} not a multiple of {}: {} rows are not whole 16-byte groups.",
                  unaligned_names(rnn, wide), step, to_string(op.dtypes.input)),
      {fmt::format("Use input {}, hidden {}{} ({} parameters); for trained weights pad with zero "
                   "weights, biases and initial state.",
                   wide.input, wide.hidden, projection, change_text(extra)),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {
      Evidence::published("Input and hidden size divisible by 8 in fp16, by 4 in TF32",
                          "NVIDIA Recurrent Layers User's Guide, checklist")};
  soften_unless_clear(input, finding);
  if (!is_gain(input, saving)) finding.own_level = Level::info;
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, is_recurrent)) {
    if (!is_candidate(input, layer)) continue;
    const std::size_t first = layer.ops.front();
    const auto& rnn = std::get<Recurrent>(input.workload.ops[first].body);
    const Dtype math = input.analysis.ops[first].products.front().math;
    const std::int64_t step = alignment_elements(math);
    const Recurrent wide = aligned(rnn, step);
    if (wide == rnn) continue;
    const auto saving = saving_if_all(input, layer, [&](Op op) {
      op.body = wide;
      return op;
    });
    if (!saving || is_pointless(saving)) continue;
    findings.push_back(unaligned_at(input, layer, wide, step, *saving));
  }
  return findings;
}

}  // namespace recurrent_unaligned_sizes_rule

extern const Rule recurrent_unaligned_sizes{
    .id = "recurrent/unaligned-sizes",
    .level = Level::warning,
    .cause = Cause::alignment,
    .summary = "Sizes of a recurrent layer are not whole 16-byte groups",
    .doc = recurrent_unaligned_sizes_rule::kDoc,
    .in_ops = recurrent_unaligned_sizes_rule::check_operations,
    .in_scripts = unaligned_recurrent_sizes};

}  // namespace rooftile
