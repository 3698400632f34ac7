#include "rooftile/analysis/source/head_training.h"

#include <algorithm>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/size_search.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {
namespace {

constexpr int kMaxClasses = 3;  // modules inside of each other

// `for name, p in model.named_parameters(): if name not in ["fc.weight", "fc.bias"]:
// p.requires_grad = False`.
bool freezes_all_but_head(const Statement& statement) {
  const Statement* test = freezes_parameter(statement) ? statement.parent : nullptr;
  const Statement* loop = test == nullptr ? nullptr : test->parent;
  const bool is_chosen = loop != nullptr && test->kind == StatementKind::if_ &&
                         loop->kind == StatementKind::for_ && test->value->word() == "not in";
  if (!is_chosen) return false;
  const std::string_view tested = statement.file->slice(test->value->range);
  const std::string_view listed = statement.file->slice(loop->value->range);
  return contains_any(tested, {"fc", "head", "classifier", "linear"}) &&
         contains_any(listed, {"named_parameters"});
}

bool is_large_kind(const Call& call) {
  return is_convolution(call) || is_recurrent_layer(call) ||
         is_one_of(call.method, {"Parameter", "from_pretrained"}) ||
         contains_any(call.name, {"torch.nn.Transformer", "torch.nn.MultiheadAttention",
                                  "torch.hub.", "torchvision.", "timm.", "transformers."});
}

// `conv3x3(3, 64)` of a function that makes a convolution, and `block(64, 64)` of a class that is
// passed in, but for its norm or activation.
bool makes_more_than_head(const Call& call) {
  const FunctionDef* helper = call.target;
  const bool is_helper = helper != nullptr && helper->class_def == nullptr;
  if (is_helper && std::ranges::any_of(helper->calls, [](auto* c) { return is_large_kind(*c); })) {
    return true;
  }
  const Expr* callee = call.expr->children().front();
  if (helper != nullptr || callee->kind != ExprKind::name) return false;
  if (callee->binding() != nullptr || call.function == nullptr) return false;
  return !contains_any(callee->word(), {"norm", "act"}) &&
         std::ranges::find(call.function->parameters, callee->word(), &Parameter::name) !=
             call.function->parameters.end();
}

// Counts the Linear layers that the class makes; more than a head has where others are made too.
int linear_layers(const ClassDef& def, int depth) {
  constexpr int kMany = 100;
  if (depth > kMaxClasses) return kMany;
  int count = 0;
  for (const FunctionDef* method : def.methods) {
    for (const Call* call : method->calls) {
      if (is_large_kind(*call) || makes_more_than_head(*call)) return kMany;
      count += call->name == "torch.nn.Linear";
      const ClassDef* inner = call->expr->type->class_def;
      const bool makes = inner != nullptr && inner != &def && inner->is_module &&
                         call->expr->type->made_by == call;
      if (makes) count += linear_layers(*inner, depth + 1);
    }
  }
  return count;
}

// `self.base = base`, then `self.base(x)`: a backbone that is passed in, whatever it is.
bool calls_what_it_gets(const ClassDef& def) {
  const FunctionDef* init = def.method("__init__");
  const FunctionDef* forward = def.method("forward");
  if (init == nullptr || forward == nullptr) return false;
  return std::ranges::any_of(forward->calls, [&](const Call* call) {
    const Expr* callee = call->expr->children().front();
    const bool is_own = call->target == nullptr && callee->kind == ExprKind::attribute &&
                        callee->children().front()->word() == "self";
    return is_own && std::ranges::any_of(init->body, [&](const Statement* statement) {
             const Expr* value = statement->value;
             return statement->kind == StatementKind::assignment &&
                    last_name(statement->target) == callee->word() && value != nullptr &&
                    value->kind == ExprKind::name &&
                    std::ranges::find(init->parameters, value->word(), &Parameter::name) !=
                        init->parameters.end();
           });
  });
}

// A backbone that is passed in belongs to the class.
bool holds_other_modules(const Call& made_by) {
  return std::ranges::any_of(made_by.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::module);
  });
}

// One linear layer, with pooling, a norm or an activation.
bool is_head(const Type& type) {
  if (type.class_def != nullptr && type.class_def->is_module) {
    const bool is_alone = type.made_by != nullptr && !holds_other_modules(*type.made_by);
    return is_alone && !calls_what_it_gets(*type.class_def) &&
           linear_layers(*type.class_def, 0) == 1;
  }
  return type.made_by != nullptr && type.made_by->name == "torch.nn.Linear";
}

bool is_called_a_head(std::string_view name) {
  const std::string lowered = lower(name);
  return is_one_of(lowered, {"classifier", "linear", "linear_classifier", "reglog", "head", "probe",
                             "linear_head", "linear_probe", "lin_cls", "logreg", "cls_head"});
}

}  // namespace

std::vector<const Expr*> optimized_modules(const Call& optimizer) {
  const Argument* parameters = optimizer.argument("params", 0);
  if (parameters == nullptr) return {};
  std::vector<const Expr*> modules;
  visit(resolved(parameters->value), [&](const Expr& part) {
    const Call* call = part.call();
    if (call != nullptr && call->receiver != nullptr && call->method == "parameters") {
      modules.push_back(call->receiver);
    }
    return true;
  });
  return modules;
}

namespace {

// model(x), and `model.module.forward_through_n_layers(x, 5)`.
bool runs_network(const Call& call) {
  const bool is_method =
      call.receiver != nullptr && contains_any(call.method, {"forward", "encode", "feature"});
  return is_method || call.name == "torch.nn.Module.__call__";
}

// The optimizers that step in the loops that the program gets to; empty where one is not known.
std::vector<const Call*> optimizers_in_reach(const Program& program) {
  std::vector<const Call*> optimizers;
  for (const Loop* loop : training_loops_in_reach(program)) {
    const Expr* stepped =
        loop->optimizer_step == nullptr ? nullptr : loop->optimizer_step->receiver;
    const Call* made = stepped == nullptr ? nullptr : stepped->type->made_by;
    if (made == nullptr || !stepped->type->is(TypeKind::optimizer)) return {};
    optimizers.push_back(made);
  }
  return optimizers;
}

// Whether the training loops run some module without gradients: it gives features.
bool takes_features(const SourceFacts& facts, const Program& program) {
  return std::ranges::any_of(program.training_loops, [&](const Loop* loop) {
    const std::vector<const Call*> calls = calls_inside(*loop->statement);
    return std::ranges::any_of(calls, [&](const Call* call) {
      if (!runs_network(*call)) return false;
      return without_gradients(facts, *call);
    });
  });
}

bool freezes_something(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return mentions(*file, {"requires_grad"}) &&
           std::ranges::any_of(file->statements, [](const Statement* statement) {
             return freezes_parameter(*statement);
           });
  });
}

// A head is all that the optimizers hold, by its layers or, of a network that is not seen, by its
// name, and something gives it features.
bool optimizes_head_only(const SourceFacts& facts, const Program& program) {
  auto optimizers = optimizers_in_reach(program);
  if (optimizers.empty()) optimizers = constructions_in(facts, program, TypeKind::optimizer);
  const auto is_one = [](const Expr* module) {
    const Type& type = *module->type;
    return is_head(type) || (type.class_def == nullptr && is_called_a_head(last_name(module)));
  };
  const bool are_heads = std::ranges::all_of(optimizers, [&](const Call* optimizer) {
    const auto modules = optimized_modules(*optimizer);
    return !modules.empty() && std::ranges::all_of(modules, is_one);
  });
  return !optimizers.empty() && are_heads &&
         (takes_features(facts, program) || freezes_something(program));
}

// The only layer with a matrix of `model = nn.Linear(width, classes)`, made in place, also as
// `nn.Sequential(nn.Dropout(), nn.Linear(width, classes))`.
bool is_bare_linear(const Type& type) {
  const Call* made = type.class_def == nullptr ? type.made_by : nullptr;
  if (made == nullptr || made->name == "torch.nn.Linear") return made != nullptr;
  if (made->name != "torch.nn.Sequential") return false;
  int linear = 0;
  for (const Argument& argument : made->arguments) {
    const Call* layer = argument.unpacked ? nullptr : argument.value->call();
    const bool is_plain = layer != nullptr && layer->name.starts_with("torch.nn.");
    if (!is_plain || is_large_kind(*layer)) return false;
    linear += layer->name == "torch.nn.Linear";
  }
  return linear == 1;
}

}  // namespace

bool is_optimizer_of_tensors(const Call& optimizer) {
  const Argument* given = optimizer.argument("params", 0);
  const Expr* list = given == nullptr ? nullptr : resolved(given->value);
  // [latent] + noises
  while (list != nullptr && list->kind == ExprKind::binary && list->word() == "+") {
    const Expr* right = list->children()[1];
    list = right->kind == ExprKind::list ? right : list->children()[0];
  }
  return list != nullptr && list->kind == ExprKind::list && !list->children().empty() &&
         std::ranges::all_of(list->children(),
                             [](const Expr* part) { return part->kind == ExprKind::name; });
}

bool trains_tensors_only(const Program& program) {
  const auto optimizers = optimizers_in_reach(program);
  return !optimizers.empty() && std::ranges::all_of(optimizers, [](const Call* optimizer) {
    return is_optimizer_of_tensors(*optimizer);
  });
}

bool runs_linear_layers_only(const SourceFacts& facts, const Program& program) {
  const auto loops = training_loops_in_reach(program);
  bool has_one = false;
  for (const Loop* loop : loops) {
    for (const IteratedCall& one : iteration_of(facts, loop->statement->body).calls) {
      const Call& call = *one.call;
      if (!runs_network(call)) continue;
      const Type& type = call.name == "torch.nn.Module.__call__"
                             ? *call.expr->children().front()->type
                             : call.receiver_type();
      const bool is_loss = type.is(TypeKind::loss);
      if (!is_loss && !is_bare_linear(type)) return false;
      has_one = has_one || !is_loss;
    }
  }
  return has_one;
}

bool trains_head_only(const SourceFacts& facts, const Program& program) {
  const bool by_name = std::ranges::any_of(program.files, [](const File* file) {
    return mentions(*file, {"requires_grad"}) &&
           std::ranges::any_of(file->statements, [](const Statement* statement) {
             return freezes_all_but_head(*statement);
           });
  });
  return by_name || optimizes_head_only(facts, program);
}

}  // namespace rooftile::source
