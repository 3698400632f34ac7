#include "rooftile/aten/operator_cases.h"

namespace rooftile {
namespace {

using aten_test::expect_all;

TEST(AtenLayers, Attention) {
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

TEST(AtenLayers, RowsPoolsAndTables) {
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
      // Known statistics: one pass.
      {"aten::cudnn_batch_norm",
       "32,64,112,112||float; 64||float; 64||float; 64||float; 64||float; ||Scalar|False",
       {"norm fp32 fn=batch rows=401408 cols=64 walk=contiguous"}},
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

TEST(AtenLayers, PointwiseReductionsAndCopies) {
  expect_all({
      // The second tensor is a quarter of the result: one full-size input.
      {"aten::add",
       "4,197,768||c10::BFloat16; 1,197,768||c10::BFloat16; ||Scalar|1",
       {"elementwise bf16 fn=add elements=605184 walk=strided moved_bytes=2723328"}},
      {"aten::add_",
       "32,256,56,56||float; 32,256,56,56||float; ||Scalar|1",
       {"elementwise fp32 fn=add elements=25690112 inputs=2"}},
      {"aten::mul",
       "8,1||float; 1,16||float",
       {"elementwise fp32 fn=mul elements=128 walk=strided moved_bytes=608"}},
      {"aten::gelu", "4,64,1536||float; |||", {"elementwise fp32 fn=gelu elements=393216"}},
      {"aten::threshold_backward",
       "2,8||float; 2,8||float; ||Scalar|0",
       {"elementwise fp32 fn=threshold_backward elements=16 inputs=2 phase=dgrad moved_bytes=192"}},
      {"aten::eq",
       "100||long int; 100||long int",
       {"elementwise int64 fn=eq elements=100 inputs=2 out_dtype=bool"}},
      {"aten::add", "4,3||float; 4,2||float; ||Scalar|1", {}},  // shapes do not fit
      {"aten::add",
       "4,3||float; 4,3||c10::Half; ||Scalar|1",
       {"elementwise fp32 fn=add elements=12 inputs=2 walk=converting moved_bytes=120"}},
      {"aten::add", "|||; |||; ||Scalar|1", {}},
      {"aten::sum",
       "4,64,384||float; ||ScalarList|[0]; ||Scalar|True; |||",
       {"reduce fp32 fn=sum elements=98304 outputs=24576 walk=strided"}},
      {"aten::mean",
       "2,2048,2,2||float; ||ScalarList|[-1, -2]; ||Scalar|True; |||",
       {"reduce fp32 fn=mean elements=16384 outputs=4096"}},
      {"aten::sum", "10,10||float; ||GenericList|; ||Bool|; |||", {}},
      {"aten::copy_",
       "256,256||c10::Half; 256,256||float; ||Scalar|False",
       {"cast fp32 elements=65536 weight_dtype=fp32 out_dtype=fp16"}},
      {"aten::copy_",
       "2,64,8,8|4096,1,512,64|float; 2,64,8,8|4096,64,8,1|float; ||Scalar|False",
       {"layout fp32 elements=8192 walk=transposed"}},
      // Without strides a kernel of one type must have changed the order.
      {"aten::copy_",
       "2,1000||float; 2,1000||float; ||Scalar|False",
       {"layout fp32 elements=2000 walk=reordered"}},
      // A slice keeps the order.
      {"aten::copy_",
       "2,1000|1000,1|float; 2,1000|3000,1|float; ||Scalar|False",
       {"elementwise fp32 fn=copy elements=2000 walk=strided"}},
      {"aten::copy_",
       "2,1000|1000,1|float; 2,1000|0,1|float; ||Scalar|False",
       {"elementwise fp32 fn=copy elements=2000 walk=strided moved_bytes=12000"}},
      {"aten::_to_copy",
       "64,64||float; ||Scalar|15; |||; |||; |||; ||Scalar|False; |||",
       {"cast fp32 elements=4096 weight_dtype=fp32 out_dtype=bf16"}},
  });
}

// x[idx], x[:, idx], x[:, :, rows, columns]: as many elements as the result has, read and written.
TEST(AtenLayers, RowsByIndex) {
  const auto bytes = [](std::string_view source, std::string_view index) {
    const auto op =
        aten_op("aten::index",
                aten_test::arguments_of(std::string(source) + "||float; ||TensorList<long int>|" +
                                        std::string(index)));
    return op ? std::get<Other>(op->body).bytes : -1;
  };
  EXPECT_EQ(bytes("1000,64", "[[32]]"), 2 * 32 * 64 * 4);
  EXPECT_EQ(bytes("8,1000,64", "[[], [32]]"), 2 * 8 * 32 * 64 * 4);
  EXPECT_EQ(bytes("2,8,96,96,64", "[[], [], [96, 1], [96, 25]]"), 2 * 2 * 8 * 96 * 25 * 64 * 4);
  EXPECT_EQ(bytes("8,4", "[[], [], [3]]"), -1) << "more axes than it has";
  EXPECT_EQ(bytes("8,4", "[[], []]"), -1) << "no index";
}

TEST(AtenLayers, RecurrentLayers) {
  const std::string_view lstm =
      "35,20,650|13000,650,1|float; ||TensorList|; ||Scalar|4; |||; 2,20,650||float; "
      "2,20,650||float; ||Scalar|2; ||Scalar|650; ||Scalar|0; ||Scalar|2; ||Scalar|False; "
      "||Scalar|0.5; ||Scalar|True; ||Scalar|False; ||ScalarList|[]; |||";
  expect_all({{"aten::_cudnn_rnn",
               lstm,
               {"recurrent fp32 cell=lstm batch=20 seq=35 input=650 hidden=650 layers=2"}}});
}

}  // namespace
}  // namespace rooftile
