// The blocks that mix tokens.
#pragma once

#include "rooftile/readers/hf_config/emit_layer.h"

namespace rooftile::hf {

Value emit_self_attention(Emitter& out, const SelfAttention& attention, const Shape& shape,
                          const Value& input);
Value emit_latent_attention(Emitter& out, const LatentAttention& attention, const Shape& shape,
                            const Value& input);
Value emit_compressed_attention(Emitter& out, const CompressedAttention& attention,
                                const Shape& shape, const Value& input);
Value emit_delta_net(Emitter& out, const DeltaNet& net, const Shape& shape, const Value& input);
Value emit_mamba(Emitter& out, const Mamba2& mamba, const Shape& shape, const Value& input);
Value emit_mamba1(Emitter& out, const Mamba1& mamba, const Shape& shape, const Value& input);
Value emit_lightning_attention(Emitter& out, const LightningAttention& attention,
                               const Shape& shape, const Value& input);
Value emit_short_convolution(Emitter& out, const ShortConvolution& conv, const Shape& shape,
                             const Value& input);
Value emit_linear_block(Emitter& out, const LinearBlock& block, const Shape& shape,
                        const Value& input);

// Of `keys` in a cache, which is read page by page, so that a step does not get slower where its
// length is odd: 64 positions a page in vLLM and in DeepSeek's own kernels. A prompt reads `keys`.
std::int64_t cached_keys_read(const Shape& shape, std::int64_t keys);

}  // namespace rooftile::hf
