// Calls of PyTorch's library that its exporter writes out in smaller operators: attention,
// activations, norms. Eager mode runs each in one kernel. Models write out some of them themselves.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/formats/onnx/graph.h"
#include "rooftile/workload/op.h"

namespace rooftile::onnx_reader_detail {

struct ExportedCall {
  std::string_view name;  // "scaled_dot_product_attention"
  Body body;
  std::vector<std::int32_t> nodes;  // indexes, in order; nothing else reads what they pass on
  std::vector<onnx_format::ValueId> reads;
  onnx_format::ValueId writes = onnx_format::kNoValue;
  onnx_format::ValueId state = onnx_format::kNoValue;  // of a recurrent cell, its second result
  std::int32_t named_after = -1;  // the node that gives the operation its name; -1 = the last
  bool by_model = false;          // the model's code writes it out, so eager mode runs it in pieces
};

// Whether PyTorch's exporter wrote the graph and nothing has changed it since: a graph with
// operators of a runtime, or with quantization, is no longer what PyTorch runs.
bool is_pytorch_export(const onnx_format::Graph& graph);

// Of such a graph. No node belongs to two calls.
std::vector<ExportedCall> find_exported_calls(const onnx_format::Graph& graph);

// Activations and norms that a graph of any producer writes out: each is one kernel of a runtime.
std::vector<ExportedCall> find_written_out_functions(const onnx_format::Graph& graph);

}  // namespace rooftile::onnx_reader_detail
