// Pooling with windows and over whole planes.
#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

PoolKind kind_of(const Node& node) {
  return node.op.find("Max") != std::string::npos ? PoolKind::max : PoolKind::average;
}

}  // namespace

Outcome convert_pool(Conversion& c, const Node& node) {
  const auto in = c.input_shape(node, 0);
  const auto out = c.output_shape(node, 0);
  if (!in || !out || in->size() < 3 || out->size() != in->size()) return Outcome::unknown_shape;
  if (in->size() > 5) return Outcome::unsupported;
  const std::size_t first = node.op == "NhwcMaxPool" ? 1 : 2;
  const auto axes = static_cast<std::ptrdiff_t>(in->size() - 2);
  const auto skip = static_cast<std::ptrdiff_t>(first);
  Pooling pool;
  pool.fn = kind_of(node);
  pool.n = (*in)[0];
  pool.c = first == 1 ? in->back() : (*in)[1];
  pool.input.assign(in->begin() + skip, in->begin() + skip + axes);
  pool.output.assign(out->begin() + skip, out->begin() + skip + axes);
  pool.kernel = ints_attribute(node, "kernel_shape");
  if (pool.kernel.size() != pool.input.size()) return Outcome::unknown_shape;
  c.add(node, pool, c.simple_dtypes(node));
  return Outcome::done;
}

Outcome convert_global_pool(Conversion& c, const Node& node) {
  const auto in = c.input_shape(node, 0);
  if (!in || in->size() < 3) return Outcome::unknown_shape;
  if (in->size() > 5) return Outcome::unsupported;
  Pooling pool;
  pool.fn = kind_of(node);
  pool.n = (*in)[0];
  pool.c = (*in)[1];
  pool.input.assign(in->begin() + 2, in->end());
  pool.output.assign(pool.input.size(), 1);
  pool.kernel = pool.input;
  c.add(node, pool, c.simple_dtypes(node));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
