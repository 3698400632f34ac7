#include <fmt/format.h>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace sizing_narrow_layers_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A training workload that spends much of its time in narrow Linear layers, where twice the width
would cost clearly less than four times the time. Design-time information, hidden unless asked for.

## Why it costs time
A narrow layer does not fill the GPU: launches, the last wave and memory traffic weigh more than the
multiplications. Width is then cheaper than depth.

## How to fix
For the next model consider fewer, wider layers.

## How the saving is estimated
No saving is given, since it would be another network. The message says what a layer of twice the
width costs by the time model.

## When not to
- Never for a trained model; accuracy comes first, and depth has its own merits.
- More tokens per step fill a narrow layer as well.

## Evidence
- NVIDIA, GTC 2019 talk S9143: prefer dense and wide layers.
- NVIDIA Linear/Fully-Connected Layers User's Guide: larger layers run closer to peak.
- Anthony et al., "The Case for Co-Designing Model Architectures with Hardware" (2024).
)md";

constexpr std::int64_t kNarrow = 1024;
constexpr std::int64_t kNarrowest = 64;  // below it a layer is an adapter or a head
constexpr double kMinShare = threshold::kWorthTraining;
constexpr double kCheap = 3.0;  // of the four times that a wide layer's time would grow

bool is_narrow(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->m > 1 && gemm->n >= kNarrowest &&
         gemm->k >= kNarrowest && gemm->n <= kNarrow && gemm->k <= kNarrow;
}

Op with_double_width(const Op& op) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  gemm = with_size(with_size(gemm, GemmDim::n, 2 * gemm.n), GemmDim::k, 2 * gemm.k);
  return changed;
}

std::optional<Finding> judge(const RuleInput& input, const LayerGroup& group) {
  const std::optional<Seconds> now = time_of(input, group);
  const auto saving = saving_if_all(input, group, with_double_width);
  if (!now || !saving) return std::nullopt;
  const double growth = 1 - saving->expected / *now;
  if (growth >= kCheap) return std::nullopt;
  const auto& gemm = std::get<Gemm>(input.workload.ops[group.ops.front()].body);
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("layers of {} x {} are narrow: twice as wide would take {:.1f} times as long for "
                  "4 times the work",
                  gemm.k, gemm.n, growth),
      {"In the next model consider fewer, wider layers", Exactness::changes_training},
      std::nullopt);
  finding.evidence = {
      Evidence::published("prefer dense and wide layers", "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode != Mode::training) return {};
  std::vector<Finding> findings;
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_narrow)) {
    if (group.time_share < kMinShare) continue;
    if (std::optional<Finding> finding = judge(input, group)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace sizing_narrow_layers_rule

extern const Rule sizing_narrow_layers{.id = "sizing/narrow-layers",
                                       .level = Level::info,
                                       .cause = Cause::none,
                                       .summary = "Layers too narrow to fill the GPU",
                                       .doc = sizing_narrow_layers_rule::kDoc,
                                       .in_ops = sizing_narrow_layers_rule::check};

}  // namespace rooftile
