#include "rooftile/analysis/source/host_makers.h"

#include <algorithm>
#include <span>
#include <vector>

#include "rooftile/analysis/source/filled_tensors.h"
#include "rooftile/analysis/source/just_made.h"
#include "rooftile/analysis/source/made_by_numpy.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// A number, x.size(), x.shape, *x.shape; of several arguments also one that is not known.
bool is_size(const Expr& value, bool is_one_of_several) {
  if (value.type->is(TypeKind::number)) return true;
  const Expr* root = resolved(&value);
  while (root->kind == ExprKind::starred || root->kind == ExprKind::subscript) {
    root = root->children()[0];
  }
  if (last_name(root) == "shape" || (root->call() != nullptr && root->call()->method == "size")) {
    return true;
  }
  // x.size() + (n,)
  if (root->kind == ExprKind::binary && root->word() == "+" &&
      is_size(*root->children()[0], false) && root->children()[1]->kind == ExprKind::tuple) {
    return true;
  }
  if (root->kind == ExprKind::tuple) {
    return std::all_of(root->children().begin(), root->children().end(),
                       [](const Expr* part) { return is_size(*part, true); });
  }
  // FloatTensor(len(x), max(lengths))
  if (is_one_of_several && root->call() != nullptr &&
      is_one_of(root->call()->name, {"max", "min"})) {
    return true;
  }
  return is_one_of_several && value.type->is(TypeKind::unknown) && value.call() == nullptr;
}

bool fills_in_place(std::string_view method) {
  return is_one_of(method, {"random_", "zero_", "fill_", "normal_", "uniform_", "bernoulli_"});
}

// LongTensor(n).random_(10): what is overwritten at once had no values.
bool is_filled(const Call& call) {
  const Expr* outer = call.expr->parent;
  return call.arguments.size() == 1 && call.arguments.front().value->kind != ExprKind::list &&
         outer != nullptr && outer->kind == ExprKind::attribute && fills_in_place(outer->word());
}

bool is_zero(const Expr* expr) { return expr->kind == ExprKind::integer && expr->word() == "0"; }

// torch.empty(0), torch.zeros(n, 0), torch.zeros((0, 4)): nothing to fill and nothing to copy.
bool holds_nothing(const Call& call) {
  return is_last_word(call.name, "torch.", {"empty", "zeros", "ones", "rand", "randn"}) &&
         std::ranges::any_of(call.arguments, [](const Argument& argument) {
           const Expr* size = argument.value;
           const bool is_list = size->kind == ExprKind::tuple || size->kind == ExprKind::list;
           return (argument.name.empty() || argument.name == "size") &&
                  (is_zero(size) || (is_list && std::ranges::any_of(size->children(), is_zero)));
         });
}

}  // namespace

// `Tensor(x)` where Tensor is torch.cuda.FloatTensor if there is a GPU, or a legacy class.
bool is_legacy_class(const Expr& callee) {
  const Expr* made = resolved(&callee);
  if (made->kind == ExprKind::conditional && !made->children().empty()) made = made->children()[0];
  const std::string_view name = made->full_name();
  // What torch.sparse.FloatTensor(indices, values, shape) gets last is no size of its own.
  return name.starts_with("torch.") && name.ends_with("Tensor") && name.size() > 6 &&
         !contains(name, ".sparse.");
}

bool is_gpu_class(const Expr& callee) {
  const Expr* made = resolved(&callee);
  if (made->kind == ExprKind::conditional && !made->children().empty()) made = made->children()[0];
  return made->full_name().starts_with("torch.cuda.");
}

// FloatTensor(n, m), also FloatTensor(size=(n, m)).
bool has_only_sizes(const Call& call) {
  const bool is_several = call.arguments.size() > 1;
  return !call.arguments.empty() &&
         std::all_of(call.arguments.begin(), call.arguments.end(), [&](const Argument& argument) {
           const bool is_tuple = argument.value->kind == ExprKind::tuple;
           if (is_tuple && argument.name != "size") return false;
           return is_size(*argument.value, is_several);
         });
}

// Makes a host tensor out of nothing but sizes and constants.
bool is_maker(const Call& call) {
  if (call.argument("device") != nullptr || holds_nothing(call)) return false;
  if (std::count(call.name.begin(), call.name.end(), '.') == 1 &&
      is_last_word(call.name, "torch.",
                   {"zeros", "ones", "full", "empty", "rand", "randn", "randint", "randperm",
                    "arange", "eye", "linspace"})) {
    return call.expr->type->residence == Residence::host;  // with no other default place
  }
  const bool wraps = call.name == "torch.from_numpy" || call.name == "torch.tensor" ||
                     call.name == "torch.as_tensor" ||
                     (!call.expr->children().empty() && is_legacy_class(*call.expr->children()[0]));
  if (!wraps || call.arguments.empty()) return false;
  int visits = 0;
  if (is_made_by_numpy(call.arguments.front().value, {&visits})) return true;
  const bool is_class = !call.expr->children().empty() &&
                        is_legacy_class(*call.expr->children()[0]) &&
                        !is_gpu_class(*call.expr->children()[0]);
  return is_class && (has_only_sizes(call) || is_filled(call));
}

namespace {

const Call* find_maker(const Expr* expr, Steps steps);

// All parts are made on the host or numbers, and at least one is made.
const Call* maker_among(std::span<const Expr* const> parts, Steps steps) {
  const Call* found = nullptr;
  for (const Expr* part : parts) {
    if (is_number(*part)) continue;
    const Call* maker = find_maker(part, steps.next());
    if (maker == nullptr && part->type->is(TypeKind::unknown) && part->call() == nullptr &&
        part->kind != ExprKind::subscript) {
      continue;
    }
    if (maker == nullptr) return nullptr;
    // Of what each pass makes and what was made before, the first tells.
    const bool is_newer = found != nullptr && loop_around(maker->statement) != nullptr &&
                          loop_around(found->statement) == nullptr;
    if (found == nullptr || is_newer) found = maker;
  }
  return found;
}

// torch.cat([torch.zeros(n), x]), x.expand(n): what made a part of the result.
const Call* maker_in_library_call(const Call& call, Steps steps) {
  const bool is_method = call.receiver != nullptr && call.name.starts_with("torch.Tensor.");
  if (is_method && is_one_of(call.method, {"cuda", "item"})) return nullptr;
  if (is_method && call.method == "to") return find_maker(call.receiver, steps.next());
  std::vector<const Expr*> parts;
  if (is_method) parts.push_back(call.receiver);
  const bool takes_sizes =
      is_method &&
      (is_one_of(call.method, {"expand", "view", "reshape", "repeat", "unsqueeze", "type",
                               "expand_as", "view_as", "reshape_as", "type_as"}) ||
       fills_in_place(call.method));
  // zeros(n, classes).scatter_(1, labels.cpu(), 1): one-hot rows of labels that were on the GPU.
  const bool sets_number = is_method && is_one_of(call.method, {"scatter_", "scatter"}) &&
                           call.arguments.size() == 3 && is_number(*call.arguments[2].value) &&
                           was_on_gpu(*call.arguments[1].value);
  for (const Argument& argument : call.arguments) {
    if (argument.name.empty() && !takes_sizes && !sets_number) parts.push_back(argument.value);
  }
  return maker_among(parts, steps);
}

const Call* maker_in_call(const Call& call, Steps steps) {
  if (is_maker(call)) return &call;
  if (call.argument("device") != nullptr) return nullptr;
  if (call.target != nullptr) {
    const bool is_plain =
        call.name != "torch.nn.Module.__call__" && call.target->name != "__init__";
    return is_plain && returns_made(*call.target, steps.into(call)) ? &call : nullptr;
  }
  // einops only gives another shape.
  const bool shapes = is_one_of(call.name, {"einops.rearrange", "einops.repeat"});
  if (shapes && !call.arguments.empty()) {
    return find_maker(call.arguments.front().value, steps.next());
  }
  return call.name.starts_with("torch.") ? maker_in_library_call(call, steps) : nullptr;
}

// Of a name that several branches bind: the first, where all above are made from nothing.
const Call* maker_in_branches(const Expr& name, Steps steps) {
  const Statement* use = name.statement;
  if (use == nullptr || use->function == nullptr) return nullptr;
  const auto& parameters = use->function->parameters;
  if (std::ranges::any_of(parameters, [&](const auto& one) { return one.name == name.word(); })) {
    return nullptr;
  }
  const Call* found = nullptr;
  for (const Statement* statement : use->file->statements) {
    const bool binds = statement->function == use->function && statement->target != nullptr &&
                       statement->range.begin < use->range.begin &&
                       statement->target->kind == ExprKind::name &&
                       statement->target->word() == name.word();
    if (!binds) continue;
    const bool is_set = statement->kind == StatementKind::assignment && statement->value != nullptr;
    // `x = None` before `if wanted: x = torch.zeros(n)`.
    if (is_set && statement->value->kind == ExprKind::none) continue;
    if (is_set && statement->word != "=" && is_number(*statement->value)) continue;
    const Call* maker = is_set ? find_maker(statement->value, steps.next()) : nullptr;
    if (maker == nullptr) return nullptr;
    if (found == nullptr) found = maker;
  }
  return found;
}

// The call at the root of a value that is made on the host from nothing; null for other values.
const Call* find_maker(const Expr* expr, Steps steps) {
  if (expr == nullptr || steps.ended()) return nullptr;
  switch (expr->kind) {
    case ExprKind::call:
      return maker_in_call(*expr->call(), steps);
    case ExprKind::name: {
      const Statement* binding = expr->binding();
      if (binding == nullptr) return maker_in_branches(*expr, steps);
      const bool is_mesh = binding->value != nullptr && binding->value->call() != nullptr &&
                           binding->value->call()->name == "torch.meshgrid";
      const bool is_plain =
          binding->kind == StatementKind::assignment && binding->word == "=" &&
          binding->target != nullptr && (binding->target->kind == ExprKind::name || is_mesh) &&
          expr->statement != nullptr && binding->function == expr->statement->function;
      return is_plain ? find_maker(binding->value, steps.next()) : nullptr;
    }
    case ExprKind::binary:
    case ExprKind::comparison:
    case ExprKind::unary:
    case ExprKind::list:
    case ExprKind::tuple:
      return maker_among(expr->children(), steps);
    case ExprKind::comprehension:
      return expr->children().empty() ? nullptr : find_maker(expr->children()[0], steps.next());
    case ExprKind::subscript:
      return find_maker(expr->children()[0], steps.next());
    default:
      return nullptr;
  }
}

}  // namespace

const Call* host_maker(const Expr* expr) {
  int visits = 0;
  return find_maker(expr, {&visits});
}

}  // namespace rooftile::source
