#include "rooftile/readers/hf_config/vision_parts.h"

#include <fmt/format.h>

namespace rooftile::hf {
namespace {

std::int64_t square_size(const Config& config, std::string_view key, std::int64_t fallback) {
  const std::vector<std::int64_t> sizes = config.sizes(key);
  if (sizes.empty()) return fallback;
  if (sizes.size() > 2 || sizes.front() < 1 || sizes.front() != sizes.back()) {
    config.set_error(fmt::format("{}: expected one positive size or two equal ones", key));
    return 1;
  }
  return sizes.front();
}

}  // namespace

Patches read_patches(const Config& config, std::int64_t image, std::int64_t patch) {
  Patches patches;
  patches.image = square_size(config, "image_size", image);
  patches.patch = square_size(config, "patch_size", patch);
  patches.channels = config.size_or({"num_channels", "in_channels"}, 3);
  // As the convolution does: pixels that fill no patch are dropped.
  patches.side = patches.image / patches.patch;
  if (patches.side < 1 || patches.side > 4096) {
    config.set_error(
        fmt::format("patch_size: found {}, expected 1 to image_size {}, at most 4096 "
                    "patches a side",
                    patches.patch, patches.image));
    patches.side = 1;
  }
  return patches;
}

Conv patch_embedding(std::string path, std::int64_t batch, const Patches& patches,
                     std::int64_t hidden, bool bias) {
  Conv conv;
  conv.path = std::move(path);
  conv.body.n = batch;
  conv.body.c = patches.channels;
  conv.body.k = hidden;
  conv.body.input = {patches.image, patches.image};
  conv.body.kernel = conv.body.stride = {patches.patch, patches.patch};
  conv.body.bias = bias;
  return conv;
}

VisionSizes read_vision_sizes(const Config& config, VisionSizes defaults) {
  VisionSizes sizes;
  sizes.hidden = config.size_or({"hidden_size"}, defaults.hidden);
  sizes.layers = config.has("num_hidden_layers") ? read_layers(config, {"num_hidden_layers"})
                                                 : defaults.layers;
  sizes.heads = config.size_or({"num_attention_heads"}, defaults.heads);
  sizes.inner = config.size_or({"intermediate_size"}, defaults.inner);
  return sizes;
}

SelfAttention vision_attention(const Config& config, std::int64_t hidden, std::int64_t heads,
                               bool qkv_bias) {
  SelfAttention attention;
  attention.heads = attention.kv_heads = heads;
  attention.head_dim = config.divide("hidden_size", hidden, "num_attention_heads", heads);
  set_bias(attention, qkv_bias, true);
  attention.causal = attention.rotary = false;
  return attention;
}

void add_detection_head(const std::string& path, const std::string& reads, std::int64_t hidden,
                        std::int64_t out, std::vector<Part>& parts) {
  constexpr int kProducts = 3;
  for (int index = 0; index < kProducts; ++index) {
    const bool last = index + 1 == kProducts;
    parts.push_back(Projection{.path = fmt::format("{}.layers.{}", path, index),
                               .in = hidden,
                               .out = last ? out : hidden,
                               .bias = true,
                               .activation = last ? "" : "relu",
                               .reads = index == 0 ? reads : ""});
  }
}

}  // namespace rooftile::hf
