#include "rooftile/readers/hf_config/hf_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rooftile/base/text.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload_text.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLlama8b = R"({"architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "max_position_embeddings": 131072, "vocab_size": 128256, "torch_dtype": "bfloat16"})";
constexpr const char* kGpt2 = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
  "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";
constexpr const char* kBert = R"({"architectures": ["BertForMaskedLM"], "model_type": "bert",
  "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
  "intermediate_size": 3072, "vocab_size": 30522})";
constexpr const char* kMixtral = R"({"architectures": ["MixtralForCausalLM"],
  "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000})";

Workload read_config(std::string_view text, const ReadOptions& options = {}) {
  auto workload = parse_hf_config(text, "config.json", options);
  EXPECT_TRUE(workload) << to_string(workload.error());
  return workload ? *workload : Workload{};
}

ReadOptions with(std::int64_t batch, std::int64_t seq) {
  ReadOptions options;
  options.batch = batch;
  options.seq = seq;
  return options;
}

ReadOptions decoding(std::int64_t batch, std::int64_t past) {
  ReadOptions options;
  options.batch = batch;
  options.past = past;
  options.mode = Mode::decode;
  return options;
}

const Op& find_op(const Workload& workload, std::string_view name) {
  const auto found = std::find_if(workload.ops.begin(), workload.ops.end(),
                                  [&](const Op& op) { return op.name == name; });
  static const Op kMissing;
  EXPECT_NE(found, workload.ops.end()) << "no operation " << name;
  return found == workload.ops.end() ? kMissing : *found;
}

std::string dims(const Workload& workload, std::string_view name) {
  return dims_text(find_op(workload, name).body);
}

std::string message_of(std::string_view text) {
  const auto workload = parse_hf_config(text, "config.json", {});
  return workload ? "it was read" : workload.error().message;
}

// The forward pass of a dense decoder takes 2 flop for each token and weight outside the embedding,
// attention scores aside: Kaplan et al. 2020, table 1. The output layer, tied or not, computes the
// last token of each sequence only.
double gemm_flop(const Workload& workload) {
  double flop = 0.0;
  for (const Op& op : workload.ops) {
    if (const auto* gemm = std::get_if<Gemm>(&op.body)) {
      flop += 2.0 * static_cast<double>(op.count) * static_cast<double>(gemm->batch) *
              static_cast<double>(gemm->m) * static_cast<double>(gemm->n) *
              static_cast<double>(gemm->k);
    }
  }
  return flop;
}

struct FlopCase {
  const char* name;
  const char* config;
  double weights;  // parameters - embeddings
  double output_layer;
};

TEST(HfConfig, ForwardFlopAreTwicePerTokenAndWeight) {
  const FlopCase cases[] = {
      {"Llama-3.1-8B", kLlama8b, 8'030'261'248.0 - 2 * 128256.0 * 4096, 128256.0 * 4096},
      {"GPT-2, positions not counted", kGpt2, 124'439'808.0 - (50257.0 + 1024) * 768,
       50257.0 * 768},
      // Two of eight experts for each token.
      {"Mixtral-8x7B", kMixtral,
       46'702'792'704.0 - 2 * 32000.0 * 4096 - 32.0 * 6 * 3 * 4096 * 14336, 32000.0 * 4096}};
  for (const FlopCase& c : cases) {
    const double expected = 2.0 * 4 * (c.weights * 512 + c.output_layer);
    EXPECT_NEAR(gemm_flop(read_config(c.config, with(4, 512))) / expected, 1.0, 0.01) << c.name;
  }
}

TEST(HfConfig, LlamaLayerHasItsProjections) {
  const Workload workload = read_config(kLlama8b, with(2, 1024));
  EXPECT_EQ(dims(workload, "model.layers.{0-31}.self_attn.q_proj"), "m=2048 n=4096 k=4096");
  EXPECT_EQ(dims(workload, "model.layers.{0-31}.self_attn.k_proj"), "m=2048 n=1024 k=4096");
  EXPECT_EQ(dims(workload, "model.layers.{0-31}.mlp.gate_proj"), "m=2048 n=14336 k=4096");
  EXPECT_EQ(dims(workload, "model.layers.{0-31}.mlp.down_proj"), "m=2048 n=4096 k=14336");
  EXPECT_EQ(dims(workload, "lm_head"), "m=2 n=128256 k=4096");  // the last position of each
  const Op& attention = find_op(workload, "model.layers.{0-31}.self_attn.attention");
  EXPECT_EQ(dims_text(attention.body), "batch=2 heads=32 kv_heads=8 q=1024 d=128 causal=1");
  EXPECT_EQ(attention.count, 32);
  EXPECT_EQ(attention.dtypes, Dtypes(Dtype::bf16));
  EXPECT_EQ(attention.source.file, "config.json");
  EXPECT_EQ(attention.source.module, "model.layers.{0-31}.self_attn.attention");
}

TEST(HfConfig, ProjectionsShareTheirInput) {
  const Workload workload = read_config(kLlama8b);
  const auto inputs = [&](const char* name) { return find_op(workload, name).inputs; };
  const auto normed = ElementsAre("model.layers.{0-31}.input_layernorm");
  EXPECT_THAT(inputs("model.layers.{0-31}.self_attn.q_proj"), normed);
  EXPECT_THAT(inputs("model.layers.{0-31}.self_attn.k_proj"), normed);
  EXPECT_THAT(inputs("model.layers.{0-31}.self_attn.v_proj"), normed);
  const auto fed = ElementsAre("model.layers.{0-31}.post_attention_layernorm");
  EXPECT_THAT(inputs("model.layers.{0-31}.mlp.gate_proj"), fed);
  EXPECT_THAT(inputs("model.layers.{0-31}.mlp.up_proj"), fed);
  EXPECT_THAT(inputs("model.layers.{0-31}.mlp.gate_mul"),
              ElementsAre("model.layers.{0-31}.mlp.activation", "model.layers.{0-31}.mlp.up_proj"));
  EXPECT_THAT(
      inputs("model.layers.{0-31}.mlp_residual"),
      ElementsAre("model.layers.{0-31}.attention_residual", "model.layers.{0-31}.mlp.down_proj"));
}

TEST(HfConfig, Gpt2UsesConv1dAndOneProductForQueriesKeysAndValues) {
  const Workload workload = read_config(kGpt2, with(1, 1024));
  EXPECT_EQ(dims(workload, "transformer.h.{0-11}.attn.c_attn"),
            "m=1024 n=2304 k=768 layout=nn bias=1");
  EXPECT_EQ(dims(workload, "lm_head"), "m=1 n=50257 k=768");
}

TEST(HfConfig, EveryInputIsWrittenBefore) {
  for (const char* config : {kLlama8b, kGpt2, kBert, kMixtral}) {
    std::vector<std::string> written;
    for (const Op& op : read_config(config).ops) {
      for (const std::string& input : op.inputs) EXPECT_THAT(written, testing::Contains(input));
      EXPECT_THAT(written, testing::Not(testing::Contains(op.name)));
      written.push_back(op.name);
    }
  }
}

TEST(HfConfig, ExpertsAreOneBatchedProduct) {
  // 2048 tokens × 2 of 8 experts: 512 tokens each.
  const Workload prefill = read_config(kMixtral, with(1, 2048));
  EXPECT_EQ(dims(prefill, "model.layers.{0-31}.block_sparse_moe.experts.*.w1"),
            "m=512 n=14336 k=4096 batch=8");
  // One token visits two experts.
  const Workload decode = read_config(kMixtral, with(1, 1));
  EXPECT_EQ(dims(decode, "model.layers.{0-31}.block_sparse_moe.experts.*.w1"),
            "m=1 n=14336 k=4096 batch=2");
  EXPECT_EQ(dims(decode, "model.layers.{0-31}.block_sparse_moe.gate"), "m=1 n=8 k=4096");
}

TEST(HfConfig, AlternatingWindowsGiveTwoGroups) {
  const Workload workload = read_config(R"({"architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "intermediate_size": 9216, "vocab_size": 256000, "sliding_window": 1024})",
                                        with(1, 4096));
  EXPECT_EQ(dims(workload, "model.layers.{0,2}.self_attn.attention"),
            "batch=1 heads=8 kv_heads=4 q=4096 d=256 causal=1 window=1024");
  EXPECT_EQ(dims(workload, "model.layers.{1,3}.self_attn.attention"),
            "batch=1 heads=8 kv_heads=4 q=4096 d=256 causal=1");
  EXPECT_EQ(find_op(workload, "model.layers.{1,3}.self_attn.attention").count, 2);
}

TEST(HfConfig, LatentAttentionHasLowRanks) {
  const Workload workload = read_config(R"({"architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 4,
    "num_attention_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280})",
                                        with(1, 1024));
  // DeepSeek-V3 technical report, section 4.2: the latent and the shared rotary key.
  EXPECT_EQ(dims(workload, "model.layers.3.self_attn.kv_a_proj_with_mqa"), "m=1024 n=576 k=7168");
  EXPECT_EQ(dims(workload, "model.layers.3.self_attn.kv_b_proj"), "m=1024 n=32768 k=512");
  EXPECT_EQ(dims(workload, "model.layers.3.self_attn.attention"),
            "batch=1 heads=128 q=1024 d=192 dv=128 causal=1");
  EXPECT_EQ(dims(workload, "model.layers.3.mlp.experts.*.up_proj"), "m=32 n=2048 k=7168 batch=256");
  EXPECT_EQ(dims(workload, "model.layers.{0-2}.mlp.up_proj"), "m=1024 n=18432 k=7168");
}

TEST(HfConfig, NestedTextModelIsRead) {
  const Workload workload = read_config(R"({"architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava", "dtype": "float16", "text_config": {"model_type": "llama",
      "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
      "intermediate_size": 11008, "vocab_size": 32064},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024,
      "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
      "image_size": 336, "patch_size": 14}})");
  // 24·24 patches and the class token.
  EXPECT_EQ(dims(workload, "vision_model.encoder.layers.{0-23}.self_attn.attention"),
            "batch=1 heads=16 q=577 d=64");
  EXPECT_EQ(find_op(workload, "lm_head").dtypes, Dtypes(Dtype::fp16));
  EXPECT_EQ(workload.skipped.at("multimodal projector"), 1);
}

TEST(HfConfig, DefaultLengthIsSaid) {
  EXPECT_THAT(read_config(kLlama8b).notes, testing::Contains(HasSubstr("2048 assumed")));
  EXPECT_EQ(dims(read_config(kBert), "cls.predictions.decoder"), "m=512 n=30522 k=768 bias=1");
}

TEST(HfConfig, SpeechCountsFrames) {
  const char* config = R"({"architectures": ["Wav2Vec2Model"], "model_type": "wav2vec2",
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072})";
  // 10 s of audio give 499 frames: Baevski et al. 2020, one frame each 20 ms.
  EXPECT_EQ(dims(read_config(config), "wav2vec2.encoder.layers.{0-11}.attention.attention"),
            "batch=1 heads=12 q=499 d=64");
  EXPECT_EQ(read_config(config).sequence, 499);
  // 400 samples give the first frame, 320 more each further one.
  const Workload ten = read_config(config, with(1, 10));
  EXPECT_THAT(dims(ten, "wav2vec2.feature_extractor.conv_layers.0.conv"), HasSubstr("in=3280"));
}

TEST(HfConfig, SpeechSaysWhatTheLengthMeans) {
  const char* config = R"({"architectures": ["Wav2Vec2Model"], "model_type": "wav2vec2",
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072})";
  EXPECT_THAT(read_config(config).notes, testing::Contains(HasSubstr("10 s of audio")));
  // 400 samples and 299 times 320.
  EXPECT_THAT(read_config(config, with(1, 300)).notes,
              testing::Contains(HasSubstr("feature frames: 6.00 s of audio at 16 kHz, 96080")));
}

// Rotary positions end nowhere: Transformers' default of a key that the config leaves out is no
// limit of the model.
TEST(HfConfig, AConfigWithoutALongestInputHasNone) {
  std::string config = kLlama8b;
  const std::string key = R"("max_position_embeddings": 131072, )";
  EXPECT_THAT(read_config(config, with(1, 200000)).notes,
              testing::Contains("sequence length 200000 is longer than the model's 131072"));
  config.erase(config.find(key), key.size());
  EXPECT_THAT(read_config(config, with(1, 200000)).notes,
              testing::Not(testing::Contains(HasSubstr("longer than"))));
  EXPECT_THAT(read_config(config).notes,
              testing::Contains("sequence length 2048 assumed; set it with --seq"));
}

// A state of fixed size reads any length; beside attention the config's limit stays.
TEST(HfConfig, StateSpaceModelsHaveNoLongestInput) {
  const std::string mamba = R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba",
    "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "vocab_size": 50280})";
  EXPECT_THAT(read_config(mamba, with(1, 8192)).notes,
              testing::Not(testing::Contains(HasSubstr("longer than"))));
  EXPECT_THAT(read_config(mamba).notes,
              testing::Contains("sequence length 2048 assumed; set it with --seq"));
  EXPECT_THAT(read_config(mamba, decoding(1, 100000)).notes,
              testing::Not(testing::Contains(HasSubstr("more than the"))));
  EXPECT_THAT(read_config(kGpt2, with(1, 8192)).notes,
              testing::Contains("sequence length 8192 is longer than the model's 1024"));
}

TEST(HfConfig, WithoutAnArchitectureTheOutputLayerIsAssumed) {
  const std::string sizes = R"("model_type": "bart", "d_model": 1024, "encoder_layers": 12,
    "decoder_layers": 12, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "vocab_size": 50265})";
  const Workload unnamed = read_config("{" + sizes);
  EXPECT_THAT(dims(unnamed, "lm_head"), HasSubstr("n=50265 k=1024"));
  EXPECT_THAT(unnamed.notes, testing::Contains(HasSubstr("names no architecture")));
  const Workload bare = read_config(R"({"architectures": ["BartModel"], )" + sizes);
  EXPECT_EQ(bare.parameters, unnamed.parameters);
  EXPECT_EQ(bare.ops.size() + 1, unnamed.ops.size());
  EXPECT_THAT(bare.notes, testing::Not(testing::Contains(HasSubstr("names no architecture"))));
}

// The paper gives 136 GFLOP for RT-DETR-R50 at 640x640, with re-parameterised blocks, whose 1x1
// convolutions are beside the 3x3 ones here.
TEST(HfConfig, RtDetrHasAboutThePublishedWork) {
  const Workload workload = read_config(R"({"architectures": ["RTDetrForObjectDetection"],
    "model_type": "rt_detr", "backbone_config": {"model_type": "rt_detr_resnet"},
    "num_labels": 80})");
  // 8400 positions of strides 8, 16 and 32; 300 queries.
  EXPECT_EQ(dims(workload, "model.enc_output.0"), "m=8400 n=256 k=256 bias=1");
  EXPECT_EQ(dims(workload, "model.decoder.layers.{0-5}.self_attn.attention"),
            "batch=1 heads=8 q=300 d=32");
  EXPECT_EQ(dims(workload, "model.encoder.encoder.0.layers.0.self_attn.attention"),
            "batch=1 heads=8 q=400 d=32");
  EXPECT_THAT(workload.notes, testing::Contains(HasSubstr("640x640 assumed")));
}

// Forward flop that papers give for 224x224 images, twice their multiply-accumulates:
// ResNet-50 4.09 G, ConvNeXt-T 4.46 G (4.5 in the paper), Swin-T 4.5 G with its attention.
TEST(HfConfig, NetworksOnMapsHaveThePublishedWork) {
  const auto matrix_flop = [](std::string_view config) {
    double flop = 0.0;
    for (const Op& op : read_config(config).ops) {
      const auto* conv = std::get_if<Convolution>(&op.body);
      if (conv == nullptr) continue;
      double outputs = static_cast<double>(conv->n * conv->k * op.count);
      for (const std::int64_t extent : output_extents(*conv)) {
        outputs *= static_cast<double>(extent);
      }
      flop += 2.0 * outputs * static_cast<double>(conv->c / conv->groups) *
              static_cast<double>(conv->kernel[0] * conv->kernel[1]);
    }
    return flop + gemm_flop(read_config(config));
  };
  EXPECT_NEAR(matrix_flop(R"({"architectures": ["ResNetForImageClassification"],
    "model_type": "resnet", "num_labels": 1000})") /
                  2e9,
              4.09, 0.005);
  EXPECT_NEAR(matrix_flop(R"({"architectures": ["ConvNextForImageClassification"],
    "model_type": "convnext", "num_labels": 1000})") /
                  2e9,
              4.46, 0.01);
}

TEST(HfConfig, WindowsOfSwinAttendApart) {
  const Workload workload = read_config(R"({"architectures": ["SwinForImageClassification"],
    "model_type": "swin", "image_size": 224, "num_labels": 1000})",
                                        [] {
                                          ReadOptions options;
                                          options.batch = 4;
                                          return options;
                                        }());
  // 56 x 56 patches are 64 windows of 7 x 7 in each image; Liu et al. 2021, section 3.2.
  EXPECT_EQ(dims(workload, "swin.encoder.layers.0.blocks.{0-1}.attention.attention"),
            "batch=256 heads=3 q=49 d=32");
  EXPECT_EQ(find_op(workload, "swin.encoder.layers.2.blocks.{0-5}.mlp.fc1").count, 6);
}

constexpr const char* kUNet = R"({"_class_name": "UNet2DConditionModel",
    "attention_head_dim": 8, "cross_attention_dim": 768, "sample_size": 64,
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D",
                         "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D",
                       "CrossAttnUpBlock2D"]})";

TEST(HfConfig, UNetAttendsToThePrompt) {
  const Workload workload = read_config(kUNet);
  const std::string block = "down_blocks.0.attentions.0.transformer_blocks.0.";
  EXPECT_EQ(dims(workload, block + "attn1.attention"), "batch=1 heads=8 q=4096 d=40");
  EXPECT_EQ(dims(workload, block + "attn2.attention"), "batch=1 heads=8 q=4096 kv=77 d=40");
  EXPECT_EQ(dims(workload, block + "attn2.to_k"), "m=77 n=320 k=768");
  // The skip of the first level meets the enlarged map of the second.
  EXPECT_THAT(dims(workload, "up_blocks.3.resnets.0.conv1"), HasSubstr("c=960 k=320 in=64x64"));
}

// Classifier-free guidance runs a second pass without the prompt, in sampling only.
TEST(HfConfig, OnlySamplingIsGuided) {
  for (const char* config :
       {kUNet, R"({"_class_name": "DiTTransformer2DModel", "num_layers": 2, "sample_size": 32})"}) {
    for (const Mode mode : {Mode::inference, Mode::training}) {
      ReadOptions options;
      options.mode = mode;
      const auto workload = parse_hf_config(config, "config.json", options);
      ASSERT_TRUE(workload) << to_string(workload.error());
      const std::string notes = join(workload->notes, "; ");
      EXPECT_THAT(notes, HasSubstr("one denoising step"));
      EXPECT_EQ(notes.find("guidance") != std::string::npos, mode == Mode::inference) << config;
    }
  }
}

std::string llama_with(const std::string& members) {
  return R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
      "vocab_size": 100)" +
         (members.empty() ? "" : ", " + members) + "}";
}

TEST(HfConfig, DtypesAreNamedAsInPyTorch) {
  const std::pair<const char*, Dtype> cases[] = {
      {R"("torch_dtype": "bfloat16")", Dtype::bf16},
      {R"("dtype": "torch.bfloat16")", Dtype::bf16},
      {R"("torch_dtype": "float16")", Dtype::fp16},
      {R"("torch_dtype": "torch.half")", Dtype::fp16},
      {R"("torch_dtype": "float32")", Dtype::fp32},
      {R"("torch_dtype": "float")", Dtype::fp32},
      {R"("torch_dtype": "float32", "dtype": "float16")", Dtype::fp16},
      {R"("torch_dtype": "float16", "dtype": "")", Dtype::fp16}};
  for (const auto& [stated, dtype] : cases) {
    const Workload workload = read_config(llama_with(stated));
    EXPECT_EQ(find_op(workload, "lm_head").dtypes, Dtypes(dtype)) << stated;
    EXPECT_THAT(workload.notes, testing::Not(testing::Contains(HasSubstr("assumed; set it with "
                                                                         "--dtype"))))
        << stated;
  }
}

// Quantized models run their other layers in 16 bits.
TEST(HfConfig, DtypesThatAreNotStatedAreAssumed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the config states no dtype: fp32 assumed; set it with --dtype"},
      {R"("torch_dtype": "int8")", "dtype 'int8' is not known: fp32 assumed; set it with --dtype"},
      {R"("torch_dtype": "auto", "quantization_config": {"quant_method": "fp8"})",
       "dtype 'auto' is not known: bf16 assumed; set it with --dtype"},
      {R"("quantization_config": {"quant_method": "fp8"})",
       "the config states no dtype: bf16 assumed; set it with --dtype"}};
  for (const auto& [stated, note] : cases) {
    EXPECT_THAT(read_config(llama_with(stated)).notes, testing::Contains(note)) << stated;
  }
}

// What only the whole states is that of its text model; what both state is the text model's.
TEST(HfConfig, TheTextModelTakesWhatTheWholeStates) {
  const auto nested = [](const std::string& whole, const std::string& text) {
    return read_config(R"({"model_type": "foo", "architectures": ["FooForCausalLM"])" + whole +
                       R"(, "text_config": )" + llama_with(text) + "}");
  };
  const auto dtypes = [](const Workload& workload) { return find_op(workload, "lm_head").dtypes; };
  EXPECT_EQ(dtypes(nested(R"(, "torch_dtype": "float16")", "")), Dtypes(Dtype::fp16));
  EXPECT_EQ(dtypes(nested(R"(, "dtype": "float16")", R"("dtype": null)")), Dtypes(Dtype::fp16));
  EXPECT_EQ(dtypes(nested(R"(, "dtype": "float16")", R"("dtype": "bfloat16")")),
            Dtypes(Dtype::bf16));
  const std::int64_t head = 100 * 64;
  EXPECT_EQ(*nested("", "").parameters - *nested(R"(, "tie_word_embeddings": true)", "").parameters,
            head);
  EXPECT_EQ(
      nested(R"(, "tie_word_embeddings": true)", R"("tie_word_embeddings": false)").parameters,
      nested("", "").parameters);
}

TEST(HfConfig, TowersBesideTheTextModelAreNamed) {
  const auto whole = [](const std::string& members, const ReadOptions& options = {}) {
    return read_config(R"({"model_type": "foo", "architectures": ["FooForCausalLM"], )" + members +
                           R"(, "text_config": )" + llama_with("") + "}",
                       options);
  };
  const std::string vision = R"("vision_config": {"model_type": "siglip_vision_model",
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
      "image_size": 32, "patch_size": 8})";
  EXPECT_EQ(whole(R"("audio_config": {})").skipped.at("audio tower"), 1);
  EXPECT_EQ(whole(R"("vision_config": {})").skipped.at("vision tower"), 1);
  EXPECT_EQ(whole(vision).skipped.at("multimodal projector"), 1);
  EXPECT_EQ(whole(vision).skipped.count("vision tower"), 0U);
  EXPECT_EQ(dims(whole(vision), "vision_model.encoder.layers.{0-1}.self_attn.attention"),
            "batch=1 heads=4 q=16 d=16");
  // A step of decoding has the weights of the towers, and does not run them.
  const std::string left_out = "a decode step does not run the towers for images and sound";
  const Workload step = whole(vision, decoding(1, 8));
  EXPECT_EQ(step.parameters, whole(vision).parameters);
  EXPECT_THAT(step.notes, testing::Contains(left_out));
  EXPECT_TRUE(step.skipped.empty());
  const auto without = testing::Contains(left_out + ", which are not among the parameters either");
  EXPECT_THAT(whole(R"("audio_config": {})", decoding(1, 8)).notes, without);
  EXPECT_THAT(whole(R"("vision_config": {})", decoding(1, 8)).notes, without);
  EXPECT_THAT(whole(R"("other": {})", decoding(1, 8)).notes,
              testing::Not(testing::Contains(HasSubstr("towers for images"))));
}

TEST(HfConfig, ALengthWithoutEffectIsSaid) {
  const char* vit = R"({"model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
      "patch_size": 8})";
  for (const std::int64_t length : {1, 2, 64}) {
    const Workload workload = read_config(vit, with(1, length));
    EXPECT_THAT(workload.unused_options, ElementsAre("--seq"));
    EXPECT_THAT(workload.notes,
                testing::Contains(fmt::format(
                    "the model has no sequence length to set, --seq {} has no effect", length)));
    EXPECT_THAT(read_config(kGpt2, with(1, length)).unused_options, testing::IsEmpty());
  }
}

// What is nested too deeply is refused at its beginning.
TEST(HfConfig, FilesOf16MiBAreReadAtMost) {
  const TemporaryFolder folder;
  const auto read = [&](std::size_t bytes) {
    std::string text(100, '[');
    text.resize(bytes, ' ');
    const auto workload = hf_config_reader.read(folder.write("config.json", text), {});
    return workload ? std::string("read") : workload.error().message;
  };
  EXPECT_EQ(read(std::size_t{16} << 20), "JSON nested deeper than 64 levels");
  EXPECT_EQ(read((std::size_t{16} << 20) + 1), "larger than 16 MiB, too large for a model config");
}

TEST(HfConfig, LabelsAreCountedOrStated) {
  const auto labels = [](const std::string& members) {
    const Workload workload = read_config(
        R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96)" +
        members + "}");
    return std::get<Gemm>(find_op(workload, "classifier").body).n;
  };
  EXPECT_EQ(labels(""), 2);
  EXPECT_EQ(labels(R"(, "num_labels": 7)"), 7);
  EXPECT_EQ(labels(R"(, "_num_labels": 7)"), 7);
  EXPECT_EQ(labels(R"(, "id2label": {"0": "a"}, "num_labels": 7)"), 1);
  EXPECT_EQ(labels(R"(, "id2label": {}, "num_labels": 7)"), 7);
}

TEST(HfConfig, ActivationsHaveOneName) {
  const auto activation = [](const std::string& name) {
    const Workload workload = read_config(llama_with(R"("hidden_act": ")" + name + "\""));
    return std::get<Elementwise>(find_op(workload, "model.layers.{0-1}.mlp.activation").body).fn;
  };
  EXPECT_EQ(activation("silu"), "silu");
  EXPECT_EQ(activation("swish"), "silu");
  EXPECT_EQ(activation("gelu_pytorch_tanh"), "gelu");
  EXPECT_EQ(activation("relu2"), "relu2");
  EXPECT_EQ(activation("a_z09"), "a_z09");
  EXPECT_EQ(activation(std::string(32, 'a')), std::string(32, 'a'));
  for (const std::string& name :
       {std::string(33, 'a'), std::string(), std::string("ReLU"), std::string("a b"),
        std::string("a/b"), std::string("a:b"), std::string("a`"), std::string("a{")}) {
    EXPECT_EQ(activation(name), "activation") << name;
  }
}

TEST(HfConfig, ModulesForSeveralTokensAreLeftOut) {
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"}) {
    const Workload workload = read_config(llama_with(fmt::format("\"{}\": 2", key)));
    EXPECT_EQ(workload.skipped.at("multi-token prediction module"), 2) << key;
  }
  EXPECT_TRUE(read_config(llama_with("")).skipped.empty());
}

// Training takes the logits of every position.
TEST(HfConfig, TrainingComputesAllLogits) {
  ReadOptions options = with(2, 16);
  EXPECT_EQ(dims(read_config(llama_with(""), options), "lm_head"), "m=2 n=100 k=64");
  options.mode = Mode::training;
  EXPECT_EQ(dims(read_config(llama_with(""), options), "lm_head"), "m=32 n=100 k=64");
}

// Two layers of 4·64² + 3·64·96 weights that are quantized; 100·64 each of the embedding and of the
// output layer, and 5·64 of norms that are not. NVFP4 has a scale of a byte for 16 weights.
TEST(HfConfig, WeightsTakeTheBytesOfTheirPrecision) {
  const auto bytes = [](const std::string& algorithm) {
    return read_config(
               llama_with(R"("dtype": "bfloat16", "quantization_config": {"quant_algo": ")" +
                          algorithm + "\"}"))
        .weight_bytes;
  };
  const double quantized = 2 * (4 * 64 * 64 + 3 * 64 * 96), others = 2 * 100 * 64 + 5 * 64;
  EXPECT_EQ(bytes("FP8"), quantized + 2 * others);
  EXPECT_EQ(bytes("W4A16"), quantized / 2 + 2 * others);
  EXPECT_EQ(bytes("NVFP4"), quantized * (0.5 + 1.0 / 16) + 2 * others);
  EXPECT_EQ(read_config(llama_with("")).weight_bytes, std::nullopt);
}

// What --dtype says needs no assumption.
TEST(HfConfig, AGivenDtypeIsNotAssumed) {
  const char* config =
      R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768,
    "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";
  ReadOptions options;
  const auto assumed = parse_hf_config(config, "config.json", options);
  ASSERT_TRUE(assumed);
  EXPECT_THAT(join(assumed->notes, "; "), HasSubstr("states no dtype"));
  options.dtype = Dtype::bf16;
  const auto given = parse_hf_config(config, "config.json", options);
  ASSERT_TRUE(given);
  EXPECT_THAT(join(given->notes, "; "), testing::Not(HasSubstr("states no dtype")));
}

TEST(HfConfig, ImagesHaveNoSequence) {
  const auto workload = parse_hf_config(R"({"model_type": "resnet"})", "config.json", with(1, 128));
  ASSERT_FALSE(workload);
  EXPECT_THAT(workload.error().message, HasSubstr("--seq"));
}

TEST(HfConfig, QuantizedWeightsKeepTheirDtype) {
  const Workload workload = read_config(R"({"architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 4,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "vocab_size": 151936, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "modules_to_not_convert":
      ["lm_head", "model.layers.3.self_attn"]}})");
  const Dtypes fp8(Dtype::fp8, Dtype::fp8, Dtype::bf16), bf16(Dtype::bf16);
  EXPECT_EQ(find_op(workload, "model.layers.{0-2}.self_attn.q_proj").dtypes, fp8);
  EXPECT_EQ(find_op(workload, "model.layers.3.self_attn.q_proj").dtypes, bf16);
  EXPECT_EQ(find_op(workload, "model.layers.3.mlp.experts.*.up_proj").dtypes, fp8);
  EXPECT_EQ(find_op(workload, "model.layers.3.mlp.gate").dtypes, bf16);
  EXPECT_EQ(find_op(workload, "lm_head").dtypes, bf16);
}

// ModelOpt's file next to the config is read, unless the config has a quantization itself.
TEST(HfConfig, QuantizationIsReadFromTheFileNextToTheConfig) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "rooftile_quantized_config";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << kLlama8b;
  const std::string path = (folder / "config.json").string();
  const auto dtypes = [&] {
    const auto workload = hf_config_reader.read(path, {});
    EXPECT_TRUE(workload) << to_string(workload.error());
    return find_op(*workload, "model.layers.{0-31}.mlp.up_proj").dtypes;
  };
  EXPECT_EQ(dtypes(), Dtypes(Dtype::bf16));
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}})";
  EXPECT_EQ(dtypes(), Dtypes(Dtype::fp4, Dtype::fp4, Dtype::bf16));
  std::filesystem::remove_all(folder);
}

// The file next to what is no model changes nothing.
TEST(HfConfig, QuantizationNextToAListIsNotRead) {
  const TemporaryFolder folder;
  folder.write("hf_quant_config.json", R"({"quantization": {"quant_algo": "FP8"}})");
  for (const char* text : {"[1]", "1", "\"x\"", "null"}) {
    const auto refused = hf_config_reader.read(folder.write("config.json", text), {});
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("not a model config (an object)")) << text;
  }
}

// What the config itself says of its weights wins; what is no description is none.
TEST(HfConfig, QuantizationOfTheConfigWinsOverTheFileNextToIt) {
  const TemporaryFolder folder;
  std::string config = kLlama8b;
  const auto dtypes = [&] {
    const auto workload = hf_config_reader.read(folder.write("config.json", config), {});
    EXPECT_TRUE(workload) << to_string(workload.error());
    return workload ? find_op(*workload, "model.layers.{0-31}.mlp.up_proj").dtypes : Dtypes();
  };
  for (const char* other : {"[]", "{", "{}", R"({"quantization": 1})"}) {
    folder.write("hf_quant_config.json", other);
    EXPECT_EQ(dtypes(), Dtypes(Dtype::bf16)) << other;
  }
  folder.write("hf_quant_config.json", R"({"quantization": {"quant_algo": "NVFP4"}})");
  config.insert(1, R"("quantization_config": {"quant_method": "fp8"}, )");
  EXPECT_EQ(dtypes(), Dtypes(Dtype::fp8, Dtype::fp8, Dtype::bf16));
}

TEST(HfConfig, ANameOfANarrowFormatWithoutQuantizationIsSaid) {
  const auto notes = [](const char* source) {
    return parse_hf_config(kLlama8b, source, {})->notes;
  };
  const auto said = testing::Contains(HasSubstr("the name says NVFP4"));
  EXPECT_THAT(notes("Llama-3.1-8B-NVFP4.json"), said);
  EXPECT_THAT(notes("/models/Llama-3.1-8B-NVFP4/config.json"), said);
  EXPECT_THAT(notes("/models/nvfp4x/config.json"), testing::Not(said));
}

struct Refusal {
  const char* text;
  const char* reason;
};

TEST(HfConfig, RefusesWithTheReason) {
  const Refusal cases[] = {
      {R"({"model_type": "foo", "architectures": ["FooForCausalLM"]})",
       "architecture 'foo' ('FooForCausalLM') is not read from its config"},
      {R"({"architectures": ["FooForCausalLM"]})",
       "architecture 'FooForCausalLM' is not read from its config"},
      {R"({"model_type": "llava", "text_config": {"model_type": "foo"}})", "'foo'"},
      {R"({"model_type": "llama"})", "\"hidden_size\" is missing"},
      {R"({"model_type": "marian", "architectures": ["MarianForCausalLM"]})",
       "'MarianForCausalLM', a decoder alone"},
      {R"({"_class_name": "UNet2DConditionModel", "down_block_types": ["AttnDownBlock2D"]})",
       "down_block_types: found 'AttnDownBlock2D', a block that is not modelled"},
      {R"({"model_type": "vit", "hidden_size": 768, "num_attention_heads": 7})",
       "hidden_size: found 768, expected a multiple of num_attention_heads 7"},
      {R"({"model_type": "vit", "hidden_size": -768})",
       "hidden_size: found -768, expected an integer from 1"},
      {R"({"model_type": "vit", "hidden_size": 1.5})", "hidden_size: found 1.5"},
      {R"({"model_type": "vit", "hidden_size": 99999999999999999999})", "hidden_size: found"},
      {R"({"model_type": "vit", "num_hidden_layers": 100000})", "expected at most 1024 layers"},
      {R"({"model_type": "vit", "patch_size": 448})", "patch_size: found 448"},
      {R"({"_class_name": "SD3Transformer2DModel", "patch_size": 1})",
       "patch_size: expected from 2 to sample_size"},
      {R"({"_class_name": "SD3Transformer2DModel", "patch_size": 256, "sample_size": 128})",
       "patch_size: expected from 2 to sample_size"},
      {R"({"model_type": "nemotron-nas", "hidden_size": 1024, "num_hidden_layers": 1,
           "num_attention_heads": 8, "vocab_size": 9, "block_configs": [
           {"attention": {"no_op": true}, "ffn": {"ffn_mult": 0}}]})",
       "block_configs: a feed-forward block has no usable ffn_mult"},
      {R"({"model_type": "nemotron-nas", "hidden_size": 1024, "num_hidden_layers": 1,
           "num_attention_heads": 8, "vocab_size": 9, "block_configs": [
           {"attention": {"no_op": true}, "ffn": {"ffn_mult": 1024}}]})",
       "block_configs: a feed-forward block has no usable ffn_mult"},
      {R"({"model_type": "nemotron-nas", "hidden_size": 1024, "num_hidden_layers": 1,
           "num_attention_heads": 8, "vocab_size": 9, "block_configs": []})",
       "block_configs: found 0 blocks, expected one for each of 1 layers"},
      {R"({"_class_name": "StableDiffusionPipeline"})", "a diffusers pipeline"},
      {R"({"_class_name": "PNDMScheduler"})", "a diffusers config of 'PNDMScheduler'"},
      {R"({"_class_name": "FooTransformer"})", "diffusers.FooTransformer.from_pretrained("},
      {R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}})",
       "a quantization description (hf_quant_config.json), not a model config"},
      {R"({"num_nodes": 1, "nodes": []})", "a serving cluster description"},
      {R"({"peft_type": "LORA"})", "an adapter description"},
      {R"({"a": 1})", "neither \"model_type\" nor \"architectures\""},
      {R"([1, 2])", "a JSON list"},
      {R"("x")", "a JSON value"},
      {"", "not valid JSON"},
      {R"({"model_type": "llama")", "not valid JSON"},
      {"<html>", "not valid JSON"}};
  for (const Refusal& c : cases) EXPECT_THAT(message_of(c.text), HasSubstr(c.reason)) << c.text;
}

TEST(HfConfig, UnknownFamiliesAreBuiltWhereThereIsALibrary) {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", R"({"model_type": "foo", "vocab_size": 9})");
  ReadOptions options;
  options.batch = 4;
  options.build = [&](const std::string& target, const ReadOptions& given) -> Result<Workload> {
    EXPECT_EQ(target, path);
    EXPECT_EQ(given.batch, 4);
    return parse_workload("gemm a bf16 m=4 n=9 k=8", "built");
  };
  const auto input = read_input(path, options);
  ASSERT_TRUE(input) << to_string(input.error());
  EXPECT_EQ(input->workload.ops.size(), 1U);

  options.build = [](const std::string&, const ReadOptions&) -> Result<Workload> {
    return fail("no library");
  };
  const auto refused = read_input(path, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("architecture 'foo' is not read from its config; no library. Export"));
}

TEST(HfConfig, FamiliesThatAreReadAreNotBuilt) {
  const TemporaryFolder folder;
  ReadOptions options;
  options.build = [](const std::string&, const ReadOptions&) -> Result<Workload> {
    ADD_FAILURE();
    return fail("");
  };
  EXPECT_TRUE(read_input(folder.write("config.json", kGpt2), options));
  EXPECT_FALSE(read_input(folder.write("config.json", R"({"model_type": "llama"})"), options));
}

TEST(HfConfig, RefusalsSayHowToExport) {
  const std::string decoder =
      message_of(R"({"model_type": "foo", "architectures": ["FooForCausalLM"], "vocab_size": 9})");
  // torch.onnx.export of transformers 5.23 decoders fails with a cache among the outputs.
  EXPECT_THAT(decoder, HasSubstr("\n  model = transformers.AutoModelForCausalLM.from_pretrained("));
  EXPECT_THAT(decoder, HasSubstr("\"input_ids\": torch.ones(1, 128, dtype=torch.long), "
                                 "\"use_cache\": False}, dynamo=True)"));
  EXPECT_THAT(decoder, HasSubstr("rooftile check model.onnx"));
  const std::string detector = message_of(
      R"({"model_type": "foo", "architectures": ["FooForObjectDetection"], "image_size": 800})");
  EXPECT_THAT(detector, HasSubstr("AutoModelForObjectDetection"));
  EXPECT_THAT(detector, HasSubstr("{\"pixel_values\": torch.zeros(1, 3, 800, 800)}"));
}

TEST(HfConfig, RefusalsNameTheFolderToLoadFrom) {
  const auto loads = [](const char* source) {
    const auto refused = parse_hf_config(R"({"model_type": "foo"})", source, {});
    EXPECT_FALSE(refused);
    const std::string message = refused ? "" : to_string(refused.error());
    const std::string begin = ".from_pretrained(\"";
    const std::size_t at = message.find(begin);
    if (at == std::string::npos) return message;
    const std::size_t from = at + begin.size();
    return message.substr(from, message.find('"', from) - from);
  };
  EXPECT_EQ(loads("models/foo/config.json"), "models/foo");
  EXPECT_EQ(loads("config.json"), ".");
  EXPECT_EQ(loads("foo.json"), "FOLDER");
  EXPECT_EQ(loads("a\"b/config.json"), "FOLDER");
}

TEST(HfConfig, RefusalsNameOtherVersionsOnly) {
  EXPECT_THAT(message_of(R"({"model_type": "olmo9"})"), HasSubstr("olmo, olmo2, olmo3"));
  // Near in spelling only: glm, vit, t5.
  for (const char* config :
       {R"({"model_type": "sax"})", R"({"model_type": "git"})", R"({"model_type": "Q5"})"}) {
    EXPECT_THAT(message_of(config), testing::Not(HasSubstr("are known"))) << config;
  }
}

TEST(HfConfig, RefusesDetectorsWithATextEncoder) {
  const char* config = R"({"model_type": "grounding-dino",
    "architectures": ["GroundingDinoForObjectDetection"], "text_config": {"model_type": "bert",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "vocab_size": 30522}})";
  EXPECT_THAT(message_of(config), HasSubstr("is more than its text model 'bert'"));
}

TEST(HfConfig, RefusesDeepNestingAndHugeSizes) {
  EXPECT_THAT(message_of(std::string(100000, '[')), HasSubstr("nested deeper"));
  const std::string huge = R"({"model_type": "vit", "hidden_size": 33554432,
    "num_attention_heads": 1, "intermediate_size": 33554432, "image_size": 4096,
    "patch_size": 1})";
  EXPECT_THAT(message_of(huge), HasSubstr("out of range"));
}

// 1e10 positions are the most, 1e16 elements of a tensor: 1e10 tokens of 2^19 elements are fewer,
// in four streams more.
TEST(HfConfig, RefusesMoreTokensThanAnyMachineHolds) {
  EXPECT_TRUE(parse_hf_config(kLlama8b, "config.json", decoding(100'000, 99'999)));
  const auto longer = parse_hf_config(kLlama8b, "config.json", decoding(100'000, 100'000));
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("batch times sequence length are out of range"));
  const auto streams = parse_hf_config(R"({"model_type": "gemma3n_text", "vocab_size": 262400,
    "hidden_size": 524288, "intermediate_size": 16384, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512,
    "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256,
    "altup_num_inputs": 4, "num_kv_shared_layers": 0, "laurel_rank": 64})",
                                       "config.json", with(100'000, 100'000));
  ASSERT_FALSE(streams);
  EXPECT_THAT(streams.error().message, HasSubstr("the sizes of model.layers are out of range"));
}

TEST(HfConfig, ReadsInfinityAsPythonWritesIt) {
  EXPECT_EQ(message_of(R"({"model_type": "vit", "time_step_limit": [0.0, Infinity, -Infinity, NaN],
                           "note": "Infinity"})"),
            "it was read");
}

TEST(HfConfig, RefusesImpossibleOptions) {
  const auto workload = parse_hf_config(kLlama8b, "config.json", with(0, 128));
  ASSERT_FALSE(workload);
  EXPECT_THAT(workload.error().message, HasSubstr("found 0"));
  EXPECT_EQ(workload.error().where, "config.json");
}

TEST(HfConfig, RecognisesConfigsByTheirKeys) {
  for (const std::string key :
       {"model_type", "architectures", "_class_name", "quant_algo", "exclude_modules",
        "num_hidden_layers", "transformers_version", "id2label", "text_config", "vision_config"}) {
    EXPECT_TRUE(hf_config_reader.recognises("a.json", "{\"" + key + "\": 1}")) << key;
    EXPECT_FALSE(hf_config_reader.recognises("a.json", "{\"a_" + key + "\": 1}")) << key;
  }
}

// A mark of the byte order in front is none of the text.
TEST(HfConfig, ReadsTextWithAByteOrderMark) {
  EXPECT_EQ(message_of("\xEF\xBB\xBF{\"model_type\": \"vit\"}"), "it was read");
  EXPECT_THAT(message_of("\xEF\xBB{\"model_type\": \"vit\"}"), HasSubstr("not valid JSON"));
}

struct Recognition {
  const char* path;
  const char* head;
  bool expected;
};

TEST(HfConfig, RecognisesConfigsOnly) {
  const Recognition cases[] = {
      {"config.json", "{\"hidden_size\": 1}", true},
      {"/models/a/my-config.json", "  {", true},
      {"model.json", "{\"architectures\": [\"X\"]", true},
      {"vae.json", "{\"_class_name\": \"AutoencoderKL\"", true},
      {"hf_quant_config.json", "{\"quantization\": {}", true},
      {"config.json", "[]", true},
      {"trace.json", "{\"schemaVersion\": 1, \"model_type\": 1, \"traceEvents\": [", false},
      {"config.json", "{\"traceEvents\": []}", false},
      {"report.json", "{\"$schema\": \"sarif\"}", false},
      {"data.json", "{\"a\": 1}", false},
      {"config.json", "gemm a m=1 n=1 k=1", false},
      {"my_CONFIG.JSON", "{", true},
      {"config.txt", "{", false},
      {"configs/a.json", "{", false},
      {"a.json", "\xEF\xBB\xBF {\"model_type\": 1", true},
      {"a.json", "[{\"model_type\": 1", false},
      {"config.json", "{\"ph\": 1", false},
      {"config.json", "{\"schemaVersion\": 1", false},
      {"config.json", "", false},
      {"-", "{\"model_type\": \"llama\"}", true}};
  for (const Recognition& c : cases) {
    EXPECT_EQ(hf_config_reader.recognises(c.path, c.head), c.expected) << c.path << " " << c.head;
  }
}

// ---- Decode steps -------------------------------------------------------------------------------

constexpr const char* kDeepSeekV3 = R"({"architectures": ["DeepseekV3ForCausalLM"],
  "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
  "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
  "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
  "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3,
  "vocab_size": 129280, "max_position_embeddings": 163840, "torch_dtype": "bfloat16"})";
constexpr const char* kGemma3 = R"({"architectures": ["Gemma3ForCausalLM"],
  "model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 12,
  "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
  "intermediate_size": 6912, "vocab_size": 262144, "sliding_window": 512,
  "sliding_window_pattern": 6, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"})";
constexpr const char* kWhisper = R"({"architectures": ["WhisperForConditionalGeneration"],
  "model_type": "whisper", "d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6,
  "decoder_layers": 4, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
  "decoder_ffn_dim": 1536, "vocab_size": 51865, "max_source_positions": 1500,
  "max_target_positions": 448, "torch_dtype": "float16"})";
constexpr const char* kQwen3Next = R"({"architectures": ["Qwen3NextForCausalLM"],
  "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
  "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
  "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "intermediate_size": 5120,
  "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
  "num_experts_per_tok": 10, "vocab_size": 151936, "torch_dtype": "bfloat16"})";

// The first operation of a layer of that name, whichever layers are in its group.
const Op& op_ending(const Workload& workload, std::string_view suffix) {
  for (const Op& op : workload.ops) {
    if (op.name.ends_with(suffix)) return op;
  }
  return find_op(workload, suffix);
}

std::string dims_of(const Workload& workload, std::string_view suffix) {
  return dims_text(op_ending(workload, suffix).body);
}

TEST(HfDecode, OneRowForEachSequenceAndTheCacheForAttention) {
  const Workload workload = read_config(kLlama8b, decoding(16, 4096));
  EXPECT_EQ(workload.mode, Mode::decode);
  EXPECT_EQ(workload.batch, 16);
  EXPECT_EQ(workload.sequence, 4096);
  EXPECT_EQ(dims(workload, "model.embed_tokens"), "vocab=128256 width=4096 lookups=16");
  // Engines join layers of one input.
  EXPECT_EQ(dims_of(workload, "self_attn.q_proj+k_proj+v_proj"), "m=16 n=6144 k=4096");
  EXPECT_EQ(dims_of(workload, "mlp.gate_proj+up_proj"), "m=16 n=28672 k=4096");
  EXPECT_EQ(dims_of(workload, "self_attn.attention"),
            "batch=16 heads=32 kv_heads=8 q=1 kv=4097 d=128");
  EXPECT_EQ(op_ending(workload, "self_attn.attention").count, 32);
  EXPECT_EQ(dims(workload, "lm_head"), "m=16 n=128256 k=4096");
  // Keys and values of 8 heads of 128 in 32 layers, 2 bytes each.
  EXPECT_EQ(workload.kv_cache_bytes, 16.0 * 4097 * 2 * 8 * 128 * 32 * 2);
  EXPECT_EQ(workload.parameters, read_config(kLlama8b).parameters);
}

// DeepSeek-V3.2: each layer scores all keys in 64 narrow heads and attends to 2048 of them.
TEST(HfDecode, AnIndexerScoresAllKeysAndAttentionReadsTheChosenOnes) {
  std::string text = kDeepSeekV3;
  text.insert(1, R"("index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, )");
  const Workload workload = read_config(text, decoding(4, 8191));
  EXPECT_EQ(dims_of(workload, "indexer.wq_b"), "m=4 n=8192 k=1536");
  EXPECT_EQ(dims_of(workload, "indexer.wk+weights_proj"), "m=4 n=192 k=7168");
  EXPECT_EQ(dims_of(workload, "indexer.scores"), "m=64 n=8192 k=128 batch=4 weight=activation");
  EXPECT_THAT(dims_of(workload, "self_attn.attention"), HasSubstr("kv=2048 "));
  // A projection of the queries, one of the keys with its norm, and one of the heads' weights.
  const std::int64_t indexer = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64;
  EXPECT_EQ(*workload.parameters - *read_config(kDeepSeekV3).parameters, 61 * indexer);
}

// Transformers adds sinks to scores in memory; engines have kernels for them.
TEST(HfDecode, EnginesFuseAttentionOfAllFamilies) {
  constexpr const char* kSinks = R"({"architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4,
    "sliding_window": 128, "vocab_size": 201088})";
  const auto is_fused = [](const Workload& workload) {
    return std::get<Attention>(op_ending(workload, "self_attn.attention").body).fused;
  };
  EXPECT_FALSE(is_fused(read_config(kSinks, with(1, 1024))));
  const Workload step = read_config(kSinks, decoding(1, 1024));
  EXPECT_TRUE(is_fused(step));
  for (const std::string& note : step.notes) EXPECT_FALSE(note.starts_with("Transformers has no"));
}

TEST(HfDecode, PrefillFillsACacheToo) {
  const Workload workload = read_config(kLlama8b, with(2, 1024));
  EXPECT_EQ(workload.batch, 2);
  EXPECT_EQ(workload.sequence, 1024);
  EXPECT_EQ(workload.kv_cache_bytes, 2.0 * 1024 * 2 * 8 * 128 * 32 * 2);
  EXPECT_EQ(read_config(kBert).kv_cache_bytes, std::nullopt);
  ReadOptions training = with(2, 1024);
  training.mode = Mode::training;
  EXPECT_EQ(read_config(kLlama8b, training).kv_cache_bytes, std::nullopt);
}

TEST(HfDecode, TheCacheIsInTheActivationsPrecision) {
  ReadOptions options = decoding(1, 1023);
  options.dtype = Dtype::fp32;
  EXPECT_EQ(read_config(kLlama8b, options).kv_cache_bytes, 1024.0 * 2 * 8 * 128 * 32 * 4);
  options.dtype = Dtype::fp8;  // products; activations stay in bf16
  EXPECT_EQ(read_config(kLlama8b, options).kv_cache_bytes, 1024.0 * 2 * 8 * 128 * 32 * 2);
}

TEST(HfDecode, WindowsLimitWhatIsReadAndKept) {
  const Workload workload = read_config(kGemma3, decoding(2, 8191));
  std::vector<std::string> attention;
  for (const Op& op : workload.ops) {
    if (!std::holds_alternative<Attention>(op.body)) continue;
    attention.push_back(fmt::format("{} x {}", op.count, dims_text(op.body)));
  }
  EXPECT_THAT(attention, ElementsAre("10 x batch=2 heads=4 kv_heads=1 q=1 kv=512 d=256",
                                     "2 x batch=2 heads=4 kv_heads=1 q=1 kv=8192 d=256"));
  // Ten layers of 512 positions, two of all.
  EXPECT_EQ(workload.kv_cache_bytes, 2.0 * (10 * 512 + 2 * 8192) * 2 * 256 * 2);
}

// 70,272 bytes a token: "Insights into DeepSeek-V3", 2025, table 1. The absorbed form: DeepSeek-V2
// paper, appendix C, and vLLM's v1/attention/backends/mla.
TEST(HfDecode, LatentAttentionReadsTheLatentCache) {
  const Workload workload = read_config(kDeepSeekV3, decoding(32, 4095));
  EXPECT_EQ(dims_of(workload, "self_attn.attention"),
            "batch=32 heads=128 kv_heads=1 q=1 kv=4096 d=576 dv=512 values_in_keys=1");
  EXPECT_EQ(dims_of(workload, "kv_b_proj.keys"), "m=32 n=512 k=128 batch=128");
  EXPECT_EQ(dims_of(workload, "kv_b_proj.values"), "m=32 n=128 k=512 batch=128");
  EXPECT_EQ(workload.kv_cache_bytes, 32.0 * 4096 * 70272);
  EXPECT_EQ(workload.parameters, read_config(kDeepSeekV3).parameters);
}

// Uniform routing: 256 · (1 - (1 - 8/256)^16) = 102.0 experts for the 128 visits of 16 tokens.
TEST(HfDecode, FewTokensReachFewExperts) {
  const Workload workload = read_config(kDeepSeekV3, decoding(16, 1024));
  EXPECT_EQ(dims_of(workload, "experts.*.gate_proj"), "m=1 n=2048 k=7168 batch=102");
  const Workload one = read_config(kDeepSeekV3, decoding(1, 1024));
  EXPECT_EQ(dims_of(one, "experts.*.gate_proj"), "m=1 n=2048 k=7168 batch=8");
  // 169.0 experts for the 272 visits of 34 tokens: 1.6 each.
  const Workload more = read_config(kDeepSeekV3, decoding(34, 1024));
  EXPECT_EQ(dims_of(more, "experts.*.gate_proj"), "m=2 n=2048 k=7168 batch=169");
}

TEST(HfDecode, TheEncoderHasRunAndItsKeysAreCached) {
  const Workload workload = read_config(kWhisper, decoding(1, 99));
  for (const Op& op : workload.ops) EXPECT_THAT(op.name, testing::Not(HasSubstr("encoder.")));
  EXPECT_EQ(dims_of(workload, "encoder_attn.attention"), "batch=1 heads=6 q=1 kv=1500 d=64");
  EXPECT_EQ(dims_of(workload, "encoder_attn.q_proj"), "m=1 n=384 k=384 bias=1");
  // Four layers: 100 positions of its own and 1500 of the encoder.
  EXPECT_EQ(workload.kv_cache_bytes, 4.0 * (100 + 1500) * 2 * 384 * 2);
  EXPECT_EQ(workload.parameters, read_config(kWhisper).parameters);
}

TEST(HfDecode, LinearAttentionKeepsStates) {
  const Workload workload = read_config(kQwen3Next, decoding(4, 1023));
  // Of 48 layers every fourth attends: 2 key heads of 256. The others keep three inputs of the
  // convolution over 2·16·128 + 32·128 channels, and 32 states of 128 x 128 in fp32.
  const double attention = 12.0 * 1024 * 2 * 2 * 256 * 2;
  const double states = 36.0 * (3 * 8192 * 2 + 32.0 * 128 * 128 * 4);
  EXPECT_EQ(workload.kv_cache_bytes, 4 * attention);
  EXPECT_EQ(workload.recurrent_state_bytes, 4 * states);
  EXPECT_THAT(workload.skipped, testing::IsEmpty());
  EXPECT_EQ(workload.parameters, read_config(kQwen3Next).parameters);
}

TEST(HfDecode, EncodersHaveNoDecodeStep) {
  for (const char* config : {kBert, R"({"model_type": "vit"})",
                             R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
                                 "n_positions": 1024, "vocab_size": 50257,
                                 "architectures": ["GPT2ForSequenceClassification"]})"}) {
    const auto workload = parse_hf_config(config, "config.json", decoding(1, 128));
    ASSERT_FALSE(workload) << config;
    EXPECT_THAT(workload.error().message, HasSubstr("generates no tokens")) << config;
  }
}

TEST(HfDecode, AssumedLengthsAreNoted) {
  ReadOptions options;
  options.mode = Mode::decode;
  const Workload workload = read_config(kLlama8b, options);
  EXPECT_EQ(workload.sequence, 1024);
  EXPECT_THAT(workload.notes, testing::Contains(HasSubstr("--past")));
  // GPT-2 has room for 1023 behind the new token.
  EXPECT_EQ(read_config(kGpt2, options).sequence, 1023);
  EXPECT_THAT(read_config(kLlama8b, with(1, 1)).notes,
              testing::Contains(HasSubstr("--mode decode")));
}

TEST(HfDecode, TheLongestInputHasRoomForTheNewToken) {
  const auto said =
      testing::Contains("1024 positions in the cache and a new one are more than the model's 1024");
  EXPECT_THAT(read_config(kGpt2, decoding(1, 1024)).notes, said);
  EXPECT_THAT(read_config(kGpt2, decoding(1, 1023)).notes,
              testing::Not(testing::Contains(HasSubstr("are more than"))));
}

// Of 16 tokens, a window of 4 holds 58 pairs of queries and keys (4·5/2 + 12·4). Entries of 8
// tokens add 8·1 + 2, which 5 keys of a window come next to (70); the best two entries of 4 tokens
// add 4·1 + 9·2, next to 6 keys (81).
constexpr const char* kDeepSeekV4 = R"({"architectures": ["DeepseekV4ForCausalLM"],
  "model_type": "deepseek_v4", "torch_dtype": "bfloat16", "vocab_size": 64, "hidden_size": 32,
  "moe_intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 16,
  "qk_rope_head_dim": 8, "q_lora_rank": 24, "num_experts_per_tok": 2, "n_routed_experts": 4,
  "n_shared_experts": 1, "scoring_func": "sqrtsoftplus", "hc_mult": 4, "sliding_window": 4,
  "o_groups": 2, "o_lora_rank": 12, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 2,
  "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
  "compress_ratios": [0, 8, 4, 0], "quantization_config": {"quant_method": "fp8"},
  "expert_dtype": "fp4"})";

TEST(HfConfig, CompressedAttentionSeesAWindowAndEntries) {
  const Workload workload = read_config(kDeepSeekV4, with(1, 16));
  const auto attention = [&](int layer) {
    return dims(workload, fmt::format("model.layers.{}.self_attn.attention", layer));
  };
  const std::string sizes = "batch=1 heads=4 kv_heads=1 q=16 d=16 causal=1 window=";
  EXPECT_THAT(attention(0), HasSubstr(sizes + "4"));
  EXPECT_THAT(attention(1), HasSubstr(sizes + "5"));
  EXPECT_THAT(attention(2), HasSubstr(sizes + "6"));
  // Two groups of two heads; 24 weights of four streams.
  EXPECT_EQ(dims(workload, "model.layers.0.self_attn.o_a_proj"), "m=16 n=12 k=32 batch=2");
  EXPECT_EQ(dims(workload, "model.layers.0.attn_hc.fn"), "m=16 n=24 k=128");
  // Each of four entries sums the 4 tokens of its own and the 4 before, with their weights.
  EXPECT_EQ(dims(workload, "model.layers.2.self_attn.compressor.softmax_sum"),
            "fn=softmax_sum elements=64 inputs=16");
  EXPECT_EQ(dims(workload, "model.layers.2.self_attn.compressor.indexer.scorer.scores"),
            "m=32 n=4 k=8 weight=activation");
  EXPECT_EQ(find_op(workload, "model.layers.0.mlp.experts.*.up_proj").dtypes,
            Dtypes(Dtype::fp8, Dtype::fp4, Dtype::bf16));
  EXPECT_EQ(find_op(workload, "model.layers.0.mlp.shared_experts.up_proj").dtypes,
            Dtypes(Dtype::fp8, Dtype::fp8, Dtype::bf16));
  EXPECT_EQ(find_op(workload, "model.layers.1.self_attn.compressor.kv_proj").dtypes,
            Dtypes(Dtype::bf16));
  const std::string indexer = "model.layers.2.self_attn.compressor.indexer.";
  EXPECT_EQ(find_op(workload, indexer + "q_b_proj").dtypes,
            Dtypes(Dtype::fp8, Dtype::fp8, Dtype::bf16));
  EXPECT_EQ(find_op(workload, indexer + "scorer.weights_proj").dtypes, Dtypes(Dtype::bf16));
}

// 1e10 tokens in 64 streams of 28,823,037 elements are more than 64 bits count.
TEST(HfConfig, RefusesStreamsBeyondAnyTensor) {
  std::string config = kDeepSeekV4;
  config.replace(config.find(R"("hidden_size": 32)"), 17, R"("hidden_size": 28823037)");
  config.replace(config.find(R"("hc_mult": 4)"), 12, R"("hc_mult": 64)");
  const auto workload = parse_hf_config(config, "config.json", with(100'000, 100'000));
  ASSERT_FALSE(workload);
  EXPECT_THAT(workload.error().message, HasSubstr("out of range"));
}

TEST(HfConfig, KindsOfCompressedAttentionAreNamed) {
  std::string config = kDeepSeekV4;
  config.replace(config.find(R"("compress_ratios": [0, 8, 4, 0])"), 31,
                 R"("layer_types": ["sliding_attention", "heavily_compressed_attention",
                     "compressed_sparse_attention"])");
  EXPECT_EQ(read_config(config, with(1, 16)).ops, read_config(kDeepSeekV4, with(1, 16)).ops);
}

TEST(HfConfig, CompressedAttentionOfOtherRatiosIsRefused) {
  std::string config = kDeepSeekV4;
  config.replace(config.find("[0, 8, 4, 0]"), 12, "[0, 2, 4, 0]");
  EXPECT_THAT(message_of(config), HasSubstr("compress_ratios: found 2, expected 0, 4 or 8"));
}

TEST(HfConfig, TextFormReadsBack) {
  for (const char* config : {kLlama8b, kGpt2, kBert, kMixtral}) {
    const Workload workload = read_config(config);
    const auto again = parse_workload(to_text(workload));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(again->ops, workload.ops);
  }
}

// 16 positions: 4 in the window and 2 entries of 8 tokens, or the best 2 of 4. Cached are 4, 4 + 2
// and 4 + 4 keys of 16 elements of two bytes, and 4 keys of 8 bytes and a scale of 4/128 a byte.
TEST(HfDecode, CompressedAttentionKeepsWhatItSees) {
  const Workload workload = read_config(kDeepSeekV4, decoding(1, 15));
  EXPECT_THAT(dims(workload, "model.layers.0.self_attn.attention"), HasSubstr("q=1 kv=4"));
  EXPECT_THAT(dims(workload, "model.layers.1.self_attn.attention"), HasSubstr("q=1 kv=6"));
  EXPECT_THAT(dims(workload, "model.layers.2.self_attn.attention"), HasSubstr("q=1 kv=6"));
  EXPECT_EQ(workload.kv_cache_bytes, (4 + 6 + 8) * 16 * 2 + 4 * 8 * (1 + 4.0 / 128));
}

// 1004 tokens make 251 entries of 4; they are read in pages of 64.
TEST(HfDecode, CompressedEntriesAreReadInPages) {
  const Workload workload = read_config(kDeepSeekV4, decoding(1, 1003));
  EXPECT_THAT(dims(workload, "model.layers.2.self_attn.compressor.indexer.scorer.scores"),
              HasSubstr("n=256"));
}

TEST(HfDecode, TextFormReadsBack) {
  const Workload decode = read_config(kDeepSeekV3, decoding(2, 512));
  const auto again = parse_workload(to_text(decode));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->ops, decode.ops);
  EXPECT_EQ(again->mode, Mode::decode);
  EXPECT_EQ(again->kv_cache_bytes, decode.kv_cache_bytes);
}

TEST(HfConfig, MissingFileIsAnError) {
  const auto workload = hf_config_reader.read("/no/such/config.json", {});
  ASSERT_FALSE(workload);
  EXPECT_EQ(workload.error().where, "/no/such/config.json");
}

// The memory of a process has no first page to read.
TEST(HfConfig, AFileThatCannotBeReadIsAnError) {
  const auto workload = hf_config_reader.read("/proc/self/mem", {});
  ASSERT_FALSE(workload);
  EXPECT_EQ(workload.error(), (Error{"cannot be read", "/proc/self/mem"}));
}

// Of OLMo 3 every fourth layer attends to all tokens.
TEST(HfConfig, OlmoAttendsToAllTokensInEveryFourthLayer) {
  const auto workload = parse_hf_config(R"({"model_type": "olmo3", "hidden_size": 1024,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
    "intermediate_size": 2048, "vocab_size": 1000, "sliding_window": 512})",
                                        "config.json", {});
  ASSERT_TRUE(workload) << to_string(workload.error());
  std::int64_t sliding = 0, full = 0;
  for (const Op& op : workload->ops) {
    if (const auto* attention = std::get_if<Attention>(&op.body)) {
      (attention->window > 0 ? sliding : full) += op.count;
    }
  }
  EXPECT_EQ(sliding, 6);
  EXPECT_EQ(full, 2);
}

// Two thirds of 1024 are 682, which 256 divides at 768.
TEST(HfConfig, BlocksOfNemotronDifferOrAreMissing) {
  const Workload workload = read_config(R"({"model_type": "nemotron-nas", "hidden_size": 1024,
    "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 9, "block_configs": [
      {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 1}},
      {"attention": {"replace_with_linear": true}, "ffn": {"replace_with_linear": true}},
      {"attention": {"no_op": true}, "ffn": {"no_op": true}}]})",
                                        with(1, 8));
  EXPECT_EQ(dims(workload, "model.layers.0.self_attn.attention"),
            "batch=1 heads=8 kv_heads=2 q=8 d=128 causal=1");
  EXPECT_EQ(dims(workload, "model.layers.0.mlp.up_proj"), "m=8 n=768 k=1024");
  EXPECT_EQ(dims(workload, "model.layers.1.self_attn.linear_attn"), "m=8 n=1024 k=1024");
  EXPECT_EQ(dims(workload, "model.layers.1.mlp.linear_mlp"), "m=8 n=1024 k=1024");
  for (const Op& op : workload.ops) EXPECT_THAT(op.name, testing::Not(HasSubstr("layers.2")));
}

// layer_types, or the list of the layers that attend where there is none.
TEST(HfConfig, LayersOfLfm2AttendOrConvolve) {
  for (const std::string layers :
       {R"("layer_types": ["conv", "full_attention", "conv", "full_attention"])",
        R"("layer_types": ["conv", "full_attention", "conv", "full_attention"],
           "full_attn_idxs": [0])",
        R"("full_attn_idxs": [1, 3])"}) {
    const Workload workload = read_config(R"({"model_type": "lfm2", "hidden_size": 2048,
      "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 12288, "vocab_size": 65536, )" +
                                              layers + "}",
                                          with(1, 8));
    EXPECT_EQ(find_op(workload, "model.layers.{0,2}.conv.conv").count, 2) << layers;
    EXPECT_EQ(find_op(workload, "model.layers.{1,3}.self_attn.attention").count, 2) << layers;
  }
}

}  // namespace
}  // namespace rooftile
