#include "rooftile/readers/hf_config/emit_layer.h"

#include <fmt/format.h>

#include <utility>

#include "rooftile/readers/hf_config/emit_mixers.h"

namespace rooftile::hf {
namespace {

struct EmitMixer {
  Emitter& out;
  const Shape& shape;
  const Value& input;

  Value operator()(const std::monostate&) const { return input; }
  Value operator()(const SelfAttention& a) const {
    return emit_self_attention(out, a, shape, input);
  }
  Value operator()(const LatentAttention& a) const {
    return emit_latent_attention(out, a, shape, input);
  }
  Value operator()(const CompressedAttention& a) const {
    return emit_compressed_attention(out, a, shape, input);
  }
  Value operator()(const DeltaNet& net) const { return emit_delta_net(out, net, shape, input); }
  Value operator()(const Mamba2& mamba) const { return emit_mamba(out, mamba, shape, input); }
  Value operator()(const Mamba1& mamba) const { return emit_mamba1(out, mamba, shape, input); }
  Value operator()(const ShortConvolution& conv) const {
    return emit_short_convolution(out, conv, shape, input);
  }
  Value operator()(const LightningAttention& attention) const {
    return emit_lightning_attention(out, attention, shape, input);
  }
  Value operator()(const AttentionBesideMamba& both) const {
    const Value attended = (*this)(both.attention), scanned = (*this)(both.mamba);
    return out.pointwise("mixers_add", "add", {attended, scanned}, shape.rows() * shape.hidden);
  }
  Value operator()(const LinearBlock& block) const {
    return emit_linear_block(out, block, shape, input);
  }
};

// One layer while its residual stream runs through it.
class LayerEmitter {
 public:
  LayerEmitter(Emitter& out, const Layer& layer, const Shape& shape, Value input)
      : out_(out), layer_(layer), shape_(shape), stream_(std::move(input)) {}

  Value run() {
    if (layer_.shared) run_shared();
    if (layer_.alternating) predict_streams();
    if (layer_.hyper_streams > 0) {
      run_in_streams();
    } else if (layer_.placement == Placement::parallel_shared ||
               layer_.placement == Placement::parallel_two) {
      run_parallel();
    } else {
      run_in_sequence();
    }
    if (layer_.alternating) correct_streams();
    if (layer_.per_layer_input > 0) mix_in_embedding();
    out_.add_parameters(static_cast<double>(layer_.extra_parameters));
    return stream_;
  }

 private:
  bool has_mixer() const { return !std::holds_alternative<std::monostate>(layer_.mixer); }
  bool has_feed() const { return !std::holds_alternative<std::monostate>(layer_.feed); }
  std::int64_t elements() const { return shape_.rows() * shape_.hidden; }

  Value norm(const std::string& name, const Value& input) {
    if (name.empty()) return input;
    return out_.norm(name, input, layer_.norm, shape_.rows(), shape_.hidden);
  }

  Value before(const std::string& name) {
    const bool normed =
        layer_.placement == Placement::pre || layer_.placement == Placement::sandwich;
    const Value read = mixer_input_.empty() ? stream_ : std::exchange(mixer_input_, {});
    return normed ? norm(name, read) : read;
  }

  // Adds a block's result to the stream, with the norms of the placement.
  void after(Value result, const std::string& name, const std::string& post_name,
             const std::string& block) {
    if (layer_.placement == Placement::sandwich) result = norm(post_name, result);
    if (layer_.placement == Placement::post_block) result = norm(name, result);
    if (layer_.layer_scale) {
      out_.add_parameters(static_cast<double>(shape_.hidden));
      result = out_.pointwise(block + "_layer_scale", "mul", {result}, elements());
    }
    stream_ = out_.pointwise(block + "_residual", "add", {stream_, result}, elements());
    if (layer_.placement == Placement::post) stream_ = norm(name, stream_);
  }

  void run_in_sequence() {
    if (has_mixer()) {
      const Value input = before(layer_.mixer_norm);
      after(emit_mixer(out_, layer_.mixer, shape_, input), layer_.mixer_norm,
            layer_.mixer_post_norm, "attention");
      if (layer_.alternating) add_branch(input);
    }
    if (layer_.cross) {
      const Value input = before(layer_.cross_norm);
      after(emit_cross_attention(out_, *layer_.cross, shape_, input), layer_.cross_norm, "",
            "cross_attention");
    }
    if (has_feed()) {
      const Value input = before(layer_.feed_norm);
      after(emit_feed(out_, layer_.feed, shape_, input, stream_), layer_.feed_norm,
            layer_.feed_post_norm, "mlp");
    }
  }

  void run_parallel() {
    const Value first = norm(layer_.mixer_norm, stream_);
    const Value second =
        layer_.placement == Placement::parallel_two ? norm(layer_.feed_norm, stream_) : first;
    const Value mixed = emit_mixer(out_, layer_.mixer, shape_, first);
    const Value fed = emit_feed(out_, layer_.feed, shape_, second, stream_);
    stream_ = out_.pointwise("residual", "add", {stream_, mixed, fed}, elements());
  }

  void mix_in_embedding() {
    const std::int64_t rows = shape_.rows(), width = layer_.per_layer_input;
    const Value gate = out_.linear("per_layer_input_gate", stream_,
                                   {.rows = rows, .in = shape_.hidden, .out = width});
    const Value active =
        out_.add("per_layer_input_mul", Elementwise{"gelu_mul", rows * width, 2}, {gate});
    const Value projected = out_.linear("per_layer_projection", active,
                                        {.rows = rows, .in = width, .out = shape_.hidden});
    const Value normed = norm("post_per_layer_input_norm", projected);
    const std::int64_t others = layer_.alternating ? layer_.alternating->streams - 1 : 1;
    stream_ =
        out_.pointwise("per_layer_input_residual", "add", {stream_, normed}, others * elements());
  }

  // ---- hyper-connections

  // What a block reads of the streams. Their weights for it, for its result and for each other come
  // from one product, scaled by the root mean square of what it reads; the iterations that balance
  // them are a few numbers for each token.
  Value collapse(const std::string& module) {
    const std::int64_t streams = layer_.hyper_streams, weights = (2 + streams) * streams;
    const Value mixing = out_.linear(module + ".fn", stream_,
                                     {.rows = shape_.rows(),
                                      .in = streams * shape_.hidden,
                                      .out = weights,
                                      .usually_quantized = false});
    out_.add_parameters(static_cast<double>(weights + 3));  // base, and a scale for each of three
    return out_.add(module + ".collapse", Elementwise{"weighted_sum", elements(), streams},
                    {stream_, mixing});
  }

  // The streams mixed with each other, and the block's result added to each: all are read and
  // written once.
  void expand(const std::string& module, const Value& result) {
    const std::int64_t streams = layer_.hyper_streams;
    const double touched = static_cast<double>(elements()) * static_cast<double>(2 * streams + 1);
    stream_ = out_.add(module + ".mix",
                       Other{"mix_streams", 2 * (streams + 1) * streams * elements(),
                             static_cast<std::int64_t>(touched * size_in_bytes(out_.dtype()))},
                       {stream_, result});
  }

  void run_in_streams() {
    const Value mixed = norm(layer_.mixer_norm, collapse("attn_hc"));
    expand("attn_hc", emit_mixer(out_, layer_.mixer, shape_, mixed));
    const Value fed = norm(layer_.feed_norm, collapse("ffn_hc"));
    expand("ffn_hc", emit_feed(out_, layer_.feed, shape_, fed, fed));
  }

  // ---- alternating updates

  // A weight for each stream, from one of them. Both uses share their weights.
  Value route(const std::string& use, bool first) {
    const std::int64_t rows = shape_.rows();
    const Value normed = out_.norm("altup.router_norm" + use, stream_,
                                   {NormKind::rms, first, false, true}, rows, shape_.hidden);
    return out_.linear("altup.modality_router" + use, normed,
                       {.rows = rows,
                        .in = shape_.hidden,
                        .out = layer_.alternating->streams,
                        .counts_parameters = first});
  }

  void predict_streams() {
    const std::int64_t streams = layer_.alternating->streams;
    const Value weights =
        out_.linear("altup.prediction_coefs", route("", true),
                    {.rows = shape_.rows(), .in = streams, .out = streams * streams});
    stream_ = out_.add("altup.predict", Elementwise{"mix_streams", streams * elements(), 2},
                       {stream_, weights});
  }

  void correct_streams() {
    const std::int64_t streams = layer_.alternating->streams;
    const Value weights = out_.linear("altup.correction_coefs", route("_correct", false),
                                      {.rows = shape_.rows(), .in = streams, .out = streams});
    stream_ = out_.add("altup.correct", Elementwise{"mix_streams", streams * elements(), 2},
                       {stream_, weights});
    out_.add_parameters(static_cast<double>(shape_.hidden));  // correct_output_scale
    stream_ = out_.pointwise("altup.scale", "mul", {stream_}, elements());
  }

  void add_branch(const Value& input) {
    const std::int64_t rows = shape_.rows(), rank = layer_.alternating->branch_rank;
    const Value left =
        out_.linear("laurel.linear_left", input, {.rows = rows, .in = shape_.hidden, .out = rank});
    const Value right =
        out_.linear("laurel.linear_right", left, {.rows = rows, .in = rank, .out = shape_.hidden});
    const Value normed = norm("laurel.post_laurel_norm", right);
    const Value sum = out_.pointwise("laurel.residual", "add", {input, normed}, elements());
    stream_ = out_.pointwise("laurel_residual", "add", {stream_, sum}, elements());
  }

  // ---- a block with weights of several layers

  void adapt(const std::string& name, const Value& input, std::int64_t in, std::int64_t rank,
             std::int64_t width) {
    if (rank == 0) return;
    const std::int64_t rows = shape_.rows();
    const Value low = out_.linear(name + ".0", input, {.rows = rows, .in = in, .out = rank});
    const Value high = out_.linear(name + ".1", low, {.rows = rows, .in = rank, .out = width});
    out_.pointwise(name + ".add", "add", {high}, rows * width);
  }

  void run_shared() {
    const SharedBlock& block = *layer_.shared;
    const std::int64_t rows = shape_.rows(), wide = block.attention.input_width;
    const std::string module = "shared_transformer.";
    const Value both =
        out_.pointwise(module + "concatenate", "concatenate", {stream_}, rows * wide);
    out_.share_weights(block.sets);
    const Value normed = out_.norm(module + "input_layernorm", both, layer_.norm, rows, wide);
    Value current = emit_self_attention(out_, block.attention, shape_, normed);
    current = norm(module + "pre_ff_layernorm", current);
    const Value fed = emit_feed(out_, block.mlp, shape_, current, current);
    out_.share_weights({});
    for (const char* of : {"q", "k", "v"}) {
      adapt(fmt::format("{}.linear_{}_adapter", block.attention.module, of), normed, wide,
            block.attention_rank, wide);
    }
    adapt(block.mlp.module + ".gate_up_proj_adapter", current, shape_.hidden, block.mlp_rank,
          2 * block.mlp.inner);
    const Value projected =
        out_.linear("linear", fed, {.rows = rows, .in = shape_.hidden, .out = shape_.hidden});
    mixer_input_ =
        out_.pointwise("shared_transformer_add", "add", {stream_, projected}, elements());
  }

  Emitter& out_;
  const Layer& layer_;
  const Shape& shape_;
  Value stream_;
  Value mixer_input_;  // of the next block, where it is not the stream
};

}  // namespace

Value emit_mixer(Emitter& out, const Mixer& mixer, const Shape& shape, const Value& input) {
  return std::visit(EmitMixer{out, shape, input}, mixer);
}

Value emit_layer(Emitter& out, const Layer& layer, const Shape& shape, const Value& input) {
  return LayerEmitter(out, layer, shape, input).run();
}

}  // namespace rooftile::hf
