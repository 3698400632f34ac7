#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_experts_one_by_one_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A mixture of experts that runs one expert after the other: products with weights of one size whose numbers
of rows differ, and for each a gather of the expert's tokens (`index`, `index_select`) and a scatter of
its result (`index_add_`, `index_put_`, `scatter_add_`). Needs recorded shapes.

## Why it costs time
Every gather and scatter reads and writes the activations once more and does nothing else with them; the
backward pass does it again, with atomic additions. The products of few rows leave most of the GPU idle, each
costs the host a launch, and the indices of an expert are a result that the host waits for.

## How to fix
Sort the tokens by expert once, run all experts in one grouped product, and put the rows back once:
`experts_implementation="grouped_mm"` of transformers 5, `torch.nn.functional.grouped_mm`, MegaBlocks,
`--moe-grouped-gemm` of Megatron-LM.

## How the saving is estimated
The time of the gathers and scatters: half of it is likely, because the sorted form keeps one of each. What
the grouped product saves itself, and the host's time, are not counted.

## When not to
- Few tokens: all experts of one token at a time are as well run as one batched product.
- Sequences of different lengths are no experts: without gathers of as many rows nothing is reported.

## Evidence
- Hugging Face, "Experts backends": `grouped_mm` orders tokens by expert and is faster than the eager loop.
- Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts" (2022).
)md";

constexpr double kMinShare = threshold::kPartlyShowsInARun;  // of the window
constexpr std::size_t kFewestExperts = 4;                    // told apart by their numbers of rows

// The two sides of a weight, in order.
using WeightSides = std::pair<std::int64_t, std::int64_t>;

struct Experts {
  std::set<std::int64_t> rows;  // of the activations
  std::int64_t products = 0;
  Seconds time;
};

using Dims = std::vector<std::int64_t>;

// The activations' rows and the weight's sides of a product; no sides where it is none.
std::pair<std::int64_t, WeightSides> product_of(const OpUse& use) {
  const std::vector<Dims>& dims = use.arguments.dims;
  const std::size_t first = use.name == "aten::addmm" ? 1 : 0;
  const bool is_product = use.name == "aten::mm" || use.name == "aten::addmm" ||
                          use.name == "aten::linear" || use.name == "aten::matmul";
  if (!is_product || dims.size() < first + 2) return {};
  const Dims& rows = dims[first];
  const Dims& weight = dims[first + 1];
  if (rows.size() != 2 || weight.size() != 2) return {};
  return {rows[0], std::minmax(weight[0], weight[1])};
}

// Weights that are multiplied with ever other numbers of rows.
std::map<WeightSides, Experts> ragged_products(const TraceSummary& trace) {
  std::map<WeightSides, Experts> all;
  for (const OpUse& use : trace.ops) {
    if (use.phase != Phase::forward) continue;
    const auto [rows, sides] = product_of(use);
    if (sides.first <= 1) continue;
    Experts& experts = all[sides];
    experts.rows.insert(rows);
    experts.products += use.count;
    experts.time += use.kernel_time;
  }
  std::erase_if(all, [](const auto& one) { return one.second.rows.size() < kFewestExperts; });
  return all;
}

bool moves_rows(const OpUse& use) {
  return contains_any(lower(use.name),
                      {"aten::index", "aten::_index_put_impl_", "scatter_add", "indexbackward",
                       "indexaddbackward", "indexputbackward", "indexselectbackward"});
}

// Rows of tensors of `width` behind the first argument: those that an expert takes or gives.
void add_moved_rows(const OpUse& use, std::int64_t width, std::set<std::int64_t>& rows) {
  const std::vector<Dims>& dims = use.arguments.dims;
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (dims[i].size() >= 2 && dims[i].back() == width) rows.insert(dims[i].end()[-2]);
    if (dims[i].size() == 1) rows.insert(dims[i][0]);
  }
}

bool has_width(const OpUse& use, std::int64_t width) {
  return std::ranges::any_of(use.arguments.dims, [&](const Dims& dims) {
    return dims.size() >= 2 && dims.back() == width;
  });
}

struct Moves {
  Seconds time;
  std::int64_t count = 0;
  const OpUse* largest = nullptr;
  std::size_t experts = 0;  // whose numbers of rows are moved
};

// Gathers and scatters of rows as wide as one side of the weight. What the backward pass does for
// them may show no shape.
Moves moves_of(const TraceSummary& trace, const Experts& experts, std::int64_t width) {
  Moves moves;
  std::set<std::int64_t> rows;
  for (const OpUse& use : trace.ops) {
    if (!moves_rows(use)) continue;
    const bool is_theirs =
        has_width(use, width) || (use.arguments.dims.empty() && use.phase != Phase::forward);
    if (!is_theirs) continue;
    add_moved_rows(use, width, rows);
    moves.time += use.kernel_time;
    moves.count += use.count;
    if (moves.largest == nullptr || use.kernel_time > moves.largest->kernel_time) {
      moves.largest = &use;
    }
  }
  moves.experts = static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](std::int64_t one) { return experts.rows.contains(one); }));
  moves.time = moves.time * table_part(trace);
  return moves;
}

Finding describe(const TraceSummary& trace, const WeightSides& sides, const Experts& experts,
                 const Moves& moves) {
  Finding finding = about_site(
      trace, moves.largest->site,
      fmt::format("experts run one by one: {} with weights of {} x {} and {} to {} rows, and "
                  "gathers and scatters of their tokens that take {}",
                  count_text(trace, table_count(trace, experts.products), "product"), sides.first,
                  sides.second, *experts.rows.begin(), *experts.rows.rbegin(),
                  cost_text(trace, moves.time)),
      {"Sort the tokens by expert once, run all experts in one grouped product and put the rows "
       "back once (transformers' experts_implementation=\"grouped_mm\", "
       "torch.nn.functional.grouped_mm, MegaBlocks, Megatron-LM's --moe-grouped-gemm)",
       Exactness::exact_arithmetic},
      gain_of_kernel_time(trace, {0.25 * moves.time, 0.5 * moves.time, moves.time}));
  finding.count = experts.products;
  finding.evidence = {Evidence::measured(fmt::format(
                          "{} of {}; the products themselves take {}",
                          count_text(trace, table_count(trace, moves.count), "call"),
                          moves.largest->name, cost_text(trace, experts.time * table_part(trace)))),
                      Evidence::published("grouped_mm is faster than the eager loop over experts",
                                          "Hugging Face, Experts backends")};
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::optional<Finding> most;
  Seconds time = kMinShare * trace.time.span;
  for (const auto& [sides, experts] : ragged_products(trace)) {
    for (const std::int64_t width : {sides.first, sides.second}) {
      const Moves moves = moves_of(trace, experts, width);
      if (moves.experts < kFewestExperts || moves.time < time) continue;
      time = moves.time;
      most = describe(trace, sides, experts, moves);
    }
  }
  if (!most) return {};
  return {{"", *std::move(most)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace gemm_experts_one_by_one_rule

extern const Rule gemm_experts_one_by_one{
    .id = "gemm/experts-one-by-one",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Experts run one by one, with a gather and a scatter for each",
    .doc = gemm_experts_one_by_one_rule::kDoc,
    .in_traces = gemm_experts_one_by_one_rule::check};

}  // namespace rooftile
