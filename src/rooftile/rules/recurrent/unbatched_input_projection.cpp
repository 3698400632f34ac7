// Input and output GEMMs of a hand-written recurrent cell, run once for each time step.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/unrolled_rnn.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// unbatched_input_projection_in_source.cpp
std::vector<Finding> step_by_step_projections(const source::SourceFacts& facts);

namespace recurrent_unbatched_input_projection_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a recurrent cell unrolled over time: equal GEMMs, one for each step, that multiply the step's input
and do not depend on any other step; or that multiply the step's state, such as the logits of a language
model, and that no later step reads.

In training scripts: a loop over time in a module multiplies the step's input, known before, next to a
GEMM of the state and gates, also through a user-defined cell; or it applies an `nn.Linear` to the state
and only collects the results (`outs.append(self.out(h))`). At level advice.

## Why it costs time
Only the GEMM with the hidden state has to wait for the step before. The inputs are known at the start,
the states at the end; step by step each is a small GEMM with a launch, and reads the weights again. All
at once they are one large GEMM that fills the GPU.

## How to fix
Multiply the whole input sequence by the input weights before the loop and slice the result in it.
Collect the states (`torch.stack`) and apply the output layer once after the loop. This works for cells
that no library offers, such as an LSTM with layer norm.

## How the saving is estimated
The time of all the GEMMs minus the time of one with as many rows, in every phase the workload has.

## When not to
- The step's input depends on the last output, as in a decoder that feeds back its prediction. Neither
  GEMM is reported then.
- A batch of several hundred rows fills the GPU in each step. Scripts: not reported where all loaders
  have a batch of 512 or more, which is above the flop per byte that any GPU needs (295 on an H100).
- The logits of all steps at once need more memory; a chunk of the sequence is a middle way.
- A plain LSTM, GRU or RNN is better served by the library's layer, which batches the inputs itself; see
  `recurrent/unrolled-loop`.

## Evidence
- NVIDIA, Recurrent Layers User's Guide: the input GEMMs of all time steps can be combined.
- Appleyard, Kocisky, Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016.
)md";

constexpr std::size_t kMinProducts = 8;

// Those of the shape of the first.
std::vector<std::size_t> equal_to_first(const Workload& workload,
                                        const std::vector<std::size_t>& projections) {
  std::vector<std::size_t> equal;
  for (const std::size_t op : projections) {
    if (workload.ops[op].body == workload.ops[projections.front()].body) equal.push_back(op);
  }
  return equal;
}

// One product with the rows of all steps for each of its phases.
std::optional<TimeEstimate> batched_time(const RuleInput& input, const LayerGroup& group,
                                         std::size_t products) {
  TimeEstimate total;
  for (const Phase phase : {Phase::forward, Phase::dgrad, Phase::wgrad}) {
    const auto first = std::find_if(group.ops.begin(), group.ops.end(), [&](std::size_t op) {
      return input.workload.ops[op].phase == phase;
    });
    if (first == group.ops.end()) continue;
    Op op = input.workload.ops[*first];
    std::get<Gemm>(op.body).m *= static_cast<std::int64_t>(products);
    const auto time = input.model.estimate(op);
    if (!time) return std::nullopt;
    total = total + *time * static_cast<double>(op.count);
  }
  return total;
}

struct Wording {
  std::string_view message, fix, evidence;
};
constexpr Wording kInputs{
    "multiply the input of one time step each, though none depends on another",
    "Multiply the whole sequence before the loop",
    "Their inputs do not come from a recurrent step (data flow)."};
constexpr Wording kOutputs{
    "multiply the state of one time step each, though no later step reads them",
    "Collect the states and multiply them once after the loop",
    "Their results reach no other GEMM (data flow)."};

std::optional<Finding> judge(const RuleInput& input, const std::vector<std::size_t>& all,
                             const Wording& wording) {
  const std::vector<std::size_t> projections = equal_to_first(input.workload, all);
  if (projections.size() < kMinProducts) return std::nullopt;
  const auto* gemm = std::get_if<Gemm>(&input.workload.ops[projections.front()].body);
  if (gemm == nullptr) return std::nullopt;
  const LayerGroup group = with_gradients(input, projections);
  const auto after = batched_time(input, group, projections.size());
  if (!after || !matters(group)) return std::nullopt;
  const auto saving = saving_of_replacing(input, group, *after);
  if (!is_gain(input, saving)) return std::nullopt;
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{} GEMMs of {} rows {}.", projections.size(), gemm->m, wording.message),
      {fmt::format("{}: one GEMM of {} rows.", wording.fix,
                   gemm->m * static_cast<std::int64_t>(projections.size())),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {Evidence::found(std::string(wording.evidence))};
  soften_unless_clear(input, finding);
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const UnrolledLoop& loop : find_unrolled_loops(input.workload, input.graph)) {
    if (auto finding = judge(input, loop.projections, kInputs)) findings.push_back(*finding);
    if (auto finding = judge(input, loop.outputs, kOutputs)) findings.push_back(*finding);
  }
  return findings;
}

}  // namespace recurrent_unbatched_input_projection_rule

extern const Rule recurrent_unbatched_input_projection{
    .id = "recurrent/unbatched-input-projection",
    .level = Level::warning,
    .level_in_scripts = Level::advice,
    .cause = Cause::launch,
    .summary = "Recurrent loop multiplies its input step by step",
    .doc = recurrent_unbatched_input_projection_rule::kDoc,
    .in_ops = recurrent_unbatched_input_projection_rule::check_operations,
    .in_scripts = step_by_step_projections};

}  // namespace rooftile
