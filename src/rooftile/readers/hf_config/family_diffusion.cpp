// Networks of diffusers, by their _class_name: the U-Net of Stable Diffusion and its autoencoder.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"

namespace rooftile::hf {
namespace {

// Tokens of CLIP's text encoder, which Stable Diffusion pads every prompt to.
constexpr std::int64_t kPromptTokens = 77;
constexpr std::size_t kMaxBlocks = 16;

// One size for all blocks, or a list with one for each.
std::vector<std::int64_t> sizes_of_blocks(const Config& config, std::string_view key,
                                          std::int64_t fallback, std::size_t blocks) {
  std::vector<std::int64_t> sizes = config.sizes(key);
  if (sizes.empty()) sizes = {fallback};
  if (sizes.size() == 1) sizes.assign(blocks, sizes.front());
  const bool fits = sizes.size() == blocks &&
                    std::all_of(sizes.begin(), sizes.end(),
                                [](auto size) { return size >= 1 && size <= (1 << 20); });
  if (fits) return sizes;
  config.set_error(
      fmt::format("{}: expected one positive size, or one for each of {} blocks", key, blocks));
  return std::vector<std::int64_t>(blocks, 1);
}

// Refuses what would change the network and is not described here.
void refuse_variants(const Config& config) {
  for (const std::string_view key : {"class_embed_type", "encoder_hid_dim", "encoder_hid_dim_type",
                                     "num_class_embeds", "time_cond_proj_dim", "timestep_post_act",
                                     "cross_attention_norm", "time_embedding_act_fn"}) {
    if (config.has(key)) {
      config.set_error(fmt::format("{}: expected none, a variant that is not modelled", key));
    }
  }
  for (const std::string_view key : {"dual_cross_attention", "only_cross_attention",
                                     "resnet_skip_time_act", "class_embeddings_concat"}) {
    if (config.flag(key, false)) {
      config.set_error(fmt::format("{}: expected false, a variant that is not modelled", key));
    }
  }
  const std::string addition = config.text("addition_embed_type");
  if (!addition.empty() && addition != "text_time") {
    config.set_error("addition_embed_type: expected none or text_time");
  }
}

std::vector<std::string> block_types(const Config& config, std::string_view key,
                                     std::initializer_list<std::string_view> known,
                                     std::size_t expected) {
  std::vector<std::string> types = config.texts(key);
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      config.set_error(fmt::format("{}: found {}, a block that is not modelled", key,
                                   rooftile::quoted(type, 40)));
    }
  }
  if (types.size() != expected) {
    config.set_error(fmt::format("{}: found {} blocks, expected {} as in block_out_channels", key,
                                 types.size(), expected));
  }
  return types;
}

// What the residual blocks of U-Net and autoencoder share.
struct ResidualSettings {
  std::int64_t groups = 32, time = 0;  // time: width of the embedded step; 0 = none
  std::string activation = "silu";
};

// Two convolutions; the embedded time step is added to each channel between them.
Map residual_block(MapEmitter& net, const ResidualSettings& settings, const std::string& path,
                   const Map& in, const Map& time, std::int64_t channels) {
  const auto name = [&](const char* part) { return path + "." + part; };
  Map map = net.group_norm(name("norm1"), in, settings.groups);
  map = net.conv(name("conv1"), net.activation(name("nonlinearity1"), map, settings.activation),
                 {channels, 3, 1, 1});
  if (settings.time > 0) {
    const Map active = net.activation(name("time_nonlinearity"), time, settings.activation);
    net.linear(name("time_emb_proj"), active, channels);
    map = net.activation(name("time_add"), map, "add");
  }
  map = net.group_norm(name("norm2"), map, settings.groups);
  map = net.conv(name("conv2"), net.activation(name("nonlinearity2"), map, settings.activation),
                 {channels, 3, 1, 1});
  const Map side = in.channels == channels ? in : net.conv(name("conv_shortcut"), in, {channels});
  return net.add(name("residual"), side, map);
}

// ---- U-Net

struct UNet {
  Map sample;
  std::int64_t out_channels = 4, prompt_width = 768, added_width = 0;
  bool linear_projection = false;
  ResidualSettings residual;
  std::vector<std::int64_t> channels, layers, heads, depths;
  std::vector<bool> down_attends, up_attends;
};

Map attention_of_map(MapEmitter& net, const std::string& path, const Map& in, const Map& memory,
                     std::int64_t heads) {
  const Map q = net.linear(path + ".to_q", in, in.channels, false);
  const Map k = net.linear(path + ".to_k", memory, in.channels, false);
  const Map v = net.linear(path + ".to_v", memory, in.channels, false);
  const Map attended = net.attention(path + ".attention", q, k, v, {heads});
  return net.linear(path + ".to_out.0", attended, in.channels);
}

Map transformer_block(MapEmitter& net, const Map& in, const Map& prompt, std::int64_t heads) {
  Map normed = net.layer_norm("norm1", in);
  Map map = net.add("attn1_residual", in, attention_of_map(net, "attn1", normed, normed, heads));
  normed = net.layer_norm("norm2", map);
  map = net.add("attn2_residual", map, attention_of_map(net, "attn2", normed, prompt, heads));
  const std::int64_t inner = 4 * in.channels;
  Map hidden = net.linear("ff.net.0.proj", net.layer_norm("norm3", map), 2 * inner);
  hidden.channels = inner;
  hidden =
      net.multiply("ff.net.0.gate_mul", hidden, net.activation("ff.net.0.gelu", hidden, "gelu"));
  return net.add("ff_residual", map, net.linear("ff.net.2", hidden, in.channels));
}

Map spatial_transformer(MapEmitter& net, const UNet& unet, const std::string& path, const Map& in,
                        std::size_t level) {
  const Map prompt{{}, unet.prompt_width, 1, kPromptTokens};
  const auto project = [&](const char* name, const Map& map) {
    return unet.linear_projection ? net.linear(path + name, map, in.channels)
                                  : net.conv(path + name, map, {in.channels});
  };
  Map map = project(".proj_in", net.group_norm(path + ".norm", in, unet.residual.groups));
  net.enter(path + ".transformer_blocks", 0, unet.depths[level]);
  map = transformer_block(net, map, prompt, unet.heads[level]);
  net.leave();
  return net.add(path + ".residual", in, project(".proj_out", map));
}

// The embedded time step, and for SDXL the embedded sizes and pooled prompt.
Map embed_time(MapEmitter& net, const UNet& unet) {
  const std::int64_t first = unet.channels.front(), width = unet.residual.time;
  const auto embed = [&](const std::string& path, std::int64_t from) {
    Map map = net.linear(path + ".linear_1", {{}, from, 1, 1}, width);
    return net.linear(path + ".linear_2", net.activation(path + ".act", map, "silu"), width);
  };
  Map time = embed("time_embedding", first);
  if (unet.added_width > 0) {
    time = net.add("add_embedding.add", time, embed("add_embedding", unet.added_width));
  }
  return time;
}

Map emit_down(MapEmitter& net, const UNet& unet, Map map, const Map& time,
              std::vector<Map>& skips) {
  for (std::size_t level = 0; level < unet.channels.size(); ++level) {
    const std::string path = fmt::format("down_blocks.{}", level);
    for (std::int64_t layer = 0; layer < unet.layers[level]; ++layer) {
      map = residual_block(net, unet.residual, fmt::format("{}.resnets.{}", path, layer), map, time,
                           unet.channels[level]);
      if (unet.down_attends[level]) {
        map = spatial_transformer(net, unet, fmt::format("{}.attentions.{}", path, layer), map,
                                  level);
      }
      skips.push_back(map);
    }
    if (level + 1 == unet.channels.size()) continue;
    map = net.conv(path + ".downsamplers.0.conv", map, {unet.channels[level], 3, 2, 1});
    skips.push_back(map);
  }
  return map;
}

Map emit_up(MapEmitter& net, const UNet& unet, Map map, const Map& time, std::vector<Map>& skips) {
  const std::size_t levels = unet.channels.size();
  for (std::size_t block = 0; block < levels; ++block) {
    const std::size_t level = levels - 1 - block;
    const std::string path = fmt::format("up_blocks.{}", block);
    for (std::int64_t layer = 0; layer <= unet.layers[level]; ++layer) {
      map = net.concatenate(map, skips.back());
      skips.pop_back();
      map = residual_block(net, unet.residual, fmt::format("{}.resnets.{}", path, layer), map, time,
                           unet.channels[level]);
      if (unet.up_attends[block]) {
        map = spatial_transformer(net, unet, fmt::format("{}.attentions.{}", path, layer), map,
                                  level);
      }
    }
    if (level == 0) continue;
    map = net.enlarge(path + ".upsamplers.0.interpolate", map);
    map = net.conv(path + ".upsamplers.0.conv", map, {unet.channels[level], 3, 1, 1});
  }
  return map;
}

Map emit_unet(MapEmitter& net, const UNet& unet) {
  const Map time = embed_time(net, unet);
  Map map = net.conv("conv_in", unet.sample, {unet.channels.front(), 3, 1, 1});
  std::vector<Map> skips{map};
  map = emit_down(net, unet, map, time, skips);
  const std::size_t last = unet.channels.size() - 1;
  const std::int64_t widest = unet.channels[last];
  map = residual_block(net, unet.residual, "mid_block.resnets.0", map, time, widest);
  map = spatial_transformer(net, unet, "mid_block.attentions.0", map, last);
  map = residual_block(net, unet.residual, "mid_block.resnets.1", map, time, widest);
  map = emit_up(net, unet, map, time, skips);
  map = net.group_norm("conv_norm_out", map, unet.residual.groups);
  map = net.activation("conv_act", map, unet.residual.activation);
  return net.conv("conv_out", map, {unet.out_channels, 3, 1, 1});
}

std::vector<bool> attending(const std::vector<std::string>& types) {
  std::vector<bool> attends;
  for (const std::string& type : types) attends.push_back(type.starts_with("CrossAttn"));
  return attends;
}

// attention_head_dim is the number of heads where num_attention_heads is not given: a misnomer that
// published configs keep.
std::vector<std::int64_t> read_unet_heads(const Config& config, std::size_t blocks) {
  return sizes_of_blocks(
      config, config.has("num_attention_heads") ? "num_attention_heads" : "attention_head_dim", 8,
      blocks);
}

Map read_sample(const Config& config, const Request& request, std::int64_t channels,
                std::int64_t usual) {
  refuse_sequence(config, request);
  const std::int64_t side = config.size_or({"sample_size"}, usual);
  return {{}, channels, side, side};
}

std::vector<std::int64_t> read_channels(const Config& config, std::vector<std::int64_t> fallback,
                                        std::int64_t groups) {
  std::vector<std::int64_t> channels = config.sizes("block_out_channels");
  if (channels.empty()) channels = std::move(fallback);
  bool fits = channels.size() <= kMaxBlocks;
  for (const std::int64_t width : channels) {
    fits = fits && width >= 1 && width <= (1 << 20) && width % groups == 0;
  }
  if (fits) return channels;
  config.set_error(
      fmt::format("block_out_channels: expected at most {} multiples of norm_num_groups {}",
                  kMaxBlocks, groups));
  return {};
}

Model unet(const Config& config, const Request& request) {
  Model model;
  UNet net;
  refuse_variants(config);
  net.sample = read_sample(config, request, config.size_or({"in_channels"}, 4), 64);
  net.residual.groups = config.size_or({"norm_num_groups"}, 32);
  net.residual.activation = read_activation(config, {"act_fn"}, "silu");
  net.channels = read_channels(config, {320, 640, 1280, 1280}, net.residual.groups);
  if (net.channels.empty()) return {};
  const std::size_t blocks = net.channels.size();
  net.residual.time = 4 * net.channels.front();
  net.out_channels = config.size_or({"out_channels"}, 4);
  net.layers = sizes_of_blocks(config, "layers_per_block", 2, blocks);
  net.heads = read_unet_heads(config, blocks);
  net.depths = sizes_of_blocks(config, "transformer_layers_per_block", 1, blocks);
  net.prompt_width = sizes_of_blocks(config, "cross_attention_dim", 1280, blocks).front();
  net.linear_projection = config.flag("use_linear_projection", false);
  if (config.text("addition_embed_type") == "text_time") {
    net.added_width = config.size({"projection_class_embeddings_input_dim"});
  }
  net.down_attends = attending(
      block_types(config, "down_block_types", {"DownBlock2D", "CrossAttnDownBlock2D"}, blocks));
  net.up_attends =
      attending(block_types(config, "up_block_types", {"UpBlock2D", "CrossAttnUpBlock2D"}, blocks));
  if (config.text("mid_block_type", "UNetMidBlock2DCrossAttn") != "UNetMidBlock2DCrossAttn") {
    config.set_error("mid_block_type: expected UNetMidBlock2DCrossAttn");
  }
  for (std::size_t level = 0; level < blocks; ++level) {
    config.divide("block_out_channels", net.channels[level], "heads", net.heads[level]);
    if (net.layers[level] > 64 || net.depths[level] > 256) {
      config.set_error("layers_per_block or transformer_layers_per_block is out of range");
    }
  }
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_unet(out, net); }, model);
  model.notes.push_back(denoising_note(request, net.sample.height,
                                       fmt::format(", prompts of {} tokens", kPromptTokens)));
  return model;
}

// ---- Autoencoder

struct Autoencoder {
  Map image;
  std::int64_t latent = 4, layers = 2;
  bool quant_conv = true, attends = true;
  ResidualSettings residual;
  std::vector<std::int64_t> channels;
};

Map autoencoder_middle(MapEmitter& net, const Autoencoder& vae, const std::string& path, Map map) {
  const auto name = [&](const char* part) { return path + part; };
  const std::int64_t width = map.channels;
  map = residual_block(net, vae.residual, name(".resnets.0"), map, {}, width);
  if (vae.attends) {
    const Map normed = net.group_norm(name(".attentions.0.group_norm"), map, vae.residual.groups);
    const Map q = net.linear(name(".attentions.0.to_q"), normed, width);
    const Map k = net.linear(name(".attentions.0.to_k"), normed, width);
    const Map v = net.linear(name(".attentions.0.to_v"), normed, width);
    Map attended = net.attention(name(".attentions.0.attention"), q, k, v, {});
    attended = net.linear(name(".attentions.0.to_out.0"), attended, width);
    map = net.add(name(".attentions.0.residual"), map, attended);
  }
  return residual_block(net, vae.residual, name(".resnets.1"), map, {}, width);
}

Map autoencoder_out(MapEmitter& net, const Autoencoder& vae, const std::string& path, Map map,
                    std::int64_t channels) {
  map = net.group_norm(path + ".conv_norm_out", map, vae.residual.groups);
  map = net.activation(path + ".conv_act", map, vae.residual.activation);
  return net.conv(path + ".conv_out", map, {channels, 3, 1, 1});
}

Map emit_encoder(MapEmitter& net, const Autoencoder& vae) {
  Map map = net.conv("encoder.conv_in", vae.image, {vae.channels.front(), 3, 1, 1});
  for (std::size_t level = 0; level < vae.channels.size(); ++level) {
    const std::string path = fmt::format("encoder.down_blocks.{}", level);
    for (std::int64_t layer = 0; layer < vae.layers; ++layer) {
      map = residual_block(net, vae.residual, fmt::format("{}.resnets.{}", path, layer), map, {},
                           vae.channels[level]);
    }
    if (level + 1 == vae.channels.size()) continue;
    map = net.conv(path + ".downsamplers.0.conv", map, {vae.channels[level], 3, 2, 1});
  }
  map = autoencoder_middle(net, vae, "encoder.mid_block", map);
  map = autoencoder_out(net, vae, "encoder", map, 2 * vae.latent);
  return vae.quant_conv ? net.conv("quant_conv", map, {2 * vae.latent}) : map;
}

Map emit_decoder(MapEmitter& net, const Autoencoder& vae, Map map) {
  map.channels = vae.latent;
  if (vae.quant_conv) map = net.conv("post_quant_conv", map, {vae.latent});
  map = net.conv("decoder.conv_in", map, {vae.channels.back(), 3, 1, 1});
  map = autoencoder_middle(net, vae, "decoder.mid_block", map);
  const std::size_t levels = vae.channels.size();
  for (std::size_t block = 0; block < levels; ++block) {
    const std::string path = fmt::format("decoder.up_blocks.{}", block);
    const std::int64_t width = vae.channels[levels - 1 - block];
    for (std::int64_t layer = 0; layer <= vae.layers; ++layer) {
      map = residual_block(net, vae.residual, fmt::format("{}.resnets.{}", path, layer), map, {},
                           width);
    }
    if (block + 1 == levels) continue;
    map = net.enlarge(path + ".upsamplers.0.interpolate", map);
    map = net.conv(path + ".upsamplers.0.conv", map, {width, 3, 1, 1});
  }
  return autoencoder_out(net, vae, "decoder", map, vae.image.channels);
}

Model autoencoder(const Config& config, const Request& request) {
  Model model;
  Autoencoder net;
  net.image = read_sample(config, request, config.size_or({"in_channels"}, 3), 512);
  net.latent = config.size_or({"latent_channels"}, 4);
  net.layers = config.size_or({"layers_per_block"}, 1);
  net.residual.groups = config.size_or({"norm_num_groups"}, 32);
  net.residual.activation = read_activation(config, {"act_fn"}, "silu");
  net.channels = read_channels(config, {64}, net.residual.groups);
  net.quant_conv = config.flag("use_quant_conv", true);
  net.attends = config.flag("mid_block_add_attention", true);
  if (config.flag("use_quant_conv", true) != config.flag("use_post_quant_conv", true)) {
    config.set_error("use_post_quant_conv: expected the value of use_quant_conv");
  }
  block_types(config, "down_block_types", {"DownEncoderBlock2D"}, net.channels.size());
  block_types(config, "up_block_types", {"UpDecoderBlock2D"}, net.channels.size());
  if (net.layers > 64) config.set_error("layers_per_block: expected at most 64");
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_decoder(out, net, emit_encoder(out, net)); },
      model);
  model.notes.push_back(fmt::format(
      "encoder and decoder on images of {0}x{0} (sample_size); generation runs the decoder only",
      net.image.height));
  return model;
}

}  // namespace

FamilyList diffusion_families() {
  return {{"UNet2DConditionModel", unet}, {"AutoencoderKL", autoencoder}};
}

}  // namespace rooftile::hf
