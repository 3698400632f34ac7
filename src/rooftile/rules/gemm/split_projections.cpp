#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/workload/graph.h"
#include "rooftile/workload/layers_of_one_input.h"

namespace rooftile {

// split_projections_in_source.cpp
std::vector<Finding> split_projections_in_source(const source::SourceFacts& facts);

namespace gemm_split_projections_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Several Linear layers that read the same value, such as query, key and value or gate and up, where
one wider layer is predicted to be clearly faster. Repeated blocks are one finding.

In training scripts: `forward` of a module applies three of its `nn.Linear` to one variable, or two
that are keys and values or gate and up; or to three parameters that get the same variable at each
call of the module, as in self-attention. Products with parameters (`h @ self.w`) count as layers. In a
loop the variable may change from pass to pass, but not between the layers. One finding per class, with
all such inputs: the gates of an LSTM cell read the step's input and the state.

## Why it costs time
Each layer reads the input again and fills the GPU by itself. One GEMM with the weights side by
side has more work per byte, fewer launches and fuller waves.

## How to fix
Concatenate the weights along the output and split the result. The slices stay 16-byte aligned when
each width is a multiple of 8 (16-bit).

## How the saving is estimated
The time model compares the separate layers with the combined one, in each phase. It speaks only
above 5 % of their time and 2 % of the pass: measurements of equal products differ by as much.

## When not to
- Layers that fill the GPU by themselves gain nothing and are not reported.
- Serving engines join these layers when they load a model, so the decode steps of configs have them
  joined.
- Cross-attention reads two different values; low-rank adapters (below 64 outputs) stay apart.
- Routers of mixtures of experts, whose outputs are scores, stay apart from the experts beside them: they
  are often kept in another precision.
- The names in checkpoints change, and tensor parallelism needs each part sharded by itself.
- Scripts: programs that load pretrained weights by name, adapters, and layers of tensor parallelism.

## Evidence
- NVIDIA, GTC 2019 talk S9143 on mixed precision: concatenate weights and gate activations into one
  GEMM.
- NVIDIA Linear/Fully-Connected Layers User's Guide: larger GEMMs run closer to peak.
)md";

constexpr double kMinGain = threshold::kBeyondModelError;
// Of the pass. Two frameworks measure 2 to 7 % apart for the same products.
constexpr double kMinShareOfPass = threshold::kShowsInARun;
constexpr Phase kPhases[] = {Phase::forward, Phase::dgrad, Phase::wgrad};

using Family = std::vector<std::size_t>;  // forward layers that read the same value

// Blocks of the same shape: widths in order, and what else decides the time.
auto shape_key(const Workload& workload, const Family& family) {
  const Op& first = workload.ops[family.front()];
  const auto& gemm = std::get<Gemm>(first.body);
  std::vector<std::int64_t> widths;
  for (const std::size_t i : family) widths.push_back(std::get<Gemm>(workload.ops[i].body).n);
  return std::tuple(widths, gemm.m, gemm.k, first.dtypes.input, first.dtypes.weight);
}

struct Block {
  std::vector<Family> repeats;
};

std::vector<Block> blocks_of(const Workload& workload, const Graph& graph) {
  std::vector<Block> blocks;
  std::map<decltype(shape_key(workload, {})), std::size_t> index;
  for (const Family& family : layers_of_one_input(workload, graph)) {
    const auto [found, is_new] = index.try_emplace(shape_key(workload, family), blocks.size());
    if (is_new) blocks.emplace_back();
    blocks[found->second].repeats.push_back(family);
  }
  return blocks;
}

// One run of the family in one phase, apart against combined.
std::optional<Range<Seconds>> saving_in_phase(const RuleInput& input, const Family& family,
                                              Phase phase) {
  TimeEstimate apart;
  for (const std::size_t i : family) {
    Op op = input.workload.ops[i];
    op.phase = phase;
    const std::optional<TimeEstimate> time = input.model.estimate(op);
    if (!time) return std::nullopt;
    apart = apart + *time;
  }
  Op op = side_by_side(input.workload, family);
  op.phase = phase;
  const std::optional<TimeEstimate> together = input.model.estimate(op);
  if (!together) return std::nullopt;
  return estimate_saving(apart, *together);
}

LayerGroup group_of_block(const RuleInput& input, const Block& block) {
  LayerGroup group;
  for (const Family& family : block.repeats) {
    group.ops.insert(group.ops.end(), family.begin(), family.end());
  }
  std::sort(group.ops.begin(), group.ops.end());
  for (const std::size_t i : group.ops) group.time_share += input.analysis.ops[i].time_share;
  return group;
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const Block& block) {
  const Family& family = block.repeats.front();
  double runs = 0;
  for (const Family& repeat : block.repeats) {
    runs += static_cast<double>(input.workload.ops[repeat.front()].count);
  }
  Range<Seconds> total{};
  for (const Phase phase : kPhases) {
    if (phase != Phase::forward && input.workload.mode != Mode::training) continue;
    const std::optional<Range<Seconds>> saving = saving_in_phase(input, family, phase);
    if (!saving) return std::nullopt;
    total += *saving * runs;
  }
  return total;
}

// Time of the block in all phases that the mode runs; the gradients take about as long each.
Seconds time_of_block(const RuleInput& input, const LayerGroup& group) {
  const double phases = input.workload.mode == Mode::training ? 3 : 1;
  return time_of(input, group).value_or(Seconds(0)) * phases;
}

Finding describe(const RuleInput& input, const Block& block, const LayerGroup& group,
                 const Range<Seconds>& saving) {
  const Family& family = block.repeats.front();
  std::vector<std::string> names, widths;
  std::int64_t sum = 0;
  for (const std::size_t i : family) {
    const std::int64_t width = std::get<Gemm>(input.workload.ops[i].body).n;
    names.push_back(input.workload.ops[i].name);
    widths.push_back(std::to_string(width));
    sum += width;
  }
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{} layers read the same value: {} ({} outputs)", family.size(),
                  join(names, ", "), join(widths, " + ")),
      {fmt::format("Make them one layer with {} outputs and split the result", sum),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {Evidence::published("concatenate weights that share an input",
                                          "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const Block& block : blocks_of(input.workload, input.graph)) {
    const LayerGroup group = group_of_block(input, block);
    if (group.time_share < threshold::kReported) continue;
    const std::optional<Range<Seconds>> saving = saving_of(input, block);
    if (!saving || saving->expected < kMinGain * time_of_block(input, group) ||
        saving->expected < kMinShareOfPass * pass_time(input)) {
      continue;
    }
    findings.push_back(describe(input, block, group, *saving));
  }
  return findings;
}

}  // namespace gemm_split_projections_rule

extern const Rule gemm_split_projections{
    .id = "gemm/split-projections",
    .level = Level::advice,
    .level_in_scripts = Level::info,
    .cause = Cause::fusion,
    .summary = "Several layers read the same value in separate GEMMs",
    .doc = gemm_split_projections_rule::kDoc,
    .in_ops = gemm_split_projections_rule::check_operations,
    .in_scripts = split_projections_in_source};

}  // namespace rooftile
