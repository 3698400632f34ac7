#include "rooftile/analysis/time/cuda_core_gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

Device device(const char* name) { return find_device(name).value(); }

GemmWork work_of(double m, double n, double k, double batch, const Device& device) {
  GemmWork work;
  work.m = m, work.n = n, work.k = k, work.batch = batch;
  work.element_bytes = 4;
  work.operand_bytes = 4 * batch * k * (m + n);
  work.out_bytes = 4 * batch * m * n;
  work.peak = device.cuda_core_peak.at(Dtype::fp32);
  return work;
}

GemmParts parts_of(const Device& device, double m, double n, double k, double batch = 1,
                   bool nt = true) {
  const auto calibration = calibration_for(device).value();
  const CudaCoreConstants constants = scale_constants(calibration->cuda_gemm.constants, device);
  return cuda_core_parts(work_of(m, n, k, batch, device), nt, constants, device);
}

// cuBLAS runs batched products on A100 with 128x128 tiles; 108 SMs hold one each at full rate.
TEST(CudaCoreGemm, WavesOfBatchedProductsOnA100) {
  const Device a100 = device("a100_pcie_40gb");
  const double one_wave = parts_of(a100, 128, 128, 4096, 108).compute;
  EXPECT_NEAR(parts_of(a100, 128, 128, 4096, 109).compute / one_wave, 2, 0.1);
  EXPECT_NEAR(parts_of(a100, 128, 128, 4096, 54).compute / one_wave, 1, 0.05);
  EXPECT_EQ(parts_of(a100, 128, 128, 4096, 108).tile.tile, (Tile{128, 128}));
}

// A padded tile costs as much as a full one.
TEST(CudaCoreGemm, PaddingCostsAsMuchAsWork) {
  const Device a100 = device("a100_pcie_40gb");
  EXPECT_NEAR(parts_of(a100, 100, 100, 4096, 432).compute,
              parts_of(a100, 128, 128, 4096, 432).compute, 1e-6);
}

TEST(CudaCoreGemm, FewTilesAndALongKAreSplit) {
  const Device v100 = device("v100_pcie_32gb");
  EXPECT_GT(parts_of(v100, 64, 64, 65536).split_k, 1);
  EXPECT_EQ(parts_of(v100, 8192, 8192, 8192).split_k, 1);
  EXPECT_EQ(parts_of(v100, 64, 64, 65536, 2, false).split_k, 1);  // batched kernels do not split
}

// 70 W do not feed T4's peak: NVIDIA's forum and Jia et al., Dissecting the NVIDIA Turing T4 GPU.
TEST(CudaCoreGemm, PowerLimitsLongKernelsOnly) {
  Device t4 = device("t4");
  const GemmParts limited = parts_of(t4, 8192, 8192, 8192), brief = parts_of(t4, 512, 512, 64);
  EXPECT_GT(limited.power, 0.3 * limited.compute);
  EXPECT_LT(brief.power, 0.1 * brief.compute);
  t4.power_limit = Watts(300);
  EXPECT_LT(parts_of(t4, 8192, 8192, 8192).total, 0.7 * limited.total);
  t4.power_limit.reset();
  EXPECT_EQ(parts_of(t4, 8192, 8192, 8192).power, 0);
}

// Among tiles of one time the library keeps its preference, however fast the SMs are.
TEST(CudaCoreGemm, FasterSmsGetTheSameKernel) {
  for (const char* name : {"p100", "p4", "v100_pcie_32gb", "t4", "a100_pcie_40gb"}) {
    const Device slow = device(name);
    Device fast = slow;
    fast.cuda_core_peak.at(Dtype::fp32) = slow.cuda_core_peak.at(Dtype::fp32) * 4;
    for (const double m : {100, 512, 2305}) {
      for (const double k : {64, 1000, 4096}) {
        EXPECT_EQ(parts_of(fast, m, 64, k).tile.tile, parts_of(slow, m, 64, k).tile.tile)
            << name << ": " << m << " " << k;
      }
    }
  }
}

// The host's way to the first kernel, which the measured rows hold, is no part of it.
TEST(CudaCoreGemm, OneMultiplicationTakesALaunch) {
  for (const char* name : {"p100", "p4", "v100_pcie_32gb", "t4", "a100_pcie_40gb"}) {
    EXPECT_LT(parts_of(device(name), 2, 2, 1).total, 12e-6) << name;
  }
}

TEST(CudaCoreGemm, AVectorReadsTheMatrixOnce) {
  const Device a100 = device("a100_pcie_40gb");
  const GemmParts parts = parts_of(a100, 1, 16384, 16384);
  const double bytes = 4.0 * 16384 * 16384;
  EXPECT_GE(parts.total, bytes / a100.dram_bandwidth.value());
  EXPECT_LT(parts.total, 2 * bytes / a100.dram_bandwidth.value());
}

// On Pascal the weights of a Linear layer stream from DRAM for every band of tiles.
TEST(CudaCoreGemm, OperandsAlongKCostTrafficOnPascal) {
  const Device p4 = device("p4");
  EXPECT_GT(parts_of(p4, 4096, 16384, 2048).memory,
            2 * parts_of(p4, 4096, 16384, 2048, 1, false).memory);
}

TEST(CudaCoreGemm, TimeGrowsWithEveryDimension) {
  for (const char* name : {"p100", "p4", "v100_pcie_32gb", "t4", "a100_pcie_40gb", "h100", "l4"}) {
    const Device gpu = device(name);
    const double base = parts_of(gpu, 1024, 1024, 1024).total;
    EXPECT_GT(parts_of(gpu, 2048, 1024, 1024).total, base) << name;
    EXPECT_GT(parts_of(gpu, 1024, 2048, 1024).total, base) << name;
    EXPECT_GT(parts_of(gpu, 1024, 1024, 2048).total, base) << name;
    EXPECT_GT(parts_of(gpu, 1024, 1024, 1024, 4, false).total, base) << name;
  }
}

// S. Boehm, How to Optimize a CUDA Matmul Kernel: cuBLAS reaches 23.2 TFLOP/s at 4096 cubed on an
// RTX A6000.
TEST(CudaCoreGemm, PublishedRateOfAnA6000) {
  const Device a6000 = device("rtx_a6000");
  const double rate = 2.0 * 4096 * 4096 * 4096 / parts_of(a6000, 4096, 4096, 4096, 1, false).total;
  EXPECT_NEAR(rate / 1e12, 23.2, 3.5);
}

Op fp32_op(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  Op op;
  op.body = Gemm{.m = m, .n = n, .k = k, .batch = batch};
  if (batch > 1) std::get<Gemm>(op.body).layout = GemmLayout::nn;
  op.dtypes = Dtypes(Dtype::fp32);
  return op;
}

std::vector<Op> fp32_products() {
  std::vector<Op> ops;
  for (std::int64_t m : {100, 512, 2305}) {
    for (std::int64_t n : {64, 1000, 5120}) {
      for (std::int64_t k : {64, 1000, 4096}) ops.push_back(fp32_op(m, n, k));
    }
  }
  for (std::int64_t batch : {8, 192}) {
    for (std::int64_t n : {64, 512, 1000}) {
      for (std::int64_t k : {64, 1000}) ops.push_back(fp32_op(512, n, k, batch));
    }
  }
  return ops;
}

double expected_seconds(const TimeModel& model, const Op& op) {
  return model.estimate(op)->time.expected.value();
}

constexpr std::array kMeasuredInFp32{"p100", "p4", "v100_pcie_32gb", "t4", "a100_pcie_40gb"};

TEST(CudaCoreGemm, LearnedCorrectionsDoNotMakeAFasterGpuSlower) {
  constexpr double kRounding = 1.003;
  const auto bandwidth = [](Device& d) { d.dram_bandwidth = d.dram_bandwidth * 1.5; };
  const auto power = [](Device& d) { d.power_limit = *d.power_limit * 1.5; };
  const auto compute = [&](Device& d) {
    for (auto& [dtype, peak] : d.cuda_core_peak) peak = peak * 1.5;
    power(d);
  };
  for (const char* name : kMeasuredInFp32) {
    const Device slow = device(name);
    const TimeModel before(slow);
    for (const std::function<void(Device&)>& apply :
         std::vector<std::function<void(Device&)>>{bandwidth, power, compute}) {
      Device fast = slow;
      apply(fast);
      const TimeModel after(fast);
      for (const Op& op : fp32_products()) {
        EXPECT_LE(expected_seconds(after, op), expected_seconds(before, op) * kRounding)
            << name << ": " << std::get<Gemm>(op.body).m << " " << std::get<Gemm>(op.body).n;
      }
    }
  }
}

// The library's choice of kernel, which the corrections follow, may gain by more work; twice the
// work is never much faster.
TEST(CudaCoreGemm, TimeGrowsWithLearnedCorrections) {
  constexpr double kLearnedSlack = 1.4;
  for (const char* name : kMeasuredInFp32) {
    const TimeModel model(device(name));
    for (const Op& op : fp32_products()) {
      for (const auto size : {&Gemm::m, &Gemm::n, &Gemm::k, &Gemm::batch}) {
        Op more = op;
        const auto& gemm = std::get<Gemm>(op.body);
        if (size == &Gemm::batch && gemm.batch == 1) continue;
        std::get<Gemm>(more.body).*size *= 2;
        EXPECT_LE(expected_seconds(model, op), kLearnedSlack * expected_seconds(model, more))
            << name << ": " << gemm.m << " " << gemm.n << " " << gemm.k << " " << gemm.batch;
      }
    }
  }
}

TEST(CudaCoreGemm, LearnedCorrectionsHoldForMeasuredProductsAlone) {
  const auto learned = [](const char* gpu, const Op& op) {
    return TimeModel(device(gpu)).estimate(op)->learned;
  };
  const Op linear = fp32_op(1000, 1000, 1000), batched = fp32_op(512, 512, 64, 192);
  EXPECT_NE(learned("p4", linear), 1);
  EXPECT_NE(learned("p4", batched), 1);
  EXPECT_NE(learned("a100_pcie_80gb", linear), 1);
  EXPECT_NE(learned("a100_sxm_80gb", linear), 1);
  EXPECT_EQ(learned("a30", linear), 1);
  EXPECT_EQ(learned("v100_sxm2", batched), 1);
  Op gradient = linear, transposed = batched, narrow = linear, tf32 = linear;
  gradient.phase = Phase::wgrad;
  std::get<Gemm>(transposed.body).layout = GemmLayout::nt;
  narrow.dtypes = Dtypes(Dtype::bf16);
  tf32.dtypes = Dtypes(Dtype::tf32);
  EXPECT_EQ(learned("p4", gradient), 1);
  EXPECT_EQ(learned("p4", transposed), 1);
  EXPECT_EQ(learned("p4", narrow), 1);
  EXPECT_EQ(learned("a100_pcie_40gb", tf32), 1);
  EXPECT_EQ(learned("p4", fp32_op(1000, 1 << 18, 1000)), 1);  // beyond the measured sizes
}

// The fp32 products of sm80 were measured on the PCIe card.
TEST(CudaCoreGemm, RangesAreWiderOnASister) {
  const auto width = [](const char* gpu) {
    Op op;
    op.body = Gemm{.m = 2048, .n = 4096, .k = 4096, .layout = GemmLayout::tn};
    op.dtypes = Dtypes(Dtype::fp32);
    const Range<Seconds> time = TimeModel(*find_device(gpu)).estimate(op)->time;
    return time.high / time.low;
  };
  EXPECT_GT(width("a100_sxm_80gb"), 1.1 * width("a100_pcie_40gb"));
}

TEST(CudaCoreGemm, LearnedCorrectionsScaleAllParts) {
  Device t4 = device("t4");
  const Op op = fp32_op(1000, 1000, 1000);
  const auto with = TimeModel(t4).estimate(op);
  t4.time_model = R"({"residual": false})";
  const auto without = TimeModel(t4).estimate(op);
  EXPECT_EQ(without->learned, 1);
  EXPECT_NEAR(with->time.expected / without->time.expected, with->learned, 1e-9);
  EXPECT_NEAR(with->compute / without->compute, with->learned, 1e-9);
}

// The chip, SMs and clock of the measured A100 PCIe card, with more power and bandwidth.
TEST(CudaCoreGemm, TheRangeOfAnA100SxmIsNearThatOfTheMeasuredCard) {
  const auto width = [](const char* gpu) {
    const Range<Seconds> time = TimeModel(device(gpu)).estimate(fp32_op(512, 768, 1536))->time;
    return time.high / time.low;
  };
  EXPECT_LT(width("a100_pcie_40gb"), 1.4);
  EXPECT_LT(width("a100_sxm_80gb"), 1.7);
  EXPECT_GT(width("a100_sxm_80gb"), width("a100_pcie_40gb"));
  EXPECT_LT(width("h100_sxm"), 4);
  EXPECT_GT(width("h100_sxm"), width("a100_sxm_80gb"));
}

}  // namespace
}  // namespace rooftile
