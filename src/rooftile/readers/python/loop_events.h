// What calls do that tells training steps from evaluation.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// What happens in a loop or function, less what its inner step loops account for.
struct Events {
  const Call* backward = nullptr;
  const Call* step = nullptr;
  bool forward = false;
  bool eval_mode = false;     // model.eval()
  bool has_training = false;  // holds a training loop
  bool has_evaluation = false;
  bool has_loader_evaluation = false;  // that reads a loader

  bool operator==(const Events&) const = default;

  bool trains() const { return has_training || (backward != nullptr && step != nullptr); }
  void add(const Events& more) {
    if (backward == nullptr) backward = more.backward;
    if (step == nullptr) step = more.step;
    forward = forward || more.forward;
    eval_mode = eval_mode || more.eval_mode;
    has_training = has_training || more.has_training;
    has_evaluation = has_evaluation || more.has_evaluation;
    has_loader_evaluation = has_loader_evaluation || more.has_loader_evaluation;
  }
};

// The step of a class that the files derive from torch.optim.Optimizer.
bool is_own_optimizer_step(const Call& call);
// model(x), also model.forward(x)
bool is_forward(const Call& call);
// model.eval(), model.train(False)
bool switches_to_evaluation(const Call& call);

// Adds what the call does as it is written, whatever function it leads to.
void add_written_events(const Call& call, Events& events);

}  // namespace rooftile::source
