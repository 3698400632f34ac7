#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {

// sizes_in_source.cpp
std::vector<Finding> odd_swiglu_widths_in_source(const source::SourceFacts& facts);

namespace sizing_odd_swiglu_width_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A gated MLP (SwiGLU, GeGLU) whose inner width is aligned to 16 bytes but not a multiple of 64. Such
widths come from the formula 8/3 times the hidden size. Design-time information, hidden unless asked
for.

In training scripts: `int(8 * d / 3)` without rounding to a multiple.

## Why it costs time
The width is `out_features` of two layers and `in_features` of the third; a multiple of 64 to 256
divides evenly into tiles.

## How to fix
For the next model choose the proposed multiple of 64 near 8/3 of the hidden size. LLaMA 7B uses
11008 for a hidden size of 4096.

## How the saving is estimated
The time model predicts all three layers at the nearest multiples of 64, 128 and 256; the proposal
is the one with the least time per unit of width, and the saving is at equal work.

## When not to
- Never for a trained model.
- A width that breaks the 16-byte condition costs far more: see `gemm/unaligned-row-stride`.

## Evidence
- ML Engineering book (S. Bekman), "SwiGLU-based MLP", H100, hidden size 4096: 10922 runs at 273
  TFLOPS, 10944 at 398, and all multiples of 32 around it between 395 and 398.
- Shazeer, "GLU Variants Improve Transformer" (2020): the factor of two thirds.
)md";

constexpr std::int64_t kStep = 64;
constexpr double kMinShare = threshold::kBeyondModelError;

// Layers into and out of one inner width.
struct Mlp {
  LayerGroup up, down;
};

bool is_layer(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->m > 1;
}

bool is_odd_width(std::int64_t width, Dtype dtype) {
  return width > kStep && width % kStep != 0 && width % alignment_elements(dtype) == 0;
}

// Two layers h -> w for one w -> h make a gated MLP.
std::map<std::int64_t, Mlp> find_gated_mlps(const RuleInput& input) {
  const std::vector<LayerGroup> groups =
      group_equal_layers(input.workload, input.analysis, is_layer);
  std::map<std::int64_t, Mlp> found;
  for (const LayerGroup& up : groups) {
    const Op& up_op = input.workload.ops[up.ops.front()];
    const auto& wide = std::get<Gemm>(up_op.body);
    if (!is_odd_width(wide.n, up_op.dtypes.input) || wide.n <= wide.k) continue;
    for (const LayerGroup& down : groups) {
      const auto& narrow = std::get<Gemm>(input.workload.ops[down.ops.front()].body);
      const bool fits = narrow.k == wide.n && narrow.n == wide.k && narrow.m == wide.m;
      if (!fits) continue;
      const double ups = count_runs(input.workload, up, Phase::forward);
      const double downs = count_runs(input.workload, down, Phase::forward);
      if (ups == 2 * downs) found.insert({wide.n, {up, down}});
    }
  }
  return found;
}

std::optional<Range<Seconds>> saving_at(const RuleInput& input, const Mlp& mlp, std::int64_t from,
                                        std::int64_t to) {
  const double more = static_cast<double>(to) / static_cast<double>(from);
  const auto resize = [&](GemmDim dim) {
    return [dim, to](const Op& op) {
      Op changed = op;
      changed.body = with_size(std::get<Gemm>(op.body), dim, to);
      return changed;
    };
  };
  auto total = saving_at_equal_work(input, mlp.up, resize(GemmDim::n), more);
  const auto down = saving_at_equal_work(input, mlp.down, resize(GemmDim::k), more);
  if (!total || !down) return std::nullopt;
  *total += *down;
  return total;
}

struct Option {
  std::int64_t width = 0;
  std::optional<Range<Seconds>> saving;
};

Option best_option(const RuleInput& input, const Mlp& mlp, std::int64_t width) {
  const std::int64_t next = round_up(width, kStep);
  std::vector<Option> options;
  for (const std::int64_t to :
       {next, next - kStep, round_up(width, 2 * kStep), round_up(width, 4 * kStep)}) {
    options.push_back({to, saving_at(input, mlp, width, to)});
  }
  return *std::ranges::max_element(options, {}, [](const Option& option) {
    return option.saving.value_or(Range<Seconds>{}).expected;
  });
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const auto& [width, mlp] : find_gated_mlps(input)) {
    if (mlp.up.time_share + mlp.down.time_share < kMinShare) continue;
    if (!is_math_bound(input, mlp.up)) continue;
    const Option best = best_option(input, mlp, width);
    if (is_pointless(best.saving)) continue;
    Finding finding = finding_at_groups(
        input, {mlp.up, mlp.down},
        fmt::format("the gated MLP is {} wide, which is not a multiple of {}", width, kStep),
        {fmt::format("In the next model choose {} ({} parameters of the MLP)", best.width,
                     change_text(static_cast<double>(best.width) / static_cast<double>(width) - 1)),
         Exactness::changes_training},
        best.saving);
    finding.evidence = {Evidence::published("multiples of 32 to 256 within 1 % on H100",
                                            "ML Engineering, SwiGLU-based MLP")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sizing_odd_swiglu_width_rule

extern const Rule sizing_odd_swiglu_width{.id = "sizing/odd-swiglu-width",
                                          .level = Level::info,
                                          .cause = Cause::tile_shape,
                                          .summary = "Width of a gated MLP is not a multiple of 64",
                                          .doc = sizing_odd_swiglu_width_rule::kDoc,
                                          .in_ops = sizing_odd_swiglu_width_rule::check_operations,
                                          .in_scripts = odd_swiglu_widths_in_source};

}  // namespace rooftile
