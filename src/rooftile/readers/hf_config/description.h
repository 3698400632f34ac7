// What a config.json says about a network, free of the spelling of its family: towers of layers
// made of a few kinds of blocks. The builder turns it into operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rooftile/workload/op.h"

namespace rooftile::hf {

// A normalisation before or after a block; `present` false leaves it out.
struct Norm {
  NormKind kind = NormKind::rms;
  bool weight = true, bias = false;
  bool present = true;

  bool operator==(const Norm&) const = default;
};

inline constexpr Norm kRmsNorm{};
inline constexpr Norm kLayerNorm{NormKind::layer, true, true, true};
inline constexpr Norm kLayerNormWithoutBias{NormKind::layer, true, false, true};
inline constexpr Norm kNoNorm{NormKind::rms, false, false, false};

// A normalisation of queries and keys: over each head, or over all heads at once.
enum class QkNorm { none, per_head, all_heads, per_head_without_weight };

// softmax(q·kᵀ)·v with its projections. An empty `fused` means one product each for q, k and v.
struct SelfAttention {
  std::string module = "self_attn";
  std::string q = "q_proj", k = "k_proj", v = "v_proj", out = "o_proj";
  std::string fused{};
  GemmLayout layout = GemmLayout::nt;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;    // of the values of a head; 0 = head_dim
  std::int64_t input_width = 0;  // of what it projects, or of the memory; 0 = the model's
  bool q_bias = false, k_bias = false, v_bias = false, out_bias = false;
  bool causal = true;
  std::int64_t window = 0;  // keys each query sees; 0 = all
  bool rotary = true;
  QkNorm qk_norm = QkNorm::none;
  NormKind qk_norm_kind = NormKind::rms;
  std::string q_norm = "q_norm", k_norm = "k_norm";
  bool value_norm = false;    // values of each head, without a weight
  bool output_gate = false;   // q also makes a sigmoid gate of the output's size
  bool head_gate = false;     // g_proj makes a sigmoid gate for each head
  bool value_is_key = false;  // no projection of its own
  bool shares_kv = false;     // keys and values of an earlier layer
  bool sdpa = true;           // false: Transformers computes the scores in separate operations
  std::int64_t extra_parameters = 0;  // attention sinks, relative position tables
  // Disentangled attention (DeBERTa): positions projected with the weights of q and k; 0 = none.
  std::int64_t relative_positions = 0;
  // Positions projected with a weight of their own, for one term (XLNet); empty = as above.
  std::string relative_weight{};

  std::int64_t values_of_head() const { return value_dim > 0 ? value_dim : head_dim; }
  bool operator==(const SelfAttention&) const = default;
};

// The lightning indexer of sparse attention: picks top_k keys for each query. `scores` false
// reuses the choice of an earlier layer.
struct Indexer {
  std::int64_t heads = 0, dim = 0, top_k = 0;
  bool scores = true;

  bool operator==(const Indexer&) const = default;
};

// Multi-head latent attention: queries, keys and values pass through low ranks. q_rank 0 = a full
// query projection. Keys have nope_dim + rope_dim elements, the rope part shared by the heads.
struct LatentAttention {
  std::string module = "self_attn";
  std::int64_t heads = 0, q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;
  bool bias = false;
  std::optional<Indexer> indexer{};

  bool operator==(const LatentAttention&) const = default;
};

// DeepSeek V4: one head of keys, which are the values too, for all heads of queries. Each query
// sees a window of tokens and entries that stand for several tokens each; with an indexer, the
// entries it picks, which overlap. Heads leave through a low rank for each group of them.
struct CompressedAttention {
  std::string module = "self_attn";
  std::int64_t heads = 0, head_dim = 0, rope_dim = 0, q_rank = 0, groups = 0, out_rank = 0;
  std::int64_t window = 0;
  std::int64_t tokens_of_entry = 0;  // 0: the window alone
  std::optional<Indexer> indexer{};

  // Entries that `positions` tokens make, and those of them that one query sees at most.
  std::int64_t entries(std::int64_t positions) const {
    return tokens_of_entry > 0 ? positions / tokens_of_entry : 0;
  }
  std::int64_t seen(std::int64_t positions) const {
    return indexer ? std::min(indexer->top_k, entries(positions)) : entries(positions);
  }
  bool operator==(const CompressedAttention&) const = default;
};

// Gated delta rule linear attention (Qwen3-Next).
struct DeltaNet {
  std::string module = "linear_attn";
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv_kernel = 0;
  bool split_projections = false;  // qkv, z, b and a apart instead of qkvz and ba

  bool operator==(const DeltaNet&) const = default;
};

struct Mamba2 {
  std::string module = "mixer";
  std::int64_t heads = 0, head_dim = 0, groups = 0, state = 0, conv_kernel = 0;
  bool projection_bias = false, conv_bias = true;
  bool gated_norm = true;

  bool operator==(const Mamba2&) const = default;
};

// The first Mamba: its step sizes pass through a low rank.
struct Mamba1 {
  std::string module = "mixer";
  std::int64_t inner = 0, state = 0, rank = 0, conv_kernel = 0;
  bool projection_bias = false, conv_bias = true;
  Norm inner_norm = kNoNorm;  // of step sizes and both state projections

  bool operator==(const Mamba1&) const = default;
};

// Linear attention with a decay for each head, and a gate of its output (MiniMax-01).
struct LightningAttention {
  std::string module = "self_attn";
  std::int64_t heads = 0, head_dim = 0;

  bool operator==(const LightningAttention&) const = default;
};

// A gated convolution of few taps (LFM2).
struct ShortConvolution {
  std::string module = "conv";
  std::int64_t kernel = 0;
  bool bias = false;

  bool operator==(const ShortConvolution&) const = default;
};

// Attention and Mamba side by side on one input, their results added (Falcon-H1).
struct AttentionBesideMamba {
  SelfAttention attention;
  Mamba2 mamba;

  bool operator==(const AttentionBesideMamba&) const = default;
};

// One square product in place of attention or feed-forward.
struct LinearBlock {
  std::string module{};

  bool operator==(const LinearBlock&) const = default;
};

struct Mlp {
  std::string module = "mlp";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string fused{};  // one product for gate and up
  GemmLayout layout = GemmLayout::nt;
  std::int64_t inner = 0;
  bool gated = true;
  bool up_bias = false, down_bias = false;  // up_bias covers the gate
  std::string activation = "silu";

  bool operator==(const Mlp&) const = default;
};

// Experts of which each token visits top_k. `expert.module` is where their weights are.
struct MixtureOfExperts {
  std::string module = "mlp";
  std::string router = "gate";
  std::int64_t experts = 0, top_k = 0;
  Mlp expert;
  bool router_bias = false;
  bool sigmoid_scores = false;
  std::int64_t router_extra_parameters = 0;  // correction bias, scales
  std::int64_t latent = 0;                   // experts work at this width; 0 = the model's
  std::optional<Mlp> shared{};               // runs for every token
  bool shared_gate = false;
  std::optional<Mlp> parallel{};  // a dense MLP beside it, with norms of its own

  bool operator==(const MixtureOfExperts&) const = default;
};

using Mixer = std::variant<std::monostate, SelfAttention, LatentAttention, CompressedAttention,
                           DeltaNet, Mamba2, Mamba1, ShortConvolution, AttentionBesideMamba,
                           LightningAttention, LinearBlock>;
using Feed = std::variant<std::monostate, Mlp, MixtureOfExperts, LinearBlock>;

// Where the normalisations stand: before each block, after the residual, on both sides of the
// block, after the block but before the residual, or before two blocks that run side by side on
// one input (shared or two norms).
enum class Placement { pre, post, sandwich, post_block, parallel_shared, parallel_two };

// Zamba 2: attention and MLP on the stream beside the embedding, before the layer's own block.
// Their weights exist `sets` times, the low-rank adapters of each use apart.
struct SharedBlock {
  SelfAttention attention;
  Mlp mlp;
  std::int64_t sets = 1;
  std::int64_t attention_rank = 0, mlp_rank = 0;  // of the adapters; 0 = none

  bool operator==(const SharedBlock&) const = default;
};

// Gemma 3n: several streams of which a layer computes one and predicts the others (AltUp), and a
// low-rank branch beside its attention (LAuReL).
struct AlternatingUpdates {
  std::int64_t streams = 0, branch_rank = 0;

  bool operator==(const AlternatingUpdates&) const = default;
};

struct Layer {
  Mixer mixer;
  std::optional<SelfAttention> cross{};
  Feed feed;
  Norm norm;
  Placement placement = Placement::pre;
  // Empty: no normalisation.
  std::string mixer_norm = "input_layernorm", feed_norm = "post_attention_layernorm";
  std::string cross_norm = "encoder_attn_layer_norm";
  // Only for sandwich: norms after the blocks.
  std::string mixer_post_norm = "post_attention_layernorm";
  std::string feed_post_norm = "post_feedforward_layernorm";
  bool layer_scale = false;          // a learned factor per channel after each block
  std::int64_t per_layer_input = 0;  // width of an embedding mixed in after the layer; 0 = none
  std::int64_t extra_parameters = 0;
  // Residual streams that each block reads mixed into one (hyper-connections); 0 = a plain
  // residual.
  std::int64_t hyper_streams = 0;
  std::optional<AlternatingUpdates> alternating{};
  std::optional<SharedBlock> shared{};

  bool operator==(const Layer&) const = default;
};

// How many rows an operation outside the layers has.
enum class Rows { tokens, sequences };

struct Table {  // an embedding; `add` sums it with the value so far
  std::string path{};
  std::int64_t vocab = 0, width = 0;
  bool add = false;
  bool tied = false;  // the table is counted elsewhere
};
struct NormPart {
  std::string path{};
  Norm norm;
  std::int64_t cols = 0;
  Rows rows = Rows::tokens;
};
struct Projection {
  std::string path{};
  std::int64_t in = 0, out = 0;
  bool bias = false;
  bool tied = false;  // the weight is counted elsewhere
  Rows rows = Rows::tokens;
  std::string activation{};
  std::string reads{};  // the value it reads; empty = the one before
  bool branch = false;  // what follows does not read its result
};
struct Conv {
  std::string path{};
  Convolution body;
  std::int64_t extra_parameters = 0;
  std::string activation{};
  Norm norm = kNoNorm;
  bool residual = false;  // the result is added to its input
};
struct Pointwise {
  std::string path{}, fn{};
  std::int64_t width = 0;
  std::int64_t inputs = 1;
};
struct Parameters {  // trained but without an operation of their own
  std::int64_t count = 0;
};
struct Stack {
  std::string path{};
  std::int64_t hidden = 0;
  std::vector<Layer> layers{};
  bool shared_weights = false;  // all layers use the weights of one (ALBERT)
};

// What has no description: a function that emits its operations, from the value before to its own.
class Emitter;
struct Emission {
  std::function<std::string(Emitter& out, const std::string& input)> emit;
};

using Part =
    std::variant<Table, NormPart, Projection, Conv, Pointwise, Parameters, Stack, Emission>;

// Parts that run one after the other on `length` tokens of each of the batch's sequences.
struct Tower {
  std::vector<Part> parts{};
  std::int64_t length = 0;
  std::int64_t memory_length = 0;  // tokens of the tower before, for cross-attention
  bool generates = false;          // one token after the other, with a cache of what went before
  std::int64_t past = 0;           // tokens in that cache before these; 0 unless it decodes
  bool runs = true;                // false: only its parameters count, as of encoders when decoding
};

struct Model {
  std::vector<Tower> towers{};
  std::vector<std::string> notes{};
  std::map<std::string, std::int64_t> skipped;
  std::optional<std::int64_t> sequence{};  // as in Workload
};

}  // namespace rooftile::hf
