#include <gtest/gtest.h>

#include <string>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

struct Shape {
  std::int64_t batch, heads, kv_heads, query_len, kv_len, head_dim;
  std::int64_t window = 0;
  bool causal = true;
};

Op attention_of(const Shape& s, Dtype cache = Dtype::bf16, Phase phase = Phase::forward) {
  Attention attention;
  attention.batch = s.batch, attention.heads = s.heads, attention.kv_heads = s.kv_heads;
  attention.query_len = s.query_len, attention.kv_len = s.kv_len;
  attention.head_dim = attention.value_dim = s.head_dim;
  attention.window = s.window, attention.causal = s.causal;
  Op op;
  op.body = attention;
  op.dtypes = Dtypes(Dtype::bf16);
  op.dtypes.weight = cache;
  op.phase = phase;
  return op;
}

double seconds(const Device& device, const Op& op) {
  return TimeModel(device).estimate(op)->time.expected.value();
}

Device gpu(const char* name) { return *find_device(name); }

constexpr Shape kShapes[] = {{1, 32, 8, 1, 512, 128},       {1, 32, 8, 1, 65536, 128},
                             {64, 32, 8, 1, 4096, 128},     {2048, 8, 1, 1, 64, 128},
                             {16, 8, 8, 1, 2048, 64},       {8, 32, 32, 512, 512, 64},
                             {1, 32, 8, 16384, 16384, 128}, {4, 16, 2, 4096, 4096, 256, 1024},
                             {1, 4, 1, 300, 70000, 128},    {32, 12, 12, 197, 197, 64, 0, false}};

void scale_peaks(Device& device, double factor) {
  for (auto& [dtype, peak] : device.tensor_core_peak) peak = peak * factor;
  for (auto& [dtype, peak] : device.cuda_core_peak) peak = peak * factor;
}

TEST(FusedAttention, KernelsThatWereNeverMeasuredHaveWideRanges) {
  const TimeModel a100(gpu("a100"));
  Op op = attention_of({8, 16, 16, 1024, 1024, 64});
  const auto width = [&] {
    const Range<Seconds> time = a100.estimate(op)->time;
    return time.high / time.low;
  };
  EXPECT_LT(width(), 1.5);
  op.dtypes = Dtypes(Dtype::fp32);
  EXPECT_GT(width(), 4);
}

// Kernels in profiles of an H100, AMD-AGI/TraceLens (MIT): ViT-B/16 and a small BERT. No keys go to
// a cache, so one kernel runs.
TEST(FusedAttention, EncodersRunOneKernel) {
  const Device h100 = gpu("h100");
  EXPECT_NEAR(seconds(h100, attention_of({4, 12, 12, 197, 197, 64, 0, false})), 10.24e-6, 1e-6);
  EXPECT_NEAR(seconds(h100, attention_of({1, 8, 8, 141, 141, 64, 0, false})), 9.35e-6, 1e-6);
}

// In training nothing reads the keys again: the kernel that attends is the only one.
TEST(FusedAttention, TrainingStoresNoKeysInACache) {
  const TimeModel h100(gpu("h100"));
  const Op op = attention_of({1, 16, 16, 1024, 1024, 64});
  const TimeEstimate served = *h100.estimate(op);
  const TimeEstimate trained = *h100.without_cache_update().estimate(op);
  EXPECT_LT(trained.launch, served.launch);
  EXPECT_LT(trained.time.expected, served.time.expected - (served.launch - trained.launch));
  const Op encoder = attention_of({1, 16, 16, 1024, 1024, 64, 0, false});
  EXPECT_EQ(h100.without_cache_update().estimate(encoder)->time.expected,
            h100.estimate(encoder)->time.expected);
}

// More SMs may split the keys, whose shares must then be combined: up to 5 %.
TEST(FusedAttention, AFasterGpuIsNeverSlower) {
  for (const char* name : {"a100", "h100", "l40s", "t4"}) {
    const Device slow = gpu(name);
    Device bandwidth = slow, compute = slow, sms = slow, clock = slow, l2 = slow;
    bandwidth.dram_bandwidth = bandwidth.dram_bandwidth * 1.5;
    scale_peaks(compute, 1.5);
    scale_peaks(sms, 2);
    sms.sms *= 2;
    clock.boost_clock = clock.boost_clock * 1.5;
    l2.l2_size = l2.l2_size * 2;
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(std::string(name) + ", keys " + std::to_string(shape.kv_len));
      const Op op = attention_of(shape);
      const double before = seconds(slow, op);
      for (const Device& fast : {bandwidth, compute, clock, l2}) {
        EXPECT_LE(seconds(fast, op), before * 1.0001);
      }
      EXPECT_LE(seconds(sms, op), before * 1.05);
    }
  }
}

// Up to the rounding of splits.
TEST(FusedAttention, MoreKeysAreNeverFaster) {
  for (const char* name : {"a100", "h100"}) {
    for (Shape shape :
         {Shape{1, 32, 8, 1, 64, 128}, Shape{16, 8, 8, 1, 64, 64}, Shape{4, 32, 8, 64, 64, 128}}) {
      double before = 0;
      for (; shape.kv_len <= 1 << 17; shape.kv_len += shape.kv_len / 2) {
        const double now = seconds(gpu(name), attention_of(shape));
        EXPECT_GE(now, before * 0.95) << name << ", keys " << shape.kv_len;
        before = now;
      }
    }
  }
}

TEST(FusedAttention, LargerBatchesAreNeverFaster) {
  for (const char* name : {"a100", "h100"}) {
    for (Shape shape : {Shape{1, 32, 8, 1, 1024, 128}, Shape{1, 8, 8, 1024, 1024, 64}}) {
      double before = 0;
      for (; shape.batch <= 512; shape.batch *= 2) {
        const double now = seconds(gpu(name), attention_of(shape));
        EXPECT_GE(now, before) << name << ", batch " << shape.batch;
        before = now;
      }
    }
  }
}

double flop_rate(const Device& device, const Shape& s) {
  const double pairs = static_cast<double>(s.query_len) * static_cast<double>(s.kv_len);
  const double heads = static_cast<double>(s.batch * s.heads);
  return 4 * heads * pairs * static_cast<double>(s.head_dim) / seconds(device, attention_of(s));
}

// Dao, FlashAttention-2, 2023, abstract: 50-73 % of the A100's peak. Shah et al., FlashAttention-3,
// 2024, abstract: up to 740 TFLOP/s on H100 in FP16, 1.5 to 2 times FlashAttention-2's 35 % of 989.
TEST(FusedAttention, PublishedRates) {
  const Shape shape{2, 32, 32, 8192, 8192, 128, 0, false};
  EXPECT_GT(flop_rate(gpu("a100"), shape), 0.50 * 312e12);
  EXPECT_LT(flop_rate(gpu("a100"), shape), 0.73 * 312e12);
  EXPECT_GT(flop_rate(gpu("h100"), shape), 1.5 * 0.35 * 989e12);
  EXPECT_LT(flop_rate(gpu("h100"), shape), 740e12);
}

TEST(FusedAttention, WindowsSaveTime) {
  for (const char* name : {"a100", "h100"}) {
    const Device device = gpu(name);
    EXPECT_LT(seconds(device, attention_of({1, 32, 8, 16384, 16384, 128, 1024})),
              0.4 * seconds(device, attention_of({1, 32, 8, 16384, 16384, 128})))
        << name;
  }
}

// Caches of gigabytes, of which nothing stays in L2.
TEST(FusedAttention, DecodeReadsTheKeysOfItsWindow) {
  const TimeModel h100(gpu("h100"));
  const auto floor = [&](std::int64_t window) {
    return h100.estimate(attention_of({1024, 8, 8, 1, 4096, 128, window}))->floor;
  };
  EXPECT_NEAR(floor(2048) / floor(1024), 2, 1e-6);
  EXPECT_NEAR(floor(4096) / floor(1024), 4, 1e-6);
  EXPECT_EQ(floor(4096), floor(0));
}

// Cache bytes halve; below the launch floor nothing is gained.
TEST(FusedAttention, EightBitCachesHelpLongDecodes) {
  const Device h100 = gpu("h100");
  const Shape large{64, 32, 8, 1, 16384, 128}, small{1, 8, 8, 1, 64, 128};
  EXPECT_LT(seconds(h100, attention_of(large, Dtype::fp8)),
            0.7 * seconds(h100, attention_of(large)));
  EXPECT_GT(seconds(h100, attention_of(small, Dtype::fp8)), seconds(h100, attention_of(small)));
}

// Five products instead of two, at no better rate; Dao, FlashAttention-2: backward 2.5 times the
// flop.
TEST(FusedAttention, BackwardTakesTwoToFourTimesAsLong) {
  const Shape shape{8, 32, 32, 4096, 4096, 128};
  for (const char* name : {"a100", "h100"}) {
    const double forward = seconds(gpu(name), attention_of(shape));
    const double backward = seconds(gpu(name), attention_of(shape, Dtype::bf16, Phase::dgrad));
    EXPECT_GT(backward, 2 * forward) << name;
    EXPECT_LT(backward, 4 * forward) << name;
  }
}

TEST(FusedAttention, ManyHeadSizesAndFewSmsKeepSensibleTimes) {
  Device slice = gpu("a100");
  slice.sms = 14;
  slice.tensor_core_peak[Dtype::bf16] = slice.tensor_core_peak[Dtype::bf16] * (14.0 / 108);
  for (const std::int64_t size : {16, 40, 80, 96, 112, 160, 192, 224, 576}) {
    const Op op = attention_of({8, 16, 16, 1024, 1024, size});
    const double whole = seconds(gpu("a100"), op);
    EXPECT_GT(whole, 5e-6) << size;
    EXPECT_LT(whole, 5e-3) << size;
    EXPECT_GT(seconds(slice, op), 2 * whole) << size;
  }
}

}  // namespace
}  // namespace rooftile
