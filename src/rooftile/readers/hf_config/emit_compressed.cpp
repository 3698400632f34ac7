// Attention over a window and compressed entries (DeepSeek V4).
#include <algorithm>
#include <cmath>

#include "rooftile/readers/hf_config/emit_mixers.h"

namespace rooftile::hf {
namespace {

// Σ min(most, i) for i from 1 to count.
double sum_up_to(double most, double count) {
  const double rising = std::min(most, count);
  return rising * (rising + 1) / 2 + (count - rising) * most;
}

// Pairs of queries and keys in a prompt of `length`: the t-th query sees min(window, t) tokens and
// the entries that are complete by then, t / tokens_of_entry rounded down.
double pairs_of_prompt(const CompressedAttention& a, std::int64_t length) {
  const auto tokens = static_cast<double>(length);
  const double near = sum_up_to(static_cast<double>(a.window), tokens);
  const std::int64_t entries = a.entries(length);
  if (entries == 0) return near;
  const auto most = static_cast<double>(a.seen(length)), all = static_cast<double>(entries);
  const auto of_entry = static_cast<double>(a.tokens_of_entry);
  const double after_last = tokens - all * of_entry + 1;  // queries that see the last entry
  return near + of_entry * sum_up_to(most, all - 1) + after_last * most;
}

// The window w with as many pairs: w·L - w·(w - 1)/2 = pairs.
std::int64_t window_of_pairs(double pairs, std::int64_t length) {
  const double side = 2.0 * static_cast<double>(length) + 1;
  const double root = std::sqrt(std::max(1.0, side * side - 8 * pairs));
  return std::clamp<std::int64_t>(std::llround((side - root) / 2), 1, length);
}

struct Compressor {
  std::string module;  // with its dot
  std::int64_t dim = 0, tokens = 0;
  std::int64_t series = 1;  // 2: each entry also weighs the tokens of the one before
  std::int64_t rope_dim = 0;
};

// Entries are sums of their tokens, weighted by a softmax over them. When decoding, one step of
// `tokens` makes an entry: its sum is left out.
Value compress(Emitter& out, const Compressor& c, const Shape& shape, const Value& input) {
  const std::int64_t rows = shape.rows(), width = c.series * c.dim;
  const auto project = [&](const char* name) {
    return out.linear(c.module + name, input,
                      {.rows = rows, .in = shape.hidden, .out = width, .usually_quantized = false});
  };
  const Value kv = project("kv_proj"), gate = project("gate_proj");
  out.add_parameters(static_cast<double>(c.tokens) * static_cast<double>(width));  // position_bias
  const std::int64_t entries = shape.decodes() ? 0 : shape.batch * (shape.length / c.tokens);
  if (entries == 0) {
    out.add_parameters(static_cast<double>(c.dim));  // kv_norm
    return kv;
  }
  const Value summed =
      out.add(c.module + "softmax_sum",
              Elementwise{"softmax_sum", entries * c.dim, 2 * c.series * c.tokens}, {kv, gate});
  const Value normed = out.norm(c.module + "kv_norm", summed, kRmsNorm, entries, c.dim);
  return out.add(c.module + "rotary", Elementwise{"rotary", entries * c.rope_dim, 1}, {normed});
}

// Scores of every query against every entry, in a few narrow heads.
void score_entries(Emitter& out, const CompressedAttention& a, const Shape& shape,
                   const Value& input, const Value& query_latent) {
  const Indexer& indexer = *a.indexer;
  const std::int64_t rows = shape.rows();
  const std::string module = a.module + ".compressor.indexer.";
  const Value keys =
      compress(out, {module, indexer.dim, a.tokens_of_entry, 2, std::min(a.rope_dim, indexer.dim)},
               shape, input);
  const Value q = out.linear(module + "q_b_proj", query_latent,
                             {.rows = rows, .in = a.q_rank, .out = indexer.heads * indexer.dim});
  const Value weights = out.linear(
      module + "scorer.weights_proj", input,
      {.rows = rows, .in = shape.hidden, .out = indexer.heads, .usually_quantized = false});
  Gemm gemm;
  gemm.batch = shape.batch;
  gemm.m = shape.length * indexer.heads;
  gemm.n = cached_keys_read(shape, a.entries(shape.past + shape.length));
  gemm.k = indexer.dim;
  gemm.weight_is_parameter = false;
  if (gemm.n > 0) out.product(module + "scorer.scores", {q, keys, weights}, gemm);
}

Value attend_entries(Emitter& out, const CompressedAttention& a, const Shape& shape,
                     std::vector<Value> inputs) {
  const std::int64_t positions = shape.past + shape.length;
  Attention body;
  body.batch = shape.batch;
  body.heads = a.heads;
  body.kv_heads = 1;
  body.query_len = shape.length;
  body.head_dim = body.value_dim = a.head_dim;
  body.values_in_keys = true;
  if (shape.decodes()) {
    body.kv_len = std::min(a.window, positions) + a.seen(positions);
  } else {
    body.kv_len = shape.length;
    body.causal = true;
    body.window = window_of_pairs(pairs_of_prompt(a, shape.length), shape.length);
  }
  const Dtype keys = shape.decodes() ? shape.cache : out.dtype();
  return out.attention(a.module + ".attention", body, std::move(inputs), keys);
}

}  // namespace

Value emit_compressed_attention(Emitter& out, const CompressedAttention& a, const Shape& shape,
                                const Value& input) {
  const std::int64_t rows = shape.rows(), width = a.heads * a.head_dim;
  const auto name = [&](const char* part) { return a.module + "." + part; };
  const Value down =
      out.linear(name("q_a_proj"), input, {.rows = rows, .in = shape.hidden, .out = a.q_rank});
  const Value latent = out.norm(name("q_a_norm"), down, kRmsNorm, rows, a.q_rank);
  const Value up =
      out.linear(name("q_b_proj"), latent, {.rows = rows, .in = a.q_rank, .out = width});
  const Value q = out.norm(name("q_b_norm"), up, {NormKind::rms, false, false, true},
                           rows * a.heads, a.head_dim);
  const Value kv =
      out.linear(name("kv_proj"), input, {.rows = rows, .in = shape.hidden, .out = a.head_dim});
  const Value key = out.norm(name("kv_norm"), kv, kRmsNorm, rows, a.head_dim);
  const Value rotated = out.add(
      name("rotary"), Elementwise{"rotary", rows * (a.heads + 1) * a.rope_dim, 1}, {q, key});
  std::vector<Value> seen{rotated};
  if (a.tokens_of_entry > 0) {
    seen.push_back(compress(
        out, {name("compressor."), a.head_dim, a.tokens_of_entry, a.indexer ? 2 : 1, a.rope_dim},
        shape, input));
  }
  if (a.indexer) score_entries(out, a, shape, input, latent);
  out.add_parameters(static_cast<double>(a.heads));  // sinks
  // Values were rotated as keys: the outputs are rotated back.
  const Value attended =
      out.add(name("rotary_back"), Elementwise{"rotary", rows * a.heads * a.rope_dim, 1},
              {attend_entries(out, a, shape, std::move(seen))});
  const Value low = out.linear(name("o_a_proj"), attended,
                               {.rows = rows,
                                .in = width / a.groups,
                                .out = a.out_rank,
                                .batch = a.groups,
                                .stored = a.groups});
  return out.linear(name("o_b_proj"), low,
                    {.rows = rows, .in = a.groups * a.out_rank, .out = shape.hidden});
}

}  // namespace rooftile::hf
