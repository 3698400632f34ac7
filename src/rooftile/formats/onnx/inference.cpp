#include "rooftile/formats/onnx/inference.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include <fmt/format.h>

#include "rooftile/formats/onnx/control_flow.h"
#include "rooftile/formats/onnx/evaluate.h"
#include "rooftile/formats/onnx/frame.h"
#include "rooftile/formats/onnx/node_context.h"
#include "rooftile/formats/onnx/origins.h"
#include "rooftile/formats/onnx/schemas.h"
#include "rooftile/formats/onnx/sorting.h"

namespace rooftile::onnx_format {

using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TypeProto;

ValueId find_value(const Frame& frame, std::string_view name) {
  for (const Frame* scope = &frame; scope != nullptr; scope = scope->parent) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  return kNoValue;
}

std::optional<Shape> known_shape(const TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return {};
  Shape shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return {};
    shape.push_back(dim.dim_value());
  }
  return shape;
}

namespace {

constexpr std::size_t kMaxExpandedNodes = 500'000;
constexpr int kMaxDepth = 40;         // functions and subgraphs in each other
constexpr int kMaxRank = 64;
constexpr std::size_t kMaxErrors = 50;  // messages kept; more say nothing new

// Ends inference from any depth; caught in infer_model().
struct Refusal {
  std::string message;
};

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

std::string function_id(const std::string& domain, const std::string& name,
                        const std::string& overload) {
  return normal_domain(domain) + ":" + name + ":" + overload;
}

template <class Proto>
Opsets opsets_of(const Proto& proto) {
  Opsets result;
  for (const auto& import : proto.opset_import()) {
    result[normal_domain(import.domain())] =
        static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, 1'000'000));
  }
  return result;
}

class Inferencer {
 public:
  Inferencer(const onnx::ModelProto& model, const ResolvedDimensions& dimensions,
             std::deque<NodeProto>& bound_nodes)
      : model_(model), dimensions_(dimensions), bound_nodes_(bound_nodes) {
    for (const auto& function : model.functions()) {
      functions_[function_id(function.domain(), function.name(), function.overload())] = &function;
    }
  }

  Inferred run() {
    const Opsets opsets = opsets_of(model_);
    Frame frame;
    frame.opsets = &opsets;
    frame.nodes = &result_.graph.nodes;
    add_inputs(model_.graph(), frame);
    run_graph(model_.graph(), frame);
    finish_outputs(frame);
    for (Slot& slot : slots_) result_.graph.values.push_back(finish(slot));
    connect();
    return std::move(result_);
  }

 private:
  ValueId add_value(const std::string& name) {
    slots_.emplace_back().value.name = name;
    return static_cast<ValueId>(slots_.size() - 1);
  }

  Slot& slot(ValueId id) { return slots_[static_cast<std::size_t>(id)]; }

  void add_inputs(const GraphProto& graph, Frame& frame) {
    for (const auto& input : graph.input()) {
      const ValueId id = add_value(input.name());
      frame.names[input.name()] = id;
      slot(id).value.graph_input = true;
      if (input.has_type()) set_type(slot(id), input.type());
    }
  }

  // The type with negative sizes, which some exporters write for unknown ones, made unknown.
  void set_type(Slot& target, const TypeProto& type) {
    target.type = type;
    target.has_type = type.value_case() != TypeProto::VALUE_NOT_SET;
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
    auto& shape = *target.type.mutable_tensor_type()->mutable_shape();
    if (shape.dim_size() > kMaxRank) {
      throw Refusal{fmt::format("value '{}' has {} dimensions; at most {} make sense",
                                target.value.name, shape.dim_size(), kMaxRank)};
    }
    for (auto& dim : *shape.mutable_dim()) {
      if (dim.has_dim_param()) {
        const auto size = declared_size(dim, dimensions_.symbols);
        if (size) dim.set_dim_value(*size);
      } else if (dim.has_dim_value() && dim.dim_value() < 0) {
        dim.clear_dim_value();
      }
    }
  }

  void add_initializer(const onnx::TensorProto& tensor, Frame& frame) {
    const ValueId id = add_value(tensor.name());
    frame.names[tensor.name()] = id;
    Slot& target = slot(id);
    target.value.origin = Origin::constant;
    target.value.root = id;
    TypeProto type;
    type.mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto* shape = type.mutable_tensor_type()->mutable_shape();
    for (const std::int64_t dim : tensor.dims()) {
      if (dim < 0) {
        throw Refusal{fmt::format("initializer '{}' has a dimension of {}", tensor.name(), dim)};
      }
      shape->add_dim()->set_dim_value(dim);
    }
    set_type(target, type);
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) target.tensor = &tensor;
  }

  void run_graph(const GraphProto& graph, Frame& frame) {
    for (const auto& tensor : graph.initializer()) add_initializer(tensor, frame);
    for (const auto& sparse : graph.sparse_initializer()) {
      const ValueId id = add_value(sparse.values().name());
      frame.names[sparse.values().name()] = id;
      slot(id).value.origin = Origin::constant;
    }
    for (const auto& info : graph.value_info()) frame.declared[info.name()] = &info.type();
    for (const auto& info : graph.output()) frame.declared[info.name()] = &info.type();
    if (is_sorted(graph)) {
      for (const NodeProto& node : graph.node()) process(node, frame);
      return;
    }
    const auto order = sorted_nodes(graph);
    if (!order) throw Refusal{"the operators of the graph form a cycle"};
    for (const int index : *order) process(graph.node(index), frame);
  }

  void process(const NodeProto& node, Frame& frame) {
    if (++expanded_ > kMaxExpandedNodes) {
      throw Refusal{fmt::format("more than {} nodes after opening functions", kMaxExpandedNodes)};
    }
    std::vector<ValueId> inputs;
    for (const auto& name : node.input()) inputs.push_back(read_value(name, frame));
    std::vector<ValueId> outputs;
    for (const auto& name : node.output()) outputs.push_back(write_value(name, frame));
    const auto function =
        functions_.find(function_id(node.domain(), node.op_type(), node.overload()));
    if (function != functions_.end()) {
      call(*function->second, node, inputs, outputs, frame);
    } else {
      infer(node, inputs, outputs, frame);
    }
  }

  ValueId read_value(const std::string& name, Frame& frame) {
    if (name.empty()) return kNoValue;
    const ValueId found = find_value(frame, name);
    if (found != kNoValue) return found;
    // Read before it is written: the file is not sorted, or the value was never there.
    const ValueId id = add_value(name);
    frame.names[name] = id;
    return id;
  }

  ValueId write_value(const std::string& name, Frame& frame) {
    if (name.empty()) return kNoValue;
    const auto bound = frame.bound_outputs.find(name);
    const ValueId id = bound != frame.bound_outputs.end() ? bound->second : add_value(name);
    frame.names[name] = id;
    return id;
  }

  // Opens a model-local function: its body runs in a scope of its own, on the caller's values.
  void call(const FunctionProto& function, const NodeProto& node,
            const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
            const Frame& caller) {
    if (caller.depth >= kMaxDepth || !active_.insert(&function).second) {
      throw Refusal{fmt::format("function '{}' calls itself", function.name())};
    }
    const Opsets opsets = opsets_of(function);
    Frame frame;
    frame.opsets = opsets.empty() ? caller.opsets : &opsets;
    frame.path = caller.path + (node.name().empty() ? node.op_type() : node.name()) + "/";
    frame.depth = caller.depth + 1;
    frame.nodes = caller.nodes;
    for (int i = 0; i < function.output_size() && i < static_cast<int>(outputs.size()); ++i) {
      const ValueId id = outputs[static_cast<std::size_t>(i)];
      if (id != kNoValue) frame.bound_outputs[function.output(i)] = id;
    }
    for (int i = 0; i < function.input_size() && i < static_cast<int>(inputs.size()); ++i) {
      const ValueId id = inputs[static_cast<std::size_t>(i)];
      if (id != kNoValue) frame.names[function.input(i)] = id;
    }
    for (const auto& info : function.value_info()) frame.declared[info.name()] = &info.type();
    const AttributeBinding binding = bind_attributes(function, node);
    for (const NodeProto& inner : function.node()) {
      process(bind_node(inner, binding, bound_nodes_), frame);
    }
    for (const auto& [name, id] : frame.bound_outputs) {
      const ValueId inside = find_value(frame, name);
      if (inside != id && inside != kNoValue) hand_through(inside, id);
    }
    active_.erase(&function);
  }

  // `to` is the same value as `from`, under another name.
  void hand_through(ValueId from, ValueId to) {
    const Slot& source = slot(from);
    Slot& target = slot(to);
    target.value.same_as = from;
    target.value.origin = source.value.origin;
    target.value.root = source.value.root;
    target.value.reordered = source.value.reordered;
    target.type = source.type;
    target.has_type = source.has_type;
    target.tensor = source.tensor;
    if (source.constant) target.constant = std::make_unique<Constant>(*source.constant);
  }

  const Constant* constant_of(ValueId id) {
    if (id == kNoValue) return nullptr;
    Slot& source = slot(id);
    if (!source.constant && source.tensor != nullptr && !source.parsed) {
      source.parsed = true;
      if (auto parsed = parse_tensor(*source.tensor)) {
        source.constant = std::make_unique<Constant>(std::move(*parsed));
      }
    }
    return source.constant.get();
  }

  std::vector<NodeInput> node_inputs(const std::vector<ValueId>& ids) {
    std::vector<NodeInput> result;
    for (const ValueId id : ids) {
      NodeInput& input = result.emplace_back();
      if (id == kNoValue) continue;
      input.present = true;
      const Slot& source = slot(id);
      if (source.has_type) input.type = &source.type;
      input.tensor = source.tensor;
      input.constant = source.constant.get();
    }
    return result;
  }

  void infer(const NodeProto& node, const std::vector<ValueId>& inputs,
             const std::vector<ValueId>& outputs, Frame& frame) {
    const std::string domain = normal_domain(node.domain());
    const auto version = frame.opsets->find(domain);
    const int opset = version == frame.opsets->end() ? 1 : version->second;
    SubgraphRuns runs;
    NodeContext context(node, node_inputs(inputs), [&](const auto& name, const auto& graph,
                                                       const auto& types) {
      return run_subgraph(graph, types, frame, runs[name]);
    });
    const bool inferred = call_library(node, domain, opset, context);
    const TypeProto nothing;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != kNoValue) {
        merge_type(node.output(static_cast<int>(i)), frame,
                   inferred ? *context.getOutputType(i) : nothing, slot(outputs[i]));
      }
    }
    if (domain.empty()) {
      check_reshape(node, inputs, outputs);
      compute(node, inputs, outputs);
    }
    settle(node, domain, opset, inputs, outputs, runs, frame);
  }

  // False when the library finds that the node does not fit its inputs.
  bool call_library(const NodeProto& node, const std::string& domain, int opset,
                    NodeContext& context) {
    try {
      const auto* schema = find_schema(node.op_type(), opset, domain);
      const onnx::InferenceFunction* function = nullptr;
      if (schema != nullptr && schema->has_type_and_shape_inference_function()) {
        schema->GetTypeAndShapeInferenceFunction()(context);
      } else if (schema == nullptr && (domain.empty() || domain == "com.microsoft")) {
        function = find_contrib_inference(node.op_type());
        if (function != nullptr) (*function)(context);
      }
      return true;
    } catch (const Refusal&) {
      throw;
    } catch (const std::exception& error) {
      // Without its inputs' types the node is not to blame.
      if (context.knows_inputs()) add_error(node, error.what());
      return false;
    }
  }

  static std::string display_name(const NodeProto& node) {
    if (!node.name().empty()) return node.name();
    return node.output_size() > 0 ? node.output(0) : std::string();
  }

  // Types from a subgraph of If, Loop or Scan.
  std::vector<const TypeProto*> run_subgraph(const GraphProto& graph,
                                             const std::vector<const TypeProto*>& input_types,
                                             const Frame& outer, SubgraphRun& run) {
    if (outer.depth >= kMaxDepth) throw Refusal{"subgraphs are nested too deeply"};
    run = {};
    Frame frame;
    frame.parent = &outer;
    frame.opsets = outer.opsets;
    frame.path = outer.path;
    frame.depth = outer.depth + 1;
    frame.nodes = &run.nodes;
    for (int i = 0; i < graph.input_size(); ++i) {
      const auto& input = graph.input(i);
      const ValueId id = add_value(input.name());
      frame.names[input.name()] = id;
      run.inputs.push_back(id);
      const auto at = static_cast<std::size_t>(i);
      const TypeProto* given = at < input_types.size() ? input_types[at] : nullptr;
      if (given != nullptr) set_type(slot(id), *given);
      else if (input.has_type()) set_type(slot(id), input.type());
    }
    run_graph(graph, frame);
    std::vector<const TypeProto*> types;
    for (const auto& output : graph.output()) {
      const ValueId id = find_value(frame, output.name());
      run.outputs.push_back(id);
      types.push_back(id != kNoValue && slot(id).has_type ? &slot(id).type : &output.type());
    }
    return types;
  }

  // The inferred type, completed by what the file declares.
  void merge_type(const std::string& name, const Frame& frame, const TypeProto& inferred,
                  Slot& target) {
    const auto found = frame.declared.find(name);
    if (inferred.value_case() != TypeProto::VALUE_NOT_SET) set_type(target, inferred);
    if (found == frame.declared.end()) return;
    const TypeProto& declared = *found->second;
    if (!target.has_type) {
      set_type(target, declared);
      if (!dimensions_.declared_shapes_hold && target.type.has_tensor_type()) {
        target.type.mutable_tensor_type()->clear_shape();
      }
      return;
    }
    if (!dimensions_.declared_shapes_hold || !target.type.has_tensor_type() ||
        !declared.has_tensor_type() || !declared.tensor_type().has_shape()) {
      return;
    }
    if (!target.type.tensor_type().has_shape()) {
      TypeProto completed = target.type;
      *completed.mutable_tensor_type()->mutable_shape() = declared.tensor_type().shape();
      set_type(target, completed);
    } else {
      fill_dims(declared.tensor_type().shape(), *target.type.mutable_tensor_type());
    }
  }

  void fill_dims(const onnx::TensorShapeProto& declared, onnx::TypeProto_Tensor& tensor) const {
    auto& shape = *tensor.mutable_shape();
    if (shape.dim_size() != declared.dim_size()) return;
    for (int i = 0; i < shape.dim_size(); ++i) {
      auto& dim = *shape.mutable_dim(i);
      if (dim.has_dim_value()) continue;
      if (const auto size = declared_size(declared.dim(i), dimensions_.symbols)) {
        dim.set_dim_value(*size);
      }
    }
  }

  // The library does not compare element counts; a reshape written for another batch shows here.
  void check_reshape(const NodeProto& node, const std::vector<ValueId>& inputs,
                     const std::vector<ValueId>& outputs) {
    if (node.op_type() != "Reshape" || inputs.empty() || outputs.empty() ||
        inputs[0] == kNoValue || outputs[0] == kNoValue) {
      return;
    }
    const auto before = known_shape(slot(inputs[0]).type);
    const auto after = known_shape(slot(outputs[0]).type);
    if (before && after && element_count(*before) != element_count(*after)) {
      add_error(node, fmt::format("{} elements reshaped to {}", element_count(*before),
                                  element_count(*after)));
    }
  }

  void add_error(const NodeProto& node, std::string_view message) {
    if (result_.errors.size() < kMaxErrors) {
      result_.errors.push_back(
          fmt::format("{} '{}': {}", node.op_type(), display_name(node), message));
    }
  }

  // Elements that are known before the network runs.
  void compute(const NodeProto& node, const std::vector<ValueId>& inputs,
               const std::vector<ValueId>& outputs) {
    if (node.op_type() == "Constant" && outputs.size() == 1 && outputs[0] != kNoValue) {
      set_constant_node(node, slot(outputs[0]));
      return;
    }
    std::vector<EvaluatedInput> evaluated;
    const bool measures = node.op_type() == "Shape" || node.op_type() == "Size";
    for (const ValueId id : inputs) {
      EvaluatedInput& input = evaluated.emplace_back();
      if (id == kNoValue) continue;
      const Slot& source = slot(id);
      if (!measures && source.value.origin == Origin::activation) return;
      if (!measures) input.constant = constant_of(id);
      if (source.has_type && source.type.has_tensor_type() &&
          source.type.tensor_type().has_shape()) {
        input.shape = &source.type.tensor_type().shape();
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNoValue) continue;
      Slot& target = slot(outputs[i]);
      if (auto constant = evaluate(node, evaluated, target.type, static_cast<int>(i))) {
        target.constant = std::make_unique<Constant>(std::move(*constant));
      }
    }
  }

  static void set_constant_node(const NodeProto& node, Slot& target) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_t() && attribute.t().data_location() != onnx::TensorProto::EXTERNAL) {
        target.tensor = &attribute.t();
      } else if (attribute.has_i()) {
        target.constant = std::make_unique<Constant>(
            Constant{{}, onnx::TensorProto::INT64, {static_cast<Number>(attribute.i())}});
      } else if (attribute.ints_size() > 0 &&
                 attribute.ints_size() <= static_cast<int>(kMaxConstantElements)) {
        Constant constant{{attribute.ints_size()}, onnx::TensorProto::INT64, {}};
        for (const std::int64_t element : attribute.ints()) {
          constant.elements.push_back(static_cast<Number>(element));
        }
        target.constant = std::make_unique<Constant>(std::move(constant));
      }
    }
  }

  // Decides what the node is: a computation of constants that is left out, control flow, or an
  // operator that runs.
  void settle(const NodeProto& node, const std::string& domain, int opset,
              const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
              SubgraphRuns& runs, Frame& frame) {
    std::vector<const Value*> read;
    for (const ValueId id : inputs) read.push_back(id == kNoValue ? nullptr : &slot(id).value);
    const bool has_subgraph = has_graph_attribute(node);
    const Origin origin = has_subgraph ? Origin::activation : origin_of(node, domain, read);
    bool runs_on_device = origin == Origin::activation;
    for (const ValueId id : outputs) {
      if (id == kNoValue) continue;
      Slot& target = slot(id);
      target.value.origin = origin;
      if (origin == Origin::shape_data && is_large_float(target.type)) {
        target.value.origin = Origin::activation;
        runs_on_device = true;
      }
      if (origin == Origin::constant) set_root(node, inputs, id, target.value);
    }
    if (has_subgraph) {
      open_control_flow(node, inputs, outputs, runs, frame);
      return;
    }
    if (!runs_on_device) {
      if (node.op_type() != "Constant") {
        ++result_.graph.skipped[origin == Origin::constant ? "constant folding"
                                                           : "shape computation"];
      }
      return;
    }
    Node made;
    made.proto = &node;
    made.name = node.name().empty() ? std::string() : frame.path + node.name();
    made.op = node.op_type();
    made.contrib = domain == "com.microsoft";
    made.standard = domain.empty();
    made.opset = opset;
    made.inputs = inputs;
    made.outputs = outputs;
    frame.nodes->push_back(std::move(made));
  }

  void set_root(const NodeProto& node, const std::vector<ValueId>& inputs, ValueId id,
                Value& target) {
    target.root = id;
    if (inputs.empty() || inputs[0] == kNoValue || !keeps_root(node.op_type())) return;
    const Value& source = slot(inputs[0]).value;
    if (source.root == kNoValue) return;
    target.root = source.root;
    target.reordered = source.reordered != (node.op_type() == "Transpose");
  }

  void open_control_flow(const NodeProto& node, const std::vector<ValueId>& inputs,
                         const std::vector<ValueId>& outputs, SubgraphRuns& runs, Frame& frame) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g() && runs.find(attribute.name()) == runs.end()) {
        run_subgraph(attribute.g(), {}, frame, runs[attribute.name()]);
      }
    }
    std::vector<std::optional<double>> numbers;
    std::vector<std::optional<Shape>> shapes;
    for (const ValueId id : inputs) {
      const Constant* constant = constant_of(id);
      const bool scalar = constant != nullptr && constant->elements.size() == 1 &&
                          is_known(constant->elements[0]);
      numbers.push_back(scalar ? std::optional(static_cast<double>(constant->elements[0]))
                               : std::nullopt);
      shapes.push_back(id == kNoValue ? std::nullopt : known_shape(slot(id).type));
    }
    ControlFlow flow = choose_control_flow(node, numbers, shapes, runs);
    if (!flow.note.empty()) result_.graph.notes.push_back(flow.note);
    for (const auto& [from, to] : flow.same(inputs, outputs)) {
      slot(to).value.same_as = from;
    }
    if (flow.run == nullptr) return;
    if (flow.scanned_from) set_scan_length(outputs, *flow.scanned_from, flow.repeat);
    for (Node& inner : flow.run->nodes) {
      inner.repeat = multiply_repeat(inner.repeat, flow.repeat);
      if (inner.repeat > 0) frame.nodes->push_back(std::move(inner));
    }
  }

  // The library leaves open how many rows a Loop collects; a known trip count says it.
  void set_scan_length(const std::vector<ValueId>& outputs, std::size_t first,
                       std::int64_t length) {
    for (std::size_t i = first; i < outputs.size(); ++i) {
      if (outputs[i] == kNoValue) continue;
      auto& type = slot(outputs[i]).type;
      if (!type.has_tensor_type() || type.tensor_type().shape().dim_size() == 0) continue;
      auto& dim = *type.mutable_tensor_type()->mutable_shape()->mutable_dim(0);
      if (!dim.has_dim_value()) dim.set_dim_value(length);
    }
  }

  void finish_outputs(Frame& frame) {
    for (const auto& output : model_.graph().output()) {
      const ValueId id = find_value(frame, output.name());
      Shape shape;
      if (id != kNoValue) {
        slot(id).value.graph_output = true;
        shape = known_shape(slot(id).type).value_or(Shape{});
      }
      result_.output_shapes.push_back(std::move(shape));
    }
  }

  Value finish(Slot& done) {
    Value value = std::move(done.value);
    if (done.type.has_tensor_type()) value.elem_type = done.type.tensor_type().elem_type();
    value.shape = known_shape(done.type);
    constexpr std::size_t kMaxNumbers = 64;
    if (!done.constant && done.tensor != nullptr && value.shape &&
        element_count(*value.shape) <= static_cast<double>(kMaxNumbers)) {
      if (auto parsed = parse_tensor(*done.tensor)) {
        done.constant = std::make_unique<Constant>(std::move(*parsed));
      }
    }
    if (done.constant && done.constant->elements.size() <= kMaxNumbers &&
        is_fully_known(*done.constant)) {
      value.has_numbers = true;
      for (const Number number : done.constant->elements) {
        value.numbers.push_back(static_cast<double>(number));
      }
    }
    return value;
  }

  void connect() {
    Graph& graph = result_.graph;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (id != kNoValue) {
          graph.values[static_cast<std::size_t>(id)].consumers.push_back(
              static_cast<std::int32_t>(i));
        }
      }
      for (const ValueId id : graph.nodes[i].outputs) {
        if (id != kNoValue) {
          graph.values[static_cast<std::size_t>(id)].producer = static_cast<std::int32_t>(i);
        }
      }
    }
  }

  const onnx::ModelProto& model_;
  const ResolvedDimensions& dimensions_;
  std::deque<NodeProto>& bound_nodes_;
  std::unordered_map<std::string, const FunctionProto*> functions_;
  std::unordered_set<const FunctionProto*> active_;
  std::deque<Slot> slots_;
  std::size_t expanded_ = 0;
  Inferred result_;
};

}  // namespace

Result<Inferred> infer_model(const onnx::ModelProto& model, const ResolvedDimensions& dimensions,
                             std::deque<NodeProto>& bound_nodes) {
  try {
    return Inferencer(model, dimensions, bound_nodes).run();
  } catch (const Refusal& refusal) {
    return fail(refusal.message);
  } catch (const std::exception& error) {
    return fail(fmt::format("the ONNX library failed on this file: {}", error.what()));
  }
}

}  // namespace rooftile::onnx_format
