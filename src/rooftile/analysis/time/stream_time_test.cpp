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

// Rows of up to 1,024 elements stay in registers; longer ones are read again.
TEST(StreamTime, LongSoftmaxRowsAreReadAgain) {
  for (const char* gpu : {"p100", "v100_pcie_32gb", "a100_pcie_40gb"}) {
    EXPECT_GT(seconds(gpu, Softmax{kLarge / 4096, 4096}),
              1.1 * seconds(gpu, Softmax{kLarge / 1024, 1024}))
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

}  // namespace
}  // namespace rooftile
