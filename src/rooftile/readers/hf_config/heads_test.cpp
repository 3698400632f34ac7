// What follows from the name of the architecture, and from the switches of a family: the head, and
// how many weights there are with it. Expected are the classes of Transformers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

constexpr const char* kEncoder = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
  "max_position_embeddings": 40)";
constexpr const char* kProjected = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "projection_dim": 24)";
constexpr const char* kNarrow = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "embedding_size": 32)";
constexpr const char* kDeberta = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
  "relative_attention": true, "share_att_key": true)";
constexpr const char* kXlnet =
    R"("d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 96, "vocab_size": 100)";
constexpr const char* kLayout = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "visual_embed": false)";
constexpr const char* kImages = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32, "patch_size": 8)";
constexpr const char* kTwoTowers = R"("projection_dim": 24,
  "text_config": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96, "vocab_size": 100},
  "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96, "image_size": 32, "patch_size": 8})";
constexpr const char* kBart = R"("d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
  "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
  "decoder_ffn_dim": 96, "vocab_size": 100)";
constexpr const char* kT5 = R"("d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96,
  "num_layers": 2, "vocab_size": 100)";
constexpr const char* kSpeech = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96)";

json members(const std::string& text) { return json::parse("{" + text + "}"); }

ReadOptions three_sequences(bool of_text) {
  ReadOptions options;
  options.batch = 3;
  if (of_text) options.seq = 5;
  return options;
}

Workload read(const json& config, const ReadOptions& options = {}) {
  auto workload = parse_hf_config(config.dump(), "config.json", options);
  EXPECT_TRUE(workload) << to_string(workload.error()) << " in " << config;
  return workload ? *workload : Workload{};
}

// Names and sizes of the last operations.
Lines last_operations(const Workload& workload, std::size_t count) {
  Lines lines;
  for (std::size_t at = workload.ops.size() - std::min(count, workload.ops.size());
       at < workload.ops.size(); ++at) {
    lines.push_back(workload.ops[at].name + ": " + dims_text(workload.ops[at].body));
  }
  return lines;
}

struct Head {
  const char* model_type;
  const char* sizes;
  const char* architecture;
  std::int64_t weights;  // of the head alone
  Lines operations;      // the last ones
};

// A square product, the norm and the bias of a tied decoder, two labels.
constexpr std::int64_t kDense = 64 * 64 + 64, kMasked = kDense + 2 * 64 + 100, kLabels = 2 * 64 + 2;

// What is before the head does not depend on it: of one family it has always the same weights.
void expect_heads(const std::vector<Head>& heads, bool of_text) {
  std::map<std::string, std::int64_t> bodies;
  for (const Head& head : heads) {
    json config = members(head.sizes);
    config["model_type"] = head.model_type;
    config["architectures"] = json::array({head.architecture});
    const Workload workload = read(config, three_sequences(of_text));
    EXPECT_EQ(last_operations(workload, head.operations.size()), head.operations)
        << head.architecture;
    const std::int64_t body = workload.parameters.value_or(0) - head.weights;
    const auto [entry, first] = bodies.emplace(std::string(head.model_type) + head.sizes, body);
    EXPECT_EQ(entry->second, body) << head.architecture;
  }
}

// Of 3 sequences of 5 tokens.
TEST(ArchitectureHeads, OfBertAndItsRelatives) {
  const Lines masked{"cls.predictions.transform.dense: m=15 n=64 k=64 bias=1",
                     "cls.predictions.transform.dense_activation: fn=gelu elements=960",
                     "cls.predictions.transform.LayerNorm: fn=layer rows=15 cols=64",
                     "cls.predictions.decoder: m=15 n=100 k=64 bias=1"};
  const Lines answers{"qa_outputs: m=15 n=2 k=64 bias=1"};
  const Lines tokens{"classifier: m=15 n=2 k=64 bias=1"};
  const auto pooler = [](const std::string& path, const std::string& fn) {
    return Lines{path + ": m=3 n=64 k=64 bias=1", path + "_activation: fn=" + fn + " elements=192"};
  };
  const auto with = [](Lines lines, const Lines& more) {
    lines.insert(lines.end(), more.begin(), more.end());
    return lines;
  };
  const Lines sequences{"classifier: m=3 n=2 k=64 bias=1"};
  const Lines lm_head{
      "lm_head.dense: m=15 n=64 k=64 bias=1", "lm_head.dense_activation: fn=gelu elements=960",
      "lm_head.layer_norm: fn=layer rows=15 cols=64", "lm_head.decoder: m=15 n=100 k=64 bias=1"};
  const Lines bert = pooler("bert.pooler.dense", "tanh");
  expect_heads(
      {{"bert", kEncoder, "BertModel", kDense, bert},
       {"bert", kEncoder, "BertForMaskedLM", kMasked, masked},
       {"bert", kEncoder, "BertLMHeadModel", kMasked, masked},
       {"bert", kEncoder, "BertForPreTraining", kDense + kMasked + kLabels,
        with(with(bert, masked), {"cls.seq_relationship: m=3 n=2 k=64 bias=1"})},
       {"bert", kEncoder, "BertForSequenceClassification", kDense + kLabels, with(bert, sequences)},
       {"bert", kEncoder, "BertForMultipleChoice", kDense + 65,
        with(bert, {"classifier: m=3 n=1 k=64 bias=1"})},
       {"bert", kEncoder, "BertForTokenClassification", kLabels, tokens},
       {"bert", kEncoder, "BertForQuestionAnswering", kLabels, answers},
       {"dpr", kEncoder, "DPRQuestionEncoder", 0, {}},
       {"dpr", kEncoder, "DPRReader", kLabels + 65,
        with(answers, {"qa_classifier: m=3 n=1 k=64 bias=1"})},
       {"dpr",
        kProjected,
        "DPRQuestionEncoder",
        64 * 24 + 24,
        {"encode_proj: m=3 n=24 k=64 bias=1"}},
       {"roberta", kEncoder, "RobertaModel", kDense, pooler("roberta.pooler.dense", "tanh")},
       {"roberta", kEncoder, "RobertaForMaskedLM", kMasked, lm_head},
       {"roberta", kEncoder, "RobertaForCausalLM", kMasked, lm_head},
       {"roberta", kEncoder, "RobertaForSequenceClassification", kDense + kLabels,
        with(pooler("classifier.dense", "tanh"), {"classifier.out_proj: m=3 n=2 k=64 bias=1"})},
       {"roberta", kEncoder, "RobertaForTokenClassification", kLabels, tokens},
       {"distilbert", kEncoder, "DistilBertModel", 0, {}},
       {"distilbert",
        kEncoder,
        "DistilBertForMaskedLM",
        kMasked,
        {"vocab_transform: m=15 n=64 k=64 bias=1",
         "vocab_transform_activation: fn=gelu elements=960",
         "vocab_layer_norm: fn=layer rows=15 cols=64", "vocab_projector: m=15 n=100 k=64 bias=1"}},
       {"distilbert", kEncoder, "DistilBertForSequenceClassification", kDense + kLabels,
        with(pooler("pre_classifier", "relu"), sequences)},
       {"distilbert", kEncoder, "DistilBertForQuestionAnswering", kLabels, answers},
       {"mpnet", kEncoder, "MPNetModel", kDense, pooler("mpnet.pooler.dense", "tanh")},
       {"mpnet", kEncoder, "MPNetForMaskedLM", kMasked, lm_head},
       {"nomic_bert", kEncoder, "NomicBertModel", 0, {}},
       {"nomic_bert", kEncoder, "NomicBertForMaskedLM", kMasked, masked},
       {"nomic_bert", kEncoder, "NomicBertForTokenClassification", kLabels, tokens},
       {"esm", kEncoder, "EsmModel", kDense, pooler("esm.pooler.dense", "tanh")},
       {"esm", kEncoder, "EsmForMaskedLM", kMasked, lm_head},
       {"esm", kEncoder, "EsmForTokenClassification", kLabels, tokens},
       {"deberta-v2", kDeberta, "DebertaV2Model", 0, {}},
       {"deberta-v2", kDeberta, "DebertaV2ForMaskedLM", kMasked, masked},
       {"deberta-v2", kDeberta, "DebertaV2ForSequenceClassification", kDense + kLabels,
        with(pooler("pooler.dense", "gelu"), sequences)},
       {"deberta-v2", kDeberta, "DebertaV2ForTokenClassification", kLabels, tokens}},
      true);
}

// An embedding of 32 channels: the heads of masked models go back to it.
TEST(ArchitectureHeads, OfEncodersWithANarrowEmbedding) {
  constexpr std::int64_t kNarrowMasked = 64 * 32 + 32 + 2 * 32 + 100;
  expect_heads(
      {{"electra", kNarrow, "ElectraModel", 0, {}},
       {"electra",
        kNarrow,
        "ElectraForPreTraining",
        kDense + 65,
        {"discriminator_predictions.dense: m=15 n=64 k=64 bias=1",
         "discriminator_predictions.dense_activation: fn=gelu elements=960",
         "discriminator_predictions.dense_prediction: m=15 n=1 k=64 bias=1"}},
       {"electra",
        kNarrow,
        "ElectraForMaskedLM",
        kNarrowMasked,
        {"generator_predictions.dense: m=15 n=32 k=64 bias=1",
         "generator_predictions.dense_activation: fn=gelu elements=480",
         "generator_predictions.LayerNorm: fn=layer rows=15 cols=32",
         "generator_lm_head: m=15 n=100 k=32 bias=1"}},
       {"electra",
        kNarrow,
        "ElectraForSequenceClassification",
        kDense + kLabels,
        {"classifier.dense: m=3 n=64 k=64 bias=1",
         "classifier.dense_activation: fn=gelu elements=192",
         "classifier.out_proj: m=3 n=2 k=64 bias=1"}},
       {"electra",
        kNarrow,
        "ElectraForTokenClassification",
        kLabels,
        {"classifier: m=15 n=2 k=64 bias=1"}},
       {"albert",
        kNarrow,
        "AlbertModel",
        kDense,
        {"albert.pooler: m=3 n=64 k=64 bias=1", "albert.pooler_activation: fn=tanh elements=192"}},
       {"albert",
        kNarrow,
        "AlbertForMaskedLM",
        kNarrowMasked,
        {"predictions.dense: m=15 n=32 k=64 bias=1",
         "predictions.dense_activation: fn=gelu elements=480",
         "predictions.LayerNorm: fn=layer rows=15 cols=32",
         "predictions.decoder: m=15 n=100 k=32 bias=1"}},
       {"albert",
        kNarrow,
        "AlbertForSequenceClassification",
        kDense + kLabels,
        {"albert.pooler: m=3 n=64 k=64 bias=1", "albert.pooler_activation: fn=tanh elements=192",
         "classifier: m=3 n=2 k=64 bias=1"}},
       {"albert",
        kNarrow,
        "AlbertForQuestionAnswering",
        kLabels,
        {"qa_outputs: m=15 n=2 k=64 bias=1"}}},
      true);
}

TEST(ArchitectureHeads, OfOtherEncoders) {
  const auto modern = [](int rows, const std::string& last) {
    return Lines{fmt::format("head.dense: m={} n=64 k=64", rows),
                 fmt::format("head.dense_activation: fn=gelu elements={}", 64 * rows),
                 fmt::format("head.norm: fn=layer rows={} cols=64", rows), last};
  };
  // Its norms have no bias.
  constexpr std::int64_t kModern = 64 * 64 + 64;
  expect_heads({{"modernbert",
                 kEncoder,
                 "ModernBertModel",
                 0,
                 {"model.final_norm: fn=layer rows=15 cols=64"}},
                {"modernbert", kEncoder, "ModernBertForMaskedLM", kModern + 100,
                 modern(15, "decoder: m=15 n=100 k=64 bias=1")},
                {"modernbert", kEncoder, "ModernBertForSequenceClassification", kModern + kLabels,
                 modern(3, "classifier: m=3 n=2 k=64 bias=1")},
                {"modernbert", kEncoder, "ModernBertForTokenClassification", kModern + kLabels,
                 modern(15, "classifier: m=15 n=2 k=64 bias=1")},
                {"xlnet", kXlnet, "XLNetModel", 0, {}},
                {"xlnet", kXlnet, "XLNetLMHeadModel", 100, {"lm_loss: m=15 n=100 k=64 bias=1"}},
                {"xlnet",
                 kXlnet,
                 "XLNetForSequenceClassification",
                 kDense + kLabels,
                 {"sequence_summary.summary: m=3 n=64 k=64 bias=1",
                  "sequence_summary.summary_activation: fn=tanh elements=192",
                  "logits_proj: m=3 n=2 k=64 bias=1"}},
                {"xlnet",
                 kXlnet,
                 "XLNetForTokenClassification",
                 kLabels,
                 {"classifier: m=15 n=2 k=64 bias=1"}},
                {"layoutlmv3", kLayout, "LayoutLMv3Model", 0, {}},
                {"layoutlmv3",
                 kLayout,
                 "LayoutLMv3ForSequenceClassification",
                 kDense + kLabels,
                 {"classifier.dense: m=3 n=64 k=64 bias=1",
                  "classifier.dense_activation: fn=tanh elements=192",
                  "classifier.out_proj: m=3 n=2 k=64 bias=1"}},
                {"layoutlmv3",
                 kLayout,
                 "LayoutLMv3ForQuestionAnswering",
                 kDense + kLabels,
                 {"classifier.dense: m=15 n=64 k=64 bias=1",
                  "classifier.dense_activation: fn=tanh elements=960",
                  "classifier.out_proj: m=15 n=2 k=64 bias=1"}},
                {"layoutlmv3",
                 kLayout,
                 "LayoutLMv3ForTokenClassification",
                 kLabels,
                 {"classifier: m=15 n=2 k=64 bias=1"}}},
               true);
}

// Ten labels are the first that take two products.
TEST(ArchitectureHeads, LayoutLMv3ClassifiesTokensWithOneProductForFewLabels) {
  json config = members(kLayout);
  config["model_type"] = "layoutlmv3";
  config["architectures"] = json::array({"LayoutLMv3ForTokenClassification"});
  config["num_labels"] = 9;
  const auto layers = read(config).ops.size();
  config["num_labels"] = 10;
  EXPECT_EQ(read(config).ops.size(), layers + 2);
  EXPECT_EQ(last_operations(read(config, three_sequences(true)), 1),
            Lines{"classifier.out_proj: m=15 n=10 k=64 bias=1"});
}

TEST(ArchitectureHeads, OfDecoders) {
  expect_heads(
      {{"llama", kEncoder, "LlamaModel", 0, {"model.norm: fn=rms rows=15 cols=64"}},
       {"llama", kEncoder, "LlamaForCausalLM", 6400, {"lm_head: m=3 n=100 k=64"}},
       {"llama", kEncoder, "LlamaForSequenceClassification", 128, {"score: m=15 n=2 k=64"}},
       {"llama", kEncoder, "LlamaForTokenClassification", kLabels, {"score: m=15 n=2 k=64 bias=1"}},
       {"bart", kBart, "BartModel", 0, {}},
       {"bart", kBart, "BartForConditionalGeneration", 0, {"lm_head: m=15 n=100 k=64"}},
       {"bart",
        kBart,
        "BartForSequenceClassification",
        kDense + kLabels,
        {"classification_head.dense: m=3 n=64 k=64 bias=1",
         "classification_head.dense_activation: fn=tanh elements=192",
         "classification_head.out_proj: m=3 n=2 k=64 bias=1"}},
       {"marian", kBart, "MarianMTModel", 0, {"lm_head: m=15 n=100 k=64"}},
       {"t5", kT5, "T5Model", 0, {"decoder.final_layer_norm: fn=rms rows=15 cols=64"}},
       {"t5", kT5, "T5ForConditionalGeneration", 0, {"lm_head: m=15 n=100 k=64"}},
       {"whisper",
        kBart,
        "WhisperModel",
        0,
        {"model.decoder.layer_norm: fn=layer rows=15 cols=64"}},
       {"whisper", kBart, "WhisperForConditionalGeneration", 0, {"proj_out: m=15 n=100 k=64"}}},
      true);
}

// A quarter of the 32 pixels of an image are a patch: 16 of them, and a token or two.
TEST(ArchitectureHeads, OfNetworksOnImages) {
  const Lines classes{"classifier: m=3 n=2 k=64 bias=1"};
  expect_heads(
      {{"vit",
        kImages,
        "ViTModel",
        kDense,
        {"vit.layernorm: fn=layer rows=51 cols=64", "vit.pooler.dense: m=3 n=64 k=64 bias=1",
         "vit.pooler.dense_activation: fn=tanh elements=192"}},
       {"vit", kImages, "ViTForImageClassification", kLabels, classes},
       {"deit",
        kImages,
        "DeiTForImageClassificationWithTeacher",
        2 * kLabels,
        {"deit.layernorm: fn=layer rows=54 cols=64", "cls_classifier: m=3 n=2 k=64 bias=1",
         "distillation_classifier: m=3 n=2 k=64 bias=1"}},
       {"deit", kImages, "DeiTForImageClassification", kLabels, classes},
       {"beit", kImages, "BeitModel", 0, {"beit.pooler.layernorm: fn=layer rows=3 cols=64"}},
       {"beit", kImages, "BeitForImageClassification", kLabels, classes},
       {"dinov2", kImages, "Dinov2Model", 0, {"dinov2.layernorm: fn=layer rows=51 cols=64"}},
       {"dinov2",
        kImages,
        "Dinov2ForImageClassification",
        2 * 128 + 2,
        {"classifier: m=3 n=2 k=128 bias=1"}},
       {"clip_vision_model",
        kImages,
        "CLIPVisionModel",
        0,
        {"vision_model.post_layernorm: fn=layer rows=3 cols=64"}},
       {"clip_vision_model",
        kImages,
        "CLIPVisionModelWithProjection",
        64 * 512,
        {"visual_projection: m=3 n=512 k=64"}},
       {"siglip_vision_model",
        kImages,
        "SiglipVisionModel",
        64 + 4 * kDense + 128 + 2 * 64 * 96 + 96 + 64,
        {"vision_model.post_layernorm: fn=layer rows=48 cols=64",
         "vision_model.head.layernorm: fn=layer rows=3 cols=64",
         "vision_model.head.mlp.fc1: m=3 n=96 k=64 bias=1",
         "vision_model.head.mlp.fc1_activation: fn=gelu elements=288",
         "vision_model.head.mlp.fc2: m=3 n=64 k=96 bias=1"}},
       {"yolos",
        kImages,
        "YolosModel",
        kDense,
        {"vit.layernorm: fn=layer rows=351 cols=64", "vit.pooler.dense: m=3 n=64 k=64 bias=1",
         "vit.pooler.dense_activation: fn=tanh elements=192"}},
       {"yolos",
        kImages,
        "YolosForObjectDetection",
        4 * kDense + 3 * 64 + 3 + 4 * 64 + 4,
        {"class_labels_classifier.layers.0: m=300 n=64 k=64 bias=1",
         "class_labels_classifier.layers.0_activation: fn=relu elements=19200",
         "class_labels_classifier.layers.1: m=300 n=64 k=64 bias=1",
         "class_labels_classifier.layers.1_activation: fn=relu elements=19200",
         "class_labels_classifier.layers.2: m=300 n=3 k=64 bias=1",
         "bbox_predictor.layers.0: m=300 n=64 k=64 bias=1",
         "bbox_predictor.layers.0_activation: fn=relu elements=19200",
         "bbox_predictor.layers.1: m=300 n=64 k=64 bias=1",
         "bbox_predictor.layers.1_activation: fn=relu elements=19200",
         "bbox_predictor.layers.2: m=300 n=4 k=64 bias=1"}}},
      false);
}

// A vision tower of 3·8²·64 + (1 + 17)·64 weights before its layers, and three norms.
TEST(ArchitectureHeads, OfTextAndImages) {
  constexpr std::int64_t kLayers = 2 * (4 * kDense + 2 * 64 * 96 + 96 + 64 + 4 * 64);
  constexpr std::int64_t kVision = 3 * 8 * 8 * 64 + (1 + 17) * 64 + kLayers + 2 * 2 * 64;
  constexpr std::int64_t kText = (100 + 77) * 64 + kLayers + 2 * 64;
  const auto weights = [](const char* architecture) {
    json config = members(kTwoTowers);
    config["model_type"] = "clip";
    config["architectures"] = json::array({architecture});
    return read(config, three_sequences(true)).parameters;
  };
  EXPECT_EQ(weights("CLIPModel"), kVision + kText + 2 * 64 * 24 + 1);
  EXPECT_EQ(weights("CLIPForImageClassification"), kVision + kLabels);
  // 17 concepts and 3 that need special care, a threshold for each.
  EXPECT_EQ(weights("StableDiffusionSafetyChecker"), kVision + 64 * 24 + 20 * 24 + 20);
}

TEST(ArchitectureHeads, OfSpeech) {
  const auto speech = [](const char* architecture) {
    json config = members(kSpeech);
    config["model_type"] = "wav2vec2";
    config["architectures"] = json::array({architecture});
    return read(config, three_sequences(true));
  };
  const Workload bare = speech("Wav2Vec2Model"), letters = speech("Wav2Vec2ForCTC"),
                 classes = speech("Wav2Vec2ForSequenceClassification"),
                 pretraining = speech("Wav2Vec2ForPreTraining");
  EXPECT_EQ(*letters.parameters - *bare.parameters, 64 * 32 + 32);
  EXPECT_EQ(last_operations(letters, 1), Lines{"lm_head: m=15 n=32 k=64 bias=1"});
  EXPECT_EQ(*classes.parameters - *bare.parameters, 64 * 256 + 256 + 256 * 2 + 2);
  EXPECT_EQ(last_operations(classes, 2),
            (Lines{"projector: m=15 n=256 k=64 bias=1", "classifier: m=3 n=2 k=256 bias=1"}));
  EXPECT_EQ(pretraining.parameters, bare.parameters);
  EXPECT_EQ(pretraining.skipped.at("quantizer and projections"), 1);
  EXPECT_TRUE(bare.skipped.empty());
}

// The maps of a ResNet end at a 32nd of the image, those of the others too.
TEST(ArchitectureHeads, OfNetworksOnMaps) {
  const char* sizes = R"("image_size": 64)";
  expect_heads(
      {{"resnet", sizes, "ResNetModel", 0, {"resnet.pooler: fn=mean elements=24576 outputs=6144"}},
       {"resnet",
        sizes,
        "ResNetForImageClassification",
        2 * 2048 + 2,
        {"classifier: m=3 n=2 k=2048 bias=1"}},
       {"convnext",
        sizes,
        "ConvNextModel",
        0,
        {"convnext.pooler: fn=mean elements=9216 outputs=2304",
         "convnext.layernorm: fn=layer rows=3 cols=768"}},
       {"convnext",
        sizes,
        "ConvNextForImageClassification",
        2 * 768 + 2,
        {"classifier: m=3 n=2 k=768 bias=1"}},
       {"swin",
        sizes,
        "SwinModel",
        0,
        {"swin.layernorm: fn=layer rows=12 cols=768",
         "swin.pooler: fn=mean elements=9216 outputs=2304"}},
       {"swin",
        sizes,
        "SwinForImageClassification",
        2 * 768 + 2,
        {"classifier: m=3 n=2 k=768 bias=1"}},
       {"segformer",
        sizes,
        "SegformerModel",
        0,
        {"segformer.mean: fn=mean elements=3072 outputs=768"}},
       {"segformer",
        sizes,
        "SegformerForImageClassification",
        2 * 256 + 2,
        {"classifier: m=3 n=2 k=256 bias=1"}},
       {"segformer",
        sizes,
        "SegformerForSemanticSegmentation",
        256 * (32 + 64 + 160 + 256) + 4 * 256 + 4 * 256 * 256 + 2 * 256 + 2 * 256 + 2,
        {"decode_head.linear_c.0.proj: m=768 n=256 k=32 bias=1",
         "decode_head.linear_c.1.proj: m=192 n=256 k=64 bias=1",
         "decode_head.upsample.1: fn=upsample elements=196608",
         "decode_head.linear_c.2.proj: m=48 n=256 k=160 bias=1",
         "decode_head.upsample.2: fn=upsample elements=196608",
         "decode_head.linear_c.3.proj: m=12 n=256 k=256 bias=1",
         "decode_head.upsample.3: fn=upsample elements=196608",
         "decode_head.linear_fuse: n=3 c=1024 k=256 in=16x16 kernel=1x1",
         "decode_head.batch_norm: fn=batch rows=768 cols=256",
         "decode_head.activation: fn=relu elements=196608",
         "decode_head.classifier: n=3 c=256 k=2 in=16x16 kernel=1x1 bias=1"}}},
      false);
}

// ---- switches

// A width of 64, queries of 64, keys and values of 32, and 96 inside of the MLP; four layers that
// attend to all tokens.
constexpr const char* kDecoder = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
  "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
  "attn_layer_indices": [0, 1, 2, 3])";
constexpr const char* kExperts = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
  "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
  "num_local_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
  "intermediate_size_mlp": 48, "dense_intermediate_size": 48)";
constexpr const char* kMpt =
    R"("d_model": 64, "n_layers": 4, "n_heads": 4, "vocab_size": 100, "attn_config": {})";
constexpr const char* kQwen = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "kv_channels": 16, "intermediate_size": 96, "vocab_size": 100)";
constexpr const char* kOpt = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "ffn_dim": 96, "max_position_embeddings": 40, "vocab_size": 100)";
constexpr const char* kGpt = R"("n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 100)";
constexpr const char* kZamba = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "n_mamba_heads": 4,
  "layers_block_type": ["mamba", "hybrid", "mamba", "mamba"])";
constexpr const char* kNemotronH = R"("hidden_size": 64, "vocab_size": 100,
  "hybrid_override_pattern": "*-M-E", "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 16, "intermediate_size": 96, "mamba_num_heads": 4, "mamba_head_dim": 16,
  "n_groups": 2, "ssm_state_size": 8, "conv_kernel": 4, "moe_intermediate_size": 24,
  "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_shared_expert_intermediate_size": 20)";
constexpr std::int64_t kQkv = 4 * (64 + 32 + 32), kAttention = kQkv + 4 * 64,
                       kGated = 4 * (96 + 96 + 64), kPlain = 4 * (96 + 64);

struct Switch {
  const char* model_type;
  const char* sizes;
  const char* members;   // that change
  std::int64_t weights;  // that come with them
};

void expect_switches(const std::vector<Switch>& switches) {
  for (const Switch& c : switches) {
    json config = members(c.sizes);
    config["model_type"] = c.model_type;
    const std::int64_t before = read(config).parameters.value_or(0);
    config.update(members(c.members));
    EXPECT_EQ(read(config).parameters.value_or(0) - before, c.weights)
        << c.model_type << " " << c.members;
  }
}

TEST(Switches, OfBiases) {
  expect_switches(
      {{"glm", kDecoder, R"("attention_bias": false)", -kQkv},
       {"glm4", kDecoder, R"("attention_bias": false)", -kQkv},
       {"mimo", kDecoder, R"("attention_bias": false)", -kQkv},
       {"seed_oss", kDecoder, R"("attention_bias": false)", -kQkv},
       {"seed_oss", kDecoder, R"("attention_out_bias": true)", 4 * 64},
       {"stablelm", kDecoder, R"("use_qkv_bias": true)", kQkv},
       {"gpt_neox", kDecoder, R"("attention_bias": false)", -kAttention},
       {"llama", kDecoder, R"("mlp_bias": true)", kGated},
       {"nemotron", kDecoder, R"("mlp_bias": true)", kPlain},
       {"arcee", kDecoder, R"("mlp_bias": true)", kPlain},
       {"falcon_h1", kDecoder, R"("mlp_bias": true)", kGated},
       {"bamba", kDecoder, R"("mlp_bias": true)", kGated},
       {"internlm3", kDecoder, R"("qkv_bias": true, "bias": true)", kAttention + kGated},
       {"internlm3", kDecoder, R"("attention_bias": true, "mlp_bias": true)", kAttention + kGated},
       {"ernie4_5", kDecoder, R"("use_bias": true)", kAttention + kGated},
       {"starcoder2", kDecoder, R"("use_bias": false)", -kAttention - kPlain},
       {"qwen", kQwen, R"("no_bias": false)", 4 * (64 + 48 + 48 + 64)},
       {"phimoe", kExperts, R"("lm_head_bias": true)", 100},
       {"qwen2_moe", kExperts, R"("qkv_bias": false)", -kQkv},
       {"glm4_moe", kExperts, R"("attention_bias": true)", kQkv},
       {"mimo_v2", kExperts, R"("attention_bias": true)", kQkv},
       {"gpt_oss", kExperts, R"("attention_bias": false)", -kAttention},
       {"opt", kOpt, R"("enable_bias": false)", -4 * 4 * 64 - kPlain},
       {"falcon", kDecoder, R"("bias": true)", 4 * (64 + 2 * 16 + 64 + 256 + 64)},
       {"mpt", kMpt, R"("no_bias": false)", 4 * (3 * 64 + 64 + 256 + 64 + 2 * 64) + 64},
       {"nemotron_h", kNemotronH, R"("attention_bias": true)", kAttention / 4},
       {"nemotron_h", kNemotronH, R"("mlp_bias": true)", kPlain / 2},
       // Two series of 64, two states of 16 and 4 steps; and the output.
       {"nemotron_h", kNemotronH, R"("use_bias": true)", 64 + 64 + 32 + 4 + 64},
       {"nemotron_h", kNemotronH, R"("mamba_proj_bias": true)", 64 + 64 + 32 + 4 + 64},
       {"nemotron_h", kNemotronH, R"("use_conv_bias": false)", -(64 + 32)},
       // Two series of 128, two states of 64 and 4 steps, and the output; one shared MLP.
       {"zamba2", kZamba, R"("add_bias_linear": true)",
        4 * (128 + 128 + 128 + 4 + 64) + 2 * 96 + 64}});
}

TEST(Switches, OfBiasesOfAllProjectionsOfAttention) {
  for (const char* type : {"llama", "qwen3", "olmo", "olmo2", "nemotron", "arcee", "cohere",
                           "gemma", "gemma2", "gemma3n_text", "falcon_h1", "bamba"}) {
    expect_switches({{type, kDecoder, R"("attention_bias": true)", kAttention}});
  }
  // Heads of 512 in its layers that attend to all tokens.
  expect_switches({{"gemma4_text", kDecoder, R"("attention_bias": true)",
                    4 * (4 * 512 + 2 * 512 + 2 * 512 + 64)}});
  for (const char* type :
       {"phimoe", "qwen3_moe", "llama4_text", "granitemoe", "granitemoehybrid", "step3p5"}) {
    expect_switches({{type, kExperts, R"("attention_bias": true)", kAttention}});
  }
}

// Queries of 128 channels: half of them are the gate.
TEST(Switches, OfAttentionBesideLinearAttention) {
  constexpr const char* kHybrid = R"("hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 100, "full_attention_interval": 2, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16)";
  expect_switches(
      {{"qwen3_next", kHybrid, R"("attention_bias": true)", 2 * (128 + 32 + 32 + 64)},
       {"qwen3_next", kHybrid, R"("attn_output_gate": false)", -2 * 64 * 64},
       {"qwen3_next", kHybrid, R"("linear_conv_kernel_dim": 5)", 2 * (2 * 2 * 8 + 4 * 16)}});
}

TEST(Switches, OfHeads) {
  expect_switches(
      {{"falcon", kDecoder, R"("multi_query": false)", 4 * 64 * (2 * 64 - 2 * 16)},
       {"falcon", kDecoder, R"("parallel_attn": false)", 4 * 2 * 64},
       {"falcon", kDecoder, R"("new_decoder_architecture": true, "num_kv_heads": 2)",
        4 * 64 * (2 * 32 - 2 * 16) + 4 * 2 * 64},
       {"falcon", kDecoder, R"("new_decoder_architecture": true, "num_kv_heads": 2,
          "num_ln_in_parallel_attn": 1)",
        4 * 64 * (2 * 32 - 2 * 16)},
       {"gpt_bigcode", kGpt, R"("multi_query": false)", 4 * (2 * 64 - 2 * 16) * (64 + 1)},
       {"mpt", kMpt, R"("attn_config": {"attn_type": "multiquery_attention"})",
        -4 * 64 * (2 * 64 - 2 * 16)},
       {"mpt", kMpt, R"("attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 2})",
        -4 * 64 * (2 * 64 - 2 * 32)},
       {"minimax_m3", kExperts, R"("attention_output_gate": true)", 4 * 64 * 64},
       {"step3p5", kExperts, R"("use_head_wise_attn_gate": false)", -4 * 64 * 4},
       {"gemma4_text", kDecoder, R"("attention_k_eq_v": true)", -4 * 64 * 2 * 512}});
}

// Two layers with four heads of 16; 4 x 4 patches, and 7 x 7 places that they see each other at.
TEST(Switches, OfNetworksOnImages) {
  expect_switches(
      {{"vit", kImages, R"("qkv_bias": false)", -2 * 3 * 64},
       {"beit", kImages, R"("use_mask_token": true)", 64},
       {"beit", kImages, R"("use_absolute_position_embeddings": true)", 17 * 64},
       {"beit", kImages, R"("use_relative_position_bias": true)", 2 * (7 * 7 + 3) * 4},
       {"beit", kImages, R"("use_shared_relative_position_bias": true)", (7 * 7 + 3) * 4},
       {"beit", kImages, R"("layer_scale_init_value": 0)", -2 * 2 * 64},
       {"beit", kImages, R"("use_mean_pooling": false)", 0},
       {"dinov2", kImages, R"("num_register_tokens": 4)", 4 * 64},
       {"dinov2", kImages, R"("mlp_ratio": 5)", 2 * (2 * 64 * 64 + 64)},
       // Two thirds of 256 are 170, and 176 the next multiple of 8.
       {"dinov2", kImages, R"("use_swiglu_ffn": true)",
        2 * (3 * 64 * 176 + 2 * 176 - 2 * 64 * 256 - 256)},
       {"dinov3_vit", kImages, R"("query_bias": false)", -2 * 64},
       {"dinov3_vit", kImages, R"("key_bias": true)", 2 * 64},
       {"dinov3_vit", kImages, R"("value_bias": false)", -2 * 64},
       {"dinov3_vit", kImages, R"("proj_bias": false)", -2 * 64},
       {"dinov3_vit", kImages, R"("mlp_bias": false)", -2 * (96 + 64)},
       {"dinov3_vit", kImages, R"("use_gated_mlp": true)", 2 * (64 * 96 + 96)},
       {"dinov3_vit", kImages, R"("num_register_tokens": 4)", 4 * 64},
       {"yolos", kImages, R"("use_mid_position_embeddings": false)", -(16 + 1 + 100) * 64},
       {"yolos", kImages, R"("num_detection_tokens": 101)", 64 + 2 * 64}});
}

// Blocks of three convolutions, or of two, and how many of them: He et al. 2015, table 1.
TEST(Switches, OfBackbones) {
  const char* of_50 = R"("backbone": "resnet50")";
  const char* of_18 = R"("backbone": "resnet18")";
  expect_switches(
      {{"detr", of_50, R"("backbone": "resnet101")", 17 * (2 * 1024 * 256 + 9 * 256 * 256)},
       {"detr", of_18, R"("backbone": "resnet34")",
        2 * 9 * (64 * 64 + 2 * 128 * 128 + 4 * 256 * 256 + 512 * 512)},
       // The projection to the width of the transformer, from 512 channels in the place of 2048.
       {"detr", of_50, R"("backbone": "resnet18", "d_model": 256)",
        11'166'912 - 23'454'912 - (2048 - 512) * 256}});
}

// What they have more or less than BART: norms behind each stack and behind each embedding, two
// rows of each table of positions, tables of 1024 positions.
TEST(Switches, OfRelativesOfBart) {
  const auto weights = [](const char* type) {
    json config = members(kBart);
    config["model_type"] = type;
    return read(config).parameters.value_or(0);
  };
  const std::int64_t norm = 2 * 64, bart = weights("bart");
  EXPECT_EQ(weights("plbart") - bart, 0);
  EXPECT_EQ(weights("mbart") - bart, 2 * norm);
  EXPECT_EQ(weights("marian") - bart, -2 * norm - 2 * 2 * 64);
  EXPECT_EQ(weights("pegasus") - bart, -2 * 2 * 64);
  EXPECT_EQ(weights("m2m_100") - bart, -2 * (1024 + 2) * 64);
}

// Two layers each; a table of 32 distances for 4 heads.
TEST(Switches, OfRelativesOfT5) {
  const auto weights = [](const char* type) {
    json config = members(kT5);
    config["model_type"] = type;
    return read(config).parameters.value_or(0);
  };
  EXPECT_EQ(weights("mt5") - weights("t5"), 100 * 64);
  EXPECT_EQ(weights("umt5") - weights("t5"), 2 * 32 * 4);
  expect_switches(
      {{"t5", kT5, R"("feed_forward_proj": "gated-gelu")", 4 * 64 * 96},
       {"t5", kT5, R"("feed_forward_proj": "gated-silu")", 4 * 64 * 96},
       {"t5", kT5, R"("feed_forward_proj": "gelu")", 0},
       {"t5", kT5, R"("num_decoder_layers": 3)", 2 * 4 * 64 * 64 + 2 * 64 * 96 + 3 * 64},
       {"umt5", kT5, R"("num_decoder_layers": 3)", 2 * 4 * 64 * 64 + 2 * 64 * 96 + 3 * 64 + 32 * 4},
       {"t5", kT5, R"("relative_attention_num_buckets": 33)", 2 * 4},
       {"t5", kT5, R"("tie_word_embeddings": false)", 100 * 64},
       {"whisper", kBart, R"("num_mel_bins": 81)", 3 * 64},
       {"whisper", kBart, R"("max_source_positions": 1501)", 64},
       {"whisper", kBart, R"("max_target_positions": 449)", 64}});
}

TEST(Switches, OfTheActivationOfT5) {
  for (const auto& [stated, name] : std::map<std::string, std::string>{{"relu", "relu"},
                                                                       {"gated-gelu", "gelu"},
                                                                       {"gelu_new", "gelu"},
                                                                       {"gated-silu", "silu"},
                                                                       {"gated-foo", "relu"}}) {
    json config = members(kT5);
    config["model_type"] = "t5";
    config["feed_forward_proj"] = stated;
    const Workload workload = read(config);
    const auto found = std::find_if(workload.ops.begin(), workload.ops.end(), [](const Op& op) {
      return op.name == "encoder.block.{0-1}.layer.1.DenseReluDense.activation";
    });
    ASSERT_NE(found, workload.ops.end()) << stated;
    EXPECT_EQ(std::get<Elementwise>(found->body).fn, name) << stated;
  }
}

TEST(Switches, OfNorms) {
  expect_switches({{"glm4_moe", kExperts, R"("use_qk_norm": true)", 4 * 2 * 16},
                   {"minimax_m2", kExperts, R"("use_qk_norm": false)", -4 * (64 + 32)},
                   {"minimax_m3", kExperts, R"("use_qk_norm": false)", -4 * 2 * 16},
                   {"opt", kOpt, R"("_remove_final_layer_norm": true)", -2 * 64},
                   {"opt", kOpt, R"("do_layer_norm_before": false)", -2 * 64}});
}

TEST(Switches, OfExperts) {
  expect_switches(
      {{"minimax_m2", kExperts, R"("use_routing_bias": false)", -4 * 6},
       {"minimax_m3", kExperts, R"("use_routing_bias": false)", -4 * 6},
       {"minimax_m3", kExperts, R"("shared_intermediate_size": 20)", 4 * 3 * 64 * 20},
       {"granitemoeshared", kExperts, R"("shared_intermediate_size": 20)", 4 * 3 * 64 * 20},
       {"mimo_v2", kExperts, R"("add_full_attention_sink_bias": true)", 4 * 4},
       // The first three layers are dense.
       {"step3p5", kExperts, R"("share_expert_dim": 20)", 3 * 64 * 20},
       // The first layer is dense; six experts of 24 and a router take the place of 96.
       {"ernie4_5_moe", kExperts, R"("moe_num_shared_experts": 2)", 3 * 3 * 64 * 48},
       {"ernie4_5_moe", kExperts, R"("use_bias": true)", kAttention + kGated / 4 + 100},
       {"ernie4_5_moe", kExperts, R"("moe_layer_end_index": 2)",
        3 * 64 * 96 - 6 * 3 * 64 * 24 - 6 * 64 - 6},
       {"ernie4_5_moe", kExperts, R"("moe_layer_interval": 2)",
        3 * 64 * 96 - 6 * 3 * 64 * 24 - 6 * 64 - 6},
       {"nemotron_h", kNemotronH, R"("n_shared_experts": 2)", 2 * 64 * 40},
       {"nemotron_h", kNemotronH, R"("moe_latent_size": 16)",
        2 * 64 * 16 - 6 * 2 * 24 * (64 - 16)}});
}

}  // namespace
}  // namespace rooftile
