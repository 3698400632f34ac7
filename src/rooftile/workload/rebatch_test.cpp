#include "rooftile/workload/rebatch.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Workload parsed(const std::string& text) {
  auto workload = parse_workload(text, "test");
  EXPECT_TRUE(workload) << (workload ? "" : to_string(workload.error()));
  return std::move(*workload);
}

std::string dims_at(const std::string& op, std::int64_t from, std::int64_t to) {
  const auto changed = at_batch(parsed("workload batch=" + std::to_string(from) + "\n" + op), to);
  return changed ? dims_text(changed->ops.front().body) : "none";
}

TEST(Rebatch, SamplesGrowAndWidthsStay) {
  // 8 samples of 128 tokens become 12.
  EXPECT_EQ(dims_at("gemm a bf16 m=1024 n=512 k=256", 8, 12), "m=1536 n=512 k=256");
  EXPECT_EQ(dims_at("conv a bf16 n=8 c=8 k=8 in=8x8 kernel=3x3", 8, 4),
            dims_at("conv a bf16 n=4 c=8 k=8 in=8x8 kernel=3x3", 4, 4));
  EXPECT_EQ(dims_at("elementwise a bf16 fn=relu elements=800", 8, 1), "fn=relu elements=100");
}

// A recorded operator says what it reads and writes: a mask of bytes beside, a table's gradient.
TEST(Rebatch, RecordedBytesGrowWithTheSamples) {
  Workload workload = parsed(
      "workload batch=8\nelementwise a fp32 fn=add elements=800\n"
      "embedding b fp32 vocab=1000 width=4 lookups=80\n"
      "optimizer c fp32 fn=adamw parameters=800");
  workload.ops[0].streams = {Walk::usual, 5600, 800};
  workload.ops[1].phase = Phase::wgrad;
  workload.ops[1].streams = {Walk::usual, 16000 + 1280,
                             0};  // 1000 rows of 16 bytes, and the batch's
  workload.ops[2].streams = {Walk::usual, 99, 0};
  const auto changed = at_batch(workload, 16);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->ops[0].streams, (Streams{Walk::usual, 11200, 1600}));
  EXPECT_EQ(changed->ops[1].streams, (Streams{Walk::usual, 16000 + 2560, 0}));
  EXPECT_EQ(changed->ops[2].streams, workload.ops[2].streams);
}

// Under autocast: the weight's cast, that of the batch, the product, its gradient and the cast of
// it.
TEST(Rebatch, CastsOfWeightsAndTheirGradientsStay) {
  Workload workload = parsed(
      "workload batch=8\ncast weight fp32 elements=4096\ncast batch fp32 elements=512\n"
      "gemm a bf16 m=8 n=64 k=64\ngemm a bf16 m=8 n=64 k=64\ncast gradient bf16 elements=4096\n"
      "cast loss bf16 elements=512");
  const auto set = [&](std::size_t i, std::vector<std::string> reads, std::string writes) {
    workload.ops[i].inputs = std::move(reads);
    workload.ops[i].outputs = {std::move(writes)};
  };
  set(0, {}, "w");
  set(1, {"x"}, "x16");
  set(2, {"x16"}, "y");
  for (std::size_t i = 3; i < 6; ++i) workload.ops[i].phase = Phase::dgrad;
  const auto changed = at_batch(workload, 16);
  ASSERT_TRUE(changed);
  const auto elements = [&](std::size_t i) {
    return std::get<Cast>(changed->ops[i].body).elements;
  };
  EXPECT_EQ(elements(0), 4096);
  EXPECT_EQ(elements(1), 1024);
  EXPECT_EQ(elements(4), 4096);
  EXPECT_EQ(elements(5), 1024);
}

TEST(Rebatch, SizesThatDoNotHoldTheBatchStay) {
  EXPECT_EQ(dims_at("gemm a bf16 m=100 n=512 k=256", 8, 16), "m=100 n=512 k=256");
  EXPECT_EQ(dims_at("optimizer a fp32 fn=adamw parameters=800", 8, 16), "fn=adamw parameters=800");
}

TEST(Rebatch, AttentionProductsGrowInNumber) {
  EXPECT_EQ(dims_at("gemm a bf16 m=128 n=128 k=64 batch=96 weight=activation", 8, 16),
            dims_at("gemm a bf16 m=128 n=128 k=64 batch=192 weight=activation", 8, 8));
}

TEST(Rebatch, ExpertsGetMoreTokensEach) {
  // 3 tokens for each of 64 experts at batch 2: 7.5 at batch 5, rounded up.
  EXPECT_EQ(dims_at("gemm a bf16 m=3 n=512 k=256 batch=64", 2, 5),
            dims_at("gemm a bf16 m=8 n=512 k=256 batch=64", 1, 1));
}

TEST(Rebatch, StatesWhatItDid) {
  Workload workload = parsed("workload batch=4 sequence=10\ngemm a bf16 m=40 n=8 k=8");
  workload.kv_cache_bytes = 1000;
  workload.recurrent_state_bytes = 300;
  const auto changed = at_batch(workload, 8);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->batch, 8);
  EXPECT_EQ(changed->kv_cache_bytes, 2000);
  EXPECT_EQ(changed->recurrent_state_bytes, 600);
  EXPECT_EQ(changed->sequence, 10);
}

TEST(Rebatch, NeedsAStatedBatchAndPossibleSizes) {
  EXPECT_EQ(at_batch(parsed("gemm a bf16 m=40 n=8 k=8"), 8), std::nullopt);
  EXPECT_EQ(dims_at("gemm a bf16 m=40 n=8 k=8", 1, 1 << 26), "none");
  EXPECT_EQ(dims_at("gemm a bf16 m=1000000000 n=8 k=8", 1, 1 << 20), "none");
}

}  // namespace
}  // namespace rooftile
