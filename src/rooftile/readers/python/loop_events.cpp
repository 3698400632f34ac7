#include "rooftile/readers/python/loop_events.h"

#include <algorithm>
#include <string>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool is_backward(const Call& call) {
  return (call.method == "backward" && call.receiver != nullptr) ||
         call.method == "manual_backward" || call.name == "torch.autograd.backward";
}

std::string_view receiver_word(const Call& call) {
  const Expr* receiver = call.receiver;
  if (receiver == nullptr) return {};
  if (receiver->kind == ExprKind::subscript) {
    const Expr* key = receiver->children()[1];  // state["optimizer"], optimizers[0]
    receiver = key->kind == ExprKind::text ? key : receiver->children()[0];
  }
  return receiver->word();
}

std::string_view receiver_text(const Call& call) {
  const ByteRange range = call.receiver->range;
  return std::string_view(call.file->text).substr(range.begin, range.end - range.begin);
}

// engine.backward(loss), then engine.step(): DeepSpeed's and its like's, whatever it is called.
bool steps_what_runs_backward(const Call& step) {
  return step.arguments.empty() && std::ranges::any_of(step.file->calls, [&](const Call* call) {
           return call->function == step.function && call->method == "backward" &&
                  call->arguments.size() == 1 && call->receiver != nullptr &&
                  receiver_text(*call) == receiver_text(step);
         });
}

bool is_optimizer_step(const Call& call) {
  if (call.method == "optimizer_step") return true;
  if (call.method != "step" || call.receiver == nullptr) return false;
  const TypeKind kind = call.receiver_type().kind;
  if (kind == TypeKind::optimizer || kind == TypeKind::scaler) return true;
  if (kind != TypeKind::unknown && kind != TypeKind::module && kind != TypeKind::host_object) {
    return false;
  }
  const std::string word = lower(receiver_word(call));
  if (contains(word, "sched") || word == "env" || word == "envs") return false;
  // optim.learner.step() of a class around an optimizer
  const bool is_part = call.receiver->kind == ExprKind::attribute &&
                       contains(lower(call.receiver->children()[0]->word()), "optim");
  return is_part || contains(word, "opt") || contains(word, "scaler") || contains(word, "engine") ||
         contains(word, "sgd") || contains(word, "adam") || contains(word, "solver") ||
         steps_what_runs_backward(call);
}

// sliding_window_inference(images, size, 4, model), inferer(images, network=model): a library runs
// the module.
bool infers_with(const Call& call) {
  return call.target == nullptr && contains(lower(call.method), "infer") &&
         std::ranges::any_of(call.arguments, [](const Argument& argument) {
           return !argument.unpacked && argument.value->type->is(TypeKind::module);
         });
}

}  // namespace

bool is_own_optimizer_step(const Call& call) {
  return call.method == "step" && call.receiver != nullptr &&
         call.receiver_type().is(TypeKind::optimizer);
}

bool is_forward(const Call& call) {
  if (call.method == "forward" && call.receiver != nullptr) {
    return call.receiver->type->is(TypeKind::module);
  }
  return call.name == "torch.nn.Module.__call__" &&
         call.expr->children()[0]->type->is(TypeKind::module);
}

bool switches_to_evaluation(const Call& call) {
  if (call.receiver == nullptr || !call.receiver_type().is(TypeKind::module)) return false;
  if (call.method == "eval") return call.arguments.empty();
  return call.method == "train" && call.arguments.size() == 1 &&
         call.arguments[0].value->word() == "False";
}

void add_written_events(const Call& call, Events& events) {
  if (is_backward(call)) events.backward = &call;
  if (is_optimizer_step(call)) events.step = &call;
  // Own optimizers in 16 bits: optimizer.step(loss).
  const bool takes_loss = events.step != nullptr && !call.arguments.empty() &&
                          (call.arguments[0].value->type->is(TypeKind::tensor) ||
                           contains(call.arguments[0].value->word(), "loss"));
  if (takes_loss) events.backward = &call;
  events.forward = is_forward(call) || infers_with(call);
  events.eval_mode = switches_to_evaluation(call);
  // timm's scaler: loss_scaler(loss, optimizer, …) does both.
  if (call.receiver == nullptr && call.method == "loss_scaler" && call.arguments.size() > 1) {
    events.backward = events.step = &call;
  }
}

}  // namespace rooftile::source
