// Recurrent cells written out step by step, found through the data flow.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct UnrolledLoop {
  std::int64_t length = 0;               // time steps
  std::int64_t products_per_step = 0;    // of the recurrent kind; 4 for an LSTM with separate gates
  std::vector<std::size_t> steps;        // equal products, each depending on the one before
  std::vector<std::size_t> projections;  // products of each step that do not depend on other steps
  std::vector<std::size_t> outputs;      // products of each step's state that no product reads
  std::vector<std::size_t> pointwise;    // gates and whatever else lies between the steps
  // False where a norm, softmax or lookup lies between the steps, or a step's input depends on
  // another step's output: no library cell computes that.
  bool plain = true;
};

// Chains of at least eight equal products with sigmoid and tanh between them, or of one-step
// recurrent operations. Equal layers in a row, without gates, are no loop.
std::vector<UnrolledLoop> find_unrolled_loops(const Workload& workload, const Graph& graph);

}  // namespace rooftile
