// Which subgraph of If, Loop and Scan counts, how often it runs, and how values pass through it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/frame.h"

namespace rooftile::onnx_format {

using SubgraphRuns = std::map<std::string, SubgraphRun>;

struct ControlFlow {
  SubgraphRun* run = nullptr;  // nullptr: nothing runs
  std::int64_t repeat = 1;
  std::string note;  // an assumption, in words
  // Of a Loop with a known trip count: the first output that collects a row per iteration.
  std::optional<std::size_t> scanned_from;
  // Node inputs from this one on are the subgraph's inputs from the other one on; so for outputs.
  std::size_t first_node_input = 0, first_run_input = 0, first_run_output = 0;

  // Pairs (from, to) of values that are the same: into the subgraph and out of it.
  std::vector<std::pair<ValueId, ValueId>> same(const std::vector<ValueId>& inputs,
                                                const std::vector<ValueId>& outputs) const;
};

// `numbers` are the inputs that are known scalars, `shapes` those whose sizes are known.
ControlFlow choose_control_flow(const onnx::NodeProto& node,
                                const std::vector<std::optional<double>>& numbers,
                                const std::vector<std::optional<Shape>>& shapes,
                                SubgraphRuns& runs);

// Product of trip counts, held below a number that still multiplies safely.
std::int64_t multiply_repeat(std::int64_t a, std::int64_t b);

}  // namespace rooftile::onnx_format
