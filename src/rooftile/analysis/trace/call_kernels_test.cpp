#include "rooftile/analysis/trace/call_kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/analysis/kernel_name.h"

namespace rooftile {
namespace {

OpUse call_of(Body body, Dtype dtype, const std::vector<std::string>& kernels) {
  OpUse use;
  use.op = Op{};
  use.op->body = std::move(body);
  use.op->dtypes = Dtypes(dtype);
  for (const std::string& name : kernels) {
    KernelUse& kernel = use.kernels.emplace_back();
    kernel.name = name;
    kernel.facts = parse_kernel_name(name);
  }
  return use;
}

Gemm square() {
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = 1024;
  return gemm;
}

constexpr const char* kTiled = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn";
constexpr const char* kFill =
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)";
constexpr const char* kCopy =
    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>()";

TEST(CallKernels, FamiliesOfProducts) {
  struct Case {
    Dtype dtype;
    std::vector<std::string> kernels;
    const char* family;
  };
  const std::string cutlass =
      "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_"
      "256x128_64x3_tn_align";
  const std::string tf32 =
      "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align";
  const std::vector<Case> cases{
      {Dtype::bf16, {kTiled}, "gemm/tiled"},
      {Dtype::bf16, {cutlass + "8>(Params)"}, "gemm/cutlass"},
      {Dtype::bf16, {cutlass + "4>(Params)"}, "gemm/cutlass"},
      {Dtype::bf16, {cutlass + "2>(Params)"}, "gemm/unaligned"},
      {Dtype::bf16, {cutlass + "1>(Params)"}, "gemm/unaligned"},
      {Dtype::bf16, {kTiled, "void splitKreduce_kernel<float, float>(Params)"}, "gemm/split"},
      {Dtype::fp16, {"ampere_fp16_sgemm_fp16_128x64_tn"}, "gemm/widened"},
      {Dtype::fp32, {tf32 + "1>(Params)"}, "gemm/tf32_unaligned"},
      {Dtype::fp32, {tf32 + "4>(Params)"}, "gemm/tf32"},
      {Dtype::fp32, {"ampere_sgemm_128x64_tn"}, "gemm/fp32"},
      {Dtype::fp32, {"magma_sgemmEx_kernel<float, float, float, false, true>"}, "gemm/magma"},
      {Dtype::bf16, {"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4>()"}, "gemm/element_loads"},
      {Dtype::bf16, {"void gemvNSP_kernel<float, float, float>()"}, "gemm/vector"},
      {Dtype::bf16, {"void gemmk1_kernel<float, 256, 5, false>()"}, "gemm/vector"},
      {Dtype::bf16, {"void dot_kernel<float, 128, 0, cublasDotParams>()"}, "gemm/vector"},
      {Dtype::bf16, {"void reduce_1Block_kernel<float, 128, 7>()"}, "gemm/vector"},
      {Dtype::bf16, {kFill, cutlass + "8>(Params)"}, "gemm/cutlass"},
      {Dtype::bf16, {"some_other_kernel"}, "gemm/tiled"}};
  for (const Case& c : cases) {
    const CallKernels call = call_kernels(call_of(square(), c.dtype, c.kernels));
    EXPECT_EQ(call.family, c.family) << c.kernels.front();
    EXPECT_EQ(call.is_vector_product,
              call.family == "gemm/vector" || call.family == "gemm/element_loads");
    EXPECT_EQ(call.loads_elements, call.family == "gemm/element_loads");
  }
}

// From 90 on warp groups multiply together. Where the name states no generation, the shape of the
// instruction does.
TEST(CallKernels, KernelsBuiltBeforeHopper) {
  struct Case {
    int capability;
    const char* name;
    bool is_before;
  };
  for (const Case& c :
       {Case{90, "gemm", false}, Case{90, "s16816gemm", false}, Case{89, "gemm", true},
        Case{0, "gemm", false}, Case{0, "s16816gemm", true}, Case{0, "s1688gemm", true},
        Case{0, "s161616gemm", true}, Case{0, "s884gemm", true}, Case{0, "s8816gemm", false}}) {
    OpUse use = call_of(square(), Dtype::bf16, {c.name});
    use.kernels.front().facts = {};
    use.kernels.front().facts.compute_capability = c.capability;
    EXPECT_EQ(call_kernels(use).built_before_hopper, c.is_before) << c.capability << c.name;
  }
}

// The name counts rows along the contiguous axis of the output.
TEST(CallKernels, TilesOfProducts) {
  const auto tile_of = [](Dtype dtype, const std::vector<std::string>& kernels) {
    return call_kernels(call_of(square(), dtype, kernels)).tile;
  };
  EXPECT_EQ(tile_of(Dtype::bf16, {kTiled}), (Tile{256, 128}));
  EXPECT_EQ(tile_of(Dtype::fp32, {"ampere_sgemm_32x128_nn"}), (Tile{128, 32}));
  EXPECT_FALSE(tile_of(Dtype::bf16, {"nvjet_tst_64x16_64x16_2x1_v_bz_splitK_TNT"}));
  EXPECT_FALSE(tile_of(Dtype::bf16, {kTiled, "void splitKreduce_kernel<float>()"}));
  EXPECT_FALSE(tile_of(Dtype::bf16, {"void gemvNSP_kernel<float>()"}));
}

TEST(CallKernels, PrecisionAndUnitsOfProducts) {
  const auto of = [](Dtype dtype, const std::vector<std::string>& kernels) {
    return call_kernels(call_of(square(), dtype, kernels));
  };
  constexpr const char* kTf32 =
      "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute";
  EXPECT_EQ(of(Dtype::fp32, {kTf32}).math, Dtype::tf32);
  EXPECT_FALSE(of(Dtype::fp32, {kTf32}).is_on_cuda_cores);
  EXPECT_FALSE(of(Dtype::fp32, {"ampere_sgemm_128x64_tn"}).math);
  EXPECT_TRUE(of(Dtype::fp32, {"ampere_sgemm_128x64_tn"}).is_on_cuda_cores);
  EXPECT_EQ(of(Dtype::fp16, {"ampere_fp16_sgemm_fp16_128x64_tn"}).math, Dtype::fp32);
  EXPECT_FALSE(of(Dtype::bf16, {kTiled}).math);
  EXPECT_FALSE(of(Dtype::bf16, {kTiled}).fills_output);
  EXPECT_TRUE(of(Dtype::bf16, {kTiled, kFill}).fills_output);
  EXPECT_TRUE(of(Dtype::bf16, {kTiled, kCopy}).fills_output);
}

TEST(CallKernels, FamiliesOfAttention) {
  struct Case {
    const char* kernel;
    std::int64_t queries, keys;
    const char* family;
  };
  constexpr const char* kEfficient = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(Attention)";
  constexpr const char* kForward = "void pytorch_flash::flash_fwd_kernel<Traits>(Params)";
  constexpr const char* kBackward = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel";
  for (const Case& c : {Case{kEfficient, 65, 65, "attention/efficient"},
                        Case{kEfficient, 64, 65, "attention/efficient/few_queries"},
                        Case{kForward, 65, 65, "attention/flash_2"},
                        Case{kForward, 65, 64, "attention/flash_2/few_keys"},
                        Case{kBackward, 64, 64, "attention/flash_2/few"},
                        Case{"attn_fwd", 65, 65, "attention/other"}}) {
    Attention attention;
    attention.query_len = c.queries;
    attention.kv_len = c.keys;
    const CallKernels call = call_kernels(call_of(attention, Dtype::bf16, {c.kernel}));
    EXPECT_EQ(call.family, c.family);
    EXPECT_EQ(call.is_memory_efficient, c.kernel == kEfficient);
    EXPECT_EQ(call.is_flash_2, c.kernel == kForward || c.kernel == kBackward);
  }
}

TEST(CallKernels, TilesOfAttention) {
  const auto tile_of = [](const std::string& traits) {
    const std::string name = "void flash_fwd_kernel<" + traits;
    return call_kernels(call_of(Attention{}, Dtype::bf16, {name})).attention_tile;
  };
  EXPECT_EQ(tile_of("Flash_bwd_kernel_traits<128, 64, 96, 8, false>"),
            (AttentionTile{128, 64, 96}));
  EXPECT_EQ(tile_of("Flash_fwd_kernel_traits<1024, 1, 1024>"), (AttentionTile{1024, 1, 1024}));
  EXPECT_FALSE(tile_of("Flash_fwd_kernel_traits<1025, 64, 64, 4>"));
  EXPECT_FALSE(tile_of("Flash_fwd_kernel_traits<64, 64, 0, 4>"));
  EXPECT_FALSE(tile_of("Other_fwd_kernel_traits<64, 64, 64, 4>"));
  EXPECT_FALSE(tile_of("Flash_kernel<64, 64, 64, 4>"));
}

constexpr const char* kImplicit =
    "sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_"
    "stage4_warpsize1x4x1_g1_tensor16x8x16_execute_kernel";
constexpr const char* kWinograd = "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1";

Convolution wide_3x3() {
  Convolution conv;
  conv.n = 1;
  conv.c = conv.k = 64;
  conv.input = {32, 32};
  conv.kernel = {3, 3};
  return conv;
}

TEST(CallKernels, FamiliesOfConvolutions) {
  const auto of = [](const Convolution& conv, const std::vector<std::string>& kernels) {
    return call_kernels(call_of(conv, Dtype::fp16, kernels));
  };
  Convolution transposed = wide_3x3();
  transposed.transposed = true;
  EXPECT_EQ(of(transposed, {kImplicit}).family, "conv/transposed");
  Convolution pairs = wide_3x3();
  pairs.c = 3;
  pairs.kernel = {1, 2};
  EXPECT_EQ(of(pairs, {kImplicit}).family, "conv/few_channels");
  EXPECT_EQ(of(wide_3x3(), {kImplicit}).family, "conv/tensor_cores");
  EXPECT_EQ(of(wide_3x3(), {kWinograd}).family, "conv/cuda_cores");
  EXPECT_EQ(of(wide_3x3(), {"conv_kernel"}).family, "conv/other");
  EXPECT_EQ(of(wide_3x3(), {kWinograd}).math, Dtype::fp32);
  EXPECT_FALSE(of(wide_3x3(), {kImplicit}).math);
  EXPECT_TRUE(of(wide_3x3(), {kWinograd}).is_winograd);
  EXPECT_FALSE(of(wide_3x3(), {kImplicit}).is_winograd);
  EXPECT_FALSE(of(wide_3x3(), {kImplicit}).converts_layouts);
  EXPECT_TRUE(
      of(wide_3x3(), {kImplicit, "void nchwToNhwcKernel<float, float>(int)"}).converts_layouts);
}

// CUTLASS's forward kernels go over the channels in steps of their tile, but for those that are
// made for few.
TEST(CallKernels, StepsOverTheChannels) {
  const auto of = [](const std::string& name, Phase phase = Phase::forward) {
    OpUse use = call_of(wide_3x3(), Dtype::bf16, {name});
    use.op->phase = use.phase = phase;
    return call_kernels(use);
  };
  const auto named = [](const std::string& kind) {
    return "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816" + kind +
           "_bf16_256x64_32x4_nhwc_align8>(Params)";
  };
  const CallKernels steps = of(named("fprop_optimized"));
  EXPECT_EQ(steps.tile, (Tile{256, 64}));
  EXPECT_EQ(steps.channel_step, 32);
  EXPECT_TRUE(steps.built_before_hopper);
  EXPECT_EQ(of(named("fprop_few_channels")).channel_step, 0);
  EXPECT_EQ(of(named("fprop_fixed_channels")).channel_step, 0);
  EXPECT_EQ(of(named("dgrad_optimized")).channel_step, 0);
  EXPECT_EQ(of(named("fprop_optimized"), Phase::dgrad).channel_step, 0);
  EXPECT_EQ(of(kImplicit).channel_step, 0);
  EXPECT_FALSE(of(kImplicit).tile);
}

TEST(CallKernels, TemplatesOfOtherKernels) {
  struct Case {
    const char* kernel;
    const char* family;
  };
  for (const Case& c :
       {Case{"void at::native::multi_tensor_apply_kernel<A>", "multi_tensor"},
        Case{"CatArrayBatchedCopy_vectorized<A>", "vectorized"},
        Case{"CatArrayBatchedCopy_alignedK_contig<A>", "vectorized"},
        Case{"CatArrayBatchedCopy<A>", "cat"},
        Case{"vectorized_elementwise_kernel<4>", "vectorized"},
        Case{"unrolled_elementwise_kernel<A>", "unrolled"},
        Case{"elementwise_kernel<128, 4>", "strided"}, Case{"reduce_kernel<512, 1>", "reduce"},
        Case{"softmax_warp_forward<A>", "warp"}, Case{"cunn_SoftMaxForward<4>", "block"},
        Case{"vectorized_layer_norm_kernel<A>", "vectorized"},
        Case{"layer_norm_grad_input_kernel<A>", "rowwise"},
        Case{"RowwiseMomentsCUDAKernel<A>", "rowwise"},
        Case{"cudnn::bn_fw_tr_1C11_kernel_NCHW<A>", "batch"},
        Case{"triton_poi_fused_add", "other"}}) {
    const OpUse use = call_of(Elementwise{"add", 1024, 1}, Dtype::fp32, {c.kernel});
    EXPECT_EQ(call_kernels(use).family, std::string("elementwise/") + c.family);
  }
  const OpUse named = call_of(Other{"sort", 0, 64}, Dtype::fp32, {"sort_kernel"});
  EXPECT_EQ(call_kernels(named).family, "other/other/sort");
  const OpUse unnamed = call_of(Other{"", 0, 64}, Dtype::fp32, {"sort_kernel"});
  EXPECT_EQ(call_kernels(unnamed).family, "other/other");
}

}  // namespace
}  // namespace rooftile
