#include "rooftile/analysis/trace/as_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

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

// 13 blocks share the k of a tile, by the kernel's grid: 14 µs were recorded on an A100. One block
// alone would take four times as long.
TEST(AsRun, SplitProductOnCudaCoresTakesItsPartOfTheSteps) {
  OpUse use = ran(product(10, 1024, 1024), Dtype::fp32, "ampere_sgemm_128x32_tn");
  use.kernels.front().launch.grid = {8, 1, 13};
  EXPECT_EQ(call_kernels(use).split_k, 1);  // no kernel adds up parts
  use.kernels.push_back(use.kernels.front());
  use.kernels.back().name = "void splitKreduce_kernel<32, 16, int, float, float, float, float>()";
  EXPECT_EQ(call_kernels(use).split_k, 13);
  EXPECT_GT(modelled_ms(use, "a100_sxm_40gb"), 0.007);
  EXPECT_LT(modelled_ms(use, "a100_sxm_40gb"), 0.02);
  use.kernels.front().launch.grid = {9, 1, 13};  // not a whole number of blocks for each tile
  EXPECT_FALSE(call_kernels(use).tile);
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
  const RunTimes times = times_as_run(recorded({use}), TimeModel(*find_device("a100_sxm_40gb")));
  EXPECT_NEAR((times.ops.at(0).modelled - times.ops.at(0).launch).value(),
              64. * 65536 * 32 / (0.62 * 108 * 1.41e9), 1e-9);
}

TEST(AsRun, KernelsBuiltForAmpereRunOnHopperAsOnAmpere) {
  Gemm gemm = product(5185, 64, 5185, 16);
  gemm.layout = GemmLayout::nn;
  gemm.weight_is_parameter = false;
  const OpUse odd_rows = ran(
      gemm, Dtype::bf16,
      "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(Params)");
  // Recorded on an H100 (AMD-AGI/TraceLens, OWLv2 and a small BERT). Half of each tile is empty.
  EXPECT_NEAR(modelled_ms(odd_rows, "h100"), 0.827, 0.12);
  const OpUse classes = ran(product(141, 30522, 512), Dtype::bf16,
                            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_"
                            "256x128_64x3_tn_align2>(Params)");
  EXPECT_NEAR(modelled_ms(classes, "h100"), 0.0413, 0.01);
}

TEST(AsRun, ConvolutionWithoutConversionKernelsConvertsNothing) {
  Convolution conv;
  conv.n = 512;
  conv.c = conv.k = 64;
  conv.input = {1, 8256};
  conv.kernel = {1, 1};
  OpUse use = ran(conv, Dtype::fp16, "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_nn");
  use.kernels.front().facts.kernel_class = KernelClass::convolution;
  const double alone = modelled_ms(use, "a100_pcie_40gb");
  // 2 · 512 · 64 · 8256 elements of two bytes at 1,555 GB/s, and at two thirds of that.
  EXPECT_GT(alone, 0.69);
  EXPECT_LT(alone, 1.05);
  KernelUse to_nhwc;
  to_nhwc.name = "void nchwToNhwcKernel<__half, __half, float, true, false>(__half const*)";
  to_nhwc.facts = parse_kernel_name(to_nhwc.name);
  use.kernels.push_back(to_nhwc);
  EXPECT_GT(modelled_ms(use, "a100_pcie_40gb"), alone * 1.1);
}

Convolution same_3x3(std::int64_t n, std::int64_t channels, std::int64_t size) {
  Convolution conv;
  conv.n = n;
  conv.c = conv.k = channels;
  conv.input = {size, size};
  conv.kernel = {3, 3};
  conv.pad_begin = conv.pad_end = {1, 1};
  return conv;
}

TEST(AsRun, ConvolutionTakesTheAlgorithmThatRan) {
  const Convolution conv = same_3x3(32, 64, 56);
  const double implicit =
      modelled_ms(ran(conv, Dtype::fp32,
                      "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, "
                      "false, true>(int, int, int, float const*)"),
                  "t4");
  const double winograd = modelled_ms(
      ran(conv, Dtype::fp32, "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"), "t4");
  // 2 · 32 · 56² · 64² · 9 flop at 8.1 TFLOP/s: 0.91 ms; Winograd's algorithm needs fewer.
  EXPECT_GT(implicit, 0.91);
  EXPECT_LT(winograd, implicit / 1.2);
}

TEST(AsRun, FewChannelsAreFilledUpToTheStepOfTheKernel) {
  Convolution patches;
  patches.n = 4;
  patches.c = 3;
  patches.k = 768;
  patches.input = {224, 224};
  patches.kernel = patches.stride = {16, 16};
  const OpUse use = ran(patches, Dtype::bf16,
                        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_"
                        "optimized_bf16_256x64_32x4_nhwc_align8>(Params)");
  // Recorded on an H100 (AMD-AGI/TraceLens, ViT-B/16): 98 us without the conversions.
  EXPECT_NEAR(modelled_ms(use, "h100"), 0.098, 0.02);
}

TEST(AsRun, BatchNormOfFewChannelsLeavesSmsIdle) {
  Normalization norm;
  norm.fn = NormKind::batch;
  norm.rows = 401408;
  norm.cols = 64;
  OpUse use =
      ran(norm, Dtype::fp32,
          "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(float const*)");
  use.kernels.front().launch.grid = {80, 1, 1};
  const double full = modelled_ms(use, "v100_sxm2_32gb");
  use.kernels.front().launch.grid = {64, 1, 1};
  // 0.450 ms were recorded (pytorch/kineto).
  EXPECT_NEAR(modelled_ms(use, "v100_sxm2_32gb") / full, 80.0 / 64, 0.02);
  EXPECT_NEAR(modelled_ms(use, "v100_sxm2_32gb"), 0.45, 0.05);
}

TEST(AsRun, ConvolutionOnCudaCoresIsTimedThere) {
  Convolution patches;
  patches.n = 1;
  patches.c = 3;
  patches.k = 1280;
  patches.input = {1024, 1024};
  patches.kernel = patches.stride = {16, 16};
  const OpUse use = ran(patches, Dtype::bf16,
                        "void precomputed_convolve_sgemm<__nv_bfloat16, 512, 6, 7, 4, 3, 5, 1, "
                        "false>(int, int, int, __nv_bfloat16 const*)");
  // 2 · 4096 · 1280 · 768 flop at 19.5 TFLOP/s: 0.41 ms; 0.51 were recorded on an A100.
  EXPECT_NEAR(modelled_ms(use, "a100_sxm_40gb"), 0.48, 0.08);
}

// cuDNN pads up to four channels of a group to eight, where a kernel has more than one tap.
TEST(AsRun, ConvolutionsOfFewChannelsAreAFamily) {
  const auto family_of = [](std::int64_t channels, std::int64_t groups, std::int64_t size) {
    Convolution conv;
    conv.n = 1;
    conv.c = channels;
    conv.k = 64;
    conv.groups = groups;
    conv.input = {32, 32};
    conv.kernel = {size, size};
    const OpUse use = ran(conv, Dtype::fp16,
                          "sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_"
                          "tilesize64x64x64_stage4_warpsize1x4x1_g1_tensor16x8x16_execute_kernel");
    return call_kernels(use).family;
  };
  EXPECT_EQ(family_of(3, 1, 7), "conv/few_channels");
  EXPECT_EQ(family_of(4, 1, 7), "conv/few_channels");
  EXPECT_EQ(family_of(5, 1, 7), "conv/tensor_cores");
  EXPECT_EQ(family_of(32, 8, 3), "conv/few_channels");
  EXPECT_EQ(family_of(3, 1, 1), "conv/tensor_cores");
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

// Sixteen elements a head: compiled for 32, blocks of 128 queries and steps of 128 keys, of which 7
// hold something.
TEST(AsRun, FlashAttentionTakesTheTileOfItsName) {
  const std::string kernel =
      "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits"
      "<32, 128, 128, 4, false, false>>(pytorch_flash::Flash_fwd_params)";
  Attention few_keys = attention(8, 4096, 16);
  few_keys.batch = 1024;
  few_keys.kv_len = 7;
  Attention few_queries = attention(8, 4096, 16);
  few_queries.batch = 1024;
  few_queries.query_len = 7;
  EXPECT_EQ(call_kernels(ran(few_keys, Dtype::bf16, kernel)).attention_tile,
            (AttentionTile{32, 128, 128}));
  // Recorded on an A100: 7.0 and 4.5 ms.
  EXPECT_NEAR(modelled_ms(ran(few_keys, Dtype::bf16, kernel), "a100_sxm_40gb"), 7.0, 0.5);
  EXPECT_NEAR(modelled_ms(ran(few_queries, Dtype::bf16, kernel), "a100_sxm_40gb"), 4.5, 0.5);
  for (const char* broken :
       {"Flash_fwd_kernel_traits<", "Flash_fwd_kernel_traits<32, 128",
        "Flash_fwd_kernel_traits<0, 128, 128", "Flash_fwd_kernel_traits<32, -1, 128",
        "Flash_fwd_kernel_traits<32, 99999999999, 128"}) {
    const std::string name = std::string("void flash_fwd_kernel<") + broken;
    EXPECT_FALSE(call_kernels(ran(few_keys, Dtype::bf16, name)).attention_tile) << broken;
  }
}

// The kernel's name says which tile it has, and that k is not split.
TEST(AsRun, SgemmTakesTheTileOfItsName) {
  const Gemm narrow = product(2048, 38377, 32);
  const double as_named = modelled_ms(ran(narrow, Dtype::fp32, "ampere_sgemm_128x64_nn"), "a100");
  const TimeModel model(*find_device("a100"));
  Op op;
  op.body = narrow;
  op.dtypes = Dtypes(Dtype::fp32);
  const MatrixProduct one = matrix_products(op).front();
  EXPECT_NEAR(as_named, model.estimate(one, Tile{64, 128}).time.expected.value() * 1e3, 1e-9);
  EXPECT_EQ(model.estimate(one, Tile{64, 128}).split_k, 1);
  // No kernel of cuBLAS has it: the free choice, without what was learned of it.
  const double free =
      model.estimate(one, Tile{7, 9}).time.expected / model.estimate(one).time.expected;
  EXPECT_NEAR(free, 1, 0.2);
}

TEST(AsRun, MemoryEfficientAttentionInFp32RunsNearTheCudaCoresPeak) {
  const OpUse use = ran(attention(16, 4096, 80), Dtype::fp32,
                        "fmha_cutlassF_f32_aligned_64x128_rf_sm80(PyTorchMemEffAttention)");
  // 5.9 ms were recorded on an A100; 86 GFLOP, heads padded to 96: 7.15 ms.
  EXPECT_NEAR(modelled_ms(use, "a100_sxm_40gb"), 7.15, 0.1);
}

// Its Tensor Cores do in TF32 what its CUDA cores do in fp32: 240 us were recorded.
TEST(AsRun, MemoryEfficientAttentionInFp32IsSlowWhereTf32Is) {
  const OpUse use = ran(attention(32, 256, 64), Dtype::fp32,
                        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)");
  EXPECT_NEAR(modelled_ms(use, "rtx_3060"), 0.24, 0.04);
}

TEST(AsRun, SoftmaxThatKeepsARowReadsItOnce) {
  const auto ms = [](const char* kernel) {
    return modelled_ms(ran(Softmax{8192, 8192}, Dtype::fp32, kernel), "rtx_3060");
  };
  // 1.61 ms were recorded; a fill of as many bytes runs at the same bandwidth.
  EXPECT_NEAR(ms("void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<float>()"), 1.65,
              0.1);
  EXPECT_GT(ms("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>()"), 2);
}

TEST(AsRun, SoftmaxThatKeepsARowTakesTheTimeOfItsBytes) {
  const TimeModel model(*find_device("rtx_3060"));
  Op stream;
  stream.body = Other{.fn = "stream", .flop = 0, .bytes = 2LL * 4 * 8192 * 8192};
  const double moved = model.estimate(stream)->time.expected.value() * 1e3;
  for (const char* kernel :
       {"cunn_SoftMaxForwardReg<float>()", "cunn_SoftMaxForwardSmem<4, float>()",
        "cunn_SoftMaxBackwardSmem<4, float>()"}) {
    EXPECT_NEAR(modelled_ms(ran(Softmax{8192, 8192}, Dtype::fp32, kernel), "rtx_3060"), moved, 1e-9)
        << kernel;
  }
}

// Queries and keys fill up tiles of 64, heads 32 elements. As many heads again take as long again.
TEST(AsRun, RatesOfMemoryEfficientAttention) {
  struct Case {
    const char* gpu;
    Dtype dtype;
    std::int64_t queries, keys, head, value;
    bool causal;
    double flop;  // of a head
    double flop_per_second;
  };
  const double a100 = 1 / (3 * 1.62 / 156e12 + 0.745 / 19.5e12), v100 = 0.75 * 15.7e12;
  for (const Case& c :
       {Case{"a100_sxm_40gb", Dtype::fp32, 128, 128, 64, 64, false, 2. * 128 * 128 * 128, a100},
        Case{"a100_sxm_40gb", Dtype::fp32, 100, 70, 40, 48, false, 2. * 128 * 128 * 128, a100},
        Case{"a100_sxm_40gb", Dtype::fp32, 128, 129, 65, 64, false, 2. * 128 * 192 * 160, a100},
        Case{"a100_sxm_40gb", Dtype::fp32, 128, 128, 64, 64, true, 128. * 128 * 128, a100},
        Case{"a100_sxm_40gb", Dtype::fp32, 1, 1024, 64, 64, true, 2. * 64 * 1024 * 128, a100},
        Case{"a100_sxm_40gb", Dtype::bf16, 512, 512, 64, 64, false, 2. * 512 * 512 * 128,
             0.15 * 312e12},
        Case{"v100_sxm2_32gb", Dtype::fp32, 128, 128, 64, 64, false, 2. * 128 * 128 * 128, v100}}) {
    const auto ms = [&](std::int64_t heads) {
      Attention a = attention(heads, c.queries, c.head);
      a.kv_len = c.keys;
      a.value_dim = c.value;
      a.causal = c.causal;
      return modelled_ms(ran(a, c.dtype, "fmha_cutlassF_f32_aligned_64x64(Attention)"), c.gpu);
    };
    const double expected = 1e3 * 4096 * c.flop / c.flop_per_second;
    EXPECT_NEAR((ms(8192) - ms(4096)) / expected, 1, 1e-6)
        << c.gpu << " " << c.queries << " " << c.keys << " " << c.causal;
  }
}

// Five products for the two of the forward pass.
TEST(AsRun, GradientsOfMemoryEfficientAttentionAreFiveProducts) {
  const auto ms = [](Phase phase, const char* kernel) {
    OpUse use = ran(attention(384, 128, 64), Dtype::fp32, kernel);
    use.op->phase = phase;
    return modelled_ms(use, "a100_sxm_40gb");
  };
  const double forward = ms(Phase::forward, "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Attention)");
  EXPECT_NEAR(ms(Phase::dgrad, "fmha_cutlassB_f32_aligned_64x64_k64_sm80(Attention)") / forward,
              2.5, 0.05);
}

// Frozen layers have no gradient of scale and shift.
TEST(AsRun, GradientsOfALayerNormAreThoseOfTheKernelsThatRan) {
  constexpr const char* kOfInput = "layer_norm_grad_input_kernel_vectorized<float, float>(float)";
  constexpr const char* kOfScale = "GammaBetaBackwardCUDAKernel<float, float>(long)";
  const auto ms = [](std::vector<std::string> kernels) {
    OpUse use = ran(Normalization{NormKind::layer, 2048, 512}, Dtype::fp32, kernels.front());
    use.op->phase = Phase::dgrad;
    for (std::size_t i = 1; i < kernels.size(); ++i) {
      use.kernels.push_back(use.kernels.front());
      use.kernels.back().name = kernels[i];
    }
    return modelled_ms(use, "a100_sxm_40gb");
  };
  const double both = ms({kOfInput, kOfScale});
  // 12 us were recorded (facebookresearch/HolisticTraceAnalysis).
  EXPECT_NEAR(ms({kOfInput}), 0.012, 0.004);
  EXPECT_NEAR(ms({kOfInput}) + ms({kOfScale}), both, 0.1 * both);
}

// Three tensors for the two of the norm; scale and shift are what both kernels take beside.
TEST(AsRun, GradientsOfALayerNormFollowFromTheNorm) {
  const TimeModel model(*find_device("a100_sxm_40gb"));
  Op op = *ran(Normalization{NormKind::layer, 65536, 512}, Dtype::fp32, "").op;
  const double launch = model.estimate(op)->launch.value() * 1e3;
  const double forward = model.estimate(op)->time.expected.value() * 1e3;
  op.phase = Phase::dgrad;
  const double both = model.estimate(op)->time.expected.value() * 1e3;
  const double input = launch + 1.5 * (forward - launch);
  const auto ms = [&](Phase phase, const char* kernel) {
    OpUse use = ran(op.body, Dtype::fp32, kernel);
    use.op->phase = phase;
    return modelled_ms(use, "a100_sxm_40gb");
  };
  EXPECT_NEAR(ms(Phase::dgrad, "layer_norm_grad_input_kernel<float>()"), input, 1e-9);
  EXPECT_NEAR(ms(Phase::dgrad, "GammaBetaBackwardCUDAKernel<float>()"),
              std::max(launch, both - input), 1e-9);
  EXPECT_NEAR(ms(Phase::dgrad, "cuComputePartGradients<float>()"), both, 1e-9);
  EXPECT_NEAR(ms(Phase::forward, "layer_norm_grad_input_kernel<float>()"), forward, 1e-9);
}

// As long as each SM has a block, what the bytes take; else as much longer as SMs are idle.
TEST(AsRun, IdleSmsOfABatchNorm) {
  const TimeModel model(*find_device("v100_sxm2_32gb"));
  const Normalization norm{NormKind::batch, 401408, 64};
  const Op op = *ran(norm, Dtype::fp32, "").op;
  const double launch = model.estimate(op)->launch.value() * 1e3;
  const double bytes = model.estimate(op)->time.expected.value() * 1e3 - launch;
  const auto ms = [&](std::array<std::uint32_t, 3> grid, const char* kernel) {
    OpUse use = ran(norm, Dtype::fp32, kernel);
    use.kernels.front().launch.grid = grid;
    return modelled_ms(use, "v100_sxm2_32gb");
  };
  constexpr const char* kByChannel = "cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>()";
  EXPECT_NEAR(ms({64, 1, 1}, kByChannel), launch + bytes * 80 / 64, 1e-9);
  EXPECT_NEAR(ms({8, 4, 2}, kByChannel), launch + bytes * 80 / 64, 1e-9);
  EXPECT_NEAR(ms({1, 1, 1}, kByChannel), launch + bytes * 80, 1e-9);
  EXPECT_NEAR(ms({80, 1, 1}, kByChannel), launch + bytes, 1e-9);
  EXPECT_NEAR(ms({81, 1, 1}, kByChannel), launch + bytes, 1e-9);
  EXPECT_NEAR(ms({0, 1, 1}, kByChannel), launch + bytes, 1e-9);
  EXPECT_NEAR(ms({64, 1, 1}, "batch_norm_collect_statistics_kernel<float>()"), launch + bytes,
              1e-9);
}

// 65,536 elements, 2,048 at a time in 0.21 us each; the bytes of 2^28 elements take far longer.
TEST(AsRun, BlocksOfListsMayTakeLongerThanTheirBytes) {
  const TimeModel model(*find_device("h100"));
  const auto run_of = [&](std::int64_t elements) {
    OpUse use = ran(Elementwise{"_foreach_mul_", elements, 1}, Dtype::fp32,
                    "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>>()");
    use.arguments.dims = {{}};
    use.arguments.types = {"TensorList"};
    use.arguments.values = {"[[65536], [7]]"};
    return times_as_run(recorded({use}), model).ops.at(0);
  };
  const AsRun small = run_of(65543);
  EXPECT_NEAR((small.modelled - small.launch).value(), 32 * 0.21e-6, 1e-12);
  const Op large = *ran(Elementwise{"_foreach_mul_", 1 << 28, 1}, Dtype::fp32, "").op;
  EXPECT_NEAR(run_of(1 << 28).modelled.value(), model.estimate(large)->time.expected.value(),
              1e-12);
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

// Down to 0.73 of the usual pace predictions miss by as much; GPUs idle at 0.15 of it.
TEST(AsRun, ClocksAreReadWithinBounds) {
  const std::vector<OpUse> uses(8, ran(product(4096, 4096, 4096), Dtype::bf16, kTiledKernel));
  const TimeModel model(*find_device("a100"));
  const Range<Seconds> usual = times_as_run(recorded(uses), model).ops.at(0).time->time;
  const auto at = [&](double pace) {
    return times_as_run(recorded(uses, usual.expected * (1 / pace)), model);
  };
  EXPECT_EQ(at(0.735).clock, 1);
  EXPECT_EQ(at(2).clock, 1);
  EXPECT_NEAR(at(0.725).clock, 0.725, 1e-9);
  EXPECT_NEAR(at(0.16).clock, 0.16, 1e-9);
  EXPECT_EQ(at(0.14).clock, 0.15);
  EXPECT_EQ(at(0.735).ops.at(0).time->time.low, usual.low);
  // The range is wider by half in its logarithm.
  const Range<Seconds> slow = at(0.5).ops.at(0).time->time;
  EXPECT_NEAR(slow.low / slow.expected, std::pow(usual.low / usual.expected, 1.5), 1e-9);
  EXPECT_NEAR(slow.high / slow.expected, std::pow(usual.high / usual.expected, 1.5), 1e-9);
}

// At half the clock: whole vectors of wide elements wait for DRAM all the same.
TEST(AsRun, WhichKernelsFollowTheClock) {
  struct Case {
    Body body;
    Dtype dtype;
    const char* kernel;
    double longer;
  };
  constexpr const char* kVectorized =
      "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda()>()";
  constexpr const char* kUnrolled =
      "void at::native::elementwise_kernel<128, 4, at::native::neg_kernel_cuda()>()";
  constexpr const char* kList =
      "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>>()";
  const TimeModel model(*find_device("a100"));
  for (const Case& c :
       {Case{Elementwise{"neg", 1 << 28, 1}, Dtype::fp32, kVectorized, 1},
        Case{Elementwise{"neg", 1 << 28, 1}, Dtype::bf16, kVectorized, 2},
        Case{Elementwise{"neg", 1 << 28, 1}, Dtype::fp32, kUnrolled, 2},
        Case{Elementwise{"neg", 4096, 1}, Dtype::fp32, kVectorized, 2},
        Case{Elementwise{"_foreach_neg", 1 << 28, 1}, Dtype::fp32, kList, 1},
        Case{Softmax{8192, 8192}, Dtype::fp32, kVectorized, 2},
        Case{Normalization{NormKind::layer, 65536, 512}, Dtype::fp32, kVectorized, 2}}) {
    std::vector<OpUse> uses(8, ran(product(4096, 4096, 4096), Dtype::bf16, kTiledKernel));
    const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
    uses.push_back(ran(c.body, c.dtype, c.kernel));
    const Seconds at_rest =
        times_as_run(recorded({uses.back()}), model).ops.at(0).time->time.expected;
    Workload slow = recorded(uses, usual * 2);
    slow.ops.back().measured.reset();
    EXPECT_NEAR(times_as_run(slow, model).ops.at(8).time->time.expected / at_rest, c.longer, 1e-9)
        << c.kernel << " " << to_string(c.dtype);
  }
}

// An optimizer's kernels over lists of tensors wait for DRAM at any clock of the SMs.
TEST(AsRun, KernelsOverListsOfTensorsDoNotHideTheClock) {
  std::vector<OpUse> uses(8, ran(product(4096, 4096, 4096), Dtype::bf16, kTiledKernel));
  const OpUse list = ran(Elementwise{"_foreach_add", 1 << 26, 1}, Dtype::fp32,
                         "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>>()");
  EXPECT_EQ(call_kernels(list).family, "elementwise/multi_tensor");
  const TimeModel model(*find_device("a100"));
  const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
  uses.insert(uses.end(), 20, list);
  Workload slow = recorded(uses, usual * 2);
  const Seconds at_rest = times_as_run(recorded({list}), model).ops.at(0).time->time.expected;
  for (std::size_t i = 8; i < slow.ops.size(); ++i) slow.ops[i].measured = at_rest;
  EXPECT_NEAR(times_as_run(slow, model).clock, 0.5, 1e-9);
}

TEST(AsRun, ShortestKernelsShowWhatALaunchTakes) {
  const std::string kernel =
      "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda()>()";
  std::vector<OpUse> uses(8, ran(Elementwise{"neg", 4096, 1}, Dtype::fp32, kernel));
  const TimeModel model(*find_device("a100"));
  const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
  // A large kernel beside them waits for memory: 2 · 4 · 2^28 bytes.
  uses.push_back(ran(Elementwise{"neg", 1 << 28, 1}, Dtype::fp32, kernel));
  const Seconds large = times_as_run(recorded(uses), model).ops.at(8).time->time.expected;
  const RunTimes slow = times_as_run(recorded(uses, usual * 2), model);
  EXPECT_NEAR(slow.launch, 2, 0.1);
  EXPECT_NEAR(slow.ops.at(0).time->time.expected / usual, 2, 1e-6);
  EXPECT_NEAR(slow.ops.at(8).time->time.expected / large, 1, 0.01);
  uses.erase(uses.begin(), uses.begin() + 2);
  EXPECT_EQ(times_as_run(recorded(uses, usual * 2), model).launch, 1);
}

// Short kernels four times as long at half the clock: their launch takes longer at any clock.
TEST(AsRun, LaunchesAreReadBesideTheClock) {
  const std::string kernel =
      "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda()>()";
  std::vector<OpUse> uses(8, ran(Elementwise{"neg", 4096, 1}, Dtype::fp32, kernel));
  const TimeModel model(*find_device("a100"));
  const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
  EXPECT_EQ(times_as_run(recorded(uses, usual * 0.1), model).launch, 0.2);
  const OpUse large = ran(product(4096, 4096, 4096), Dtype::bf16, kTiledKernel);
  const Seconds of_large = times_as_run(recorded({large}), model).ops.at(0).time->time.expected;
  uses.insert(uses.end(), 8, large);
  Workload slow = recorded(uses, usual * 4);
  for (std::size_t i = 8; i < slow.ops.size(); ++i) slow.ops[i].measured = of_large * 2;
  const RunTimes times = times_as_run(slow, model);
  EXPECT_NEAR(times.clock, 0.5, 1e-9);
  EXPECT_NEAR(times.ops.at(0).time->time.expected / usual, 4, 1e-9);
  EXPECT_NEAR(times.ops.at(8).time->time.expected / of_large, 2, 1e-9);
}

// Twenty large kernels say nothing of eight that take twice the usual launch.
TEST(AsRun, LargeKernelsDoNotHideWhatALaunchTakes) {
  const std::string kernel =
      "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda()>()";
  std::vector<OpUse> uses(8, ran(Elementwise{"neg", 4096, 1}, Dtype::fp32, kernel));
  const TimeModel model(*find_device("a100"));
  const Seconds usual = times_as_run(recorded(uses), model).ops.at(0).time->time.expected;
  const OpUse large = ran(Elementwise{"neg", 1 << 28, 1}, Dtype::fp32, kernel);
  const Seconds at_rest = times_as_run(recorded({large}), model).ops.at(0).time->time.expected;
  uses.insert(uses.end(), 20, large);
  Workload slow = recorded(uses, usual * 2);
  for (std::size_t i = 8; i < slow.ops.size(); ++i) slow.ops[i].measured = at_rest;
  EXPECT_NEAR(times_as_run(slow, model).launch, 2, 0.1);
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
