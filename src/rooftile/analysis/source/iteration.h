// What one pass of a training loop does, in order, own functions followed: the ground for rules
// about order and about what excludes what.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A condition under which something runs.
struct Branch {
  const Statement* statement = nullptr;  // the if_, match_ or loop
  bool otherwise = false;                // in its else
  // The condition without leading `not`s and ` is None`, so that two ifs on one flag are known as
  // such; the text of the case for a match.
  std::string_view condition;

  bool operator==(const Branch&) const = default;
};

struct IteratedCall {
  const Call* call = nullptr;
  std::span<const Branch> branches;   // outermost first, those of callers included
  const Statement* anchor = nullptr;  // the statement of the loop's own body it comes from
};

// One pass of a training loop, or of a function that does such a pass for a library.
struct Iteration {
  // Those of training_iterations() say where they stand.
  const Loop* loop = nullptr;             // null where no loop is seen
  const FunctionDef* function = nullptr;  // that holds the loop, or is the pass; null at the top
  const File* file = nullptr;
  std::vector<IteratedCall> calls;  // in the order they run: arguments first, then the call
  std::deque<std::vector<Branch>> branches;  // that the calls point to

  Iteration() = default;
  Iteration(Iteration&&) = default;
  Iteration& operator=(Iteration&&) = default;
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;
  ~Iteration() = default;
};

// The pass of a statement block: exception handlers, nested functions and what is never called are
// left out; own functions are followed 24 levels deep, to at most 4000 calls in all, and to four
// million over all blocks that are asked for. It lives as long as the facts.
const Iteration& iteration_of(const SourceFacts& facts, std::span<const Statement* const> block);
// Of every training-step loop, and of every function with a backward that no such loop reaches
// (training_step of Lightning, a step function that a library calls). Tests are left out.
const std::vector<std::reference_wrapper<const Iteration>>& training_iterations(
    const SourceFacts& facts);

// Whether no pass runs both: branches of one if, or of two with the same condition.
bool exclude_each_other(const IteratedCall& a, const IteratedCall& b);
// Conditions around `a` that are not around `b` too.
std::vector<Branch> extra_conditions(const IteratedCall& a, const IteratedCall& b);
// Whether a condition makes it run on some passes only, as gradient accumulation does:
// `if (step + 1) % n == 0`, `if accelerator.sync_gradients`, `if not accumulate`.
bool is_accumulation_test(const Branch& branch);

}  // namespace rooftile::source
