#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace gemm_many_small_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
At least four GEMMs of the same shape that do not depend on each other and are each shorter than
a kernel launch is worth (10 µs): heads or experts in a Python loop, unrolled by the export.

## Why it costs time
Every kernel costs a few microseconds to launch and leaves most of the GPU idle when it is small.
One batched GEMM does all of them at once.

## How to fix
Stack the operands and use `torch.bmm` or `einsum`; for different sizes a grouped GEMM. A CUDA
graph removes the launches without changing the model.

## How the saving is estimated
The time model compares the separate GEMMs with one batched GEMM of the same work.

## When not to
- The same layer repeated through the network is a chain: each waits for the one before. Only
  GEMMs at the same depth of the graph, whose inputs are all known, are counted.
- Layers that read the very same value are better concatenated: see `gemm/split-projections`.

## Evidence
- ML Engineering book (S. Bekman), `torch.compile` chapter: a 1B model at batch 1 gains 2.4 to 6
  times from removing launch overhead.
- NVIDIA, GTC 2019 talk S9143: coalesce work into fewer, larger GEMMs.
)md";

constexpr std::size_t kMany = 4;
constexpr Seconds kShort = microseconds(10);
constexpr double kMinGain = threshold::kWorthADay;

// Longest way from an input of the network, in operations; empty where an input is unknown.
std::vector<std::optional<int>> depths_of(const Workload& workload, const Graph& graph) {
  std::vector<std::optional<int>> depths(workload.ops.size());
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.phase != Phase::forward || op.inputs.empty()) continue;
    std::optional<int> depth = 0;
    for (std::size_t input = 0; input < op.inputs.size() && depth; ++input) {
      const std::optional<std::size_t> producer = graph.producer_of(i, input);
      if (!producer || *producer >= i) continue;
      depth = depths[*producer] ? std::optional(std::max(*depth, *depths[*producer] + 1))
                                : std::nullopt;
    }
    depths[i] = depth;
  }
  return depths;
}

// Inputs that nobody is known to write could hide a chain, unless all products read operations.
bool reads_known_values(const Graph& graph, const Op& op) {
  return std::all_of(op.inputs.begin(), op.inputs.end(),
                     [&](const std::string& value) { return graph.producer(value).has_value(); });
}

bool is_small(const RuleInput& input, std::size_t i) {
  const Op& op = input.workload.ops[i];
  const std::optional<TimeEstimate>& time = input.analysis.ops[i].time;
  return op.phase == Phase::forward && std::holds_alternative<Gemm>(op.body) && time &&
         time->time.expected < kShort;
}

std::vector<LayerGroup> independent_groups(const RuleInput& input) {
  const Workload& workload = input.workload;
  const Graph& graph = input.graph;
  const std::vector<std::optional<int>> depths = depths_of(workload, graph);
  std::map<std::tuple<int, std::string, Dtype>, LayerGroup> groups;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (!is_small(input, i) || !depths[i] || !reads_known_values(graph, op)) continue;
    LayerGroup& group = groups[{*depths[i], dims_text(op.body), op.dtypes.input}];
    group.ops.push_back(i);
    group.time_share += input.analysis.ops[i].time_share;
  }
  std::vector<LayerGroup> result;
  for (auto& [key, group] : groups) {
    if (group.ops.size() >= kMany) result.push_back(std::move(group));
  }
  return result;
}

bool share_their_input(const Workload& workload, const LayerGroup& group) {
  const std::string& first = workload.ops[group.ops.front()].inputs.front();
  return std::all_of(group.ops.begin(), group.ops.end(),
                     [&](std::size_t i) { return workload.ops[i].inputs.front() == first; });
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const LayerGroup& group) {
  const Op& first = input.workload.ops[group.ops.front()];
  Op batched = first;
  std::get<Gemm>(batched.body).batch *= static_cast<std::int64_t>(group.ops.size());
  const std::optional<TimeEstimate> after = input.model.estimate(batched);
  const std::optional<TimeEstimate>& one = input.analysis.ops[group.ops.front()].time;
  if (!after || !one) return std::nullopt;
  const TimeEstimate before = *one * static_cast<double>(group.ops.size());
  return estimate_saving(before, *after) * static_cast<double>(first.count);
}

Finding describe(const RuleInput& input, const LayerGroup& group, const Range<Seconds>& saving) {
  const Op& op = input.workload.ops[group.ops.front()];
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{} independent GEMMs of {} take {} each, about what a launch costs",
                  group.ops.size(), dims_text(op.body),
                  time_text(input.analysis.ops[group.ops.front()].time->time.expected)),
      {fmt::format("Stack them into one batched GEMM of {} (bmm, einsum)", group.ops.size()),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {
      Evidence::published("coalesce work into larger GEMMs", "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& group : independent_groups(input)) {
    if (group.time_share < threshold::kReported || share_their_input(input.workload, group))
      continue;
    const std::optional<Range<Seconds>> saving = saving_of(input, group);
    const Seconds total = time_of(input, group).value_or(Seconds(0));
    if (!saving || saving->expected < kMinGain * total) continue;
    findings.push_back(describe(input, group, *saving));
  }
  return findings;
}

}  // namespace gemm_many_small_rule

extern const Rule gemm_many_small{.id = "gemm/many-small",
                                  .level = Level::advice,
                                  .cause = Cause::launch,
                                  .summary = "Many small GEMMs that could be one",
                                  .doc = gemm_many_small_rule::kDoc,
                                  .in_ops = gemm_many_small_rule::check};

}  // namespace rooftile
