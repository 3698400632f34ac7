#include <gtest/gtest.h>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

double seconds(const char* gpu, Body body, Dtype dtype = Dtype::fp32,
               Phase phase = Phase::forward) {
  Op op;
  op.body = std::move(body);
  op.dtypes = Dtypes(dtype);
  op.phase = phase;
  return TimeModel(*find_device(gpu)).estimate(op)->time.expected.value();
}

constexpr std::int64_t kLarge = std::int64_t{1} << 28;

// Bytes over time against the data sheet: public measurements of large elementwise kernels give 75
// to 95 % on these GPUs.
TEST(StreamTime, LargeElementwiseKernelsNearTheDataSheet) {
  for (const char* gpu : {"p100", "p4", "v100_pcie_32gb", "t4", "a100_pcie_40gb", "h100"}) {
    const double bandwidth = find_device(gpu)->dram_bandwidth.value();
    const double share = 8.0 * kLarge / seconds(gpu, Elementwise{"relu", kLarge, 1}) / bandwidth;
    EXPECT_GE(share, 0.72) << gpu;
    EXPECT_LE(share, 0.96) << gpu;
  }
}

// PyTorch adds into 64 bits one element at a time, whatever the order.
TEST(StreamTime, SumsThatWidenToLongIntegersAreSlow) {
  const auto sum = [](Dtype input) {
    Op op;
    op.body = Reduction{"sum", kLarge, kLarge / 4096};
    op.dtypes = Dtypes(input);
    op.dtypes.output = Dtype::int64;
    op.streams.walk = Walk::contiguous;
    return TimeModel(*find_device("a100")).estimate(op)->time.expected.value();
  };
  EXPECT_GT(sum(Dtype::int32), 0.6 * sum(Dtype::int64));
}

// Rows of up to 1,024 elements stay in registers; longer ones are read again. Those of 1,024 have
// few threads for each element, so shorter ones are compared.
TEST(StreamTime, LongSoftmaxRowsAreReadAgain) {
  for (const char* gpu : {"p100", "v100_pcie_32gb", "a100_pcie_40gb"}) {
    EXPECT_GT(seconds(gpu, Softmax{kLarge / 4096, 4096}),
              1.1 * seconds(gpu, Softmax{kLarge / 256, 256}))
        << gpu;
  }
}

// Kernels in profiles of an H100, AMD-AGI/TraceLens (MIT): what a layer norm takes at least.
TEST(StreamTime, SmallNormsWaitForTheirRows) {
  const auto norm = [](std::int64_t rows, std::int64_t cols) {
    return seconds("h100", Normalization{NormKind::layer, rows, cols}, Dtype::bf16);
  };
  EXPECT_NEAR(norm(141, 512), 3.09e-6, 0.4e-6);
  EXPECT_NEAR(norm(788, 768), 4.45e-6, 0.4e-6);
}

// A block for each row: heads of 128 cost several times their traffic. Measured on B200 with one
// warp a row: 345 us (flashinfer-ai/flashinfer, issue 2396).
TEST(StreamTime, ShortNormRowsCostMoreThanTheirTraffic) {
  const double bytes = 4.0 * 327680 * 128;
  const double time = seconds("b200", Normalization{NormKind::rms, 327680, 128}, Dtype::bf16);
  EXPECT_GT(time, 5 * bytes / find_device("b200")->dram_bandwidth.value());
  EXPECT_LT(time, 2 * 345e-6);
}

// A thread for each element looks at its neighbours: no block for each row.
TEST(StreamTime, LocalResponseNormsHaveNoRows) {
  EXPECT_LT(seconds("a100", Normalization{NormKind::local_response, 46656, 96}),
            0.5 * seconds("a100", Normalization{NormKind::layer, 46656, 96}));
}

// The gradient reads and writes more than the forward pass, in two kernels.
TEST(StreamTime, NormGradientsTakeTwoKernels) {
  const Normalization norm{NormKind::layer, 65536, 1024};
  const double forward = seconds("v100_pcie_32gb", norm);
  EXPECT_GT(seconds("v100_pcie_32gb", norm, Dtype::fp32, Phase::dgrad), 1.8 * forward);
}

TEST(StreamTime, RowsConvertedOneByOneCostTimeWhenShort) {
  const double any = seconds("h100", Cast{1 << 20, 0}, Dtype::bf16);
  EXPECT_GT(seconds("h100", Cast{1 << 20, 1 << 15}, Dtype::bf16), 2 * any);
  EXPECT_NEAR(seconds("h100", Cast{kLarge, 1 << 13}, Dtype::bf16) /
                  seconds("h100", Cast{kLarge, 0}, Dtype::bf16),
              1, 0.05);
}

TEST(StreamTime, FewLongRowsLeaveSmsIdle) {
  EXPECT_GT(seconds("a100_pcie_40gb", Softmax{4, kLarge / 4}),
            5 * seconds("a100_pcie_40gb", Softmax{4096, kLarge / 4096}));
}

TEST(StreamTime, MoreSmsAreNeverSlowerForFewRows) {
  Device device = *find_device("h100");
  Op op;
  op.body = Cast{161 * 65536, 161};
  op.dtypes = Dtypes(Dtype::bf16);
  Seconds before(1);
  for (device.sms = 20; device.sms <= 200; ++device.sms) {
    const Seconds time = TimeModel(device).estimate(op)->time.expected;
    EXPECT_LE(time, before) << device.sms;
    before = time;
  }
}

double walked(const char* gpu, Body body, Dtype dtype, const Streams& streams) {
  Op op;
  op.body = std::move(body);
  op.dtypes = Dtypes(dtype);
  op.streams = streams;
  return TimeModel(*find_device(gpu)).estimate(op)->time.expected.value();
}

// Kernels in traces of an A100 of pytorch-labs/segment-anything-fast (Apache-2.0).
TEST(StreamTime, AddressesLimitNarrowTypes) {
  const std::int64_t elements = std::int64_t{512} * 4096 * 256;
  const auto a100 = [&](Body body, Streams streams) {
    return walked("a100_sxm_40gb", std::move(body), Dtype::bf16, streams);
  };
  // A bias over channels is added to [512, 32, 256, 256]: 5.23 ms.
  EXPECT_NEAR(a100(Elementwise{"add", 2 * elements, 1}, {.walk = Walk::strided}), 5.23e-3, 0.7e-3);
  // Two contiguous tensors: 2.37 ms; where one of them has another order: 5.98 ms.
  EXPECT_NEAR(a100(Elementwise{"add", elements, 2}, {}), 2.37e-3, 0.2e-3);
  EXPECT_NEAR(a100(Elementwise{"add", elements, 2}, {.walk = Walk::reordered}), 5.98e-3, 1.2e-3);
  // The mean over 64 channels: 2.88 ms.
  EXPECT_NEAR(a100(Reduction{"mean", elements, elements / 64}, {.walk = Walk::strided}), 2.88e-3,
              0.4e-3);
}

// bool to int16, 72.6 M elements on the same GPU: 0.328 ms, whatever the 218 MB would take.
TEST(StreamTime, CastsTakeAnElementAtATime) {
  Op op;
  op.body = Cast{170 * 534 * 800};
  op.dtypes = Dtypes(Dtype::boolean, Dtype::boolean, Dtype::int16);
  const double time = TimeModel(*find_device("a100_sxm_40gb")).estimate(op)->time.expected.value();
  EXPECT_NEAR(time, 0.328e-3, 0.04e-3);
}

// Wide types wait for memory however they are walked.
TEST(StreamTime, WalksNeverBeatTheTraffic) {
  for (const Walk walk : {Walk::converting, Walk::strided, Walk::transposed, Walk::gathered}) {
    EXPECT_GE(walked("h100", Elementwise{"add", kLarge, 2}, Dtype::fp64, {.walk = walk}),
              walked("h100", Elementwise{"add", kLarge, 2}, Dtype::fp64, {}));
  }
}

// Large windows of few outputs wait for one load after the other; many outputs hide that.
TEST(StreamTime, SmallPoolsWaitForTheirWindows) {
  const Pooling last{PoolKind::average, 32, 128, {4, 4}, {1, 1}, {4, 4}};
  EXPECT_NEAR(seconds("t4", last), 21.9e-6, 8e-6);
  const Pooling stem{PoolKind::max, 256, 64, {112, 112}, {56, 56}, {3, 3}};
  const double bytes = 4.0 * 256 * 64 * (112 * 112 + 56 * 56);
  EXPECT_GT(bytes / seconds("a100", stem), 0.6 * find_device("a100")->dram_bandwidth.value());
}

// Rows of softmax that no vector load fits: bf16 [82960, 5185] takes 2.19 ms on H100.
TEST(StreamTime, UnalignedSoftmaxRowsAreSlow) {
  EXPECT_NEAR(seconds("h100", Softmax{82960, 5185}, Dtype::bf16), 2.19e-3, 0.35e-3);
  EXPECT_LT(seconds("h100", Softmax{82960, 5184}, Dtype::bf16), 1.1e-3);
}

}  // namespace
}  // namespace rooftile
