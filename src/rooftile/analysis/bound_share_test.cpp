#include "rooftile/analysis/bound_share.h"

#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

OpAnalysis waiting(Bound bound, double seconds) {
  OpAnalysis op;
  op.time.emplace();
  op.time->bound = bound;
  op.time->time = {Seconds(seconds / 2), Seconds(seconds), Seconds(seconds * 2)};
  return op;
}

Op run(std::int64_t count) {
  Op op;
  op.count = count;
  return op;
}

TEST(BoundShare, CountsAllRunsOfAnOperation) {
  Workload workload;
  workload.ops = {run(3), run(1), run(2), run(2)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::math, 1), waiting(Bound::memory, 5), waiting(Bound::latency, 0.5),
                  waiting(Bound::communication, 0.5)};
  // 3 s of math, 5 of memory, 1 of latency, 1 of communication: 10 s.
  EXPECT_EQ(bound_share(workload, analysis, *find_device("a100")),
            (BoundShare{0.3, 0.5, 0.1, 0.1}));
}

TEST(BoundShare, LeavesOutOperationsWithoutATime) {
  Workload workload;
  workload.ops = {run(1), run(100)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::memory, 2), OpAnalysis{}};
  EXPECT_EQ(bound_share(workload, analysis, *find_device("a100")), (BoundShare{0, 1, 0, 0}));
}

TEST(BoundShare, RecordedTimeOfAnUnknownOperationIsOther) {
  Workload workload;
  workload.ops = {run(1), run(1)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::math, 4), OpAnalysis{}};
  analysis.ops[0].measured = Seconds(3);
  analysis.ops[1].measured = Seconds(1);
  EXPECT_EQ(bound_share(workload, analysis, *find_device("a100")), (BoundShare{0.75, 0, 0, 0.25}));
}

TEST(BoundShare, NothingIsKnownWithoutTimes) {
  Workload workload;
  workload.ops = {run(1)};
  Analysis analysis;
  analysis.ops = {OpAnalysis{}};
  EXPECT_EQ(bound_share(workload, analysis, *find_device("a100")), BoundShare{});
}

Bound limit(const char* text) {
  const TimeModel model(*find_device("a100"));
  const Workload workload = *parse_workload(text);
  return limit_of(workload.ops[0], analyse(workload, model).ops[0], model.device());
}

// Shares of the second that the operation takes: of the peak and of the bandwidth. A fifth is seen.
TEST(BoundShare, TheLimitIsWhatTakesAFifthOfTheTime) {
  struct Case {
    Bound bound;
    double flop, bytes;
    Bound limit;
  };
  const Device device = *find_device("a100");
  Op op;
  op.body = Gemm{.m = 8, .n = 8, .k = 8};
  op.dtypes = Dtypes(Dtype::fp16);
  for (const Case& c : {Case{Bound::math, 0.21, 0.19, Bound::math},
                        {Bound::math, 0.21, 0.3, Bound::math},
                        {Bound::math, 0.19, 0.21, Bound::memory},
                        {Bound::math, 0.19, 0.19, Bound::latency},
                        {Bound::math, 0, 0, Bound::math},
                        {Bound::memory, 0.21, 0.19, Bound::math},
                        {Bound::memory, 0.21, 0.21, Bound::memory},
                        {Bound::memory, 0.19, 0.19, Bound::memory},
                        {Bound::latency, 0.3, 0.1, Bound::latency},
                        {Bound::communication, 0.3, 0.1, Bound::communication}}) {
    OpAnalysis analysis = waiting(c.bound, 1);
    analysis.cost.flop = Flop(device.tensor_core_peak.at(Dtype::fp16).value() * c.flop);
    analysis.cost.bytes = Bytes(device.dram_bandwidth.value() * c.bytes);
    EXPECT_EQ(limit_of(op, analysis, device), c.limit) << c.flop << " " << c.bytes;
  }
  EXPECT_EQ(limit_of(op, OpAnalysis{}, device), Bound::unknown);
}

// 16 tokens: 16 flop per byte, the GPU needs 153. The odd width makes the kernel slow, but what it
// waits for are the 33.5 MB of weights.
TEST(BoundShare, FewTokensWaitForTheirWeightsAtAnyWidth) {
  EXPECT_EQ(limit("gemm fc fp16 m=16 n=4096 k=4096"), Bound::memory);
  EXPECT_EQ(limit("gemm fc fp16 m=16 n=4095 k=4096"), Bound::memory);
}

// 50 steps, one after the other, of which none fills the GPU.
TEST(BoundShare, StepsOfARecurrentLayerWaitForEachOther) {
  EXPECT_EQ(limit("recurrent r fp16 cell=lstm batch=64 seq=50 input=1000 hidden=1000"),
            Bound::latency);
}

// 8192 tokens: 3280 flop per byte.
TEST(BoundShare, LongAttentionIsMathBound) {
  const TimeModel model(*find_device("h100"));
  const Workload workload = *parse_workload(
      "attention a bf16 batch=32 heads=32 kv_heads=8 q=8192 kv=8192 d=128 causal=1");
  EXPECT_EQ(limit_of(workload.ops[0], analyse(workload, model).ops[0], model.device()),
            Bound::math);
}

TEST(BoundShare, LargeGemmsAreMathBound) {
  EXPECT_EQ(limit("gemm fc fp16 m=4096 n=4096 k=4096"), Bound::math);
  EXPECT_EQ(limit("gemm fc fp16 m=4096 n=4095 k=4096"), Bound::math);
}

}  // namespace
}  // namespace rooftile
