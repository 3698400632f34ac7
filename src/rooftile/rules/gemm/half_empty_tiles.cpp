#include <fmt/format.h>

#include <cmath>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_half_empty_tiles_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
GEMMs whose kernel, by its name and recorded grid, computes tiles that reach far beyond the output:
less than four fifths of the computed elements are wanted.

## Why it costs time
A tile at the edge costs as much as a full one, however little of it is used.

## How to fix
In the next model choose widths that are multiples of the tile; for token counts, the next lower or
higher multiple. Where the output is much smaller than one tile, batch several GEMMs.

## How the saving is estimated
High: the share of the computed elements that nobody wants, of the measured time. Low: 0, since another
size may get another tile. A third is assumed likely.

## When not to
- Trained weights keep their widths.
- The tile of the name is checked against the recorded grid; where the two do not fit, nothing is said.

## Evidence
- NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization".
)md";

constexpr double kMinShare = threshold::kShowsInARun;  // of the window
constexpr double kFull = 0.8;
constexpr double kLikely = 1.0 / 3;

struct Tiling {
  MatrixProduct product;
  double efficiency = 1;
};

double tiles_along(std::int64_t size, std::int64_t tile) {
  return std::ceil(static_cast<double>(size) / static_cast<double>(tile));
}

double count_blocks(const LaunchShape& launch) {
  double blocks = 1;
  for (const std::uint32_t extent : launch.grid) blocks *= extent;
  return blocks;
}

// The library may see the product transposed: the tile that fits the grid counts.
std::optional<Tiling> tiling_of(const OpUse& use, const KernelUse& kernel) {
  const std::vector<MatrixProduct> products = matrix_products(*use.op);
  if (products.size() != 1 || products.front().implicit) return std::nullopt;
  const MatrixProduct& product = products.front();
  const double wanted = static_cast<double>(product.m) * static_cast<double>(product.n);
  const double blocks = count_blocks(kernel.launch);
  const std::int64_t sides[][2] = {{kernel.facts.tile_m, kernel.facts.tile_n},
                                   {kernel.facts.tile_n, kernel.facts.tile_m}};
  for (const auto& [rows, cols] : sides) {
    const double tiles = tiles_along(product.m, rows) * tiles_along(product.n, cols);
    if (tiles * static_cast<double>(product.batch) != blocks) continue;
    return Tiling{product, wanted / (tiles * static_cast<double>(rows * cols))};
  }
  return std::nullopt;
}

bool is_judged(const OpUse* use, const KernelUse& kernel) {
  return use != nullptr && use->op && kernel.facts.kernel_class == KernelClass::gemm &&
         kernel.facts.tile_m > 0 && kernel.facts.tile_n > 0 && !kernel.facts.split_k;
}

Seconds kernel_time(const UseGroup& group) { return group.kernel->time * group.window_part; }

Finding describe(const RuleInput& input, const TraceSummary& trace, const UseGroup& group,
                 const Tiling& tiling) {
  const KernelFacts& facts = group.kernel->facts;
  const Seconds unused = (1 - tiling.efficiency) * kernel_time(group);
  Finding finding = about_group(
      trace, group,
      fmt::format("{}: an output of {}x{} fills {} of its {}x{} tiles; the kernel takes {}",
                  group_text(group), tiling.product.m, tiling.product.n,
                  share_text(tiling.efficiency), facts.tile_m, facts.tile_n,
                  cost_text(trace, kernel_time(group))),
      {fmt::format("In the next model choose widths and token counts that are multiples of {} and "
                   "{}",
                   facts.tile_m, facts.tile_n),
       Exactness::changes_training},
      gain_of_kernel_time(trace, {Seconds(0), kLikely * unused, unused}));
  finding.count = group.kernel->count;
  finding.ops = workload_ops_of(input, group);
  finding.evidence = {
      Evidence::measured(fmt::format("kernel {} with {:.0f} blocks",
                                     short_kernel_name(group.kernel->name),
                                     count_blocks(group.kernel->launch))),
      Evidence::published(
          "NVIDIA Matrix Multiplication Background User's Guide, Tile Quantization")};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  if (trace.is_foreign) return cases;
  for (const UseGroup& group : group_by_shape(trace, is_judged)) {
    if (kernel_time(group) < kMinShare * trace.time.span) continue;
    const std::optional<Tiling> tiling = tiling_of(*group.uses.front(), *group.kernel);
    if (!tiling || tiling->efficiency >= kFull || !is_math_bound(input, tiling->product)) continue;
    add_if_visible(trace, group.name + group.shape, describe(input, trace, group, *tiling), cases);
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace gemm_half_empty_tiles_rule

extern const Rule gemm_half_empty_tiles{.id = "gemm/half-empty-tiles",
                                        .level = Level::advice,
                                        .cause = Cause::tile_shape,
                                        .summary = "Kernel tiles reach beyond the GEMM's output",
                                        .doc = gemm_half_empty_tiles_rule::kDoc,
                                        .in_traces = gemm_half_empty_tiles_rule::check};

}  // namespace rooftile
