// Whole networks against figures from elsewhere: memory derived by hand from published sizes, the
// time that the bandwidth leaves at least, and published throughput.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "rooftile/pipeline/tune.h"
#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

constexpr std::string_view kLlama8B =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})";
constexpr std::string_view kLlama70B =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5})";
constexpr std::string_view kLlama2of7B =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})";
constexpr std::string_view kQwen72B =
    R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16",
        "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "intermediate_size": 29568, "vocab_size": 152064,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6})";
constexpr std::string_view kQwen14B =
    R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16",
        "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 152064,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6})";
constexpr std::string_view kMixtral =
    R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "torch_dtype": "bfloat16",
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
        "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-5})";
constexpr std::string_view kDeepSeekLite =
    R"({"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
        "torch_dtype": "bfloat16", "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": null,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 1,
        "topk_group": 1, "topk_method": "greedy", "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "norm_topk_prob": false, "vocab_size": 102400, "max_position_embeddings": 163840,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false})";
constexpr std::string_view kGpt2 =
    R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "torch_dtype": "bfloat16",
        "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";
constexpr std::string_view kBert =
    R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "hidden_act": "gelu", "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12})";

std::string vit(int hidden, int layers, int heads, int patch) {
  return fmt::format(
      R"({{"architectures": ["ViTForImageClassification"], "model_type": "vit",
          "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
          "intermediate_size": {}, "hidden_act": "gelu", "image_size": 224, "patch_size": {},
          "num_channels": 3, "qkv_bias": true, "num_labels": 1000}})",
      hidden, layers, heads, 4 * hidden, patch);
}

std::string resnet(std::string_view depths) {
  return fmt::format(
      R"({{"architectures": ["ResNetForImageClassification"], "model_type": "resnet",
          "num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048],
          "depths": {}, "layer_type": "bottleneck", "hidden_act": "relu",
          "downsample_in_first_stage": false, "num_labels": 1000}})",
      depths);
}

std::string convnext(std::string_view depths, std::string_view widths) {
  return fmt::format(
      R"({{"architectures": ["ConvNextForImageClassification"], "model_type": "convnext",
          "num_channels": 3, "patch_size": 4, "num_stages": 4, "hidden_sizes": {}, "depths": {},
          "hidden_act": "gelu", "image_size": 224, "num_labels": 1000}})",
      widths, depths);
}

struct NetworkRun {
  std::string gpu;
  Mode mode = Mode::inference;
  std::int64_t batch = 1;
  std::optional<std::int64_t> seq = {}, past = {};
  std::optional<Dtype> dtype = {};
};

std::string config_file(std::string_view config) {
  // Several processes run parts of the tests at once.
  const std::string path = fmt::format("{}network_{}.json", testing::TempDir(), getpid());
  std::ofstream(path) << config;
  return path;
}

Report report_of(std::string_view config, const NetworkRun& run) {
  ReadOptions options;
  options.mode = run.mode;
  options.batch = run.batch;
  options.seq = run.seq;
  options.past = run.past;
  options.dtype = run.dtype;
  return check(read(config_file(config), options).value(), find_device(run.gpu).value());
}

struct MemoryCase {
  std::string name, config;
  NetworkRun run;
  double bytes;  // by hand
  std::string verdict;
};

void PrintTo(const MemoryCase& one, std::ostream* out) { *out << one.name; }

class MemoryByHand : public testing::TestWithParam<MemoryCase> {};

TEST_P(MemoryByHand, IsWithinATenth) {
  const MemoryCase& one = GetParam();
  const Report report = report_of(one.config, one.run);
  EXPECT_NEAR(report.memory.total.expected.value() / one.bytes, 1, 0.1);
  EXPECT_EQ(report.memory.verdict, one.verdict);
}

// Parameters as on the model cards, 2 bytes each, in training 18 (weights, gradients and AdamW in
// mixed precision). A cached position takes layers x 2 x heads x head size x 2 bytes.
const MemoryCase kMemory[] = {
    {"llama_8b_decode",
     std::string(kLlama8B),
     {.gpu = "h100", .mode = Mode::decode, .batch = 16, .past = 4096},
     2 * 8.030e9 + 131072.0 * 16 * 4096,
     "fits"},
    {"llama_70b_decode",
     std::string(kLlama70B),
     {.gpu = "a100", .mode = Mode::decode, .batch = 1, .past = 8192},
     2 * 70.55e9 + 327680.0 * 8192,
     "does_not_fit"},
    // A layer keeps 8 h + 4 f values of each token: inputs of q/k/v, o, gate/up and down, both
    // norms' inputs, q, k and v behind the rotation, gate, its SiLU and up. Logits: 2 bytes and 8
    // of the loss.
    {"llama_2_7b_training",
     std::string(kLlama2of7B),
     {.gpu = "h100", .mode = Mode::training, .batch = 1, .seq = 2048},
     18 * 6.738e9 + 2.0 * 2048 * 32 * (8.0 * 4096 + 4.0 * 11008) + 10.0 * 2048 * 32000,
     "does_not_fit"},
    // 34 bytes a token and width in each layer (Korthikanti et al.) without 2 of dropout's masks.
    {"gpt2_training",
     std::string(kGpt2),
     {.gpu = "a100", .mode = Mode::training, .batch = 8, .seq = 1024},
     18 * 124.4e6 + 32.0 * 8192 * 768 * 12 + 10.0 * 8192 * 50257,
     "fits"},
    {"bert_inference",
     std::string(kBert),  // most are alive at the logits
     {.gpu = "t4", .batch = 32, .seq = 512, .dtype = Dtype::fp16},
     2 * 109.5e6 + 2.0 * 16384 * (30522 + 768),
     "fits"},
    {"mixtral_inference",
     std::string(kMixtral),
     {.gpu = "h100", .batch = 1, .seq = 1024},
     2 * 46.70e9,
     "does_not_fit"},
    // A latent of 512 and a rotated key of 64 for each layer and position.
    {"deepseek_lite_decode",
     std::string(kDeepSeekLite),
     {.gpu = "h100", .mode = Mode::decode, .batch = 32, .past = 4096},
     2 * 15.71e9 + 27.0 * (512 + 64) * 2 * 32 * 4096,
     "fits"},
    {"qwen_72b_decode",
     std::string(kQwen72B),
     {.gpu = "h200", .mode = Mode::decode, .batch = 8, .past = 16384},
     2 * 72.71e9 + 327680.0 * 8 * 16384,
     "does_not_fit"},
    // At the activation: the residual, fc1's output and its GELU, of 197 tokens an image.
    {"vit_large_inference",
     vit(1024, 24, 16, 16),
     {.gpu = "l4", .batch = 256, .dtype = Dtype::fp16},
     2 * 304.3e6 + 2.0 * 256 * 197 * (1024 + 2 * 4096),
     "fits"},
    // Convolutions write 11.1 M values an image (timm, macts), ReLUs 9.6 M, the pool 0.2 M with
    // indices of 8 bytes.
    {"resnet_50_training",
     resnet("[3, 4, 6, 3]"),
     {.gpu = "a100", .mode = Mode::training, .batch = 256, .dtype = Dtype::bf16},
     18 * 25.56e6 + 256 * (2 * (11.1e6 + 9.6e6 + 0.2e6) + 8 * 0.2e6),
     "fits"},
};

INSTANTIATE_TEST_SUITE_P(Networks, MemoryByHand, testing::ValuesIn(kMemory),
                         [](const auto& info) { return info.param.name; });

// timm trains with these batches on 24 GB, in fp16 autocast and NHWC, and runs out of memory with
// the next larger one it tries (huggingface/pytorch-image-models,
// benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv; batches as in its benchmark.py).
TEST(Networks, WhatWasTrainedFits) {
  const auto verdict = [](const std::string& config, std::int64_t batch) {
    const NetworkRun run{
        .gpu = "rtx_3090", .mode = Mode::training, .batch = batch, .dtype = Dtype::fp16};
    return report_of(config, run).memory.verdict;
  };
  EXPECT_NE(verdict(resnet("[3, 4, 6, 3]"), 512), "does_not_fit");
  EXPECT_NE(verdict(resnet("[3, 4, 23, 3]"), 256), "does_not_fit");
  EXPECT_EQ(verdict(resnet("[3, 4, 23, 3]"), 384), "does_not_fit");
  EXPECT_NE(verdict(convnext("[3, 3, 27, 3]", "[128, 256, 512, 1024]"), 128), "does_not_fit");
  EXPECT_NE(verdict(convnext("[3, 3, 27, 3]", "[192, 384, 768, 1536]"), 96), "does_not_fit");
}

// One step reads all weights but the table of embeddings, and the cache.
TEST(Networks, ADecodeStepTakesLittleMoreThanItsBytes) {
  constexpr double kBandwidth = 3.35e12, kWeights = 2 * (8.030e9 - 128256.0 * 4096);
  for (const int batch : {1, 16, 128}) {
    for (const int past : {512, 1024}) {
      const Report report =
          report_of(kLlama8B, {.gpu = "h100", .mode = Mode::decode, .batch = batch, .past = past});
      const double floor = (kWeights + 131072.0 * batch * past) / kBandwidth;
      EXPECT_GE(report.total.expected.value(), floor) << batch;
      EXPECT_LE(report.total.expected.value(), 1.6 * floor) << batch;
    }
  }
}

struct Published {
  std::string name, config, gpu;
  std::int64_t batch;
  double per_second;  // images
  Mode mode = Mode::inference;
};

void PrintTo(const Published& one, std::ostream* out) { *out << one.name; }

class PublishedThroughput : public testing::TestWithParam<Published> {};

// In eager mode with fp16 autocast, whose casts are not in the workload.
TEST_P(PublishedThroughput, IsInTheRange) {
  const Published& one = GetParam();
  const Report report = report_of(
      one.config, {.gpu = one.gpu, .mode = one.mode, .batch = one.batch, .dtype = Dtype::fp16});
  const double measured = to_double(one.batch) / one.per_second;
  EXPECT_LE(report.total.low.value(), measured);
  EXPECT_GE(report.total.high.value(), measured);
  if (one.mode == Mode::inference) {
    EXPECT_NEAR(report.total.expected.value() / measured, 1, 0.3);
  }
}

const std::string kConvNextBase = convnext("[3, 3, 27, 3]", "[128, 256, 512, 1024]");
const std::string kConvNextTiny = convnext("[3, 3, 9, 3]", "[96, 192, 384, 768]");

// huggingface/pytorch-image-models, results/: inference with PyTorch 2.4 and 2.9, training with
// 1.12, which has no fused attention.
const Published kTimm[] = {
    {"convnext_base_3090", kConvNextBase, "rtx_3090", 1024, 1309.55},
    {"convnext_base_4090", kConvNextBase, "rtx_4090", 512, 2096.16},
    {"convnext_base_5090", kConvNextBase, "rtx_5090", 1024, 2617.98},
    {"convnext_tiny_3090", kConvNextTiny, "rtx_3090", 1024, 3120.16},
    {"vit_small_3090", vit(384, 12, 6, 16), "rtx_3090", 1024, 4616.6},
    {"vit_base_3090", vit(768, 12, 12, 16), "rtx_3090", 1024, 1572.08},
    {"vit_base_4090", vit(768, 12, 12, 16), "rtx_4090", 512, 2843.0},
    {"vit_base_5090", vit(768, 12, 12, 16), "rtx_5090", 1024, 3915.56},
    {"vit_large_4090", vit(1024, 24, 16, 16), "rtx_4090", 512, 903.87},
    {"resnet_50_3090_nchw", resnet("[3, 4, 6, 3]"), "rtx_3090", 1024, 3219.06},
    {"resnet_50_4090_nchw", resnet("[3, 4, 6, 3]"), "rtx_4090", 1024, 4217.6},
    {"resnet_50_5090_nchw", resnet("[3, 4, 6, 3]"), "rtx_5090", 1024, 6356.02},
    {"convnext_base_3090_training", kConvNextBase, "rtx_3090", 128, 338.68, Mode::training},
    {"convnext_tiny_3090_training", kConvNextTiny, "rtx_3090", 256, 819.21, Mode::training},
    {"resnet_50_3090_nchw_training", resnet("[3, 4, 6, 3]"), "rtx_3090", 512, 826.06,
     Mode::training},
};

INSTANTIATE_TEST_SUITE_P(Networks, PublishedThroughput, testing::ValuesIn(kTimm),
                         [](const auto& info) { return info.param.name; });

// BERT-large on SQuAD, unpadded, by TensorRT: 533 samples a second on an A10 of 150 W, 1,599 on an
// A100 PCIe 80 GB (mlcommons/inference_results_v1.1, bert-99.9, offline).
TEST(Networks, AGpuOfLittlePowerIsAsMuchSlower) {
  const std::string bert =
      R"({"architectures": ["BertForQuestionAnswering"], "model_type": "bert", "hidden_size": 1024,
          "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
          "hidden_act": "gelu", "vocab_size": 30522, "max_position_embeddings": 512,
          "type_vocab_size": 2, "layer_norm_eps": 1e-12})";
  const auto time = [&](const char* gpu) {
    return report_of(bert, {.gpu = gpu, .batch = 256, .seq = 192, .dtype = Dtype::fp16})
        .total.expected.value();
  };
  EXPECT_NEAR(time("a10") / time("a100_pcie_80gb"), 1599.0 / 533, 0.3);
}

const Finding* finding(const Report& report, std::string_view rule) {
  const auto found = std::ranges::find(report.findings, rule, &Finding::rule);
  return found == report.findings.end() ? nullptr : &*found;
}

// Half the bytes: vLLM, TensorRT-LLM and FlashInfer have kernels for 8-bit caches that take 0.5 to
// 0.7 of the time of 16-bit ones where the cache is long.
TEST(Networks, AnEightBitCacheSavesOnEveryGpu) {
  for (const char* gpu : {"h100", "b200"}) {
    const Report report =
        report_of(kQwen14B, {.gpu = gpu, .mode = Mode::decode, .batch = 32, .past = 8192});
    const Finding* cache = finding(report, "attention/wide-cache");
    ASSERT_NE(cache, nullptr) << gpu;
    const auto kind = std::ranges::find(report.kinds, "attention", &KindShare::kind);
    ASSERT_NE(kind, report.kinds.end());
    const double saved = cache->saving->expected / kind->time;
    EXPECT_GT(saved, 0.25) << gpu;
    EXPECT_LT(saved, 0.5) << gpu;
  }
}

// The SMs of an H200 are those of an H100: the likely saving is small there, half of the bytes is
// not.
TEST(Networks, AnEightBitCacheIsKnownWhereItsPaceIsNot) {
  const Report report =
      report_of(kQwen72B, {.gpu = "h200", .mode = Mode::decode, .batch = 8, .past = 16384});
  const Finding* cache = finding(report, "attention/wide-cache");
  ASSERT_NE(cache, nullptr);
  EXPECT_GT(cache->saving->high, report.total.expected * 0.1);
}

// An A100 multiplies no fp8, but reads fp8 weights in half the time of 16-bit ones.
TEST(Networks, Fp8WeightsStayWhereTheStepWaitsForThem) {
  const Report decode = report_of(
      kLlama8B,
      {.gpu = "a100", .mode = Mode::decode, .batch = 8, .past = 2048, .dtype = Dtype::fp8});
  const Finding* found = finding(decode, "precision/unsupported-dtype");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->level, Level::info);
  EXPECT_NE(found->fix.text.find("weight-only"), std::string::npos) << found->fix.text;
}

// GELU, layer scale, residuals and the sums of their gradients: compiled, timm's ConvNeXt-Base
// classifies 22 to 30 % faster.
TEST(Networks, ConvNextIsWorthCompiling) {
  const Report report = report_of(
      kConvNextBase, {.gpu = "a10", .mode = Mode::training, .batch = 64, .dtype = Dtype::bf16});
  const Finding* found = finding(report, "memory_bound/unfused-pointwise");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->level, Level::advice);
  EXPECT_GT(found->saving->expected, report.total.expected * 0.05);
  // A third of the time is none of matrix products and convolutions.
  const auto share = [&](std::string_view kind) {
    const auto row = std::ranges::find(report.kinds, kind, &KindShare::kind);
    return row == report.kinds.end() ? 0 : row->share;
  };
  EXPECT_GT(share("elementwise") + share("norm") + share("reduce"), 0.3);
}

// Memory is not what ends the batch of a network for handwritten digits.
TEST(Networks, NoBatchIsNamedThatNobodyRuns) {
  ReadOptions options;
  options.mode = Mode::training;
  const auto digits = read(
      "workload batch=64\n"
      "conv conv1 fp32 n=64 c=1 k=32 in=28x28 kernel=3x3 bias=1 from=x to=a\n"
      "elementwise relu1 fp32 fn=relu elements=1384448 from=a to=b\n"
      "conv conv2 fp32 n=64 c=32 k=64 in=26x26 kernel=3x3 bias=1 from=b to=c\n"
      "elementwise relu2 fp32 fn=relu elements=2359296 from=c to=d\n"
      "gemm fc1 fp32 m=64 n=128 k=36864 bias=1 from=d to=f\n"
      "gemm fc2 fp32 m=64 n=10 k=128 bias=1 from=f to=h\n",
      options);
  ASSERT_TRUE(digits);
  const Report report = check(*digits, find_device("rtx_3090").value());
  EXPECT_FALSE(report.memory.largest_batch);
  if (const Finding* batch = finding(report, "sizing/batch-leaves-throughput")) {
    EXPECT_EQ(batch->message.find("32768"), std::string::npos);
  }
}

Tuning tuned(std::string_view config, const NetworkRun& run) {
  TuneRequest request;
  request.input = config_file(config);
  request.read.mode = run.mode;
  request.read.batch = run.batch;
  request.read.seq = run.seq;
  request.read.dtype = run.dtype;
  return tune(request, find_device(run.gpu).value()).value();
}

// 11008 is 86 times 128 and heads are of 128: Llama 2's shape gains nothing that is certain.
TEST(Networks, AWellShapedModelStaysAsItIs) {
  const Tuning tuning =
      tuned(kLlama2of7B, {.gpu = "h200", .mode = Mode::training, .batch = 4, .seq = 512});
  EXPECT_FALSE(tuning.smallest_at_batch);
  EXPECT_TRUE(!tuning.smallest || tuning.smallest->keeps_model());
}

// Tensor parallelism deals heads out over GPUs: 27 heads would go over 3 or 9 of them.
TEST(Networks, HeadsStayDivisible) {
  for (const TunedShape& shape : tuned(kLlama8B, {.gpu = "h100", .batch = 1, .seq = 1024}).front) {
    for (const auto& change : shape.changes) {
      if (change.name == "heads" || change.name == "kv_heads") EXPECT_EQ(change.to % 4, 0);
    }
  }
}

}  // namespace
}  // namespace rooftile
