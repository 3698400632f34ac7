#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/analysis/memory/memory.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace gemm_memory_bound_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Linear layers that take a visible part of the time and wait for memory: with so few tokens the
weights are read for too little work. All layers with the same number of tokens are one finding.

As information also layers so narrow that no number of tokens reaches the ridge.

## Why it costs time
Reading the weights takes the same time for 16 tokens as for 100. Below the GPU's ridge (its peak
rate divided by its memory bandwidth) the Tensor Cores are idle most of the time.

## How to fix
Process more tokens at a time: a larger micro-batch, batched requests. Where that is not possible,
store the weights in fewer bits. A narrow layer needs a larger width, or a compiler that fuses it
with its neighbours.

## How the saving is estimated
In training the time model predicts the layers at twice the tokens, rounded up to a multiple of 8;
the saving is at equal work, so the optimizer counts too: it runs half as often per token. For
inference no saving is given, because one pass gets slower: the fix names the price.

## When not to
- Latency comes first: more tokens per pass make each pass longer.
- Twice the batch does not fit the GPU: then nothing is reported.
- The ridge counts main-memory traffic. Operands that stay in the L2 cache are faster.
- Alignment, tiles and Tensor Cores buy little here; a width is reported only where the time model still
  expects a tenth from it.
- Larger batches change the training; gradient accumulation saves the optimizer's part alone.

## Evidence
- NVIDIA GPU Performance Background User's Guide, "Understanding Performance": a layer of 4096 x
  1024 has an intensity of 1 at batch 1 and 315 at batch 512.
- NVIDIA, "Get Started With Deep Learning Performance": fully-connected layers are memory-bound
  mostly where one or more of their sizes are small.
- NVIDIA Linear/Fully-Connected Layers User's Guide: batch sizes above 128 on a V100; the number
  grows with the GPU's ridge.
)md";

constexpr double kMinShare = threshold::kBeyondModelError;
constexpr std::int64_t kFewTokens = 8;  // up to here it is a matrix-vector product
constexpr double kManyTokens = 1e6;     // nobody runs more at a time
constexpr double kMinGain = threshold::kBeyondModelError;
constexpr double kVisibleGrowth = 0.001;  // less prints as nothing

const Op& first_op(const RuleInput& input, const LayerGroup& group) {
  return input.workload.ops[group.ops.front()];
}

const Gemm& gemm_of(const RuleInput& input, const LayerGroup& group) {
  return std::get<Gemm>(first_op(input, group).body);
}

bool is_linear(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->m > kFewTokens && gemm->n > 1;
}

// The layers with their gradients, the forward operations first; those without are left out.
std::vector<LayerGroup> linear_layers(const RuleInput& input) {
  std::vector<LayerGroup> groups = group_equal_layers(input.workload, input.analysis, is_linear);
  std::erase_if(groups, [&](LayerGroup& group) {
    const auto gradients = std::stable_partition(
        group.ops.begin(), group.ops.end(),
        [&](std::size_t op) { return input.workload.ops[op].phase == Phase::forward; });
    return gradients == group.ops.begin();
  });
  return groups;
}

// Tokens at which the layer's intensity reaches the ridge; empty when no sensible number does.
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

// Flop per byte that no number of tokens exceeds: only x and y grow with it.
FlopPerByte highest_intensity(const Op& op) {
  const auto& gemm = std::get<Gemm>(op.body);
  const double n = static_cast<double>(gemm.n), k = static_cast<double>(gemm.k);
  return Flop(2 * n * k) / (storage(k, op.dtypes.input) + storage(n, op.dtypes.output));
}

// Of parts that are equal to a tenth, the model cannot tell which is longer: the ridge decides.
bool is_surely_math_bound(const TimeEstimate& time) {
  constexpr double kAsLong = 0.9;
  return time.bound == Bound::math && time.memory < kAsLong * time.compute;
}

bool is_below_ridge(const RuleInput& input, const LayerGroup& group) {
  const OpAnalysis& analysis = input.analysis.ops[group.ops.front()];
  const std::optional<FlopPerByte> ridge =
      input.device().ridge(first_op(input, group).dtypes.input);
  return analysis.time && !is_surely_math_bound(*analysis.time) && ridge &&
         analysis.cost.intensity() < *ridge;
}

bool waits_for_memory(const RuleInput& input, const LayerGroup& group) {
  return input.analysis.ops[group.ops.front()].time->bound != Bound::latency &&
         tokens_at_ridge(input, first_op(input, group));
}

// Twice as many, in the multiples of 8 that batches come in.
std::int64_t more_tokens(std::int64_t tokens) { return round_up(2 * tokens, 8); }

Op with_more_tokens(const Op& op) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  gemm = with_size(gemm, GemmDim::m, more_tokens(gemm.m));
  return changed;
}

double growth_of_tokens(std::int64_t tokens) {
  return static_cast<double>(more_tokens(tokens)) / static_cast<double>(tokens);
}

// Of the layers alone.
std::optional<Range<Seconds>> saving_with_more_tokens(const RuleInput& input,
                                                      const std::vector<LayerGroup>& groups) {
  Range<Seconds> total{};
  for (const LayerGroup& group : groups) {
    const double more = growth_of_tokens(gemm_of(input, group).m);
    const auto saving = saving_at_equal_work(input, group, with_more_tokens, more);
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

// The optimizer takes as long for a step of many tokens as for one of few.
Range<Seconds> saving_of_optimizer(const RuleInput& input, double more) {
  Range<Seconds> total{};
  for (std::size_t i = 0; i < input.workload.ops.size(); ++i) {
    if (input.workload.ops[i].phase != Phase::optimizer) continue;
    const auto time = known_time(input.analysis.ops[i]);
    if (time) total += *time * (static_cast<double>(input.workload.ops[i].count) * (1 - 1 / more));
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

std::string longer_text(double growth) {
  return growth < kVisibleGrowth ? "no longer"
                                 : fmt::format("only {} longer", change_text(growth).substr(1));
}

// `growth` is of the layers' time with more tokens.
Fix propose(const RuleInput& input, const Op& op, double growth) {
  return {fmt::format("Process more tokens at a time: {} take {}, {} reach the ridge",
                      more_tokens(std::get<Gemm>(op.body).m), longer_text(growth),
                      *tokens_at_ridge(input, op)),
          input.workload.mode == Mode::training ? Exactness::changes_training
                                                : Exactness::exact_arithmetic};
}

struct Layers {
  std::vector<LayerGroup> groups;  // with the same number of tokens
  double share = 0;
};

// `holds_optimizer`: the finding counts the optimizer, which only one of them may.
std::optional<Finding> judge(const RuleInput& input, const Layers& layers, bool holds_optimizer) {
  Seconds time;
  for (const LayerGroup& group : layers.groups) {
    time += time_of(input, group).value_or(Seconds(0));
  }
  std::optional<Range<Seconds>> saving = saving_with_more_tokens(input, layers.groups);
  if (layers.share < kMinShare || !saving || saving->expected < kMinGain * time) {
    return std::nullopt;
  }
  const LayerGroup& group = largest(layers.groups);
  const Op& op = first_op(input, group);
  const std::int64_t tokens = gemm_of(input, group).m;
  const double more = growth_of_tokens(tokens);
  const double growth = more * (1 - saving->expected / time) - 1;
  if (holds_optimizer) *saving += saving_of_optimizer(input, more);
  Finding finding = finding_at_groups(
      input, layers.groups,
      fmt::format("{} tokens leave the layers memory-bound: {:.0f} flop per byte, the GPU needs "
                  "{:.0f} in {}",
                  tokens, input.analysis.ops[group.ops.front()].cost.intensity().value(),
                  input.device().ridge(op.dtypes.input)->value(), to_string(op.dtypes.input)),
      propose(input, op, growth), input.workload.mode == Mode::training ? saving : std::nullopt);
  finding.evidence = {Evidence::published(
      "intensity against the ridge",
      "NVIDIA GPU Performance Background User's Guide, Understanding Performance")};
  return finding;
}

std::optional<Finding> judge_narrow(const RuleInput& input, const LayerGroup& group) {
  if (group.time_share < kMinShare) return std::nullopt;
  const Op& op = first_op(input, group);
  const auto& gemm = std::get<Gemm>(op.body);
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("n={} and k={} keep the layer below the ridge at any number of tokens: at most "
                  "{:.0f} flop per byte, the GPU needs {:.0f} in {}",
                  gemm.n, gemm.k, highest_intensity(op).value(),
                  input.device().ridge(op.dtypes.input)->value(), to_string(op.dtypes.input)),
      {"In the next model consider fewer, wider layers; a compiler can fuse the layer's neighbours",
       Exactness::changes_training},
      std::nullopt);
  finding.own_level = Level::info;
  finding.evidence = {Evidence::published("memory-bound where one or more sizes are small",
                                          "NVIDIA, Get Started With Deep Learning Performance")};
  return finding;
}

// More tokens need a larger batch, where there is one.
bool fits_twice_the_batch(const RuleInput& input) {
  if (!input.workload.batch) return true;
  const MemoryEstimate memory = estimate_memory(input.workload, input.device());
  const std::optional<std::int64_t> most = largest_batch(input.workload, memory, Fit::fits);
  return !most || *most >= 2 * *input.workload.batch;
}

std::vector<Finding> check(const RuleInput& input) {
  // sizing/batch-leaves-throughput names a batch for the whole network instead.
  if (input.curve != nullptr && find_better_batch(*input.curve)) return {};
  const bool fits_twice = fits_twice_the_batch(input);
  std::map<std::int64_t, Layers> by_tokens;
  std::vector<Finding> findings;
  for (LayerGroup& group : linear_layers(input)) {
    if (!is_below_ridge(input, group)) continue;
    const Op& op = first_op(input, group);
    if (highest_intensity(op) < *input.device().ridge(op.dtypes.input)) {
      if (auto finding = judge_narrow(input, group)) findings.push_back(*std::move(finding));
    } else if (waits_for_memory(input, group) && fits_twice) {
      Layers& layers = by_tokens[gemm_of(input, group).m];
      layers.share += group.time_share;
      layers.groups.push_back(std::move(group));
    }
  }
  const auto most =
      std::ranges::max_element(by_tokens, {}, [](const auto& entry) { return entry.second.share; });
  for (auto entry = by_tokens.begin(); entry != by_tokens.end(); ++entry) {
    if (auto finding = judge(input, entry->second, entry == most)) {
      findings.push_back(*std::move(finding));
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
                                    .in_ops = gemm_memory_bound_rule::check};

}  // namespace rooftile
