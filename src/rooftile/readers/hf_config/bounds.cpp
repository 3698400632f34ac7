#include "rooftile/readers/hf_config/bounds.h"

#include <algorithm>
#include <limits>

namespace rooftile::hf {
namespace {

double product(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

struct WidestRow {
  double operator()(const std::monostate&) const { return 0.0; }
  double operator()(const LinearBlock&) const { return 0.0; }
  double operator()(const SelfAttention& a) const {
    // Queries with their gate, keys and values.
    return 2.0 * product(a.heads, std::max(a.head_dim, a.value_dim)) +
           2.0 * product(a.kv_heads, std::max(a.head_dim, a.value_dim)) +
           static_cast<double>(a.input_width) + static_cast<double>(a.relative_positions) +
           product(a.heads, 1);
  }
  double operator()(const LatentAttention& a) const {
    const double indexer = a.indexer ? product(a.indexer->heads, a.indexer->dim) : 0.0;
    // In decoding, queries and outputs of the latent's width.
    const std::int64_t expanded = a.nope_dim + a.rope_dim + a.value_dim;
    return indexer + product(a.heads, expanded + 2 * (a.kv_rank + a.rope_dim)) +
           static_cast<double>(a.q_rank + a.kv_rank + a.rope_dim);
  }
  double operator()(const CompressedAttention& a) const {
    const double indexer = a.indexer ? product(a.indexer->heads, a.indexer->dim) : 0.0;
    return indexer + 2.0 * product(a.heads, a.head_dim) + product(a.groups, a.out_rank) +
           static_cast<double>(a.q_rank + a.head_dim);
  }
  double operator()(const DeltaNet& net) const {
    return 2.0 * product(net.key_heads, net.key_dim) +
           3.0 * product(net.value_heads, net.value_dim) + product(2, net.value_heads);
  }
  double operator()(const Mamba2& mamba) const {
    return 3.0 * product(mamba.heads, mamba.head_dim) + 2.0 * product(mamba.groups, mamba.state) +
           static_cast<double>(mamba.heads);
  }
  double operator()(const Mamba1& mamba) const {
    return 3.0 * static_cast<double>(mamba.inner) +
           static_cast<double>(mamba.rank + 2 * mamba.state);
  }
  double operator()(const ShortConvolution&) const { return 0.0; }
  double operator()(const LightningAttention& attention) const {
    return 5.0 * product(attention.heads, attention.head_dim);
  }
  double operator()(const AttentionBesideMamba& both) const {
    return std::max((*this)(both.attention), (*this)(both.mamba));
  }
  double operator()(const Mlp& mlp) const { return 2.0 * static_cast<double>(mlp.inner); }
  double operator()(const MixtureOfExperts& moe) const {
    // Rounding up gives each expert at most one row more than its share.
    const double visits = static_cast<double>(moe.top_k) + static_cast<double>(moe.experts);
    return 2.0 * visits * static_cast<double>(moe.expert.inner + moe.latent + 1) +
           (moe.shared ? (*this)(*moe.shared) : 0.0) +
           (moe.parallel ? (*this)(*moe.parallel) : 0.0);
  }
};

}  // namespace

double widest_row(const Layer& layer) {
  return std::max({std::visit(WidestRow{}, layer.mixer), std::visit(WidestRow{}, layer.feed),
                   layer.cross ? WidestRow{}(*layer.cross) : 0.0,
                   layer.shared ? WidestRow{}(layer.shared->attention) : 0.0,
                   layer.shared ? WidestRow{}(layer.shared->mlp) : 0.0,
                   static_cast<double>(layer.per_layer_input)});
}

double output_elements(const Convolution& conv) {
  double elements = product(conv.n, conv.k);
  for (const std::int64_t extent : output_extents(conv)) {
    if (extent < 1) return std::numeric_limits<double>::infinity();
    elements *= static_cast<double>(extent);
  }
  return elements;
}

}  // namespace rooftile::hf
