#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace loader_rebuilt_each_epoch {

constexpr std::string_view kDoc = R"md(
## What it finds
A `DataLoader` with workers that is made inside the epoch loop, or in a function called from
there, from the same dataset every time.

## Why it costs time
Its workers are started again in each epoch, and nothing is prefetched for the first batches.

## How to fix
Make it once before the loop, with `persistent_workers=True`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The dataset, the batch size or the sampler depends on the epoch.
- Runs of up to ten epochs: information.

## Evidence
- PyTorch documentation, `torch.utils.data`, "Multi-process data loading".
)md";

using namespace source;

bool counts_epochs(const Statement& loop) {
  return loop.kind == StatementKind::while_ ||
         last_name(loop.target).find("epoch") != std::string_view::npos;
}

// The nearest; where that goes over splits of the data, the one of epochs around it.
const Statement* epoch_loop_around(const Statement* statement) {
  const Statement* nearest = nullptr;
  for (; statement != nullptr; statement = statement->parent) {
    if (statement->kind == StatementKind::function) break;
    const bool is_epoch = statement->loop != nullptr && statement->loop->role == LoopRole::epoch;
    if (is_epoch && counts_epochs(*statement)) return statement;
    if (is_epoch && nearest == nullptr) nearest = statement;
  }
  return nearest;
}

struct Making {
  const Statement* loop = nullptr;  // the epoch loop that makes it in every pass
  const Call* caller = nullptr;     // of the loader's function, where the loop calls that
};

// `if iteration % epoch_size == 0:` in a loop over the steps of all epochs: the loop.
const Statement* step_loop_with_epochs(const Statement* statement) {
  const Statement* test = statement == nullptr ? nullptr : statement->parent;
  const Expr* asked = test == nullptr || test->kind != StatementKind::if_ ? nullptr : test->value;
  const bool compares =
      asked != nullptr && asked->kind == ExprKind::comparison && asked->word() == "==";
  const Expr* remainder = compares ? asked->children()[0] : nullptr;
  const bool counts = remainder != nullptr && remainder->kind == ExprKind::binary &&
                      remainder->word() == "%" && statement->block.data() == test->body.data() &&
                      asked->children()[1]->word() == "0";
  const Statement* loop = counts ? test->parent : nullptr;
  const bool is_step_loop = loop != nullptr && loop->loop != nullptr &&
                            loop->loop->role == LoopRole::training_step &&
                            loop->kind == StatementKind::for_;
  const bool is_counter =
      is_step_loop && uses_variable(loop->target, last_name(remainder->children()[0]));
  return is_counter ? loop : nullptr;
}

Making made_in(const Call& loader) {
  if (const Statement* loop = epoch_loop_around(loader.statement)) return {loop, nullptr};
  if (const Statement* loop = step_loop_with_epochs(loader.statement)) return {loop, nullptr};
  if (loader.function == nullptr) return {};
  for (const Call* caller : loader.function->callers) {
    if (const Statement* loop = epoch_loop_around(caller->statement)) return {loop, caller};
  }
  return {};
}

// `a = …`, `a, b = …` and `for a in …` anywhere in the block, in whatever branch.
bool sets_variable(std::span<const Statement* const> block, std::string_view name) {
  bool sets = false;
  for_statements(block, [&](const Statement& statement) {
    const bool binds =
        statement.kind == StatementKind::assignment || statement.kind == StatementKind::for_;
    if (sets || !binds) return;
    visit(statement.target, [&](const Expr& part) {
      const bool is_variable = part.kind == ExprKind::name && part.word() == name;
      sets = sets || is_variable;
      // self.a = …, a[0] = …
      return part.kind != ExprKind::attribute && part.kind != ExprKind::subscript;
    });
  });
  return sets;
}

// What stands for the expression at the loop: of a parameter, what the caller passes.
const Expr* at_loop(const Expr* expr, const Making& making) {
  if (making.caller == nullptr || expr->kind != ExprKind::name || expr->binding() != nullptr ||
      sets_variable(making.caller->target->body, expr->word())) {
    return expr;
  }
  const auto& parameters = making.caller->target->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name != expr->word()) continue;
    const Argument* argument = making.caller->argument(expr->word(), static_cast<int>(i));
    return argument == nullptr ? expr : argument->value;
  }
  return expr;
}

bool is_made_outside(const Expr* name, const Statement& loop) {
  if (name->kind == ExprKind::subscript) name = name->children().front();
  if (name->kind == ExprKind::attribute) return last_name(name->children().front()) == "self";
  if (name->kind != ExprKind::name) return false;
  return name->binding() != nullptr && !is_within(*name->binding(), loop);
}

bool is_set_inside(const Expr* expr, const Statement& loop, int depth = 0) {
  constexpr int kMaxLoops = 4;
  return any_inside(expr, [&](const Expr& part) {
    const Statement* binding = part.kind == ExprKind::name ? part.binding() : nullptr;
    const bool is_inside =
        binding != nullptr && is_within(*binding, loop) && binding->kind != StatementKind::function;
    // `for split in splits:` goes over the same in every epoch.
    const bool is_same = is_inside && binding->kind == StatementKind::for_ && binding != &loop &&
                         depth < kMaxLoops && !is_set_inside(binding->value, loop, depth + 1);
    // Bound several times, one of them in the loop.
    const bool may_be = part.kind == ExprKind::name && binding == nullptr &&
                        part.statement->function == loop.function &&
                        sets_variable(loop.body, part.word());
    return (is_inside && !is_same) || may_be;
  });
}

// A number above 0, or that of the cores.
bool has_workers(const Value& workers) {
  if (workers.kind == ValueKind::integer) return workers.integer > 0;
  const Expr* given = resolved(workers.expr);
  return given != nullptr && given->call() != nullptr && given->call()->method == "cpu_count";
}

// A name that the epoch loop sets stands in the arguments, or is passed for one.
bool depends_on_epoch(const Call& loader, const Making& making) {
  bool depends = false;
  for (const Argument& argument : loader.arguments) {
    visit(argument.value, [&](const Expr& part) {
      // `{name: DataLoader(data) for name, data in sets.items()}`: of another one each.
      depends = depends || comprehension_source(part) != nullptr ||
                is_set_inside(at_loop(&part, making), *making.loop);
      return !depends;
    });
  }
  return depends;
}

// A dataset that the loader's function makes itself is another one each time.
bool is_made_beside(const Expr& dataset, const Call& loader) {
  if (dataset.kind != ExprKind::name) return false;
  if (dataset.binding() == nullptr) return sets_variable(loader.function->body, dataset.word());
  return dataset.binding()->function == loader.function &&
         dataset.binding()->kind == StatementKind::assignment;
}

// `epoch == last + 1`
bool picks_one_pass(const Expr& condition, const Statement& loop) {
  if (condition.kind == ExprKind::logical && condition.word() == "and") {
    return std::ranges::any_of(condition.children(),
                               [&](const Expr* part) { return picks_one_pass(*part, loop); });
  }
  const bool compares = condition.kind == ExprKind::comparison && condition.word() == "==";
  return compares && std::ranges::any_of(condition.children(), [&](const Expr* part) {
           return part->kind == ExprKind::name &&
                  (contains(part->word(), "epoch") || uses_variable(loop.target, part->word()));
         });
}

bool is_in_body(const Statement& inner, const Statement& test) {
  return inner.block.data() == test.body.data();
}

// `if epoch >= 50 and not unfrozen: …; unfrozen = True`, `if epoch == 1: …`
bool is_done_once(const Call& loader, const Statement& loop) {
  const Statement* below = nullptr;
  for (const Statement* at = loader.statement; at != nullptr && at != &loop; at = at->parent) {
    const Statement* branch = std::exchange(below, at);
    if (at->kind != StatementKind::if_) continue;
    if (branch != nullptr && is_in_body(*branch, *at) && picks_one_pass(*at->value, loop))
      return true;
    const bool sets = any_statement(at->body, [&](const Statement& inner) {
      const bool is_flag = inner.kind == StatementKind::assignment && inner.value != nullptr &&
                           inner.value->kind == ExprKind::boolean;
      return is_flag && uses_variable(at->value, last_name(inner.target));
    });
    if (sets) return true;
  }
  return false;
}

// `trainset.data = images[task]` in the loop: other data in each pass.
bool is_changed_inside(const Expr* dataset, const Statement& loop) {
  const std::string_view variable = last_name(dataset);
  return any_statement(loop.body, [&](const Statement& statement) {
    const Expr* target = statement.kind == StatementKind::assignment ? statement.target : nullptr;
    const bool is_part = target != nullptr && (target->kind == ExprKind::attribute ||
                                               target->kind == ExprKind::subscript);
    return is_part && !variable.empty() && last_name(target->children().front()) == variable;
  });
}

// `for epoch in range(3)`: the workers start a few times in all.
bool has_few_epochs(const SourceFacts& facts, const Statement& loop) {
  constexpr std::int64_t kFew = 10;
  const Call* range = resolved(loop.value)->call();
  if (range == nullptr || range->name != "range" || range->arguments.empty()) return false;
  const std::size_t last = range->arguments.size() == 1 ? 0 : 1;
  const Value epochs = facts.value(range->arguments[last].value);
  return epochs.kind == ValueKind::integer && epochs.integer <= kFew;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    const Value workers = facts.argument(*loader, "num_workers", 5);
    const Making making = made_in(*loader);
    const Statement* loop = making.loop;
    if (!has_workers(workers) || loop == nullptr || loader->arguments.empty()) continue;
    const Argument* dataset = loader->argument("dataset", 0);
    if (dataset == nullptr || !is_made_outside(at_loop(dataset->value, making), *loop)) continue;
    if (is_changed_inside(at_loop(dataset->value, making), *loop)) continue;
    const bool is_new = making.caller != nullptr && is_made_beside(*dataset->value, *loader);
    if (is_new || is_done_once(*loader, *loop) || depends_on_epoch(*loader, making)) continue;
    Finding finding = finding_at(
        *loader,
        fmt::format("the loader is built in each epoch from the same `{}`: its {}workers start "
                    "again every time",
                    code_text(*loader->file, dataset->value),
                    workers.kind == ValueKind::integer ? fmt::format("{} ", workers.integer) : ""),
        {"Build it once before the epoch loop, with persistent_workers=True",
         Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::found(fmt::format("epoch loop at {}", place_text(*loop, *loader->file))),
        Evidence::published("PyTorch documentation, torch.utils.data, Multi-process data loading")};
    if (has_few_epochs(facts, *loop)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(Evidence::found("the run has a few epochs"));
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace loader_rebuilt_each_epoch

extern const Rule input_pipeline_loader_rebuilt_each_epoch{
    .id = "input_pipeline/loader-rebuilt-each-epoch",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "DataLoader is rebuilt in every epoch",
    .doc = loader_rebuilt_each_epoch::kDoc,
    .in_scripts = loader_rebuilt_each_epoch::find};

}  // namespace rooftile
