#include "rooftile/readers/hf_config/cache.h"

#include <algorithm>

namespace rooftile::hf {
namespace {

double elements(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

// The indexer's keys are FP8 with one fp32 scale for 128, in DeepSeek's own code and in vLLM.
constexpr double kIndexerBytes = 1 + 4.0 / 128;

// Of one sequence and layer.
struct LayerCache {
  std::int64_t positions, memory_length;
  double element;  // bytes
  std::int64_t hidden = 0;

  double keys_and_values(const SelfAttention& a, std::int64_t held) const {
    return elements(a.kv_heads, a.head_dim + a.values_of_head()) * static_cast<double>(held) *
           element;
  }

  DecoderCache operator()(const std::monostate&) const { return {}; }
  DecoderCache operator()(const LinearBlock&) const { return {}; }
  DecoderCache operator()(const SelfAttention& a) const {
    if (a.shares_kv) return {};
    return {keys_and_values(a, a.window > 0 ? std::min(a.window, positions) : positions), 0};
  }
  DecoderCache operator()(const LatentAttention& a) const {
    const bool indexes = a.indexer && a.indexer->scores;
    const double keys = indexes ? static_cast<double>(a.indexer->dim) * kIndexerBytes : 0;
    return {static_cast<double>(positions) *
                (static_cast<double>(a.kv_rank + a.rope_dim) * element + keys),
            0};
  }
  DecoderCache operator()(const CompressedAttention& a) const {
    const auto entries = static_cast<double>(a.entries(positions));
    const double keys = a.indexer ? static_cast<double>(a.indexer->dim) * kIndexerBytes : 0;
    const auto held = static_cast<double>(std::min(a.window, positions));
    return {(held + entries) * static_cast<double>(a.head_dim) * element + entries * keys, 0};
  }
  DecoderCache operator()(const DeltaNet& net) const { return kept(state_of(net)); }
  DecoderCache operator()(const Mamba2& mamba) const { return kept(state_of(mamba)); }
  DecoderCache operator()(const Mamba1& mamba) const { return kept(state_of(mamba)); }
  DecoderCache operator()(const LightningAttention& a) const { return kept(state_of(a)); }
  DecoderCache operator()(const ShortConvolution& conv) const {
    return kept({elements(hidden, conv.kernel - 1), 0});
  }
  DecoderCache operator()(const AttentionBesideMamba& both) const {
    DecoderCache sum = (*this)(both.attention);
    return sum += (*this)(both.mamba);
  }

 private:
  DecoderCache kept(const RecurrentState& state) const {
    return {0, state.inputs * element + state.state * size_in_bytes(kStateDtype)};
  }
};

}  // namespace

RecurrentState state_of(const DeltaNet& net) {
  const double channels =
      2 * elements(net.key_heads, net.key_dim) + elements(net.value_heads, net.value_dim);
  return {channels * static_cast<double>(net.conv_kernel - 1),
          elements(net.value_heads, net.value_dim) * static_cast<double>(net.key_dim)};
}

RecurrentState state_of(const Mamba2& mamba) {
  const double channels =
      elements(mamba.heads, mamba.head_dim) + 2 * elements(mamba.groups, mamba.state);
  return {channels * static_cast<double>(mamba.conv_kernel - 1),
          elements(mamba.heads, mamba.head_dim) * static_cast<double>(mamba.state)};
}

RecurrentState state_of(const Mamba1& mamba) {
  return {elements(mamba.inner, mamba.conv_kernel - 1), elements(mamba.inner, mamba.state)};
}

RecurrentState state_of(const LightningAttention& attention) {
  return {0, elements(attention.heads * attention.head_dim, attention.head_dim)};
}

DecoderCache cache_of(const Tower& tower, std::int64_t batch, Dtype dtype) {
  if (!tower.generates) return {};
  LayerCache cache{tower.past + tower.length, tower.memory_length, size_in_bytes(dtype)};
  DecoderCache sum;
  for (const Part& part : tower.parts) {
    const auto* stack = std::get_if<Stack>(&part);
    if (stack == nullptr) continue;
    cache.hidden = stack->hidden;
    for (const Layer& layer : stack->layers) {
      sum += std::visit(cache, layer.mixer);
      if (layer.shared) sum += cache(layer.shared->attention);
      if (layer.cross) {
        sum.keys_and_values += cache.keys_and_values(*layer.cross, tower.memory_length);
      }
    }
  }
  sum.keys_and_values *= static_cast<double>(batch);
  sum.states *= static_cast<double>(batch);
  return sum;
}

}  // namespace rooftile::hf
