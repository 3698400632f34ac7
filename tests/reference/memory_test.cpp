// Memory of known models on known GPUs, derived by hand.
#include "rooftile/analysis/memory/memory.h"

#include "networks.h"
#include "reference.h"
#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/training.h"

namespace rooftile {
namespace {

constexpr const char* kLlama70B = R"({"architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
  "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
  "max_position_embeddings": 4096, "vocab_size": 32000, "torch_dtype": "bfloat16"})";
constexpr const char* kMixtral = R"({"architectures": ["MixtralForCausalLM"],
  "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768,
  "vocab_size": 32000, "torch_dtype": "bfloat16"})";
constexpr const char* kBertLarge = R"({"architectures": ["BertModel"], "model_type": "bert",
  "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
  "intermediate_size": 4096, "max_position_embeddings": 512, "type_vocab_size": 2,
  "vocab_size": 30522, "torch_dtype": "float32"})";

struct Case {
  const char* name;
  const char* config;
  Mode mode;
  std::int64_t batch, length;  // sequence, or past when decoding
  const char* gpu;
  double gigabytes;  // 1e9
  Fit fit;
};

// Decode: parameters of 2 bytes and batch · (past + 1) positions of the cache.
// Llama-3.1-8B has 8.030e9 parameters and 2 · 8 · 128 · 32 · 2 = 131,072 bytes a position;
// Llama-2-70B 68.98e9 and 2 · 8 · 128 · 80 · 2 = 327,680; Mixtral 8x7B 46.70e9 and 131,072.
//
// Training: 18 bytes a parameter (AdamW, mixed precision). Llama-3.1-8B at 2048 tokens writes
// 97,280 elements a token and layer (seven times 4096 for norms, projections and residuals, 6144
// for q, k and v, 5120 rotated, four times 14336): 12.8 GB over 32 layers, of which 0.8 are kept,
// and the logits 2048 · 128256 · 9.6 bytes = 2.5 GB.
//
// BERT-large in fp32: 335e6 parameters of 4 bytes.
constexpr Case kCases[] = {
    {"8B, one user", kLlama8bConfig, Mode::decode, 1, 4096, "h100_sxm", 16.06 + 0.54, Fit::fits},
    {"8B, 16 users", kLlama8bConfig, Mode::decode, 16, 4096, "h100_sxm", 16.06 + 8.59, Fit::fits},
    {"8B, 64 users, long", kLlama8bConfig, Mode::decode, 64, 8192, "h100_sxm", 16.06 + 68.7,
     Fit::does_not_fit},
    {"8B, 64 users, long", kLlama8bConfig, Mode::decode, 64, 8192, "h200_sxm", 16.06 + 68.7,
     Fit::fits},
    {"8B on 24 GB", kLlama8bConfig, Mode::decode, 1, 4096, "rtx_4090", 16.06 + 0.54, Fit::fits},
    {"8B on a T4", kLlama8bConfig, Mode::decode, 1, 1024, "t4", 16.06 + 0.13, Fit::does_not_fit},
    {"70B", kLlama70B, Mode::decode, 8, 2048, "h100_sxm", 137.95 + 5.37, Fit::does_not_fit},
    {"Mixtral on 80 GB", kMixtral, Mode::decode, 4, 4096, "h100_sxm", 93.4 + 2.15,
     Fit::does_not_fit},
    {"Mixtral on 141 GB", kMixtral, Mode::decode, 4, 4096, "h200_sxm", 93.4 + 2.15, Fit::fits},
    {"8B, trained", kLlama8bConfig, Mode::training, 1, 2048, "h100_sxm", 144.5 + 10.2 + 2.5,
     Fit::does_not_fit},
    {"BERT-large", kBertLarge, Mode::inference, 1, 128, "t4", 1.34, Fit::fits}};

TEST(KnownMemory, TotalsLieWithinATenthOfTheHandDerivedOnes) {
  for (const Case& row : kCases) {
    ReadOptions options;
    options.mode = row.mode;
    options.batch = row.batch;
    (row.mode == Mode::decode ? options.past : options.seq) = row.length;
    auto workload = parse_hf_config(row.config, "config.json", options);
    ASSERT_TRUE(workload) << row.name;
    if (row.mode == Mode::training) workload = derive_training(std::move(*workload));
    const MemoryEstimate memory = estimate_memory(*workload, built_in(row.gpu));
    const double found = memory.total().expected.value() / 1e9;
    EXPECT_NEAR(found, row.gigabytes, 0.1 * row.gigabytes) << row.name << " on " << row.gpu;
    EXPECT_EQ(memory.fit(), row.fit) << row.name << " on " << row.gpu;
  }
}

}  // namespace
}  // namespace rooftile
