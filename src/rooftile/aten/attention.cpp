// Scaled dot-product attention and recurrent layers, by the argument positions of PyTorch's
// native_functions.yaml.
#include "rooftile/aten/handlers.h"

namespace rooftile::aten_detail {
namespace {

constexpr int kNone = -1;

// Where the arguments stand. With heads_first a tensor is [batch, heads, tokens, size], else
// [batch, tokens, heads, size].
struct Signature {
  std::string_view name;
  int query = 0;          // key and value follow
  int causal = kNone;     // a flag
  int mask_type = kNone;  // a number instead: 0 = none, 1 and 2 = causal
  int lengths = kNone;    // of sequences packed into one; their presence hides the shape
  bool heads_first = true;
  bool backward = false;
  std::size_t arguments = 0;  // 0 = any number
};

constexpr Signature kSignatures[] = {
    {.name = "scaled_dot_product_attention", .causal = 5},
    {.name = "_scaled_dot_product_flash_attention", .causal = 4},
    {.name = "_scaled_dot_product_efficient_attention", .causal = 6},
    // PyTorch 2.5 put the bias and a flag before the dropout.
    {.name = "_scaled_dot_product_cudnn_attention", .causal = 6, .arguments = 9},
    {.name = "_scaled_dot_product_cudnn_attention", .causal = 4, .arguments = 7},
    {.name = "_scaled_dot_product_flash_attention_for_cpu", .causal = 4},
    {.name = "_scaled_dot_product_fused_attention_overrideable", .causal = 5},
    {.name = "_flash_attention_forward", .causal = 8, .lengths = 3, .heads_first = false},
    {.name = "_efficient_attention_forward", .mask_type = 9, .lengths = 4, .heads_first = false},
    {.name = "_scaled_dot_product_flash_attention_backward",
     .query = 1,
     .causal = 11,
     .backward = true},
    {.name = "_scaled_dot_product_efficient_attention_backward",
     .query = 1,
     .causal = 11,
     .backward = true},
    {.name = "_scaled_dot_product_cudnn_attention_backward",
     .query = 1,
     .causal = 14,
     .backward = true},
    {.name = "_scaled_dot_product_flash_attention_for_cpu_backward",
     .query = 1,
     .causal = 7,
     .backward = true},
    {.name = "_flash_attention_backward",
     .query = 1,
     .causal = 11,
     .lengths = 6,
     .heads_first = false,
     .backward = true},
    {.name = "_efficient_attention_backward",
     .query = 1,
     .mask_type = 14,
     .lengths = 6,
     .heads_first = false,
     .backward = true},
};

std::size_t index(int position) { return static_cast<std::size_t>(position); }

std::optional<bool> is_causal(const Signature& signature, const Arguments& arguments) {
  if (signature.causal != kNone) return arguments.flag(index(signature.causal));
  const auto type = arguments.integer(index(signature.mask_type));
  if (!type || *type < 0 || *type > 2) return std::nullopt;
  return *type != 0;
}

bool has_packed_sequences(const Signature& signature, const Arguments& arguments) {
  return signature.lengths != kNone && arguments.tensor(index(signature.lengths)).has_value();
}

std::optional<Attention> read_shape(const Signature& signature, const Tensor& query,
                                    const Tensor& key, const Tensor& value) {
  if (query.rank() != 4 || key.rank() != 4 || value.rank() != 4) return std::nullopt;
  const std::size_t heads = signature.heads_first ? 1 : 2, tokens = 3 - heads;
  const Attention attention{.batch = query.size(0),
                            .heads = query.size(heads),
                            .kv_heads = key.size(heads),
                            .query_len = query.size(tokens),
                            .kv_len = key.size(tokens),
                            .head_dim = query.size(3),
                            .value_dim = value.size(3)};
  const bool fits = key.size(0) == attention.batch && value.size(0) == attention.batch &&
                    key.size(3) == attention.head_dim && value.size(heads) == attention.kv_heads &&
                    value.size(tokens) == attention.kv_len;
  return fits ? std::optional(attention) : std::nullopt;
}

std::vector<Op> read_attention(const Signature& signature, const Arguments& arguments) {
  const std::size_t first = index(signature.query);
  const auto query = arguments.tensor(first), key = arguments.tensor(first + 1),
             value = arguments.tensor(first + 2);
  const auto causal = is_causal(signature, arguments);
  if (!query || !key || !value || !causal || query->dtype != key->dtype) return {};
  if (has_packed_sequences(signature, arguments)) return {};
  auto attention = read_shape(signature, *query, *key, *value);
  if (!attention) return {};
  attention->causal = *causal;
  return valid(*attention, Dtypes(query->dtype),
               signature.backward ? Phase::dgrad : Phase::forward);
}

// Arguments of _cudnn_rnn after the tensors; its backward has the same ones, later.
struct RecurrentSignature {
  std::string_view name;
  std::size_t mode, batch_sizes;  // hidden size, projection, layers, batch first follow the mode
  std::size_t output_mask;        // 0 = none
};

constexpr RecurrentSignature kRecurrent[] = {
    {"_cudnn_rnn", 6, 14, 0},
    {"_cudnn_rnn_backward", 10, 18, 21},
};

// Weights come as a list with 4 entries a layer with biases and 2 without; one more with a
// projection.
bool has_bias(const Arguments& arguments) { return arguments.integer(2).value_or(4) >= 4; }

// How many of the sequences have each step; the input is their rows.
std::optional<Recurrent> read_packed(Recurrent rnn, const std::optional<Extents>& batch_sizes,
                                     const Tensor& input) {
  if (!batch_sizes || batch_sizes->empty() || input.rank() != 2) return std::nullopt;
  rnn.packed = true;
  rnn.batch = batch_sizes->front();
  rnn.seq = static_cast<std::int64_t>(batch_sizes->size());
  rnn.tokens = input.size(0);
  return rnn;
}

std::optional<Recurrent> read_recurrent(const RecurrentSignature& signature,
                                        const Arguments& arguments, const Tensor& input) {
  const auto cell = parse_cell(arguments.integer(signature.mode));
  const auto hidden = arguments.integer(signature.mode + 1);
  const auto projection = arguments.integer(signature.mode + 2);
  const auto layers = arguments.integer(signature.mode + 3);
  const auto batch_first = arguments.flag(signature.mode + 4);
  const auto bidirectional = arguments.flag(signature.mode + 7);
  if (!cell || !hidden || !projection || !layers || !batch_first || !bidirectional) return {};
  Recurrent rnn{.cell = *cell,
                .input = input.dims.back(),
                .hidden = *hidden,
                .layers = *layers,
                .directions = *bidirectional ? 2 : 1,
                .projection = *projection,
                .bias = has_bias(arguments)};
  const std::string_view lengths = arguments.value(signature.batch_sizes);
  const bool is_packed = !lengths.empty() && lengths != "[]";
  if (is_packed) return read_packed(rnn, arguments.integers(signature.batch_sizes), input);
  if (input.rank() != 3) return std::nullopt;
  rnn.batch = input.size(*batch_first ? 0 : 1);
  rnn.seq = input.size(*batch_first ? 1 : 0);
  return rnn;
}

// Input, hidden state, cell state and weights, as the mask asks.
std::vector<Op> recurrent_phases(const RecurrentSignature& signature, const Arguments& arguments,
                                 std::vector<Op> ops) {
  if (signature.output_mask == 0 || ops.empty()) return ops;
  const auto mask = arguments.flags(signature.output_mask);
  if (!mask || mask->size() != 4) return {};
  ops.front().phase = Phase::dgrad;
  if (!(*mask)[3]) return ops;
  ops.push_back(ops.front());
  ops.back().phase = Phase::wgrad;
  return ops;
}

}  // namespace

std::optional<Cell> parse_cell(const std::optional<std::int64_t>& mode) {
  switch (mode.value_or(-1)) {
    case 0:
      return Cell::rnn_relu;
    case 1:
      return Cell::rnn_tanh;
    case 2:
      return Cell::lstm;
    case 3:
      return Cell::gru;
    default:
      return std::nullopt;
  }
}

Answer attention_op(std::string_view name, const Arguments& arguments) {
  bool known = false;
  for (const Signature& signature : kSignatures) {
    if (signature.name != name) continue;
    known = true;
    if (signature.arguments == 0 || signature.arguments == arguments.count()) {
      return read_attention(signature, arguments);
    }
  }
  return known ? Answer(std::vector<Op>{}) : std::nullopt;
}

Answer recurrent_op(std::string_view name, const Arguments& arguments) {
  for (const RecurrentSignature& signature : kRecurrent) {
    if (signature.name != name) continue;
    const auto input = arguments.tensor(0);
    if (!input) return std::vector<Op>{};
    const auto rnn = read_recurrent(signature, arguments, *input);
    if (!rnn) return std::vector<Op>{};
    return recurrent_phases(signature, arguments, valid(*rnn, Dtypes(input->dtype)));
  }
  return std::nullopt;
}

}  // namespace rooftile::aten_detail
