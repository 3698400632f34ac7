#include "rooftile/analysis/time/time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

Op op_of(Body body, Dtype dtype = Dtype::bf16, Phase phase = Phase::forward) {
  Op op;
  op.body = std::move(body);
  op.dtypes = Dtypes(dtype);
  op.phase = phase;
  return op;
}

Op gemm_op(std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype = Dtype::bf16) {
  Gemm gemm;
  gemm.m = m, gemm.n = n, gemm.k = k;
  return op_of(gemm, dtype);
}

Op attention_op(std::int64_t query_len, std::int64_t kv_len, bool causal = true,
                bool fused = true) {
  Attention attention;
  attention.batch = 8, attention.heads = 32, attention.kv_heads = 8;
  attention.query_len = query_len, attention.kv_len = kv_len;
  attention.head_dim = attention.value_dim = 128;
  attention.causal = causal, attention.fused = fused;
  return op_of(attention);
}

Op conv_op(std::int64_t c, std::int64_t k, std::int64_t groups, TensorLayout layout,
           Dtype dtype = Dtype::fp16) {
  Convolution conv;
  conv.n = 32, conv.c = c, conv.k = k, conv.groups = groups, conv.layout = layout;
  conv.input = {56, 56}, conv.kernel = {3, 3};
  conv.pad_begin = conv.pad_end = {1, 1};
  return op_of(conv, dtype);
}

Op lstm_op(std::int64_t batch, std::int64_t seq, std::int64_t hidden) {
  Recurrent rnn;
  rnn.batch = batch, rnn.seq = seq, rnn.input = hidden, rnn.hidden = hidden;
  return op_of(rnn, Dtype::fp16);
}

// DeepBench on V100 SXM2, cuBLAS of CUDA 10.1: 89 to 112 TFLOP/s for large aligned fp16 products.
// The PyTorch documentation (CUDA semantics) has 84 for 4096 x 4096 x 4096.
TEST(TimeModel, LargeHalfProductsOnV100) {
  const TimeModel model(*find_device("v100_sxm2"));
  struct Row {
    std::int64_t m, n, k;
    double microseconds;
  };
  for (const Row& row : {Row{48000, 1024, 2048, 1881}, Row{7000, 4096, 4096, 2092},
                         Row{24000, 512, 2816, 679}, Row{7000, 2048, 2048, 599}}) {
    const auto time = model.estimate(gemm_op(row.m, row.n, row.k, Dtype::fp16))->time;
    EXPECT_NEAR(time.expected.value() / (row.microseconds * 1e-6), 1, 0.12) << row.m;
  }
  const auto documented = model.estimate(gemm_op(4096, 4096, 4096, Dtype::fp16))->time;
  EXPECT_LT(documented.low.value(), 1639.4e-6);
  EXPECT_GT(documented.high.value(), 1639.4e-6);
}

// One of every family, large enough not to hide behind the launch.
std::vector<Op> every_family() {
  return {gemm_op(4096, 4096, 4096),
          gemm_op(16, 4096, 4096),
          gemm_op(2048, 2048, 2048, Dtype::fp32),
          conv_op(256, 256, 1, TensorLayout::nhwc),
          conv_op(256, 256, 1, TensorLayout::nchw),
          conv_op(256, 256, 256, TensorLayout::nhwc),
          conv_op(256, 256, 1, TensorLayout::nchw, Dtype::fp32),
          attention_op(2048, 2048),
          attention_op(2048, 2048, true, false),
          attention_op(1, 4096),
          lstm_op(64, 50, 1024),
          lstm_op(60, 50, 1000),
          op_of(Normalization{NormKind::layer, 8192, 4096}),
          op_of(Softmax{8192, 4096}),
          op_of(Elementwise{"gelu", 1 << 26, 1}),
          op_of(Reduction{"mean", 1 << 26, 1024}),
          op_of(Embedding{50257, 1024, 65536}),
          op_of(LayoutConversion{1 << 26, {}}),
          op_of(Cast{1 << 26}),
          op_of(OptimizerStep{OptimizerKind::adamw, 1 << 26}),
          op_of(Collective{CollectiveKind::all_reduce, 1 << 26, 8, Link::nvlink}),
          op_of(Other{"fft", 0, 1 << 28})};
}

double time_of(const TimeModel& model, const Op& op) {
  return model.estimate(op)->time.expected.value();
}

class EveryGpu : public testing::Test {
 protected:
  const std::vector<Device>& devices_ = built_in_devices();
};

TEST_F(EveryGpu, EstimatesAreOrderedRangesOfTheirParts) {
  for (const Device& device : devices_) {
    const TimeModel model(device);
    for (const Op& op : every_family()) {
      SCOPED_TRACE(device.id + " " + std::string(kind_name(op.body)));
      const auto estimate = model.estimate(op);
      ASSERT_TRUE(estimate);
      const double total = estimate->time.expected.value();
      ASSERT_TRUE(std::isfinite(total));
      EXPECT_GT(total, 1e-6);
      EXPECT_LT(total, 10.0);
      EXPECT_LT(estimate->time.low, estimate->time.expected);
      EXPECT_GT(estimate->time.high, estimate->time.expected);
      EXPECT_NE(estimate->bound, Bound::unknown);
      const double slack = total * 1.001;
      for (const Seconds part :
           {estimate->launch, estimate->compute, estimate->memory, estimate->power}) {
        EXPECT_GE(part.value(), 0);
        EXPECT_LE(part.value(), slack);
      }
      // The parts overlap at best fully and at worst not at all.
      const Seconds all = estimate->launch + estimate->compute + estimate->memory + estimate->power;
      EXPECT_GE(all.value(), total * 0.7);
    }
  }
}

TEST_F(EveryGpu, UnseenGenerationsSpanAtLeastAFactorOfOneAndAHalf) {
  for (const Device& device : devices_) {
    const TimeModel model(device);
    if (model.calibrated()) continue;
    const Range<Seconds> time = model.estimate(gemm_op(4096, 4096, 4096, Dtype::fp16))->time;
    EXPECT_GE(time.high / time.expected, device.compute_capability >= 120 ? 1.3 : 1.4) << device.id;
  }
}

TEST(TimeModel, CalibratedGenerations) {
  const auto calibrated = [](const char* name) {
    return TimeModel(*find_device(name)).calibrated();
  };
  EXPECT_TRUE(calibrated("a100"));
  EXPECT_TRUE(calibrated("h100"));
  EXPECT_TRUE(calibrated("h200"));
  EXPECT_TRUE(calibrated("l40s"));
  EXPECT_FALSE(calibrated("b200"));
  EXPECT_TRUE(calibrated("v100"));
  EXPECT_TRUE(TimeModel(*find_device("v100")).calibrated(Dtype::fp32));
  EXPECT_TRUE(TimeModel(*find_device("v100")).calibrated(Dtype::fp16));
  EXPECT_FALSE(TimeModel(*find_device("t4")).calibrated(Dtype::fp16));
}

// In log: 1.3 times on a sister of the GPU of the fit, twice at other clocks than its data sheet's.
TEST(TimeModel, RangesWidenAwayFromTheFittedGpu) {
  const Op op = op_of(Elementwise{"gelu", 1 << 28, 1});
  const auto width = [&](const Device& device) {
    const Range<Seconds> time = TimeModel(device).estimate(op)->time;
    return std::log(time.high / time.expected);
  };
  const Device h100 = *find_device("h100_sxm");
  EXPECT_NEAR(width(*find_device("h200_sxm")) / width(h100), 1.3, 1e-6);
  EXPECT_NEAR(TimeModel(*find_device("h200_sxm")).estimate(op)->unshared, 1 / std::sqrt(1.3), 1e-9);
  EXPECT_EQ(TimeModel(h100).estimate(op)->unshared, 1);
  Device slower = h100;
  slower.time_model = R"({"pace": {"sm_clock": 1, "memory_clock": 0.99}})";
  EXPECT_NEAR(width(slower) / width(h100), 2, 1e-6);
  slower.time_model = R"({"pace": {"sm_clock": 0.99, "memory_clock": 1}})";
  EXPECT_NEAR(width(slower) / width(h100), 2, 1e-6);
}

struct Change {
  const char* name;
  void (*apply)(Device&);
};

// More of everything that a faster GPU has.
constexpr Change kFaster[] = {
    {"bandwidth", [](Device& d) { d.dram_bandwidth = d.dram_bandwidth * 1.5; }},
    {"compute",
     [](Device& d) {
       for (auto& [dtype, peak] : d.tensor_core_peak) peak = peak * 1.5;
       for (auto& [dtype, peak] : d.cuda_core_peak) peak = peak * 1.5;
       if (d.power_limit) d.power_limit = *d.power_limit * 1.5;
     }},
    {"SMs",
     [](Device& d) {
       for (auto& [dtype, peak] : d.tensor_core_peak) peak = peak * 2;
       for (auto& [dtype, peak] : d.cuda_core_peak) peak = peak * 2;
       if (d.power_limit) d.power_limit = *d.power_limit * 2;
       d.sms *= 2;
     }},
};

TEST(TimeModel, AFasterGpuIsNeverSlower) {
  for (const char* name : {"a100", "h100", "l40s", "v100", "t4", "p100"}) {
    const Device slow = *find_device(name);
    for (const Change& change : kFaster) {
      Device fast = slow;
      change.apply(fast);
      for (const Op& op : every_family()) {
        EXPECT_LE(time_of(TimeModel(fast), op), time_of(TimeModel(slow), op) * 1.02)
            << name << ", more " << change.name << ": " << kind_name(op.body);
      }
    }
  }
}

// Up to what the choice among tiles gains: a larger product may find a better one.
TEST(TimeModel, TimeGrowsWithEveryDimension) {
  constexpr double kTileSlack = 1.25;
  for (const char* name : {"a100", "h100", "l40s"}) {
    const TimeModel model(*find_device(name));
    for (std::int64_t size = 64; size <= 8192; size *= 2) {
      const double base = time_of(model, gemm_op(size, 4096, 4096));
      EXPECT_LE(base, kTileSlack * time_of(model, gemm_op(2 * size, 4096, 4096)));
      EXPECT_LE(time_of(model, gemm_op(4096, size, 4096)),
                kTileSlack * time_of(model, gemm_op(4096, 2 * size, 4096)));
      EXPECT_LE(time_of(model, gemm_op(4096, 4096, size)),
                kTileSlack * time_of(model, gemm_op(4096, 4096, 2 * size)));
    }
  }
}

// S. Bekman, Machine Learning Engineering, "Accelerators": best measured bf16 rates, TFLOP/s, at
// the shape where each was found.
TEST(TimeModel, BestMeasuredRates) {
  struct Case {
    const char* gpu;
    std::int64_t m, n, k;
    double tflop_per_s;
  };
  constexpr Case kCases[] = {{"a100_sxm_80gb", 1024, 10240, 5120, 271.2},
                             {"h100_sxm", 2048, 2048, 13312, 794.5}};
  for (const Case& c : kCases) {
    const Range<Seconds> time =
        TimeModel(*find_device(c.gpu)).estimate(gemm_op(c.m, c.n, c.k))->time;
    const double flop = 2.0 * static_cast<double>(c.m * c.n) * static_cast<double>(c.k);
    const Seconds measured(flop / (c.tflop_per_s * 1e12));
    EXPECT_LE(time.low, measured) << c.gpu;
    EXPECT_GE(time.high, measured) << c.gpu;
  }
}

// PyTorch documentation, "CUDA semantics": 10240 cubed on A100, 0.016 s in TF32, 0.11 s in FP32.
TEST(TimeModel, Tf32AgainstFp32) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_NEAR(time_of(a100, gemm_op(10240, 10240, 10240, Dtype::tf32)), 0.016, 0.003);
  EXPECT_NEAR(time_of(a100, gemm_op(10240, 10240, 10240, Dtype::fp32)), 0.11, 0.02);
}

TEST(TimeModel, UnsupportedPrecisionsRunInAWiderOne) {
  const TimeModel v100(*find_device("v100_sxm2")), a100(*find_device("a100_sxm_80gb"));
  const double bf16 = time_of(v100, gemm_op(4096, 4096, 4096, Dtype::bf16));
  EXPECT_GT(bf16, 4 * time_of(v100, gemm_op(4096, 4096, 4096, Dtype::fp16)));
  const double fp8 = time_of(a100, gemm_op(4096, 4096, 4096, Dtype::fp8));
  EXPECT_NEAR(fp8 / time_of(a100, gemm_op(4096, 4096, 4096, Dtype::fp16)), 1.0, 0.1);
}

TEST(TimeModel, CausalMasksSaveHalfOfLongAttention) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  const double all = time_of(a100, attention_op(8192, 8192, false));
  EXPECT_NEAR(time_of(a100, attention_op(8192, 8192, true)) / all, 0.5, 0.05);
}

TEST(TimeModel, UnfusedAttentionPaysForItsScores) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_GT(time_of(a100, attention_op(2048, 2048, true, false)),
            2 * time_of(a100, attention_op(2048, 2048, true, true)));
}

TEST(TimeModel, PersistentRecurrentLayersAreFaster) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_LT(time_of(a100, lstm_op(64, 50, 1024)), time_of(a100, lstm_op(65, 50, 1024)));
}

// NVIDIA Convolutional Layers User's Guide: Tensor Core kernels want NHWC, NCHW is converted.
TEST(TimeModel, ChannelsFirstPaysForConversions) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_GT(time_of(a100, conv_op(256, 256, 1, TensorLayout::nchw)),
            1.1 * time_of(a100, conv_op(256, 256, 1, TensorLayout::nhwc)));
  const TimeModel v100(*find_device("v100_sxm2"));
  EXPECT_DOUBLE_EQ(time_of(v100, conv_op(256, 256, 1, TensorLayout::nchw, Dtype::fp32)),
                   time_of(v100, conv_op(256, 256, 1, TensorLayout::nhwc, Dtype::fp32)));
}

// What the convolution itself takes is the same before and after, so its error is no error of the
// saving: that is a share of the conversions.
TEST(TimeModel, ALayoutChangeSavesConversionsAlone) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  const auto before = a100.estimate(conv_op(256, 256, 1, TensorLayout::nchw));
  const auto after = a100.estimate(conv_op(256, 256, 1, TensorLayout::nhwc));
  const Range<Seconds> saving = estimate_saving(*before * 3 + *before, *after * 3 + *after);
  EXPECT_GT(saving.low.value(), 0);
  EXPECT_NEAR(saving.low / saving.expected, 0.3, 1e-6);
  EXPECT_NEAR(saving.high / saving.expected, 1.8, 1e-6);
  EXPECT_NEAR(saving.expected / (before->time.expected - after->time.expected), 4, 1e-6);
}

// Two launches and a small product a step: about 10 us, 50 us where launches are not hidden.
TEST(TimeModel, AStepOfASmallLstmTakesTensOfMicroseconds) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  Op op = lstm_op(10, 50, 200);
  op.dtypes = Dtypes(Dtype::fp32);
  const Range<Seconds> time = a100.estimate(op)->time;
  EXPECT_LT(time.low.value() / 50, 10e-6);
  EXPECT_GT(time.expected.value() / 50, 10e-6);
  EXPECT_LT(time.expected.value() / 50, 15e-6);
  EXPECT_GT(time.high.value() / 50, 40e-6);
}

// torch.backends.cudnn.allow_tf32 is on by default, torch.backends.cuda.matmul.allow_tf32 is not.
TEST(TimeModel, ConvolutionsInFp32RunInTf32WhereTheGpuHasIt) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_DOUBLE_EQ(time_of(a100, conv_op(256, 256, 1, TensorLayout::nhwc, Dtype::fp32)),
                   time_of(a100, conv_op(256, 256, 1, TensorLayout::nhwc, Dtype::tf32)));
}

TEST(TimeModel, NothingIsKnownOfOthersWithoutBytes) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_FALSE(a100.estimate(op_of(Other{"unique", 0, 0})));
}

// NVIDIA nccl-tests, "Performance": an all-reduce moves twice what an all-gather does.
TEST(TimeModel, AllReduceMovesTwice) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  const auto time = [&](CollectiveKind kind) {
    return time_of(a100, op_of(Collective{kind, 1 << 30, 8, Link::nvlink}));
  };
  EXPECT_NEAR(time(CollectiveKind::all_reduce) / time(CollectiveKind::all_gather), 2.0, 0.05);
}

TEST(Saving, HoldsTheDifferenceOfExpectedTimes) {
  const TimeModel h100(*find_device("h100_sxm"));
  const TimeEstimate odd = *h100.estimate(gemm_op(16384, 50257, 4096));
  const TimeEstimate even = *h100.estimate(gemm_op(16384, 50304, 4096));
  const Range<Seconds> saving = estimate_saving(odd, even);
  EXPECT_EQ(saving.expected, odd.time.expected - even.time.expected);
  EXPECT_GT(saving.low.value(), 0);
  EXPECT_LT(saving.low, saving.expected);
  EXPECT_GT(saving.high, saving.expected);
  EXPECT_LT(saving.high, odd.time.high);
}

TEST(Saving, SmallChangesAreNotCertain) {
  const TimeModel h100(*find_device("h100_sxm"));
  const Range<Seconds> saving = estimate_saving(*h100.estimate(gemm_op(4096, 4096, 4096)),
                                                *h100.estimate(gemm_op(4096, 4096, 4032)));
  EXPECT_GT(saving.expected.value(), 0);
  EXPECT_LE(saving.low.value(), 0);
}

TEST(Saving, NoChangeSavesNothing) {
  const TimeModel h100(*find_device("h100_sxm"));
  const TimeEstimate same = *h100.estimate(gemm_op(4096, 4096, 4096));
  const Range<Seconds> saving = estimate_saving(same, same);
  EXPECT_EQ(saving.expected.value(), 0);
  EXPECT_LE(saving.low.value(), 0);
  EXPECT_GE(saving.high.value(), 0);
}

}  // namespace
}  // namespace rooftile
