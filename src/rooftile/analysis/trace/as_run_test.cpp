#include "rooftile/analysis/trace/as_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "rooftile/analysis/kernel_name.h"
#include "rooftile/analysis/trace/call_kernels.h"
#include "rooftile/analysis/trace/corrections.h"
#include "rooftile/base/embedded.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {
namespace {

constexpr const char* kTiledKernel = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn";

OpUse ran(Body body, Dtype dtype, const std::string& kernel) {
  OpUse use;
  use.name = "aten::op";
  use.count = 1;
  use.op = Op{};
  use.op->body = std::move(body);
  use.op->dtypes = Dtypes(dtype);
  KernelUse main;
  main.name = kernel;
  main.facts = parse_kernel_name(kernel);
  main.count = 1;
  use.kernels.push_back(main);
  return use;
}

Workload recorded(std::vector<OpUse> uses, Seconds measured = {}) {
  Workload workload;
  TraceSummary trace;
  for (const OpUse& use : uses) {
    workload.ops.push_back(*use.op);
    if (measured > Seconds()) workload.ops.back().measured = measured;
  }
  trace.ops = std::move(uses);
  workload.traces = TraceList({std::move(trace)});
  return workload;
}

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  Gemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.batch = batch;
  return gemm;
}

Attention attention(std::int64_t heads, std::int64_t tokens, std::int64_t dim) {
  Attention attention;
  attention.batch = 1;
  attention.heads = attention.kv_heads = heads;
  attention.query_len = attention.kv_len = tokens;
  attention.head_dim = attention.value_dim = dim;
  return attention;
}

double modelled_ms(const OpUse& use, const char* gpu) {
  const RunTimes times = times_as_run(recorded({use}), TimeModel(*find_device(gpu)));
  return times.ops.at(0).modelled.value() * 1e3;
}

TEST(AsRun, ProductOnTensorCoresOfFp32OperandsIsTimedInTf32) {
  const std::string kernel =
      "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute";
  const OpUse use = ran(product(2048, 2048, 512), Dtype::fp32, kernel);
  EXPECT_EQ(call_kernels(use).family, "gemm/tf32");
  // 4.3 GFLOP; 18 µs were recorded on an H100, 67 TFLOP/s of CUDA cores would take 64.
  EXPECT_LT(modelled_ms(use, "h100"), 0.03);
}

TEST(AsRun, SixteenBitProductOfCudaCoresIsTimedInFp32) {
  const OpUse use = ran(product(65536, 128, 17), Dtype::fp16, "ampere_fp16_sgemm_fp16_128x64_tn");
  EXPECT_EQ(call_kernels(use).math, Dtype::fp32);
  EXPECT_EQ(call_kernels(use).family, "gemm/widened");
}

TEST(AsRun, FewRowsAreLoadedElementByElement) {
  Gemm gemm = product(4, 65536, 32, 64);
  gemm.weight_is_parameter = false;
  const OpUse use = ran(gemm, Dtype::fp32, "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4>()");
  EXPECT_EQ(call_kernels(use).family, "gemm/element_loads");
  // 64 · 65536 · 32 elements at 0.62 · 108 · 1.41 GHz: 1.42 ms; 1.48 ms were recorded on an A100.
  EXPECT_NEAR(modelled_ms(use, "a100_sxm_40gb"), 1.42, 0.05);
}

TEST(AsRun, Flash2KeepsItsRateOnHopper) {
  const OpUse use =
      ran(attention(24, 4096, 128), Dtype::bf16,
          "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits"
          "<128, 128, 64, 4>>(pytorch_flash::Flash_fwd_params)");
  EXPECT_EQ(call_kernels(use).family, "attention/flash_2");
  // 4 · 24 · 4096² · 128 flop at 36 % of 989 TFLOP/s: 0.579 ms.
  EXPECT_NEAR(modelled_ms(use, "h100"), 0.58, 0.02);
}

TEST(AsRun, MemoryEfficientAttentionInFp32RunsNearTheCudaCoresPeak) {
  const OpUse use = ran(attention(16, 4096, 80), Dtype::fp32,
                        "fmha_cutlassF_f32_aligned_64x128_rf_sm80(PyTorchMemEffAttention)");
  // 5.9 ms were recorded on an A100; 86 GFLOP, heads padded to 96: 7.0 ms.
  EXPECT_NEAR(modelled_ms(use, "a100_sxm_40gb"), 7.05, 0.1);
}

TEST(AsRun, BiasThatAnotherKernelWritesIsTraffic) {
  OpUse use = ran(product(2097152, 256, 128), Dtype::bf16, kTiledKernel);
  std::get<Gemm>(use.op->body).bias = true;
  const double alone = modelled_ms(use, "a100_sxm_40gb");
  KernelUse copy;
  copy.name = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>()";
  copy.facts = parse_kernel_name(copy.name);
  use.kernels.push_back(copy);
  // 2 · 2097152 · 256 · 2 bytes at 1,555 GB/s or a little less: 1.38 ms and more.
  EXPECT_GT(modelled_ms(use, "a100_sxm_40gb"), alone + 1.38);
}

TEST(AsRun, ProductsThatAllTakeLongerShowTheClock) {
  std::vector<OpUse> uses(8, ran(product(4096, 4096, 4096), Dtype::bf16, kTiledKernel));
  const TimeModel model(*find_device("a100"));
  const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
  const RunTimes slow = times_as_run(recorded(uses, usual * 2), model);
  EXPECT_NEAR(slow.clock, 0.5, 1e-9);
  EXPECT_NEAR(slow.ops.at(0).time->time.expected / usual, 2, 1e-9);
  // Within what predictions miss by, and too few products.
  EXPECT_EQ(times_as_run(recorded(uses, usual * 1.2), model).clock, 1);
  uses.pop_back();
  EXPECT_EQ(times_as_run(recorded(uses, usual * 2), model).clock, 1);
}

TEST(ProfileCorrections, FamiliesFallBackToWhatTheirNamesBeginWith) {
  const auto gemm = profile_correction("gemm", 0);
  ASSERT_TRUE(gemm);
  EXPECT_EQ(profile_correction("gemm/unheard_of/long", 0)->factor, gemm->factor);
  const auto all = profile_correction("unheard_of/long", 120);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->factor, profile_correction("", 0)->factor);
}

TEST(ProfileCorrections, EveryEntryIsAFactorInsideAnInterval) {
  std::size_t entries = 0;
  for (const EmbeddedFile& file : embedded_profiles()) {
    const auto json = nlohmann::json::parse(file.text);
    for (const auto& entry : json.at("corrections")) {
      SCOPED_TRACE(entry.dump());
      EXPECT_GT(entry.at("factor").get<double>(), 0.05);
      EXPECT_LT(entry.at("factor").get<double>(), 20);
      EXPECT_LT(entry.at("low").get<double>(), 1);
      EXPECT_GT(entry.at("low").get<double>(), 0);
      EXPECT_GT(entry.at("high").get<double>(), 1);
      ++entries;
    }
  }
  EXPECT_GT(entries, 20U);
}

}  // namespace
}  // namespace rooftile
