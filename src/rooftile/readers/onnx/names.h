// Names of nodes, modules and operators as the workload spells them.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_reader_detail {

// Valid UTF-8 without control characters, at most 500 bytes; names of hostile files may be
// anything.
std::string printable(std::string_view text);

// "/encoder/layers.0/fc1/MatMul" -> "encoder.layers.0.fc1"; empty where the name is no path.
std::string module_of_path(std::string_view node_name);

// From the metadata that PyTorch's exporter since 2.5 writes: the innermost named module.
std::string module_of_scopes(const onnx_format::Node& node);

// "encoder.layers.0.fc1.weight" -> "encoder.layers.0.fc1"
std::string module_of_parameter(std::string_view name);

}  // namespace rooftile::onnx_reader_detail
