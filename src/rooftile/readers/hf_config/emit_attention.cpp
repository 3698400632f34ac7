// Attention in its forms: heads with separate or fused projections, and latent attention.
#include <algorithm>

#include "rooftile/readers/hf_config/emit_mixers.h"

namespace rooftile::hf {
namespace {

struct QueryKeyValue {
  Value q, k, v;
};

// Widths of the projections.
struct Widths {
  std::int64_t q = 0, k = 0, v = 0, gate = 0;
};

Widths widths_of(const SelfAttention& a) {
  const std::int64_t q = a.heads * a.head_dim;
  return {q, a.kv_heads * a.head_dim, a.kv_heads * a.values_of_head(), a.output_gate ? q : 0};
}

QueryKeyValue project_fused(Emitter& out, const SelfAttention& a, const Shape& shape,
                            const Value& input) {
  const Widths widths = widths_of(a);
  const Value qkv = out.linear(a.module + "." + a.fused, input,
                               {.rows = shape.rows(),
                                .in = shape.hidden,
                                .out = widths.q + widths.gate + widths.k + widths.v,
                                .bias = a.q_bias,
                                .layout = a.layout});
  return {qkv, qkv, qkv};
}

// What is projected to queries, keys or values; of no `rows` where they are in a cache.
struct Operand {
  Value value;
  std::int64_t rows = 0, width = 0;
};

QueryKeyValue project(Emitter& out, const SelfAttention& a, const Shape& shape,
                      const Operand& input, const Operand& memory) {
  const Widths widths = widths_of(a);
  const auto one = [&](const std::string& name, const Operand& from, std::int64_t width,
                       bool bias) {
    const Linear linear{.rows = from.rows,
                        .in = from.width > 0 ? from.width : shape.hidden,
                        .out = width,
                        .bias = bias,
                        .layout = a.layout};
    if (from.rows > 0) return out.linear(a.module + "." + name, from.value, linear);
    out.add_parameters(linear);
    return Value();
  };
  QueryKeyValue result;
  result.q = one(a.q, input, widths.q + widths.gate, a.q_bias);
  if (a.shares_kv) return result;
  result.k = one(a.k, memory, widths.k, a.k_bias);
  result.v = a.value_is_key ? result.k : one(a.v, memory, widths.v, a.v_bias);
  return result;
}

Value normalize_heads(Emitter& out, const SelfAttention& a, const std::string& name,
                      const Value& input, std::int64_t rows, std::int64_t heads) {
  const bool all = a.qk_norm == QkNorm::all_heads;
  const Norm norm{a.qk_norm_kind, a.qk_norm != QkNorm::per_head_without_weight, false, true};
  return out.norm(a.module + "." + name, input, norm, all ? rows : rows * heads,
                  all ? heads * a.head_dim : a.head_dim);
}

void normalize(Emitter& out, const SelfAttention& a, const Shape& shape, QueryKeyValue& qkv) {
  if (a.qk_norm == QkNorm::none) return;
  qkv.q = normalize_heads(out, a, a.q_norm, qkv.q, shape.rows(), a.heads);
  if (a.shares_kv) return;
  qkv.k = normalize_heads(out, a, a.k_norm, qkv.k, shape.rows(), a.kv_heads);
  if (!a.value_norm) return;
  qkv.v = out.norm(a.module + ".v_norm", qkv.v, {NormKind::rms, false, false, true},
                   shape.rows() * a.kv_heads, a.values_of_head());
}

void rotate(Emitter& out, const SelfAttention& a, const Shape& shape, QueryKeyValue& qkv) {
  if (!a.rotary) return;
  const std::int64_t heads = a.heads + (a.shares_kv ? 0 : a.kv_heads);
  // One pass over queries and keys: their elements are read once.
  Elementwise body{"rotary", shape.rows() * heads * a.head_dim, 1};
  std::vector<Value> inputs{qkv.q};
  if (qkv.k != qkv.q) inputs.push_back(qkv.k);
  qkv.q = qkv.k = out.add(a.module + ".rotary", body, inputs);
}

// The position terms of disentangled attention, content to position and position to content, or the
// one of Transformer-XL.
std::vector<Value> position_scores(Emitter& out, const SelfAttention& a, const Shape& shape,
                                   const QueryKeyValue& qkv) {
  if (a.relative_positions == 0) return {};
  const bool own = !a.relative_weight.empty();
  std::vector<Value> scores;
  const auto term = [&](const std::string& name, const std::string& weight, const Value& content) {
    const Value positions = out.linear(a.module + "." + name + "_" + weight, "",
                                       {.rows = a.relative_positions,
                                        .in = shape.hidden,
                                        .out = a.heads * a.head_dim,
                                        .bias = !own,
                                        .counts_parameters = own});
    Gemm gemm;
    gemm.batch = shape.batch * a.heads;
    gemm.m = shape.length;
    gemm.n = a.relative_positions;
    gemm.k = a.head_dim;
    gemm.weight_is_parameter = false;
    scores.push_back(out.product(a.module + "." + name, {content, positions}, gemm));
  };
  term("content_to_position", own ? a.relative_weight : a.k, qkv.q);
  if (!own) term("position_to_content", a.q, qkv.k);
  return scores;
}

std::vector<Value> distinct(std::vector<Value> values) {
  std::vector<Value> result;
  for (Value& value : values) {
    if (std::find(result.begin(), result.end(), value) == result.end()) {
      result.push_back(std::move(value));
    }
  }
  return result;
}

// Keys that one new token sees of all `positions`; what a window has left behind is dropped.
std::int64_t keys_in_cache(std::int64_t window, std::int64_t positions) {
  return window > 0 ? std::min(window, positions) : positions;
}

Value attend(Emitter& out, const SelfAttention& a, const Shape& shape, std::int64_t kv_length,
             const QueryKeyValue& qkv, const std::vector<Value>& scores) {
  Attention body;
  body.batch = shape.batch;
  body.heads = a.heads;
  body.kv_heads = a.kv_heads;
  body.query_len = shape.length;
  body.kv_len = kv_length;
  body.head_dim = a.head_dim;
  body.value_dim = a.values_of_head();
  if (shape.decodes()) {
    body.kv_len = keys_in_cache(a.window, kv_length);
  } else {
    body.causal = a.causal;
    body.window = a.window;
  }
  // The engines that decode fuse it, with sinks, biases and soft caps alike.
  body.fused = a.sdpa || shape.decodes();
  std::vector<Value> inputs{qkv.q, qkv.k, qkv.v};
  inputs.insert(inputs.end(), scores.begin(), scores.end());
  const Dtype keys = shape.decodes() ? shape.cache : out.dtype();
  return out.attention(a.module + ".attention", body, distinct(inputs), keys);
}

Value project_out(Emitter& out, const SelfAttention& a, const Shape& shape, const Value& attended,
                  const Value& gate) {
  const std::int64_t width = a.heads * a.values_of_head();
  Value result = attended;
  if (a.output_gate || a.head_gate) {
    result =
        out.pointwise(a.module + ".gate", "sigmoid_mul", {attended, gate}, shape.rows() * width);
  }
  out.add_parameters(static_cast<double>(a.extra_parameters));
  return out.linear(a.module + "." + a.out, result,
                    {.rows = shape.rows(),
                     .in = width,
                     .out = shape.hidden,
                     .bias = a.out_bias,
                     .layout = a.layout});
}

}  // namespace

Value emit_self_attention(Emitter& out, const SelfAttention& a, const Shape& shape,
                          const Value& input) {
  const Operand stream{input, shape.rows(), a.input_width};
  QueryKeyValue qkv = a.fused.empty() ? project(out, a, shape, stream, stream)
                                      : project_fused(out, a, shape, input);
  const Value gate = a.head_gate
                         ? out.linear(a.module + ".g_proj", input,
                                      {.rows = shape.rows(), .in = shape.hidden, .out = a.heads})
                         : qkv.q;
  normalize(out, a, shape, qkv);
  rotate(out, a, shape, qkv);
  const std::vector<Value> scores = position_scores(out, a, shape, qkv);
  const Value attended = attend(out, a, shape, shape.past + shape.length, qkv, scores);
  return project_out(out, a, shape, attended, gate);
}

Value emit_cross_attention(Emitter& out, const SelfAttention& a, const Shape& shape,
                           const Value& input) {
  const std::int64_t memory_rows = shape.decodes() ? 0 : shape.batch * shape.memory_length;
  QueryKeyValue qkv =
      project(out, a, shape, {input, shape.rows()}, {shape.memory, memory_rows, a.input_width});
  if (a.qk_norm != QkNorm::none) {
    qkv.q = normalize_heads(out, a, a.q_norm, qkv.q, shape.rows(), a.heads);
    if (memory_rows > 0) qkv.k = normalize_heads(out, a, a.k_norm, qkv.k, memory_rows, a.kv_heads);
  }
  const Value attended = attend(out, a, shape, shape.memory_length, qkv, {});
  return project_out(out, a, shape, attended, qkv.q);
}

std::int64_t cached_keys_read(const Shape& shape, std::int64_t keys) {
  constexpr std::int64_t kPage = 64;
  return shape.past == 0 ? keys : (keys + kPage - 1) / kPage * kPage;
}

namespace {

// Scores of the indexer: every query against every key in a few narrow heads.
void emit_indexer(Emitter& out, const LatentAttention& a, const Shape& shape, const Value& input,
                  const Value& query_latent) {
  const Indexer& indexer = *a.indexer;
  const std::string module = a.module + ".indexer.";
  const std::int64_t rows = shape.rows();
  const Value q = out.linear(module + "wq_b", query_latent,
                             {.rows = rows, .in = a.q_rank, .out = indexer.heads * indexer.dim});
  const Value key =
      out.linear(module + "wk", input, {.rows = rows, .in = shape.hidden, .out = indexer.dim});
  const Value k = out.norm(module + "k_norm", key, kLayerNorm, rows, indexer.dim);
  const Value weights = out.linear(
      module + "weights_proj", input,
      {.rows = rows, .in = shape.hidden, .out = indexer.heads, .usually_quantized = false});
  Gemm gemm;
  gemm.batch = shape.batch;
  gemm.m = shape.length * indexer.heads;
  gemm.n = cached_keys_read(shape, shape.past + shape.length);
  gemm.k = indexer.dim;
  gemm.weight_is_parameter = false;
  out.product(module + "scores", {q, k, weights}, gemm);
}

struct Latent {
  Value query, query_latent, compressed;
};

Latent project_latent(Emitter& out, const LatentAttention& a, const Shape& shape,
                      const Value& input) {
  const std::int64_t rows = shape.rows(), q_width = a.heads * (a.nope_dim + a.rope_dim);
  const auto name = [&](const char* part) { return a.module + "." + part; };
  Latent latent;
  if (a.q_rank == 0) {
    latent.query =
        out.linear(name("q_proj"), input, {.rows = rows, .in = shape.hidden, .out = q_width});
  } else {
    const Value down =
        out.linear(name("q_a_proj"), input,
                   {.rows = rows, .in = shape.hidden, .out = a.q_rank, .bias = a.bias});
    latent.query_latent = out.norm(name("q_a_layernorm"), down, kRmsNorm, rows, a.q_rank);
    latent.query = out.linear(name("q_b_proj"), latent.query_latent,
                              {.rows = rows, .in = a.q_rank, .out = q_width});
  }
  latent.compressed =
      out.linear(name("kv_a_proj_with_mqa"), input,
                 {.rows = rows, .in = shape.hidden, .out = a.kv_rank + a.rope_dim, .bias = a.bias});
  return latent;
}

// The projection from the latent, applied to queries and outputs in place of keys and values. What
// serves DeepSeek keeps these weights in 16 bits (vLLM, v1/attention/backends/mla).
Value absorbed(Emitter& out, const std::string& module, const LatentAttention& a,
               const Value& input, const Shape& shape, std::int64_t in, std::int64_t width) {
  Gemm gemm;
  gemm.batch = a.heads;
  gemm.m = shape.rows();
  gemm.n = width;
  gemm.k = in;
  return out.product(module, {input}, gemm);
}

// One key of the latent and the shared rotary part serves all heads; its latent is the value.
Value attend_latent(Emitter& out, const LatentAttention& a, const Shape& shape,
                    const Value& rotary) {
  const auto name = [&](const char* part) { return a.module + "." + part; };
  out.add_parameters({.in = a.kv_rank, .out = a.heads * (a.nope_dim + a.value_dim)});
  const Value query =
      absorbed(out, name("kv_b_proj.keys"), a, rotary, shape, a.nope_dim, a.kv_rank);
  Attention body;
  body.batch = shape.batch;
  body.heads = a.heads;
  body.kv_heads = 1;
  body.query_len = shape.length;
  body.kv_len = keys_in_cache(a.indexer ? a.indexer->top_k : 0, shape.past + shape.length);
  body.head_dim = a.kv_rank + a.rope_dim;
  body.value_dim = a.kv_rank;
  body.values_in_keys = true;
  const Value attended = out.attention(name("attention"), body, {query}, shape.cache);
  return absorbed(out, name("kv_b_proj.values"), a, attended, shape, a.kv_rank, a.value_dim);
}

// Keys and values of each head, expanded from the latent.
Value attend_expanded(Emitter& out, const LatentAttention& a, const Shape& shape,
                      const Value& rotary, const Value& normed) {
  const auto name = [&](const char* part) { return a.module + "." + part; };
  const Value kv = out.linear(
      name("kv_b_proj"), normed,
      {.rows = shape.rows(), .in = a.kv_rank, .out = a.heads * (a.nope_dim + a.value_dim)});
  Attention body;
  body.batch = shape.batch;
  body.heads = body.kv_heads = a.heads;
  body.query_len = body.kv_len = shape.length;
  body.head_dim = a.nope_dim + a.rope_dim;
  body.value_dim = a.value_dim;
  body.causal = true;
  body.window = a.indexer ? a.indexer->top_k : 0;
  return out.add(name("attention"), body, {rotary, kv});
}

}  // namespace

Value emit_latent_attention(Emitter& out, const LatentAttention& a, const Shape& shape,
                            const Value& input) {
  const std::int64_t rows = shape.rows();
  const auto name = [&](const char* part) { return a.module + "." + part; };
  const Latent latent = project_latent(out, a, shape, input);
  const Value normed =
      out.norm(name("kv_a_layernorm"), latent.compressed, kRmsNorm, rows, a.kv_rank);
  const Value rotary =
      out.add(name("rotary"), Elementwise{"rotary", rows * (a.heads + 1) * a.rope_dim, 1},
              {latent.query, latent.compressed});
  if (a.indexer && a.indexer->scores) emit_indexer(out, a, shape, input, latent.query_latent);
  const Value attended = shape.decodes() ? attend_latent(out, a, shape, rotary)
                                         : attend_expanded(out, a, shape, rotary, normed);
  return out.linear(
      name("o_proj"), attended,
      {.rows = rows, .in = a.heads * a.value_dim, .out = shape.hidden, .bias = a.bias});
}

}  // namespace rooftile::hf
