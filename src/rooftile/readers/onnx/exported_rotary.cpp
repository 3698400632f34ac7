#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/exported_pointwise.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;
using onnx_format::ValueId;

// The tensor whose half a Slice takes.
ValueId sliced(const PatternGraph& graph, ValueId half) {
  const std::int32_t slice = graph.producer(half);
  return graph.is(slice, "Slice") && graph.reader(half) >= 0 ? graph.input(slice, 0) : kNoValue;
}

}  // namespace

std::optional<ExportedCall> find_exported_rotary(const PatternGraph& graph, std::int32_t concat) {
  const std::int32_t neg = graph.producer(graph.input(concat, 0));
  const std::int32_t times_sin = graph.reader(graph.output(concat));
  const std::int32_t add = graph.reader(graph.output(times_sin));
  if (!graph.is(neg, "Neg") || !graph.is(times_sin, "Mul") || !graph.is(add, "Add")) return {};
  const ValueId x = sliced(graph, graph.input(neg, 0));
  if (x == kNoValue || sliced(graph, graph.input(concat, 1)) != x) return {};
  const std::int32_t times_cos = graph.producer(graph.other_input(add, graph.output(times_sin)));
  const bool of_x = graph.input(times_cos, 0) == x || graph.input(times_cos, 1) == x;
  const auto& shape = graph.shape(x);
  if (!graph.is(times_cos, "Mul") || !of_x || !shape) return {};
  ExportedCall call;
  call.name = "rotary";
  call.by_model = true;
  call.body = Elementwise{"rotary", product(*shape), 1};
  call.nodes = {graph.producer(graph.input(neg, 0)),
                graph.producer(graph.input(concat, 1)),
                neg,
                concat,
                times_sin,
                times_cos,
                add};
  call.reads = {x, graph.other_input(times_cos, x),
                graph.other_input(times_sin, graph.output(concat))};
  call.writes = graph.output(add);
  return call;
}

}  // namespace rooftile::onnx_reader_detail
