#include "rooftile/workload/op.h"

#include <array>

namespace rooftile {
namespace {

std::int64_t at_or(const Extents& extents, std::size_t axis, std::int64_t otherwise) {
  return axis < extents.size() ? extents[axis] : otherwise;
}

double gemm_parameters(const Gemm& gemm) {
  if (!gemm.weight_is_parameter) return 0;
  const double rows = to_double(gemm.n) * to_double(gemm.batch);
  return rows * to_double(gemm.k) + (gemm.bias ? rows : 0);
}

double convolution_parameters(const Convolution& conv) {
  return to_double(conv.k) * to_double(conv.c) / to_double(conv.groups) *
             element_count(conv.kernel) +
         (conv.bias ? to_double(conv.k) : 0);
}

double gates(Cell cell) {
  switch (cell) {
    case Cell::lstm:
      return 4;
    case Cell::gru:
      return 3;
    default:
      return 1;
  }
}

// PyTorch keeps two bias vectors per gate (b_ih, b_hh), as cuDNN does.
double recurrent_parameters(const Recurrent& rnn) {
  const double hidden = to_double(rnn.hidden);
  const double output = rnn.projection > 0 ? to_double(rnn.projection) : hidden;
  const double directions = to_double(rnn.directions);
  const auto layer = [&](double input) {
    const double weights = gates(rnn.cell) * hidden * (input + output);
    const double biases = rnn.bias ? 2 * gates(rnn.cell) * hidden : 0;
    const double projection = rnn.projection > 0 ? hidden * output : 0;
    return directions * (weights + biases + projection);
  };
  return layer(to_double(rnn.input)) + (to_double(rnn.layers) - 1) * layer(output * directions);
}

double normalization_parameters(const Normalization& norm) {
  const double channels = to_double(norm.cols);
  switch (norm.fn) {
    case NormKind::batch:
    case NormKind::layer:
      return 2 * channels;
    case NormKind::rms:
      return channels;
    default:
      return 0;  // instance and group norms have one pair per channel, which the dims do not show
  }
}

struct CountParameters {
  double operator()(const Gemm& gemm) const { return gemm_parameters(gemm); }
  double operator()(const Convolution& conv) const { return convolution_parameters(conv); }
  double operator()(const Recurrent& rnn) const { return recurrent_parameters(rnn); }
  double operator()(const Normalization& norm) const { return normalization_parameters(norm); }
  double operator()(const Embedding& table) const {
    return to_double(table.vocab) * to_double(table.width);
  }
  template <class Body>
  double operator()(const Body&) const {
    return 0;
  }
};

}  // namespace

std::string_view kind_name(const Body& body) {
  static constexpr std::array<std::string_view, std::variant_size_v<Body>> kNames{
      "gemm",    "conv", "attention",   "recurrent", "norm",
      "softmax", "pool", "elementwise", "reduce",    "embedding",
      "layout",  "cast", "collective",  "optimizer", "other"};
  return kNames[body.index()];
}

bool reads_cache(const Attention& attention) {
  constexpr std::int64_t kMostQueries = 8;
  // Small windows with pooled queries (Hiera's 4 queries of 16 keys) are no steps of a decoder.
  constexpr std::int64_t kLeastKeysPerQuery = 8;
  return attention.query_len <= kMostQueries &&
         attention.kv_len >= kLeastKeysPerQuery * attention.query_len;
}

std::int64_t key_width(const Attention& attention) {
  return attention.head_dim + (attention.values_in_keys ? 0 : attention.value_dim);
}

Extents output_extents(const Convolution& conv) {
  Extents output;
  for (std::size_t axis = 0; axis < conv.input.size(); ++axis) {
    const std::int64_t stride = at_or(conv.stride, axis, 1);
    const std::int64_t reach =
        at_or(conv.dilation, axis, 1) * (at_or(conv.kernel, axis, 1) - 1) + 1;
    const std::int64_t pad = at_or(conv.pad_begin, axis, 0) + at_or(conv.pad_end, axis, 0);
    if (conv.transposed) {
      output.push_back((conv.input[axis] - 1) * stride - pad + reach +
                       at_or(conv.output_pad, axis, 0));
    } else {
      const std::int64_t room = conv.input[axis] + pad - reach;
      output.push_back(room < 0 ? 0 : room / stride + 1);
    }
  }
  return output;
}

double count_parameters(const Op& op) { return std::visit(CountParameters{}, op.body); }

bool is_matrix_op(const Op& op) {
  return std::holds_alternative<Gemm>(op.body) || std::holds_alternative<Convolution>(op.body) ||
         std::holds_alternative<Attention>(op.body) || std::holds_alternative<Recurrent>(op.body);
}

}  // namespace rooftile
