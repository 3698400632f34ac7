#include "rooftile/analysis/memory/output_bytes.h"

#include <variant>

namespace rooftile {
namespace {

struct OutputElements {
  double operator()(const Gemm& g) const {
    return to_double(g.batch) * to_double(g.m) * to_double(g.n);
  }
  double operator()(const Convolution& c) const {
    return to_double(c.n) * to_double(c.k) * element_count(output_extents(c));
  }
  double operator()(const Attention& a) const {
    const double rows = to_double(a.batch) * to_double(a.heads) * to_double(a.query_len);
    return rows * to_double(a.value_dim) + (a.fused ? 0 : 2 * rows * to_double(a.kv_len));
  }
  double operator()(const Recurrent& r) const {
    // The gates of every step are kept beside the outputs.
    const double gates = r.cell == Cell::lstm ? 4 : r.cell == Cell::gru ? 3 : 1;
    return (1 + gates) * to_double(r.seq) * to_double(r.batch) * to_double(r.hidden) *
           to_double(r.layers) * to_double(r.directions);
  }
  double operator()(const Normalization& n) const { return to_double(n.rows) * to_double(n.cols); }
  double operator()(const Softmax& s) const { return to_double(s.rows) * to_double(s.cols); }
  double operator()(const Pooling& p) const {
    return to_double(p.n) * to_double(p.c) * element_count(p.output);
  }
  double operator()(const Elementwise& e) const { return to_double(e.elements); }
  double operator()(const Reduction& r) const { return to_double(r.outputs); }
  double operator()(const Embedding& e) const { return to_double(e.lookups) * to_double(e.width); }
  double operator()(const LayoutConversion& l) const { return to_double(l.elements); }
  double operator()(const Cast& c) const { return to_double(c.elements); }
  double operator()(const Collective&) const { return 0; }
  double operator()(const OptimizerStep&) const { return 0; }
  double operator()(const Other&) const { return 0; }
};

}  // namespace

Bytes output_bytes(const Op& op) {
  return storage(std::visit(OutputElements{}, op.body), op.dtypes.output);
}

}  // namespace rooftile
