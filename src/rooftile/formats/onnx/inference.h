// Runs the ONNX library's type and shape inference over a whole model, node by node, so that
// functions and subgraphs are opened on the way and computed shapes are known exactly.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/base/result.h"
#include "rooftile/formats/onnx/dimensions.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

struct Inferred {
  Graph graph;
  std::vector<std::string> errors;  // what the library says about nodes that do not fit
  // Whether each graph output has the leading size that stands for the batch; see load.cpp.
  std::vector<Shape> output_shapes;  // empty where unknown
};

// The result points into `model`, which is moved into its storage by the caller.
Result<Inferred> infer_model(const onnx::ModelProto& model, const ResolvedDimensions& dimensions,
                             std::deque<onnx::NodeProto>& bound_nodes);

}  // namespace rooftile::onnx_format
