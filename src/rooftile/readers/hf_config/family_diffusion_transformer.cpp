// Diffusion transformers: DiT, PixArt, and Stable Diffusion 3 and Flux, which attend to image and
// text together.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"

namespace rooftile::hf {
namespace {

constexpr std::int64_t kTimeChannels = 256;  // of the sinusoidal time step

struct DiffusionTransformer {
  Map image, text;  // tokens of both
  std::int64_t width = 0, heads = 0;
  std::int64_t layers = 0, single_layers = 0;
  std::int64_t pooled = 0, out_channels = 0, text_width = 0, patch = 1;
  bool guidance = false, norms_heads = false, last_drops_text = false;
  bool rotary = false;     // positions turn queries and keys; else they are added to the image
  std::vector<bool> dual;  // layers where the image also attends to itself alone
};

// Two products with an activation between them.
Map embed_vector(MapEmitter& net, const std::string& path, std::int64_t from, std::int64_t to) {
  const Map map = net.linear(path + ".linear_1", {{}, from, 1, 1}, to);
  return net.linear(path + ".linear_2", net.activation(path + ".act_1", map, "silu"), to);
}

Map embed_condition(MapEmitter& net, const DiffusionTransformer& config) {
  const std::string path = "time_text_embed.";
  Map sum = embed_vector(net, path + "timestep_embedder", kTimeChannels, config.width);
  if (config.guidance) {
    sum = net.add(path + "guidance_add", sum,
                  embed_vector(net, path + "guidance_embedder", kTimeChannels, config.width));
  }
  return net.add(path + "add", sum,
                 embed_vector(net, path + "text_embedder", config.pooled, config.width));
}

// A norm without weights, shifted and scaled by the condition: `chunks` vectors of the width.
Map adaptive_norm(MapEmitter& net, const std::string& path, const Map& in, const Map& condition,
                  std::int64_t chunks) {
  const Map active = net.activation(path + ".silu", condition, "silu");
  net.linear(path + ".linear", active, chunks * in.channels);
  const Map normed = net.layer_norm(path + ".norm", in, false);
  return net.activation(path + ".modulate", normed, "scale_shift");
}

struct Projected {
  Map q, k, v;
};

Projected project_heads(MapEmitter& net, const DiffusionTransformer& config, const Map& in,
                        const std::vector<std::string>& names) {
  Projected heads{net.linear(names[0], in, config.width), net.linear(names[1], in, config.width),
                  net.linear(names[2], in, config.width)};
  if (!config.norms_heads) return heads;
  heads.q = net.head_norm(names[3], heads.q, config.heads);
  heads.k = net.head_norm(names[4], heads.k, config.heads);
  return heads;
}

Map both(const Map& image, const Map& text) {
  Map all = image;
  all.width += text.positions();
  return all;
}

// Queries or keys of image and text, turned by their positions.
Map rotated(MapEmitter& net, const DiffusionTransformer& config, const std::string& name,
            const Map& heads) {
  return config.rotary ? net.activation(name, heads, "rotary") : heads;
}

Map gated_residual(MapEmitter& net, const std::string& name, const Map& stream, const Map& result) {
  return net.add(name + "_residual", stream, net.activation(name + "_gate", result, "mul"));
}

Map feed_forward_of(MapEmitter& net, const std::string& path, const Map& in) {
  const Map hidden = net.linear(path + ".net.0.proj", in, 4 * in.channels);
  return net.linear(path + ".net.2", net.activation(path + ".net.0.gelu", hidden, "gelu"),
                    in.channels);
}

struct Streams {
  Map image, text;
};

// Image and text have weights of their own, and attend together.
Streams joint_block(MapEmitter& net, const DiffusionTransformer& config, Streams streams,
                    const Map& condition, bool dual, bool drops_text) {
  const Map image = adaptive_norm(net, "norm1", streams.image, condition, dual ? 9 : 6);
  const Map text = adaptive_norm(net, "norm1_context", streams.text, condition, drops_text ? 2 : 6);
  const Projected of_image = project_heads(
      net, config, image, {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"});
  const Projected of_text = project_heads(net, config, text,
                                          {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj",
                                           "attn.norm_added_q", "attn.norm_added_k"});
  const Map q = rotated(net, config, "attn.rotary_q", both(of_image.q, of_text.q));
  const Map k = rotated(net, config, "attn.rotary_k", both(of_image.k, of_text.k));
  Map attended = net.attention("attn.attention", q, k, of_image.v, {config.heads});
  Map image_part = attended, text_part = attended;
  image_part.width = image.width;
  text_part.width = text.width;
  streams.image = gated_residual(net, "attn", streams.image,
                                 net.linear("attn.to_out.0", image_part, config.width));
  if (dual) {
    const Projected own =
        project_heads(net, config, image,
                      {"attn2.to_q", "attn2.to_k", "attn2.to_v", "attn2.norm_q", "attn2.norm_k"});
    attended = net.attention("attn2.attention", own.q, own.k, own.v, {config.heads});
    streams.image = gated_residual(net, "attn2", streams.image,
                                   net.linear("attn2.to_out.0", attended, config.width));
  }
  Map normed = net.activation("norm2_modulate", net.layer_norm("norm2", streams.image, false),
                              "scale_shift");
  streams.image = gated_residual(net, "ff", streams.image, feed_forward_of(net, "ff", normed));
  if (drops_text) return streams;
  streams.text = gated_residual(net, "attn_context", streams.text,
                                net.linear("attn.to_add_out", text_part, config.width));
  normed = net.activation("norm2_context_modulate",
                          net.layer_norm("norm2_context", streams.text, false), "scale_shift");
  streams.text =
      gated_residual(net, "ff_context", streams.text, feed_forward_of(net, "ff_context", normed));
  return streams;
}

// Flux: text and image as one sequence, attention beside the MLP.
Map single_block(MapEmitter& net, const DiffusionTransformer& config, const Map& in,
                 const Map& condition) {
  const Map normed = adaptive_norm(net, "norm", in, condition, 3);
  const Map hidden =
      net.activation("act_mlp", net.linear("proj_mlp", normed, 4 * config.width), "gelu");
  const Projected heads = project_heads(
      net, config, normed, {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"});
  const Map q = rotated(net, config, "attn.rotary_q", heads.q);
  const Map k = rotated(net, config, "attn.rotary_k", heads.k);
  const Map attended = net.attention("attn.attention", q, k, heads.v, {config.heads});
  const Map result = net.linear("proj_out", net.concatenate(attended, hidden), config.width);
  return gated_residual(net, "block", in, result);
}

// Runs of layers that are alike, in order.
void emit_joint_layers(MapEmitter& net, const DiffusionTransformer& config, const Map& condition,
                       Streams& streams) {
  for (std::int64_t first = 0; first < config.layers;) {
    const auto is_dual = [&](std::int64_t layer) {
      return config.dual[static_cast<std::size_t>(layer)];
    };
    const auto drops = [&](std::int64_t layer) {
      return config.last_drops_text && layer + 1 == config.layers;
    };
    std::int64_t next = first + 1;
    while (next < config.layers && is_dual(next) == is_dual(first) && drops(next) == drops(first)) {
      ++next;
    }
    net.enter("transformer_blocks", first, next - first);
    streams = joint_block(net, config, streams, condition, is_dual(first), drops(first));
    first = next;
  }
  net.leave();
}

Map emit_transformer(MapEmitter& net, const DiffusionTransformer& config) {
  const Map condition = embed_condition(net, config);
  Streams streams;
  streams.text = net.linear("context_embedder", config.text, config.text_width);
  if (config.patch > 1) {
    streams.image =
        net.conv("pos_embed.proj", config.image, {config.width, config.patch, config.patch});
    streams.image.width = streams.image.positions();
    streams.image.height = 1;
    streams.image = net.activation("pos_embed.add", streams.image, "add");
  } else {
    streams.image = net.linear("x_embedder", config.image, config.width);
  }
  emit_joint_layers(net, config, condition, streams);
  Map image = streams.image;
  if (config.single_layers > 0) {
    const std::int64_t tokens = image.width;
    net.enter("single_transformer_blocks", 0, config.single_layers);
    image = single_block(net, config, both(image, streams.text), condition);
    net.leave();
    image.width = tokens;
  }
  image = adaptive_norm(net, "norm_out", image, condition, 2);
  return net.linear("proj_out", image, config.patch * config.patch * config.out_channels);
}

// Sizes that both families name alike.
DiffusionTransformer read_transformer(const Config& config, std::int64_t layers, std::int64_t heads,
                                      std::int64_t head_dim) {
  DiffusionTransformer net;
  net.layers = config.has("num_layers") ? read_layers(config, {"num_layers"}) : layers;
  net.dual.assign(static_cast<std::size_t>(net.layers), false);
  net.heads = config.size_or({"num_attention_heads"}, heads);
  net.width = net.heads * config.size_or({"attention_head_dim"}, head_dim);
  if (net.width > (1 << 20)) {
    config.set_error("num_attention_heads times attention_head_dim: expected at most 1048576");
    net.width = net.heads = 1;
  }
  return net;
}

Model flux(const Config& config, const Request& request) {
  // 1024x1024 pixels are latents of 128x128, packed in fours; prompts of 512 tokens of T5.
  constexpr std::int64_t kImageTokens = 64L * 64, kTextTokens = 512;
  refuse_sequence(config, request);
  Model model;
  DiffusionTransformer net = read_transformer(config, 19, 24, 128);
  net.single_layers = config.count_or({"num_single_layers"}, 38);
  if (net.single_layers > 1024) config.set_error("num_single_layers: expected at most 1024");
  const std::int64_t channels = config.size_or({"in_channels"}, 64);
  net.image = {{}, channels, 1, kImageTokens};
  net.text = {{}, config.size_or({"joint_attention_dim"}, 4096), 1, kTextTokens};
  net.pooled = config.size_or({"pooled_projection_dim"}, 768);
  net.guidance = config.flag("guidance_embeds", false);
  net.out_channels = config.size_or({"out_channels"}, channels);
  net.text_width = net.width;
  net.norms_heads = net.rotary = true;
  if (config.size_or({"patch_size"}, 1) != 1) config.set_error("patch_size: expected 1");
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_transformer(out, net); }, model);
  model.notes.push_back(fmt::format(
      "one denoising step of an image of 1024x1024 ({} tokens) with a prompt of {} tokens",
      kImageTokens, kTextTokens));
  return model;
}

Model stable_diffusion_3(const Config& config, const Request& request) {
  // 77 tokens of CLIP and 256 of T5.
  constexpr std::int64_t kTextTokens = 77 + 256;
  refuse_sequence(config, request);
  Model model;
  DiffusionTransformer net = read_transformer(config, 18, 18, 64);
  const std::int64_t side = config.size_or({"sample_size"}, 128);
  net.patch = config.size_or({"patch_size"}, 2);
  const std::int64_t channels = config.size_or({"in_channels"}, 16);
  net.image = {{}, channels, side, side};
  net.text = {{}, config.size_or({"joint_attention_dim"}, 4096), 1, kTextTokens};
  net.text_width = config.size_or({"caption_projection_dim"}, 1152);
  net.pooled = config.size_or({"pooled_projection_dim"}, 2048);
  net.out_channels = config.size_or({"out_channels"}, 16);
  net.norms_heads = !config.text("qk_norm").empty();
  net.last_drops_text = true;
  for (const std::int64_t layer : config.sizes("dual_attention_layers")) {
    if (layer < net.layers) net.dual[static_cast<std::size_t>(layer)] = true;
  }
  if (net.text_width != net.width) {
    config.set_error("caption_projection_dim: expected the width of the layers");
  }
  if (net.patch < 2 || net.patch > side) {
    config.set_error("patch_size: expected from 2 to sample_size");
  }
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_transformer(out, net); }, model);
  model.notes.push_back(
      denoising_note(request, side, fmt::format(" with a prompt of {} tokens", kTextTokens)));
  return model;
}

// ---- DiT and PixArt: the image alone, with a class or a prompt as the condition.

struct ImageTransformer {
  Map image, caption;  // caption without channels: none
  std::int64_t width = 0, heads = 0, layers = 0, patch = 2, out_channels = 0;
  std::int64_t classes = 0;         // DiT
  std::int64_t caption_width = 0;   // PixArt's projection of the prompt; 0 = none
  bool bias = true, sizes = false;  // sizes: PixArt's embeddings of resolution and aspect ratio
};

Map plain_attention(MapEmitter& net, const ImageTransformer& config, const std::string& path,
                    const Map& in, const Map& memory) {
  const Map q = net.linear(path + ".to_q", in, config.width, config.bias);
  const Map k = net.linear(path + ".to_k", memory, config.width, config.bias);
  const Map v = net.linear(path + ".to_v", memory, config.width, config.bias);
  const Map attended = net.attention(path + ".attention", q, k, v, {config.heads});
  return net.linear(path + ".to_out.0", attended, config.width);
}

Map embed_patches(MapEmitter& net, const ImageTransformer& config) {
  const Map map =
      net.conv("pos_embed.proj", config.image, {config.width, config.patch, config.patch});
  return net.activation("pos_embed.add", map, "add");
}

// Each block embeds time step and class itself.
Map dit_block(MapEmitter& net, const ImageTransformer& config, const Map& in) {
  const Map condition =
      embed_vector(net, "norm1.emb.timestep_embedder", kTimeChannels, config.width);
  net.parameters((config.classes + 1) * config.width);
  Map normed = adaptive_norm(net, "norm1", in, condition, 6);
  const Map map =
      gated_residual(net, "attn1", in, plain_attention(net, config, "attn1", normed, normed));
  normed = net.activation("norm3_modulate", net.layer_norm("norm3", map, false), "scale_shift");
  return gated_residual(net, "ff", map, feed_forward_of(net, "ff", normed));
}

Map emit_dit(MapEmitter& net, const ImageTransformer& config) {
  Map map = embed_patches(net, config);
  net.enter("transformer_blocks", 0, config.layers);
  map = dit_block(net, config, map);
  net.leave();
  net.linear("proj_out_1", {{}, config.width, 1, 1}, 2 * config.width);
  map = net.activation("norm_out_modulate", net.layer_norm("norm_out", map, false), "scale_shift");
  return net.linear("proj_out_2", map, config.patch * config.patch * config.out_channels);
}

Map pixart_block(MapEmitter& net, const ImageTransformer& config, const Map& in,
                 const Map& caption) {
  net.parameters(6 * config.width);  // scale_shift_table
  Map normed = net.activation("norm1_modulate", net.layer_norm("norm1", in, false), "scale_shift");
  Map map = gated_residual(net, "attn1", in, plain_attention(net, config, "attn1", normed, normed));
  map = net.add("attn2_residual", map, plain_attention(net, config, "attn2", map, caption));
  normed = net.activation("norm2_modulate", net.layer_norm("norm2", map, false), "scale_shift");
  return gated_residual(net, "ff", map, feed_forward_of(net, "ff", normed));
}

// One condition for all blocks: the time step and, where stated, resolution and aspect ratio.
void embed_pixart_condition(MapEmitter& net, const ImageTransformer& config) {
  const std::string path = "adaln_single.emb.";
  Map condition = embed_vector(net, path + "timestep_embedder", kTimeChannels, config.width);
  if (config.sizes) {
    const std::int64_t third = config.width / 3;
    embed_vector(net, path + "resolution_embedder", kTimeChannels, third);
    embed_vector(net, path + "aspect_ratio_embedder", kTimeChannels, third);
  }
  condition = net.activation("adaln_single.silu", condition, "silu");
  net.linear("adaln_single.linear", condition, 6 * config.width);
}

Map emit_pixart(MapEmitter& net, const ImageTransformer& config) {
  Map map = embed_patches(net, config);
  embed_pixart_condition(net, config);
  Map caption = config.caption;
  if (config.caption_width > 0) {
    caption = net.linear("caption_projection.linear_1", caption, config.width);
    caption = net.activation("caption_projection.act_1", caption, "gelu");
    caption = net.linear("caption_projection.linear_2", caption, config.width);
  }
  net.enter("transformer_blocks", 0, config.layers);
  map = pixart_block(net, config, map, caption);
  net.leave();
  net.parameters(2 * config.width);  // scale_shift_table
  map = net.activation("norm_out_modulate", net.layer_norm("norm_out", map, false), "scale_shift");
  return net.linear("proj_out", map, config.patch * config.patch * config.out_channels);
}

ImageTransformer read_image_transformer(const Config& config, const Request& request,
                                        std::int64_t sample) {
  refuse_sequence(config, request);
  const DiffusionTransformer sizes = read_transformer(config, 28, 16, 72);
  ImageTransformer net;
  net.width = sizes.width;
  net.heads = sizes.heads;
  net.layers = sizes.layers;
  const std::int64_t side = config.size_or({"sample_size"}, sample);
  net.image = {{}, config.size_or({"in_channels"}, 4), side, side};
  net.patch = config.size_or({"patch_size"}, 2);
  net.bias = config.flag("attention_bias", true);
  if (net.patch > side) config.set_error("patch_size: expected at most sample_size");
  return net;
}

Model dit(const Config& config, const Request& request) {
  Model model;
  ImageTransformer net = read_image_transformer(config, request, 32);
  net.out_channels = config.size_or({"out_channels"}, net.image.channels);
  net.classes = config.size_or({"num_embeds_ada_norm"}, 1000);
  if (config.text("norm_type", "ada_norm_zero") != "ada_norm_zero") {
    config.set_error("norm_type: expected ada_norm_zero");
  }
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_dit(out, net); }, model);
  model.notes.push_back(denoising_note(request, net.image.height, ""));
  return model;
}

Model pixart(const Config& config, const Request& request) {
  constexpr std::int64_t kCaptionTokens = 120;  // of PixArt-alpha's prompts
  Model model;
  ImageTransformer net = read_image_transformer(config, request, 128);
  net.out_channels = config.size_or({"out_channels"}, 8);  // of the noise and of its variance
  net.caption_width = config.count_or({"caption_channels"}, 0);
  const std::int64_t memory = config.size_or({"cross_attention_dim"}, net.width);
  net.caption = {{}, net.caption_width > 0 ? net.caption_width : memory, 1, kCaptionTokens};
  net.sizes = config.flag("use_additional_conditions", net.image.height == 128);
  if (memory != net.width) {
    config.set_error("cross_attention_dim: expected the width of the layers");
  }
  if (config.text("norm_type", "ada_norm_single") != "ada_norm_single") {
    config.set_error("norm_type: expected ada_norm_single");
  }
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_pixart(out, net); }, model);
  model.notes.push_back(denoising_note(request, net.image.height,
                                       fmt::format(" with a prompt of {} tokens", kCaptionTokens)));
  return model;
}

}  // namespace

FamilyList diffusion_transformer_families() {
  return {{"FluxTransformer2DModel", flux},
          {"SD3Transformer2DModel", stable_diffusion_3},
          {"DiTTransformer2DModel", dit},
          {"PixArtTransformer2DModel", pixart}};
}

}  // namespace rooftile::hf
