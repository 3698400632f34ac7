#include "rooftile/workload/workload_text.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(WorkloadText, LinearLayer) {
  const auto workload = parse_workload("gemm vocab bf16 m=4096 n=50257 k=768  # the output layer");
  ASSERT_TRUE(workload) << to_string(workload.error());
  ASSERT_EQ(workload->ops.size(), 1U);
  const Op& op = workload->ops[0];
  EXPECT_EQ(op.name, "vocab");
  EXPECT_EQ(op.dtypes, Dtypes(Dtype::bf16));
  EXPECT_EQ(op.source.line, 1);
  EXPECT_EQ(op.outputs, std::vector<std::string>{"vocab"});
  EXPECT_EQ(std::get<Gemm>(op.body), (Gemm{.m = 4096, .n = 50257, .k = 768}));
}

TEST(WorkloadText, OneSizeStandsForAllAxes) {
  const auto workload = parse_workload(
      "conv stem fp16 n=256 c=3 k=64 in=224x224 kernel=7 stride=2 pad=3 layout=nhwc");
  ASSERT_TRUE(workload) << to_string(workload.error());
  const auto& conv = std::get<Convolution>(workload->ops[0].body);
  EXPECT_EQ(conv.kernel, (Extents{7, 7}));
  EXPECT_EQ(conv.pad_begin, (Extents{3, 3}));
  EXPECT_EQ(conv.pad_end, (Extents{3, 3}));
  EXPECT_EQ(output_extents(conv), (Extents{112, 112}));
}

TEST(WorkloadText, DefaultsFollowOtherFields) {
  const auto workload = parse_workload("attention a fp16 batch=2 heads=8 q=128 d=64");
  ASSERT_TRUE(workload) << to_string(workload.error());
  const auto& attention = std::get<Attention>(workload->ops[0].body);
  EXPECT_EQ(attention.kv_heads, 8);
  EXPECT_EQ(attention.kv_len, 128);
  EXPECT_EQ(attention.value_dim, 64);
  EXPECT_TRUE(attention.fused);
}

// Every kind, every key: what is written reads back equal.
constexpr std::string_view kEverything = R"(workload mode=training parameters=124439808 source=a,b
gemm g bf16 m=1 n=2 k=3 batch=4 layout=tn weight=activation bias=1 x_stride=8 w_stride=9 out_stride=10 x_offset=1 w_offset=2 out_offset=3 weight_dtype=int4 out_dtype=fp32 phase=wgrad count=12 from=a,b%2Cc to=d file=m.onnx line=7 node=n%20ode module=layers.0 measured_s=0.00125
conv c fp16 n=2 c=8 k=16 in=14x14x14 kernel=3x3x1 stride=2x1x1 dilation=1x1x2 pad=1x1x0 pad_end=0x1x0 groups=2 layout=nhwc bias=1
conv t fp16 n=2 c=8 k=16 in=14 kernel=4 stride=2 pad=1 output_pad=1 transposed=1
attention at bf16 batch=1 heads=32 kv_heads=8 q=1 kv=4096 d=192 dv=128 causal=1 window=512 fused=0
recurrent r fp16 cell=gru batch=3 seq=4 input=5 hidden=6 layers=2 directions=2 projection=3 packed=1 bias=0
norm n fp32 fn=rms rows=10 cols=20
softmax s fp16 rows=10 cols=20
pool p fp16 fn=average n=1 c=2 in=4x4 out=2x2 kernel=2
elementwise e fp16 fn=add elements=100 inputs=2
reduce rd fp16 fn=mean elements=100 outputs=10
embedding em fp16 vocab=100 width=8 lookups=16
layout l fp16 elements=100 perm=0x2x3x1
cast ca fp32 elements=100 out_dtype=bf16
collective co bf16 fn=all_gather elements=100 ranks=8 link=network
optimizer o fp32 fn=momentum parameters=1000 phase=optimizer
other x int8 fn=Custom%20Op flop=10 bytes=20
skipped shape%20computation 12
note a%20remark
)";

TEST(WorkloadText, EverythingReadsBack) {
  const auto first = parse_workload(kEverything);
  ASSERT_TRUE(first) << to_string(first.error());
  EXPECT_EQ(first->ops.size(), std::variant_size_v<Body> + 1);
  const auto second = parse_workload(to_text(*first));
  ASSERT_TRUE(second) << to_string(second.error());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(first->ops[0].inputs, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_EQ(first->skipped.at("shape computation"), 12);
}

struct BadCase {
  std::string_view name, text, message;
};

TEST(WorkloadText, NamesReadBack) {
  Workload workload;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{}, {""}, {"_"}, {"%"}, {"", ""}, {"a", ""}, {"a,b", "%41"}}) {
    for (const std::string name : {"", "_", "%", "a"}) {
      workload.ops.push_back({.name = name, .body = Other{}, .inputs = names, .outputs = names});
      workload.ops.back().outputs.push_back(name);
    }
  }
  workload.notes = {"", "a note"};
  const auto again = parse_workload(to_text(workload));
  ASSERT_TRUE(again) << to_string(again.error());
  ASSERT_EQ(again->ops.size(), workload.ops.size());
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    EXPECT_EQ(again->ops[i].name, workload.ops[i].name);
    EXPECT_EQ(again->ops[i].inputs, workload.ops[i].inputs);
    EXPECT_EQ(again->ops[i].outputs, workload.ops[i].outputs);
  }
  EXPECT_EQ(again->notes, workload.notes);
}

TEST(WorkloadText, ErrorsSayFoundExpectedAndLine) {
  const BadCase cases[] = {
      {"number", "\ngemm a bf16 m=4k n=1 k=1", "line 2: m: expected a whole number, found '4k'"},
      {"kind", "gem a bf16 m=1", "line 1: unknown operation 'gem', expected gemm, conv"},
      {"dtype", "gemm a bf61 m=1 n=1 k=1", "line 1: unknown dtype 'bf61' after the name 'a'"},
      {"missing", "gemm a bf16 m=1 n=1", "line 1: k is missing"},
      {"unknown key", "gemm a bf16 m=1 n=1 k=1 q=3", "line 1: unknown or repeated key 'q'"},
      {"repeated key", "gemm a bf16 m=1 m=2 n=1 k=1", "line 1: unknown or repeated key 'm'"},
      {"zero", "gemm a bf16 m=0 n=1 k=1", "line 1: m=0: expected a size from 1 to 1000000000000"},
      {"overflow", "gemm a bf16 m=99999999999999999999 n=1 k=1", "line 1: m: expected a whole"},
      {"huge", "gemm a bf16 m=1000000000000 n=1000000000000 k=1", "line 1: a tensor of 1e+24"},
      {"choice", "gemm a bf16 m=1 n=1 k=1 layout=tx", "line 1: layout='tx': expected one of nn"},
      {"groups", "conv a bf16 n=1 c=3 k=4 in=8x8 kernel=1 groups=2", "line 1: groups=2 does not"},
      {"kernel", "conv a bf16 n=1 c=3 k=4 in=8x8 kernel=9", "line 1: the kernel does not fit"},
      {"axes", "conv a bf16 n=1 c=3 k=4 in=8x8x8x8 kernel=1", "line 1: in has 4 sizes"},
      {"stride", "conv a bf16 n=1 c=3 k=4 in=8x8 kernel=1 stride=0", "line 1: stride has a size"},
      {"heads", "attention a bf16 batch=1 heads=6 kv_heads=4 q=8 d=8", "kv_heads=4 does not"},
      {"no equals", "gemm a bf16 m n=1 k=1", "line 1: expected key=value, found 'm'"},
      {"short", "gemm a", "line 1: expected: kind name dtype key=value"},
  };
  for (const BadCase& bad : cases) {
    const auto workload = parse_workload(bad.text);
    ASSERT_FALSE(workload) << bad.name;
    EXPECT_NE(to_string(workload.error()).find(bad.message), std::string::npos)
        << bad.name << ": " << to_string(workload.error());
  }
}

TEST(WorkloadText, LinesWithMistakesAreKnownAsOperations) {
  for (const char* line : {"gemm a bf16 m=4k n=1 k=1", "gemm a bf61 m=1", "gem a bf16 m=1 n=1 k=1",
                           "conv a bf16 n=1", "  attention a fp16 batch=0"}) {
    EXPECT_TRUE(is_operation_line(line)) << line;
  }
  for (const char* line : {"", "gemm", "gemm a bf16", "conv = nn.Conv2d(in_channels=3)",
                           "hello a b", "norm of x = 3", "x = 3", "{\"a\": 1}", "m,n,k,seconds"}) {
    EXPECT_FALSE(is_operation_line(line)) << line;
  }
}

TEST(WorkloadText, ErrorsNameTheFile) {
  const auto workload = parse_workload("gemm", "net.workload");
  EXPECT_EQ(workload.error().where, "net.workload: line 1");
}

TEST(WorkloadText, WindowsLineEndsAndEmptyLines) {
  const auto workload = parse_workload("# head\r\n\r\n  gemm a fp16 m=1 n=1 k=1\r\n");
  ASSERT_TRUE(workload);
  EXPECT_EQ(workload->ops[0].source.line, 3);
}

}  // namespace
}  // namespace rooftile
