#include "rooftile/readers/hf_config/emit_layer.h"

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
    if (layer_.placement == Placement::parallel_shared ||
        layer_.placement == Placement::parallel_two) {
      run_parallel();
    } else {
      run_in_sequence();
    }
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
    return normed ? norm(name, stream_) : stream_;
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
    stream_ = out_.pointwise("per_layer_input_residual", "add", {stream_, normed}, elements());
  }

  Emitter& out_;
  const Layer& layer_;
  const Shape& shape_;
  Value stream_;
};

}  // namespace

Value emit_mixer(Emitter& out, const Mixer& mixer, const Shape& shape, const Value& input) {
  return std::visit(EmitMixer{out, shape, input}, mixer);
}

Value emit_layer(Emitter& out, const Layer& layer, const Shape& shape, const Value& input) {
  return LayerEmitter(out, layer, shape, input).run();
}

}  // namespace rooftile::hf
