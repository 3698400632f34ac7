#include "rooftile/aten/complex.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "rooftile/aten/streams.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

constexpr std::string_view kBefore = "c10::complex<";

// "float" of "c10::complex<float>"; empty for other types.
std::string_view part_of(std::string_view type) {
  if (!type.starts_with(kBefore) || !type.ends_with('>')) return {};
  return type.substr(kBefore.size(), type.size() - kBefore.size() - 1);
}

bool has_complex(const OpArguments& arguments) {
  return std::any_of(arguments.types.begin(), arguments.types.end(),
                     [](std::string_view type) { return !part_of(type).empty(); });
}

// The types of parts in the place of complex ones.
OpArguments with_part_types(OpArguments arguments) {
  for (std::string& type : arguments.types) {
    if (const std::string part(part_of(type)); !part.empty()) type = part;
  }
  return arguments;
}

// Tensors with an axis more: of two for complex ones, of one for the others.
OpArguments as_pairs(const OpArguments& arguments) {
  OpArguments pairs = with_part_types(arguments);
  for (std::size_t i = 0; i < std::min(pairs.dims.size(), pairs.types.size()); ++i) {
    if (pairs.dims[i].empty() || !parse_type(pairs.types[i])) continue;
    const std::int64_t parts = part_of(arguments.types[i]).empty() ? 1 : 2;
    pairs.dims[i].push_back(parts);
    if (i >= pairs.strides.size() || pairs.strides[i].size() + 1 != pairs.dims[i].size()) continue;
    for (std::int64_t& stride : pairs.strides[i]) {
      if (std::abs(stride) <= kMaxSize) stride *= parts;
    }
    pairs.strides[i].push_back(1);
  }
  return pairs;
}

// Axes counted from the front: behind them stands one more.
void count_from_front(OpArguments& pairs, const Arguments& arguments) {
  const auto axes = arguments.integers(1);
  if (!axes || axes->empty() || pairs.values.size() < 2) return;
  const auto rank = static_cast<std::int64_t>(arguments.recorded().dims[0].size());
  std::vector<std::string> words;
  for (const std::int64_t axis : *axes) {
    words.push_back(std::to_string(axis < 0 ? axis + rank : axis));
  }
  pairs.values[1] = '[' + join(words, ", ") + ']';
}

// [m, 2k] by [2k, 2n]: four real products for each complex one.
void make_real(Gemm& gemm) {
  gemm.n *= 2;
  gemm.k *= 2;
  for (std::int64_t* stride : {&gemm.x_stride, &gemm.w_stride, &gemm.out_stride}) *stride *= 2;
}

// Of a transform by the usual count: 5·log2 of the length for each complex value.
constexpr double kFlopOfStage = 5;

}  // namespace

std::optional<Dtype> parse_complex(std::string_view type) { return parse_type(part_of(type)); }

Answer complex_product_op(std::string_view name, const Arguments& arguments) {
  if (!has_complex(arguments.recorded())) return std::nullopt;
  const bool has_real =
      std::any_of(arguments.recorded().types.begin(), arguments.recorded().types.end(), parse_type);
  const OpArguments parts = has_real ? OpArguments() : with_part_types(arguments.recorded());
  Answer products = matrix_product_op(name, Arguments(parts));
  if (!products) return std::nullopt;
  for (Op& op : *products) {
    if (auto* gemm = std::get_if<Gemm>(&op.body)) make_real(*gemm);
    if (find_invalid_dim(op)) return std::vector<Op>{};
  }
  return products;
}

Answer complex_stream_op(std::string_view name, const Arguments& arguments) {
  if (!has_complex(arguments.recorded())) return std::nullopt;
  OpArguments pairs = as_pairs(arguments.recorded());
  const bool reduces = name == "sum" || name == "mean";
  if (reduces) count_from_front(pairs, arguments);
  return reduces || is_pass(name) ? stream_op(name, Arguments(pairs)) : std::nullopt;
}

// One kernel for each axis; of real values half of the spectrum is kept.
Answer fourier_op(std::string_view name, const Arguments& arguments) {
  const bool from_real = name == "_fft_r2c";
  if (!from_real && name != "_fft_c2c" && name != "_fft_c2r") return std::nullopt;
  const OpArguments parts = with_part_types(arguments.recorded());
  const auto input = Arguments(parts).tensor(0);
  const auto axes = arguments.integers(1);
  if (!input || !axes || axes->empty()) return std::vector<Op>{};
  const double values = to_double(input->elements()) * (from_real ? 0.5 : 1);
  const auto rank = static_cast<std::int64_t>(input->rank());
  double flop = 0, bytes = 0;
  for (const std::int64_t axis : *axes) {
    if (axis < -rank || axis >= rank) return std::vector<Op>{};
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    flop += kFlopOfStage * values * std::log2(to_double(input->size(at)));
    bytes += size_of(4 * values, input->dtype);  // two parts are read, two are written
  }
  if (std::max(flop, bytes) > to_double(kMaxSize)) return std::vector<Op>{};
  return valid(Other{"fft", static_cast<std::int64_t>(flop), static_cast<std::int64_t>(bytes)},
               Dtypes(input->dtype));
}

}  // namespace rooftile::aten_detail
