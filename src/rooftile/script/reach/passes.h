// Which guards keep a statement from running on each pass of a loop.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether there is a GPU, or several, is settled once: by how the program is started.
bool is_about_launch(const Guard& guard);
// `if step > warmup`, `if len(memory) > batch_size`: true from some step on.
bool is_from_some_step_on(const Guard& guard);
// Whether it keeps passes out: `x % n == 0` with n unknown or at least ten, a condition on values,
// an exception handler, debugging, what runs once.
bool is_shut(const Guard& guard);
// The same, with conditions on values open: what stands there costs in each pass that meets them.
bool is_shut_for_good(const Guard& guard);
// Where the backward pass of the loop (null: none is seen) is under the condition as well: passes
// without it train nothing.
bool guards_backward(const SourceFacts& facts, const Loop* step_loop, const Guard& guard);

}  // namespace rooftile::source
