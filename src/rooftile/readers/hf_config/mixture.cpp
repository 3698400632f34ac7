#include "rooftile/readers/hf_config/mixture.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {

MixtureOfExperts read_mixture(const Config& config, std::int64_t expert_width) {
  MixtureOfExperts moe;
  moe.experts = config.size({"num_local_experts", "num_experts", "n_routed_experts",
                             "num_routed_experts", "moe_num_experts"});
  moe.top_k = config.size({"num_experts_per_tok", "experts_per_token", "top_k_experts",
                           "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k"});
  if (moe.top_k > moe.experts) {
    config.set_error(fmt::format("num_experts_per_tok: found {}, expected at most the {} experts",
                                 moe.top_k, moe.experts));
  }
  moe.expert.module = "mlp.experts.*";
  moe.expert.inner = expert_width;
  moe.expert.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  return moe;
}

Mlp read_dense_mlp(const Config& config, std::string_view key) {
  Mlp mlp;
  mlp.inner = config.size({key});
  mlp.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  return mlp;
}

void add_shared_experts(MixtureOfExperts& moe, std::int64_t width) {
  if (width == 0) return;
  Mlp shared = moe.expert;
  shared.module = moe.module + ".shared_experts";
  shared.inner = width;
  moe.shared = shared;
}

MixtureOfExperts read_shared_mixture(const Config& config) {
  MixtureOfExperts moe = read_mixture(config, config.size({"moe_intermediate_size"}));
  const std::int64_t shared = config.count_or({"n_shared_experts", "num_shared_experts"}, 0);
  add_shared_experts(moe, shared * moe.expert.inner);
  const std::string scores = config.text("scoring_func", "sigmoid");
  moe.sigmoid_scores = scores == "sigmoid";
  const bool corrected = config.text("topk_method", "noaux_tc") == "noaux_tc";
  if (moe.sigmoid_scores && corrected) moe.router_extra_parameters = moe.experts;
  return moe;
}

MixtureOfExperts read_qwen_mixture(const Config& config) {
  MixtureOfExperts moe = read_mixture(config, config.size({"moe_intermediate_size"}));
  const std::int64_t shared = config.count_or({"shared_expert_intermediate_size"}, 0);
  if (shared > 0) {
    add_shared_experts(moe, shared);
    moe.shared->module = "mlp.shared_expert";
    moe.shared_gate = true;
  }
  return moe;
}

std::vector<bool> sparse_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("mlp_layer_types");
  const std::vector<std::int64_t> listed = config.sizes("moe_layer_freq");
  const std::int64_t first = config.count_or({"first_k_dense_replace"}, 0);
  const std::int64_t step = listed.size() == 1 ? std::max<std::int64_t>(1, listed[0]) : 1;
  std::vector<bool> sparse;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    if (at < types.size()) {
      sparse.push_back(types[at] != "dense");
    } else if (listed.size() > 1 && at < listed.size()) {
      sparse.push_back(listed[at] != 0);
    } else {
      sparse.push_back(index >= first && index % step == 0);
    }
  }
  return sparse;
}

}  // namespace rooftile::hf
