// Keeps track of the elements that are known before the network runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/formats/onnx/values.h"

namespace rooftile::onnx_format {

// Evaluates a node of the standard domain whose inputs are constants or shape data.
void compute_constants(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                       const std::vector<ValueId>& outputs, Values& values);

// The library does not compare element counts; a reshape written for another batch shows here.
std::optional<std::string> find_wrong_reshape(const onnx::NodeProto& node,
                                              const std::vector<ValueId>& inputs,
                                              const std::vector<ValueId>& outputs,
                                              const Values& values);

}  // namespace rooftile::onnx_format
