// Embedding tables whose dense gradients make the optimizer go over rows that the batch left out.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace optimizer_unread_rows_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A training step whose embedding tables have many times more rows than the batch looks up, as those of a
recommender, and dense gradients. One finding for the network. Tables of a vocabulary, which the network
also predicts, are left out.

## Why it costs time
The gradient of `nn.Embedding` and `nn.EmbeddingBag` is as large as the table unless `sparse=True`. The
backward pass fills it with zeros, and the optimizer reads it, the table and its state, and writes the
last two, also for rows that nothing has changed.

## How to fix
Build the tables with `sparse=True`; their gradients then hold the rows that were looked up. Give the
tables an optimizer of their own that takes such gradients: `torch.optim.SparseAdam`, `Adagrad` or `SGD`,
without weight decay.

## How the saving is estimated
The time model runs on the optimizer's step over all parameters but the rows that are not looked up, and
on the tables' backward pass without the zeros for them. Each lookup counts as a row of its own.

## When not to
- Adam moves a row by its past gradients also where the batch left it out; `SparseAdam` does not. Only
  plain SGD computes the same.
- Weight decay, `torch.compile`, clipping by norm and some backends of `DistributedDataParallel` do not
  take sparse gradients.
- Not reported below a tenth of the step, nor where a step looks up most of the rows.

## Evidence
- PyTorch documentation, `torch.nn.Embedding`: argument `sparse`, and the optimizers that support it.
- M. Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems",
  2019; its code builds `nn.EmbeddingBag(n, m, mode="sum", sparse=True)`.
)md";

constexpr double kMinShare = threshold::kWorthADay;

// An output layer over the same vocabulary, which may share the table: its gradient is dense.
bool is_predicted(const Workload& workload, const Embedding& table) {
  return std::ranges::any_of(workload.ops, [&](const Op& op) {
    const auto* gemm = std::get_if<Gemm>(&op.body);
    return gemm != nullptr && gemm->n == table.vocab && gemm->k == table.width;
  });
}

std::int64_t unread_rows(const Embedding& table) {
  return std::max<std::int64_t>(table.vocab - table.lookups, 0);
}

bool has_unread_rows(const RuleInput& input, std::size_t index) {
  const Op& op = input.workload.ops[index];
  const auto* table = std::get_if<Embedding>(&op.body);
  return table != nullptr && op.phase == Phase::wgrad && unread_rows(*table) > 0 &&
         !is_predicted(input.workload, *table);
}

Op with_read_rows(Op op) {
  auto& table = std::get<Embedding>(op.body);
  table.vocab -= unread_rows(table);
  return op;
}

std::int64_t unread_parameters(const RuleInput& input, const LayerGroup& tables) {
  std::int64_t sum = 0;
  for (const std::size_t index : tables.ops) {
    const Op& op = input.workload.ops[index];
    const auto& table = std::get<Embedding>(op.body);
    sum += unread_rows(table) * table.width * op.count;
  }
  return sum;
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const LayerGroup& tables,
                                        std::size_t step) {
  Op fewer = input.workload.ops[step];
  auto& parameters = std::get<OptimizerStep>(fewer.body).parameters;
  parameters -= std::min(parameters - 1, unread_parameters(input, tables));
  auto of_step = saving_if(input, step, fewer);
  const auto of_tables = saving_if_all(input, tables, with_read_rows);
  if (!of_step || !of_tables) return std::nullopt;
  *of_step += *of_tables;
  return of_step;
}

std::string message_for(const RuleInput& input, const LayerGroup& tables) {
  const auto& table = std::get<Embedding>(input.workload.ops[tables.ops.front()].body);
  return fmt::format(
      "Embedding tables have dense gradients: of {} rows a step looks up at most {}, and the "
      "optimizer updates all of them ({} parameters that did not change).",
      count_text(to_double(table.vocab)), count_text(to_double(table.lookups)),
      count_text(to_double(unread_parameters(input, tables))));
}

std::vector<Finding> check(const RuleInput& input) {
  const LayerGroup steps = select(input, [&](std::size_t op) {
    return std::holds_alternative<OptimizerStep>(input.workload.ops[op].body);
  });
  const LayerGroup tables =
      select(input, [&](std::size_t op) { return has_unread_rows(input, op); });
  if (steps.ops.size() != 1 || tables.ops.empty()) return {};
  const auto saving = saving_of(input, tables, steps.ops.front());
  if (!saving || saving->expected < pass_time(input) * kMinShare) return {};
  Finding finding = finding_at_groups(
      input, {tables}, message_for(input, tables),
      {"Build the tables with sparse=True and give them an optimizer of their own that takes "
       "sparse gradients: SparseAdam, Adagrad or SGD without weight decay.",
       Exactness::changes_training},
      saving);
  finding.evidence = {
      Evidence::published("sparse gradients hold the rows that were looked up",
                          "PyTorch documentation, torch.nn.Embedding"),
      Evidence::published("DLRM builds its tables with sparse=True", "Naumov et al., 2019")};
  return {finding};
}

}  // namespace optimizer_unread_rows_rule

extern const Rule optimizer_unread_rows{
    .id = "optimizer/unread-rows",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Optimizer updates rows of embedding tables that no sample of the batch reads",
    .doc = optimizer_unread_rows_rule::kDoc,
    .in_ops = optimizer_unread_rows_rule::check};

}  // namespace rooftile
