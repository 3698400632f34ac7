// The input product of a hand-written recurrent cell, run once for each time step.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/unrolled_rnn.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/recurrent/unbatched_input_projection_in_source.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/script_rule.h"

namespace rooftile {
namespace recurrent_unbatched_input_projection_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a recurrent cell unrolled over time: equal matrix products, one for each step, that multiply the
step's input and do not depend on any other step.

In training scripts: a loop over time in a module multiplies the step's input, known before, beside a
product of the state and gates; also through an own cell. At level advice.

## Why it costs time
Only the product with the hidden state has to wait for the step before. The products with the inputs are
known at the start; one by one each is a small product with a launch of its own, all at once they are
one large product that fills the GPU.

## How to fix
Multiply the whole input sequence by the input weights before the loop and slice the result in it. This
works for cells that no library offers, such as an LSTM with layer norm.

## How the saving is estimated
The time of all the products minus the time of one with as many rows, in every phase the workload has.

## When not to
- The step's input depends on the last output, as in a decoder that feeds back its own prediction. Such
  products stay silent.
- A plain LSTM, GRU or RNN is better served by the library's layer, which does this itself; see
  `recurrent/unrolled-loop`.

## Evidence
- NVIDIA, Recurrent Layers User's Guide: the input products of all time steps can be combined.
- Appleyard, Kocisky, Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016.
)md";

constexpr std::size_t kMinProducts = 8;

// The loop's projections of the most frequent shape: those of its first.
std::vector<std::size_t> equal_projections(const Workload& workload, const UnrolledLoop& loop) {
  std::vector<std::size_t> equal;
  for (const std::size_t op : loop.projections) {
    const Op& first = workload.ops[loop.projections.front()];
    if (workload.ops[op].body == first.body) equal.push_back(op);
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

std::vector<Finding> check_operations(const RuleInput& input) {
  const Graph& graph = input.graph;
  std::vector<Finding> findings;
  for (const UnrolledLoop& loop : find_unrolled_loops(input.workload, graph)) {
    const std::vector<std::size_t> projections = equal_projections(input.workload, loop);
    if (projections.size() < kMinProducts) continue;
    const Op& first = input.workload.ops[projections.front()];
    if (!std::holds_alternative<Gemm>(first.body)) continue;
    const LayerGroup group = with_gradients(input, projections);
    const auto after = batched_time(input, group, projections.size());
    if (!after || !matters(group)) continue;
    const auto saving = saving_of_replacing(input, group, *after);
    if (!is_gain(input, saving)) continue;
    const auto& gemm = std::get<Gemm>(first.body);
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("{} products of {} rows multiply the input of one time step each, though none "
                    "depends on another.",
                    projections.size(), gemm.m),
        {fmt::format("Multiply the whole sequence before the loop: one product of {} rows.",
                     gemm.m * static_cast<std::int64_t>(projections.size())),
         Exactness::exact_arithmetic},
        saving);
    finding.evidence = {"Their inputs do not come from a recurrent step (data flow)."};
    soften_unless_clear(input, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) {
  return with_scripts(input, check_operations(input), step_by_step_projections, Level::advice);
}

}  // namespace recurrent_unbatched_input_projection_rule

extern const Rule recurrent_unbatched_input_projection{
    .id = "recurrent/unbatched-input-projection",
    .level = Level::warning,
    .cause = Cause::launch,
    .summary = "A recurrent loop multiplies its input step by step",
    .doc = recurrent_unbatched_input_projection_rule::kDoc,
    .check = recurrent_unbatched_input_projection_rule::check};

}  // namespace rooftile
