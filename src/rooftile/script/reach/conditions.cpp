#include "rooftile/script/reach/conditions.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/script/flow/queries.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/script/reach/ways_up.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

// What `self.momentum = momentum` of the constructor keeps; null for other attributes.
const Parameter* kept_parameter(const Expr& attribute) {
  const FunctionDef* function = attribute.statement->function;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  const bool is_own =
      attribute.kind == ExprKind::attribute && attribute.children()[0]->word() == "self";
  const FunctionDef* init = is_own && def != nullptr ? def->method("__init__") : nullptr;
  if (init == nullptr) return nullptr;
  const Parameter* kept = nullptr;
  int times = 0;
  for (const FunctionDef* method : def->methods) {
    for_statements(method->body, [&](const Statement& statement) {
      const Expr* target = statement.kind == StatementKind::assignment ? statement.target : nullptr;
      const bool sets = target != nullptr && target->kind == ExprKind::attribute &&
                        target->word() == attribute.word() &&
                        last_name(target->children()[0]) == "self";
      if (!sets || statement.value == nullptr) return;
      ++times;
      const std::string_view name = last_name(statement.value);
      const auto found = std::ranges::find(init->parameters, name, &Parameter::name);
      const bool is_kept = method == init && statement.value->kind == ExprKind::name;
      if (is_kept && found != init->parameters.end()) kept = &*found;
    });
  }
  return times == 1 ? kept : nullptr;
}

// `if self.momentum is None:` of a module that is made with a number unless somebody says None.
std::optional<bool> asks_for_left_out(const Expr& condition) {
  const bool asks = condition.kind == ExprKind::comparison && condition.children().size() == 2 &&
                    condition.children()[1]->kind == ExprKind::none &&
                    is_one_of(condition.word(), {"is", "is not"});
  const Parameter* kept = asks ? kept_parameter(*condition.children()[0]) : nullptr;
  const Expr* value = kept == nullptr ? nullptr : kept->default_value;
  const bool is_number =
      value != nullptr && (value->kind == ExprKind::integer || value->kind == ExprKind::real);
  if (!is_number) return std::nullopt;
  const FunctionDef& init =
      *condition.children()[0]->statement->function->class_def->method("__init__");
  const bool may_be_none = std::ranges::any_of(init.callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, init, kept->name);
    return given != nullptr && given->value->kind == ExprKind::none;
  });
  return may_be_none ? std::nullopt : std::optional(condition.word() == "is not");
}

// Whether the condition is false with all options at their defaults; empty when it depends.
std::optional<bool> default_truth(const SourceFacts& facts, const Expr* condition, const Call* by) {
  if (condition == nullptr) return std::nullopt;
  const auto truth = script::known_value(facts, *condition, by).truth();
  return truth ? truth : asks_for_left_out(*condition);
}

// `elif mode == "test":`, `if args.task == "tagging":`: the other thing that the program is for,
// not a feature.
bool is_other_run(const SourceFacts& facts, const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->word() == "==" &&
                        expr->kind == ExprKind::comparison && expr->children().size() == 2;
  if (!compares || is_one_of(last_name(expr->children()[0]), {"task", "task_name", "task_type"})) {
    return compares;
  }
  if (guard.negated) return false;
  const Value wanted = facts.value(expr->children()[1]);
  if (wanted.kind != ValueKind::text) return false;
  if (wanted.text.starts_with("train")) return true;  // run_mode == "train_query"
  for (const std::string_view word : {"test", "eval", "val", "infer", "predict", "sample",
                                      "evaluate", "validate", "inference", "generate"}) {
    if (wanted.text == word) return true;
  }
  return false;
}

// `if args.do_train:`, `if args.train:`, `if not args.eval: … else:`: each run is started for one
// or the other.
bool is_chosen_run(const Guard& guard) {
  const Expr* chosen = guard.expr;
  // `opt.Train == True`, `args.train_file is not None`
  if (chosen != nullptr && chosen->kind == ExprKind::comparison && chosen->children().size() == 2) {
    const Expr& right = *chosen->children()[1];
    const bool is_given =
        right.kind == ExprKind::none && is_one_of(chosen->word(), {"is not", "!="});
    if (!is_given && (right.word() != "True" || !is_one_of(chosen->word(), {"is", "=="})))
      return false;
    chosen = chosen->children()[0];
  }
  const std::string lowered = lower(last_name(chosen));
  std::string_view name = lowered;
  if (name.empty() || guard.negated) return false;
  if (is_one_of(name, {"train_file", "train_data", "train_dir", "train_path"})) return true;
  const bool is_said = name.starts_with("do_") || name.starts_with("run_");
  if (is_said) name.remove_prefix(name.find('_') + 1);
  if (name.ends_with("_only")) name.remove_suffix(std::string_view("_only").size());
  if (is_one_of(name, {"train", "training", "eval", "evaluate", "test", "validate", "eval_test",
                       "eval_dev", "test_eval", "train_eval", "test_model", "eval_model"})) {
    return true;
  }
  return is_said && is_one_of(name, {"eval", "evaluate", "evaluation", "test", "testing", "predict",
                                     "prediction", "infer", "inference", "valid", "validate",
                                     "validation", "finetune", "pretrain", "generate", "sample"});
}

// Whether the block calls a function with a loop over steps in it.
bool runs_steps(std::span<const Statement* const> block) {
  return std::ranges::any_of(block, [](const Statement* statement) {
    const Call* call = statement->value == nullptr ? nullptr : statement->value->call();
    const FunctionDef* run = call == nullptr ? nullptr : call->target;
    return run != nullptr && std::ranges::any_of(run->file->loops, [&](const Loop* loop) {
             return loop->function == run && loop->is_step();
           });
  });
}

// `if args.finetune: finetune(config) else: pretrain(config)`: each is a run of its own.
bool chooses_run(const Guard& guard) {
  const Statement* choice = guard.statement;
  return choice != nullptr && choice->kind == StatementKind::if_ && runs_steps(choice->body) &&
         runs_steps(choice->otherwise);
}

struct OpenKeywords {
  std::optional<std::unordered_set<std::string_view>> names;
};

// Keywords of the calls of modules that lead nowhere that is seen.
const std::unordered_set<std::string_view>& open_keywords(const SourceFacts& facts) {
  auto& known = facts.store().kept<OpenKeywords>().names;
  if (known) return *known;
  known.emplace();
  for (const Call* call : facts.calls("torch.nn.Module.__call__")) {
    if (call->target != nullptr) continue;
    for (const Argument& argument : call->arguments) {
      if (!argument.unpacked && !argument.name.empty()) known->insert(argument.name);
    }
  }
  return *known;
}

// `if stage == 1:` in a forward with no caller, where `self.model(x, stage=self.stage)` may call
// it: its default says nothing.
bool asks_for_open_keyword(const SourceFacts& facts, const Expr* asked) {
  const bool is_number = asked != nullptr && asked->kind == ExprKind::comparison &&
                         asked->children().size() == 2 &&
                         asked->children()[1]->kind == ExprKind::integer;
  if (!is_number) return false;  // a text picks one of several ways
  asked = asked->children()[0];
  const bool is_name = asked->kind == ExprKind::name && asked->binding() == nullptr;
  const FunctionDef* function = is_name ? asked->statement->function : nullptr;
  const bool is_forward = function != nullptr && function->name == "forward" &&
                          function->class_def != nullptr && function->class_def->is_module &&
                          function->callers.empty();
  if (!is_forward) return false;
  const auto& parameters = function->parameters;
  return std::ranges::find(parameters, asked->word(), &Parameter::name) != parameters.end() &&
         open_keywords(facts).contains(asked->word());
}

// A condition on options that does not hold by default, and that is no choice between runs.
bool contradicts_default(const SourceFacts& facts, const Guard& guard, const Call* by) {
  if (guard.kind != GuardKind::condition && guard.kind != GuardKind::option) return false;
  const std::optional<bool> truth = default_truth(facts, guard.expr, by);
  return truth && *truth == guard.negated && !is_choice_of_run(facts, guard) &&
         !asks_for_open_keyword(facts, guard.expr);
}

// Of programs that no default run trains with: the conditions on the way to training.
struct TrainingConditions {
  std::unordered_map<const Program*, std::unordered_set<const Expr*>> by_program;
};

// The conditions outside of the training loops of a program, where each way to each of them has one
// that is shut by default.
std::unordered_set<const Expr*> conditions_of_training(const SourceFacts& facts,
                                                       const Program& program) {
  std::unordered_set<const Expr*> conditions;
  for (const Loop* loop : program.training_loops) {
    const bool is_open = leads_there(facts, *loop->statement, [&](const Guard& guard) {
      return contradicts_default(facts, guard, nullptr);
    });
    if (is_open) return {};
    for (const Guard& guard : guards_on_ways(facts, *loop->statement)) {
      if (guard.expr != nullptr && !guard.negated) conditions.insert(guard.expr);
    }
  }
  return conditions;
}

// `if targets is not None:` in a function that no call leads to, or that gets `**batch`: who trains
// passes them.
bool asks_for_targets(const Guard& guard, const Call* by) {
  const Expr* asked = guard.expr;
  const bool compares = asked != nullptr && asked->kind == ExprKind::comparison &&
                        asked->children().size() == 2 && asked->word().starts_with("is") &&
                        asked->children()[1]->kind == ExprKind::none;
  if (!compares || (asked->word() == "is") != guard.negated) return false;
  const Expr& name = *asked->children()[0];
  const FunctionDef* function = asked->statement->function;
  const bool is_given = name.kind == ExprKind::name && name.binding() == nullptr &&
                        function != nullptr &&
                        contains_any(name.word(), {"target", "label", "gt_", "annotation"});
  const bool is_seen = by != nullptr && by->target == function &&
                       (!by->unknown_arguments || passed_argument(*by, *function, name.word()));
  return is_given && !is_seen;
}

// `mask = lengths > 0`, torch.ones(n), x.to(device): a tensor, and never None.
bool is_surely_made(const Expr& given) {
  if (!given.type->is(TypeKind::tensor) || given.type->guessed) return false;
  const Expr* made = resolved(&given);
  if (made->kind == ExprKind::binary || made->kind == ExprKind::comparison) return true;
  return made->call() != nullptr && made->call()->target == nullptr &&
         made->call()->name.starts_with("torch.");
}

bool asks_for_none(const Expr& expr) {
  return expr.kind == ExprKind::comparison && expr.children().size() == 2 &&
         expr.children()[1]->kind == ExprKind::none &&
         is_one_of(expr.word(), {"is", "is not", "==", "!="});
}

// What the call gives for a parameter of the function that the name stands in; null for others.
const Expr* given_by(const Call& by, const Expr& name) {
  const FunctionDef* function = name.statement->function;
  if (function == nullptr || name.kind != ExprKind::name || name.binding() != nullptr ||
      by.target != function) {
    return nullptr;
  }
  const Argument* given = passed_argument(by, *function, name.word());
  return given == nullptr ? nullptr : given->value;
}

// `SummaryWriter(folder)`, or an own function that makes one in a run with all defaults.
bool makes_writer(const SourceFacts& facts, const Call& call) {
  if (call.method.ends_with("SummaryWriter")) return true;
  return call.target != nullptr && std::ranges::any_of(call.target->calls, [&](const Call* inner) {
           return inner->method.ends_with("SummaryWriter") &&
                  leads_there(facts, *inner, [&](const Guard& guard) {
                    return contradicts_default(facts, guard, nullptr);
                  });
         });
}

// `if writer:` and `if writer is not None:` of one that is made before the loop.
bool is_made_writer(const SourceFacts& facts, const Call& by, const Expr& given) {
  const Statement* binding = given.kind == ExprKind::name ? given.binding() : nullptr;
  const Call* made =
      binding == nullptr || binding->value == nullptr ? nullptr : binding->value->call();
  const Statement* loop = loop_around(by.statement);
  const bool is_before = made != nullptr && (loop == nullptr || !is_within(*binding, *loop));
  return is_before && makes_writer(facts, *made);
}

bool uses_parameter(const Expr& condition, const FunctionDef& function) {
  return std::ranges::any_of(function.parameters, [&](const Parameter& each) {
    return each.name != "self" && uses_variable(&condition, each.name);
  });
}

}  // namespace

std::optional<bool> holds_when_called(const SourceFacts& facts, const Call& by,
                                      const Guard& guard) {
  const bool is_condition = guard.kind == GuardKind::condition || guard.kind == GuardKind::option ||
                            guard.kind == GuardKind::training || guard.kind == GuardKind::once;
  if (!is_condition || guard.expr == nullptr || by.target == nullptr) return std::nullopt;
  const script::KnownValue here = script::known_value(facts, *guard.expr, &by);
  const script::KnownValue anywhere = script::known_value(facts, *guard.expr, nullptr);
  const bool is_by_call =
      here.truth() && !here.is_configurable() &&
      (!anywhere.truth() || anywhere.is_configurable() || uses_parameter(*guard.expr, *by.target));
  if (is_by_call) return here.truth();
  const Expr& expr = *guard.expr;
  const Expr* given = asks_for_none(expr) ? given_by(by, *expr.children()[0]) : nullptr;
  if (given == nullptr || !is_surely_made(*given)) return std::nullopt;
  return expr.word() == "is not" || expr.word() == "!=";
}

std::optional<bool> left_as_it_is(const Call& by, const Expr& name) {
  const FunctionDef* function = name.statement->function;
  const bool may_be = function != nullptr && by.target == function && by.unknown_arguments &&
                      name.kind == ExprKind::name && name.binding() == nullptr &&
                      passed_argument(by, *function, name.word()) == nullptr;
  if (!may_be) return std::nullopt;
  const auto& parameters = function->parameters;
  const auto found = std::ranges::find(parameters, name.word(), &Parameter::name);
  const Expr* usual = found == parameters.end() ? nullptr : found->default_value;
  const bool is_switch = usual != nullptr && usual->kind == ExprKind::boolean;
  return is_switch ? std::optional(usual->word() == "True") : std::nullopt;
}

bool is_setting_of_caller(const SourceFacts& facts, const Call& by, const Guard& guard) {
  if (guard.kind != GuardKind::condition || guard.expr == nullptr) return false;
  const Expr& asked = *guard.expr;
  const bool compares = asked.kind == ExprKind::comparison && asked.children().size() == 2;
  const bool asks_kind = compares && is_one_of(asked.word(), {"==", "!="}) &&
                         asked.children()[1]->kind == ExprKind::text;
  const bool asks_given = compares && asked.word() == "is not" && asks_for_none(asked);
  const Expr* given = given_by(by, compares ? *asked.children()[0] : asked);
  if (given == nullptr || (compares && !asks_kind && !asks_given)) return false;
  if (!asks_kind && is_made_writer(facts, by, *given)) return true;
  if (asks_given || given->kind != ExprKind::attribute) return false;
  const Expr* root = given;
  while (root->kind == ExprKind::attribute) root = root->children()[0];
  return !given->type->is(TypeKind::tensor) &&
         is_one_of(root->word(), {"self", "args", "opt", "opts", "config", "cfg", "hparams"});
}

bool leads_to_only_training(const SourceFacts& facts, const Guard& guard) {
  if (guard.negated || guard.statement == nullptr) return false;
  const auto programs = facts.programs_of(*guard.statement->file);
  return std::ranges::any_of(programs, [&](const Program* program) {
    if (program->entry != guard.statement->file || !program->trains_on_gpu) return false;
    auto& known = facts.store().kept<TrainingConditions>().by_program;
    const auto [entry, is_new] = known.try_emplace(program);
    if (is_new) entry->second = conditions_of_training(facts, *program);
    return entry->second.contains(guard.expr);
  });
}

bool is_choice_of_run(const SourceFacts& facts, const Guard& guard) {
  return is_other_run(facts, guard) || is_chosen_run(guard) || chooses_run(guard);
}

bool is_known_by_default(const SourceFacts& facts, const Guard& guard) {
  return truth_on_gpu(guard.expr) || default_truth(facts, guard.expr, nullptr) ||
         leads_to_only_training(facts, guard);
}

bool is_other_by_default(const SourceFacts& facts, const Guard& guard) {
  return default_truth(facts, guard.expr, nullptr) == guard.negated &&
         !leads_to_only_training(facts, guard);
}

bool is_shut_by_default(const SourceFacts& facts, const Guard& guard, const Call* by) {
  if (guard.kind == GuardKind::never) return !guard.negated;
  if (truth_on_gpu(guard.expr) == guard.negated) return true;
  if (guard.kind == GuardKind::debug && !guard.negated) {
    return default_truth(facts, guard.expr, by) != true;
  }
  return contradicts_default(facts, guard, by) && !leads_to_only_training(facts, guard) &&
         !asks_for_targets(guard, by);
}

}  // namespace rooftile::source
