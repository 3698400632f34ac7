#include "rooftile/analysis/gemm_form.h"

#include <algorithm>

namespace rooftile {

Flop MatrixProduct::flop() const {
  return Flop(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
              static_cast<double>(batch) * static_cast<double>(repeats) * density);
}

namespace {

MatrixOperand dense(std::string_view role, std::string_view dim, std::int64_t contiguous,
                    Dtype dtype) {
  return {role, dim, contiguous, contiguous, 0, dtype};
}

MatrixOperand on_chip(std::string_view role, Dtype dtype) { return {role, "", 0, 0, 0, dtype}; }

std::int64_t size(const Extents& extents) {
  return static_cast<std::int64_t>(element_count(extents));
}

// ---- Linear layers and batched products ---------------------------------------------------------

bool x_transposed(const Gemm& gemm) {
  return gemm.layout == GemmLayout::tn || gemm.layout == GemmLayout::tt;
}
bool w_transposed(const Gemm& gemm) {
  return gemm.layout == GemmLayout::nt || gemm.layout == GemmLayout::tt;
}

std::string_view name_of_m(const Gemm& gemm) { return gemm.weight_is_parameter ? "tokens" : "m"; }
std::string_view name_of_n(const Gemm& gemm) {
  return gemm.weight_is_parameter ? "out_features" : "n";
}
std::string_view name_of_k(const Gemm& gemm) {
  return gemm.weight_is_parameter ? "in_features" : "k";
}

// From row to row; a stride of 0 is none of its own.
std::int64_t step(std::int64_t stride, std::int64_t row) { return stride > 0 ? stride : row; }

MatrixOperand x_of(const Op& op, const Gemm& gemm) {
  const bool transposed = x_transposed(gemm);
  const std::int64_t row = transposed ? gemm.m : gemm.k;
  return {"x",           transposed ? name_of_m(gemm) : name_of_k(gemm),
          row,           step(gemm.x_stride, row),
          gemm.x_offset, op.dtypes.input};
}

MatrixOperand w_of(const Op& op, const Gemm& gemm) {
  const bool transposed = w_transposed(gemm);
  const std::int64_t row = transposed ? gemm.k : gemm.n;
  return {"w",           transposed ? name_of_k(gemm) : name_of_n(gemm),
          row,           step(gemm.w_stride, row),
          gemm.w_offset, op.dtypes.weight};
}

MatrixOperand out_of(const Op& op, const Gemm& gemm) {
  return {"out",           name_of_n(gemm), gemm.n, step(gemm.out_stride, gemm.n),
          gemm.out_offset, op.dtypes.output};
}

MatrixOperand gradient_of(MatrixOperand operand, std::string_view role) {
  operand.role = role;
  operand.offset = 0;
  operand.leading = operand.contiguous;
  return operand;
}

MatrixProduct product_of_phase(const Op& op, const Gemm& gemm, Phase phase) {
  MatrixProduct product;
  product.batch = gemm.batch;
  product.math = op.dtypes.input;
  switch (phase) {
    case Phase::dgrad:
      product.m = gemm.m, product.n = gemm.k, product.k = gemm.n;
      product.a = gradient_of(out_of(op, gemm), "dout");
      product.b = w_of(op, gemm);
      product.out = gradient_of(x_of(op, gemm), "dx");
      break;
    case Phase::wgrad:
      product.m = gemm.k, product.n = gemm.n, product.k = gemm.m;
      product.a = x_of(op, gemm);
      product.b = gradient_of(out_of(op, gemm), "dout");
      product.out = gradient_of(w_of(op, gemm), "dw");
      break;
    default:
      product.m = gemm.m, product.n = gemm.n, product.k = gemm.k;
      product.a = x_of(op, gemm);
      product.b = w_of(op, gemm);
      product.out = out_of(op, gemm);
  }
  return product;
}

std::vector<MatrixProduct> gemm_products(const Op& op, const Gemm& gemm) {
  if (!has_two_gradients(op, gemm)) return {gemm_product(op, gemm)};
  std::vector<MatrixProduct> products{product_of_phase(op, gemm, Phase::dgrad),
                                      product_of_phase(op, gemm, Phase::wgrad)};
  products[0].part = "dx";
  products[1].part = "dw";
  return products;
}

// ---- Convolutions -------------------------------------------------------------------------------

// A convolution and a transposed one are each other's dgrad, so both are described by the plain
// convolution from the larger to the smaller side.
struct PlainConvolution {
  std::int64_t in_channels, out_channels;    // per group
  std::int64_t in_positions, out_positions;  // batch and spatial
  std::int64_t taps;                         // kernel size
  MatrixOperand in, weight, out;
};

PlainConvolution plain(const Op& op, const Convolution& conv) {
  const std::int64_t groups = conv.groups;
  const std::int64_t outputs = conv.n * size(output_extents(conv));
  const std::int64_t inputs = conv.n * size(conv.input);
  // NHWC kernels keep the channels contiguous; NCHW tensors are converted for Tensor Cores.
  const MatrixOperand x{"x", "in_channels", conv.c / groups, conv.c, 0, op.dtypes.input};
  const MatrixOperand y{"out", "out_channels", conv.k / groups, conv.k, 0, op.dtypes.output};
  const std::int64_t taps = size(conv.kernel);
  if (conv.transposed) {
    return {conv.k / groups,
            conv.c / groups,
            outputs,
            inputs,
            taps,
            y,
            dense("w", "out_channels", conv.k / groups, op.dtypes.weight),
            x};
  }
  return {conv.c / groups,
          conv.k / groups,
          inputs,
          outputs,
          taps,
          x,
          dense("w", "in_channels", conv.c / groups, op.dtypes.weight),
          y};
}

// Which product of the plain convolution runs.
Phase plain_phase(const Convolution& conv, Phase phase) {
  if (!conv.transposed || phase == Phase::wgrad) return phase;
  return phase == Phase::dgrad ? Phase::forward : Phase::dgrad;
}

MatrixProduct convolution_product(const Op& op, const Convolution& conv) {
  const PlainConvolution c = plain(op, conv);
  MatrixProduct product;
  product.batch = conv.groups;
  product.math = op.dtypes.input;
  product.implicit = true;
  switch (plain_phase(conv, op.phase)) {
    case Phase::dgrad:
      product.m = c.in_positions, product.n = c.in_channels, product.k = c.out_channels * c.taps;
      product.a = c.out, product.b = c.weight, product.out = c.in;
      // Each output element meets every tap once, whatever the stride.
      product.density =
          std::min(1.0, static_cast<double>(c.out_positions) / static_cast<double>(c.in_positions));
      break;
    case Phase::wgrad:
      product.m = c.in_channels * c.taps, product.n = c.out_channels, product.k = c.out_positions;
      product.a = c.in, product.b = c.out, product.out = c.weight;
      break;
    default:
      product.m = c.out_positions, product.n = c.out_channels, product.k = c.in_channels * c.taps;
      product.a = c.in, product.b = c.weight, product.out = c.out;
  }
  return product;
}

// ---- Attention ----------------------------------------------------------------------------------

// Query-key pairs of one head that are computed. Fused kernels skip masked blocks; unfused
// attention multiplies everything and masks afterwards.
double visible_share(const Attention& attention) {
  if (!attention.fused || (!attention.causal && attention.window == 0)) return 1.0;
  const double q = static_cast<double>(attention.query_len);
  const double kv = static_cast<double>(attention.kv_len);
  const double window =
      attention.window > 0 ? std::min(static_cast<double>(attention.window), kv) : kv;
  if (!attention.causal) return window / kv;
  // The last query sees all keys; query i sees kv - q + i + 1 of them, at least 1.
  const double first = std::clamp(kv - q + 1, 1.0, window);
  const double growing = std::min(window - first, q - 1);  // queries that see one key more each
  const double pairs = first * q + growing * (growing + 1) / 2 + (q - 1 - growing) * growing;
  return std::min(1.0, pairs / (q * kv));
}

struct AttentionOperands {
  MatrixOperand q, k, v, out, scores;
};

AttentionOperands attention_operands(const Op& op, const Attention& attention) {
  const Dtype dtype = op.dtypes.input;
  return {dense("q", "head_dim", attention.head_dim, dtype),
          dense("k", "head_dim", attention.head_dim, dtype),
          dense("v", "value_dim", attention.value_dim, dtype),
          dense("out", "value_dim", attention.value_dim, dtype),
          attention.fused ? on_chip("scores", dtype)
                          : dense("scores", "key length", attention.kv_len, dtype)};
}

struct AttentionPart {
  std::string_view name;
  std::int64_t m, n, k;
  MatrixOperand a, b, out;
};

std::vector<AttentionPart> attention_parts(const Op& op, const Attention& a) {
  const auto [q, k, v, out, scores] = attention_operands(op, a);
  const AttentionPart score{"scores", a.query_len, a.kv_len, a.head_dim, q, k, scores};
  if (op.phase == Phase::forward) {
    return {score, {"values", a.query_len, a.value_dim, a.kv_len, scores, v, out}};
  }
  std::vector<AttentionPart> parts{{"dvalues", a.kv_len, a.value_dim, a.query_len, scores, out, v},
                                   {"dscores", a.query_len, a.kv_len, a.value_dim, out, v, scores},
                                   {"dqueries", a.query_len, a.head_dim, a.kv_len, scores, k, q},
                                   {"dkeys", a.kv_len, a.head_dim, a.query_len, scores, q, k}};
  if (a.fused) parts.push_back(score);  // recomputed
  return parts;
}

std::vector<MatrixProduct> attention_products(const Op& op, const Attention& attention) {
  std::vector<MatrixProduct> products;
  for (const AttentionPart& part : attention_parts(op, attention)) {
    MatrixProduct product;
    product.part = part.name;
    product.m = part.m, product.n = part.n, product.k = part.k;
    product.batch = attention.batch * attention.heads;
    product.a = part.a, product.b = part.b, product.out = part.out;
    product.math = op.dtypes.input;
    product.density = visible_share(attention);
    products.push_back(product);
  }
  return products;
}

// ---- Recurrent layers ---------------------------------------------------------------------------

std::int64_t gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

// One weight matrix [rows, cols] of the cell, applied to `tokens` rows at once.
MatrixProduct cell_product(const Op& op, std::string_view part, std::int64_t tokens,
                           std::int64_t rows, std::int64_t cols, std::int64_t repeats) {
  Op linear = op;
  linear.body = Gemm{.m = tokens, .n = rows, .k = cols};
  MatrixProduct product = gemm_product(linear, std::get<Gemm>(linear.body));
  product.part = part;
  product.repeats = repeats;
  product.batch = std::get<Recurrent>(op.body).directions;
  return product;
}

// cuDNN multiplies the input of all time steps at once; the recurrent products follow each other.
// The weight gradients are each one product over all steps.
std::vector<MatrixProduct> recurrent_products(const Op& op, const Recurrent& rnn) {
  const std::int64_t rows = gates(rnn.cell) * rnn.hidden;
  const std::int64_t output = rnn.projection > 0 ? rnn.projection : rnn.hidden;
  const std::int64_t all_steps = rnn.tokens > 0 ? rnn.tokens : rnn.seq * rnn.batch;
  const bool at_once = op.phase == Phase::wgrad;
  // Packed sequences end one by one: the steps have as many rows on average, rounded up.
  const std::int64_t tokens = at_once ? all_steps : (all_steps + rnn.seq - 1) / rnn.seq;
  const std::int64_t repeats = at_once ? rnn.layers : rnn.layers * rnn.seq;
  std::vector<MatrixProduct> products{cell_product(op, "input", all_steps, rows, rnn.input, 1)};
  if (rnn.layers > 1) {
    products.push_back(
        cell_product(op, "later inputs", all_steps, rows, output * rnn.directions, rnn.layers - 1));
  }
  products.push_back(cell_product(op, "recurrent", tokens, rows, output, repeats));
  if (rnn.projection > 0) {
    products.push_back(cell_product(op, "projection", tokens, output, rnn.hidden, repeats));
  }
  if (!at_once) {
    const double share = to_double(all_steps) / (to_double(tokens) * to_double(rnn.seq));
    for (MatrixProduct& product : products) {
      if (product.part == "recurrent" || product.part == "projection") product.density = share;
    }
  }
  return products;
}

}  // namespace

MatrixProduct gemm_product(const Op& op, const Gemm& gemm) {
  return product_of_phase(op, gemm, op.phase);
}

bool has_two_gradients(const Op& op, const Gemm& gemm) {
  return op.phase == Phase::dgrad && !gemm.weight_is_parameter;
}

std::vector<MatrixProduct> matrix_products(const Op& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) return gemm_products(op, *gemm);
  if (const auto* conv = std::get_if<Convolution>(&op.body)) {
    return {convolution_product(op, *conv)};
  }
  if (const auto* attention = std::get_if<Attention>(&op.body)) {
    return attention_products(op, *attention);
  }
  if (const auto* rnn = std::get_if<Recurrent>(&op.body)) return recurrent_products(op, *rnn);
  return {};
}

}  // namespace rooftile
