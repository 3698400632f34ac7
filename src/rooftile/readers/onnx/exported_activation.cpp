#include <algorithm>
#include <cmath>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/exported_pointwise.h"
#include "rooftile/readers/onnx/names.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;
using onnx_format::ValueId;
using Index = std::int32_t;

constexpr double kRounding = 2e-3;  // of a constant stored in 16 bits
constexpr double kRootOfTwo = 1.4142135623730951;
constexpr double kQuickGelu = 1.702;    // x·sigmoid(1.702·x), of the same paper
constexpr double kGeluCube = 0.044715;  // of the tanh form (Hendrycks and Gimpel, 2016)

bool is_about(const std::optional<double>& number, double expected) {
  return number && std::fabs(*number - expected) <= kRounding * expected;
}

// x/2·(1 + inner(x)) in any order of its factors; the exporter halves last and writes the cube as
// two products.
class GeluFinder {
 public:
  GeluFinder(const PatternGraph& graph, Index inner) : graph_(graph), inner_(inner) {}

  std::optional<ExportedCall> run() {
    if (!find_factors() || !find_inside(graph_.input(inner_, 0), kMaxDepth)) return {};
    if (!reaches_x_ || !has_its_constant_) return {};
    call_.nodes.push_back(inner_);
    call_.reads = {x_};
    call_.name = "gelu";
    return std::move(call_);
  }

 private:
  void take(Index node) { call_.nodes.push_back(node); }

  // What a Mul by 0.5 scales; nothing for other nodes.
  ValueId halved(Index mul) const {
    if (!graph_.is(mul, "Mul")) return kNoValue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (is_about(graph_.scalar(graph_.input(mul, i)), 0.5)) return graph_.input(mul, 1 - i);
    }
    return kNoValue;
  }

  bool find_factors() {
    const ValueId shifted = graph_.output(inner_);
    const Index add = graph_.reader(shifted);
    if (!graph_.is(add, "Add") || !is_about(graph_.scalar(graph_.other_input(add, shifted)), 1)) {
      return false;
    }
    take(add);
    const Index first = graph_.reader(graph_.output(add));
    if (!graph_.is(first, "Mul")) return false;
    take(first);
    call_.writes = graph_.output(first);
    x_ = graph_.other_input(first, graph_.output(add));
    const Index half_before = graph_.producer(x_);
    if (is_about(graph_.scalar(x_), 0.5)) return multiply_by_x();
    if (halved(half_before) != kNoValue && graph_.reader(x_) == first) {
      call_.by_model = true;
      take(half_before);
      x_ = halved(half_before);
      return true;
    }
    const Index half = graph_.reader(call_.writes);
    if (halved(half) != call_.writes) return false;
    take(half);
    call_.writes = graph_.output(half);
    return true;
  }

  // (1 + inner)·0.5, then ·x
  bool multiply_by_x() {
    const Index last = graph_.reader(call_.writes);
    if (!graph_.is(last, "Mul")) return false;
    call_.by_model = true;
    x_ = graph_.other_input(last, call_.writes);
    take(last);
    call_.writes = graph_.output(last);
    return true;
  }

  // Arithmetic on x and numbers alone.
  bool find_inside(ValueId id, int depth) {
    if (id == x_) {
      reaches_x_ = true;
      return true;
    }
    if (graph_.is_scalar(id)) {
      const bool erf = graph_.is(inner_, "Erf");
      const auto number = graph_.scalar(id);
      has_its_constant_ = has_its_constant_ ||
                          (erf ? is_about(number, kRootOfTwo) || is_about(number, 1 / kRootOfTwo)
                               : is_about(number, kGeluCube));
      return true;
    }
    const Index above = graph_.producer(id);
    if (depth == 0 || !graph_.is_any(above, {"Mul", "Add", "Div", "Pow", "Cast"})) return false;
    call_.by_model = call_.by_model || graph_.is(above, "Pow");
    if (graph_.node(above).inputs.size() > 2) return false;
    if (!is_one_of_nodes(above)) take(above);
    for (const ValueId read : graph_.node(above).inputs) {
      if (!find_inside(read, depth - 1)) return false;
    }
    return true;
  }

  bool is_one_of_nodes(Index node) const {
    return std::find(call_.nodes.begin(), call_.nodes.end(), node) != call_.nodes.end();
  }

  static constexpr int kMaxDepth = 6;  // scale, sum, scale, cube as two products
  const PatternGraph& graph_;
  Index inner_;
  ValueId x_ = kNoValue;
  bool reaches_x_ = false, has_its_constant_ = false;
  ExportedCall call_;
};

// x·gate(x): SiLU with Sigmoid, Hardswish with HardSigmoid, Mish with Tanh of Softplus.
std::optional<ExportedCall> find_gated(const PatternGraph& graph, Index gate,
                                       std::string_view name) {
  ExportedCall call;
  call.name = name;
  call.nodes = {gate};
  ValueId x = graph.input(gate, 0);
  if (name == "mish") {
    const Index inner = graph.producer(x);
    call.nodes.push_back(inner);
    x = graph.input(inner, 0);
  }
  const Index mul = graph.reader(graph.output(gate));
  if (!graph.is(mul, "Mul") || x == kNoValue) return {};
  const ValueId gated = graph.other_input(mul, graph.output(gate));
  const Index scale = graph.producer(x);
  if (gated != x && name == "silu" && graph.is(scale, "Mul") &&
      is_about(graph.scalar(graph.other_input(scale, gated)), kQuickGelu)) {
    call.name = "quick_gelu";
    call.by_model = true;
    call.nodes.push_back(scale);
    x = gated;
  }
  if (gated != x) return {};
  call.nodes.push_back(mul);
  call.reads = {x};
  call.writes = graph.output(mul);
  return call;
}

std::optional<ExportedCall> find_by_operator(const PatternGraph& graph, Index node) {
  if (graph.is(node, "Erf")) return GeluFinder(graph, node).run();
  if (graph.is(node, "Sigmoid")) return find_gated(graph, node, "silu");
  if (graph.is(node, "HardSigmoid")) return find_gated(graph, node, "hardswish");
  if (!graph.is(node, "Tanh")) return {};
  const bool mish = graph.is(graph.producer(graph.input(node, 0)), "Softplus");
  return mish ? find_gated(graph, node, "mish") : GeluFinder(graph, node).run();
}

}  // namespace

std::optional<ExportedCall> find_exported_activation(const PatternGraph& graph, Index node) {
  auto call = find_by_operator(graph, node);
  if (!call) return {};
  const auto& shape = graph.shape(call->writes);
  if (!shape || graph.shape(call->reads[0]) != shape) return {};
  const std::string library = library_call(graph.node(node));
  if (!library.empty()) call->by_model = !contains(library, call->name);
  call->body = Elementwise{std::string(call->name), product(*shape), 1};
  return call;
}

}  // namespace rooftile::onnx_reader_detail
