// Operations of one layer.
#pragma once

#include <cstdint>

#include "rooftile/readers/hf_config/description.h"
#include "rooftile/readers/hf_config/emitter.h"

namespace rooftile::hf {

// `length` tokens in each of `batch` sequences, of width `hidden`, behind `past` others in a cache;
// cross-attention reads `memory_length` tokens of `memory`.
struct Shape {
  std::int64_t batch = 1, length = 0, hidden = 0, memory_length = 0, past = 0;
  Value memory;
  Dtype cache = Dtype::fp32;  // of the keys and values in it

  std::int64_t rows() const { return batch * length; }
  bool decodes() const { return past > 0; }
};

// Each returns the value that leaves it.
Value emit_mixer(Emitter& out, const Mixer& mixer, const Shape& shape, const Value& input);
Value emit_cross_attention(Emitter& out, const SelfAttention& attention, const Shape& shape,
                           const Value& input);
// `residual` is the stream before normalisation, which some mixtures of experts route on.
Value emit_feed(Emitter& out, const Feed& feed, const Shape& shape, const Value& input,
                const Value& residual);
Value emit_layer(Emitter& out, const Layer& layer, const Shape& shape, const Value& input);

}  // namespace rooftile::hf
