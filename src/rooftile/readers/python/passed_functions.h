// What a call decides of the function it leads to: which functions run there, and which branches.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The functions that run because they are handed over: `timed(train_step)`,
// `optimizer.step(closure)`.
class PassedFunctions {
 public:
  explicit PassedFunctions(const SourceFacts& facts);

  // By the call: those that it hands to its target, which calls them outside of its loops. Of a
  // called parameter: those that the callers hand over.
  std::span<const FunctionDef* const> run_by(const Call& call) const;

  // `run()` in a function that gets `run` as a parameter: who calls the function says what runs.
  bool calls_parameter(const Call& call) const { return calls_of_parameters_.contains(&call); }

 private:
  std::unordered_set<const Call*> calls_of_parameters_;
  std::unordered_map<const Call*, std::vector<const FunctionDef*>> run_by_;
};

// The function of the project that optimizer.step(closure) of a library runs; null for other calls.
const FunctionDef* closure_of(const Call& call);

}  // namespace rooftile::source
