#include <fmt/format.h>

#include <cmath>
#include <map>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace gemm_memory_bound_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Linear layers that take a visible part of the time and wait for memory: with so few tokens the
weights are read for too little work. All layers with the same number of tokens are one finding.

## Why it costs time
Reading the weights takes the same time for 16 tokens as for 100. Below the GPU's ridge (its peak
rate divided by its memory bandwidth) the Tensor Cores are idle most of the time.

## How to fix
Process more tokens at a time: a larger micro-batch, batched requests. Where that is not possible,
store the weights in fewer bits.

## How the saving is estimated
In training the time model predicts the layers at twice the tokens; the saving is at equal work. For
inference no saving is given, because one pass gets slower: the fix names the price of twice the
tokens.

## When not to
- Latency comes first: more tokens per pass make each pass longer.
- The ridge counts main-memory traffic. Operands that stay in the L2 cache are faster.
- Alignment, tiles and Tensor Cores buy nothing here, so those rules are silent for these layers.
- Layers so narrow that no number of tokens reaches the ridge are not reported.

## Evidence
- NVIDIA GPU Performance Background User's Guide, "Understanding Performance": a layer of 4096 x
  1024 has an intensity of 1 at batch 1 and 315 at batch 512.
- NVIDIA Linear/Fully-Connected Layers User's Guide: batch sizes above 128 on a V100; the number
  grows with the GPU's ridge.
)md";

constexpr double kMinShare = 0.05;
constexpr std::int64_t kFewTokens = 8;  // up to here it is a matrix-vector product
constexpr double kManyTokens = 1e6;     // nobody runs more at a time
constexpr double kMinGain = 0.05;

const Op& first_op(const RuleInput& input, const LayerGroup& group) {
  return input.workload.ops[group.ops.front()];
}

const Gemm& gemm_of(const RuleInput& input, const LayerGroup& group) {
  return std::get<Gemm>(first_op(input, group).body);
}

bool is_linear_forward(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && op.phase == Phase::forward &&
         gemm->m > kFewTokens && gemm->n > 1;
}

// Tokens at which the layer's intensity reaches the ridge; empty when no number does.
std::optional<std::int64_t> tokens_at_ridge(const RuleInput& input, const Op& op) {
  const std::optional<FlopPerByte> ridge = input.device().ridge(op.dtypes.input);
  if (!ridge) return std::nullopt;
  const auto& gemm = std::get<Gemm>(op.body);
  const double n = static_cast<double>(gemm.n), k = static_cast<double>(gemm.k);
  const double r = ridge->value() / 2;  // flop per byte -> multiply-adds per byte
  const double left =
      n * k - r * (k * size_in_bytes(op.dtypes.input) + n * size_in_bytes(op.dtypes.output));
  const double tokens = std::ceil(r * n * k * size_in_bytes(op.dtypes.weight) / left);
  if (left <= 0 || tokens > kManyTokens) return std::nullopt;
  return static_cast<std::int64_t>(tokens);
}

bool waits_for_memory(const RuleInput& input, const LayerGroup& group) {
  const OpAnalysis& analysis = input.analysis.ops[group.ops.front()];
  const std::optional<FlopPerByte> ridge =
      input.device().ridge(first_op(input, group).dtypes.input);
  return analysis.time && analysis.time->bound == Bound::memory && ridge &&
         analysis.cost.intensity() < *ridge && tokens_at_ridge(input, first_op(input, group));
}

Op with_double_tokens(const Op& op) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  gemm = with_size(gemm, GemmDim::m, 2 * gemm.m);
  return changed;
}

std::optional<Range<Seconds>> saving_with_double_tokens(const RuleInput& input,
                                                        const std::vector<LayerGroup>& groups) {
  Range<Seconds> total{};
  for (const LayerGroup& group : groups) {
    const auto saving = saving_at_equal_work(input, group, with_double_tokens, 2);
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

const LayerGroup& largest(const std::vector<LayerGroup>& groups) {
  const LayerGroup* most = &groups.front();
  for (const LayerGroup& group : groups) {
    if (group.time_share > most->time_share) most = &group;
  }
  return *most;
}

std::optional<Finding> judge(const RuleInput& input, const std::vector<LayerGroup>& groups) {
  double share = 0;
  Seconds time;
  for (const LayerGroup& group : groups) {
    share += group.time_share;
    time += time_of(input, group).value_or(Seconds(0));
  }
  const std::optional<Range<Seconds>> saving = saving_with_double_tokens(input, groups);
  if (share < kMinShare || !saving || saving->expected < kMinGain * time) return std::nullopt;
  const LayerGroup& group = largest(groups);
  const Op& op = first_op(input, group);
  const std::int64_t tokens = gemm_of(input, group).m;
  const double growth = 2 * (1 - saving->expected / time) - 1;  // of the time, for twice the tokens
  Finding finding = finding_at_groups(
      input, groups,
      fmt::format("{} tokens leave the layers memory-bound: {:.0f} flop per byte, the GPU needs "
                  "{:.0f} in {}",
                  tokens, input.analysis.ops[group.ops.front()].cost.intensity().value(),
                  input.device().ridge(op.dtypes.input)->value(), to_string(op.dtypes.input)),
      {fmt::format("Process more tokens at a time: {} take only {} time, {} reach the ridge",
                   2 * tokens, percent_text(growth), *tokens_at_ridge(input, op)),
       input.workload.mode == Mode::training ? Exactness::changes_training
                                             : Exactness::exact_arithmetic},
      input.workload.mode == Mode::training ? saving : std::nullopt);
  finding.evidence = {
      "intensity against the ridge: NVIDIA GPU Performance Background User's Guide, Understanding "
      "Performance"};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  // sizing/batch-leaves-throughput names a batch for the whole network instead.
  if (input.curve != nullptr && find_better_batch(*input.curve)) return {};
  std::map<std::int64_t, std::vector<LayerGroup>> by_tokens;
  for (LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_linear_forward)) {
    if (!waits_for_memory(input, group)) continue;
    const std::int64_t tokens = gemm_of(input, group).m;
    by_tokens[tokens].push_back(std::move(group));
  }
  std::vector<Finding> findings;
  for (const auto& [tokens, groups] : by_tokens) {
    if (std::optional<Finding> finding = judge(input, groups)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_memory_bound_rule

extern const Rule gemm_memory_bound{.id = "gemm/memory-bound",
                                    .level = Level::advice,
                                    .cause = Cause::memory,
                                    .summary = "Too few tokens for the weights that are read",
                                    .doc = gemm_memory_bound_rule::kDoc,
                                    .check = gemm_memory_bound_rule::check};

}  // namespace rooftile
