#include "rooftile/aten/operator.h"

#include <cmath>
#include <utility>

#include "rooftile/aten/complex.h"
#include "rooftile/aten/handlers.h"

namespace rooftile {
namespace {

using namespace aten_detail;

constexpr std::string_view kPrefix = "aten::";

Answer answer(std::string_view name, const Arguments& arguments) {
  for (const auto& handle :
       {complex_product_op, complex_stream_op, fourier_op, matrix_product_op, convolution_op,
        attention_op, recurrent_op, row_op, pooling_op, embedding_op, special_op, stream_op}) {
    if (auto ops = handle(name, arguments)) return ops;
  }
  return std::nullopt;
}

std::optional<Gemm> product_of(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm ? std::optional(*gemm) : std::nullopt;
}

struct Sizes {
  std::int64_t m, n, k;

  bool operator==(const Sizes&) const = default;
};

// PyTorch computes dx = dout·w and dw = xᵀ·dout, or the transposes of these.
struct BackwardFit {
  bool dgrad = false, wgrad = false;
};

BackwardFit fit(const Gemm& forward, const Gemm& product) {
  const auto [m, n, k] = Sizes{forward.m, forward.n, forward.k};
  const Sizes found{product.m, product.n, product.k};
  if (forward.batch != product.batch) return {};
  return {.dgrad = found == Sizes{m, k, n} || found == Sizes{k, m, n},
          .wgrad = found == Sizes{k, n, m} || found == Sizes{n, k, m}};
}

bool transposes_first(const Gemm& product) {
  return product.layout == GemmLayout::tn || product.layout == GemmLayout::tt;
}

// dx = dout·w of a layer that has the sizes of the product.
Op as_dgrad(Op product) {
  auto& gemm = std::get<Gemm>(product.body);
  std::swap(gemm.n, gemm.k);
  const bool x = transposes_first(gemm);
  const bool w = gemm.layout == GemmLayout::nt || gemm.layout == GemmLayout::tt;
  // dout·w reads w as it is stored for the forward pass, that is transposed.
  gemm.layout = x ? (w ? GemmLayout::tn : GemmLayout::tt) : (w ? GemmLayout::nn : GemmLayout::nt);
  gemm.w_stride = 0;
  gemm.out_stride = 0;
  product.phase = Phase::dgrad;
  return product;
}

}  // namespace

std::vector<Op> aten_ops(std::string_view name, const OpArguments& arguments) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return {};
  auto ops = answer(name.substr(kPrefix.size()), Arguments(arguments));
  if (!ops) return {};
  for (Op& op : *ops) op.name = name;
  return *std::move(ops);
}

std::optional<Op> aten_op(std::string_view name, const OpArguments& arguments) {
  std::vector<Op> ops = aten_ops(name, arguments);
  if (ops.size() != 1) return std::nullopt;
  return std::move(ops.front());
}

std::optional<Op> as_backward_of(const Op& forward, const Op& product, bool has_strides) {
  const auto layer = product_of(forward);
  const auto found = product_of(product);
  if (!layer || !found) return std::nullopt;
  auto [dgrad, wgrad] = fit(*layer, *found);
  if (dgrad && wgrad && has_strides) (transposes_first(*found) ? dgrad : wgrad) = false;
  if (dgrad == wgrad) return std::nullopt;
  Op op = product;
  op.body = *layer;
  op.phase = dgrad ? Phase::dgrad : Phase::wgrad;
  return op;
}

Op as_gradient(Op product, const Op* forward, bool has_strides) {
  auto layer = forward ? as_backward_of(*forward, product, has_strides) : std::nullopt;
  Op gradient = layer ? *std::move(layer) : as_dgrad(std::move(product));
  std::get<Gemm>(gradient.body).weight_is_parameter = true;
  return gradient;
}

std::optional<Dtype> dtype_of_arguments(const OpArguments& arguments) {
  for (const std::string& type : arguments.types) {
    if (const auto dtype = aten_detail::parse_type(type)) return dtype;
  }
  return std::nullopt;
}

std::vector<std::int64_t> elements_of_list(const OpArguments& arguments, std::size_t position) {
  std::vector<std::int64_t> elements;
  for (const Extents& dims : aten_detail::Arguments(arguments).list(position)) {
    elements.push_back(std::llround(element_count(dims)));
  }
  return elements;
}

}  // namespace rooftile
