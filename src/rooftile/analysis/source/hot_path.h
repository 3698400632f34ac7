// What runs on each pass of a loop: the ground for rules on cost per step.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether a run gets there that is started on GPUs, on one or several, and has all other options at
// their defaults.
bool is_reached_when_launched(const SourceFacts& facts, const Call& call);
bool is_reached_when_launched(const SourceFacts& facts, const Statement& statement);
// Calls of the names (as SourceFacts::calls) in programs that train on a GPU, reached like that.
std::vector<const Call*> launched_calls(const SourceFacts& facts,
                                        std::initializer_list<std::string_view> full_names);

// Whether some way leads there on each training step: through a training loop, a training_step of
// Lightning, or the forward of a module whose caller is not seen. False outside of programs that
// train on a GPU.
bool is_hot(const SourceFacts& facts, const Statement& statement);
bool is_hot(const SourceFacts& facts, const Call& call);

// A way to a statement on which one condition alone decides whether a pass of the loop gets there.
struct HalfWay {
  const Expr* condition = nullptr;
  bool negated = false;
  const Loop* loop = nullptr;
};
std::vector<HalfWay> half_ways(const SourceFacts& facts, const Statement& statement);
// The same, on passes of an evaluation loop too, and also on those alone that meet a condition.
bool is_hot_or_evaluated(const SourceFacts& facts, const Call& call);
// Whether it runs on each pass of an evaluation loop that calls a network on a GPU, in a script
// that need not train.
bool is_evaluated_on_gpu(const SourceFacts& facts, const Call& call);
// Whether it stands in a training loop's own passes, through its functions; no forward of unseen
// callers.
bool is_in_step_loop(const SourceFacts& facts, const Call& call);
bool is_in_evaluation_loop(const SourceFacts& facts, const Call& call);

// The innermost training loop around it in its own function; null if there is none.
const Statement* training_loop_around(const Statement& statement);
// What findings of one loop or function have in common: that loop, else the function's statement,
// else null for code at the top of a file.
const Statement* place_of_work(const Statement& statement);

}  // namespace rooftile::source
