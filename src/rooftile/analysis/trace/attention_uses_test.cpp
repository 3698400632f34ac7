#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary summary_of(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double us(Seconds time) { return to_microseconds(time); }

// Two layers of attention with a scale, a mask that is made on the way, dropout, and their
// backward: each kernel takes as many microseconds as the comment behind it says.
constexpr const char* kTraining = R"(
repeat 2 every 10ms
op main 0us 9us aten::bmm id=1 seq=1 dims=[[8,100,64],[8,64,101]] types=[float,float]
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 100us 10us cutlass_80_simt_sgemm_128x64_8x5_nn_align1 corr=1
op main 10us 9us aten::mul id=2 seq=2 dims=[[2,4,100,101],[]] types=[float,double]
call main 11us 2us cudaLaunchKernel corr=2 id=2
kernel 7 110us 20us void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>> corr=2
op main 20us 9us aten::ones id=3 dims=[[],[]] types=[ScalarList,]
call main 21us 2us cudaLaunchKernel corr=3 id=3
kernel 7 130us 1us void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>> corr=3
op main 30us 9us aten::masked_fill id=4 seq=3 dims=[[2,4,100,101],[100,101],[]] types=[float,bool,Scalar]
call main 31us 2us cudaLaunchKernel corr=4 id=4
kernel 7 140us 30us void at::native::elementwise_kernel<128, 2> corr=4
op main 40us 9us aten::softmax id=5 seq=4 dims=[[2,4,100,101],[],[]] types=[float,Scalar,]
op main 41us 7us aten::_softmax id=6 seq=4 dims=[[2,4,100,101],[],[]] types=[float,Scalar,Scalar]
call main 42us 2us cudaLaunchKernel corr=5 id=6
kernel 7 170us 40us void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true> corr=5
op main 50us 9us aten::native_dropout id=7 seq=5 dims=[[2,4,100,101],[],[]] types=[float,Scalar,Scalar]
call main 51us 2us cudaLaunchKernel corr=6 id=7
kernel 7 210us 50us void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float> corr=6
op main 60us 9us aten::bmm id=8 seq=6 dims=[[8,100,101],[8,101,64]] types=[float,float]
call main 61us 2us cudaLaunchKernel corr=7 id=8
kernel 7 260us 60us cutlass_80_simt_sgemm_128x64_8x5_nn_align1 corr=7
op backward 400us 9us BmmBackward0 id=10 seq=6
call backward 401us 2us cudaLaunchKernel corr=8 id=10
kernel 7 500us 70us cutlass_80_simt_sgemm_128x64_8x5_nt_align1 corr=8
op backward 410us 9us SoftmaxBackward0 id=11 seq=4
call backward 411us 2us cudaLaunchKernel corr=9 id=11
kernel 7 570us 80us softmax_warp_backward corr=9
op backward 420us 9us AddmmBackward0 id=12 seq=9
call backward 421us 2us cudaLaunchKernel corr=10 id=12
kernel 7 650us 90us ampere_sgemm_128x64_nt corr=10
end
)";

TEST(AttentionUses, AChainIsOneOperationWithItsBackward) {
  const TraceSummary trace = summary_of(kTraining);
  ASSERT_EQ(trace.attentions.size(), 1U);
  const AttentionUse& use = trace.attentions.front();
  EXPECT_EQ(use.count, 2);
  EXPECT_EQ(use.backward_count, 2);
  EXPECT_NEAR(us(use.gemm_time), 2 * (10 + 60), 1e-3);
  EXPECT_NEAR(us(use.softmax_time), 2 * 40, 1e-3);
  // The kernel that makes the mask is not the attention's.
  EXPECT_NEAR(us(use.other_time), 2 * (20 + 30 + 50), 1e-3);
  EXPECT_NEAR(us(use.backward_time), 2 * (70 + 80), 1e-3);
  EXPECT_EQ(use.between,
            (std::vector<std::string>{"aten::mul", "aten::masked_fill", "aten::native_dropout"}));
  ASSERT_TRUE(use.op);
  const auto& shape = std::get<Attention>(use.op->body);
  EXPECT_EQ(shape.heads, 8);
  EXPECT_EQ(shape.query_len, 100);
  EXPECT_EQ(shape.kv_len, 101);
  EXPECT_EQ(shape.head_dim, 64);
  EXPECT_EQ(shape.value_dim, 64);
  EXPECT_FALSE(shape.fused);
}

TEST(AttentionUses, ItsKernelsAreNotForACompiler) {
  EXPECT_EQ(summary_of(kTraining).pointwise.kernels, 0);
}

TEST(AttentionUses, WithoutShapesTheOrderDecides) {
  const TraceSummary trace = summary_of(R"(
op main 0us 9us aten::baddbmm id=1 seq=1
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 100us 10us volta_sgemm_128x32_tn corr=1
op main 10us 9us aten::_softmax id=2 seq=2
call main 11us 2us cudaLaunchKernel corr=2 id=2
kernel 7 110us 20us void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true> corr=2
op main 20us 9us aten::bmm id=3 seq=3
call main 21us 2us cudaLaunchKernel corr=3 id=3
kernel 7 130us 30us volta_sgemm_128x32_nn corr=3
)");
  ASSERT_EQ(trace.attentions.size(), 1U);
  EXPECT_FALSE(trace.attentions[0].op);
  EXPECT_NEAR(us(trace.attentions[0].gemm_time), 40, 1e-3);
}

TEST(AttentionUses, ALayerBetweenEndsTheSearch) {
  const TraceSummary trace = summary_of(R"(
op main 0us 9us aten::bmm id=1
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 100us 10us volta_sgemm_128x32_tn corr=1
op main 10us 9us aten::addmm id=4
call main 11us 2us cudaLaunchKernel corr=4 id=4
kernel 7 110us 20us volta_sgemm_128x64_nn corr=4
op main 20us 9us aten::_softmax id=2
call main 21us 2us cudaLaunchKernel corr=2 id=2
kernel 7 130us 20us void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true> corr=2
op main 30us 9us aten::bmm id=3
call main 31us 2us cudaLaunchKernel corr=3 id=3
kernel 7 150us 30us volta_sgemm_128x32_nn corr=3
)");
  EXPECT_TRUE(trace.attentions.empty());
}

// A checkpoint's node runs the layer again and then its gradient, with its thread's numbers; the
// same number on the main thread is another operator.
TEST(AttentionUses, ACheckpointedLayerKeepsItsBackward) {
  const TraceSummary trace = summary_of(R"(
op main 0us 99us CheckpointFunction id=30 seq=50
op main 1us 8us aten::bmm id=31
call main 2us 2us cudaLaunchKernel corr=31 id=31
kernel 7 10us 10us volta_sgemm_128x32_tn corr=31
op main 10us 8us aten::_softmax id=32
call main 11us 2us cudaLaunchKernel corr=32 id=32
kernel 7 20us 20us void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true> corr=32
op main 20us 8us aten::bmm id=33
call main 21us 2us cudaLaunchKernel corr=33 id=33
kernel 7 40us 30us volta_sgemm_128x32_nn corr=33
op main 99us 5us aten::mul id=9 seq=1
op backward 200us 99us CheckpointFunctionBackward id=20 seq=50
op backward 201us 8us aten::bmm id=1 seq=1
call backward 202us 2us cudaLaunchKernel corr=1 id=1
kernel 7 400us 10us volta_sgemm_128x32_tn corr=1
op backward 210us 8us aten::_softmax id=2 seq=2
call backward 211us 2us cudaLaunchKernel corr=2 id=2
kernel 7 410us 20us void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true> corr=2
op backward 220us 8us aten::bmm id=3 seq=3
call backward 221us 2us cudaLaunchKernel corr=3 id=3
kernel 7 430us 30us volta_sgemm_128x32_nn corr=3
op backward 229us 1us aten::gelu id=6 seq=4
call backward 229us 1us cudaLaunchKernel corr=6 id=6
kernel 7 455us 5us void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl> corr=6
op backward 230us 8us BmmBackward0 id=4 seq=3
call backward 231us 2us cudaLaunchKernel corr=4 id=4
kernel 7 460us 40us volta_sgemm_128x32_nt corr=4
op backward 240us 8us BmmBackward0 id=5 seq=1
op backward 241us 6us aten::bmm id=7
call backward 242us 2us cudaLaunchKernel corr=5 id=7
kernel 7 500us 50us volta_sgemm_128x32_nt corr=5
)");
  ASSERT_EQ(trace.attentions.size(), 1U);
  EXPECT_EQ(trace.attentions[0].count, 2);
  EXPECT_EQ(trace.attentions[0].backward_count, 1);
  EXPECT_NEAR(us(trace.attentions[0].backward_time), 40 + 50, 1e-3);
}

TEST(AttentionUses, ACompiledSoftmaxTakesItsShapeFromTheGemms) {
  const auto with_values = [](std::string_view dims) {
    return summary_of(R"(
op main 0us 9us aten::bmm id=1 dims=[[8,100,64],[8,64,104]] types=[float,float]
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 100us 10us ampere_sgemm_128x64_nn corr=1
op main 10us 9us triton_per_fused__softmax_mul_3 id=2
call main 11us 2us cuLaunchKernel corr=2 id=2
kernel 7 110us 20us triton_per_fused__softmax_mul_3 corr=2
op main 20us 9us aten::bmm id=3 types=[float,float] dims=)" +
                      std::string(dims) + R"(
call main 21us 2us cudaLaunchKernel corr=3 id=3
kernel 7 130us 30us ampere_sgemm_128x64_nn corr=3
)");
  };
  const TraceSummary fits = with_values("[[8,100,104],[8,104,64]]");
  ASSERT_EQ(fits.attentions.size(), 1U);
  EXPECT_NEAR(us(fits.attentions[0].softmax_time), 20, 1e-3);
  EXPECT_TRUE(with_values("[[8,100,96],[8,96,64]]").attentions.empty());
}

TEST(TrainingPatterns, LayersWithinAutogradNodesRunAgain) {
  // A checkpoint's node runs a linear layer again; another's gradient of a gradient is no layer.
  const TraceSummary trace = summary_of(R"(
op main 0us 9us aten::linear id=1 seq=1
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 100us 10us ampere_sgemm_128x64_tn corr=1
op backward 20us 40us CheckpointFunctionBackward id=2 seq=1
op backward 21us 9us aten::linear id=3 seq=7
call backward 22us 2us cudaLaunchKernel corr=2 id=3
kernel 7 110us 20us ampere_sgemm_128x64_tn corr=2
op backward 31us 9us AddmmBackward0 id=4 seq=7
op backward 32us 5us aten::mm id=5
call backward 33us 2us cudaLaunchKernel corr=3 id=5
kernel 7 130us 30us ampere_sgemm_128x64_nt corr=3
op backward 70us 20us MulBackward0 id=6 seq=3
op backward 71us 9us aten::mul id=7 seq=9
call backward 72us 2us cudaLaunchKernel corr=4 id=7
kernel 7 160us 40us void at::native::vectorized_elementwise_kernel<4> corr=4
)");
  EXPECT_EQ(trace.recomputed.kernels, 1);
  EXPECT_NEAR(us(trace.recomputed.time), 20, 1e-3);
  // What runs again is forward work, and one row with the first run.
  const auto linear = std::ranges::find(trace.ops, "aten::linear", &OpUse::name);
  ASSERT_NE(linear, trace.ops.end());
  EXPECT_EQ(linear->count, 2);
  EXPECT_EQ(linear->phase, Phase::forward);
}

TEST(TrainingPatterns, BiasBeforeBatchNormCountsItsKernels) {
  constexpr const char* kConv = R"(
op main 0us 19us aten::conv2d id=1 seq=1 dims=[[8,16,32,32],[64,16,3,3],[64]] types=[float,float,float]
op main 1us 5us aten::cudnn_convolution id=2
call main 2us 2us cudaLaunchKernel corr=1 id=2
kernel 7 100us 10us sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc corr=1
op main 8us 5us aten::add_ id=3
call main 9us 2us cudaLaunchKernel corr=2 id=3
kernel 7 110us 20us void at::native::elementwise_kernel<128, 2> corr=2
op main 20us 9us aten::batch_norm id=4 seq=2 dims=[[8,64,30,30],[64]] types=[float,float]
call main 21us 2us cudaLaunchKernel corr=3 id=4
kernel 7 130us 30us NORM corr=3
op backward 50us 19us ConvolutionBackward0 id=5 seq=1
op backward 51us 15us aten::convolution_backward id=6
op backward 52us 5us aten::sum id=7
call backward 53us 2us cudaLaunchKernel corr=4 id=7
kernel 7 160us 40us void at::native::reduce_kernel<512, 1> corr=4
)";
  const auto with_norm = [&](std::string_view kernel) {
    std::string text = kConv;
    return summary_of(text.replace(text.find("NORM"), 4, kernel));
  };
  const TraceSummary trains = with_norm("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>");
  EXPECT_EQ(trains.conv_bias.count, 1);
  EXPECT_NEAR(us(trains.conv_bias.added), 20, 1e-3);
  EXPECT_NEAR(us(trains.conv_bias.gradient), 40, 1e-3);
  // In evaluation mode the bias counts.
  EXPECT_EQ(with_norm("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float>").conv_bias.count, 0);
}

// Layers of two kinds in turn: each adds up its own.
TEST(AttentionUses, LayersOfTwoKindsAreTwoUses) {
  const auto layer = [](int at, const std::string& between) {
    std::string text;
    const auto add = [&](const std::string& op, const std::string& kernel, int us) {
      text += fmt::format(
          "op main {0}us 9us aten::{1} id={0}\ncall main {2}us 2us cudaLaunchKernel corr={0} "
          "id={0}\n"
          "kernel 7 {3}us {4}us {5} corr={0}\n",
          at, op, at + 1, 5'000 + 10 * at, us, kernel);
      at += 10;
    };
    add("baddbmm", "volta_sgemm_128x32_tn", 10);
    if (!between.empty())
      add(between, "void at::native::vectorized_elementwise_kernel<4, f>(int)", 5);
    add("_softmax",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>", 20);
    add("bmm", "volta_sgemm_128x32_nn", 30);
    return text;
  };
  const TraceSummary trace = summary_of(layer(10, "") + layer(110, "masked_fill") +
                                        layer(210, "masked_fill") + layer(310, ""));
  ASSERT_EQ(trace.attentions.size(), 2U);
  for (const AttentionUse& use : trace.attentions) {
    EXPECT_EQ(use.count, 2);
    EXPECT_NEAR(us(use.gemm_time), 2 * 40, 1e-3);
    EXPECT_NEAR(us(use.other_time), use.between.empty() ? 0 : 2 * 5, 1e-3);
  }
}

// Without shapes: a GEMM, these operators with a kernel of 1 us each, a softmax of 5 us, others,
// and a GEMM; 10 us each.
using Operators = std::vector<std::pair<std::string, std::string>>;

std::vector<AttentionUse> attentions_of(const Operators& before, const Operators& after,
                                        const std::string& gemm = "ampere_sgemm_128x64_nn") {
  Operators all{{"aten::bmm", gemm}};
  all.insert(all.end(), before.begin(), before.end());
  all.emplace_back("aten::_softmax", "void cunn_SoftMaxForward<4, float>(int)");
  all.insert(all.end(), after.begin(), after.end());
  all.emplace_back("aten::bmm", gemm);
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_gemm = i == 0 || i + 1 == all.size();
    const int length = is_gemm ? 10 : all[i].first == "aten::_softmax" ? 5 : 1;
    text += fmt::format(
        "op main {0}us 8us {2} id={1}\ncall main {0}us 2us cudaLaunchKernel corr={1} id={1}\n"
        "kernel 7 {3}us {4}us {5} corr={1}\n",
        20 * i, i + 1, all[i].first, 20 * i + 100, length, all[i].second);
  }
  return summary_of(text).attentions;
}

constexpr const char* kAdd = "void at::native::vectorized_elementwise_kernel<4, Add<float>>(int)";

TEST(AttentionUses, ItsGemmsAreNear) {
  const Operators some(23, {"aten::mul", kAdd}), more(24, {"aten::mul", kAdd});
  for (const auto& found : {attentions_of(some, {}), attentions_of({}, some)}) {
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].count, 1);
    EXPECT_NEAR(us(found[0].gemm_time), 20, 1e-6);
    EXPECT_NEAR(us(found[0].softmax_time), 5, 1e-6);
    EXPECT_NEAR(us(found[0].other_time), 23, 1e-6);
    EXPECT_EQ(found[0].between, (std::vector<std::string>{"aten::mul"}));
  }
  EXPECT_TRUE(attentions_of(more, {}).empty());
  EXPECT_TRUE(attentions_of({}, more).empty());
}

TEST(AttentionUses, ListsSixOperatorsBetween) {
  Operators eight;
  for (int i = 0; i < 8; ++i) eight.emplace_back("aten::op" + std::to_string(i), kAdd);
  const auto found = attentions_of(eight, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].between, (std::vector<std::string>{"aten::op0", "aten::op1", "aten::op2",
                                                        "aten::op3", "aten::op4", "aten::op5"}));
  EXPECT_NEAR(us(found[0].other_time), 8, 1e-6);
}

// Elements of an access, 16 bytes of them are whole.
TEST(AttentionUses, KernelsThatLoadFewerBytesAreNarrow) {
  const auto narrow = [](const std::string& gemm) {
    return us(attentions_of({}, {}, gemm).at(0).narrow_time);
  };
  const std::string bf16 = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x6_tn_align";
  const std::string tf32 = "cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align";
  EXPECT_NEAR(narrow(bf16 + "8"), 0, 1e-6);
  EXPECT_NEAR(narrow(bf16 + "4"), 20, 1e-6);
  EXPECT_NEAR(narrow(tf32 + "4"), 0, 1e-6);
  EXPECT_NEAR(narrow(tf32 + "1"), 20, 1e-6);
  EXPECT_NEAR(narrow("ampere_sgemm_128x64_nn"), 0, 1e-6);  // its name does not say
}

TEST(AttentionUses, WhatMayLieBetween) {
  const auto count = [](const std::string& op, const std::string& kernel) {
    return attentions_of({{op, kernel}}, {}).size();
  };
  for (const auto& [op, kernel] : Operators{
           {"aten::add", kAdd},
           {"aten::to", "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>()"},
           {"aten::copy_",
            "void at::native::elementwise_kernel<128, 2, direct_copy_kernel_cuda>()"},
           {"aten::fill_", "void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>"},
           {"aten::x", "void nchwToNhwcKernel<float>()"},
           {"aten::rand", "distribution_elementwise_grid_stride_kernel<float, 4>"},
           {"aten::sum", "void at::native::reduce_kernel<512, 1>()"},
           {"aten::embedding", "void at::native::embedding_renorm_kernel()"},
           {"aten::index", "void at::native::index_elementwise_kernel<128, 4>(long)"},
           {"aten::x", "k_17"}}) {
    EXPECT_EQ(count(op, kernel), 1U) << kernel;
  }
  for (const auto& [op, kernel] :
       Operators{{"aten::layer_norm", "void at::native::vectorized_layer_norm_kernel<float>()"},
                 {"aten::mm", "ampere_sgemm_128x64_nn"},
                 {"aten::conv2d", "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"}}) {
    EXPECT_EQ(count(op, kernel), 0U) << kernel;
  }
}

}  // namespace
}  // namespace rooftile
