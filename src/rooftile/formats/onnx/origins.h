// Tells operators that compute constants and shapes from those that run on the device, and binds
// the attributes of functions.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

// Of the outputs of a node that reads these values (nullptr: an input left out).
Origin origin_of(const onnx::NodeProto& node, const std::string& domain,
                 const std::vector<const Value*>& inputs);

// Why a node with outputs of this origin is left out, as it is counted.
const char* skip_reason(Origin origin);

// Shape data that is more than a shape: a mask or a position table that the device computes.
bool is_large_float(const onnx::TypeProto& type);

// Whether the first output holds elements of the first input, perhaps reordered or converted.
bool keeps_root(const std::string& op);

bool has_graph_attribute(const onnx::NodeProto& node);

using AttributeBinding = std::unordered_map<std::string, const onnx::AttributeProto*>;

// A function's attributes: the caller's values, else its defaults.
AttributeBinding bind_attributes(const onnx::FunctionProto& function,
                                 const onnx::NodeProto& caller);

// The node of a function's body with references to attributes replaced; `bound` owns what changes.
const onnx::NodeProto& bind_node(const onnx::NodeProto& node, const AttributeBinding& binding,
                                 std::deque<onnx::NodeProto>& bound);

}  // namespace rooftile::onnx_format
