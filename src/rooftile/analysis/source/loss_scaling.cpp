#include "rooftile/analysis/source/loss_scaling.h"

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {
namespace {

// The scaler of `scaler.scale(loss)`, also inside of `cast(Tensor, scaler.scale(loss))`, and where
// only one way to here scales the loss; null otherwise.
const Expr* scaler_of_loss(const SourceFacts& facts, const Expr* loss) {
  if (loss == nullptr) return nullptr;
  const Expr* scaler = nullptr;
  script::find_source(facts, *loss, [&](const Expr& part) {
    const bool scales = part.call() != nullptr && part.call()->method == "scale";
    if (!scales || !is_scaler(part.call()->receiver)) return script::SourceStep::go_on;
    scaler = part.call()->receiver;
    return script::SourceStep::found;
  });
  return scaler;
}

// Of `scaler.scale(loss).backward()` and `features.backward(scaler.scale(gradient))`.
const Expr* scaler_of_backward(const SourceFacts& facts, const Call& backward) {
  const Expr* scaler = scaler_of_loss(facts, backward.receiver);
  for (const Argument& argument : backward.arguments) {
    if (scaler == nullptr) scaler = scaler_of_loss(facts, argument.value);
  }
  return scaler;
}

bool is_backward_of_tensor(const Call& call) {
  if (call.method != "backward" || call.receiver == nullptr || call.target != nullptr) return false;
  const Type& type = call.receiver_type();
  if (type.is(TypeKind::tensor)) return true;
  const bool is_loss_call = call.receiver->kind == ExprKind::call;
  if (!type.is(TypeKind::unknown) && !type.is(TypeKind::number) && !is_loss_call) return false;
  const bool takes_loss = std::any_of(call.arguments.begin(), call.arguments.end(),
                                      [](const Argument& one) { return one.name.empty(); });
  return !takes_loss;  // engine.backward(loss) of DeepSpeed, ctx.backward(x)
}

bool is_optimizer(const Expr* expr) {
  if (expr == nullptr) return false;
  if (expr->type->is(TypeKind::optimizer)) return true;
  if (!expr->type->is(TypeKind::unknown)) return false;
  const std::string_view name = last_name(expr);
  return contains(name, "optim") || name == "opt" || name.starts_with("opt_") ||
         name.ends_with("_opt");
}

std::optional<ScalingEvent> scaler_event(const IteratedCall& at) {
  const Call& call = *at.call;
  const Expr* first = call.arguments.empty() ? nullptr : call.arguments.front().value;
  if (!is_scaler(call.receiver)) return std::nullopt;
  if (call.method == "unscale_") {
    return ScalingEvent{ScalingKind::unscale, &at, call.receiver, first};
  }
  if (call.method == "step" && first != nullptr) {
    return ScalingEvent{ScalingKind::scaler_step, &at, call.receiver, first};
  }
  if (call.method == "update") {
    return ScalingEvent{ScalingKind::scaler_update, &at, call.receiver, nullptr};
  }
  return std::nullopt;
}

std::optional<ScalingEvent> event_of(const SourceFacts& facts, const IteratedCall& at) {
  const Call& call = *at.call;
  const std::string_view method = call.method;
  if (method == "backward") {
    if (const Expr* scaler = scaler_of_backward(facts, call)) {
      return ScalingEvent{ScalingKind::scaled_backward, &at, scaler, nullptr};
    }
    if (!is_backward_of_tensor(call)) return std::nullopt;
    return ScalingEvent{ScalingKind::backward, &at, nullptr, nullptr};
  }
  const bool clamps_gradient = method == "clamp_" && uses_name(call.receiver, {"grad"});
  if (clamps_gradient ||
      is_one_of(method, {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})) {
    return ScalingEvent{ScalingKind::clip, &at, nullptr, nullptr};
  }
  if (method == "zero_grad")
    return ScalingEvent{ScalingKind::zero_gradients, &at, nullptr, nullptr};
  if (auto found = scaler_event(at)) return found;
  if (method == "step" && is_optimizer(call.receiver) && call.target == nullptr) {
    return ScalingEvent{ScalingKind::optimizer_step, &at, nullptr, call.receiver};
  }
  return std::nullopt;
}

}  // namespace

std::vector<ScalingEvent> scaling_events(const SourceFacts& facts, const Iteration& iteration) {
  std::vector<ScalingEvent> events;
  for (const IteratedCall& at : iteration.calls) {
    if (const auto event = event_of(facts, at)) events.push_back(*event);
  }
  return events;
}

const ScalingEvent* backward_before(const std::vector<ScalingEvent>& events, std::size_t i) {
  for (std::size_t j = i; j-- > 0;) {
    const ScalingEvent& earlier = events[j];
    if (exclude_each_other(*earlier.at, *events[i].at)) continue;
    if (earlier.kind == ScalingKind::zero_gradients) return nullptr;
    const bool is_backward =
        earlier.kind == ScalingKind::backward || earlier.kind == ScalingKind::scaled_backward;
    if (is_backward) return &earlier;
  }
  return nullptr;
}

bool may_be_same_optimizer(const ScalingEvent& a, const ScalingEvent& b, bool strict) {
  if (a.optimizer == nullptr || b.optimizer == nullptr) return !strict;
  return is_same_object(a.optimizer, b.optimizer);
}

const ScalingEvent* scaled_backward_before(const std::vector<ScalingEvent>& events, std::size_t i) {
  for (std::size_t j = i; j-- > 0;) {
    const ScalingEvent& earlier = events[j];
    if (exclude_each_other(*earlier.at, *events[i].at)) continue;
    if (earlier.kind == ScalingKind::zero_gradients || earlier.kind == ScalingKind::unscale) {
      return nullptr;
    }
    if (earlier.kind == ScalingKind::scaled_backward) return &earlier;
  }
  return nullptr;
}

namespace {

std::optional<Scaler> scaler_behind(const SourceFacts& facts, const ScalingEvent& event) {
  if (event.scaler == nullptr) return std::nullopt;
  const Call* made = event.scaler->type->made_by;
  if (made == nullptr || !made->method.ends_with("GradScaler")) return std::nullopt;
  return scaler_of(facts, *made);
}

}  // namespace

bool is_scaler_off(const SourceFacts& facts, const ScalingEvent& event) {
  const auto scaler = scaler_behind(facts, event);
  return scaler && scaler->is_off;
}

bool may_scaler_be_off(const SourceFacts& facts, const ScalingEvent& event) {
  const auto scaler = scaler_behind(facts, event);
  return !scaler || scaler->is_off || scaler->may_be_off;
}

std::vector<ScaledPass> scaled_passes(const SourceFacts& facts) {
  if (facts.method_calls("scale").empty() && facts.constructions(TypeKind::scaler).empty()) {
    return {};
  }
  std::vector<ScaledPass> passes;
  for (const Iteration& iteration : training_iterations(facts)) {
    if (!trains_on_gpu(facts, *iteration.file)) continue;
    ScaledPass pass;
    pass.events = scaling_events(facts, iteration);
    pass.iteration = &iteration;
    passes.push_back(std::move(pass));
  }
  return passes;
}

}  // namespace rooftile::source
