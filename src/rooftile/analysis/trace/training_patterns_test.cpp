#include "rooftile/analysis/trace/training_patterns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TraceSummary patterns_in(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double in_us(Seconds time) { return to_microseconds(time); }

// A convolution that adds its bias in 20 us, the count of batches, a batch normalisation, and the
// backward pass, which sums the gradient of the bias in 40 us.
std::string biased_convolution() {
  return R"(
op main 0us 100us aten::conv2d id=1 seq=1 dims=[[8,3,9,9],[16,3,3,3],[16]] types=[float,float,float]
op main 1us 90us aten::convolution id=2 seq=1 dims=[[8,3,9,9],[16,3,3,3],[16]] types=[float,float,float]
call main 5us 3us cudaLaunchKernel corr=1 id=2
kernel 7 10us 100us sm80_xmma_fprop_implicit_gemm_f16 corr=1
op main 50us 20us aten::add_ id=3 seq=1
call main 55us 3us cudaLaunchKernel corr=2 id=3
kernel 7 110us 20us void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int) corr=2
op main 102us 8us aten::add_ id=4
call main 103us 3us cudaLaunchKernel corr=3 id=4
kernel 7 130us 2us void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int) corr=3 grid=1
op main 112us 50us aten::batch_norm id=5 dims=[[8,16,9,9],[16]] types=[float,float]
call main 115us 3us cudaLaunchKernel corr=4 id=5
kernel 7 140us 30us void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(float) corr=4
op grad 300us 100us autograd::engine::evaluate_function: ConvolutionBackward0 id=7 seq=1
op grad 301us 90us aten::convolution_backward id=8 dims=[[8,16,9,9],[8,3,9,9],[16,3,3,3]] types=[float,float,float]
call grad 305us 3us cudaLaunchKernel corr=7 id=8
kernel 7 310us 100us sm80_xmma_dgrad_implicit_gemm_f16 corr=7
op grad 340us 20us aten::sum id=9
call grad 345us 3us cudaLaunchKernel corr=8 id=9
kernel 7 410us 40us void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float) corr=8
op grad 390us 20us aten::sum id=10
call grad 405us 3us cudaLaunchKernel corr=9 id=10
kernel 7 450us 9us void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float) corr=9
)";
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

std::string without_shapes(std::string text) {
  for (std::size_t at = text.find(" dims="); at != std::string::npos; at = text.find(" dims=")) {
    text.erase(at, text.find('\n', at) - at);
  }
  return text;
}

TEST(ConvBias, IsWhatANormalisationSubtractsAgain) {
  const std::string all = biased_convolution();
  for (const std::string& text :
       {all, without_shapes(all), with(all, " seq=1", ""),
        with(all, "cudnn::bn_fw_tr_1C11_kernel_NCHW", "batch_norm_collect_statistics_kernel")}) {
    const ConvBiasUse use = patterns_in(text).conv_bias;
    EXPECT_EQ(use.count, 1) << text;
    EXPECT_NEAR(in_us(use.added), 20, 1e-6);
    EXPECT_NEAR(in_us(use.gradient), 40, 1e-6);
    EXPECT_EQ(use.site.op, "aten::conv2d");
  }
}

TEST(ConvBias, CountsOnlyInFrontOfItsNormalisation) {
  const std::string all = biased_convolution();
  for (const std::string& text :
       {with(all, "[[8,16,9,9],[16]]", "[[8,17,9,9],[17]]"),  // of other channels
        with(all, "[[8,16,9,9],[16]]", "[[16],[16]]"),        // without channels
        with(all, "[16,3,3,3],[16]]", "[16,3,3,3],[16,1]]"),  // no bias
        with(all, ",[16,3,3,3],[16]] types=[float,float,float]",
             ",[16,3,3,3]] types=[float,float]"),
        with(all, "grid=1", "grid=2"),  // another addition between
        with(all, "bn_fw_tr", "bn_fw_inf"),
        with(all, "aten::batch_norm", "aten::batch_norm_backward"),
        with(all, "50us 20us aten::add_", "50us 20us aten::mul_"),
        with(with(all, "main 112us", "other 112us"), "main 115us", "other 115us")}) {
    EXPECT_EQ(patterns_in(text).conv_bias, ConvBiasUse{}) << text;
  }
}

TEST(ConvBias, GradientsAreSumsOfTheBackwardPassOfThatConvolution) {
  const std::string all = biased_convolution();
  for (const std::string& text :
       {with(with(all, " seq=1", ""), "[8,3,9,9],[16,3,3,3]] types", "[8,3,9,9],[16,3,5,5]] types"),
        with(all,
             "grad 300us 100us autograd::engine::evaluate_function: ConvolutionBackward0 id=7 "
             "seq=1",
             "grad 300us 100us autograd::engine::evaluate_function: ConvolutionBackward0 id=7 "
             "seq=3\nop main 290us 5us aten::conv2d seq=3"),
        with(all, "reduce_kernel<512", "elementwise_kernel<512")}) {
    const ConvBiasUse use = patterns_in(text).conv_bias;
    EXPECT_EQ(use.count, 1) << text;
    EXPECT_NEAR(in_us(use.added), 20, 1e-6);
    EXPECT_NEAR(in_us(use.gradient), 0, 1e-6);
  }
}

TEST(WeightCasts, AreTheFirstOfALayersWithoutShapes) {
  const auto casts = [](const std::string& second) {
    return patterns_in(fmt::format(R"(
op main 0us 100us aten::linear id=1
op main 2us 20us aten::to id=2
op main 5us 12us aten::copy_ id=4
call main 6us 4us cudaLaunchKernel corr=1 id=4
kernel 7 12us 60us direct_copy_kernel corr=1
op main 24us 6us aten::to id=5
call main 25us 3us cudaLaunchKernel corr=2 id=5
kernel 7 73us 10us direct_copy_kernel corr=2
op main 34us 5us aten::to id=6
call main 35us 3us cudaLaunchKernel corr=3 id=6
kernel 7 83us 10us direct_copy_kernel corr=3
op main 110us 20us aten::{} id=11
op main 112us 7us aten::to id=12
call main 113us 4us cudaLaunchKernel corr=11 id=12
kernel 7 114us 30us direct_copy_kernel corr=11
op main 121us 7us aten::to id=13
call main 123us 4us cudaLaunchKernel corr=12 id=13
kernel 7 154us 30us direct_copy_kernel corr=12
)",
                                   second))
        .weight_casts;
  };
  for (const char* other : {"relu", "convolution", "convolution_backward"}) {
    const WeightCasts found = casts(other);
    EXPECT_EQ(found.count, 2) << other;
    EXPECT_NEAR(in_us(found.time), 70, 1e-6);
    EXPECT_NEAR(in_us(found.host_time), 26, 1e-6);
    EXPECT_EQ(found.site.op, "aten::linear");
  }
  for (const char* layer : {"linear", "conv2d", "conv_transpose2d"}) {
    const WeightCasts found = casts(layer);
    EXPECT_EQ(found.count, 3) << layer;
    EXPECT_NEAR(in_us(found.time), 100, 1e-6);
    EXPECT_NEAR(in_us(found.host_time), 33, 1e-6);
  }
}

TEST(WeightCasts, AreOfTheWeightOrTheBiasWhereShapesTell) {
  struct Case {
    const char* layer;
    const char* type;
    const char* cast;
    std::int64_t count;
  };
  constexpr const char* kLayer = "[[8,64],[32,64],[32]]";
  for (const Case& c :
       {Case{kLayer, "float", "[[32,64],[]]", 1}, Case{kLayer, "float", "[[32],[]]", 1},
        Case{kLayer, "float", "[[8,64],[]]", 0}, Case{kLayer, "double", "[[32,64],[]]", 0},
        Case{"[[32,64],[32,64]]", "float", "[[32,64],[]]", 0},
        Case{"[[8,64]]", "float", "[[32,64],[]]", 0},
        Case{"[[8,64],[32,64]]", "float", "[[32,64],[]]", 1},
        Case{"[[8,64],[32,64]]", "float", "[[32],[]]", 0}}) {
    const WeightCasts found =
        patterns_in(
            fmt::format("op main 0us 60us aten::linear id=1 dims={} types=[c10::Half,float]\n"
                        "op main 2us 20us aten::to id=2 dims={} types=[{},Scalar]\n"
                        "call main 6us 4us cudaLaunchKernel corr=1 id=2\n"
                        "kernel 7 12us 60us direct_copy_kernel corr=1\n",
                        c.layer, c.cast, c.type))
            .weight_casts;
    EXPECT_EQ(found.count, c.count) << c.layer << c.type << c.cast;
  }
}

// Within a node of autograd operators build a graph again: 7 and 11 us, where a layer is among
// them. Gradients of gradients build one too.
TEST(Recomputed, LayersThatRunWithinTheBackwardPass) {
  const auto recomputed = [](const std::string& layer) {
    return patterns_in(fmt::format(R"(
op main 0us 20us aten::mm id=1 seq=5
call main 2us 3us cudaLaunchKernel corr=1 id=1
kernel 7 10us 5us a corr=1
op grad 40us 100us autograd::engine::evaluate_function: CheckpointFunctionBackward id=3
op grad 41us 20us {} id=4
call grad 45us 3us cudaLaunchKernel corr=4 id=4
kernel 7 50us 7us b corr=4
op grad 65us 10us aten::add id=5 seq=8
call grad 66us 3us cudaLaunchKernel corr=5 id=5
kernel 7 70us 11us c corr=5
op grad 80us 10us aten::mul id=6
call grad 81us 3us cudaLaunchKernel corr=6 id=6
kernel 7 90us 13us d corr=6
op grad 150us 100us autograd::engine::evaluate_function: MulBackward0 id=7
op grad 151us 20us aten::mul id=8 seq=9
call grad 155us 3us cudaLaunchKernel corr=8 id=8
kernel 7 160us 17us e corr=8
)",
                                   layer))
        .recomputed;
  };
  for (const char* layer : {"linear", "conv1d", "conv2d", "conv3d", "dropout", "layer_norm", "gelu",
                            "softmax", "silu", "scaled_dot_product_attention"}) {
    const RecomputeUse use = recomputed(fmt::format("aten::{} seq=7", layer));
    EXPECT_EQ(use.kernels, 2) << layer;
    EXPECT_NEAR(in_us(use.time), 18, 1e-6);
  }
  EXPECT_EQ(recomputed("aten::relu seq=7").kernels, 0);
  EXPECT_EQ(recomputed("aten::linear").kernels, 0);
}

}  // namespace
}  // namespace rooftile::trace
