// Runs the ONNX library's type and shape inference over a whole model, node by node, so that
// functions and subgraphs are opened on the way and computed shapes are known exactly.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/formats/onnx/dimensions.h"
#include "rooftile/formats/onnx/graph.h"
#include "rooftile/formats/onnx/storage.h"

namespace rooftile::onnx_format {

struct Inferred {
  Graph graph;
  std::vector<std::string> errors;  // what the library says about nodes that do not fit
  // Whether each graph output has the leading size that stands for the batch; see load.cpp.
  std::vector<Shape> output_shapes;  // empty where unknown
};

// Infers storage.model; the result points into the storage.
Result<Inferred> infer_model(Graph::Storage& storage, const ResolvedDimensions& dimensions);

}  // namespace rooftile::onnx_format
