#include <fmt/format.h>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace gemm_partial_tiles_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A math-bound layer with a small width that does not fill its tiles: a good part of the tile's
elements is computed and thrown away.

## Why it costs time
The output is computed in tiles of fixed size, such as 128 by 64. A tile that sticks out over the
edge of the matrix costs as much as a full one.

## How to fix
For the next model choose a width at the edge of a tile, a multiple of 64: the message names the
nearest ones below and above.

## How the saving is estimated
The time model predicts the layer, forward and gradients, at both neighbours. The saving is at equal
work: time per unit of width times today's width. It speaks only above 5 %.

## When not to
- Not for a trained model: its width is given, so for inference this is information only. Zero
  padding adds no useful work.
- Large widths waste little whatever their remainder: 5128 is 0.5 % above a tile edge, 520 is 10 %.
- On Hopper and later the kernels have other tiles and schedules; the advice is only "possible".
- A width that breaks the 16-byte condition loses more by that: see `gemm/unaligned-row-stride`.

## Evidence
- NVIDIA Matrix Multiplication Background User's Guide, "Tile Quantization".
- NVIDIA, "Get Started With Deep Learning Performance": dimensions divisible by at least 64; matters
  for small dimensions.
)md";

constexpr double kMinTileEfficiency = 0.9;
constexpr double kMinGain = threshold::kBeyondModelError;
constexpr std::int64_t kEdge = 64;  // the narrowest efficient tile

bool is_candidate(const RuleInput& input, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->m > 1 &&
         input.device().has_tensor_cores(op.dtypes.input) &&
         (gemm->n % kEdge != 0 || gemm->k % kEdge != 0) &&
         misaligned_row_dims(*gemm, op.dtypes).empty();
}

// The phase whose tiles waste most.
const TileGrid* worst_grid(const RuleInput& input, const LayerGroup& group) {
  const TileGrid* worst = nullptr;
  for (const std::size_t i : group.ops) {
    const std::optional<TimeEstimate>& time = input.analysis.ops[i].time;
    if (!time || !time->grid) continue;
    if (worst == nullptr || time->grid->tile_efficiency < worst->tile_efficiency) {
      worst = &*time->grid;
    }
  }
  return worst;
}

struct Choice {
  GemmDim dim = GemmDim::n;
  std::vector<WidthOption> options;
};

// The dim that gains more by moving to the edge of a tile, with the edges that pay.
std::optional<Choice> best_choice(const RuleInput& input, const LayerGroup& group) {
  const auto& gemm = std::get<Gemm>(input.workload.ops[group.ops.front()].body);
  std::optional<Choice> best;
  for (const GemmDim dim : {GemmDim::n, GemmDim::k}) {
    Choice choice{dim, tile_edges(input, group, size_of(gemm, dim), kEdge,
                                  [&](const Op& op, std::int64_t to) {
                                    Op changed = op;
                                    changed.body = with_size(std::get<Gemm>(op.body), dim, to);
                                    return changed;
                                  })};
    if (choice.options.empty()) continue;
    const Seconds saving = best_saving(choice.options).expected;
    if (!best || saving > best_saving(best->options).expected) best = std::move(choice);
  }
  return best;
}

Finding describe(const RuleInput& input, const LayerGroup& group, const TileGrid& grid,
                 const Choice& choice, Seconds total) {
  const auto& gemm = std::get<Gemm>(input.workload.ops[group.ops.front()].body);
  const bool uncertain = input.device().compute_capability >= 90;
  const std::string_view name = dim_name(gemm, choice.dim);
  const std::int64_t width = size_of(gemm, choice.dim);
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{}{} {} fills {} of the layer's {}x{} tiles", uncertain ? "possible: " : "",
                  name, width, share_text(grid.tile_efficiency), grid.tile.rows, grid.tile.cols),
      {fmt::format("In the next model choose {} {} instead of {}", name,
                   width_options_text(choice.options, total), width),
       Exactness::changes_training},
      best_saving(choice.options));
  if (input.workload.mode != Mode::training) finding.own_level = Level::info;
  finding.evidence = {Evidence::published(
      "partly filled tiles cost as much as full ones",
      "NVIDIA Matrix Multiplication Background User's Guide, Tile Quantization")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows the real tiles: gemm/half-empty-tiles judges them.
  if (!input.workload.traces.empty()) return {};
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_candidate(input, op); };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (group.time_share < threshold::kReported || !is_math_bound(input, group)) continue;
    const TileGrid* grid = worst_grid(input, group);
    if (grid == nullptr || grid->tile_efficiency >= kMinTileEfficiency) continue;
    const std::optional<Choice> choice = best_choice(input, group);
    const Seconds total = time_of(input, group).value_or(Seconds(0));
    if (!choice || best_saving(choice->options).expected < kMinGain * total) continue;
    findings.push_back(describe(input, group, *grid, *choice, total));
  }
  return findings;
}

}  // namespace gemm_partial_tiles_rule

extern const Rule gemm_partial_tiles{.id = "gemm/partial-tiles",
                                     .level = Level::advice,
                                     .cause = Cause::tile_shape,
                                     .summary = "Small width leaves tiles partly empty",
                                     .doc = gemm_partial_tiles_rule::kDoc,
                                     .in_ops = gemm_partial_tiles_rule::check};

}  // namespace rooftile
