// Vision transformers and the two-tower models around them.
#include <fmt/format.h>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/vision.h"
#include "rooftile/readers/hf_config/vision_parts.h"

namespace rooftile::hf {
namespace {

// The ViT layer in the spelling of Transformers' ViT.
Layer vit_layer(const Config& config, const VisionSizes& sizes) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.mixer_norm = "layernorm_before";
  layer.feed_norm = "layernorm_after";
  SelfAttention attention =
      vision_attention(config, sizes.hidden, sizes.heads, config.flag("qkv_bias", true));
  attention.module = "attention";
  attention.q = "attention.query";
  attention.k = "attention.key";
  attention.v = "attention.value";
  attention.out = "output.dense";
  layer.mixer = attention;
  layer.feed = plain_mlp("intermediate.dense", "output.dense", sizes.inner, true,
                         read_activation(config, {"hidden_act"}, "gelu"));
  std::get<Mlp>(layer.feed).module = "ffn";
  return layer;
}

// The CLIP layer, for its text and vision towers and for SigLIP.
Layer clip_layer(const Config& config, const VisionSizes& sizes, bool causal) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.mixer_norm = "layer_norm1";
  layer.feed_norm = "layer_norm2";
  SelfAttention attention = vision_attention(config, sizes.hidden, sizes.heads, true);
  attention.out = "out_proj";
  attention.causal = causal;
  layer.mixer = attention;
  layer.feed = plain_mlp("fc1", "fc2", sizes.inner, true,
                         read_activation(config, {"hidden_act"}, "quick_gelu"));
  return layer;
}

Projection linear_head(std::string path, std::int64_t in, std::int64_t out, bool bias) {
  return {.path = std::move(path), .in = in, .out = out, .bias = bias, .rows = Rows::sequences};
}

void add_vit_head(const Config& config, const Request& request, std::int64_t hidden,
                  const std::string& prefix, std::vector<Part>& parts) {
  if (request.architecture_has("WithTeacher")) {
    parts.push_back(linear_head("cls_classifier", hidden, read_labels(config), true));
    parts.push_back(linear_head("distillation_classifier", hidden, read_labels(config), true));
  } else if (request.architecture_has("ImageClassification")) {
    parts.push_back(linear_head("classifier", hidden, read_labels(config), true));
  } else {
    Projection pooler = linear_head(prefix + ".pooler.dense", hidden, hidden, true);
    pooler.activation = "tanh";
    parts.push_back(pooler);
  }
}

// ViT and DeiT: DeiT has a second class token.
Model vit(const Config& config, const Request& request) {
  Model model;
  const bool distilled = request.model_type == "deit";
  const std::string prefix = distilled ? "deit" : "vit";
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const Patches patches = read_patches(config, 224, 16);
  const std::int64_t extra = distilled ? 2 : 1;
  Tower tower;
  tower.length = patches.count() + extra;
  tower.parts.push_back(patch_embedding(prefix + ".embeddings.patch_embeddings.projection",
                                        request.batch, patches, sizes.hidden, true));
  tower.parts.push_back(Parameters{(extra + tower.length) * sizes.hidden});
  tower.parts.push_back(Pointwise{prefix + ".embeddings.add_positions", "add", sizes.hidden});
  tower.parts.push_back(Stack{prefix + ".encoder.layer", sizes.hidden,
                              repeat(vit_layer(config, sizes), sizes.layers)});
  tower.parts.push_back(NormPart{prefix + ".layernorm", kLayerNorm, sizes.hidden});
  add_vit_head(config, request, sizes.hidden, prefix, tower.parts);
  model.towers.push_back(std::move(tower));
  return model;
}

// YOLOS: a ViT with tokens for objects behind its patches, and two heads on those.
Model yolos(const Config& config, const Request& request) {
  Model model;
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  std::vector<std::int64_t> image = config.sizes("image_size");
  if (image.empty()) image = {512, 864};
  const std::int64_t patch = config.size_or({"patch_size"}, 16), height = image.front() / patch,
                     width = image.back() / patch;
  if (image.size() > 2 || height < 1 || width < 1 || height > 4096 || width > 4096) {
    config.set_error("image_size: expected one size or two, each from patch_size on");
    return {};
  }
  const std::int64_t objects = config.size_or({"num_detection_tokens"}, 100);
  Conv conv = patch_embedding("vit.embeddings.patch_embeddings.projection", request.batch,
                              {.patch = patch, .channels = config.size_or({"num_channels"}, 3)},
                              sizes.hidden, true);
  conv.body.input = {image.front(), image.back()};
  Tower tower;
  tower.length = height * width + 1 + objects;
  tower.parts.push_back(std::move(conv));
  // Class token, tokens for objects, positions: of the input, and of the layers between.
  const bool between = config.flag("use_mid_position_embeddings", true);
  const std::int64_t tables = 1 + (between ? sizes.layers - 1 : 0);
  tower.parts.push_back(Parameters{(1 + objects + tables * tower.length) * sizes.hidden});
  tower.parts.push_back(Pointwise{"vit.embeddings.add_positions", "add", sizes.hidden});
  tower.parts.push_back(
      Stack{"vit.encoder.layer", sizes.hidden, repeat(vit_layer(config, sizes), sizes.layers)});
  tower.parts.push_back(NormPart{"vit.layernorm", kLayerNorm, sizes.hidden});
  if (between) model.skipped["position embeddings between layers"] += sizes.layers - 1;
  const bool detects = request.architecture_has("ObjectDetection");
  if (!detects) add_vit_head(config, request, sizes.hidden, "vit", tower.parts);
  model.towers.push_back(std::move(tower));
  if (!detects) return model;
  Tower heads;
  heads.length = objects;
  const std::string reads = "vit.layernorm";
  add_detection_head("class_labels_classifier", reads, sizes.hidden, read_labels(config) + 1,
                     heads.parts);
  add_detection_head("bbox_predictor", reads, sizes.hidden, 4, heads.parts);
  model.towers.push_back(std::move(heads));
  return model;
}

// BEiT: keys without bias, layer scale, and a table of relative positions in each layer.
Model beit(const Config& config, const Request& request) {
  Model model;
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const Patches patches = read_patches(config, 224, 16);
  Layer layer = vit_layer(config, sizes);
  auto& attention = std::get<SelfAttention>(layer.mixer);
  attention.k_bias = false;
  layer.layer_scale = config.number("layer_scale_init_value").value_or(0.1) > 0.0;
  const std::int64_t side = 2 * patches.side - 1;
  if (config.flag("use_relative_position_bias", false)) {
    attention.extra_parameters = (side * side + 3) * sizes.heads;
  }
  Tower tower;
  tower.length = patches.count() + 1;
  tower.parts.push_back(patch_embedding("beit.embeddings.patch_embeddings.projection",
                                        request.batch, patches, sizes.hidden, true));
  const bool mask = config.flag("use_mask_token", false);
  const bool absolute = config.flag("use_absolute_position_embeddings", false);
  tower.parts.push_back(
      Parameters{sizes.hidden * (1 + (mask ? 1 : 0) + (absolute ? tower.length : 0))});
  if (config.flag("use_shared_relative_position_bias", false)) {
    tower.parts.push_back(Parameters{(side * side + 3) * sizes.heads});
  }
  tower.parts.push_back(Stack{"beit.encoder.layer", sizes.hidden, repeat(layer, sizes.layers)});
  const bool mean = config.flag("use_mean_pooling", true);
  tower.parts.push_back(NormPart{mean ? "beit.pooler.layernorm" : "beit.layernorm", kLayerNorm,
                                 sizes.hidden, mean ? Rows::sequences : Rows::tokens});
  if (request.architecture_has("ImageClassification")) {
    tower.parts.push_back(linear_head("classifier", sizes.hidden, read_labels(config), true));
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// DINOv2's SwiGLU width: two thirds of the MLP's, rounded up to a multiple of 8.
Mlp dinov2_mlp(const Config& config, std::int64_t hidden) {
  const std::int64_t inner = hidden * config.size_or({"mlp_ratio"}, 4);
  if (!config.flag("use_swiglu_ffn", false)) {
    return plain_mlp("fc1", "fc2", inner, true, read_activation(config, {"hidden_act"}, "gelu"));
  }
  Mlp mlp;
  mlp.fused = "weights_in";
  mlp.down = "weights_out";
  mlp.inner = (inner * 2 / 3 + 7) / 8 * 8;
  mlp.up_bias = mlp.down_bias = true;
  return mlp;
}

Model dinov2(const Config& config, const Request& request) {
  Model model;
  Tower tower = dinov2_tower(config, request, "dinov2");
  if (request.architecture_has("ImageClassification")) {
    const std::int64_t hidden = config.size_or({"hidden_size"}, 768);
    tower.parts.push_back(linear_head("classifier", 2 * hidden, read_labels(config), true));
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// DINOv3: rotary positions, registers beside the class token, and biases stated one by one.
Model dinov3(const Config& config, const Request& request) {
  Model model;
  const VisionSizes sizes = read_vision_sizes(config, {384, 12, 6, 1536});
  const Patches patches = read_patches(config, 224, 16);
  const std::int64_t registers = config.count_or({"num_register_tokens"}, 0);
  Layer layer;
  layer.norm = kLayerNorm;
  layer.mixer_norm = "norm1";
  layer.feed_norm = "norm2";
  layer.layer_scale = true;
  SelfAttention attention = vision_attention(config, sizes.hidden, sizes.heads, true);
  attention.module = "attention";
  attention.q_bias = config.flag("query_bias", true);
  attention.k_bias = config.flag("key_bias", false);
  attention.v_bias = config.flag("value_bias", true);
  attention.out_bias = config.flag("proj_bias", true);
  attention.rotary = true;
  layer.mixer = attention;
  Mlp mlp;
  mlp.inner = sizes.inner;
  mlp.gated = config.flag("use_gated_mlp", false);
  mlp.up_bias = mlp.down_bias = config.flag("mlp_bias", true);
  mlp.activation = read_activation(config, {"hidden_act"}, "gelu");
  layer.feed = mlp;
  Tower tower;
  tower.length = patches.count() + 1 + registers;
  tower.parts.push_back(
      patch_embedding("embeddings.patch_embeddings", request.batch, patches, sizes.hidden, true));
  tower.parts.push_back(Parameters{(2 + registers) * sizes.hidden});  // class and mask token
  tower.parts.push_back(Stack{"layer", sizes.hidden, repeat(layer, sizes.layers)});
  tower.parts.push_back(NormPart{"norm", kLayerNorm, sizes.hidden});
  model.towers.push_back(std::move(tower));
  return model;
}

Tower clip_text_tower(const Config& config, const Request& request, Model& model) {
  const VisionSizes sizes = read_vision_sizes(config, {512, 12, 8, 2048});
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 77);
  const std::int64_t vocab = config.size_or({"vocab_size"}, 49408);
  Tower tower;
  tower.length = choose_length(request, positions, model);
  tower.parts.push_back(Table{"text_model.embeddings.token_embedding", vocab, sizes.hidden});
  tower.parts.push_back(
      Table{"text_model.embeddings.position_embedding", positions, sizes.hidden, true});
  tower.parts.push_back(Stack{"text_model.encoder.layers", sizes.hidden,
                              repeat(clip_layer(config, sizes, true), sizes.layers)});
  tower.parts.push_back(NormPart{"text_model.final_layer_norm", kLayerNorm, sizes.hidden});
  return tower;
}

Tower clip_vision_tower_of(const Config& config, const Request& request) {
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const Patches patches = read_patches(config, 224, 32);
  Tower tower;
  tower.length = patches.count() + 1;
  tower.parts.push_back(patch_embedding("vision_model.embeddings.patch_embedding", request.batch,
                                        patches, sizes.hidden, false));
  tower.parts.push_back(Parameters{(1 + tower.length) * sizes.hidden});
  tower.parts.push_back(Pointwise{"vision_model.embeddings.add_positions", "add", sizes.hidden});
  tower.parts.push_back(NormPart{"vision_model.pre_layrnorm", kLayerNorm, sizes.hidden});
  tower.parts.push_back(Stack{"vision_model.encoder.layers", sizes.hidden,
                              repeat(clip_layer(config, sizes, false), sizes.layers)});
  tower.parts.push_back(
      NormPart{"vision_model.post_layernorm", kLayerNorm, sizes.hidden, Rows::sequences});
  return tower;
}

Tower blip_vision_tower(const Config& config, const Request& request) {
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const Patches patches = read_patches(config, 384, 16);
  Layer layer = clip_layer(config, sizes, false);
  auto& attention = std::get<SelfAttention>(layer.mixer);
  attention.fused = "qkv";
  attention.out = "projection";
  std::get<Mlp>(layer.feed).activation = read_activation(config, {"hidden_act"}, "gelu");
  Tower tower;
  tower.length = patches.count() + 1;
  tower.parts.push_back(patch_embedding("vision_model.embeddings.patch_embedding", request.batch,
                                        patches, sizes.hidden, true));
  tower.parts.push_back(Parameters{(1 + tower.length) * sizes.hidden});
  tower.parts.push_back(Pointwise{"vision_model.embeddings.add_positions", "add", sizes.hidden});
  tower.parts.push_back(
      Stack{"vision_model.encoder.layers", sizes.hidden, repeat(layer, sizes.layers)});
  tower.parts.push_back(NormPart{"vision_model.post_layernorm", kLayerNorm, sizes.hidden});
  return tower;
}

// BERT's layer as a decoder that also reads the image.
Layer blip_text_layer(const Config& config, const VisionSizes& sizes, std::int64_t image_width) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = Placement::post;
  layer.mixer_norm = "attention.output.LayerNorm";
  layer.cross_norm = "crossattention.output.LayerNorm";
  layer.feed_norm = "output.LayerNorm";
  SelfAttention attention = vision_attention(config, sizes.hidden, sizes.heads, true);
  attention.module = "attention";
  attention.q = "self.query";
  attention.k = "self.key";
  attention.v = "self.value";
  attention.out = "output.dense";
  attention.causal = true;
  layer.mixer = attention;
  attention.module = "crossattention";
  attention.causal = false;
  attention.input_width = config.size_or({"encoder_hidden_size"}, image_width);
  layer.cross = attention;
  Mlp mlp = plain_mlp("intermediate.dense", "output.dense", sizes.inner, true,
                      read_activation(config, {"hidden_act"}, "gelu"));
  mlp.module = "ffn";
  layer.feed = mlp;
  return layer;
}

// BLIP's captions: a ViT, and a text decoder that attends to its patches.
Model blip(const Config& config, const Request& request) {
  Model model;
  const auto text = config.child("text_config"), vision = config.child("vision_config");
  if (!text || !vision || !request.architecture_has("ForConditionalGeneration")) {
    config.set_error(
        "a blip config is read for BlipForConditionalGeneration, with \"text_config\" and "
        "\"vision_config\"");
    return {};
  }
  Tower image = blip_vision_tower(*vision, request);
  const VisionSizes sizes = read_vision_sizes(*text, {768, 12, 8, 3072});
  const std::int64_t vocab = text->size_or({"vocab_size"}, 30524);
  const std::int64_t positions = text->size_or({"max_position_embeddings"}, 512);
  const std::string at = "text_decoder.bert.embeddings.", head = "text_decoder.cls.predictions.";
  Tower tower;
  tower.generates = true;
  tower.memory_length = image.length;
  tower.length = choose_length(request, positions, model);
  tower.parts = {
      Table{at + "word_embeddings", vocab, sizes.hidden},
      Table{at + "position_embeddings", positions, sizes.hidden, true},
      NormPart{at + "LayerNorm", kLayerNorm, sizes.hidden},
      Stack{"text_decoder.bert.encoder.layer", sizes.hidden,
            repeat(blip_text_layer(*text, sizes, vision->size_or({"hidden_size"}, 768)),
                   sizes.layers)},
      Projection{.path = head + "transform.dense",
                 .in = sizes.hidden,
                 .out = sizes.hidden,
                 .bias = true,
                 .activation = "gelu"},
      NormPart{head + "transform.LayerNorm", kLayerNorm, sizes.hidden},
      Projection{
          .path = head + "decoder", .in = sizes.hidden, .out = vocab, .bias = true, .tied = true}};
  model.towers.push_back(std::move(image));
  model.towers.push_back(std::move(tower));
  return model;
}

std::int64_t hidden_of(const Config& config, std::int64_t fallback) {
  return config.size_or({"hidden_size"}, fallback);
}

Model clip_text(const Config& config, const Request& request) {
  Model model;
  Tower tower = clip_text_tower(config, request, model);
  if (request.architecture_has("WithProjection")) {
    tower.parts.push_back(linear_head("text_projection", hidden_of(config, 512),
                                      config.size_or({"projection_dim"}, 512), false));
  }
  model.towers.push_back(std::move(tower));
  return model;
}

Model clip_vision(const Config& config, const Request& request) {
  Model model;
  Tower tower = clip_vision_tower_of(config, request);
  if (request.architecture_has("WithProjection")) {
    tower.parts.push_back(linear_head("visual_projection", hidden_of(config, 768),
                                      config.size_or({"projection_dim"}, 512), false));
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// Stable Diffusion's safety checker: CLIP's vision tower and 17 + 3 stored concepts with a weight.
void add_safety_checker(Tower& tower, std::int64_t projection) {
  constexpr std::int64_t kConcepts = 17 + 3;
  tower.parts.push_back(Parameters{kConcepts * (projection + 1)});
}

Model clip(const Config& config, const Request& request) {
  Model model;
  const auto text = config.child("text_config"), vision = config.child("vision_config");
  if (!text || !vision) {
    config.set_error("a clip config needs \"text_config\" and \"vision_config\"");
    return {};
  }
  const std::int64_t projection = config.size_or({"projection_dim"}, 512);
  Tower vision_tower = clip_vision_tower_of(*vision, request);
  if (request.architecture_has("ImageClassification")) {
    vision_tower.parts.push_back(
        linear_head("classifier", hidden_of(*vision, 768), read_labels(config), true));
    model.towers.push_back(std::move(vision_tower));
    return model;
  }
  vision_tower.parts.push_back(
      linear_head("visual_projection", hidden_of(*vision, 768), projection, false));
  if (request.architecture_has("SafetyChecker")) {
    add_safety_checker(vision_tower, projection);
    model.towers.push_back(std::move(vision_tower));
    model.notes.push_back("the safety checker uses the vision tower only");
    return model;
  }
  Tower text_tower = clip_text_tower(*text, request, model);
  text_tower.parts.push_back(
      linear_head("text_projection", hidden_of(*text, 512), projection, false));
  text_tower.parts.push_back(Parameters{1});  // logit_scale
  model.towers.push_back(std::move(text_tower));
  model.towers.push_back(std::move(vision_tower));
  return model;
}

// SigLIP pools with one learned query that attends to all patches.
void add_attention_pooling(const Config& config, const VisionSizes& sizes, Tower& tower) {
  const std::int64_t attention = 4 * (sizes.hidden * sizes.hidden + sizes.hidden);
  tower.parts.push_back(Parameters{sizes.hidden + attention});
  tower.parts.push_back(
      NormPart{"vision_model.head.layernorm", kLayerNorm, sizes.hidden, Rows::sequences});
  Projection up = linear_head("vision_model.head.mlp.fc1", sizes.hidden, sizes.inner, true);
  up.activation = read_activation(config, {"hidden_act"}, "gelu");
  tower.parts.push_back(up);
  tower.parts.push_back(linear_head("vision_model.head.mlp.fc2", sizes.inner, sizes.hidden, true));
}

Tower siglip_vision_tower(const Config& config, const Request& request, Model& model) {
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  Tower tower;
  if (config.text("model_type") == "siglip2_vision_model" || config.has("num_patches")) {
    // SigLIP 2 gets its patches cut, as many as the largest image has.
    const std::int64_t patch = config.size_or({"patch_size"}, 16);
    tower.length = config.size_or({"num_patches"}, 256);
    tower.parts.push_back(Projection{.path = "vision_model.embeddings.patch_embedding",
                                     .in = patch * patch * config.size_or({"num_channels"}, 3),
                                     .out = sizes.hidden,
                                     .bias = true});
  } else {
    const Patches patches = read_patches(config, 224, 16);
    tower.length = patches.count();
    tower.parts.push_back(patch_embedding("vision_model.embeddings.patch_embedding", request.batch,
                                          patches, sizes.hidden, true));
  }
  tower.parts.push_back(
      Table{"vision_model.embeddings.position_embedding", tower.length, sizes.hidden, true});
  tower.parts.push_back(Stack{"vision_model.encoder.layers", sizes.hidden,
                              repeat(clip_layer(config, sizes, false), sizes.layers)});
  tower.parts.push_back(NormPart{"vision_model.post_layernorm", kLayerNorm, sizes.hidden});
  if (config.flag("vision_use_head", true)) {
    add_attention_pooling(config, sizes, tower);
    model.skipped["attention pooling head"] += 1;
  }
  return tower;
}

Tower siglip_text_tower(const Config& config, const Request& request, Model& model) {
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 64);
  Tower tower;
  tower.length = choose_length(request, positions, model);
  tower.parts.push_back(Table{"text_model.embeddings.token_embedding",
                              config.size_or({"vocab_size"}, 32000), sizes.hidden});
  tower.parts.push_back(
      Table{"text_model.embeddings.position_embedding", positions, sizes.hidden, true});
  tower.parts.push_back(Stack{"text_model.encoder.layers", sizes.hidden,
                              repeat(clip_layer(config, sizes, false), sizes.layers)});
  tower.parts.push_back(NormPart{"text_model.final_layer_norm", kLayerNorm, sizes.hidden});
  tower.parts.push_back(linear_head("text_model.head", sizes.hidden,
                                    config.size_or({"projection_size"}, sizes.hidden), true));
  return tower;
}

Model siglip(const Config& config, const Request& request) {
  Model model;
  const auto text = config.child("text_config"), vision = config.child("vision_config");
  if (!text || !vision) {
    config.set_error("a siglip config needs \"text_config\" and \"vision_config\"");
    return {};
  }
  if (request.architecture_has("ImageClassification")) {
    const std::int64_t hidden = hidden_of(*vision, 768);
    model.towers.push_back(siglip_vision_tower(*vision, request, model));
    model.towers.back().parts.push_back(
        linear_head("classifier", hidden, read_labels(config), true));
    return model;
  }
  Tower text_tower = siglip_text_tower(*text, request, model);
  text_tower.parts.push_back(Parameters{2});  // logit_scale, logit_bias
  model.towers.push_back(std::move(text_tower));
  model.towers.push_back(siglip_vision_tower(*vision, request, model));
  return model;
}

Model siglip_vision(const Config& config, const Request& request) {
  Model model;
  model.towers.push_back(siglip_vision_tower(config, request, model));
  return model;
}

}  // namespace

Tower dinov2_tower(const Config& config, const Request& request, const std::string& path) {
  const VisionSizes sizes = read_vision_sizes(config, {768, 12, 12, 3072});
  const Patches patches = read_patches(config, 224, 14);
  Layer layer = vit_layer(config, sizes);
  layer.mixer_norm = "norm1";
  layer.feed_norm = "norm2";
  layer.layer_scale = true;
  layer.feed = dinov2_mlp(config, sizes.hidden);
  Tower tower;
  tower.length = patches.count() + 1;
  tower.parts.push_back(patch_embedding(path + ".embeddings.patch_embeddings.projection",
                                        request.batch, patches, sizes.hidden, true));
  // Class token, mask token, positions; registers, which have no position.
  const std::int64_t registers = config.count_or({"num_register_tokens"}, 0);
  tower.parts.push_back(Parameters{(2 + tower.length + registers) * sizes.hidden});
  tower.length += registers;
  tower.parts.push_back(Pointwise{path + ".embeddings.add_positions", "add", sizes.hidden});
  tower.parts.push_back(Stack{path + ".encoder.layer", sizes.hidden, repeat(layer, sizes.layers)});
  tower.parts.push_back(NormPart{path + ".layernorm", kLayerNorm, sizes.hidden});
  return tower;
}

void add_vision_tower(const Config& config, const Request& request, Model& model) {
  const std::string type = config.text("model_type");
  if (type == "clip_vision_model" && config.has("image_size")) {
    model.towers.insert(model.towers.begin(), clip_vision_tower_of(config, request));
  } else if (type == "siglip_vision_model" && config.has("image_size")) {
    model.towers.insert(model.towers.begin(), siglip_vision_tower(config, request, model));
  } else {
    model.skipped["vision tower"] += 1;
    model.notes.push_back(
        "only the text model is analysed: the number of image tokens is not in the config, so the "
        "vision tower is left out, also of the parameters");
    return;
  }
  model.skipped["multimodal projector"] += 1;
  model.notes.push_back(
      "the vision tower runs on one image for each sequence; the projector between the two is "
      "left out, and --seq counts all tokens of the text model");
}

FamilyList vision_families() {
  return {{"vit", vit},
          {"deit", vit},
          {"beit", beit},
          {"data2vec-vision", beit},
          {"dinov2", dinov2},
          {"dinov2_with_registers", dinov2},
          {"dinov3_vit", dinov3},
          {"vit_msn", vit},
          {"yolos", yolos},
          {"blip", blip},
          {"clip", clip},
          {"clip_text_model", clip_text},
          {"clip_vision_model", clip_vision},
          {"siglip", siglip},
          {"siglip_vision_model", siglip_vision},
          {"siglip2", siglip},
          {"siglip2_vision_model", siglip_vision}};
}

}  // namespace rooftile::hf
