// Reading mixtures of experts, shared by several families.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/readers/hf_config/config.h"
#include "rooftile/readers/hf_config/description.h"

namespace rooftile::hf {

// Experts, top_k and gated experts of the given width.
MixtureOfExperts read_mixture(const Config& config, std::int64_t expert_width);

// DeepSeek's form: n_routed_experts, n_shared_experts, sigmoid scores with a correction bias.
MixtureOfExperts read_shared_mixture(const Config& config);

// Qwen's form: moe_intermediate_size, and a gated shared expert where its size is given.
MixtureOfExperts read_qwen_mixture(const Config& config);

// `width` counts all shared experts together; none when 0.
void add_shared_experts(MixtureOfExperts& moe, std::int64_t width);

// A gated MLP of the width under `key`.
Mlp read_dense_mlp(const Config& config, std::string_view key);

// Which layers have experts: mlp_layer_types, a list in moe_layer_freq, or first_k_dense_replace
// with a frequency.
std::vector<bool> sparse_layers(const Config& config, std::int64_t layers);

}  // namespace rooftile::hf
