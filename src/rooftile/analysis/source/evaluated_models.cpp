#include "rooftile/analysis/source/evaluated_models.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// nn.Softmax, nn.Upsample, nn.MaxPool2d, …: layers of the library that hold nothing.
bool is_plain_function(std::string_view name) {
  if (starts_with_any(name, {"torchvision.transforms.", "torchaudio.transforms.",
                             "kornia.augmentation.", "kornia.enhance."})) {
    return true;
  }
  if (!name.starts_with("torch.nn.")) return false;
  name.remove_prefix(name.rfind('.') + 1);
  if (contains_any(name, {"Pool", "Dropout", "Pad", "Upsampl", "Shuffle", "Softm", "Sigmoid"})) {
    return true;
  }
  return is_one_of(name, {"ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Tanh",
                          "Hardtanh", "Hardswish", "Softplus", "Flatten", "Unflatten", "Fold",
                          "Unfold", "Identity", "CosineSimilarity", "PairwiseDistance"});
}

// What the constructor gets for the parameter, as it is written; null where that is not seen.
const Expr* given_to(const Type& type, const FunctionDef& init, const Expr& name) {
  const auto found = std::ranges::find(init.parameters, name.word(), &Parameter::name);
  if (found == init.parameters.end()) return &name;
  if (type.made_by == nullptr) return found->default_value;
  const Argument* given = passed_argument(*type.made_by, init, name.word());
  if (given != nullptr) return given->value;
  return type.made_by->unknown_arguments ? nullptr : found->default_value;
}

// A function of the project that makes no layer: `self.grid = frequencies(size)`.
bool makes_no_layers(const Call& call) {
  const FunctionDef* function = call.target;
  if (function == nullptr || function->class_def != nullptr || function->name == "__init__") {
    return false;
  }
  return !any_call_below(*function, 2, [](const Call& inner) {
    return inner.name.starts_with("torch.nn.") || inner.method == "Parameter" ||
           inner.expr->type->is(TypeKind::module) ||
           (inner.target != nullptr && inner.target->name == "__init__");
  });
}

// cfg["model"]["size"], args.width
bool is_from_settings(const Expr& value) {
  const Expr* root = &value;
  while (root->kind == ExprKind::subscript || root->kind == ExprKind::attribute) {
    root = root->children().front();
  }
  return root != &value && root->kind == ExprKind::name &&
         is_one_of(root->word(), {"cfg", "config", "args", "opt", "hparams"});
}

// Numbers, texts, tensors and lists of them.
bool is_plain_value(const Expr* value, int depth = 0) {
  constexpr int kMaxNestedLists = 3;
  if (value == nullptr || depth > kMaxNestedLists) return false;
  const bool is_list = value->kind == ExprKind::tuple || value->kind == ExprKind::list;
  if (is_list && !value->children().empty()) {
    return std::ranges::all_of(value->children(),
                               [&](auto* item) { return is_plain_value(item, depth + 1); });
  }
  if (value->kind == ExprKind::none || value->kind == ExprKind::boolean) return true;
  const TypeKind kind = value->type->kind;
  if (kind == TypeKind::number || kind == TypeKind::text || kind == TypeKind::array ||
      kind == TypeKind::tensor) {
    return true;
  }
  return kind == TypeKind::unknown &&
         (is_from_settings(*value) ||
          (value->call() != nullptr && makes_no_layers(*value->call())));
}

bool may_hold_weights(const Type& type, const FunctionDef& init, const Statement& statement) {
  const Expr* value = statement.value;
  if (value != nullptr && value->call() != nullptr) {
    const std::string_view method = value->call()->method;
    if (is_one_of(method, {"Parameter", "register_parameter", "add_module"})) return true;
  }
  if (statement.kind != StatementKind::assignment || value == nullptr) return false;
  const Expr* target = statement.target;
  // `self.net, self.transform = load(name)`
  if (target->kind == ExprKind::tuple && !target->children().empty())
    target = target->children()[0];
  if (target->kind != ExprKind::attribute) return false;
  const bool is_parameter = value->kind == ExprKind::name && value->binding() == nullptr;
  return !is_plain_value(value) && !(is_parameter && is_plain_value(given_to(type, init, *value)));
}

// `self.parameters()`
bool lists_own_weights(const Expr& expr) {
  const Call* call = expr.call();
  return call != nullptr && is_one_of(call->method, {"parameters", "named_parameters"}) &&
         last_name(call->receiver) == "self";
}

// What the statement sets requires_grad to: `p.requires_grad = x`, `p.requires_grad_(x)`.
const Expr* set_gradient(const Statement& statement) {
  if (statement.kind == StatementKind::assignment &&
      last_name(statement.target) == "requires_grad") {
    return statement.value;
  }
  const Call* call = statement.value == nullptr ? nullptr : statement.value->call();
  const bool is_switch = call != nullptr && call->method == "requires_grad_";
  return is_switch && !call->arguments.empty() ? call->arguments.front().value : nullptr;
}

bool is_penalty(const FunctionDef& function) {
  const std::string name = lower(function.name);
  const std::string owner = function.class_def == nullptr ? "" : lower(function.class_def->name);
  return contains_any(name, {"penalt", "loss", "regular"}) ||
         contains_any(owner, {"penalt", "loss", "criterion", "discriminator", "critic"});
}

bool takes_gradients(const FunctionDef& function) {
  return !is_penalty(function) && std::ranges::any_of(function.calls, [](const Call* call) {
    return is_one_of(call->name, {"torch.autograd.grad", "torch.func.grad",
                                  "torch.autograd.functional.jacobian"});
  });
}

}  // namespace

bool has_no_weights(const Type& type) {
  const ClassDef* def = type.class_def;
  if (def == nullptr) {
    return is_plain_function(type.made_by != nullptr ? type.made_by->name : type.name);
  }
  const FunctionDef* init = def->method("__init__");
  if (init == nullptr || !def->layers.empty()) return false;
  const bool is_plain = std::all_of(def->bases.begin(), def->bases.end(), [](const Expr* base) {
    return base->full_name() == "torch.nn.Module";
  });
  const bool holds = any_statement(init->body, [&](const Statement& statement) {
    return may_hold_weights(type, *init, statement);
  });
  return is_plain && !holds;
}

bool freezes_itself(const Type& type) {
  const FunctionDef* init =
      type.class_def == nullptr ? nullptr : type.class_def->method("__init__");
  if (init == nullptr) return false;
  return any_statement(init->body, [&](const Statement& statement) {
    const Expr* set = set_gradient(statement);
    if (set == nullptr) return false;
    const Call* call = statement.value->call();
    const bool is_whole = call != nullptr && last_name(call->receiver) == "self";
    const Statement* loop = statement.parent;
    const bool is_each = loop->kind == StatementKind::for_ && lists_own_weights(*loop->value);
    const Expr* given = is_whole || is_each ? given_to(type, *init, *set) : nullptr;
    return given != nullptr && given->word() == "False";
  });
}

bool takes_gradients_inside(const SourceFacts& facts, const Type& model, const File& file) {
  if (model.class_def != nullptr) {
    const FunctionDef* forward = model.class_def->method("forward");
    bool takes = false;
    if (forward == nullptr) return false;
    for_functions_below(*forward, kMaxCallDepth, [&](const FunctionDef& one) {
      takes = takes || takes_gradients(one);
      return !takes;
    });
    if (takes) return true;
  }
  for (const Program* program : facts.programs_of(file)) {
    for (const File* each : program->files) {
      const bool is_own = model.class_def == nullptr || each == model.class_def->file;
      if (!is_own || !contains(each->text, "autograd")) continue;
      const bool takes = std::ranges::any_of(each->classes, [](const ClassDef* def) {
        return def->is_module && std::ranges::any_of(def->methods, [](const FunctionDef* method) {
                 return takes_gradients(*method);
               });
      });
      if (takes) return true;
    }
  }
  return false;
}

}  // namespace rooftile::source
