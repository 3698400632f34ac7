// A recurrent layer written out step by step instead of one library call.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/unrolled_rnn.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// unrolled_loop_in_source.cpp
std::vector<Finding> unrolled_cells_in_source(const source::SourceFacts& facts);

namespace recurrent_unrolled_loop_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A chain of equal small GEMMs in which each depends on the one before through sigmoid and tanh
gates: an LSTM or GRU unrolled over time, from cells in a Python loop. One-step recurrent operations in
a chain count too.

In training scripts: `nn.LSTMCell`, `GRUCell`, `RNNCell`, or a layer called for one step, in a Python
loop over time whose inputs are known before the loop. At level advice.

## Why it costs time
Each step launches its GEMMs and a handful of pointwise kernels, and reads the recurrent weights
again. cuDNN multiplies the input of all steps at once, runs layers and gates in parallel, and fuses the
gates; its persistent algorithms keep the weights on chip.

## How to fix
Use `nn.LSTM`, `nn.GRU` or `nn.RNN` over the whole sequence. The result is the same when gate order,
biases and the place of dropout match.

## How the saving is estimated
The time of the GEMMs and pointwise operations of all steps minus the time of one recurrent layer of
the same size, with gradients in a training step.

## When not to
- The next input depends on the last output, as in a decoder with attention or sampling: no library call
  covers it.
- Cells with layer norm, zoneout or other changes inside. Loops with a norm, softmax or lookup between
  the steps are not reported.
- Equal layers on top of each other are not a loop; without gates between them they are not reported.
- Scripts: fed-back outputs, attention context, and a norm or zoneout on the state: not reported.

## Evidence
- NVIDIA, Recurrent Layers User's Guide: cuDNN combines the input GEMMs over time and streams layers.
- Appleyard, Kocisky, Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016.
)md";

// Width of the state and of the step's input.
struct CellSize {
  std::int64_t batch = 0, input = 0, hidden = 0, gates = 0;
};

CellSize size_of(const Workload& workload, const UnrolledLoop& loop) {
  const Body& step = workload.ops[loop.steps.front()].body;
  if (const auto* rnn = std::get_if<Recurrent>(&step)) {
    return {rnn->batch, rnn->input, rnn->hidden, rnn->cell == Cell::gru ? 3 : 4};
  }
  const auto& gemm = std::get<Gemm>(step);
  CellSize size{gemm.m, gemm.k, gemm.k, std::max<std::int64_t>(1, gemm.n / gemm.k)};
  size.gates *= loop.products_per_step;
  if (loop.projections.empty()) return size;
  const auto* projection = std::get_if<Gemm>(&workload.ops[loop.projections.front()].body);
  if (projection != nullptr) size.input = projection->k;
  return size;
}

Recurrent library_layer(const Workload& workload, const UnrolledLoop& loop) {
  const CellSize size = size_of(workload, loop);
  Recurrent rnn;
  rnn.cell = size.gates == 3 ? Cell::gru : Cell::lstm;
  rnn.batch = size.batch;
  rnn.seq = loop.length;
  rnn.input = size.input;
  rnn.hidden = size.hidden;
  return rnn;
}

std::optional<TimeEstimate> layer_time(const RuleInput& input, const Op& step, Recurrent rnn) {
  Op op;
  op.body = rnn;
  op.dtypes = step.dtypes;
  auto time = input.model.estimate(op);
  if (!time || input.workload.mode != Mode::training) return time;
  for (const Phase phase : {Phase::dgrad, Phase::wgrad}) {
    op.phase = phase;
    if (const auto gradient = input.model.estimate(op)) time = *time + *gradient;
  }
  return time;
}

LayerGroup operations_of(const RuleInput& input, const UnrolledLoop& loop) {
  std::vector<std::size_t> ops = loop.steps;
  ops.insert(ops.end(), loop.projections.begin(), loop.projections.end());
  ops.insert(ops.end(), loop.pointwise.begin(), loop.pointwise.end());
  std::sort(ops.begin(), ops.end());
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  return with_gradients(input, std::move(ops));
}

std::vector<Finding> check_operations(const RuleInput& input) {
  const Graph& graph = input.graph;
  std::vector<Finding> findings;
  for (const UnrolledLoop& loop : find_unrolled_loops(input.workload, graph)) {
    const LayerGroup group = operations_of(input, loop);
    if (!loop.plain || !matters(group)) continue;
    const Op& step = input.workload.ops[loop.steps.front()];
    const Recurrent rnn = library_layer(input.workload, loop);
    const auto after = layer_time(input, step, rnn);
    if (!after) continue;
    const auto saving = saving_of_replacing(input, group, *after * static_cast<double>(step.count));
    if (!is_gain(input, saving)) continue;
    const std::string_view cell = rnn.cell == Cell::gru ? "GRU" : "LSTM";
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("{} steps of a recurrent cell (batch {}, hidden {}) run one by one in {} "
                    "operations: {} of the time.",
                    loop.length, rnn.batch, rnn.hidden, group.ops.size(),
                    share_text(group.time_share)),
        {fmt::format("Use one nn.{} over the whole sequence; gate order, biases and dropout must "
                     "match.",
                     cell),
         Exactness::exact_arithmetic},
        saving);
    finding.evidence = {Evidence::found(
        "Each step's GEMM reads the result of the one before through sigmoid and tanh gates.")};
    soften_unless_clear(input, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace recurrent_unrolled_loop_rule

extern const Rule recurrent_unrolled_loop{
    .id = "recurrent/unrolled-loop",
    .level = Level::warning,
    .level_in_scripts = Level::advice,
    .cause = Cause::launch,
    .typical = Typical::tenth,
    .summary = "Recurrent layer runs cell by cell instead of in one call",
    .doc = recurrent_unrolled_loop_rule::kDoc,
    .in_ops = recurrent_unrolled_loop_rule::check_operations,
    .in_scripts = unrolled_cells_in_source};

}  // namespace rooftile
