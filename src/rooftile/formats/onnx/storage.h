// The protobuf messages that a Graph points into.
#pragma once

#include <deque>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

struct Graph::Storage {
  onnx::ModelProto model;
  std::deque<onnx::NodeProto> bound_nodes;  // of functions, with the caller's attributes
};

}  // namespace rooftile::onnx_format
