#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace optimizer_scheduler_steps_first_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`scheduler.step()` of a `torch.optim.lr_scheduler` object before the first `optimizer.step()` of
the same iteration or epoch.

## Why it costs time
It does not cost time: the first learning rate of the schedule is skipped, and PyTorch warns about
it. Warm-up and restarts are shifted by one.

## How to fix
Call `scheduler.step()` after the optimizer: at the end of the epoch, or of the iteration for
schedules per step.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- `scheduler.step(epoch)` says itself where the schedule is.
- Schedulers of other libraries.
- Before PyTorch 1.1, where the scheduler comes first.

## Evidence
- PyTorch documentation, torch.optim, "How to adjust learning rate".
)md";

using namespace source;

bool is_from_torch(const Type& type) {
  constexpr std::string_view kTorch = "torch.optim.lr_scheduler.";
  if (type.class_def != nullptr) {
    // Its own step() may start where it likes.
    if (type.class_def->method("step") != nullptr) return false;
    return std::any_of(type.class_def->bases.begin(), type.class_def->bases.end(),
                       [&](const Expr* base) { return base->full_name().starts_with(kTorch); });
  }
  return type.made_by != nullptr && type.made_by->name.starts_with(kTorch);
}

// A name bound in several branches has no one maker: then all of the file have to be torch's, or
// of the program where the file makes none.
bool are_all_from_torch(const SourceFacts& facts, const File& file) {
  std::vector<const Call*> made = facts.constructions(TypeKind::scheduler);
  const auto is_here = [&](const Call* call) { return call->file == &file; };
  if (std::ranges::any_of(made, is_here)) {
    std::erase_if(made, [&](const Call* call) { return !is_here(call); });
  } else {
    const auto programs = training_programs_of(facts, file);
    std::erase_if(made, [&](const Call* call) {
      return std::ranges::none_of(
          programs, [&](const Program* program) { return program->has(*call->file); });
    });
  }
  return !made.empty() && std::ranges::all_of(made, [](const Call* call) {
    return is_from_torch(*call->expr->type);
  });
}

bool is_torch_scheduler(const SourceFacts& facts, const Call& call) {
  if (call.method != "step" || !call.arguments.empty() || call.receiver == nullptr) return false;
  const Type& type = call.receiver_type();
  if (!type.is(TypeKind::scheduler)) return false;
  const bool is_mixed = type.class_def == nullptr && type.name.empty();
  return is_mixed ? are_all_from_torch(facts, *call.file) : is_from_torch(type);
}

bool is_optimizer_step(const Call& call) {
  if (call.method != "step" || call.receiver == nullptr) return false;
  const Type& type = call.receiver_type();
  if (type.is(TypeKind::scaler)) return !call.arguments.empty();
  // Where apex or accelerate hand back another one, only the name is left.
  const bool is_named = type.is(TypeKind::unknown) &&
                        last_name(call.receiver).find("optim") != std::string_view::npos;
  return is_named || type.is(TypeKind::optimizer);
}

// `if scheduler.get_last_lr()[0] < highest:` asks where the schedule is.
bool asks_for_rate(const Expr& asked, std::string_view scheduler) {
  if (asked.kind != ExprKind::comparison) return false;
  const Expr* rate = asked.children().front();
  if (rate->kind == ExprKind::subscript) rate = rate->children().front();
  return rate->call() != nullptr && rate->call()->receiver != nullptr &&
         is_one_of(rate->call()->method, {"get_lr", "get_last_lr"}) &&
         rate->call()->file->slice(rate->call()->receiver->range) == scheduler;
}

// The else of `if step < warmup:`, and `if step >= warmup:`: on each pass from some step on.
bool is_after_warm_up(const Branch& branch) {
  const Expr* test = branch.statement->value;
  const bool compares = branch.statement->kind == StatementKind::if_ && test != nullptr &&
                        test->kind == ExprKind::comparison && test->children().size() == 2 &&
                        test->word().starts_with(branch.otherwise ? "<" : ">");
  return compares &&
         contains_any(lower(last_name(test->children()[0])), {"step", "iter", "epoch"}) &&
         contains(lower(branch.statement->file->slice(test->children()[1]->range)), "warm");
}

// `if scheduler is not None:`, `if is_stepwise(self.scheduler):`: the kind of scheduler decides,
// for all passes alike.
bool asks_for_scheduler(const Branch& branch, const Call& step) {
  const Expr* asked = branch.statement->value;
  if (branch.statement->kind != StatementKind::if_ || asked == nullptr) return false;
  const std::string_view scheduler = step.file->slice(step.receiver->range);
  if (branch.condition == scheduler) return true;
  if (!branch.otherwise && asks_for_rate(*asked, scheduler)) return true;
  return !branch.otherwise && asked->call() != nullptr && asked->call()->arguments.size() == 1 &&
         asked->statement->file->slice(asked->call()->arguments.front().value->range) == scheduler;
}

// `if i == 0:`, the first pass of an epoch.
bool is_first_pass(const Branch& branch) {
  const Expr* test = branch.statement == nullptr ? nullptr : branch.statement->value;
  return test != nullptr && !branch.otherwise && test->kind == ExprKind::comparison &&
         test->word() == "==" && test->children().size() == 2 &&
         test->children()[0]->kind == ExprKind::name &&
         test->children()[1]->kind == ExprKind::integer && test->children()[1]->word() == "0";
}

// `if args.solver == "sgd":` with that default: a choice for the run, and none for a pass.
bool is_chosen_by_default(const SourceFacts& facts, const Branch& branch) {
  const Expr* test = branch.statement->value;
  if (branch.statement->kind != StatementKind::if_ || test == nullptr) return false;
  const Value value = facts.value(test);
  return branch.otherwise ? value.is_false() : value.is_true();
}

struct Order {
  const Call* scheduler = nullptr;
  const Call* optimizer = nullptr;
};

// The scheduler's step where no optimizer has stepped before it on the pass, but one does after.
Order wrong_order(const SourceFacts& facts, const Iteration& iteration) {
  const IteratedCall* scheduler = nullptr;
  for (const IteratedCall& one : iteration.calls) {
    if (is_optimizer_step(*one.call)) {
      const bool follows =
          scheduler != nullptr &&
          std::ranges::all_of(extra_conditions(*scheduler, one), [&](const Branch& branch) {
            return is_first_pass(branch) || asks_for_scheduler(branch, *scheduler->call) ||
                   is_after_warm_up(branch) || is_chosen_by_default(facts, branch);
          });
      return follows ? Order{scheduler->call, one.call} : Order{};
    }
    if (scheduler == nullptr && is_torch_scheduler(facts, *one.call)) scheduler = &one;
  }
  return {};
}

// A function that ignite calls at the start of each epoch: @trainer.on(Events.EPOCH_STARTED).
bool begins_epoch(const FunctionDef* function) {
  return function != nullptr && std::ranges::any_of(function->decorators, [](const Expr* each) {
           const Call* on = each->call();
           return on != nullptr && on->method == "on" && !on->arguments.empty() &&
                  last_name(on->arguments.front().value) == "EPOCH_STARTED";
         });
}

Finding handler_finding(const Call& step) {
  Finding finding = finding_at(
      step,
      fmt::format("{}.step() runs at the start of each epoch, before the optimizer has stepped: "
                  "the first value of the schedule is never used",
                  receiver_text(step)),
      {"Call it from a handler of Events.EPOCH_COMPLETED", Exactness::changes_training});
  finding.evidence = {
      Evidence::published("call the scheduler after the optimizer, since 1.1",
                          "PyTorch documentation, torch.optim, How to adjust learning rate")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  constexpr TorchVersion kOptimizerFirst{1, 1};  // before, schedules began the other way round
  if (facts.runs_before(kOptimizerFirst)) return {};
  if (facts.constructions(TypeKind::scheduler).empty()) return {};
  std::vector<const Loop*> loops = facts.loops(LoopRole::training_step);
  for (const Loop* loop : facts.loops(LoopRole::epoch)) loops.push_back(loop);
  for (const Loop* loop : loops) {
    if (!trains_on_gpu(facts, *loop->file)) continue;
    const Order order = wrong_order(facts, iteration_of(facts, loop->statement->body));
    if (order.scheduler == nullptr || !seen.insert(order.scheduler).second) continue;
    Finding finding = finding_at(
        *order.scheduler,
        fmt::format(
            "{}.step() comes before {}.step(): the first value of the schedule is never used",
            receiver_text(*order.scheduler), receiver_text(*order.optimizer)),
        {fmt::format("Move {}.step() behind the optimizer's step", receiver_text(*order.scheduler)),
         Exactness::changes_training});
    finding.evidence = {
        Evidence::found(fmt::format("optimizer steps at {}",
                                    place_text(*order.optimizer, *order.scheduler->file))),
        Evidence::published("call the scheduler after the optimizer, since 1.1",
                            "PyTorch documentation, torch.optim, How to adjust learning rate")};
    findings.push_back(std::move(finding));
  }
  for (const Call* call : facts.method_calls("step")) {
    const bool is_first = begins_epoch(call->function) && is_torch_scheduler(facts, *call);
    if (!is_first || !trains_on_gpu(facts, *call->file)) continue;
    if (is_reached_by_default(facts, *call)) findings.push_back(handler_finding(*call));
  }
  return findings;
}

}  // namespace optimizer_scheduler_steps_first_rule

extern const Rule optimizer_scheduler_steps_first{
    .id = "optimizer/scheduler-steps-first",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Learning-rate scheduler steps before the optimizer",
    .doc = optimizer_scheduler_steps_first_rule::kDoc,
    .in_scripts = optimizer_scheduler_steps_first_rule::find};

}  // namespace rooftile
