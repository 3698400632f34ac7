#include "rooftile/analysis/source/untrained_models.h"

#include <algorithm>

#include "rooftile/analysis/source/evaluated_models.h"
#include "rooftile/analysis/source/gradient_switches.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/model_uses.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile::source {
namespace {

// A file for evaluation by its name, with no training in it.
bool is_evaluation_file(const File& file) {
  const std::size_t slash = file.path.rfind('/');
  const std::string name = lower(file.path.substr(slash == std::string::npos ? 0 : slash + 1));
  return !mentions(file, {"backward"}) && !contains(name, "train") &&
         contains_any(name, {"eval", "test", "predict", "infer", "demo"});
}

// class Tester: …
bool is_evaluator(const ClassDef* def) {
  return def != nullptr && !def->is_module && !contains(def->name, "Train") &&
         contains_any(def->name, {"Tester", "Evaluator", "Predictor", "Inferenc", "Validator"});
}

bool is_pure_evaluator(const ClassDef* def) {
  return is_evaluator(def) && std::ranges::none_of(def->methods, [](const FunctionDef* method) {
           return std::ranges::any_of(method->calls, [](const Call* call) {
             return is_one_of(call->method, {"backward", "step", "zero_grad", "train"});
           });
         });
}

// def eval(self): model = nn.DataParallel(self.model); …
bool is_evaluator_copy(const Call& call) {
  if (call.function == nullptr || call.statement == nullptr) return false;
  const Expr* target = call.statement->target;
  const std::string_view name = call.function->name;
  const bool is_named =
      is_one_of(name, {"eval", "evaluate", "test", "validate", "predict", "infer", "inference",
                       "sample", "generate"}) ||
      (contains_any(name, {"evaluator", "inference", "evaluation"}) && !contains(name, "train")) ||
      is_evaluator(call.function->class_def) || is_evaluation_file(*call.file);
  if (!is_named || target == nullptr) return false;
  // self.model stays wrapped for whoever comes next, but for that of a class that only evaluates.
  return target->kind == ExprKind::name || is_pure_evaluator(call.function->class_def);
}

// `if args.do_test: model = nn.DataParallel(model)`
bool is_for_testing(const SourceFacts& facts, const Call& call) {
  return !leads_there(facts, call, [](const Guard& guard) {
    return !guard.negated && guard.expr != nullptr &&
           is_one_of(last_name(guard.expr), {"do_test", "do_eval", "do_predict", "do_inference",
                                             "test_only", "eval_only", "evaluate", "inference"});
  });
}

// A network whose forward runs under no_grad from end to end: nobody trains it.
bool never_records(const Type& type) {
  const FunctionDef* forward =
      type.class_def == nullptr ? nullptr : type.class_def->method("forward");
  if (forward == nullptr || forward->body.empty()) return false;
  if (std::ranges::any_of(forward->decorators, is_gradient_switch)) return true;
  return std::ranges::all_of(forward->body, [](const Statement* statement) {
    const bool is_text = statement->kind == StatementKind::expression;
    return is_text || (statement->kind == StatementKind::with_ && !statement->items.empty() &&
                       is_gradient_switch(statement->items.front().context));
  });
}

// `model = DataParallel(model)`, weights loaded, `model = model.module`: what runs is not wrapped.
bool is_unwrapped_again(const Call& call) {
  const Statement* wrap = call.statement;
  if (wrap == nullptr || wrap->target == nullptr || wrap->target->kind != ExprKind::name) {
    return false;
  }
  return std::ranges::any_of(after(*wrap), [&](const Statement* each) {
    const bool rebinds = each->kind == StatementKind::assignment && each->word == "=" &&
                         each->target != nullptr && each->target->kind == ExprKind::name &&
                         each->target->word() == wrap->target->word() && each->value != nullptr;
    const Expr* value = rebinds ? each->value : nullptr;
    while (value != nullptr && value->call() != nullptr) value = value->call()->receiver;
    return value != nullptr && value->kind == ExprKind::attribute && value->word() == "module" &&
           last_name(value->children()[0]) == wrap->target->word();
  });
}

// A class of the project whose calls, of which there are some, all run with gradients off.
bool only_evaluates(const SourceFacts& facts, const Type& type) {
  if (type.class_def == nullptr) return false;
  bool is_called = false;
  for (const Call* call : facts.calls("torch.nn.Module.__call__")) {
    if (call->expr->children().empty() || call->statement == nullptr) continue;
    if (call->expr->children()[0]->type->class_def != type.class_def) continue;
    is_called = true;
    if (!without_gradients(facts, *call)) return false;
  }
  return is_called;
}

// nn.DataParallel(model).to(device).eval()
bool is_switched_in_place(const Call& call) {
  bool evaluates = false;
  const Expr* outer = call.expr->parent;
  while (outer != nullptr && (outer->kind == ExprKind::attribute || outer->call() != nullptr)) {
    if (outer->kind == ExprKind::attribute && outer->word() == "train") return false;
    evaluates = evaluates || (outer->kind == ExprKind::attribute && outer->word() == "eval");
    outer = outer->parent;
  }
  return evaluates;
}

bool leads_to_training(const FunctionDef* function, const Trainers& trainers) {
  if (function == nullptr) return false;
  bool found = false;
  for_functions_below(*function, kMaxCallDepth, [&](const FunctionDef& one) {
    found = found || trainers.contains(&one);
    return !found;
  });
  return found;
}

bool trains_in(const Statement& statement, const Trainers& trainers) {
  const auto calls = calls_inside(statement);
  const bool has_backward =
      std::ranges::any_of(calls, [](const Call* call) { return call->method == "backward"; });
  return has_backward || std::ranges::any_of(calls, [&](const Call* call) {
           return leads_to_training(call->target, trainers);
         });
}

// `model = nn.DataParallel(best)` behind the loops that train, in front of the test.
bool is_behind_training(const Call& call, const Trainers& trainers) {
  const Statement* wrap = call.statement;
  const bool is_plain = wrap != nullptr && wrap->target != nullptr &&
                        wrap->kind == StatementKind::assignment &&
                        wrap->target->kind == ExprKind::name;
  if (!is_plain) return false;
  bool is_behind = false;
  for (const Statement* at = wrap; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function) break;
    if (at->loop != nullptr) return false;  // it goes round
    const auto trains = [&](const Statement* each) { return trains_in(*each, trainers); };
    if (std::ranges::any_of(after(*at), trains)) return false;
    is_behind = is_behind || std::ranges::any_of(before(*at), trains);
  }
  return is_behind;
}

bool returns_name(const FunctionDef& function, std::string_view name) {
  bool returns = false;
  for_statements(function.body, [&](const Statement& statement) {
    returns = returns ||
              (statement.kind == StatementKind::return_ && uses_variable(statement.value, name));
  });
  return returns;
}

// `metric = nn.DataParallel(metric); metric.eval()` in a function that does not train, of a name
// that nothing switches back: in its class, and anywhere where it is returned.
bool is_switched_behind(const SourceFacts& facts, const Call& call, const Trainers& trainers) {
  const Statement* wrap = call.statement;
  if (wrap == nullptr || wrap->target == nullptr || call.function == nullptr) return false;
  const std::string_view name = last_name(wrap->target);
  const auto is_of_it = [&](const Call* each) {
    return each->receiver != nullptr && last_name(each->receiver) == name;
  };
  const bool evaluates = std::ranges::any_of(call.function->calls, [&](const Call* each) {
    return each->method == "eval" && each->open_paren > call.open_paren && is_of_it(each);
  });
  if (!evaluates || name.empty() || leads_to_training(call.function, trainers)) return false;
  const ClassDef* owner = call.function->class_def;
  const bool is_open = wrap->target->kind != ExprKind::name || returns_name(*call.function, name);
  const auto may_train = [&](const Call* each) {
    const ClassDef* place = each->function == nullptr ? nullptr : each->function->class_def;
    const bool is_near =
        each->function == call.function || (owner != nullptr && place == owner) || is_open;
    return is_near && is_of_it(each);
  };
  for (const std::string_view method : {"train", "parameters", "named_parameters"}) {
    if (std::ranges::any_of(facts.method_calls(method), may_train)) return false;
  }
  return true;
}

// def initialize(self, …, is_train=False): a network whose makers do not ask to train it.
bool is_made_for_evaluation(const Call& call) {
  const FunctionDef* function = call.function;
  if (function == nullptr) return false;
  const auto says = [](const Parameter& parameter) {
    return is_one_of(parameter.name, {"is_train", "isTrain", "is_training", "train_mode"}) &&
           parameter.default_value != nullptr && parameter.default_value->word() == "False";
  };
  const auto found = std::ranges::find_if(function->parameters, says);
  if (found == function->parameters.end()) return false;
  return std::ranges::none_of(function->callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, *function, found->name);
    return caller->unknown_arguments || (given != nullptr && given->value->word() != "False");
  });
}

// model_test, ema_model, net_copy: a second copy beside the one that is trained.
bool is_copy(const Call& call, const Expr& model) {
  const auto says = [](std::string_view name) {
    std::size_t begin = 0;
    while (begin < name.size()) {
      const std::size_t end = std::min(name.find('_', begin), name.size());
      if (is_one_of(name.substr(begin, end - begin), {"test", "eval", "ema", "copy"})) return true;
      begin = end + 1;
    }
    return false;
  };
  // `image_transform`, which only resizes what it gets.
  const auto transforms = [](std::string_view name) {
    const std::string text = lower(name);
    return contains(text, "transform") && !contains(text, "transformer");
  };
  const Expr* target = call.statement == nullptr ? nullptr : call.statement->target;
  return says(last_name(&model)) || says(last_name(target)) || transforms(last_name(&model));
}

// `self.criterion = nn.NLLLoss(weight)` above: a loss of the library has nothing to train.
bool is_set_to_loss(const Call& wrap, const Expr& model) {
  if (wrap.function == nullptr || model.call() != nullptr) return false;
  const File& file = *wrap.file;
  bool is_loss = false, is_other = false;
  for_statements(wrap.function->body, [&](const Statement& statement) {
    const bool sets = statement.kind == StatementKind::assignment && &statement != wrap.statement &&
                      statement.target != nullptr && statement.value != nullptr &&
                      file.slice(statement.target->range) == file.slice(model.range);
    if (!sets) return;
    const Type& type = *statement.value->type;
    const std::string_view made = type.made_by == nullptr ? "" : type.made_by->name;
    const bool fits =
        made.starts_with("torch.nn.") && made.ends_with("Loss") && !made.ends_with("WithLoss");
    (fits ? is_loss : is_other) = true;
  });
  return is_loss && !is_other;
}

// `optimizer = Adam(net.parameters())` behind the wrapping, of the same variable.
bool gives_weights_to_optimizer(const Call& wrap) {
  const Expr* target = wrap.statement == nullptr ? nullptr : wrap.statement->target;
  if (target == nullptr || target->kind != ExprKind::name) return false;
  return std::ranges::any_of(wrap.file->calls, [&](const Call* call) {
    const bool makes = call->function == wrap.function && call->open_paren > wrap.open_paren &&
                       call->expr->type->is(TypeKind::optimizer);
    bool found = false;
    for (const Argument& argument : call->arguments) {
      if (!makes) break;
      visit(argument.value, [&](const Expr& part) {
        found = found ||
                (is_one_of(part.word(), {"parameters", "named_parameters"}) &&
                 part.kind == ExprKind::attribute && part.children()[0]->word() == target->word());
        return !found;
      });
    }
    return found;
  });
}

}  // namespace

Trainers training_functions(const SourceFacts& facts) {
  Trainers trainers;
  for (const Loop* loop : facts.loops(LoopRole::training_step)) {
    if (loop->function != nullptr) trainers.insert(loop->function);
  }
  return trainers;
}

bool is_untrained(const SourceFacts& facts, const Call& wrap, const Trainers& trainers) {
  const Expr& model = *wrap.arguments.front().value;
  const Type& type = *model.type;
  if (type.frozen || has_no_weights(type) || never_records(type)) return true;
  if (is_set_to_loss(wrap, model)) return true;
  if (is_copy(wrap, model) || is_unwrapped_again(wrap) || is_evaluator_copy(wrap)) return true;
  if (is_for_testing(facts, wrap) || is_switched_in_place(wrap)) return true;
  if (is_made_for_evaluation(wrap) || is_switched_behind(facts, wrap, trainers)) return true;
  const bool evaluates = only_evaluates(facts, type) && !gives_weights_to_optimizer(wrap);
  return is_behind_training(wrap, trainers) || evaluates || runs_without_gradients(facts, wrap) ||
         meets_no_optimizer(facts, wrap) || is_member_without_gradients(facts, wrap);
}

}  // namespace rooftile::source
