#include "rooftile/aten/operator.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <tuple>

#include "rooftile/aten/operator_cases.h"

namespace rooftile {
namespace {

using aten_test::arguments_of;
using aten_test::expect_all;

TEST(AtenOp, MatrixProducts) {
  expect_all({
      {"aten::mm",
       "2,1000|1000,1|float; 1000,2048|2048,1|float",
       {"gemm fp32 m=2 n=2048 k=1000 layout=nn"}},
      {"aten::mm",
       "16,4096|4096,1|c10::BFloat16; 4096,3584|1,4096|c10::BFloat16",
       {"gemm bf16 m=16 n=3584 k=4096 layout=nt"}},
      {"aten::mm",
       "65,256|1,65|float; 256,384|384,1|float",
       {"gemm fp32 m=65 n=384 k=256 layout=tn"}},
      // A column slice of a wider matrix: rows are 640 elements apart.
      {"aten::mm",
       "256,128|640,1|c10::Half; 128,64|64,1|c10::Half",
       {"gemm fp16 m=256 n=64 k=128 layout=nn x_stride=640"}},
      // Without strides both operands count as contiguous.
      {"aten::mm", "32,1000||float; 1000,2048||float", {"gemm fp32 m=32 n=2048 k=1000 layout=nn"}},
      {"aten::addmm",
       "3072|1|c10::BFloat16; 788,768|768,1|c10::BFloat16; 768,3072|1,768|c10::BFloat16; "
       "||Scalar|1; ||Scalar|1",
       {"gemm bf16 m=788 n=3072 k=768 bias=1"}},
      // A whole matrix is added: no bias.
      {"aten::addmm",
       "8,4|4,1|float; 8,2|2,1|float; 2,4|4,1|float; ||Scalar|1; ||Scalar|1",
       {"gemm fp32 m=8 n=4 k=2 layout=nn"}},
      {"aten::bmm",
       "96,512,64|32768,64,1|c10::Half; 96,64,512|32768,1,64|c10::Half",
       {"gemm fp16 m=512 n=512 k=64 batch=96 weight=activation"}},
      {"aten::baddbmm",
       "12,8,8||float; 12,8,4|32,4,1|float; 12,4,8|32,8,1|float; ||Scalar|1; ||Scalar|1",
       {"gemm fp32 m=8 n=8 k=4 batch=12 layout=nn weight=activation"}},
      {"aten::linear",
       "4,197,3072|605184,3072,1|c10::BFloat16; 768,3072|3072,1|c10::BFloat16; "
       "768|1|c10::BFloat16",
       {"gemm bf16 m=788 n=768 k=3072 bias=1"}},
      {"aten::linear",
       "4,64,384|24576,384,1|float; 1152,384|384,1|float; |||",
       {"gemm fp32 m=256 n=1152 k=384"}},
      {"aten::matmul",
       "4,64,384|24576,384,1|float; 384,1152|1,384|float",
       {"gemm fp32 m=256 n=1152 k=384"}},
      {"aten::mv", "10,20|20,1|float; 20|1|float", {"gemm fp32 m=10 n=1 k=20 layout=nn"}},
      {"aten::_scaled_mm",
       "16,32|32,1|c10::Float8_e4m3fn; 32,48|1,32|c10::Float8_e4m3fn; 1|1|float; 1|1|float; "
       "|||; |||; ||Scalar|15; ||Scalar|True",
       {"gemm fp8 m=16 n=48 k=32 out_dtype=bf16"}},
  });
}

TEST(AtenOp, IncompleteOrInconsistentProductsGiveNothing) {
  expect_all({
      {"aten::mm", "2,1000||float; 1001,2048||float", {}},                 // k differs
      {"aten::mm", "2,1000||float; 1000,2048||c10::Half", {}},             // types differ
      {"aten::mm", "2,1000||float", {}},                                   // one operand
      {"aten::mm", "2,-1||float; 1000,8||float", {}},                      // negative
      {"aten::mm", "2,0||float; 0,8||float", {}},                          // empty
      {"aten::mm", "2,1000||Mystery; 1000,8||Mystery", {}},                // unknown type
      {"aten::mm", "9000000000000,9000000||float; 9000000,9||float", {}},  // too large
      {"aten::bmm", "3,8,4||float; 4,4,8||float", {}},                     // batches differ
      {"aten::linear", "4,64,384||float; 1152,385||float; |||", {}},
      {"aten::linear", "4,8||float; 16,8||float; 15||float", {}},  // bias of another size
      {"aten::matmul", "2,3,4||float; 1,4,5||float", {}},          // broadcast batches
      {"mm", "2,4||float; 4,8||float", {}},                        // not an ATen operator
      {"aten::mystery", "2,4||float; 4,8||float", {}},
  });
}

constexpr std::string_view kStem =
    "2,3,64,64|12288,4096,64,1|float; 64,3,7,7|147,49,7,1|float; |||; ||ScalarList|[2, 2]; "
    "||ScalarList|[3, 3]; ||ScalarList|[1, 1]";

TEST(AtenOp, Convolutions) {
  const std::string full = std::string(kStem) + "; ||Scalar|False; ||ScalarList|[0, 0]; ||Scalar|1";
  const std::string short_form = std::string(kStem) + "; ||Scalar|1";
  const std::string_view stem = "conv fp32 n=2 c=3 k=64 in=64x64 kernel=7 stride=2 pad=3";
  expect_all({
      {"aten::convolution", full, {stem}},
      {"aten::_convolution", full, {stem}},
      {"aten::conv2d", short_form, {stem}},
      {"aten::cudnn_convolution",
       "4,3,224,224|150528,50176,224,1|c10::BFloat16; 768,3,16,16|768,256,16,1|c10::BFloat16; "
       "||ScalarList|[0, 0]; ||ScalarList|[16, 16]; ||ScalarList|[1, 1]; ||Scalar|1; "
       "||Scalar|False; ||Scalar|False; ||Scalar|True",
       {"conv bf16 n=4 c=3 k=768 in=224x224 kernel=16 stride=16"}},
      // Channels last, depthwise, with a bias.
      {"aten::conv2d",
       "8,32,14,14|6272,1,448,32|c10::Half; 32,1,3,3|9,1,3,1|c10::Half; 32|1|c10::Half; "
       "||ScalarList|[1, 1]; ||ScalarList|[2, 2]; ||ScalarList|[2, 2]; ||Scalar|32",
       {"conv fp16 n=8 c=32 k=32 in=14x14 kernel=3 pad=2 dilation=2 groups=32 layout=nhwc "
        "bias=1"}},
      {"aten::conv_transpose2d",
       "1,16,8,8||float; 16,4,4,4||float; |||; ||ScalarList|[2, 2]; ||ScalarList|[1, 1]; "
       "||ScalarList|[0, 0]; ||Scalar|2; ||ScalarList|[1, 1]",
       {"conv fp32 n=1 c=16 k=8 in=8x8 kernel=4 stride=2 pad=1 groups=2 transposed=1"}},
      {"aten::conv1d",
       "2,80,3000||float; 384,80,3||float; 384||float; ||ScalarList|[1]; ||ScalarList|[1]; "
       "||ScalarList|[1]; ||Scalar|1",
       {"conv fp32 n=2 c=80 k=384 in=3000 kernel=3 pad=1 bias=1"}},
      // No concrete values, as in old recordings: stride and padding are unknown.
      {"aten::cudnn_convolution",
       "32,3,224,224||float; 64,3,7,7||float; ||GenericList|; ||GenericList|; ||GenericList|; "
       "||Int|",
       {}},
      // 5 input channels do not fit a weight for 3.
      {"aten::conv2d",
       "2,5,8,8||float; 4,3,3,3||float; |||; ||ScalarList|[1, 1]; ||ScalarList|[0, 0]; "
       "||ScalarList|[1, 1]; ||Scalar|1",
       {}},
      // A kernel larger than the input.
      {"aten::conv2d",
       "2,3,2,2||float; 4,3,3,3||float; |||; ||ScalarList|[1, 1]; ||ScalarList|[0, 0]; "
       "||ScalarList|[1, 1]; ||Scalar|1",
       {}},
      {"aten::conv2d",
       "2,3,8,8||float; 4,3,3,3||float; |||; ||ScalarList|[0, 0]; ||ScalarList|[0, 0]; "
       "||ScalarList|[1, 1]; ||Scalar|1",
       {}},
  });
}

TEST(AtenOp, ConvolutionBackwardIsWhatItsMaskAsks) {
  const auto backward = [](std::string_view out, std::string_view mask) {
    return std::string(out) +
           "|; 2,512,4,4||float; 512,512,3,3||float; ||ScalarList|[0]; ||ScalarList|[2, 2]; "
           "||ScalarList|[1, 1]; ||ScalarList|[1, 1]; ||Scalar|False; ||ScalarList|[0, 0]; "
           "||Scalar|1; ||ScalarList|" +
           std::string(mask);
  };
  const std::string_view dgrad =
      "conv fp32 n=2 c=512 k=512 in=4x4 kernel=3 stride=2 pad=1 phase=dgrad";
  const std::string_view wgrad =
      "conv fp32 n=2 c=512 k=512 in=4x4 kernel=3 stride=2 pad=1 phase=wgrad";
  const std::string both = backward("2,512,2,2|", "[True, True, False]");
  const std::string weight = backward("2,512,2,2|", "[False, True, False]");
  const std::string wrong = backward("2,512,3,3|", "[True, True, False]");
  const auto typed = [](std::string text) { return text.replace(text.find("||;"), 3, "||float;"); };
  expect_all({{"aten::convolution_backward", typed(both), {dgrad, wgrad}},
              {"aten::convolution_backward", typed(weight), {wgrad}},
              {"aten::convolution_backward", typed(wrong), {}}});
  EXPECT_FALSE(aten_op("aten::convolution_backward", arguments_of(typed(both))));
  EXPECT_TRUE(aten_op("aten::convolution_backward", arguments_of(typed(weight))));
}

Op product(std::string_view text) {
  const std::size_t blank = text.find(' ');
  return parse_workload(std::string(text.substr(0, blank)) + " x" + std::string(text.substr(blank)))
      ->ops.at(0);
}

// A layer with 2 tokens, 1000 outputs and 2048 inputs: dx = dout·w is [2,1000]·[1000,2048], dw =
// doutᵀ·x is [1000,2]·[2,2048].
TEST(AtenOp, BackwardProductsOfALayer) {
  const Op layer = product("gemm fp32 m=2 n=1000 k=2048 bias=1");
  const auto dgrad = as_backward_of(layer, product("gemm fp32 m=2 n=2048 k=1000 layout=nn"), true);
  ASSERT_TRUE(dgrad);
  EXPECT_EQ(dgrad->body, layer.body);
  EXPECT_EQ(dgrad->phase, Phase::dgrad);
  const auto wgrad = as_backward_of(layer, product("gemm fp32 m=1000 n=2048 k=2 layout=tn"), true);
  ASSERT_TRUE(wgrad);
  EXPECT_EQ(wgrad->phase, Phase::wgrad);
  EXPECT_EQ(wgrad->body, layer.body);
  EXPECT_FALSE(as_backward_of(layer, product("gemm fp32 m=2 n=2048 k=999"), true));
  EXPECT_FALSE(as_backward_of(layer, product("softmax fp32 rows=2 cols=3"), true));
}

TEST(AtenOp, EqualSizesAreToldApartByStridesOnly) {
  const Op layer = product("gemm fp32 m=384 n=384 k=384");
  const Op plain = product("gemm fp32 m=384 n=384 k=384 layout=nn");
  const Op transposed = product("gemm fp32 m=384 n=384 k=384 layout=tn");
  EXPECT_EQ(as_backward_of(layer, plain, true)->phase, Phase::dgrad);
  EXPECT_EQ(as_backward_of(layer, transposed, true)->phase, Phase::wgrad);
  EXPECT_FALSE(as_backward_of(layer, plain, false));
}

// Both gradients of a product of two activations are operators of their own, of which each is one
// product; of an unknown layer it is dx = dout·w with the sizes that ran.
TEST(AtenOp, AProductOfTheBackwardPassIsOneGradient) {
  const Op scores = product("gemm fp32 m=160 n=606 k=20 batch=8 layout=nn weight=activation");
  const Op ran = product("gemm fp32 m=160 n=20 k=606 batch=8 layout=nt weight=activation");
  const Op known = as_gradient(ran, &scores, true);
  EXPECT_EQ(known.phase, Phase::dgrad);
  EXPECT_EQ(std::get<Gemm>(known.body).n, 606);
  EXPECT_TRUE(std::get<Gemm>(known.body).weight_is_parameter);
  const Op unknown = as_gradient(ran, nullptr, true);
  EXPECT_EQ(unknown.phase, Phase::dgrad);
  const Gemm& gemm = std::get<Gemm>(unknown.body);
  EXPECT_EQ(std::tuple(gemm.m, gemm.n, gemm.k), std::tuple(160, 606, 20));
  EXPECT_TRUE(gemm.weight_is_parameter);
}

// Every known operator with random arguments, sizes at the limits among them.
TEST(AtenOp, AnyArgumentsAreSafe) {
  constexpr std::string_view kNames[] = {"aten::mm",
                                         "aten::addmm",
                                         "aten::bmm",
                                         "aten::linear",
                                         "aten::matmul",
                                         "aten::mv",
                                         "aten::_scaled_mm",
                                         "aten::convolution",
                                         "aten::conv2d",
                                         "aten::conv_transpose2d",
                                         "aten::convolution_backward",
                                         "aten::_flash_attention_forward",
                                         "aten::scaled_dot_product_attention",
                                         "aten::native_layer_norm",
                                         "aten::native_group_norm",
                                         "aten::_softmax",
                                         "aten::max_pool2d",
                                         "aten::adaptive_avg_pool2d",
                                         "aten::embedding",
                                         "aten::embedding_dense_backward",
                                         "aten::add",
                                         "aten::sum",
                                         "aten::copy_",
                                         "aten::_to_copy",
                                         "aten::max",
                                         "aten::cat",
                                         "aten::index",
                                         "aten::index_select",
                                         "aten::gather",
                                         "aten::scatter_add_",
                                         "aten::index_put_",
                                         "aten::cumsum",
                                         "aten::mse_loss",
                                         "aten::glu",
                                         "aten::arange",
                                         "aten::upsample_bilinear2d",
                                         "aten::_fused_adam_",
                                         "aten::_cudnn_rnn",
                                         "aten::_cudnn_rnn_backward",
                                         "aten::instance_norm"};
  constexpr std::int64_t kSizes[] = {-1,
                                     0,
                                     1,
                                     2,
                                     3,
                                     8,
                                     1000000000,
                                     1000000000000,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()};
  constexpr std::string_view kTypes[] = {"float", "c10::Half", "long int", "Scalar", "", "bool"};
  constexpr std::string_view kValues[] = {"",
                                          "1",
                                          "[1, 1]",
                                          "[3]",
                                          "True",
                                          "[True, False]",
                                          "[",
                                          "0",
                                          "[]",
                                          "[[2, 3], [4]]",
                                          "[[1000000000, 1000000000]]",
                                          "-9223372036854775808",
                                          "[1000000000, 2]"};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    OpArguments arguments;
    const auto count = random() % 16;
    for (std::size_t i = 0; i < count; ++i) {
      arguments.dims.emplace_back();
      arguments.strides.emplace_back();
      for (auto axis = random() % 5; axis > 0; --axis) {
        arguments.dims.back().push_back(kSizes[random() % std::size(kSizes)]);
        arguments.strides.back().push_back(kSizes[random() % std::size(kSizes)]);
      }
      arguments.types.emplace_back(kTypes[random() % std::size(kTypes)]);
      arguments.values.emplace_back(kValues[random() % std::size(kValues)]);
    }
    for (const Op& op : aten_ops(kNames[random() % std::size(kNames)], arguments)) {
      EXPECT_FALSE(to_text(op).empty());
    }
  }
}

}  // namespace
}  // namespace rooftile
