// The order in which one pass of a training loop scales, unscales, clips and steps.
#pragma once

#include <vector>

#include "rooftile/analysis/source/iteration.h"

namespace rooftile::source {

enum class ScalingKind {
  scaled_backward,  // scaler.scale(loss).backward(), also through a variable
  backward,         // loss.backward()
  unscale,          // scaler.unscale_(optimizer)
  clip,             // torch.nn.utils.clip_grad_norm_ and clip_grad_value_
  scaler_step,      // scaler.step(optimizer)
  scaler_update,    // scaler.update()
  optimizer_step,   // optimizer.step(), past the scaler
  zero_gradients,   // zero_grad of an optimizer or module
};

struct ScalingEvent {
  ScalingKind kind;
  const IteratedCall* at = nullptr;  // of the iteration, which has to live as long
  const Expr* scaler = nullptr;      // of the four of a scaler and of scaled_backward
  const Expr* optimizer = nullptr;   // what steps or is unscaled
};

// In the order of the iteration.
std::vector<ScalingEvent> scaling_events(const Iteration& iteration);

// The nearest backward before event `i` on the same path, or null. What excludes event `i` and
// what zero_grad ends does not count.
const ScalingEvent* backward_before(const std::vector<ScalingEvent>& events, std::size_t i);
// Whether the two steps, or unscalings, may be of one optimizer; unknown ones are when `strict` is
// off.
bool may_be_same_optimizer(const ScalingEvent& a, const ScalingEvent& b, bool strict);
// Whether the scaler is surely on: made where no option turns it off. Unknown ones count as on
// where `unknown` says so.
bool is_surely_on(const SourceFacts& facts, const ScalingEvent& event, bool unknown);

}  // namespace rooftile::source
