#include "rooftile/analysis/source/host_consumers.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// `for key, weight in model.state_dict().items(): state[key] = weight.cpu()`: weights are saved.
bool copies_weights(const HostRead& read) {
  if (read.call == nullptr || read.call->method != "cpu") return false;
  const Expr* iterable = nullptr;
  for (const Expr* outer = read.expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == ExprKind::comprehension) iterable = outer;
  }
  for (const Statement* outer = read.statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) break;
    if (outer->kind == StatementKind::for_ && iterable == nullptr) iterable = outer->value;
  }
  return any_inside(iterable, [&](const Expr& part) {
    const Expr* made = resolved(&part);
    return made->call() != nullptr && made->call()->method == "state_dict";
  });
}

// Says action, next_action, agentActions; neither interaction nor action_loss.
bool names_action(std::string_view name) {
  constexpr std::string_view kWord = "action";
  const std::string low = lower(name);
  for (std::size_t at = low.find(kWord); at != std::string::npos; at = low.find(kWord, at + 1)) {
    const bool is_inside =
        at > 0 && name[at] == 'a' && std::isalpha(static_cast<unsigned char>(low[at - 1])) != 0;
    const std::string_view rest = std::string_view(low).substr(at + kWord.size());
    if (!is_inside && !rest.starts_with("_loss") && !rest.starts_with("_value")) return true;
  }
  return false;
}

// Actions for an environment, or priorities for the memory of it.
bool is_for_environment(const Expr* expr, const Statement& statement) {
  const auto is_action = [](const Expr& part) { return names_action(last_name(&part)); };
  if (any_inside(expr, is_action) || any_inside(statement.target, is_action)) return true;
  for (const Expr* outer = expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->call() == nullptr) continue;
    const bool is_environment =
        outer->call()->method == "step" && contains(last_name(outer->call()->receiver), "env");
    if (is_environment || contains(outer->call()->method, "update_priorit")) return true;
  }
  return false;
}

// `def to_np(t): return t.cpu().numpy()` that also the actions go through.
bool serves_environment(const FunctionDef* function) {
  const bool is_helper = function != nullptr && function->class_def == nullptr &&
                         function->body.size() <= 2 && !function->parameters.empty();
  return is_helper && std::ranges::any_of(function->callers, [](const Call* caller) {
           return is_for_environment(caller->expr, *caller->statement);
         });
}

bool shares_variable(const Expr* condition, const Expr* read) {
  return any_inside(condition, [&](const Expr& part) {
    return part.kind == ExprKind::name && uses_variable(read, part.word());
  });
}

// A tensor, whichever branch ran before.
bool is_tensor_of_step(const Expr* value) {
  const Type& type = *value->type;
  if (value->kind == ExprKind::name && value->binding() == nullptr) return false;
  return is_gpu_value(value) ||
         (type.is(TypeKind::tensor) && !type.guessed && type.residence == Residence::unknown);
}

// `meters.update(loss=loss, **losses)`: what `**values` takes are losses, or a tensor of the step.
bool takes_losses(const SourceFacts& facts, const FunctionDef& function) {
  const bool takes_named =
      std::ranges::any_of(function.parameters, [](const Parameter& p) { return p.double_starred; });
  return takes_named && std::ranges::any_of(function.callers, [&](const Call* call) {
           return std::ranges::any_of(call->arguments, [&](const Argument& argument) {
             const std::string_view text = call->file->slice(argument.value->range);
             if (argument.unpacked) return text.starts_with("**") && contains(text, "loss");
             return is_tensor_of_step(argument.value) && is_in_step_loop(facts, *call);
           });
         });
}

// The name at the root of `x.detach().cpu()`; of a loop's variable, of what it goes through.
const Expr* root_of(const Expr* expr, int depth = 0) {
  while (expr->kind != ExprKind::name && !expr->children().empty()) {
    expr = expr->children().front();
  }
  const Statement* set = expr->binding();
  const bool is_item = set != nullptr && set->kind == StatementKind::for_ && depth < 2;
  return is_item ? root_of(set->value, depth + 1) : expr;
}

// A caller that runs on each step hands over a tensor of the GPU.
bool gets_tensor(const SourceFacts& facts, const FunctionDef& function, const Expr* read) {
  const Expr* root = root_of(read);
  if (root->kind != ExprKind::name || root->binding() != nullptr) return false;
  return std::ranges::any_of(function.callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, function, root->word());
    return given != nullptr && !given->value->type->guessed && is_gpu_value(given->value) &&
           is_hot(facts, *caller);
  });
}

// nn.Linear, an own module, or several in parentheses.
bool names_layers(const Expr& expr) {
  if (expr.kind == ExprKind::tuple) {
    return !expr.children().empty() && std::ranges::all_of(expr.children(), [](const Expr* each) {
      return names_layers(*each);
    });
  }
  const ClassDef* def = expr.type->class_def;
  if (expr.full_name().starts_with("torch.nn.")) return last_name(&expr) != "Parameter";
  return def != nullptr && def->is_module;
}

// isinstance(v, torch.Tensor), torch.is_tensor(v), hasattr(v, "item"); not isinstance(layer,
// nn.Linear).
bool asks_for_kind(const Expr* condition) {
  return any_inside(condition, [](const Expr& part) {
    const Call* call = part.call();
    if (call == nullptr) return false;
    if (call->method == "is_tensor") return true;
    if (call->arguments.size() != 2) return false;
    const Expr& kind = *call->arguments[1].value;
    if (call->method == "isinstance") return !names_layers(kind);
    return call->name == "hasattr" && is_one_of(kind.word(), {"item", "cpu", "detach", "numpy"});
  });
}

// A part of the project that is compiled (Cython, numba): an algorithm for the host.
bool is_compiled(const Call& call) {
  if (call.target != nullptr) {
    return std::ranges::any_of(call.target->decorators, [](const Expr* decorator) {
      const std::string_view name =
          decorator->call() != nullptr ? decorator->call()->name : decorator->full_name();
      return name.starts_with("numba.");
    });
  }
  const std::string_view module = call.file->module;
  const std::string_view package = module.substr(0, module.find('.'));
  const std::string_view name = call.expr->children().front()->full_name();
  return call.receiver == nullptr && !package.empty() && call.expr->type->class_def == nullptr &&
         name.starts_with(package) && name.substr(package.size()).starts_with('.');
}

// quadprog.solve_qp(P, q): another library works on the arrays.
bool is_other_library(const Call& call) {
  if (call.target != nullptr) return false;
  const std::string_view name = call.expr->children().front()->full_name();
  const std::size_t dot = name.find('.');
  const bool takes_array = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::array);
  });
  if (dot == std::string_view::npos || !takes_array) return false;
  return !is_one_of(
      name.substr(0, dot),
      {"torch",       "torchvision", "torchaudio",   "numpy",    "math",       "random",
       "os",          "sys",         "time",         "logging",  "copy",       "itertools",
       "collections", "functools",   "cv2",          "warnings", "json",       "pickle",
       "wandb",       "tqdm",        "einops",       "PIL",      "matplotlib", "tensorboardX",
       "skimage",     "apex",        "transformers", "timm",     "horovod"});
}

// torch.from_numpy(x), torch.Tensor(x)
bool makes_tensor(const Call& call) {
  return call.method == "from_numpy" ||
         (!call.arguments.empty() &&
          is_one_of(call.name, {"torch.Tensor", "torch.tensor", "torch.FloatTensor"}));
}

// `cost = cost.cpu(); linear_sum_assignment(cost)`: an algorithm for the host.
bool names_algorithm(std::string_view text) {
  return contains_any(text, {"linear_sum_assignment", "scipy.", "nms(", "heapify(", "heappush("});
}

bool runs(const FunctionDef& function, bool (*test)(const Call&)) {
  return std::ranges::any_of(function.calls, [&](const Call* call) { return test(*call); });
}

bool names_algorithm(const FunctionDef& function) {
  return names_algorithm(function.file->slice(function.statement->range));
}

// Of a function with the backward pass in it, which is no algorithm as a whole: whether what is
// read goes to one.
bool goes_to_algorithm(const HostRead& read) {
  const Statement& statement = *read.statement;
  const bool is_block = !statement.body.empty();
  if (!is_block && names_algorithm(statement.file->slice(statement.range))) return true;
  const Expr* target = statement.kind == StatementKind::assignment ? statement.target : nullptr;
  if (target == nullptr || target->kind != ExprKind::name) return false;
  return std::ranges::any_of(after(statement), [&](const Statement* later) {
    const std::string_view text = later->file->slice(later->range);
    return names_algorithm(text) && contains(text, target->word());
  });
}

bool runs_on_host(const HostRead& read) {
  const FunctionDef* function = read.statement->function;
  if (function == nullptr) return false;
  if (runs(*function, [](const Call& call) { return call.method == "backward"; })) {
    return goes_to_algorithm(read);
  }
  // What it gives comes back as a tensor.
  const bool works_on_host =
      runs(*function, [](const Call& call) { return is_compiled(call) || is_other_library(call); });
  if (works_on_host && runs(*function, makes_tensor)) return true;
  if (names_algorithm(*function)) return true;
  const std::string_view name = function->name;
  return name == "act" || name.starts_with("act_") || name.starts_with("action") ||
         name.ends_with("_action");
}

}  // namespace

bool feeds_host(const HostRead& read) {
  return copies_weights(read) || is_for_environment(read.expr, *read.statement) ||
         serves_environment(read.statement->function) || runs_on_host(read);
}

bool is_conversion(const SourceFacts& facts, const HostRead& read) {
  const Expr* value = read.call != nullptr ? read.call->receiver : nullptr;
  const bool is_known = value != nullptr && !value->type->guessed && is_gpu_value(value);
  const FunctionDef* function = read.statement->function;
  const bool is_meter = function != nullptr && function->class_def != nullptr;
  if (is_known && !is_meter) return false;
  if (function != nullptr &&
      (takes_losses(facts, *function) || gets_tensor(facts, *function, read.expr))) {
    return false;
  }
  for (const Statement* outer = read.statement->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return false;
    if (outer->kind != StatementKind::if_) continue;
    if (asks_for_kind(outer->value) && shares_variable(outer->value, read.expr)) return true;
  }
  return false;
}

}  // namespace rooftile::source
