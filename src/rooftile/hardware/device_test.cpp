// Data-sheet numbers against the rates of the hardware, and against published worked examples.
#include "rooftile/hardware/device.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

// Fused multiply-adds per clock and SM.
using Rates = std::map<Dtype, double>;
using enum Dtype;

struct SmRates {
  Rates tensor, cuda;
};

// CUDA cores: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
const Rates kCuda60 = {{fp64, 32}, {fp32, 64}, {fp16, 128}};
const Rates kCuda61 = {{fp64, 4}, {fp32, 128}, {int8, 512}};
const Rates kCuda70 = {{fp64, 32}, {fp32, 64}, {fp16, 128}, {int8, 256}};
const Rates kCuda75 = {{fp64, 2}, {fp32, 64}, {fp16, 128}};
const Rates kCuda80 = {{fp64, 32}, {fp32, 64}, {fp16, 256}, {bf16, 128}};
const Rates kCuda86 = {{fp64, 2}, {fp32, 128}, {fp16, 128}, {bf16, 128}};  // and 8.9, 12.0
const Rates kCuda90 = {{fp64, 64}, {fp32, 128}, {fp16, 256}, {bf16, 256}};
const Rates kCuda100 = {{fp64, 64}, {fp32, 128}};

// V100 white paper: 8 Tensor Cores of 64 FMA.
const SmRates kVolta = {{{fp16, 512}}, kCuda70};
// Turing white paper: FP32 accumulation runs at half rate on GeForce.
const SmRates kTuring = {{{fp16, 512}, {int8, 1024}, {int4, 2048}}, kCuda75};
const SmRates kTuringGeforce = {{{fp16, 256}, {int8, 1024}, {int4, 2048}}, kCuda75};
// A100 white paper: 4 Tensor Cores of 256 FMA.
const SmRates kA100 = {
    {{fp64, 64}, {tf32, 512}, {fp16, 1024}, {bf16, 1024}, {int8, 2048}, {int4, 4096}}, kCuda80};
// GA102 white paper: 4 Tensor Cores of 128 FMA, half rate for FP32 accumulation on GeForce; the
// A10G data sheet halves every rate.
const SmRates kAmpere = {{{tf32, 256}, {fp16, 512}, {bf16, 512}, {int8, 1024}, {int4, 2048}},
                         kCuda86};
const SmRates kAmpereGeforce = {{{tf32, 128}, {fp16, 256}, {bf16, 256}, {int8, 1024}, {int4, 2048}},
                                kCuda86};
const SmRates kAmpereHalf = {{{tf32, 128}, {fp16, 256}, {bf16, 256}, {int8, 512}, {int4, 1024}},
                             kCuda86};
// Ada white paper, appendices; the L40 data sheet halves every rate.
const SmRates kAda = {
    {{tf32, 256}, {fp16, 512}, {bf16, 512}, {fp8, 1024}, {int8, 1024}, {int4, 2048}}, kCuda86};
const SmRates kAdaGeforce = {
    {{tf32, 128}, {fp16, 256}, {bf16, 256}, {fp8, 512}, {int8, 1024}, {int4, 2048}}, kCuda86};
const SmRates kAdaHalf = {
    {{tf32, 128}, {fp16, 256}, {bf16, 256}, {fp8, 512}, {int8, 512}, {int4, 1024}}, kCuda86};
// H100 white paper: 4 Tensor Cores of 512 FMA.
const SmRates kHopper = {
    {{fp64, 128}, {tf32, 1024}, {fp16, 2048}, {bf16, 2048}, {fp8, 4096}, {int8, 4096}}, kCuda90};
// Blackwell and Blackwell Ultra data sheets: twice Hopper, FP4 at 2 and 3 times FP8.
const SmRates kBlackwell = {
    {{fp64, 64}, {tf32, 2048}, {fp16, 4096}, {bf16, 4096}, {fp8, 8192}, {int8, 8192}, {fp4, 16384}},
    kCuda100};
const SmRates kBlackwellUltra = {
    {{tf32, 2048}, {fp16, 4096}, {bf16, 4096}, {fp8, 8192}, {fp4, 24576}}, kCuda100};
// RTX Blackwell and RTX PRO Blackwell white papers.
const SmRates kRtxBlackwell = {
    {{tf32, 256}, {fp16, 512}, {bf16, 512}, {fp8, 1024}, {int8, 1024}, {fp4, 2048}}, kCuda86};
const SmRates kRtxBlackwellGeforce = {
    {{tf32, 128}, {fp16, 256}, {bf16, 256}, {fp8, 512}, {int8, 1024}, {fp4, 2048}}, kCuda86};
// H20 product brief: 148 TFLOPS of FP16, a quarter of GH100 per SM.
const SmRates kHopperQuarter = {{{tf32, 256}, {fp16, 512}, {bf16, 512}, {fp8, 1024}, {int8, 1024}},
                                kCuda90};
// Jetson AGX Orin technical brief: 170 TOPS of INT8 with sparsity on 16 SMs at 1.3 GHz.
const SmRates kOrin = {{{tf32, 512}, {fp16, 1024}, {bf16, 1024}, {int8, 2048}}, {{fp32, 128}}};
// Jetson Thor data sheet: 2,070 TFLOPS of FP4 with sparsity on 20 SMs at 1.575 GHz.
const SmRates kThor = {{{tf32, 2048}, {fp16, 4096}, {bf16, 4096}, {fp8, 8192}, {fp4, 16384}},
                       {{fp32, 128}}};

const std::map<std::string, SmRates> kRatesOfDevice = {
    {"p100_sxm2", {{}, kCuda60}},
    {"p100_pcie", {{}, kCuda60}},
    {"p4", {{}, kCuda61}},
    {"v100_sxm2", kVolta},
    {"v100_sxm2_32gb", kVolta},
    {"v100_pcie", kVolta},
    {"v100_pcie_32gb", kVolta},
    {"t4", kTuring},
    {"titan_v", kVolta},
    {"rtx_2080_ti", kTuringGeforce},
    {"rtx_2060", kTuringGeforce},
    {"rtx_2060_super", kTuringGeforce},
    {"rtx_2070", kTuringGeforce},
    {"rtx_2070_super", kTuringGeforce},
    {"rtx_2080", kTuringGeforce},
    {"rtx_2080_super", kTuringGeforce},
    {"titan_rtx", kTuring},
    {"quadro_rtx_6000", kTuring},
    {"quadro_rtx_8000", kTuring},
    {"a100_sxm_40gb", kA100},
    {"a100_sxm_80gb", kA100},
    {"a100_pcie_40gb", kA100},
    {"a100_pcie_80gb", kA100},
    {"a30", kA100},
    {"a800_sxm", kA100},
    {"a800_pcie", kA100},
    {"a2", kAmpere},
    {"a10", kAmpere},
    {"a10g", kAmpereHalf},
    {"a40", kAmpere},
    {"rtx_a6000", kAmpere},
    {"rtx_a2000", kAmpere},
    {"rtx_a2000_12gb", kAmpere},
    {"rtx_a4000", kAmpere},
    {"rtx_a4500", kAmpere},
    {"rtx_a5000", kAmpere},
    {"rtx_a5500", kAmpere},
    {"rtx_3060", kAmpereGeforce},
    {"rtx_3060_ti", kAmpereGeforce},
    {"rtx_3070", kAmpereGeforce},
    {"rtx_3070_ti", kAmpereGeforce},
    {"rtx_3080", kAmpereGeforce},
    {"rtx_3080_ti", kAmpereGeforce},
    {"rtx_3090", kAmpereGeforce},
    {"rtx_3090_ti", kAmpereGeforce},
    {"jetson_agx_orin_32gb", kOrin},
    {"jetson_agx_orin_64gb", kOrin},
    {"l4", kAda},
    {"l20", kAdaHalf},
    {"l40", kAdaHalf},
    {"l40s", kAda},
    {"rtx_6000_ada", kAda},
    {"rtx_2000_ada", kAda},
    {"rtx_4000_ada", kAda},
    {"rtx_4500_ada", kAda},
    {"rtx_5000_ada", kAda},
    {"rtx_4060", kAdaGeforce},
    {"rtx_4060_ti", kAdaGeforce},
    {"rtx_4060_ti_16gb", kAdaGeforce},
    {"rtx_4070", kAdaGeforce},
    {"rtx_4070_super", kAdaGeforce},
    {"rtx_4070_ti", kAdaGeforce},
    {"rtx_4070_ti_super", kAdaGeforce},
    {"rtx_4080", kAdaGeforce},
    {"rtx_4080_super", kAdaGeforce},
    {"rtx_4090", kAdaGeforce},
    {"rtx_4090_d", kAdaGeforce},
    {"h100_sxm", kHopper},
    {"h100_pcie", kHopper},
    {"h100_nvl", kHopper},
    {"h200_sxm", kHopper},
    {"h200_nvl", kHopper},
    {"gh200", kHopper},
    {"h800_sxm", kHopper},
    {"h800_pcie", kHopper},
    {"h20", kHopperQuarter},
    {"b200", kBlackwell},
    {"gb200", kBlackwell},
    {"b300", kBlackwellUltra},
    {"gb300", kBlackwellUltra},
    {"jetson_thor", kThor},
    {"gb10", kRtxBlackwell},
    {"rtx_5060_ti", kRtxBlackwellGeforce},
    {"rtx_5070", kRtxBlackwellGeforce},
    {"rtx_5070_ti", kRtxBlackwellGeforce},
    {"rtx_5080", kRtxBlackwellGeforce},
    {"rtx_5090", kRtxBlackwellGeforce},
    {"rtx_pro_4000", kRtxBlackwell},
    {"rtx_pro_4500", kRtxBlackwell},
    {"rtx_pro_5000", kRtxBlackwell},
    {"rtx_pro_5000_72gb", kRtxBlackwell},
    {"rtx_pro_6000", kRtxBlackwell},
    {"rtx_pro_6000_max_q", kRtxBlackwell},
    {"rtx_pro_6000_server", kRtxBlackwell},
};

void expect_rates(const Device& device, const std::map<Dtype, FlopPerSecond>& peaks,
                  const Rates& rates, bool tensor_cores) {
  for (const auto& [dtype, peak] : peaks) {
    ASSERT_TRUE(rates.contains(dtype)) << device.id << " " << to_string(dtype);
    const bool other_clock = device.cuda_core_clock && (!tensor_cores || dtype == fp64);
    const Hertz clock = other_clock ? *device.cuda_core_clock : device.boost_clock;
    const double computed = device.sms * rates.at(dtype) * 2.0 * clock.value();
    EXPECT_NEAR(computed / peak.value(), 1.0, 0.03)
        << device.id << " " << to_string(dtype) << (tensor_cores ? " Tensor Cores" : " CUDA cores");
  }
}

TEST(BuiltInDevices, PeaksAreSmsTimesRateTimesClock) {
  for (const Device& device : built_in_devices()) {
    ASSERT_TRUE(kRatesOfDevice.contains(device.id)) << device.id;
    const SmRates& rates = kRatesOfDevice.at(device.id);
    expect_rates(device, device.tensor_core_peak, rates.tensor, true);
    expect_rates(device, device.cuda_core_peak, rates.cuda, false);
  }
}

struct Published {
  const char* id;
  int sms;
  double fp16_tflops, fp32_tflops, dram_gb_per_s, ridge;
};

// Ridges: NVIDIA GPU Performance Background User's Guide, "Understanding Performance" (V100, A100);
// ml-engineering book, "Accelerators" (the others). B200 and B300 are given there with 80 TFLOPS of
// FP32, in NVIDIA's data sheets with 75.
TEST(BuiltInDevices, AgreeWithPublishedRidges) {
  const Published rows[] = {
      {"v100_sxm2", 80, 125, 15.7, 900, 138.9}, {"a100_sxm_80gb", 108, 312, 19.5, 2039, 153.0},
      {"h100_sxm", 132, 989, 67, 3350, 295.2},  {"h100_pcie", 114, 756, 51, 2000, 378},
      {"h200_sxm", 132, 989, 67, 4800, 206.0},  {"b200", 148, 2250, 75, 8000, 281.2},
      {"b300", 148, 2250, 75, 8000, 281.2},     {"l40s", 142, 362, 91.6, 860, 421},
  };
  for (const Published& row : rows) {
    const Result<Device> device = find_device(row.id);
    ASSERT_TRUE(device) << row.id;
    EXPECT_EQ(device->sms, row.sms) << row.id;
    EXPECT_NEAR(device->peak(fp16)->value() / (row.fp16_tflops * 1e12), 1.0, 0.005) << row.id;
    EXPECT_NEAR(device->peak(fp32)->value() / (row.fp32_tflops * 1e12), 1.0, 0.01) << row.id;
    EXPECT_NEAR(device->dram_bandwidth.value() / (row.dram_gb_per_s * 1e9), 1.0, 0.006) << row.id;
    EXPECT_NEAR(device->ridge(fp16)->value() / row.ridge, 1.0, 0.006) << row.id;
  }
}

struct Marketed {
  const char* id;
  Dtype dtype;
  double times;  // the maker's number in dense operations with FP32 accumulation
  double tera;
};

// Tensor TFLOPS and AI TOPS of the makers' product pages and data sheets. Those of GeForce RTX 20
// count FP16 accumulation (2 x), of RTX 30 also sparsity (4 x), of RTX 40 INT8 with sparsity, of
// RTX 50 FP4 with sparsity; workstation boards count sparsity.
TEST(BuiltInDevices, AgreeWithMarketedTensorRates) {
  const Marketed rows[] = {
      {"rtx_2060", fp16, 2, 51.6},
      {"rtx_2060_super", fp16, 2, 57.4},
      {"rtx_2070", fp16, 2, 59.7},
      {"rtx_2070_super", fp16, 2, 72.5},
      {"rtx_2080", fp16, 2, 80.5},
      {"rtx_2080_super", fp16, 2, 89.2},
      {"titan_rtx", fp16, 1, 130.5},
      {"titan_v", fp16, 1, 110},
      {"rtx_3060", fp16, 4, 102},
      {"rtx_3060_ti", fp16, 4, 130},
      {"rtx_3070", fp16, 4, 163},
      {"rtx_3070_ti", fp16, 4, 174},
      {"rtx_3080", fp16, 4, 238},
      {"rtx_3080_ti", fp16, 4, 273},
      {"rtx_3090_ti", fp16, 4, 320},
      {"rtx_a2000", fp16, 2, 63.9},
      {"rtx_a4000", fp16, 2, 153.4},
      {"rtx_a4500", fp16, 2, 189.2},
      {"rtx_a5000", fp16, 2, 222.2},
      {"rtx_a5500", fp16, 2, 272.8},
      {"rtx_4060", int8, 2, 242},
      {"rtx_4060_ti", int8, 2, 353},
      {"rtx_4070", int8, 2, 466},
      {"rtx_4070_super", int8, 2, 568},
      {"rtx_4070_ti", int8, 2, 641},
      {"rtx_4070_ti_super", int8, 2, 706},
      {"rtx_4080", int8, 2, 780},
      {"rtx_4080_super", int8, 2, 836},
      {"rtx_2000_ada", fp8, 2, 191.9},
      {"rtx_4000_ada", fp8, 2, 427.6},
      {"rtx_4500_ada", fp8, 2, 634},
      {"rtx_5000_ada", fp8, 2, 1044.4},
      {"l20", fp16, 1, 119.5},
      {"h20", bf16, 1, 148},
      {"rtx_5060_ti", fp4, 2, 759},
      {"rtx_5070", fp4, 2, 988},
      {"rtx_5070_ti", fp4, 2, 1406},
      {"rtx_5080", fp4, 2, 1801},
      {"rtx_pro_4000", fp4, 2, 1178},
      {"rtx_pro_4500", fp4, 2, 1687},
      {"rtx_pro_5000", fp4, 2, 2064},
      {"gb10", fp4, 2, 1000},
      {"jetson_thor", fp4, 2, 2070},
      {"jetson_thor", fp8, 2, 1035},
      {"jetson_agx_orin_64gb", int8, 2, 170},
      {"jetson_agx_orin_32gb", int8, 2, 108},
  };
  for (const Marketed& row : rows) {
    const Result<Device> device = find_device(row.id);
    ASSERT_TRUE(device) << row.id;
    EXPECT_NEAR(device->peak(row.dtype)->value() * row.times / (row.tera * 1e12), 1.0, 0.015)
        << row.id;
  }
}

// 528 Tensor Cores · 512 FMA · 2 · 1.83 GHz; at the CUDA cores' 1.98 GHz it would be 1070.5e12.
TEST(BuiltInDevices, H100TensorPeakBelongsToItsLowerClock) {
  const Device device = *find_device("h100");
  EXPECT_EQ(device.boost_clock, Hertz(1.83e9));
  EXPECT_EQ(device.cuda_core_clock, Hertz(1.98e9));
  EXPECT_NEAR(device.peak(bf16)->value(), 989.43e12, 0.1e12);
}

TEST(BuiltInDevices, AgreeWithPublishedCachesAndTf32) {
  const double mib = 1024.0 * 1024.0;
  EXPECT_EQ(find_device("v100")->l2_size, Bytes(6 * mib));
  EXPECT_EQ(find_device("a100")->l2_size, Bytes(40 * mib));
  EXPECT_EQ(find_device("h100")->l2_size, Bytes(50 * mib));
  EXPECT_NEAR(find_device("a100")->ridge(tf32)->value(), 76.5, 0.05);
  EXPECT_NEAR(find_device("h100")->peak(tf32)->value(), 494.5e12, 0.5e12);
  EXPECT_NEAR(find_device("l40s")->peak(tf32)->value(), 183e12, 0.5e12);
}

TEST(Peak, FallsBackToTheRateThatLibrariesUse) {
  const Device v100 = *find_device("v100");
  EXPECT_EQ(v100.peak(tf32), v100.peak(fp32));
  EXPECT_EQ(v100.peak(bf16), v100.peak(fp32));
  EXPECT_FALSE(v100.has_tensor_cores(bf16));
  EXPECT_FALSE(v100.peak(fp8));
  EXPECT_FALSE(v100.ridge(fp8));
  EXPECT_FALSE(find_device("a100")->peak(Dtype::int64));
}

}  // namespace
}  // namespace rooftile
