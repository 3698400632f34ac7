// Calls of PyTorch's library that its exporter wrote out: the operations they become, and the
// notes.
#include <fmt/format.h>

#include <map>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/names.h"

namespace rooftile::onnx_reader_detail {

void Conversion::take_exported_calls() {
  for (ExportedCall& call : find_exported_calls(graph_)) {
    for (const std::int32_t node : call.nodes) fold(node);
    const std::int32_t last = call.nodes.back();
    calls_.emplace(last, std::move(call));
  }
}

void Conversion::add_call(const ExportedCall& call) {
  const Node& last = node(call.named_after >= 0 ? call.named_after : call.nodes.back());
  const std::size_t before = workload_.ops.size();
  Op& op =
      add(last, call.body, Dtypes(dtype(&value(call.reads.front()))), {call.writes, call.state});
  op.inputs = value_names(call.reads, true);
  op.dtypes.output = dtype(&value(call.writes));
  for (const std::int32_t index : call.nodes) count_parameters(node(index));
  drop_invalid(last, before);
}

namespace {

// "12 scaled_dot_product_attention, 24 gelu"; empty without any.
std::string list_calls(const std::unordered_map<std::int32_t, ExportedCall>& calls, bool by_model) {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& [last, call] : calls) {
    if (call.by_model == by_model) ++counts[call.name];
  }
  std::string list;
  for (const auto& [name, count] : counts) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, name);
  }
  return list;
}

}  // namespace

void Conversion::note_calls() {
  const std::string library = list_calls(calls_, false), model = list_calls(calls_, true);
  if (!library.empty()) {
    workload_.notes.push_back(
        fmt::format("{}: the exporter wrote these calls out in smaller operators; they are timed "
                    "as the kernels that PyTorch runs",
                    library));
  }
  if (!model.empty()) {
    workload_.notes.push_back(fmt::format(
        "{}: the model's code writes these functions out; they are timed as one kernel each, as "
        "torch.compile or the library's own call runs them; eager mode takes several",
        model));
  }
}

namespace {

// The newer exporter leaves the norm's call on the convolution that took it up; the older one names
// the weights and the bias that it computes by the operator.
bool holds_folded_norm(const Node& conv, const Value& weight) {
  return contains(library_call(conv), "batch_norm") ||
         (weight.name.starts_with("onnx::Conv_") && conv.inputs.size() > 2);
}

}  // namespace

void Conversion::note_folded_norms() {
  std::size_t folded = 0;
  for (const Node& node : graph_.nodes) {
    const Value* weight = input(node, 1);
    if (node.op == "BatchNormalization") return;
    if (node.op == "Conv" && weight != nullptr && holds_folded_norm(node, *weight)) ++folded;
  }
  if (folded == 0) return;
  workload_.notes.push_back(fmt::format(
      "no BatchNorm in this file: the exporter folded {} into convolutions; a training step runs "
      "them forward and backward, so time and memory here are lower bounds (export the model in "
      "training mode to keep them)",
      folded));
}

}  // namespace rooftile::onnx_reader_detail
