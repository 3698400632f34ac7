#include "rooftile/analysis/memory/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/analysis/memory/live_tensors.h"
#include "rooftile/analysis/memory/output_bytes.h"
#include "rooftile/analysis/memory/spreading.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/rebatch.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

Device gpu(const char* name) { return *find_device(name); }

MemoryEstimate estimate(std::string_view text, const char* name = "h100") {
  return estimate_memory(*parse_workload(text), gpu(name));
}

MemoryEstimate trained(std::string_view text) {
  return estimate_memory(derive_training(*parse_workload(text)), gpu("h100"));
}

// S. Bekman, Machine Learning Engineering, "Anatomy of Model's Memory Usage": AdamW in mixed
// precision takes 18 bytes a parameter: weights 6, gradients 4, state 8.
TEST(Memory, AdamWInMixedPrecisionTakes18BytesAParameter) {
  const MemoryEstimate memory = trained("gemm a bf16 m=1 n=1000 k=1000\n");
  EXPECT_DOUBLE_EQ(memory.state().value(), 18e6);
  const Range<Bytes> state = memory.gradients + memory.optimizer;
  EXPECT_DOUBLE_EQ(memory.weights.value() + state.low.value(), 8e6);  // all in bf16
}

TEST(Memory, AdamWInFp32Takes16BytesAParameter) {
  EXPECT_DOUBLE_EQ(trained("gemm a fp32 m=1 n=1000 k=1000\n").state().value(), 16e6);
}

// The same chapter: one hidden state of Llama-3-8B at 32,768 tokens in bf16 is 0.25 GiB.
TEST(Memory, ActivationsAreTheForwardOutputs) {
  const MemoryEstimate memory = trained("norm n bf16 fn=rms rows=32768 cols=4096 count=4\n");
  EXPECT_LT(memory.activations.low.value(), 0x1p30);
  EXPECT_GT(memory.activations.high.value(), 0x1p30);
}

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", section 4.1:
// 34 bytes for each position and width of a layer, 2 of them masks of dropout, without the scores.
TEST(Memory, ATransformerLayerKeepsWhatItsGradientsRead) {
  const MemoryEstimate memory = trained(
      "norm ln1 bf16 fn=layer rows=1024 cols=768 from=x to=a\n"
      "gemm qkv bf16 m=1024 n=2304 k=768 from=a to=b\n"
      "attention s bf16 batch=1 heads=12 q=1024 kv=1024 d=64 causal=1 from=b to=c\n"
      "gemm proj bf16 m=1024 n=768 k=768 from=c to=d\n"
      "elementwise drop1 bf16 fn=dropout elements=786432 from=d to=e\n"
      "elementwise add1 bf16 fn=add elements=786432 inputs=2 from=e,x to=f\n"
      "norm ln2 bf16 fn=layer rows=1024 cols=768 from=f to=g\n"
      "gemm fc bf16 m=1024 n=3072 k=768 from=g to=h\n"
      "elementwise act bf16 fn=gelu elements=3145728 from=h to=i\n"
      "gemm out bf16 m=1024 n=768 k=3072 from=i to=j\n"
      "elementwise drop2 bf16 fn=dropout elements=786432 from=j to=k\n"
      "elementwise add2 bf16 fn=add elements=786432 inputs=2 from=k,f to=y\n");
  // The result y stands for the input x, which the next layer keeps.
  EXPECT_DOUBLE_EQ(memory.activations.expected.value(), 34.0 * 1024 * 768);
}

// A convolution keeps its input, the norm behind it that convolution's output, ReLU its own; the
// norm's output is overwritten or freed.
TEST(Memory, AConvolutionalBlockKeepsTwoOfThree) {
  const MemoryEstimate memory = trained(
      "conv c fp16 n=8 c=64 k=64 in=56x56 kernel=3x3 pad=1x1 from=x to=a\n"
      "norm b fp16 fn=batch rows=25088 cols=64 from=a to=d\n"
      "elementwise r fp16 fn=relu elements=1605632 from=d to=y\n");
  EXPECT_DOUBLE_EQ(memory.activations.expected.value(), 2 * 2.0 * 1605632);
}

TEST(Memory, TheLossHoldsItsLogitsInFp32) {
  // 1024 tokens and 50304 entries: log-softmax and gradient of 4 bytes each.
  const MemoryEstimate memory = trained("gemm head bf16 m=1024 n=50304 k=768\n");
  const double logits = 1024.0 * 50304;
  EXPECT_DOUBLE_EQ(memory.activations.expected.value(), logits * (2 + 8));
  EXPECT_DOUBLE_EQ(memory.activations.low.value(), logits * 0.6 * 2);  // a fused loss
}

TEST(Memory, InferenceKeepsNoGradients) {
  const MemoryEstimate memory = estimate("gemm a bf16 m=64 n=32 k=16\n");
  EXPECT_EQ(memory.gradients.high, Bytes());
  EXPECT_EQ(memory.optimizer.high, Bytes());
  EXPECT_DOUBLE_EQ(memory.weights.value(), 2 * 32 * 16);
}

// a: 8 bytes, b: 16, c: 4. a lives until c reads it: 28 bytes at once.
TEST(Memory, TensorsLiveUntilTheirLastReader) {
  const auto workload = *parse_workload(
      "elementwise a fp32 fn=relu elements=2\n"
      "elementwise b fp32 fn=relu elements=4 from=a\n"
      "elementwise c fp32 fn=add elements=1 inputs=2 from=b,a\n"
      "elementwise d fp32 fn=relu elements=1 from=c\n");
  EXPECT_EQ(peak_live_bytes(workload, output_bytes), Bytes(28));
}

TEST(Memory, TensorsOfAChainWithoutNamesLiveForOneStep) {
  const auto workload = *parse_workload(
      "elementwise a fp32 fn=relu elements=2\n"
      "elementwise b fp32 fn=relu elements=4\n"
      "elementwise c fp32 fn=relu elements=1\n");
  EXPECT_EQ(peak_live_bytes(workload, output_bytes), Bytes(24));
}

// 32 sequences, 4096 keys and values of 8 heads of 128 in 2 bytes: 512 MiB.
TEST(Memory, AttentionOverACacheHoldsIt) {
  const MemoryEstimate memory =
      estimate("attention a bf16 batch=32 heads=32 kv_heads=8 q=1 kv=4096 d=128\n");
  EXPECT_DOUBLE_EQ(memory.kv_cache.expected.value(), 0x1p29);
  EXPECT_EQ(estimate("attention a bf16 batch=32 heads=32 q=64 kv=64 d=128\n").kv_cache.expected,
            Bytes());
}

// An idle AGX Orin shows 5,137 of 62,841 MiB in use, of 65,536: 57,704 are left, less half a GiB.
TEST(Memory, ASystemOnAChipSharesItsMemoryWithTheCpu) {
  const double mib = kGibibyte / 1024;
  const Bytes orin = usable_memory(gpu("jetson_agx_orin_64gb"));
  EXPECT_NEAR(orin.value() / mib, 57704 - 512, 100);
  // PyTorch shows 113.5 GiB free on a GB10.
  EXPECT_NEAR(usable_memory(gpu("gb10")).value() / kGibibyte, 113.5 - 0.5, 0.1);
}

struct Usable {
  const char* gpu;
  double total_capacity;  // GiB, in public out-of-memory messages of PyTorch
};

// A process has half a GiB less: the CUDA context.
TEST(Memory, UsableMemoryFollowsOutOfMemoryMessages) {
  for (const Usable& row : {Usable{"t4", 14.75},
                            {"a10g", 21.99},
                            {"l4", 22.03},
                            {"rtx_4090", 23.65},
                            {"l40s", 44.42},
                            {"a100", 79.25}}) {
    const double usable = usable_memory(gpu(row.gpu)).value() / kGibibyte;
    EXPECT_NEAR(usable, row.total_capacity - 0.5, 0.25) << row.gpu;
  }
}

TEST(Memory, FitIsOfTheExpectedTotal) {
  MemoryEstimate memory;
  memory.usable = Bytes(100);
  memory.weights = Bytes(90);
  EXPECT_EQ(memory.fit(), Fit::fits);
  memory.weights = Bytes(91);
  EXPECT_EQ(memory.fit(), Fit::tight);
  memory.weights = Bytes(101);
  EXPECT_EQ(memory.fit(), Fit::does_not_fit);
}

TEST(Memory, TheLargestBatchFillsWhatTheWeightsLeave) {
  const auto workload = *parse_workload("workload batch=4\ngemm a bf16 m=4 n=8 k=8\n");
  MemoryEstimate memory;
  memory.usable = Bytes(100);
  memory.weights = Bytes(40);
  memory.activations = {Bytes(20), Bytes(20), Bytes(20)};  // 5 a sample: 10 in nine tenths less 40
  EXPECT_EQ(largest_batch(workload, memory, Fit::fits), 10);
}

TEST(Memory, CheckpointingKeepsTheInputsOfLayers) {
  // Two layers of 100 + 10 elements and a head of 5: inputs of both layers, one layer, the head.
  const auto workload =
      derive_training(*parse_workload("elementwise wide fp32 fn=relu elements=100 count=2\n"
                                      "elementwise out fp32 fn=relu elements=10 count=2\n"
                                      "elementwise head fp32 fn=relu elements=5\n"));
  EXPECT_EQ(kept_activations(workload, {.checkpointed = true}), Bytes(4 * (110 + 5) + 2 * 4 * 10));
}

TEST(Memory, AChunkedLossHoldsTheLogitsOfSomeTokens) {
  // The whole takes 2 + 8 bytes a logit; a chunk is as large as the input: 768 of 50304.
  const auto workload = derive_training(*parse_workload("gemm head bf16 m=1024 n=50304 k=768\n"));
  const auto kept = kept_activations(workload, {.chunked_loss = true});
  ASSERT_TRUE(kept);
  EXPECT_NEAR(kept->value(), 1024.0 * 768 * (2 + 8), 1);
  const auto narrow = derive_training(*parse_workload("gemm a bf16 m=1024 n=768 k=768\n"));
  EXPECT_FALSE(kept_activations(narrow, {.chunked_loss = true}));
}

std::vector<FitChange> changes_of(const Workload& workload, const char* name) {
  const TimeModel model(gpu(name));
  const MemoryEstimate memory = estimate_memory(workload, model.device());
  return changes_that_fit(workload, analyse(workload, model), model, memory);
}

// Eight layers of 8 GB; checkpointing computes them again, but not the output layer.
TEST(Memory, CheckpointingIsPricedWithTheRepeatedLayers) {
  const auto workload =
      derive_training(*parse_workload("elementwise wide bf16 fn=gelu elements=4000000000 count=8\n"
                                      "elementwise narrow bf16 fn=gelu elements=4096 count=8\n"
                                      "gemm head bf16 m=1024 n=50304 k=768\n"));
  const auto changes = changes_of(workload, "a100_sxm_40gb");
  const auto found = std::ranges::find(changes, std::vector{FitBy::checkpointing}, &FitChange::by);
  ASSERT_NE(found, changes.end());
  ASSERT_TRUE(found->cost);
  const TimeModel model(gpu("a100_sxm_40gb"));
  const Seconds layer = model.estimate(workload.ops[0])->time.expected +
                        model.estimate(workload.ops[1])->time.expected;
  EXPECT_NEAR(found->cost->expected.value(), 8 * layer.value(), 1e-9);
}

// 750 M parameters and about 9 GB of fp32 activations on 15.2 GB: autocast leaves 13.5 + 4.5,
// states in 8 bits leave 7.5 + 9, both leave 9 + 4.5.
TEST(Memory, TwoChangesThatAreNeededTogetherAreNamedTogether) {
  const auto workload =
      derive_training(*parse_workload("elementwise act fp32 fn=gelu elements=2144000000\n"
                                      "gemm a fp32 m=1 n=25000 k=30000\n"));
  const auto changes = changes_of(workload, "t4");
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes[0].by, (std::vector{FitBy::autocast, FitBy::eight_bit_states}));
  EXPECT_NEAR(changes[0].per_gpu.value(), 13.5e9, 0.2e9);
  EXPECT_NE(fit_text(changes, Seconds(1)).find("16-bit autocast and 8-bit optimizer states"),
            std::string::npos);
}

// 8 GiB of weights and 80 GiB of cache on 80 GB: half of the cache is enough.
TEST(Memory, ACacheInEightBitsTakesHalf) {
  const auto workload = *parse_workload(
      "workload mode=decode batch=1 sequence=8192 kv_cache_bytes=85899345920\n"
      "attention a bf16 batch=1 heads=32 kv_heads=8 q=1 kv=8192 d=128 count=32\n"
      "gemm up bf16 m=1 n=65536 k=65536\n");
  const auto changes = changes_of(workload, "h100");
  ASSERT_GE(changes.size(), 2U);
  EXPECT_EQ(changes[1].by, std::vector{FitBy::eight_bit_cache});
  EXPECT_NEAR(changes[1].per_gpu.value(), 85899345920.0 / 2 + 65536.0 * 65536 * 2, 0.1e9);
}

TEST(Memory, TheSmallerBatchIsTheLargestThatFits) {
  const auto workload =
      *parse_workload("workload batch=64\nelementwise act bf16 fn=relu elements=64000000000\n");
  const auto changes = changes_of(workload, "h100");
  ASSERT_FALSE(changes.empty());
  ASSERT_EQ(changes[0].by, std::vector{FitBy::smaller_batch});
  const auto fit = [&](std::int64_t batch) {
    return estimate_memory(*at_batch(workload, batch), gpu("h100")).fit();
  };
  EXPECT_EQ(fit(changes[0].batch), Fit::fits);
  EXPECT_NE(fit(changes[0].batch + 1), Fit::fits);
}

TEST(Memory, WeightsThatDoNotFitAreSpreadOrStoredInFewerBits) {
  // 34.4 billion parameters in bf16: 64 GiB on 48; 32 GiB in 8 bits or on each of two.
  const auto workload =
      *parse_workload("workload batch=1\ngemm a bf16 m=1 n=65536 k=65536 count=8\n");
  const TimeModel model(gpu("rtx_a6000"));
  const Analysis analysis = analyse(workload, model);
  const auto changes =
      changes_that_fit(workload, analysis, model, estimate_memory(workload, gpu("rtx_a6000")));
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].by, std::vector{FitBy::eight_bits});
  EXPECT_EQ(changes[1].by, std::vector{FitBy::four_bits});
  EXPECT_EQ(changes[2].by, std::vector{FitBy::tensor_parallel});
  EXPECT_EQ(changes[2].gpus, 2);
}

// 8 latent heads of 1: tensor parallelism leaves every GPU the whole cache.
TEST(Memory, ALatentCacheIsNotSpreadOverGpus) {
  const auto workload = *parse_workload(
      "workload mode=decode batch=8 sequence=4096 kv_cache_bytes=1e10\n"
      "gemm a bf16 m=8 n=65536 k=65536 count=12\n"
      "attention b bf16 batch=8 heads=128 kv_heads=1 q=1 kv=4096 d=576 dv=512 "
      "values_in_keys=1\n");
  const TimeModel model(gpu("h100"));
  const MemoryEstimate memory = estimate_memory(workload, model.device());
  const auto changes = changes_that_fit(workload, analyse(workload, model), model, memory);
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes.back().by, std::vector{FitBy::tensor_parallel});
  const double weights = 12.0 * 65536 * 65536 * 2;
  EXPECT_NEAR(changes.back().per_gpu.value(), weights / 2 + 1e10, 1e9);
}

std::vector<FitChange> ways_over_gpus(std::string_view text) {
  std::vector<FitChange> changes = changes_of(*parse_workload(text), "h100");
  std::erase_if(changes, [](const FitChange& change) { return change.gpus == 1; });
  return changes;
}

// Weights of 206 GB and a latent cache of 160 GB, on GPUs that hold 76 GB with room to spare. GPUs
// of a node share the weights only, nodes share the layers with their cache: 4 nodes hold 40 GB of
// it on each GPU, 2 nodes half of that in 8 bits. Of samples of 5 GB, 10 fit beside a 4th of 8-bit
// weights.
TEST(Memory, WhatNoNumberOfGpusHoldsIsMadeSmallerFirst) {
  const auto ways = ways_over_gpus(
      "workload mode=decode batch=16 sequence=65536 kv_cache_bytes=160e9\n"
      "gemm a bf16 m=16 n=65536 k=65536 count=24\n"
      "attention b bf16 batch=16 heads=128 kv_heads=1 q=1 kv=65536 d=576 dv=512 "
      "values_in_keys=1\n");
  ASSERT_EQ(ways.size(), 3U);
  EXPECT_EQ(ways[0].by, std::vector{FitBy::tensor_parallel});
  EXPECT_EQ(ways[0].gpus, 32);
  EXPECT_NEAR(ways[0].per_gpu.value(), 206e9 / 32 + 160e9 / 4, 1e9);
  EXPECT_EQ(ways[1].by, (std::vector{FitBy::tensor_parallel, FitBy::eight_bit_cache}));
  EXPECT_EQ(ways[1].gpus, 16);
  EXPECT_TRUE(ways[2].uses(FitBy::eight_bits));
  EXPECT_EQ(ways[2].gpus, 4);
  EXPECT_EQ(ways[2].batch, 10);
}

// 103 GB of weights and 210 GB of cache with 8 heads: 4 GPUs would hold 78 GB each, and 52 with
// half of the cache; 2 hold 66 GB with 4-bit weights besides.
TEST(Memory, OtherChangesThatHalveTheGpusAreNamed) {
  const auto ways = ways_over_gpus(
      "workload mode=decode batch=1 sequence=65536 kv_cache_bytes=210e9\n"
      "gemm a bf16 m=1 n=65536 k=65536 count=12\n"
      "attention b bf16 batch=1 heads=64 kv_heads=8 q=1 kv=65536 d=128\n");
  ASSERT_EQ(ways.size(), 3U);
  EXPECT_EQ(ways[0].by, std::vector{FitBy::tensor_parallel});
  EXPECT_EQ(ways[0].gpus, 8);
  EXPECT_EQ(ways[1].by, (std::vector{FitBy::tensor_parallel, FitBy::eight_bit_cache}));
  EXPECT_EQ(ways[1].gpus, 4);
  EXPECT_EQ(ways[2].gpus, 2);
}

// 12 heads on GPUs of 80 GB: 344 GB of weights would fit 8, which do not divide them.
TEST(Memory, TensorParallelGpusDivideTheHeads) {
  const auto ways = [](int heads) {
    return ways_over_gpus(
        fmt::format("workload batch=1\n"
                    "gemm a bf16 m=64 n=65536 k=65536 count=40\n"
                    "attention b bf16 batch=1 heads={0} kv_heads={0} q=64 d=64\n",
                    heads));
  };
  const auto of_12 = ways(12), of_16 = ways(16);
  EXPECT_NE(std::ranges::find(of_16, 8, &FitChange::gpus), of_16.end());
  for (const FitChange& way : of_12) EXPECT_LE(way.gpus, 4) << fit_text({way}, Seconds(1));
  // Three key-value heads are neither divided nor repeated evenly.
  const auto grouped = *parse_workload("attention b bf16 batch=1 heads=12 kv_heads=3 q=64 d=64\n");
  EXPECT_FALSE(divides_heads(grouped, 2));
  EXPECT_TRUE(divides_heads(grouped, 3));
  EXPECT_TRUE(divides_heads(grouped, 12));
}

TEST(Memory, MoreGpusThanANodeHoldStagesOfAPipeline) {
  const auto ways = ways_over_gpus(
      "workload batch=1\n"
      "gemm a bf16 m=64 n=65536 k=65536 count=96\n"
      "attention b bf16 batch=1 heads=64 kv_heads=8 q=64 d=128\n");
  ASSERT_FALSE(ways.empty());
  EXPECT_EQ(ways[0].gpus, 16);
  const std::string text = fit_text({ways[0]}, Seconds(1));
  EXPECT_NE(text.find("16 GPUs in nodes of 8, with tensor parallelism in a node and 2 pipeline "
                      "stages"),
            std::string::npos)
      << text;
}

// 168 GB of activations of 100,000 positions: 76 GB are 45,000 of them, if they grow in proportion.
TEST(Memory, OneLongInputComesInChunks) {
  const auto text = [](int query) {
    return fmt::format(
        "workload batch=1 sequence=100000\n"
        "elementwise act bf16 fn=gelu elements=80000000000\n"
        "attention b bf16 batch=1 heads=12 kv_heads=12 q={} kv=100000 d=64\n",
        query);
  };
  const auto changes = changes_of(*parse_workload(text(100000)), "h100");
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes[0].by, std::vector{FitBy::shorter_input});
  EXPECT_NEAR(to_double(changes[0].length), 45000, 1000);
  EXPECT_EQ(changes[0].fit, Fit::fits);
  for (const FitChange& change : changes) EXPECT_EQ(change.gpus, 1);  // they would share weights
  EXPECT_NE(fit_text(changes, Seconds(1)).find("positions, longer ones in chunks"),
            std::string::npos);
  // The other side of a translation has a length of its own.
  for (const FitChange& change : changes_of(*parse_workload(text(1500)), "h100")) {
    EXPECT_FALSE(change.uses(FitBy::shorter_input));
  }
}

// 72 GB of weights, gradients and states leave room for a fifth of the length.
TEST(Memory, ATrainedLengthIsNotCutToPieces) {
  const auto workload = derive_training(
      *parse_workload("workload batch=1 sequence=1000\n"
                      "gemm wide bf16 m=1000 n=65536 k=61000 from=x to=a\n"
                      "elementwise act bf16 fn=gelu elements=10000000000 from=a to=b\n"
                      "norm last bf16 fn=layer rows=1000 cols=10000000 from=b to=c\n"));
  for (const FitChange& change : changes_of(workload, "h100")) {
    EXPECT_FALSE(change.uses(FitBy::shorter_input)) << change.length;
  }
}

// Each block ends in an addition to its input; positions are added before the first layer.
TEST(Memory, EveryBlockEndsInASum) {
  const TimeModel model(gpu("h100"));
  const auto sums = [&](const char* text) {
    return tensor_parallel_sums(*parse_workload(text), model, 4)->expected.value();
  };
  Op op;
  op.body = Collective{CollectiveKind::all_reduce, 8192 * 4096, 4, Link::nvlink};
  op.dtypes = Dtypes(Dtype::bf16);
  const double one = model.estimate(op)->time.expected.value();
  EXPECT_NEAR(sums("elementwise positions bf16 fn=add elements=33554432 inputs=2\n"
                   "gemm in_proj bf16 m=8192 n=16384 k=4096 count=10\n"
                   "other scan bf16 fn=ssm_scan bytes=1000000 count=10\n"
                   "gemm out_proj bf16 m=8192 n=4096 k=8192 count=10\n"
                   "elementwise residual bf16 fn=add elements=33554432 inputs=2 count=10\n"),
              10 * one, 1e-9);
  EXPECT_NEAR(sums("attention a bf16 batch=1 heads=32 kv_heads=8 q=8192 d=128 count=5\n"
                   "gemm o_proj bf16 m=8192 n=4096 k=4096 count=5\n"
                   "elementwise residual bf16 fn=add elements=33554432 inputs=2 count=5\n"
                   "gemm down bf16 m=8192 n=4096 k=14336 count=5\n"
                   "elementwise residual bf16 fn=add elements=33554432 inputs=2 count=5\n"),
              10 * one, 1e-9);
  EXPECT_FALSE(tensor_parallel_sums(*parse_workload("gemm a bf16 m=8 n=8 k=8\n"), model, 4));
}

// 8 experts of 12.9 GB beside 3.2 GB of dense weights: 2 GPUs hold 55 GB each.
TEST(Memory, ExpertsAreSpreadOverGpus) {
  const auto ways = ways_over_gpus(
      "workload batch=2\n"
      "gemm dense bf16 m=512 n=5056 k=4096 count=78\n"
      "gemm up bf16 m=128 n=16384 k=4096 batch=8 count=48\n"
      "gemm down bf16 m=128 n=4096 k=16384 batch=8 count=48\n");
  const auto found = std::ranges::find(ways, std::vector{FitBy::expert_parallel}, &FitChange::by);
  ASSERT_NE(found, ways.end());
  EXPECT_EQ(found->gpus, 2);
  EXPECT_NEAR(found->per_gpu.value(), 2.0 * 78 * 5056 * 4096 + 2.0 * 48 * 8 * 16384 * 4096, 1e9);
  ASSERT_TRUE(found->cost);
  EXPECT_GT(found->cost->expected, Seconds());
  EXPECT_GT(found->pass_share, 0.4);
  EXPECT_LT(found->pass_share, 0.8);
}

// 18 bytes for each of 5.9 billion parameters: 26 GB on each of 4 GPUs, 53 on 2. Activations of
// 39 GB fit beside the former, the 8 GB that checkpointing keeps beside the latter.
TEST(Memory, ShardingStandsBesideCheckpointing) {
  const auto workload =
      derive_training(*parse_workload("workload batch=1\n"
                                      "elementwise wide bf16 fn=gelu elements=400000000 count=50\n"
                                      "gemm a bf16 m=8192 n=8192 k=14336 count=50\n"));
  const auto changes = changes_of(workload, "h100");
  const auto found = std::ranges::find(changes, std::vector{FitBy::sharding, FitBy::checkpointing},
                                       &FitChange::by);
  ASSERT_NE(found, changes.end());
  EXPECT_EQ(found->gpus, 2);
}

// States of recurrent layers are of one size at any length.
TEST(Memory, ARecurrentStateIsNoCache) {
  const auto workload = *parse_workload(
      "workload mode=decode batch=4 sequence=4096 kv_cache_bytes=1e9 recurrent_state_bytes=2e9\n"
      "gemm a bf16 m=4 n=4096 k=4096\n");
  const MemoryEstimate memory = estimate_memory(workload, gpu("h100"));
  EXPECT_EQ(memory.kv_cache.expected, Bytes(1e9));
  EXPECT_EQ(memory.recurrent_state.expected, Bytes(2e9));
  EXPECT_GT(memory.growing(), Bytes(3e9));
}

// Up to nine tenths of the memory, and up to all of it.
TEST(Memory, TheLargestBatchHasOneLimit) {
  const auto workload =
      *parse_workload("workload batch=1\nelementwise act bf16 fn=relu elements=1000000000\n");
  const MemoryEstimate memory = estimate_memory(workload, gpu("h100"));
  const auto roomy = largest_batch(workload, memory, Fit::fits);
  const auto tight = largest_batch(workload, memory, Fit::tight);
  ASSERT_TRUE(roomy && tight);
  EXPECT_NEAR(to_double(*roomy) / to_double(*tight), 0.9, 0.03);
  const auto fit = [&](std::int64_t batch) {
    return estimate_memory(*at_batch(workload, batch), gpu("h100")).fit();
  };
  EXPECT_EQ(fit(*roomy), Fit::fits);
  EXPECT_EQ(fit(*roomy + 1), Fit::tight);
  EXPECT_EQ(fit(*tight), Fit::tight);
  EXPECT_EQ(fit(*tight + 1), Fit::does_not_fit);
}

}  // namespace
}  // namespace rooftile
