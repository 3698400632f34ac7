#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/guards.h"

namespace rooftile {
namespace distributed_exposed_communication_in_source {

using namespace source;

bool is_backward(const Call& call) {
  return (call.method == "backward" && call.receiver != nullptr) ||
         call.method == "manual_backward";
}

bool is_step(const Call& call) {
  if (call.method != "step") return call.method == "optimizer_step";
  const Type& type = call.receiver_type();
  const std::string_view name = last_name(call.receiver);
  return type.is(TypeKind::optimizer) || type.is(TypeKind::scaler) ||
         name.find("opt") != std::string_view::npos ||
         name.find("scaler") != std::string_view::npos;
}

// The loop around a call in its own function that goes over micro-batches: it runs the model and
// steps nothing. `around`, the loop over steps, is none.
const Statement* micro_batch_loop_around(const Call& call, const Call& step, const Loop* around) {
  for (const Statement* outer = call.statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return nullptr;
    if (outer->loop == nullptr) continue;
    if (around != nullptr && is_within(*around->statement, *outer)) return nullptr;
    if (is_within(*step.statement, *outer)) return nullptr;
    const auto calls = calls_inside(*outer);
    // The step may be in another function, that of a wrapper around the optimizer too.
    const auto steps = [](const Call* one) {
      return is_step(*one) || (one->target != nullptr &&
                               any_call_below(*one->target, kMaxCallDepth,
                                              [](const Call& inner) { return is_step(inner); }));
    };
    if (std::ranges::any_of(calls, steps)) return nullptr;
    const bool has_forward = std::ranges::any_of(calls, [&](const Call* one) {
      return one->name == "torch.nn.Module.__call__" || (one != &call && one->target != nullptr);
    });
    return has_forward ? outer : nullptr;
  }
  return nullptr;
}

// The same around the backward, or around the call of a wrapper that runs it.
const Statement* micro_batch_loop(const Iteration& iteration, const Call& backward,
                                  const Call& step) {
  const Call* call = &backward;
  for (int level = 0; level <= kMaxCallDepth && call != nullptr; ++level) {
    if (const Statement* loop = micro_batch_loop_around(*call, step, iteration.loop)) return loop;
    const FunctionDef* function = call->function;
    if (function == nullptr || function == iteration.function) return nullptr;
    const auto caller = std::ranges::find_if(
        iteration.calls, [&](const IteratedCall& one) { return one.call->target == function; });
    call = caller == iteration.calls.end() ? nullptr : caller->call;
  }
  return nullptr;
}

struct Accumulation {
  const Call* backward = nullptr;
  const Statement* test = nullptr;  // the if around the step, or the loop of micro-batches
};

// `if update_gradients:` of a parameter that each caller passes True for, or leaves at True.
bool is_true_for_all(const SourceFacts& facts, const Expr& condition) {
  const FunctionDef* function = condition.statement->function;
  const bool is_open = condition.kind == ExprKind::name && condition.binding() == nullptr;
  if (!is_open || function == nullptr || function->callers.empty()) return false;
  const auto parameter =
      std::ranges::find(function->parameters, condition.word(), &Parameter::name);
  if (parameter == function->parameters.end()) return false;
  return std::ranges::all_of(function->callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, *function, condition.word());
    return facts.value(given != nullptr ? given->value : parameter->default_value).is_true();
  });
}

// `if (logging and step % n == 0) or not logging:` is open with all options at their defaults.
// Where the option is the count itself, whoever sets it gets the cost.
bool is_open_by_default(const SourceFacts& facts, const Statement& test) {
  const Expr* condition = test.value;
  if (condition != nullptr && is_true_for_all(facts, *condition)) return true;
  const bool is_choice = test.kind == StatementKind::if_ && condition != nullptr &&
                         condition->kind == ExprKind::logical && condition->word() == "or";
  return is_choice && std::ranges::any_of(condition->children(), [&](const Expr* operand) {
           const std::string text = lower(test.file->slice(operand->range));
           return facts.value(operand).is_true() && !contains_any(text, {"accum", "%"});
         });
}

// Each backward of the pass with the step that follows it: a generator's, and a discriminator's.
std::vector<Accumulation> accumulations_in(const SourceFacts& facts, const Iteration& iteration) {
  std::vector<Accumulation> found;
  const IteratedCall* backward = nullptr;
  for (const IteratedCall& one : iteration.calls) {
    if (is_backward(*one.call)) backward = &one;
    if (backward == nullptr || !is_step(*one.call)) continue;
    // The step of an own optimizer is one, a function around it is not.
    const bool is_own = one.call->receiver_type().is(TypeKind::optimizer);
    if (one.call->target != nullptr && !is_own) continue;
    for (const Branch& branch : extra_conditions(one, *backward)) {
      const bool is_test = is_accumulation_test(branch) &&
                           (branch.otherwise || !is_open_by_default(facts, *branch.statement));
      if (is_test) found.push_back({backward->call, branch.statement});
    }
    if (const Statement* loop = micro_batch_loop(iteration, *backward->call, *one.call)) {
      found.push_back({backward->call, loop});
    }
  }
  return found;
}

bool wraps_in_ddp(const SourceFacts& facts, const Program& program) {
  return !calls_in(facts, program,
                   {"torch.nn.parallel.DistributedDataParallel",
                    "apex.parallel.DistributedDataParallel"})
              .empty();
}

// By accelerate, which other parts of the program need not know of.
bool is_prepared(const SourceFacts& facts, const Program& program, const Call& backward) {
  const bool is_own = backward.receiver_type().is(TypeKind::accelerator);
  return std::ranges::any_of(facts.method_calls("prepare"), [&](const Call* call) {
    return call->receiver_type().is(TypeKind::accelerator) && program.has(*call->file) &&
           (is_own || call->file == backward.file);
  });
}

bool is_never_unsynced(const Program& program) {
  return std::ranges::none_of(program.files, [](const File* file) {
    return has_any_text(*file,
                        {"no_sync", "require_backward_grad_sync", "set_requires_gradient_sync",
                         "accelerator.accumulate(", "gradient_accumulation_plugin"});
  });
}

// `step % n == 0`, `count == n` with a number above one that is written or a default.
bool counts_several(const SourceFacts& facts, const Expr& condition, const Statement& test) {
  const auto is_several = [](const Value& value) {
    return value.kind == ValueKind::integer && value.integer > 1;
  };
  const auto guards = guards_of_condition(facts, &condition, &test, false);
  return std::ranges::any_of(guards, [&](const Guard& guard) {
    bool found = is_several(guard.interval);
    visit(guard.expr, [&](const Expr& part) {
      const bool compares = part.kind == ExprKind::comparison;
      found = found || (compares && std::ranges::any_of(part.children(), [&](const Expr* side) {
                          return is_several(facts.value(side));
                        }));
      return !found;
    });
    return found;
  });
}

// A run with the defaults is known to step on several micro-batches; also where callers pass the
// condition.
bool accumulates_by_default(const SourceFacts& facts, const Statement& test) {
  if (test.kind != StatementKind::if_ || counts_several(facts, *test.value, test)) return true;
  return std::ranges::any_of(script::origins(facts, *test.value), [&](const Expr* passed) {
    return counts_several(facts, *passed, *passed->statement);
  });
}

Finding finding_for(const SourceFacts& facts, const Accumulation& found) {
  Finding finding = finding_at(
      *found.backward,
      "each micro-batch exchanges all gradients between the GPUs, only the last before the "
      "step has to",
      {"Run all micro-batches but the last under `with model.no_sync():`, or "
       "accelerator.accumulate(model)",
       Exactness::exact_arithmetic});
  if (!accumulates_by_default(facts, *found.test)) finding.own_level = Level::info;
  finding.evidence = {
      Evidence::found(fmt::format("{} at {}",
                                  found.test->kind == StatementKind::if_
                                      ? "the optimizer steps only under the test"
                                      : "loop of micro-batches",
                                  place_text(*found.test, *found.backward->file))),
      Evidence::published("PyTorch documentation, DistributedDataParallel.no_sync")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  ProgramQuestion wraps([&](const Program& program) { return wraps_in_ddp(facts, program); });
  ProgramQuestion is_left_so(is_never_unsynced);
  const auto is_synced = [&](const Call& backward) {
    const auto programs = training_programs_of(facts, *backward.file);
    return std::ranges::any_of(programs, [&](const Program* program) {
      const bool exchanges = wraps.holds(*program) || is_prepared(facts, *program, backward);
      return exchanges && is_left_so.holds(*program);
    });
  };
  for (const Iteration& iteration : training_iterations(facts)) {
    for (const Accumulation& found : accumulations_in(facts, iteration)) {
      if (!is_synced(*found.backward)) continue;
      if (seen.insert(found.backward).second) findings.push_back(finding_for(facts, found));
    }
  }
  return findings;
}

}  // namespace distributed_exposed_communication_in_source

}  // namespace rooftile
