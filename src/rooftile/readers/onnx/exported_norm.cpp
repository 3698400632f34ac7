#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/exported_pointwise.h"
#include "rooftile/readers/onnx/names.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;
using onnx_format::ValueId;
using Index = std::int32_t;

// Follows a norm from the mean of the squares.
class NormFinder {
 public:
  NormFinder(const PatternGraph& graph, Index mean) : graph_(graph), mean_(mean) {}

  std::optional<ExportedCall> run() {
    if (!find_square() || !find_root() || !find_scaling()) return {};
    add_affine();
    const NormKind kind = find_centering() ? NormKind::layer : NormKind::rms;
    skip_cast_before();
    call_.name = kind == NormKind::layer ? "layer_norm" : "rms_norm";
    call_.reads = {x_};
    return set_sizes(kind) ? std::optional(std::move(call_)) : std::nullopt;
  }

 private:
  void take(Index node) { call_.nodes.push_back(node); }

  // Pow(x, 2) or Mul(x, x).
  bool find_square() {
    const Index square = graph_.producer(graph_.input(mean_, 0));
    x_ = graph_.input(square, 0);
    const bool power = graph_.is(square, "Pow") && graph_.scalar(graph_.input(square, 1)) == 2.0;
    const bool product = graph_.is(square, "Mul") && graph_.input(square, 1) == x_;
    if (!power && !product) return false;
    take(square);
    take(mean_);
    return true;
  }

  bool find_root() {
    const ValueId mean = graph_.output(mean_);
    const Index add = graph_.reader(mean);
    if (!graph_.is(add, "Add") || !graph_.is_scalar(graph_.other_input(add, mean))) return false;
    root_ = graph_.reader(graph_.output(add));
    if (!graph_.is(root_, "Sqrt")) return false;
    take(add);
    take(root_);
    return true;
  }

  // x / root, or x times its reciprocal.
  bool find_scaling() {
    ValueId root = graph_.output(root_);
    const Index next = graph_.reader(root);
    const bool one_over = graph_.is(next, "Div") && graph_.input(next, 1) == root &&
                          graph_.scalar(graph_.input(next, 0)) == 1.0;
    const bool inverse = graph_.is(next, "Reciprocal") || one_over;
    if (inverse) {
      take(next);
      root = graph_.output(next);
    }
    const Index scaling = graph_.reader(root);
    if (!graph_.is(scaling, inverse ? "Mul" : "Div")) return false;
    const bool scales_x =
        inverse ? graph_.other_input(scaling, root) == x_ : graph_.input(scaling, 0) == x_;
    if (!scales_x) return false;
    take(scaling);
    call_.writes = graph_.output(scaling);
    return true;
  }

  // Weights and bias, one for each column.
  void add_affine() {
    for (const std::string_view op : {"Mul", "Add"}) {
      ValueId read = call_.writes;
      Index next = graph_.reader(read);
      const Index cast = graph_.is(next, "Cast") ? next : -1;  // back to 16 bits
      if (cast >= 0) {
        read = graph_.output(cast);
        next = graph_.reader(read);
      }
      if (!graph_.is(next, op)) return;
      const ValueId weight = graph_.other_input(next, read);
      const auto& shape = graph_.shape(weight);
      const auto& whole = graph_.shape(call_.writes);
      const bool fits = weight != kNoValue && !graph_.is_activation(weight) && shape && whole &&
                        !whole->empty() &&
                        onnx_format::element_count(*shape) == static_cast<double>(whole->back());
      if (!fits) return;
      if (cast >= 0) take(cast);
      take(next);
      call_.writes = graph_.output(next);
    }
  }

  // x is what a Sub took the mean off.
  bool find_centering() {
    const Index sub = graph_.producer(x_);
    const Index mean = graph_.producer(graph_.input(sub, 1));
    if (!graph_.is(sub, "Sub") || !graph_.is(mean, "ReduceMean")) return false;
    if (graph_.input(mean, 0) != graph_.input(sub, 0)) return false;
    take(mean);
    take(sub);
    x_ = graph_.input(sub, 0);
    return true;
  }

  // Statistics in fp32 of a 16-bit tensor.
  void skip_cast_before() {
    const Index cast = graph_.producer(x_);
    if (!graph_.is(cast, "Cast") || graph_.value(x_).graph_output) return;
    const auto& readers = graph_.value(x_).consumers;
    const bool ours = std::all_of(readers.begin(), readers.end(), [&](Index reader) {
      return std::find(call_.nodes.begin(), call_.nodes.end(), reader) != call_.nodes.end();
    });
    if (!ours) return;
    take(cast);
    x_ = graph_.input(cast, 0);
  }

  bool set_sizes(NormKind kind) {
    const auto& in = graph_.shape(graph_.input(mean_, 0));
    const auto& out = graph_.shape(graph_.output(mean_));
    if (!in || !out) return false;
    const double rows = onnx_format::element_count(*out);
    if (rows < 1 || onnx_format::element_count(*in) < rows) return false;
    call_.body = Normalization{kind, product(*out), product(*in) / product(*out)};
    return true;
  }

  const PatternGraph& graph_;
  Index mean_, root_ = -1;
  ValueId x_ = kNoValue;
  ExportedCall call_;
};

// Reshape to [n, groups, ..], InstanceNormalization, Reshape back, weight and bias by channel.
std::optional<ExportedCall> find_group_norm(const PatternGraph& graph, Index norm) {
  const Index to_groups = graph.producer(graph.input(norm, 0));
  const Index back = graph.reader(graph.output(norm));
  const Index mul = graph.reader(graph.output(back));
  const Index add = graph.reader(graph.output(mul));
  const bool fits = graph.is(to_groups, "Reshape") && graph.is(back, "Reshape") &&
                    graph.is(mul, "Mul") && graph.is(add, "Add") &&
                    !graph.is_activation(graph.other_input(mul, graph.output(back))) &&
                    !graph.is_activation(graph.other_input(add, graph.output(mul)));
  const auto& grouped = graph.shape(graph.input(norm, 0));
  if (!fits || !grouped || grouped->size() < 3) return {};
  ExportedCall call;
  call.name = "group_norm";
  call.nodes = {to_groups, norm, back, mul, add};
  call.reads = {graph.input(to_groups, 0)};
  call.writes = graph.output(add);
  const std::int64_t rows = product(*grouped, 0, 2);
  if (rows < 1) return {};
  call.body = Normalization{NormKind::group, rows, product(*grouped) / rows};
  return call;
}

// PyTorch has had an RMS norm only since 2.4, and the older exporter cannot write it out: what is
// not in its module is the model's own.
bool is_by_model(const PatternGraph& graph, const ExportedCall& call, Index mean) {
  return call.name == "rms_norm" &&
         !contains(library_module(graph.node(mean)), "torch.nn.modules.normalization");
}

}  // namespace

std::optional<ExportedCall> find_exported_norm(const PatternGraph& graph, Index node) {
  if (graph.is(node, "InstanceNormalization")) return find_group_norm(graph, node);
  if (!graph.is(node, "ReduceMean")) return {};
  auto call = NormFinder(graph, node).run();
  if (call) call->by_model = is_by_model(graph, *call, node);
  return call;
}

}  // namespace rooftile::onnx_reader_detail
