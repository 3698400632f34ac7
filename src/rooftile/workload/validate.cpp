#include "rooftile/workload/validate.h"

#include <fmt/format.h>

#include "rooftile/workload/op_fields.h"

namespace rooftile {
namespace {

// Every size within its bounds: required ones from 1, optional ones from 0.
class Bounds {
 public:
  void required(std::string_view key, std::int64_t size) { check(key, size, 1); }
  void optional(std::string_view key, std::int64_t size, std::int64_t) { check(key, size, 0); }
  void flag(std::string_view, bool, bool) {}
  template <class Enum, class Names>
  void choice(std::string_view, Enum, const Names&, Enum) {}
  void word(std::string_view, const std::string&) {}
  void extents(std::string_view key, const Extents& sizes, std::optional<std::int64_t> fallback) {
    for (const std::int64_t size : sizes) check(key, size, fallback ? 0 : 1, kMaxExtent);
  }
  void extents_like(std::string_view key, const Extents& sizes, const Extents&) {
    extents(key, sizes, 0);
  }

  std::optional<std::string> problem;

 private:
  void check(std::string_view key, std::int64_t size, std::int64_t least,
             std::int64_t most = kMaxSize) {
    if (problem || (size >= least && size <= most)) return;
    problem = fmt::format("{}={}: expected a size from {} to {}", key, size, least, most);
  }
};

using Problem = std::optional<std::string>;

Problem not_divided(std::string_view divisor_key, std::int64_t divisor, std::string_view key,
                    std::int64_t size) {
  if (divisor >= 1 && size % divisor == 0) return std::nullopt;
  return fmt::format("{}={} does not divide {}={}", divisor_key, divisor, key, size);
}

Problem wrong_axes(std::string_view key, const Extents& extents, std::size_t axes,
                   bool may_be_empty) {
  if (extents.size() == axes || (may_be_empty && extents.empty())) return std::nullopt;
  return fmt::format("{} has {} sizes, expected {}", key, extents.size(), axes);
}

Problem below_one(std::string_view key, const Extents& extents) {
  for (const std::int64_t extent : extents) {
    if (extent < 1) return fmt::format("{} has a size of {}, expected at least 1", key, extent);
  }
  return std::nullopt;
}

Problem too_large(std::initializer_list<double> element_counts) {
  for (const double elements : element_counts) {
    if (elements > kMaxElements) {
      return fmt::format("a tensor of {:.3g} elements, expected at most {:.0g}", elements,
                         kMaxElements);
    }
  }
  return std::nullopt;
}

double product(std::initializer_list<std::int64_t> sizes) { return element_count(Extents(sizes)); }

Problem conv_axes(const Convolution& conv) {
  const std::size_t axes = conv.input.size();
  if (axes < 1 || axes > 3) return fmt::format("in has {} sizes, expected 1 to 3", axes);
  if (auto bad = wrong_axes("kernel", conv.kernel, axes, false)) return bad;
  if (auto bad = wrong_axes("stride", conv.stride, axes, true)) return bad;
  if (auto bad = wrong_axes("dilation", conv.dilation, axes, true)) return bad;
  if (auto bad = wrong_axes("pad", conv.pad_begin, axes, true)) return bad;
  if (auto bad = wrong_axes("pad_end", conv.pad_end, axes, true)) return bad;
  if (auto bad = wrong_axes("output_pad", conv.output_pad, axes, true)) return bad;
  if (auto bad = below_one("stride", conv.stride)) return bad;
  return below_one("dilation", conv.dilation);
}

struct CheckShape {
  Problem operator()(const Gemm& gemm) const {
    if (auto bad = below_one("batch", {gemm.batch})) return bad;
    return too_large({product({gemm.batch, gemm.m, gemm.n}), product({gemm.batch, gemm.m, gemm.k}),
                      product({gemm.batch, gemm.n, gemm.k})});
  }
  Problem operator()(const Convolution& conv) const {
    if (auto bad = conv_axes(conv)) return bad;
    if (auto bad = not_divided("groups", conv.groups, "c", conv.c)) return bad;
    if (auto bad = not_divided("groups", conv.groups, "k", conv.k)) return bad;
    const Extents output = output_extents(conv);
    for (const std::int64_t size : output) {
      if (size < 1) return "the kernel does not fit into the input";
    }
    return too_large({product({conv.n, conv.c}) * element_count(conv.input),
                      product({conv.n, conv.k}) * element_count(output),
                      product({conv.c, conv.k}) * element_count(conv.kernel)});
  }
  Problem operator()(const Attention& attention) const {
    if (auto bad = below_one("kv", {attention.kv_len, attention.value_dim})) return bad;
    if (auto bad = not_divided("kv_heads", attention.kv_heads, "heads", attention.heads)) {
      return bad;
    }
    if (attention.values_in_keys && attention.value_dim > attention.head_dim) {
      return fmt::format("values_in_keys needs dv of at most d, found dv={} and d={}",
                         attention.value_dim, attention.head_dim);
    }
    return too_large({product({attention.batch, attention.heads, attention.query_len,
                               attention.kv_len + attention.head_dim + attention.value_dim})});
  }
  Problem operator()(const Recurrent& rnn) const {
    if (rnn.directions < 1 || rnn.directions > 2) return "directions must be 1 or 2";
    if (auto bad = below_one("layers", {rnn.layers})) return bad;
    if (to_double(rnn.tokens) > to_double(rnn.batch) * to_double(rnn.seq)) {
      return fmt::format("tokens={}: {} sequences of at most {} steps have no more than {}",
                         rnn.tokens, rnn.batch, rnn.seq, to_double(rnn.batch) * to_double(rnn.seq));
    }
    return too_large({product({rnn.batch, rnn.seq, rnn.input + rnn.hidden, 8}),
                      product({rnn.hidden, rnn.hidden + rnn.input, rnn.layers, 8})});
  }
  Problem operator()(const Pooling& pool) const {
    const std::size_t axes = pool.input.size();
    if (axes < 1 || axes > 3) return fmt::format("in has {} sizes, expected 1 to 3", axes);
    if (auto bad = wrong_axes("out", pool.output, axes, false)) return bad;
    if (auto bad = wrong_axes("kernel", pool.kernel, axes, false)) return bad;
    return too_large({product({pool.n, pool.c}) * element_count(pool.input),
                      product({pool.n, pool.c}) * element_count(pool.output)});
  }
  template <class B>
  Problem operator()(const B&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<std::string> find_invalid_dim(const Op& op) {
  Bounds bounds;
  std::visit([&](const auto& body) { visit_fields(bounds, body); }, op.body);
  visit_fields(bounds, op.streams);
  bounds.required("count", op.count);
  if (bounds.problem) return bounds.problem;
  return std::visit(CheckShape{}, op.body);
}

}  // namespace rooftile
