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
  for (ExportedCall& call :
       pytorch_ ? find_exported_calls(graph_) : find_written_out_functions(graph_)) {
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
  if (!pytorch_) return note_functions();
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

void Conversion::note_functions() {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& [last, call] : calls_) ++counts[call.name];
  if (counts.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) names.push_back(fmt::format("{} {}", count, name));
  workload_.notes.push_back(
      fmt::format("{}: written out in smaller operators; they are timed as one kernel each, as "
                  "TensorRT and ONNX Runtime fuse them",
                  join(names, ", ")));
}

namespace {

// The newer exporter leaves the norm's call on the convolution that took it up; the older one names
// the weights and the bias that it computes by the operator.
bool holds_folded_norm(const Node& conv, const Value& weight, const Value* bias) {
  if (contains(library_call(conv), "batch_norm")) return true;
  return weight.name.starts_with("onnx::Conv_") && bias != nullptr &&
         bias->name.starts_with("onnx::Conv_");
}

}  // namespace

// A file with a BatchNorm was exported as it trains.
void Conversion::find_folded_norms() {
  for (const Node& node : graph_.nodes) {
    if (node.op == "BatchNormalization") {
      normed_.clear();
      return;
    }
    const Value* weight = input(node, 1);
    if (node.op == "Conv" && weight != nullptr && input(node, 2) != nullptr &&
        holds_folded_norm(node, *weight, input(node, 2))) {
      normed_.insert(&node);
    }
  }
}

// Behind the convolution among the operations from `first` on, in place of its bias: a scale and a
// shift for each channel.
void Conversion::put_back_norm(const Node& conv, std::size_t first) {
  const auto shape = output_shape(conv, 0);
  if (workload_.ops.size() != first + 1 || !shape) return;
  auto* body = std::get_if<Convolution>(&workload_.ops.back().body);
  if (body == nullptr || !body->bias) return;
  body->bias = false;
  Op norm = workload_.ops.back();
  norm.name += ".batch_norm";
  norm.body = Normalization{NormKind::batch, product(*shape) / body->k, body->k};
  norm.dtypes = Dtypes(norm.dtypes.output);
  workload_.ops.back().outputs = {norm.name + "_input"};
  norm.inputs = workload_.ops.back().outputs;
  folded_parameters_ += static_cast<double>(body->k);
  workload_.ops.push_back(std::move(norm));
}

void Conversion::note_folded_norms() {
  if (normed_.empty()) return;
  workload_.notes.push_back(fmt::format(
      "the exporter folded {} BatchNorm into convolutions; a training step runs them, so they are "
      "put back, and the biases that stand for them are left out (a model exported in training "
      "mode "
      "keeps them)",
      normed_.size()));
}

}  // namespace rooftile::onnx_reader_detail
