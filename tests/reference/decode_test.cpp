// Decode steps of known models against the memory bandwidth and against published speeds.
#include "networks.h"
#include "reference.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr const char* kLlama2 = R"({"architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "vocab_size": 32000, "torch_dtype": "bfloat16"})";

Workload decode_step(const char* config, std::int64_t batch, std::int64_t past) {
  ReadOptions options;
  options.mode = Mode::decode;
  options.batch = batch;
  options.past = past;
  const auto workload = parse_hf_config(config, "config.json", options);
  EXPECT_TRUE(workload) << to_string(workload.error());
  return workload.value_or(Workload{});
}

Range<Seconds> time_of(const Workload& workload, const TimeModel& model) {
  Range<Seconds> total{};
  for (const Op& op : workload.ops) {
    const auto time = model.estimate(op);
    EXPECT_TRUE(time) << op.name;
    if (time) total += time->time * static_cast<double>(op.count);
  }
  return total;
}

struct Floor {
  std::int64_t batch, past;
  double milliseconds;
};

// A step reads all weights but the embedding, 8,030,261,248 - 128256 · 4096 of 2 bytes = 15.01 GB,
// and for each position and sequence 2 · 8 · 128 · 32 elements of 2 bytes = 131,072 bytes of the
// cache, at 3.35 TB/s. Small kernels between the products and launches add to that, but never more
// than three fifths of it.
TEST(Decode, LlamaOnH100LiesAboveTheBandwidthFloorAndNotFar) {
  constexpr Floor kFloors[] = {{1, 1024, 4.521},  {1, 4096, 4.641},   {16, 1024, 5.122},
                               {16, 4096, 7.045}, {128, 1024, 9.614}, {128, 4096, 24.999}};
  const TimeModel model(built_in("h100_sxm"));
  for (const Floor& floor : kFloors) {
    const double expected = to_milliseconds(
        time_of(decode_step(kLlama8bConfig, floor.batch, floor.past), model).expected);
    EXPECT_GT(expected, floor.milliseconds) << floor.batch << " x " << floor.past;
    EXPECT_LT(expected, 1.6 * floor.milliseconds) << floor.batch << " x " << floor.past;
  }
}

struct Published {
  Dtype weights;
  double tokens_per_second;
};

// gpt-fast (PyTorch), README, "Benchmarks": Llama-2-7B on one A100-80GB, batch 1, tokens a second
// with weights of 16, 8 and 4 bits; 200 tokens after a short prompt. It runs compiled, with one
// product for queries, keys and values, so it is somewhat faster than separate kernels.
TEST(Decode, Llama2OnA100AsGptFastMeasured) {
  constexpr Published kMeasured[] = {
      {Dtype::bf16, 104.9}, {Dtype::int8, 155.6}, {Dtype::int4, 196.8}};
  const TimeModel model(built_in("a100_sxm_80gb"));
  double wide = 0;
  for (const Published& measured : kMeasured) {
    Workload step = decode_step(kLlama2, 1, 100);
    for (Op& op : step.ops) {
      if (std::holds_alternative<Gemm>(op.body)) op.dtypes.weight = measured.weights;
    }
    const double expected = time_of(step, model).expected.value();
    EXPECT_NEAR(expected * measured.tokens_per_second, 1.1, 0.15) << to_string(measured.weights);
    // What narrow weights save of the step: 33 % and 47 % as measured.
    if (wide == 0) wide = expected;
    EXPECT_NEAR(expected / wide, 104.9 / measured.tokens_per_second, 0.06)
        << to_string(measured.weights);
  }
}

Op attention_op(std::int64_t batch, std::int64_t kv_heads, Dtype dtype) {
  Attention attention;
  attention.batch = batch;
  attention.heads = 32;
  attention.kv_heads = kv_heads;
  attention.query_len = 1;
  attention.kv_len = 4096;
  attention.head_dim = attention.value_dim = 128;
  return op_of(attention, dtype);
}

// One query of each of 32 heads, over 8 or 32 key-value heads: 4 or 1 flop per byte in fp16, half
// of that in fp32, against ridges of 139 (V100) to 295 (H100) on Tensor Cores and 9 to 82 in fp32.
TEST(Decode, AttentionOverTheCacheIsNeverMathBound) {
  std::vector<Op> steps;
  for (const std::int64_t batch : {1, 8, 32, 256}) {
    for (const std::int64_t kv_heads : {8, 32}) {
      steps.push_back(attention_op(batch, kv_heads, Dtype::fp16));
      steps.push_back(attention_op(batch, kv_heads, Dtype::fp32));
    }
  }
  for (const char* gpu : {"v100_sxm2", "t4", "a100_sxm_80gb", "rtx_4090", "h100_sxm", "b200"}) {
    const TimeModel model(built_in(gpu));
    for (const Op& op : steps) {
      EXPECT_NE(model.estimate(op).value().bound, Bound::math)
          << gpu << " " << dims_text(op.body) << " " << to_string(op.dtypes.input);
    }
  }
}

// 2 · 32 · 8 · 4096 · 128 elements of 2 bytes: 537 MB, 67.1 us at 8 TB/s.
TEST(Decode, AttentionOnB200LiesAboveTheBandwidthFloorAndNotFar) {
  const auto time = TimeModel(built_in("b200")).estimate(attention_op(32, 8, Dtype::bf16));
  ASSERT_TRUE(time);
  EXPECT_EQ(time->bound, Bound::memory);
  EXPECT_GE(time->time.low.value(), 67.1e-6);
  EXPECT_LT(time->time.expected.value(), 1.6 * 67.2e-6);
}

// FlashMLA, README: up to 660 TFLOP/s in compute-bound and 3,000 GB/s in memory-bound
// configurations of an H800 SXM5, whose rates are the H100's. 128 sequences of 8192 tokens: 2 · 128
// · 8192 · heads · (576 + 512) flop, 128 · 8192 · 576 · 2 bytes.
TEST(Decode, LatentAttentionStaysBelowWhatFlashMlaPublishes) {
  const TimeModel model(built_in("h100_sxm"));
  Attention attention;
  attention.batch = 128;
  attention.kv_heads = 1;
  attention.query_len = 1;
  attention.kv_len = 8192;
  attention.head_dim = 576;
  attention.value_dim = 512;
  attention.values_in_keys = true;
  attention.heads = 128;
  const auto wide = model.estimate(op_of(attention, Dtype::bf16));
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->bound, Bound::math);
  EXPECT_NEAR(292.06e9 / wide->time.expected.value() / 660e12, 0.85, 0.15);
  attention.heads = 16;
  const auto narrow = model.estimate(op_of(attention, Dtype::bf16));
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->bound, Bound::memory);
  EXPECT_NEAR(1.208e9 / narrow->time.expected.value() / 3.0e12, 0.85, 0.15);
}

}  // namespace
}  // namespace rooftile
