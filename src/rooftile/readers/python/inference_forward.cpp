// Objects that are called, of inference.h: models, losses, and what is known by its name alone.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// `model(args)` of what is a model only by its name: a class that is made, no forward.
bool takes_options(const Call& call) {
  return std::ranges::any_of(call.arguments, [](const Argument& argument) {
    const Expr* value = argument.value;
    return value != nullptr && value->kind == ExprKind::name &&
           is_one_of(value->word, {"opt", "opts", "args", "cfg", "config", "options", "hparams",
                                   "hps", "params", "flags", "FLAGS"});
  });
}

}  // namespace

// model(x), criterion(y, target), and what is called without being known.
const Type* Inference::value_call(Call& call, const Type& callee) {
  // A module without forward that is called like a function.
  const FunctionDef* called = find_method(callee.class_def, "__call__");
  const bool is_plain = called != nullptr && callee.class_def->is_module &&
                        find_method(callee.class_def, "forward") == nullptr;
  if (is_plain) {
    return own_function_call(call, *called, true);
  }
  if (callee.guessed && takes_options(call)) return &unknown_type();
  // A class named for a loss that is no module: `compute_loss(scores, y)` may run the whole step.
  const bool is_plain_loss =
      called != nullptr && callee.is(TypeKind::loss) && !callee.class_def->is_module;
  if (is_plain_loss) {
    const Type* given = own_function_call(call, *called, true);
    const bool is_host = given->is(TypeKind::number) || given->is(TypeKind::text);
    call.name = "torch.nn.Module.__call__";
    return is_host ? given : tensor_result(call, callee);
  }
  if (callee.is(TypeKind::module) || callee.is(TypeKind::loss)) {
    call.name = "torch.nn.Module.__call__";
    return forward_result(call, callee);
  }
  return called == nullptr ? &unknown_type() : own_function_call(call, *called, true);
}

const Type* Inference::forward_result(Call& call, const Type& callee) {
  if (const FunctionDef* forward = find_method(callee.class_def, "forward")) {
    const std::string_view name = call.name;
    own_function_call(call, *forward, true);
    call.name = name;
  }
  return tensor_result(call, callee);
}

// A tensor where the module or its inputs are.
const Type* Inference::tensor_result(const Call& call, const Type& callee) {
  Residence place = callee.residence == Residence::gpu ? Residence::gpu : Residence::unknown;
  bool gradients = callee.is(TypeKind::module);
  for (const Argument& argument : call.arguments) {
    const Type& type = *argument.value->type;
    if (!type.is(TypeKind::tensor)) continue;
    if (type.on_gpu()) place = Residence::gpu;
    gradients = gradients || type.requires_grad;
  }
  // A loss has no weights that would keep its inputs on the host.
  const bool stays = callee.is(TypeKind::module) && callee.residence == Residence::host;
  if (place == Residence::unknown && stays) place = Residence::host;
  return tensor(place, gradients);
}

}  // namespace rooftile::source
