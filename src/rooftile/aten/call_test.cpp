#include "rooftile/aten/call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/aten/operator_cases.h"

namespace rooftile {
namespace {

using aten_test::arguments_of;
using aten_test::canonical;
using aten_test::described;

// Values as in operator_cases.h: "2,3||float; ||Scalar|1".
std::vector<AtenValue> values_of(std::string_view text) {
  std::vector<AtenValue> values;
  if (text.empty()) return values;
  const OpArguments recorded = arguments_of(text);
  for (std::size_t i = 0; i < recorded.types.size(); ++i) {
    values.push_back(
        {recorded.dims[i], recorded.strides[i], recorded.types[i], recorded.values[i]});
  }
  return values;
}

// target: "conv2d.default"
CallWork call(const std::string& target, std::string_view arguments, std::string_view results) {
  AtenCall made;
  made.name = target.substr(0, target.find('.'));
  made.overload = target.substr(target.find('.') + 1);
  made.arguments = values_of(arguments);
  made.results = values_of(results);
  return work_of(made);
}

struct CallCase {
  const char *target, *arguments, *results;
  std::vector<std::string_view> expected;
};

TEST(AtenSchema, ArgumentsByNameTakeTheirPlaces) {
  const auto ordered = in_order("conv2d.default", {{"groups", {{}, {}, "Scalar", "2"}},
                                                   {"input", {{1, 4, 8, 8}, {}, "float", ""}},
                                                   {"weight", {{4, 2, 3, 3}, {}, "float", ""}}});
  ASSERT_EQ(ordered.size(), 7);
  EXPECT_EQ(ordered[0].dims, (Extents{1, 4, 8, 8}));
  EXPECT_EQ(ordered[2], AtenValue());
  EXPECT_EQ(ordered[3].value, "[1,1]");
  EXPECT_EQ(ordered[6].value, "2");
  // Not in the list: as given.
  EXPECT_EQ(in_order("mystery.default", {{"b", ordered[6]}, {"a", ordered[0]}})[0].value, "2");
}

TEST(AtenCall, ViewsAndCopies) {
  const char* const x = "4,8,16|128,16,1|float";
  EXPECT_EQ(call("view.default", x, "32,16|16,1|float").kind, CallKind::view);
  EXPECT_EQ(call("contiguous.default", x, x).kind, CallKind::view);
  EXPECT_EQ(call("to.dtype", x, x).kind, CallKind::view);
  EXPECT_EQ(call("reshape.default", x, "512|1|float").kind, CallKind::view);
  EXPECT_EQ(call("reshape.default", "4,8,16|128,1,8|float", "4,128|128,1|float").kind,
            CallKind::work);
  EXPECT_EQ(call("reshape.default", "4,8,16|128,1,8|float", "2,2,8,16|256,128,1,8|float").kind,
            CallKind::view);
  EXPECT_EQ(call("sym_size.int", x, "").kind, CallKind::free);
  EXPECT_EQ(call("mystery.default", x, x).kind, CallKind::unknown);
  const CallWork cast = call("to.dtype", x, "4,8,16|128,16,1|c10::Half");
  ASSERT_EQ(cast.ops.size(), 1);
  EXPECT_EQ(described(cast.ops[0]),
            canonical("cast fp32 elements=512 weight_dtype=fp32 out_dtype=fp16"));
}

TEST(AtenCall, Dropout) {
  const auto kind = [](const char* p, const char* train) {
    const std::string arguments = fmt::format("4,8||float; ||Scalar|{}; ||Scalar|{}", p, train);
    return call("dropout.default", arguments, "4,8||float").kind;
  };
  EXPECT_EQ(kind("0.1", "False"), CallKind::view);
  EXPECT_EQ(kind("0.0", "True"), CallKind::view);
  EXPECT_EQ(kind("0.1", "True"), CallKind::work);
}

TEST(AtenCall, CompositesRunAsTheirParts) {
  const std::vector<CallCase> cases{
      {"_native_batch_norm_legit_no_training.default",
       "2,8,4,4||float; 8||float; 8||float; 8||float; 8||float; ||Scalar|0.1; ||Scalar|1e-5",
       "2,8,4,4||float",
       {"norm fp32 fn=batch rows=32 cols=8 walk=contiguous"}},
      {"cross_entropy_loss.default",
       "16,100||float; 16||long int; |||; ||Scalar|1",
       "||float",
       {"softmax fp32 rows=16 cols=100",
        "other fp32 fn=nll_loss_forward bytes=192 walk=gathered moved_bytes=192 "
        "walked=16"}},
      {"adaptive_avg_pool2d.default",
       "2,64,7,7||float; ||ScalarList|[1,1]",
       "2,64,1,1||float",
       {"reduce fp32 fn=mean elements=6272 outputs=128"}},
      {"adaptive_avg_pool3d.default",
       "2,64,4,7,7||float; ||ScalarList|[2,7,7]",
       "2,64,2,7,7||float",
       {"pool fp32 fn=average n=2 c=64 in=4x7x7 out=2x7x7 kernel=2x1x1"}},
      {"adaptive_max_pool2d.default",
       "2,64,10,10||float; ||ScalarList|[7,7]",
       "2,64,7,7||float; 2,64,7,7||long int",
       {"pool fp32 fn=max n=2 c=64 in=10x10 out=7x7 kernel=2"}},
      {"upsample_bilinear2d.vec",
       "1,8,4,4||float; |||; ||Scalar|True; ||ScalarList|[2.0, 2.0]",
       "1,8,8,8||float",
       {"other fp32 fn=upsample_bilinear2d bytes=2560 walk=strided moved_bytes=2560 "
        "walked=512"}},
      // The batch of w is repeated, which takes a copy.
      {"matmul.default",
       "4,2,8,16||float; 2,16,8||float",
       "4,2,8,8||float",
       {"elementwise fp32 fn=copy elements=1024 walk=strided moved_bytes=5120",
        "gemm fp32 m=8 n=8 k=16 batch=8 layout=nn weight=activation"}},
      {"matmul.default",
       "4,8,16||float; 16||float",
       "4,8||float",
       {"gemm fp32 m=32 n=1 k=16 layout=nn"}},
      {"matmul.default",
       "16||float; 16||float",
       "||float",
       {"reduce fp32 fn=dot elements=16 outputs=1 moved_bytes=132"}},
      {"einsum.default",
       "||Scalar|bhid,bhjd->bhij; ||TensorList<float>|[[2,4,8,16],[2,4,6,16]]",
       "2,4,8,6||float",
       {"gemm fp32 m=8 n=6 k=16 batch=8 layout=nn weight=activation"}},
      {"einsum.default",
       "||Scalar|i, j -> ij; ||TensorList<float>|[[4],[8]]",
       "4,8||float",
       {"elementwise fp32 fn=mul elements=32 inputs=2 walk=strided moved_bytes=176"}},
      {"scaled_dot_product_attention.default",
       "2,8,16||c10::Half; 2,8,16||c10::Half; 2,8,16||c10::Half; |||; ||Scalar|0.0; ||Scalar|True",
       "2,8,16||c10::Half",
       {"attention fp16 batch=2 heads=1 q=8 d=16 causal=1"}},
      {"lstm.input",
       "5,3,8||float; ||TensorList<float>|[[2,3,16],[2,3,16]]; ||TensorList<float>|[[64,8]]; "
       "||Scalar|True; "
       "||Scalar|1; "
       "||Scalar|0.0; ||Scalar|False; ||Scalar|True; ||Scalar|False",
       "5,3,32||float; 2,3,16||float; 2,3,16||float",
       {"recurrent fp32 cell=lstm batch=3 seq=5 input=8 hidden=16 directions=2"}},
      {"gru.input",
       "3,5,8||float; 1,3,16||float; ||TensorList<float>|[[48,8]]; ||Scalar|False; ||Scalar|1; "
       "||Scalar|0.0; ||Scalar|False; ||Scalar|False; ||Scalar|True",
       "3,5,16||float; 1,3,16||float",
       {"recurrent fp32 cell=gru batch=3 seq=5 input=8 hidden=16 bias=0"}},
      // Lengths 5, 3 and 2: ten rows, five steps.
      {"lstm.data",
       "10,8||float; 5||long int; ||TensorList<float>|[[2,3,16],[2,3,16]]; "
       "||TensorList<float>|[[64,8]]; ||Scalar|True; ||Scalar|1; ||Scalar|0.0; ||Scalar|False; "
       "||Scalar|True",
       "10,32||float; 2,3,16||float; 2,3,16||float",
       {"recurrent fp32 cell=lstm batch=3 seq=5 input=8 hidden=16 directions=2 packed=1 "
        "tokens=10"}},
      {"_cudnn_rnn.default",
       "10,8||float; ||TensorList<float>|[[64,8]]; ||Scalar|4; |||; 1,3,16||float; "
       "1,3,16||float; ||Scalar|2; ||Scalar|16; ||Scalar|0; ||Scalar|1; ||Scalar|False; "
       "||Scalar|0.0; ||Scalar|True; ||Scalar|False; ||ScalarList|[3, 3, 2, 1, 1]; |||",
       "10,16||float",
       {"recurrent fp32 cell=lstm batch=3 seq=5 input=8 hidden=16 packed=1 tokens=10"}},
      // A product of operands whose batches lie apart copies them first, as does a layer.
      {"matmul.default",
       "2,4,8,16|512,16,64,1|float; 2,4,16,8|512,16,1,64|float",
       "2,4,8,8||float",
       {"layout fp32 elements=1024 walk=strided", "layout fp32 elements=1024 walk=transposed",
        "gemm fp32 m=8 n=8 k=16 batch=8 layout=nn weight=activation"}},
      {"linear.default",
       "2,4,8|8,16,1|float; 16,8|8,1|float; 16||float",
       "2,4,16|64,16,1|float",
       {"layout fp32 elements=64 walk=strided", "gemm fp32 m=8 n=16 k=8",
        "elementwise fp32 fn=add elements=128 walk=strided moved_bytes=1088"}},
      {"linear.default",
       "2,4,8|32,8,1|float; 16,8|8,1|float; 16||float",
       "2,4,16|64,16,1|float",
       {"gemm fp32 m=8 n=16 k=8 bias=1"}},
      {"embedding_bag.default",
       "1000,64||float; 96||long int; 24||long int; ||Scalar|False; ||Scalar|0; ||Scalar|False; "
       "|||; ||Scalar|False",
       "24,64||float",
       {"embedding fp32 vocab=1000 width=64 lookups=96 bags=24"}},
      {"_embedding_bag.default",
       "1000,64||float; 96||long int; 25||long int; ||Scalar|False; ||Scalar|0; ||Scalar|False; "
       "|||; ||Scalar|True",
       "24,64||float",
       {"embedding fp32 vocab=1000 width=64 lookups=96 bags=24"}},
      {"_embedding_bag_backward.default",
       "24,64||float; 96||long int; 24||long int; 96||long int; 24||long int; 0||long int; "
       "||Scalar|1000; ||Scalar|False; ||Scalar|0; ||Scalar|False; |||; ||Scalar|-1",
       "1000,64||float",
       {"embedding fp32 vocab=1000 width=64 lookups=96 bags=24 phase=wgrad"}},
      {"_embedding_bag_dense_backward.default",
       "24,64||float; 96||long int; 96||long int; 24||long int; 0||long int; ||Scalar|1000; "
       "||Scalar|False; ||Scalar|0; |||; ||Scalar|-1",
       "1000,64||float",
       {"embedding fp32 vocab=1000 width=64 lookups=96 bags=24 phase=wgrad"}},
      // Per element: squared, added up, scaled. v and w of 4·9 elements, g and the norms of 4.
      {"_weight_norm_interface.default",
       "4,3,3||float; 4,1,1||float; ||Scalar|0",
       "4,3,3||float; 4,1,1||float",
       {"other fp32 fn=weight_norm flop=108 bytes=320"}},
      {"_weight_norm_interface_backward.default",
       "4,3,3||float; 4,3,3||float; 4,1,1||float; 4,1,1||float; ||Scalar|0",
       "4,3,3||float; 4,1,1||float",
       {"other fp32 fn=weight_norm flop=216 bytes=480 phase=dgrad"}},
      // 20 steps of 2 samples with 3 labels and 4 blanks: 280 states of 13 operations; 440 scores.
      {"_ctc_loss.default",
       "20,2,11||float; 2,3||long int; ||ScalarList|[20, 20]; ||ScalarList|[3, 3]; ||Scalar|0; "
       "||Scalar|False",
       "2||float; 2,20,7||float",
       {"other fp32 fn=ctc_loss flop=3640 bytes=2240"}},
      // The same, then (19 - 13)·280 + 3·440; 280·4 + 440·4 elements.
      {"_ctc_loss_backward.default",
       "2||float; 20,2,11||float; 2,3||long int; ||ScalarList|[20, 20]; ||ScalarList|[3, 3]; "
       "2||float; 2,20,7||float; ||Scalar|0; ||Scalar|False",
       "20,2,11||float",
       {"other fp32 fn=ctc_loss flop=6640 bytes=11520 phase=dgrad"}},
      {"constant_pad_nd.default",
       "4,8|8,1|c10::BFloat16; ||ScalarList|[0, 8]; ||Scalar|0",
       "4,16|16,1|c10::BFloat16",
       {"elementwise bf16 fn=pad elements=64 walk=strided moved_bytes=192"}},
      // Cut: no more is read than is written.
      {"constant_pad_nd.default",
       "4,8|8,1|float; ||ScalarList|[-4, 0]; ||Scalar|0",
       "4,4|4,1|float",
       {"elementwise fp32 fn=pad elements=16 walk=strided moved_bytes=128"}},
      {"nll_loss_nd.default",
       "16,100||float; 16||long int; |||; ||Scalar|1; ||Scalar|-100",
       "||float",
       {"other fp32 fn=nll_loss_forward bytes=192 walk=gathered moved_bytes=192 walked=16"}},
      // A single number, whatever it is made like.
      {"new_ones.default",
       "2,64||long int; ||ScalarList|[]",
       "||bool",
       {"elementwise bool fn=fill elements=1 inputs=0"}},
      {"zeros.default",
       "||ScalarList|[2,3]",
       "2,3||float",
       {"elementwise fp32 fn=fill elements=6 inputs=0"}},
      {"cat.default",
       "||TensorList<c10::Half>|[[4,16],[4,16]]; ||Scalar|1",
       "4,32||c10::Half",
       {"elementwise fp16 fn=cat elements=128 walk=concatenated"}},
      {"glu.default",
       "2,6,5||float; ||Scalar|1",
       "2,3,5||float",
       {"elementwise fp32 fn=glu elements=30 walk=strided moved_bytes=360"}},
      {"conv2d.padding",
       "1,3,8,8||float; 4,3,4,4||float; |||; ||ScalarList|[1,1]; ||Scalar|same; "
       "||ScalarList|[1,1]; "
       "||Scalar|1",
       "1,4,8,8||float",
       {"conv fp32 n=1 c=3 k=4 in=8x8 kernel=4 pad=1 pad_end=2"}},
      // Tensors without axes count as one element.
      {"mul.Tensor",
       "||float; ||float",
       "||float",
       {"elementwise fp32 fn=mul elements=1 inputs=2"}},
  };
  for (const CallCase& entry : cases) {
    const CallWork work = call(entry.target, entry.arguments, entry.results);
    std::vector<std::string> found, expected;
    for (const Op& op : work.ops) found.push_back(described(op));
    for (const std::string_view text : entry.expected) expected.push_back(canonical(text));
    EXPECT_EQ(found, expected) << entry.target;
  }
}

TEST(AtenCall, WhatIsIncompleteIsUnknown) {
  const std::vector<CallCase> cases{
      {"einsum.default", "||Scalar|ii->i; ||TensorList<float>|[[2,2]]", "2||float", {}},
      {"einsum.default", "||Scalar|...i,i->...; ||TensorList<float>|[[2,2],[2]]", "2||float", {}},
      {"matmul.default", "2,3,4||float; 3,4,5||float", "2,3,5||float", {}},
      {"lstm.data", "5,8||float; 5||long int", "5,16||float", {}},
      {"linear.default", "5,8||float", "5,16||float", {}},
      {"cross_entropy_loss.default", "", "", {}},
      {"pad.default", "2,2||float", "", {}},
      {"reshape.default", "", "", {}},
      {"adaptive_avg_pool2d.default", "2||float; ||ScalarList|[1,1]", "2||float", {}},
  };
  for (const CallCase& entry : cases) {
    EXPECT_EQ(call(entry.target, entry.arguments, entry.results).kind, CallKind::unknown)
        << entry.target << " " << entry.arguments;
  }
}

TEST(AtenCall, WorkOnNothingIsNone) {
  EXPECT_EQ(call("linalg_qr.default", "0,8|8,1|float", "0,8|8,1|float").kind, CallKind::free);
}

// A launch and no more, whatever it computes.
TEST(AtenCall, SingleNumbersAreOneElement) {
  const CallWork work = call("mystery.default", "1|1|float", "1|1|float");
  ASSERT_EQ(work.ops.size(), 1U);
  EXPECT_EQ(described(work.ops[0]),
            canonical("elementwise fp32 fn=mystery elements=1 walk=strided moved_bytes=8"));
}

TEST(AtenCall, InPlace) {
  AtenCall call;
  for (const auto& [name, in_place] :
       {std::pair("add_", true), {"add", false}, {"__and__", false}}) {
    call.name = name;
    EXPECT_EQ(is_in_place(call), in_place) << name;
  }
}

}  // namespace
}  // namespace rooftile
