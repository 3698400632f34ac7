// Objects that are called, of inference.h: models, losses, and what is known by its name alone.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// nn.Softmax(dim=1), nn.ReLU(): layers of the library that only compute.
bool keeps_no_weights(const Type& layer) {
  return layer.class_def == nullptr &&
         is_one_of(layer.name, {"torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Sigmoid",
                                "torch.nn.ReLU", "torch.nn.Tanh", "torch.nn.Dropout",
                                "torch.nn.LeakyReLU", "torch.nn.Softplus"});
}

}  // namespace

// model(x), criterion(y, target), and what is called without being known.
const Type* Inference::value_call(Call& call, const Type& callee) {
  // A module without forward, or a class that is a loss by its name, that is called like a
  // function: LossCompute(criterion, optimizer) may train in it.
  const FunctionDef* called = find_method(callee.class_def, "__call__");
  if (called != nullptr && find_method(callee.class_def, "forward") == nullptr) {
    const Type* given = own_function_call(call, *called, true);
    const bool is_loss = callee.is(TypeKind::loss) && given->is(TypeKind::unknown);
    return is_loss ? forward_result(call, callee) : given;
  }
  if (callee.is(TypeKind::module) || callee.is(TypeKind::loss)) {
    call.name = "torch.nn.Module.__call__";
    return forward_result(call, callee);
  }
  return &unknown_type();
}

// `criterion(outputs, target)`: what a loss of the library gets first is a prediction.
void Inference::note_prediction(const Call& call) {
  const bool has_both = call.arguments.size() > 1 && call.arguments[0].name.empty();
  const Expr* given = has_both ? call.arguments[0].value : nullptr;
  const bool is_open =
      given != nullptr && given->kind == ExprKind::name && given->type->is(TypeKind::unknown);
  const Entry* entry = is_open ? bound_entry(given) : nullptr;
  if (entry == nullptr || entry->type != given->type) return;
  writable(*entry).type = tensor(Residence::unknown, true);
  writable(*given).type = entry->type;
}

const Type* Inference::forward_result(Call& call, const Type& callee) {
  if (callee.is(TypeKind::loss) && callee.class_def == nullptr) note_prediction(call);
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
  // Neither has what keeps no weights a place of its own, nor anything to record a graph for.
  if (keeps_no_weights(callee)) return from_tensors(call);
  // A loss has no weights that would keep its inputs on the host.
  const bool stays = callee.is(TypeKind::module) && callee.residence == Residence::host;
  if (place == Residence::unknown && stays) place = Residence::host;
  return tensor(place, gradients);
}

}  // namespace rooftile::source
