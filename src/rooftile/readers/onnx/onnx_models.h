// Models for tests, written in ONNX's text syntax.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"
#include "rooftile/readers/onnx/onnx_reader.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {

inline onnx::ModelProto parse_model(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  return model;
}

// A graph in the newest operator sets: "(float[8,3] x) => (float[8,4] y) <float[3,4] w> { … }".
inline onnx::ModelProto model_of(const std::string& graph, int opset = 21) {
  return parse_model("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) +
                     ", \"com.microsoft\" : 1, \"local\" : 1]>\ng " + graph);
}

inline Result<Workload> read_model(const onnx::ModelProto& model, const ReadOptions& options = {}) {
  return read_onnx_bytes(model.SerializeAsString(), "m.onnx", options);
}

// The workload of a graph that must be readable.
inline Workload read_graph(const std::string& graph, int opset = 21,
                           const ReadOptions& options = {}) {
  auto result = read_model(model_of(graph, opset), options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *result;
}

// The same of a graph that PyTorch's exporter wrote.
inline Workload read_export(const std::string& graph, int opset = 17,
                            const ReadOptions& options = {}) {
  onnx::ModelProto model = model_of(graph, opset);
  model.set_producer_name("pytorch");
  auto result = read_model(model, options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *result;
}

// An initializer without data, as large models keep theirs in other files.
inline void add_weight(onnx::ModelProto& model, const std::string& name,
                       const std::vector<std::int64_t>& dims, int type = onnx::TensorProto::FLOAT) {
  auto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const std::int64_t dim : dims) tensor->add_dims(dim);
}

// "kind dims" of every operation, one a line, without names.
inline std::string outline(const Workload& workload) {
  std::string text;
  for (const Op& op : workload.ops) {
    text += std::string(kind_name(op.body)) + " " + dims_text(op.body);
    if (op.count != 1) text += " count=" + std::to_string(op.count);
    text += "\n";
  }
  return text;
}

}  // namespace rooftile
