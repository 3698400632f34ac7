#include "rooftile/formats/onnx/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "rooftile/formats/onnx/compute.h"
#include "rooftile/formats/onnx/control_flow.h"
#include "rooftile/formats/onnx/frame.h"
#include "rooftile/formats/onnx/functions.h"
#include "rooftile/formats/onnx/masks.h"
#include "rooftile/formats/onnx/node_context.h"
#include "rooftile/formats/onnx/origins.h"
#include "rooftile/formats/onnx/rebatch.h"
#include "rooftile/formats/onnx/schemas.h"
#include "rooftile/formats/onnx/sorting.h"
#include "rooftile/formats/onnx/values.h"

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

namespace {

constexpr std::size_t kMaxExpandedNodes = 500'000;
constexpr std::size_t kMaxErrors = 50;  // messages kept; more say nothing new

template <class Proto>
Opsets opsets_of(const Proto& proto) {
  Opsets result;
  for (const auto& import : proto.opset_import()) {
    result[normal_domain(import.domain())] =
        static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, 1'000'000));
  }
  return result;
}

bool has_arity(const onnx::OpSchema& schema, const NodeProto& node) {
  return node.input_size() >= schema.min_input() && node.input_size() <= schema.max_input() &&
         node.output_size() >= schema.min_output() && node.output_size() <= schema.max_output();
}

class Inferencer {
 public:
  Inferencer(const onnx::ModelProto& model, const ResolvedDimensions& dimensions,
             std::deque<NodeProto>& bound_nodes)
      : model_(model), bound_nodes_(bound_nodes), values_(dimensions), functions_(model) {}

  Inferred run() {
    const Opsets opsets = opsets_of(model_);
    Frame frame;
    frame.opsets = &opsets;
    frame.nodes = &result_.graph.nodes;
    add_inputs(model_.graph(), frame);
    run_graph(model_.graph(), frame);
    finish_outputs(frame);
    result_.graph.values = values_.take();
    connect(result_.graph);
    return std::move(result_);
  }

 private:
  void add_inputs(const GraphProto& graph, Frame& frame) {
    for (const auto& input : graph.input()) {
      const ValueId id = values_.add(input.name());
      frame.names[input.name()] = id;
      values_.slot(id).value.graph_input = true;
      if (input.has_type()) values_.set_type(values_.slot(id), input.type());
    }
  }

  void run_graph(const GraphProto& graph, Frame& frame) {
    for (const auto& tensor : graph.initializer()) frame.names[tensor.name()] = values_.add(tensor);
    for (const auto& sparse : graph.sparse_initializer()) {
      const ValueId id = values_.add(sparse.values().name());
      frame.names[sparse.values().name()] = id;
      values_.slot(id).value.origin = Origin::constant;
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
    ++expanded_;
    refuse_more_than_limit(0);
    std::vector<ValueId> inputs;
    for (const auto& name : node.input()) inputs.push_back(read_value(name, frame));
    std::vector<ValueId> outputs;
    for (const auto& name : node.output()) outputs.push_back(write_value(name, frame));
    if (const FunctionProto* function = functions_.find(node)) {
      call(*function, node, inputs, outputs, frame);
    } else {
      infer(node, inputs, outputs, frame);
    }
  }

  ValueId read_value(const std::string& name, Frame& frame) {
    if (name.empty()) return kNoValue;
    const ValueId found = find_value(frame, name);
    if (found != kNoValue) return found;
    // Read before it is written: the file is not sorted, or the value was never there.
    const ValueId id = values_.add(name);
    frame.names[name] = id;
    return id;
  }

  ValueId write_value(const std::string& name, Frame& frame) {
    if (name.empty()) return kNoValue;
    const auto bound = frame.bound_outputs.find(name);
    const ValueId id = bound != frame.bound_outputs.end() ? bound->second : values_.add(name);
    frame.names[name] = id;
    return id;
  }

  void refuse_more_than_limit(std::size_t further_nodes) const {
    if (expanded_ + further_nodes > kMaxExpandedNodes) {
      throw Refusal{fmt::format("more than {} nodes after opening functions", kMaxExpandedNodes)};
    }
  }

  // Opens a model-local function: its body runs in a scope of its own, on the caller's values.
  void call(const FunctionProto& function, const NodeProto& node,
            const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
            const Frame& caller) {
    if (caller.depth >= kMaxFunctionDepth || !active_.insert(&function).second) {
      throw Refusal{fmt::format("function '{}' calls itself", function.name())};
    }
    refuse_more_than_limit(functions_.opened_nodes(function, kMaxExpandedNodes));
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
      if (inside != id && inside != kNoValue) values_.hand_through(inside, id);
    }
    active_.erase(&function);
  }

  void infer(const NodeProto& node, const std::vector<ValueId>& inputs,
             const std::vector<ValueId>& outputs, Frame& frame) {
    const std::string domain = normal_domain(node.domain());
    const auto version = frame.opsets->find(domain);
    const int opset = version == frame.opsets->end() ? 1 : version->second;
    SubgraphRuns runs;
    NodeContext context(node, values_.node_inputs(inputs),
                        [&](const auto& name, const auto& graph, const auto& types) {
                          return run_subgraph(graph, types, inputs, frame, runs[name]);
                        });
    const bool inferred = call_library(node, domain, opset, context);
    const TypeProto nothing;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != kNoValue) {
        const auto declared = frame.declared.find(node.output(static_cast<int>(i)));
        values_.merge_type(inferred ? *context.getOutputType(i) : nothing,
                           declared == frame.declared.end() ? nullptr : declared->second,
                           values_.slot(outputs[i]));
      }
    }
    if (domain.empty()) {
      follow_batch(node, inputs, outputs, values_);
      if (const auto problem = find_wrong_reshape(node, inputs, outputs, values_)) {
        add_error(node, *problem);
      }
      compute_constants(node, inputs, outputs, values_);
    }
    settle(node, domain, opset, inputs, outputs, runs, frame);
  }

  // False when the library finds that the node does not fit its inputs.
  bool call_library(const NodeProto& node, const std::string& domain, int opset,
                    NodeContext& context) {
    try {
      const auto* schema = find_schema(node.op_type(), opset, domain);
      const onnx::InferenceFunction* function = nullptr;
      // Some inference functions assert what they expect.
      if (schema != nullptr && !has_arity(*schema, node)) {
        add_error(node, fmt::format("{} inputs and {} outputs are not what the operator takes",
                                    node.input_size(), node.output_size()));
        return false;
      }
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
                                             const std::vector<ValueId>& node_inputs,
                                             const Frame& outer, SubgraphRun& run) {
    if (outer.depth >= kMaxFunctionDepth) throw Refusal{"subgraphs are nested too deeply"};
    run = {};
    Frame frame;
    frame.parent = &outer;
    frame.opsets = outer.opsets;
    frame.path = outer.path;
    frame.depth = outer.depth + 1;
    frame.nodes = &run.nodes;
    for (int i = 0; i < graph.input_size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const ValueId id = values_.add(graph.input(i).name());
      frame.names[graph.input(i).name()] = id;
      run.inputs.push_back(id);
      const bool aligned = static_cast<int>(node_inputs.size()) == graph.input_size();
      values_.set_subgraph_input(at < input_types.size() ? input_types[at] : nullptr,
                                 graph.input(i), aligned ? node_inputs[at] : kNoValue, id);
    }
    run_graph(graph, frame);
    std::vector<const TypeProto*> types;
    for (const auto& output : graph.output()) {
      const ValueId id = find_value(frame, output.name());
      run.outputs.push_back(id);
      if (id != kNoValue) values_.slot(id).value.graph_output = true;
      types.push_back(id != kNoValue && values_.slot(id).has_type ? &values_.slot(id).type
                                                                  : &output.type());
    }
    return types;
  }

  void add_error(const NodeProto& node, std::string_view message) {
    if (result_.errors.size() < kMaxErrors) {
      result_.errors.push_back(
          fmt::format("{} '{}': {}", node.op_type(), display_name(node), message));
    }
  }

  // Decides what the node is: a computation of constants that is left out, control flow, or an
  // operator that runs.
  void settle(const NodeProto& node, const std::string& domain, int opset,
              const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
              SubgraphRuns& runs, Frame& frame) {
    std::vector<const Value*> read;
    for (const ValueId id : inputs)
      read.push_back(id == kNoValue ? nullptr : &values_.slot(id).value);
    const bool has_subgraph = has_graph_attribute(node);
    const Origin origin = has_subgraph ? Origin::activation : origin_of(node, domain, read);
    bool runs_on_device = origin == Origin::activation;
    const bool is_mask = !has_subgraph && may_compute_mask(node.op_type()) &&
                         hides_later_keys(node, values_.mask_inputs(inputs));
    for (const ValueId id : outputs) {
      if (id == kNoValue) continue;
      Slot& target = values_.slot(id);
      target.value.origin = origin;
      target.value.hides_later_keys = is_mask;
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
    if (!runs_on_device || outputs.empty()) {
      if (node.op_type() != "Constant") ++result_.graph.skipped[skip_reason(origin)];
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
    const Value& source = values_.slot(inputs[0]).value;
    if (source.root == kNoValue) return;
    target.root = source.root;
    target.reordered = source.reordered != (node.op_type() == "Transpose");
  }

  void open_control_flow(const NodeProto& node, const std::vector<ValueId>& inputs,
                         const std::vector<ValueId>& outputs, SubgraphRuns& runs, Frame& frame) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g() && runs.find(attribute.name()) == runs.end()) {
        run_subgraph(attribute.g(), {}, inputs, frame, runs[attribute.name()]);
      }
    }
    std::vector<std::optional<double>> numbers;
    std::vector<std::optional<Shape>> shapes;
    for (const ValueId id : inputs) {
      numbers.push_back(values_.scalar(id));
      shapes.push_back(values_.shape(id));
    }
    ControlFlow flow = choose_control_flow(node, numbers, shapes, runs);
    if (!flow.note.empty()) result_.graph.notes.push_back(flow.note);
    for (const auto& [from, to] : flow.same(inputs, outputs)) {
      values_.slot(to).value.same_as = from;
    }
    if (flow.run == nullptr) return;
    if (flow.scanned_from) values_.set_leading_size(outputs, *flow.scanned_from, flow.repeat);
    for (Node& inner : flow.run->nodes) {
      inner.repeat = multiply_repeat(inner.repeat, flow.repeat);
      if (inner.repeat > 0) frame.nodes->push_back(std::move(inner));
    }
  }

  void finish_outputs(Frame& frame) {
    for (const auto& output : model_.graph().output()) {
      const ValueId id = find_value(frame, output.name());
      Shape shape;
      if (id != kNoValue) {
        values_.slot(id).value.graph_output = true;
        shape = values_.shape(id).value_or(Shape{});
      }
      result_.output_shapes.push_back(std::move(shape));
    }
  }

  const onnx::ModelProto& model_;
  std::deque<NodeProto>& bound_nodes_;
  Values values_;
  Functions functions_;
  std::unordered_set<const FunctionProto*> active_;
  std::size_t expanded_ = 0;
  Inferred result_;
};

}  // namespace

Result<Inferred> infer_model(Graph::Storage& storage, const ResolvedDimensions& dimensions) {
  try {
    auto inferencer = std::make_shared<Inferencer>(storage.model, dimensions, storage.bound_nodes);
    storage.inference = inferencer;
    return inferencer->run();
  } catch (const Refusal& refusal) {
    return fail(refusal.message);
  } catch (const std::exception& error) {
    return fail(fmt::format("the ONNX library failed on this file: {}", error.what()));
  }
}

}  // namespace rooftile::onnx_format
