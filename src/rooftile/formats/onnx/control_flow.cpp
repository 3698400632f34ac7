#include "rooftile/formats/onnx/control_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace rooftile::onnx_format {
namespace {

using onnx::NodeProto;
using Numbers = std::vector<std::optional<double>>;
using Shapes = std::vector<std::optional<Shape>>;

constexpr std::int64_t kMaxRepeat = 1'000'000'000;

std::string name_of(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : std::string("?");
}

std::int64_t integer(const NodeProto& node, std::string_view name, std::int64_t fallback) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return fallback;
}

// Matrix operators first, then all: what makes one branch larger than another.
std::pair<std::int64_t, std::size_t> weight_of(const SubgraphRun& run) {
  constexpr std::array<std::string_view, 8> kMatrix{"Conv", "MatMul", "Gemm",      "LSTM",
                                                    "GRU",  "RNN",    "Attention", "ConvTranspose"};
  const auto matrix = std::count_if(run.nodes.begin(), run.nodes.end(), [&](const Node& node) {
    return std::find(kMatrix.begin(), kMatrix.end(), node.op) != kMatrix.end();
  });
  return {matrix, run.nodes.size()};
}

ControlFlow choose_branch(const NodeProto& node, const Numbers& numbers, SubgraphRuns& runs) {
  ControlFlow flow;
  flow.first_node_input = 1;
  SubgraphRun& then_run = runs["then_branch"];
  SubgraphRun& else_run = runs["else_branch"];
  if (!numbers.empty() && numbers[0]) {
    flow.run = *numbers[0] != 0 ? &then_run : &else_run;
    return flow;
  }
  const bool take_else = weight_of(else_run) > weight_of(then_run);
  flow.run = take_else ? &else_run : &then_run;
  if (!flow.run->nodes.empty()) {
    flow.note = fmt::format("If '{}': the condition is not known; the larger branch is counted",
                            name_of(node));
  }
  return flow;
}

void run_once(const NodeProto& node, ControlFlow& flow) {
  flow.repeat = 1;
  if (flow.run->nodes.empty()) return;
  flow.note = fmt::format("{} '{}': how often it runs is not known; its body is counted once",
                          node.op_type(), name_of(node));
}

// Loop(M, condition, carried…) with a body (iteration, condition, carried…) → (condition, carried…,
// scanned…).
ControlFlow choose_loop(const NodeProto& node, const Numbers& numbers, SubgraphRuns& runs) {
  ControlFlow flow;
  flow.run = &runs["body"];
  flow.first_node_input = flow.first_run_input = 2;
  flow.first_run_output = 1;
  const bool never = numbers.size() > 1 && numbers[1] && *numbers[1] == 0;
  if (never) {
    flow.repeat = 0;
  } else if (!numbers.empty() && numbers[0]) {
    flow.repeat =
        static_cast<std::int64_t>(std::clamp(*numbers[0], 0.0, static_cast<double>(kMaxRepeat)));
    flow.scanned_from = numbers.size() > 2 ? numbers.size() - 2 : 0;
  }
  const bool unknown = !never && (numbers.empty() || !numbers[0] || *numbers[0] > 1e9);
  if (unknown) run_once(node, flow);
  return flow;
}

// Scan(state…, scanned…); before opset 9 with sequence lengths first and a leading batch axis.
ControlFlow choose_scan(const NodeProto& node, const Shapes& shapes, SubgraphRuns& runs) {
  ControlFlow flow;
  flow.run = &runs["body"];
  const auto scanned =
      static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_scan_inputs", 0), 0));
  const bool has_lengths = flow.run->inputs.size() + 1 == shapes.size();
  flow.first_node_input = has_lengths ? 1 : 0;
  const std::size_t axis = has_lengths ? 1 : 0;
  std::optional<std::int64_t> length;
  if (scanned >= 1 && scanned <= shapes.size()) {
    const auto& shape = shapes[shapes.size() - scanned];
    if (shape && shape->size() > axis) length = (*shape)[axis];
    if (length && has_lengths) length = multiply_repeat(*length, (*shape)[0]);
  }
  if (length)
    flow.repeat = std::min(*length, kMaxRepeat);
  else
    run_once(node, flow);
  return flow;
}

}  // namespace

std::int64_t multiply_repeat(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kMaxRepeat;
  return std::min(product, kMaxRepeat);
}

std::vector<std::pair<ValueId, ValueId>> ControlFlow::same(
    const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) const {
  std::vector<std::pair<ValueId, ValueId>> pairs;
  if (run == nullptr) return pairs;
  const auto add = [&pairs](ValueId from, ValueId to) {
    if (from != kNoValue && to != kNoValue && from != to) pairs.emplace_back(from, to);
  };
  for (std::size_t i = first_node_input, j = first_run_input;
       i < inputs.size() && j < run->inputs.size(); ++i, ++j) {
    add(inputs[i], run->inputs[j]);
  }
  for (std::size_t i = 0, j = first_run_output; i < outputs.size() && j < run->outputs.size();
       ++i, ++j) {
    add(run->outputs[j], outputs[i]);
  }
  return pairs;
}

ControlFlow choose_control_flow(const NodeProto& node, const Numbers& numbers, const Shapes& shapes,
                                SubgraphRuns& runs) {
  const std::string& op = node.op_type();
  if (op == "If") return choose_branch(node, numbers, runs);
  if (op == "Loop") return choose_loop(node, numbers, runs);
  if (op == "Scan") return choose_scan(node, shapes, runs);
  ControlFlow flow;
  if (runs.empty()) return flow;
  flow.run = &runs.begin()->second;
  flow.first_node_input = shapes.size();
  run_once(node, flow);
  return flow;
}

}  // namespace rooftile::onnx_format
