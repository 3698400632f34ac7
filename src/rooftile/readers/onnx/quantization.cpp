// Quantized graphs: what runs between DequantizeLinear and QuantizeLinear reads and writes
// integers.
#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"

namespace rooftile::onnx_reader_detail {

using onnx_format::kNoValue;

namespace {

// A Reshape, a Transpose and another Reshape; longer ways are not worth following.
constexpr int kMaxViews = 4;
constexpr std::array<std::string_view, 6> kViews{"Reshape", "Transpose", "Flatten",
                                                 "Squeeze", "Unsqueeze", "Identity"};

}  // namespace

std::optional<Dtype> Conversion::dequantized_behind(ValueId id) const {
  for (int step = 0; step < kMaxViews; ++step) {
    const auto read = dequantized.find(id);
    if (read != dequantized.end()) return read->second;
    const std::int32_t producer = value(id).producer;
    if (producer < 0) return {};
    const Node& view = node(producer);
    if (!is_one_of(view.op, kViews) || view.inputs.empty()) return {};
    id = view.inputs[0];
    if (id == kNoValue) return {};
  }
  return {};
}

Dtype Conversion::written_dtype(const Node& node) const {
  const Value* written = output(node, 0);
  const Dtype own = dtype(written);
  for (int step = 0; quantized_ && step < kMaxViews && written != nullptr; ++step) {
    const auto& readers = written->consumers;
    if (written->graph_output || readers.empty()) return own;
    const Node& first = this->node(readers.front());
    const bool all_quantize = std::all_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
      return this->node(reader).op == "QuantizeLinear";
    });
    if (all_quantize) return dtype(output(first, 0));
    if (readers.size() > 1 || (!is_one_of(first.op, kViews) && !is_epilogue(first))) return own;
    written = output(first, 0);
  }
  return own;
}

bool Conversion::is_epilogue(const Node& node) const {
  constexpr std::array<std::string_view, 6> kActivations{"Relu",      "Clip",    "LeakyRelu",
                                                         "HardSwish", "Sigmoid", "Tanh"};
  if (!quantized_) return false;
  const bool norm = node.op == "BatchNormalization";
  if (!norm && !is_one_of(node.op, kActivations)) return false;
  std::int32_t before = sole_producer(node);
  // The norm is between the two.
  if (!norm && before >= 0 && this->node(before).op == "BatchNormalization") {
    before = sole_producer(this->node(before));
  }
  constexpr std::array<std::string_view, 4> kMatrix{"Conv", "MatMul", "Gemm", "ConvTranspose"};
  return before >= 0 && is_one_of(this->node(before).op, kMatrix);
}

// What computes the node's first input for this node alone.
std::int32_t Conversion::sole_producer(const Node& node) const {
  if (node.inputs.empty() || sole_consumer(node.inputs[0]) < 0) return -1;
  return value(node.inputs[0]).producer;
}

}  // namespace rooftile::onnx_reader_detail
