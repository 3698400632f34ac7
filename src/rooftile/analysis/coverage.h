// How much of a workload the time model knows.
#pragma once

#include "rooftile/analysis/analysis.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Runs of operations, those that a reader had to leave out included, and of those with a time.
struct KnownRuns {
  double all = 0, with_time = 0;

  // Shares of the time are then shares of the whole.
  bool are_enough() const {
    constexpr double kEnough = 0.9;  // as is_sufficient()
    return all > 0 && with_time >= kEnough * all;
  }
};

KnownRuns known_runs(const Workload& workload, const Analysis& analysis);

}  // namespace rooftile
