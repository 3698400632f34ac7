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

// The call of PyTorch's library that the node comes from ("aten.gelu.default"), as newer exporters
// note it; empty where unknown.
std::string library_call(const onnx_format::Node& node);
// The class of the module that makes the call ("torch.nn.modules.normalization.RMSNorm").
std::string library_module(const onnx_format::Node& node);

// From the metadata that PyTorch's exporter since 2.5 writes: the innermost named module.
std::string module_of_scopes(const onnx_format::Node& node);

// Whether PyTorch's exporters give a parameter this name, and not a tensor that they computed:
// "encoder.layers.0.fc1.weight" or "pos_embedding", but not "onnx::Add_12" or "unsqueeze_3".
bool is_parameter_name(std::string_view name);

// A buffer with the angles of rotary positions, by the names that model code gives it.
bool is_position_table(std::string_view name);

// "encoder.layers.0.fc1.weight" -> "encoder.layers.0.fc1"
std::string module_of_parameter(std::string_view name);

}  // namespace rooftile::onnx_reader_detail
