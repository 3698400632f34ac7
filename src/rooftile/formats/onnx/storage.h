// The protobuf messages that a Graph points into.
#pragma once

#include <deque>
#include <memory>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

struct Graph::Storage {
  onnx::ModelProto model;
  std::deque<onnx::NodeProto> bound_nodes;  // of functions, with the caller's attributes
  std::shared_ptr<void> inference;          // its values; taking them apart takes as long as it
};

}  // namespace rooftile::onnx_format
