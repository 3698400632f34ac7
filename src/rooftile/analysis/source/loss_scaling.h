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
std::vector<ScalingEvent> scaling_events(const SourceFacts& facts, const Iteration& iteration);

struct ScaledPass {
  const Iteration* iteration = nullptr;
  std::vector<ScalingEvent> events;
};
// The training passes on a GPU, events in order. Empty where no file scales a loss or makes a
// scaler.
std::vector<ScaledPass> scaled_passes(const SourceFacts& facts);

// The nearest backward before event `i` on the same path, or null. What excludes event `i` and
// what zero_grad ends does not count.
const ScalingEvent* backward_before(const std::vector<ScalingEvent>& events, std::size_t i);
// Whether the two steps, or unscalings, may be of one optimizer; unknown ones are when `strict` is
// off.
bool may_be_same_optimizer(const ScalingEvent& a, const ScalingEvent& b, bool strict);
// Whether event `i` comes after a scaled backward on some path, with neither zero_grad nor unscale_
// between them; that backward, or null.
const ScalingEvent* scaled_backward_before(const std::vector<ScalingEvent>& events, std::size_t i);
// Whether the event's scaler is off by a literal or an option's default.
bool is_scaler_off(const SourceFacts& facts, const ScalingEvent& event);
// Whether it may be off: something not known here decides.
bool may_scaler_be_off(const SourceFacts& facts, const ScalingEvent& event);

}  // namespace rooftile::source
