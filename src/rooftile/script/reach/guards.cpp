#include "rooftile/script/reach/guards.h"

#include <algorithm>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/steadiness.h"

namespace rooftile::source {
namespace {

constexpr int kMaxOperands = 16;

// The last word of a name, attribute or call: is_main_process of accelerator.is_main_process.
std::string_view last_word(const Expr& expr) {
  if (expr.kind == ExprKind::call) return expr.call()->method;
  return expr.kind == ExprKind::name || expr.kind == ExprKind::attribute ? expr.word() : "";
}

bool is_rank_word(std::string_view word) {
  return contains(word, "rank") || word == "process_index" || word == "get_rank";
}

bool is_main_process_word(std::string_view word) {
  return contains(word, "is_main") || contains(word, "is_master") || word == "master_process" ||
         contains(word, "is_rank_zero") || word == "is_global_zero" || word == "is_rank_0" ||
         word == "is_primary" || word == "is_world_process_zero";
}

bool is_debug_word(std::string_view word) {
  return contains(word, "debug") || word == "verbose" || contains(word, "profil") ||
         word == "dry_run" || word == "sanity_check";
}

const Expr* remainder_in(const Expr& expr) {
  if (expr.kind == ExprKind::binary && expr.word() == "%" && expr.children().size() == 2)
    return &expr;
  return nullptr;
}

bool is_loop_counter(const Expr& expr) {
  if (expr.kind == ExprKind::binary) return is_loop_counter(*expr.children()[0]);
  const std::string_view word = last_word(expr);
  return word == "i" || word == "it" || word == "idx" || contains(word, "step") ||
         contains(word, "iter") || contains(word, "epoch") || contains(word, "batch_idx") ||
         contains(word, "batch_i") || word == "n_batch" || word == "count";
}

void set_interval(const SourceFacts& facts, const Expr& remainder, Guard& guard) {
  guard.kind = GuardKind::every_n;
  guard.interval = facts.value(remainder.children()[1]);
}

bool classify_comparison(const SourceFacts& facts, const Expr& expr, Guard& guard) {
  if (expr.children().size() != 2) return false;
  const Expr& left = *expr.children()[0];
  const Expr& right = *expr.children()[1];
  const bool equal = is_one_of(expr.word(), {"==", "is"});  // `step % 100 is 0`
  const Expr* remainder = remainder_in(left) != nullptr ? remainder_in(left) : remainder_in(right);
  if (remainder != nullptr) {
    set_interval(facts, *remainder, guard);
    if (!equal) guard.negated = !guard.negated;
    return true;
  }
  const bool zero = facts.value(&right).is(0);
  if (is_rank_word(last_word(left))) {
    const bool in_list = expr.word() == "in";  // local_rank in [-1, 0]
    guard.kind = GuardKind::rank_zero;
    const bool main = (equal && zero) || in_list || expr.word() == "<" || expr.word() == "<=";
    if (!main) guard.negated = !guard.negated;
    return zero || in_list || facts.value(&right).known();
  }
  if (last_word(left) == "__name__") {
    guard.kind = GuardKind::main;
    return true;
  }
  const std::string_view word = last_word(left);
  if ((word == "phase" || word == "mode" || word == "split") && equal) {
    guard.kind = facts.value(&right).is("train") ? GuardKind::training : GuardKind::option;
    return true;
  }
  if (expr.word().starts_with(">") && is_debug_word(word)) {  // opt.debug > 0
    guard.kind = GuardKind::debug;
    return true;
  }
  if ((equal || expr.word() == "<") && is_loop_counter(left)) {
    guard.kind = GuardKind::once;
    return true;
  }
  return false;
}

// Whether an odd number of `not` stands around the part of the condition.
bool is_turned(const Expr& part, const Expr& condition) {
  bool turned = false;
  for (const Expr* at = &part; at != &condition && at != nullptr; at = at->parent) {
    const Expr* outer = at->parent;
    turned ^= outer != nullptr && outer->kind == ExprKind::logical && outer->word() == "not";
  }
  return turned;
}

// `if not hasattr(self, "mask"): self.mask = …`, also by register_buffer: from then on it has it.
bool is_made_by_branch(const Call& asked, const Statement& branch) {
  if (asked.name != "hasattr" || asked.arguments.size() != 2) return false;
  const Expr& name = *asked.arguments[1].value;
  return name.kind == ExprKind::text &&
         std::ranges::any_of(branch.body, [&](const Statement* each) {
           const Call* call = each->value == nullptr ? nullptr : each->value->call();
           const bool registers = call != nullptr && call->method == "register_buffer" &&
                                  !call->arguments.empty() &&
                                  call->arguments[0].value->word() == name.word();
           return registers || (each->kind == StatementKind::assignment &&
                                each->target->kind == ExprKind::attribute &&
                                each->target->word() == name.word());
         });
}

bool sets_to_none(const Statement& statement, std::string_view text) {
  return statement.kind == StatementKind::assignment && statement.value != nullptr &&
         statement.value->kind == ExprKind::none &&
         statement.file->slice(statement.target->range) == text;
}

// `if average is None: average = loss.item()`: from then on it is not, unless the loop around it
// sets it to None again. A parameter is None on each call.
bool is_filled_by_branch(const Expr& test, const Statement* branch) {
  const bool is_test = test.kind == ExprKind::comparison && test.word() == "is" &&
                       test.children().size() == 2 && test.children()[1]->kind == ExprKind::none &&
                       branch != nullptr && branch->kind == StatementKind::if_ &&
                       branch->value == &test;
  if (!is_test) return false;
  const Expr& asked = *test.children()[0];
  const std::string_view text = branch->file->slice(asked.range);
  const bool is_filled = std::ranges::any_of(branch->body, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && each->word == "=" && each->value != nullptr &&
           each->value->kind != ExprKind::none && each->file->slice(each->target->range) == text;
  });
  if (!is_filled || asked.kind == ExprKind::attribute) return is_filled;
  const Statement* loop = loop_around(branch);
  if (asked.kind != ExprKind::name || loop == nullptr) return false;
  // Set to None before the loop, in the same function, and in no pass of it.
  bool is_kept = false;
  for (const Statement* each : branch->file->statements) {
    if (each->function != branch->function || !sets_to_none(*each, text)) continue;
    if (is_within(*each, *loop)) return false;
    is_kept = is_kept || each->range.begin < loop->range.begin;
  }
  return is_kept;
}

// `if self.first: self.first = False; …`, `if not self.ready: self.ready = True; …`: the branch
// shuts the door behind it.
bool is_flag_of_branch(const Expr& flag, const Statement* branch) {
  if (branch == nullptr || branch->kind != StatementKind::if_) return false;
  if (flag.call() != nullptr) {
    return is_turned(flag, *branch->value) && is_made_by_branch(*flag.call(), *branch);
  }
  if (flag.kind != ExprKind::name && flag.kind != ExprKind::attribute) return false;
  const std::string_view text = branch->file->slice(flag.range);
  const std::string_view shut = is_turned(flag, *branch->value) ? "True" : "False";
  return std::ranges::any_of(branch->body, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && each->word == "=" && each->value != nullptr &&
           each->value->kind == ExprKind::boolean && each->value->word() == shut &&
           each->file->slice(each->target->range) == text;
  });
}

// May be None: a parameter, whose callers decide, and what is not known.
bool may_be_none(const SourceFacts& facts, const Expr& given) {
  const Value value = facts.value(&given);
  const bool has_type = !given.type->is(TypeKind::unknown) && !given.type->guessed;
  return value.kind == ValueKind::none || (!has_type && !value.known());
}

// `if mask is None:` where each caller passes a mask.
bool is_given_by_all(const SourceFacts& facts, const Expr& test) {
  const bool is_test = test.kind == ExprKind::comparison && test.word() == "is" &&
                       test.children().size() == 2 && test.children()[1]->kind == ExprKind::none &&
                       test.children()[0]->kind == ExprKind::name;
  const FunctionDef* function = is_test ? test.statement->function : nullptr;
  const Expr* asked = is_test ? test.children()[0] : nullptr;
  const bool is_parameter = function != nullptr && asked->binding() == nullptr &&
                            std::ranges::find(function->parameters, asked->word(),
                                              &Parameter::name) != function->parameters.end();
  return is_parameter && !function->callers.empty() &&
         std::ranges::all_of(function->callers, [&](const Call* caller) {
           const Argument* given = passed_argument(*caller, *function, asked->word());
           return given != nullptr && given->value->kind != ExprKind::none &&
                  !may_be_none(facts, *given->value);
         });
}

Guard classify(const SourceFacts& facts, const Expr& expr, const Statement* statement,
               bool negated) {
  Guard guard;
  guard.negated = negated;
  guard.expr = &expr;
  guard.statement = statement;
  guard.interval.kind = ValueKind::absent;
  if (expr.kind == ExprKind::comparison && classify_comparison(facts, expr, guard)) return guard;
  guard.negated = negated;
  if (const Expr* remainder = remainder_in(expr)) {  // `if step % 100:`
    set_interval(facts, *remainder, guard);
    guard.negated = !negated;
    return guard;
  }
  const std::string_view word = last_word(expr);
  const bool is_literal = expr.kind == ExprKind::boolean || expr.kind == ExprKind::integer;
  const bool is_false = is_literal && facts.value(&expr).is_false();
  if (!is_false && is_filled_by_branch(expr, statement)) {
    guard.kind = GuardKind::once;
  } else if (is_false || is_given_by_all(facts, expr)) {
    guard.kind = GuardKind::never;
  } else if (is_flag_of_branch(expr, statement)) {
    guard.kind = GuardKind::once;
    guard.negated = negated != is_turned(expr, *statement->value);
  } else if (is_main_process_word(word)) {
    guard.kind = GuardKind::rank_zero;
  } else if (is_debug_word(word)) {
    guard.kind = GuardKind::debug;
  } else if (word == "training" || word == "is_train" || word == "is_training" || word == "train") {
    guard.kind = GuardKind::training;
  } else if (is_steady(facts, expr, statement)) {
    guard.kind = GuardKind::option;
  }
  return guard;
}

bool is_interval(const SourceFacts& facts, const Expr& expr, const Statement* statement) {
  const Guard guard = classify(facts, expr, statement, false);
  return guard.kind == GuardKind::every_n && !guard.negated;
}

// `step % n == 0 or step == last`, `(n > 0 and step % n == 0) or step == 1`: each n steps, and then
// some.
const Expr* interval_in(const SourceFacts& facts, const Expr& expr, const Statement* statement) {
  if (expr.kind != ExprKind::logical || expr.word() != "or") return nullptr;
  for (const Expr* child : expr.children()) {
    if (is_interval(facts, *child, statement)) return child;
    if (child->kind != ExprKind::logical || child->word() != "and") continue;
    for (const Expr* part : child->children()) {
      // `(distributed and rank % gpus == 0) or …` is about the process.
      const Expr* remainder = part->children().empty() ? nullptr : part->children().front();
      const bool is_rank = remainder != nullptr && !remainder->children().empty() &&
                           last_word(*remainder->children().front()).ends_with("rank");
      if (!is_rank && is_interval(facts, *part, statement)) return part;
    }
  }
  return nullptr;
}

bool compares_remainder(const Expr& expr) {
  return expr.kind == ExprKind::comparison && remainder_in(*expr.children()[0]) != nullptr;
}

// `should_update = step % n == 0 or is_last`, and then `if should_update:`: what the name is for.
const Expr* named_interval(const Expr& expr) {
  const Statement* set = expr.kind == ExprKind::name ? expr.binding() : nullptr;
  const bool is_set = set != nullptr && set->kind == StatementKind::assignment &&
                      set->word == "=" && set->value != nullptr &&
                      set->target->kind == ExprKind::name &&
                      set->function == expr.statement->function;
  if (!is_set) return nullptr;
  const Expr& value = *set->value;
  const bool has_remainder =
      compares_remainder(value) || (value.kind == ExprKind::logical && value.word() == "or" &&
                                    std::ranges::any_of(value.children(), [](const Expr* part) {
                                      return compares_remainder(*part);
                                    }));
  return has_remainder ? &value : nullptr;
}

void add_conditions(const SourceFacts& facts, const Expr& expr, const Statement* statement,
                    bool negated, std::vector<Guard>& guards) {
  if (guards.size() >= kMaxOperands) return;
  if (const Expr* value = named_interval(expr)) {
    return add_conditions(facts, *value, statement, negated, guards);
  }
  if (expr.kind == ExprKind::logical && expr.word() == "not" && expr.children().size() == 1) {
    return add_conditions(facts, *expr.children()[0], statement, !negated, guards);
  }
  // not (a or b) is not a and not b.
  const std::string_view splits = negated ? "or" : "and";
  if (expr.kind == ExprKind::logical && expr.word() == splits) {
    for (const Expr* child : expr.children()) {
      add_conditions(facts, *child, statement, negated, guards);
    }
    return;
  }
  const Expr* every = negated ? nullptr : interval_in(facts, expr, statement);
  guards.push_back(classify(facts, every != nullptr ? *every : expr, statement, negated));
}

bool is_autocast(std::string_view name) {
  return name.ends_with(".autocast") || name.ends_with("Accelerator.autocast") ||
         name == "torch.cpu.amp.autocast";
}

// The guard that a call or name of torch stands for.
GuardKind gradient_guard(std::string_view name) {
  if (name == "torch.no_grad") return GuardKind::no_grad;
  if (name == "torch.inference_mode") return GuardKind::inference_mode;
  return GuardKind::decorator;
}

// `return torch.no_grad()(func)`
GuardKind guard_of_wrapped(const Statement& statement) {
  const Expr* value = statement.kind == StatementKind::return_ ? statement.value : nullptr;
  const bool is_call = value != nullptr && value->call() != nullptr;
  const Call* wrapper = is_call ? value->children().front()->call() : nullptr;
  return wrapper == nullptr ? GuardKind::decorator : gradient_guard(wrapper->name);
}

// `@torch.no_grad()` of the function that a decorator gives back.
GuardKind guard_of_decorators(const FunctionDef& function) {
  for (const Expr* decorator : function.decorators) {
    const std::string_view name =
        decorator->call() != nullptr ? decorator->call()->name : decorator->full_name();
    const GuardKind kind = gradient_guard(name);
    if (kind != GuardKind::decorator) return kind;
  }
  return GuardKind::decorator;
}

// What runs the function that an own decorator is given: `with torch.no_grad(): func(x)` in the
// function inside of it, or `return torch.no_grad()(func)`. A `with` counts that has the text.
GuardKind guard_inside(std::span<const Statement* const> block, int depth,
                       std::string_view text = {}) {
  constexpr int kMaxDepth = 6;
  if (depth > kMaxDepth) return GuardKind::decorator;
  for (const Statement* statement : block) {
    for (const WithItem& item : statement->items) {
      const Call* call = item.context->call();
      if (call == nullptr || gradient_guard(call->name) == GuardKind::decorator) continue;
      if (contains(statement->file->slice(statement->range), text)) {
        return gradient_guard(call->name);
      }
    }
    const GuardKind wrapped = guard_of_wrapped(*statement);
    if (wrapped != GuardKind::decorator) return wrapped;
    const FunctionDef* nested = statement->function_def;
    const GuardKind decorated =
        nested == nullptr ? GuardKind::decorator : guard_of_decorators(*nested);
    if (decorated != GuardKind::decorator) return decorated;
    const GuardKind inner =
        guard_inside(nested != nullptr ? nested->body : statement->body, depth + 1, text);
    if (inner != GuardKind::decorator) return inner;
  }
  return GuardKind::decorator;
}

// Of a decorator that the files define.
GuardKind guard_of_own_decorator(const Expr& decorator) {
  const Expr& made =
      decorator.call() != nullptr ? *decorator.call()->expr->children().front() : decorator;
  const bool is_own = made.type->is(TypeKind::function) && made.type->function != nullptr &&
                      !made.type->function->parameters.empty();
  return is_own ? guard_inside(made.type->function->body, 0) : GuardKind::decorator;
}

// Of a context manager that the files define: `with torch.no_grad(): yield`, or a class that
// switches them when it is made or entered.
GuardKind guard_of_own_manager(const Expr& made) {
  if (made.call() == nullptr) return GuardKind::with_other;
  const FunctionDef* target = made.call()->target;
  const ClassDef* def = made.type->class_def;
  if (target != nullptr && target->class_def != nullptr) def = target->class_def;
  GuardKind kind = GuardKind::decorator;
  if (target != nullptr && target->class_def == nullptr) {
    kind = guard_inside(target->body, 0, "yield");
  } else if (def != nullptr && def->method("__enter__") != nullptr) {
    for (const FunctionDef* method : def->methods) {
      for (const Call* call : method->calls) {
        if (kind == GuardKind::decorator) kind = gradient_guard(call->name);
      }
    }
  }
  return kind == GuardKind::decorator ? GuardKind::with_other : kind;
}

}  // namespace

std::vector<Guard> guards_of_condition(const SourceFacts& facts, const Expr* condition,
                                       const Statement* statement, bool negated) {
  std::vector<Guard> guards;
  if (condition != nullptr) add_conditions(facts, *condition, statement, negated, guards);
  return guards;
}

std::optional<bool> turns_gradients_off(const Guard& guard) {
  if (guard.kind == GuardKind::no_grad || guard.kind == GuardKind::inference_mode) return true;
  if (guard.kind != GuardKind::enable_grad) return std::nullopt;
  const Call* call = guard.expr == nullptr ? nullptr : guard.expr->call();
  return call != nullptr && !call->arguments.empty() && call->arguments[0].value->word() == "False";
}

Guard guard_of_manager(const Expr* manager, const Statement* statement) {
  Guard guard;
  guard.kind = statement == nullptr ? GuardKind::decorator : GuardKind::with_other;
  guard.expr = manager;
  guard.statement = statement;
  guard.interval.kind = ValueKind::absent;
  // ctx = autocast(...) before, `with ctx:` here.
  const Expr* made = manager;
  if (made->kind == ExprKind::name && made->binding() != nullptr &&
      made->binding()->value != nullptr) {
    made = made->binding()->value;
  }
  // nullcontext() if device == "cpu" else autocast(...)
  if (made->kind == ExprKind::conditional && made->children().size() == 3) {
    const Expr* first = made->children()[0];
    const bool is_null = first->kind == ExprKind::call && first->call()->method == "nullcontext";
    made = is_null ? made->children()[2] : first;
  }
  guard.kind = statement == nullptr ? guard_of_own_decorator(*made) : guard_of_own_manager(*made);
  const std::string_view name =
      made->kind == ExprKind::call ? made->call()->name : made->full_name();
  const std::string_view word = last_word(*made);
  if (name == "torch.no_grad") guard.kind = GuardKind::no_grad;
  if (name == "torch.inference_mode") guard.kind = GuardKind::inference_mode;
  if (name == "torch.enable_grad") guard.kind = GuardKind::enable_grad;
  if (name == "torch.set_grad_enabled") guard.kind = GuardKind::enable_grad;
  if (is_autocast(name)) guard.kind = GuardKind::autocast;
  if (word == "autocast" && guard.kind == GuardKind::with_other) guard.kind = GuardKind::autocast;
  if (word == "no_sync") guard.kind = GuardKind::no_sync;
  const bool is_named =
      guard.kind == GuardKind::decorator && contains_any(word, {"no_grad", "nograd", "inference"});
  if (is_named) guard.kind = GuardKind::no_grad;
  if (made != manager && guard.kind == GuardKind::autocast) guard.expr = made;
  return guard;
}

}  // namespace rooftile::source
