// Arrays of NumPy that are made out of nothing but sizes and constants, for host_makers.h.
#pragma once

#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

constexpr int kMaxMakerSteps = 20;
constexpr int kMaxMakerVisits = 400;  // values that are made of several others multiply

// How far a search has come.
struct Steps {
  int* visits;
  int depth = 0;
  const Call* call = nullptr;  // of the function that is looked into

  Steps next() const { return {visits, depth + 1, call}; }
  Steps into(const Call& one) const { return {visits, depth + 1, &one}; }
  bool ended() const { return depth > kMaxMakerSteps || ++*visits > kMaxMakerVisits; }
};

// `torch.zeros` of the package "torch." and the words {"zeros", …}.
bool is_last_word(std::string_view name, std::string_view package, Words words);
// np.zeros(n), np.eye(n).astype(np.float32), np.triu(np.ones((n, n)), k=1)
bool is_made_by_numpy(const Expr* expr, Steps steps);

}  // namespace rooftile::source
