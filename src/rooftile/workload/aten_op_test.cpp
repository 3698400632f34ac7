#include "rooftile/workload/aten_op.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "rooftile/base/text.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

// "4,768|768,1|float" is a tensor with its strides; "|||Scalar|[1, 1]" becomes "||ScalarList|[1,
// 1]". Arguments are separated by "; ": dims|strides|type|value.
std::vector<std::int64_t> sizes(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : split(text, ',')) {
    if (const auto number = parse_integer(trim(part))) numbers.push_back(*number);
  }
  return numbers;
}

OpArguments arguments_of(std::string_view text) {
  OpArguments arguments;
  for (const std::string_view argument : split(text, ';')) {
    auto parts = split(trim(argument), '|');
    parts.resize(4);
    arguments.dims.push_back(sizes(parts[0]));
    arguments.strides.push_back(sizes(parts[1]));
    arguments.types.emplace_back(parts[2]);
    arguments.values.emplace_back(parts[3]);
  }
  return arguments;
}

std::string described(const Op& op) {
  const Op bare{"x", op.body, op.dtypes, op.phase, 1, {}, {"x"}, {}, {}};
  return to_text(bare);
}

// "gemm bf16 m=…" as the operation it describes, in the writer's spelling.
std::string canonical(std::string_view text) {
  const std::size_t blank = text.find(' ');
  const auto workload =
      parse_workload(std::string(text.substr(0, blank)) + " x" + std::string(text.substr(blank)));
  return workload ? described(workload->ops.at(0)) : to_string(workload.error());
}

struct Case {
  std::string_view name, arguments;
  std::vector<std::string_view> expected;  // none: the arguments do not tell
};

void expect_all(const std::vector<Case>& cases) {
  for (const Case& entry : cases) {
    const std::vector<Op> ops = aten_ops(entry.name, arguments_of(entry.arguments));
    ASSERT_EQ(ops.size(), entry.expected.size()) << entry.name << " " << entry.arguments;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      EXPECT_EQ(described(ops[i]), canonical(entry.expected[i]))
          << entry.name << " " << entry.arguments;
      EXPECT_EQ(ops[i].name, entry.name);
    }
  }
}

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

TEST(AtenOp, Attention) {
  const std::string_view qkv =
      "4,12,197,64|151296,64,768,1|c10::BFloat16; 4,12,197,64|151296,64,768,1|c10::BFloat16; "
      "4,12,197,64|151296,64,768,1|c10::BFloat16";
  const std::string packed =
      "4,197,12,64||c10::BFloat16; 4,197,12,64||c10::BFloat16; 4,197,12,64||c10::BFloat16";
  const auto with = [](std::string_view tensors, std::string_view rest) {
    return std::string(tensors) + "; " + std::string(rest);
  };
  const std::string sdpa = with(qkv, "|||; ||Scalar|0.; ||Scalar|True; |||; ||Scalar|False");
  const std::string flash =
      with(qkv, "||Scalar|0.; ||Scalar|False; ||Scalar|False; ||Scalar|0.125");
  const std::string inner = with(packed,
                                 "|||; |||; ||Scalar|197; ||Scalar|197; ||Scalar|0.; "
                                 "||Scalar|False; ||Scalar|False; ||Scalar|0.125");
  const std::string varlen = with(packed,
                                  "5||int; 5||int; ||Scalar|197; ||Scalar|197; ||Scalar|0.; "
                                  "||Scalar|False; ||Scalar|False; ||Scalar|0.125");
  const std::string gradient =
      "4,12,197,64||c10::BFloat16; " +
      with(qkv,
           "4,12,197,64||c10::BFloat16; 4,12,197||float; |||; |||; ||Scalar|197; ||Scalar|197; "
           "||Scalar|0.; ||Scalar|True; |||; |||");
  const std::string unknown_mask = with(qkv, "|||; ||Double|; ||Bool|; |||");
  expect_all({
      {"aten::scaled_dot_product_attention",
       sdpa,
       {"attention bf16 batch=4 heads=12 q=197 d=64 causal=1"}},
      {"aten::_scaled_dot_product_flash_attention",
       flash,
       {"attention bf16 batch=4 heads=12 q=197 d=64"}},
      {"aten::_flash_attention_forward", inner, {"attention bf16 batch=4 heads=12 q=197 d=64"}},
      {"aten::_flash_attention_forward", varlen, {}},  // packed sequences hide the shape
      {"aten::_scaled_dot_product_flash_attention_backward",
       gradient,
       {"attention bf16 batch=4 heads=12 q=197 d=64 causal=1 phase=dgrad"}},
      {"aten::scaled_dot_product_attention", unknown_mask, {}},
      // Grouped queries: 32 heads share 8; one new token against 4096.
      {"aten::_scaled_dot_product_efficient_attention",
       "1,32,1,128||c10::Half; 1,8,4096,128||c10::Half; 1,8,4096,128||c10::Half; |||; "
       "||Scalar|False; ||Scalar|0.; ||Scalar|False; |||",
       {"attention fp16 batch=1 heads=32 kv_heads=8 q=1 kv=4096 d=128"}},
  });
}

TEST(AtenOp, RowsPoolsAndTables) {
  const std::string_view pool =
      "2,64,32,32||float; ||ScalarList|[3, 3]; ||ScalarList|[2, 2]; ||ScalarList|[1, 1]; "
      "||ScalarList|[1, 1]; ||Scalar|False";
  expect_all({
      {"aten::native_layer_norm",
       "4,197,768||c10::BFloat16; ||ScalarList|[768]; 768||c10::BFloat16; 768||c10::BFloat16; "
       "||Scalar|1e-12",
       {"norm bf16 fn=layer rows=788 cols=768"}},
      // Two normalized axes: 14·14 elements share statistics.
      {"aten::native_layer_norm",
       "8,3,14,14||float; ||ScalarList|[14, 14]; |||; |||; ||Scalar|0",
       {"norm fp32 fn=layer rows=24 cols=196"}},
      {"aten::native_layer_norm", "8,16||float; ||ScalarList|[17]; |||; |||; ||Scalar|0", {}},
      {"aten::cudnn_batch_norm",
       "32,64,112,112||float; 64||float",
       {"norm fp32 fn=batch rows=401408 cols=64"}},
      {"aten::native_batch_norm_backward",
       "2,8,4,4||float; 2,8,4,4||float; 8||float",
       {"norm fp32 fn=batch rows=32 cols=8 phase=dgrad"}},
      {"aten::native_group_norm",
       "2,32,8,8||c10::Half; 32||c10::Half; 32||c10::Half; ||Scalar|2; ||Scalar|32; ||Scalar|64; "
       "||Scalar|4; ||Scalar|1e-5",
       {"norm fp16 fn=group rows=8 cols=512"}},
      {"aten::_log_softmax",
       "256,65||float; ||Scalar|1; ||Scalar|False",
       {"softmax fp32 rows=256 cols=65"}},
      {"aten::_softmax",
       "2,8,16||float; ||Scalar|-2; ||Scalar|False",
       {"softmax fp32 rows=32 cols=8"}},
      {"aten::_softmax", "2,8,16||float; ||Scalar|3; ||Scalar|False", {}},
      {"aten::_softmax", "2,8,16||float; ||Int|; ||Bool|", {}},
      {"aten::_softmax_backward_data",
       "2,8||float; 2,8||float; ||Scalar|-1; ||Scalar|6",
       {"softmax fp32 rows=2 cols=8 phase=dgrad"}},
      {"aten::max_pool2d", pool, {"pool fp32 fn=max n=2 c=64 in=32x32 out=16x16 kernel=3"}},
      {"aten::avg_pool2d",
       "1,8,7,7||float; ||ScalarList|[2, 2]; ||ScalarList|[]; ||ScalarList|[0, 0]; "
       "||Scalar|True; ||Scalar|True; |||",
       {"pool fp32 fn=average n=1 c=8 in=7x7 out=4x4 kernel=2"}},
      {"aten::adaptive_avg_pool2d",
       "2,2048,7,7||float; ||ScalarList|[1, 1]",
       {"pool fp32 fn=average n=2 c=2048 in=7x7 out=1x1 kernel=7"}},
      {"aten::embedding",
       "65,384||float; 4,64||long int; ||Scalar|-1; ||Scalar|False",
       {"embedding fp32 vocab=65 width=384 lookups=256"}},
      {"aten::embedding_dense_backward",
       "64,384||float; 64||long int; ||Scalar|128; ||Scalar|-1",
       {"embedding fp32 vocab=128 width=384 lookups=64 phase=wgrad"}},
  });
}

TEST(AtenOp, PointwiseReductionsAndCopies) {
  expect_all({
      // The second tensor is a quarter of the result: one full-size input.
      {"aten::add",
       "4,197,768||c10::BFloat16; 1,197,768||c10::BFloat16; ||Scalar|1",
       {"elementwise bf16 fn=add elements=605184"}},
      {"aten::add_",
       "32,256,56,56||float; 32,256,56,56||float; ||Scalar|1",
       {"elementwise fp32 fn=add elements=25690112 inputs=2"}},
      {"aten::mul", "8,1||float; 1,16||float", {"elementwise fp32 fn=mul elements=128"}},
      {"aten::gelu", "4,64,1536||float; |||", {"elementwise fp32 fn=gelu elements=393216"}},
      {"aten::threshold_backward",
       "2,8||float; 2,8||float; ||Scalar|0",
       {"elementwise fp32 fn=threshold_backward elements=16 inputs=2 phase=dgrad"}},
      {"aten::eq",
       "100||long int; 100||long int",
       {"elementwise int64 fn=eq elements=100 inputs=2 out_dtype=bool"}},
      {"aten::add", "4,3||float; 4,2||float; ||Scalar|1", {}},      // shapes do not fit
      {"aten::add", "4,3||float; 4,3||c10::Half; ||Scalar|1", {}},  // types differ
      {"aten::add", "|||; |||; ||Scalar|1", {}},
      {"aten::sum",
       "4,64,384||float; ||ScalarList|[0]; ||Scalar|True; |||",
       {"reduce fp32 fn=sum elements=98304 outputs=24576"}},
      {"aten::mean",
       "2,2048,2,2||float; ||ScalarList|[-1, -2]; ||Scalar|True; |||",
       {"reduce fp32 fn=mean elements=16384 outputs=4096"}},
      {"aten::sum", "10,10||float; ||GenericList|; ||Bool|; |||", {}},
      {"aten::copy_",
       "256,256||c10::Half; 256,256||float; ||Scalar|False",
       {"cast fp32 elements=65536 weight_dtype=fp32 out_dtype=fp16"}},
      {"aten::copy_",
       "2,64,8,8|4096,1,512,64|float; 2,64,8,8|4096,64,8,1|float; ||Scalar|False",
       {"layout fp32 elements=8192"}},
      {"aten::copy_",
       "2,1000|1000,1|float; 2,1000|0,1|float; ||Scalar|False",
       {"elementwise fp32 fn=copy elements=2000"}},
      {"aten::_to_copy",
       "64,64||float; ||Scalar|15; |||; |||; |||; ||Scalar|False; |||",
       {"cast fp32 elements=4096 weight_dtype=fp32 out_dtype=bf16"}},
  });
}

TEST(AtenOp, RecurrentLayers) {
  const std::string_view lstm =
      "35,20,650|13000,650,1|float; ||TensorList|; ||Scalar|4; |||; 2,20,650||float; "
      "2,20,650||float; ||Scalar|2; ||Scalar|650; ||Scalar|0; ||Scalar|2; ||Scalar|False; "
      "||Scalar|0.5; ||Scalar|True; ||Scalar|False; ||ScalarList|[]; |||";
  expect_all({{"aten::_cudnn_rnn",
               lstm,
               {"recurrent fp32 cell=lstm batch=20 seq=35 input=650 hidden=650 layers=2"}}});
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

TEST(AtenOp, MatrixOperatorsAreKnownByName) {
  EXPECT_TRUE(is_matrix_operator("aten::addmm"));
  EXPECT_TRUE(is_matrix_operator("aten::convolution_backward"));
  EXPECT_TRUE(is_matrix_operator("aten::_cudnn_rnn"));
  EXPECT_FALSE(is_matrix_operator("aten::add"));
  EXPECT_FALSE(is_matrix_operator("mm"));
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
