#include "rooftile/readers/onnx/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/element_types.h"
#include "rooftile/readers/onnx/handlers.h"
#include "rooftile/readers/onnx/names.h"
#include "rooftile/workload/validate.h"

namespace rooftile::onnx_reader_detail {

using onnx_format::element_count;
using onnx_format::kNoValue;
using onnx_format::Origin;

namespace {

// Operator and node names of hostile files end up in notes and counts.
void clean_texts(Workload& workload) {
  for (std::string& note : workload.notes) note = printable(note);
  std::map<std::string, std::int64_t> skipped;
  for (const auto& [name, count] : workload.skipped) skipped[printable(name)] += count;
  workload.skipped = std::move(skipped);
}

}  // namespace

Conversion::Conversion(const Graph& graph, std::string file)
    : graph_(graph),
      file_(std::move(file)),
      folded_(graph.nodes.size(), false),
      quantized_(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                             [](const Node& node) { return node.op == "QuantizeLinear"; })),
      pytorch_(is_pytorch_export(graph)) {
  alias_.reserve(graph.values.size());
  for (const Value& value : graph.values) alias_.push_back(value.same_as);
}

Workload Conversion::run(Mode mode) {
  workload_.sources = {file_};
  workload_.skipped = graph_.skipped;
  workload_.notes = graph_.notes;
  workload_.unused_options = graph_.unused_choices;
  if (graph_.batch.value_or(kMaxSize) < kMaxSize) workload_.batch = graph_.batch;
  if (graph_.sequence.value_or(kMaxSize) < kMaxSize) workload_.sequence = graph_.sequence;
  workload_.graph = pytorch_ ? GraphKind::pytorch : GraphKind::runtime;
  if (!quantized_) take_exported_calls();
  if (pytorch_ && mode == Mode::training) find_folded_norms();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const auto call = calls_.find(static_cast<std::int32_t>(i));
    if (call != calls_.end()) add_call(call->second);
    if (!folded_[i]) convert(graph_.nodes[i]);
  }
  note_calls();
  note_folded_norms();
  if (quantized_) {
    workload_.notes.emplace_back(
        "a quantized graph: operations between DequantizeLinear and QuantizeLinear run in "
        "integers, with the activation behind them, as runtimes fuse them");
  }
  if (workload_.ops.empty() && workload_.skipped.empty()) {
    workload_.notes.push_back("the graph computes constants alone; there is nothing to run");
  }
  clean_texts(workload_);
  double parameters = folded_parameters_;
  for (const ValueId id : parameters_) {
    if (value(id).shape) parameters += element_count(*value(id).shape);
  }
  if (parameters < 9e18) workload_.parameters = static_cast<std::int64_t>(parameters);
  return std::move(workload_);
}

void Conversion::convert(const Node& node) {
  const Handler handler = find_handler(node);
  const std::size_t before = workload_.ops.size();
  const Outcome outcome = is_epilogue(node)    ? convert_view(*this, node)
                          : handler != nullptr ? handler(*this, node)
                                               : Outcome::unsupported;
  if (outcome == Outcome::unknown_shape) {
    ++workload_.skipped[fmt::format("unknown shape: {}", node.op)];
  } else if (outcome == Outcome::unsupported) {
    ++workload_.skipped[fmt::format("operator without a cost model: {}", node.op)];
    double moved = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) moved += bytes(input(node, i));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) moved += bytes(output(node, i));
    const auto whole = static_cast<std::int64_t>(std::min(moved, 1e15));
    add(node, Other{node.op.empty() ? "unnamed" : printable(node.op), 0, whole},
        simple_dtypes(node));
  }
  if (normed_.contains(&node)) put_back_norm(node, before);
  drop_invalid(node, before);
  if (outcome != Outcome::unknown_shape) count_parameters(node);
}

void Conversion::drop_invalid(const Node& node, std::size_t first) {
  for (std::size_t i = first; i < workload_.ops.size();) {
    const auto problem = find_invalid_dim(workload_.ops[i]);
    if (!problem) {
      ++i;
      continue;
    }
    ++workload_.skipped[fmt::format("sizes out of range: {}", node.op)];
    workload_.ops.erase(workload_.ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

const Value* Conversion::input(const Node& node, std::size_t index) const {
  if (index >= node.inputs.size() || node.inputs[index] == kNoValue) return nullptr;
  return &value(node.inputs[index]);
}

const Value* Conversion::output(const Node& node, std::size_t index) const {
  if (index >= node.outputs.size() || node.outputs[index] == kNoValue) return nullptr;
  return &value(node.outputs[index]);
}

namespace {

std::optional<Shape> usable_shape(const Value* value) {
  if (value == nullptr || !value->shape) return {};
  if (std::find(value->shape->begin(), value->shape->end(), 0) != value->shape->end()) return {};
  if (element_count(*value->shape) > kMaxElements) return {};
  return value->shape;
}

}  // namespace

std::optional<Shape> Conversion::input_shape(const Node& node, std::size_t index) const {
  return usable_shape(input(node, index));
}

std::optional<Shape> Conversion::output_shape(const Node& node, std::size_t index) const {
  return usable_shape(output(node, index));
}

bool Conversion::is_constant(const Node& node, std::size_t index) const {
  const Value* found = input(node, index);
  return found != nullptr && found->origin == Origin::constant;
}

Dtype Conversion::dtype(const Value* found) const {
  return dtype_of(found == nullptr ? 0 : found->elem_type).value_or(Dtype::fp32);
}

Dtype Conversion::stored_dtype(const Node& node, std::size_t index) const {
  const Value* found = input(node, index);
  const Dtype own = dtype(found);
  if (found == nullptr) return own;
  if (const auto read = dequantized_behind(node.inputs[index])) return *read;
  if (found->root == kNoValue) return own;
  const Dtype stored = dtype(&value(found->root));
  return info(stored).bits < info(own).bits ? stored : own;
}

Dtypes Conversion::matrix_dtypes(const Node& node, std::size_t x, std::size_t w) const {
  const Dtype weight = stored_dtype(node, w);
  Dtype read = stored_dtype(node, x);
  // Dequantized activations are multiplied as integers only with integer weights.
  if (info(weight).bits > 8) read = dtype(input(node, x));
  return {read, weight, written_dtype(node)};
}

Dtypes Conversion::simple_dtypes(const Node& node) const {
  Dtype in = dtype(input(node, 0));
  if (!node.inputs.empty() && node.inputs[0] != kNoValue) {
    in = dequantized_behind(node.inputs[0]).value_or(in);
  }
  return {in, in, output(node, 0) == nullptr ? in : written_dtype(node)};
}

double Conversion::bytes(const Value* found) const {
  const auto shape = usable_shape(found);
  return shape ? storage(element_count(*shape), dtype(found)).value() : 0.0;
}

Op& Conversion::add(const Node& node, Body body, Dtypes dtypes) {
  return add(node, std::move(body), dtypes, node.outputs);
}

Op& Conversion::add(const Node& node, Body body, Dtypes dtypes,
                    const std::vector<ValueId>& writes) {
  Op op;
  op.name = unique_op_name(node);
  op.body = std::move(body);
  op.dtypes = dtypes;
  op.count = node.repeat;
  op.inputs = value_names(node.inputs, true);
  op.outputs = value_names(writes, false);
  op.source.file = file_;
  op.source.node = printable(node.name);
  op.source.module = module_of(node);
  return workload_.ops.emplace_back(std::move(op));
}

void Conversion::view(const Node& node) {
  if (node.inputs.empty()) return;
  for (const ValueId id : node.outputs) alias(id, node.inputs[0]);
}

void Conversion::alias(ValueId to, ValueId from) {
  if (to != kNoValue && from != kNoValue && to != from) alias_[static_cast<std::size_t>(to)] = from;
}

void Conversion::fold(std::int32_t node_index) {
  folded_[static_cast<std::size_t>(node_index)] = true;
}

std::int32_t Conversion::sole_consumer(ValueId id) const {
  if (id == kNoValue) return -1;
  const Value& made = value(id);
  return made.consumers.size() == 1 && !made.graph_output ? made.consumers[0] : -1;
}

// Aliases made by hostile loops could form a ring; no honest chain is this long.
ValueId Conversion::resolve(ValueId id) const {
  constexpr int kMaxChain = 10'000;
  for (int i = 0; i < kMaxChain && alias_[static_cast<std::size_t>(id)] != kNoValue; ++i) {
    id = alias_[static_cast<std::size_t>(id)];
  }
  return id;
}

std::vector<std::string> Conversion::value_names(const std::vector<ValueId>& ids,
                                                 bool activations_only) {
  std::vector<std::string> names;
  for (const ValueId id : ids) {
    if (id == kNoValue) continue;
    const ValueId source = resolve(id);
    if (activations_only && value(source).origin != Origin::activation) continue;
    names.push_back(unique_value_name(source));
  }
  return names;
}

// Functions that are called twice use the same names inside.
const std::string& Conversion::unique_value_name(ValueId id) {
  std::string& name = value_names_[id];
  if (!name.empty()) return name;
  name = printable(value(id).name);
  if (name.empty()) name = "value";
  if (!used_values_.insert(name).second) {
    name += fmt::format("#{}", id);
    used_values_.insert(name);
  }
  return name;
}

std::string Conversion::unique_op_name(const Node& node) {
  std::string name = printable(node.name);
  for (const ValueId id : node.outputs) {
    if (name.empty() && id != kNoValue) name = printable(value(id).name);
  }
  if (name.empty()) name = node.op.empty() ? "operator" : printable(node.op);
  if (used_ops_.insert(name).second) return name;
  for (int i = 2;; ++i) {
    std::string candidate = fmt::format("{}#{}", name, i);
    if (used_ops_.insert(candidate).second) return candidate;
  }
}

std::string Conversion::module_of(const Node& node) const {
  std::string module = module_of_scopes(node);
  if (module.empty()) module = module_of_path(node.name);
  for (std::size_t i = 0; module.empty() && i < node.inputs.size(); ++i) {
    const Value* read = input(node, i);
    if (read == nullptr || read->root == kNoValue) continue;
    module = module_of_parameter(value(read->root).name);
  }
  return printable(module);
}

void Conversion::count_parameter(const Node& node, std::size_t index) {
  const Value* read = input(node, index);
  if (read == nullptr || read->origin != Origin::constant || read->root == kNoValue) return;
  const Value& stored = value(read->root);
  const bool counts = (is_float(stored.elem_type) || is_quantized(stored.elem_type)) &&
                      !is_position_table(stored.name);
  if (counts && stored.shape && element_count(*stored.shape) > 1) parameters_.insert(read->root);
}

namespace {

// [1, 1, n, n], as the buffers of decoders hold their triangle.
bool is_square_mask(const Value& value) {
  if (!value.shape || value.shape->size() < 4) return false;
  const Shape& shape = *value.shape;
  const auto n = static_cast<double>(shape.back());
  return n > 1 && shape[shape.size() - 2] == shape.back() && element_count(shape) == n * n;
}

// Operators whose constant operand is a weight whatever its name; others add, scale or move tables
// and masks as well.
bool has_weights(const Node& node) {
  const Handler handler = find_handler(node);
  return handler != nullptr && handler != convert_elementwise && handler != convert_movement &&
         handler != convert_reduction && handler != convert_softmax && handler != convert_cast;
}

}  // namespace

// Constant inputs of operators that are settings, not weights.
void Conversion::count_parameters(const Node& node) {
  constexpr std::array<std::string_view, 9> kSettings{
      "Resize",           "Upsample", "Clip",           "Pad", "OneHot", "QuantizeLinear",
      "DequantizeLinear", "Range",    "ConstantOfShape"};
  if (std::find(kSettings.begin(), kSettings.end(), node.op) != kSettings.end()) return;
  const bool weighted = has_weights(node);
  // Running statistics are no parameters.
  const std::size_t last = node.op == "BatchNormalization" ? 3 : node.inputs.size();
  for (std::size_t i = 0; i < std::min(last, node.inputs.size()); ++i) {
    if (weighted || is_trained(node, i)) count_parameter(node, i);
  }
}

// Of a constant operand of an operator that needs no weights: a stored tensor that is neither a
// mask nor a table. PyTorch names its parameters by their modules, and what its exporters fold by
// the operator.
bool Conversion::is_trained(const Node& node, std::size_t index) const {
  const Value* read = input(node, index);
  if (read == nullptr || read->root == kNoValue || !value(read->root).stored) return false;
  if (is_square_mask(value(read->root))) return false;
  constexpr std::array<std::string_view, 6> kMasks{"Where", "And",     "Equal",
                                                   "Less",  "Greater", "LessOrEqual"};
  if (is_one_of(node.op, kMasks)) return false;
  const std::int32_t next = node.outputs.empty() ? -1 : sole_consumer(node.outputs[0]);
  if (node.op == "Add" && next >= 0 && this->node(next).op == "Softmax") return false;
  return graph_.producer != "pytorch" || is_parameter_name(value(read->root).name);
}

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < last && i < shape.size(); ++i) result *= shape[i];
  return result;
}

std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kLargest = 1'000'000'000'000'000'000;
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) || result > kLargest ? kLargest : result;
}

std::int64_t product(const Shape& shape) { return product(shape, 0, shape.size()); }

std::optional<std::size_t> normal_axis(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
  return static_cast<std::size_t>(axis);
}

}  // namespace rooftile::onnx_reader_detail
