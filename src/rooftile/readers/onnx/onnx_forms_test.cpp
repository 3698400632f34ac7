// Operators in all their forms: attributes, optional inputs and ranks, with counts derived by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct FormCase {
  std::string name;
  std::string graph;
  std::string outline;  // expected
  int opset = 21;

  friend void PrintTo(const FormCase& c, std::ostream* out) { *out << c.name; }
};

class OnnxForm : public testing::TestWithParam<FormCase> {};

TEST_P(OnnxForm, BecomesOperations) {
  const auto& param = GetParam();
  EXPECT_EQ(outline(read_graph(param.graph, param.opset)), param.outline);
}

const FormCase kForms[] = {
    {"matmul_transposed_left",
     R"((float[2,3,5] q, float[2,3,7] k) => (float[2,5,7] y)
        { t = Transpose<perm=[0,2,1]>(q) y = MatMul(t, k) })",
     "gemm m=5 n=7 k=3 batch=2 layout=tn weight=activation\n"},
    {"matmul_transposed_both",
     R"((float[2,3,5] q, float[2,7,3] k) => (float[2,5,7] y)
        { t = Transpose<perm=[0,2,1]>(q) u = Transpose<perm=[0,2,1]>(k) y = MatMul(t, u) })",
     "gemm m=5 n=7 k=3 batch=2 layout=tt weight=activation\n"},
    {"matmul_by_a_vector", R"((float[5,3] x, float[3] w) => (float[5] y) { y = MatMul(x, w) })",
     "gemm m=5 n=1 k=3 layout=nn weight=activation\n"},
    {"matmul_of_more_leading_axes",
     R"((float[2,6,5,3] q, float[6,3,7] k) => (float[2,6,5,7] y) { y = MatMul(q, k) })",
     "gemm m=5 n=7 k=3 batch=12 layout=nn weight=activation\n"},
    {"matmul_of_fewer_leading_axes",
     R"((float[6,5,3] q, float[2,6,3,7] k) => (float[2,6,5,7] y) { y = MatMul(q, k) })",
     "gemm m=5 n=7 k=3 batch=12 layout=nn weight=activation\n"},
    {"matmul_broadcast_left",
     R"((float[1,6,5,3] q, float[2,1,3,7] k) => (float[2,6,5,7] y) { y = MatMul(q, k) })",
     "gemm m=5 n=7 k=3 batch=12 layout=nn weight=activation\n"},
    // A transposed left operand has no rows to join: a batch with one right operand.
    {"fused_matmul_by_a_shared_operand",
     R"((float[2,3,5] a, float[3,7] b) => (y)
        { y0 = com.microsoft.FusedMatMul<transA=1>(a, b) y = Relu(y0) })",
     "gemm m=5 n=7 k=3 batch=2 layout=tn weight=activation\n"
     "elementwise fn=relu elements=70\n"},
    {"fused_matmul_transposed_right",
     R"((float[2,5,3] a, float[2,7,3] b) => (y)
        { y0 = com.microsoft.FusedMatMul<transB=1>(a, b) y = Relu(y0) })",
     "gemm m=5 n=7 k=3 batch=2 weight=activation\n"
     "elementwise fn=relu elements=70\n"},
    {"gemm", R"((float[8,3] a, float[3,4] b) => (float[8,4] y) { y = Gemm(a, b) })",
     "gemm m=8 n=4 k=3 layout=nn weight=activation\n"},
    {"qlinear_matmul",
     R"((uint8[5,8] a, float as, uint8 az, int8[8,4] b, float bs, int8 bz, float ys, uint8 yz)
        => (uint8[5,4] y)
        { y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz) })",
     "gemm m=5 n=4 k=8 layout=nn weight=activation\n"},
    {"qgemm_with_bias",
     R"((uint8[8,5] a, float as, uint8 az, int8[8,4] b, float bs, int8 bz, int32[4] c) => (y)
        { y0 = com.microsoft.QGemm<transA=1>(a, as, az, b, bs, bz, c) y = Relu(y0) })",
     "gemm m=5 n=4 k=8 layout=tn weight=activation bias=1\n"
     "elementwise fn=relu elements=20\n"},
    {"matmul_integer_to_float",
     R"((uint8[5,8] a, int8[8,4] b, float as, float bs) => (float[5,4] y)
        { y = com.microsoft.MatMulIntegerToFloat(a, b, as, bs) })",
     "gemm m=5 n=4 k=8 layout=nn weight=activation\n"},
    {"matmul_nbits_with_bias",
     R"((float16[2,5,32] x, uint8[64,1,16] w, float16[64] s, uint8[32] z, int32[32] g,
        float16[64] b) => (y)
        { y0 = com.microsoft.MatMulNBits<K=32, N=64, bits=4, block_size=32>(x, w, s, z, g, b) y
          = Relu(y0) })",
     "gemm m=10 n=64 k=32 bias=1\n"
     "elementwise fn=relu elements=640\n"},
    {"einsum_nn",
     R"((float[5,8] a, float[8,3] b) => (float[5,3] y)
        { y = Einsum<equation="ij, jk -> ik">(a, b) })",
     "gemm m=5 n=3 k=8 layout=nn weight=activation\n"},
    {"einsum_nt",
     R"((float[5,8] a, float[3,8] b) => (float[5,3] y)
        { y = Einsum<equation="ij,kj->ik">(a, b) })",
     "gemm m=5 n=3 k=8 weight=activation\n"},
    {"einsum_tn",
     R"((float[8,5] a, float[8,3] b) => (float[5,3] y)
        { y = Einsum<equation="ji,jk->ik">(a, b) })",
     "gemm m=5 n=3 k=8 layout=tn weight=activation\n"},
    {"einsum_tt",
     R"((float[8,5] a, float[3,8] b) => (float[5,3] y)
        { y = Einsum<equation="ji,kj->ik">(a, b) })",
     "gemm m=5 n=3 k=8 layout=tt weight=activation\n"},
    // The weight is the second operand: rows of a transposed x.
    {"einsum_weight_left",
     R"((float[2,8,5] x) => (float[2,3,5] y) <float[3,8] w =
        {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
        { y = Einsum<equation="oc,bcl->bol">(w, x) })",
     "gemm m=10 n=3 k=8 layout=tt\n"},
    {"einsum_broadcast",
     R"((float[1,5,8] a, float[4,8,3] b) => (float[4,5,3] y)
        { y = Einsum<equation="bij,bjk->bik">(a, b) })",
     "gemm m=5 n=3 k=8 batch=4 layout=nn weight=activation\n"},
    {"einsum_two_ellipses",
     R"((float[2,4,5,8] a, float[2,4,8,3] b) => (float[2,4,5,3] y)
        { y = Einsum<equation="...ij,...jk->...ik">(a, b) })",
     "gemm m=5 n=3 k=8 batch=8 layout=nn weight=activation\n"},
    {"einsum_ellipsis_of_the_longer_operand",
     R"((float[4,5,8] a, float[2,4,8,3] b) => (float[2,4,5,3] y)
        { y = Einsum<equation="...ij,h...jk->h...ik">(a, b) })",
     "gemm m=5 n=6 k=8 batch=4 layout=nn weight=activation\n"},
    {"einsum_ellipsis_behind",
     R"((float[5,8] a, float[8,2,3] b) => (float[5,2,3] y)
        { y = Einsum<equation="ij,j...->i...">(a, b) })",
     "gemm m=5 n=6 k=8 layout=nn weight=activation\n"},
    {"einsum_ellipsis_of_one",
     R"((float[2,5,8] a) => (float[2,5] y) { y = Einsum<equation="...i->...">(a) })",
     "reduce fn=sum elements=80 outputs=10\n"},
    {"einsum_permute",
     R"((float[2,5,8] a) => (float[2,8,5] y) { y = Einsum<equation="bij->bji">(a) })",
     "layout elements=80\n"},
    {"einsum_outer",
     R"((float[5] a, float[3] b) => (float[5,3] y) { y = Einsum<equation="i,j->ij">(a, b) })",
     "gemm m=5 n=3 k=1 layout=tn weight=activation\n"},
    {"einsum_scalar_left",
     R"((float s, float[5,3] b) => (float[5,3] y) { y = Einsum<equation=",ij->ij">(s, b) })",
     "gemm m=1 n=15 k=1 layout=nn weight=activation\n"},
    {"einsum_scalar_right",
     R"((float[5,3] a, float s) => (float[5,3] y) { y = Einsum<equation="ij,->ij">(a, s) })",
     "gemm m=15 n=1 k=1 layout=tn weight=activation\n"},
    {"einsum_dot",
     R"((float[5] a, float[5] b) => (float y) { y = Einsum<equation="i,i->">(a, b) })",
     "gemm m=1 n=1 k=5 weight=activation\n"},
    // 3 rows of padding: the odd one before, and behind for SAME_UPPER.
    {"conv_same_lower",
     R"((float[1,4,9] x, float[4,4,4] w) => (float[1,4,9] y)
        { y = Conv<auto_pad="SAME_LOWER">(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=4 pad=2 pad_end=1\n"},
    {"conv_same_upper",
     R"((float[1,4,9] x, float[4,4,4] w) => (float[1,4,9] y)
        { y = Conv<auto_pad="SAME_UPPER">(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=4 pad=1 pad_end=2\n"},
    // (5-1)·2+1 = 9 inputs are there already.
    {"conv_same_nothing",
     R"((float[1,4,9] x, float[4,4,1] w) => (float[1,4,5] y)
        { y = Conv<auto_pad="SAME_UPPER", strides=[2]>(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=1 stride=2\n"},
    // A kernel of 5 inputs: 4 rows of padding.
    {"conv_same_dilated",
     R"((float[1,4,9] x, float[4,4,3] w) => (float[1,4,9] y)
        { y = Conv<auto_pad="SAME_UPPER", dilations=[2]>(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=3 dilation=2 pad=2\n"},
    {"conv_valid",
     R"((float[1,4,9] x, float[4,4,3] w) => (float[1,4,7] y)
        { y = Conv<auto_pad="VALID">(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=3\n"},
    {"conv_uneven_pads",
     R"((float[1,4,9,9] x, float[4,4,3,3] w) => (float[1,4,10,8] y)
        { y = Conv<pads=[1,0,2,1]>(x, w) })",
     "conv n=1 c=4 k=4 in=9x9 kernel=3x3 pad=1x0 pad_end=2x1\n"},
    {"conv_3d",
     R"((float[1,4,5,6,7] x, float[8,4,3,3,3] w) => (float[1,8,3,4,5] y) { y = Conv(x, w) })",
     "conv n=1 c=4 k=8 in=5x6x7 kernel=3x3x3\n"},
    {"conv_strides_one",
     R"((float[1,4,9,9] x, float[4,4,3,3] w) => (float[1,4,7,4] y)
        { y = Conv<strides=[1,2]>(x, w) })",
     "conv n=1 c=4 k=4 in=9x9 kernel=3x3 stride=1x2\n"},
    // The third input is a zero point, not a bias.
    {"conv_integer",
     R"((uint8[1,4,9] x, int8[4,4,3] w, uint8 z) => (int32[1,4,7] y)
        { y = ConvInteger(x, w, z) })",
     "conv n=1 c=4 k=4 in=9 kernel=3\n"},
    {"qlinear_conv",
     R"((uint8[1,4,9] x, float xs, uint8 xz, int8[6,4,3] w, float ws, int8 wz, float ys, uint8
        yz) => (uint8[1,6,7] y)
        { y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz) })",
     "conv n=1 c=4 k=6 in=9 kernel=3\n"},
    {"qlinear_conv_with_bias",
     R"((uint8[1,4,9] x, float xs, uint8 xz, int8[6,2,3] w, float ws, int8 wz, float ys, uint8
        yz, int32[6] b) => (uint8[1,6,7] y)
        { y = QLinearConv<group=2>(x, xs, xz, w, ws, wz, ys, yz, b) })",
     "conv n=1 c=4 k=6 in=9 kernel=3 groups=2 bias=1\n"},
    {"conv_transpose_groups",
     R"((float[1,6,4] x, float[6,2,3] w) => (float[1,4,6] y)
        { y = ConvTranspose<group=2>(x, w) })",
     "conv n=1 c=6 k=4 in=4 kernel=3 groups=2 transposed=1\n"},
    // 3·2+3 = 9, one more than the output.
    {"conv_transpose_same",
     R"((float[1,6,4] x, float[6,2,3] w) => (float[1,2,8] y)
        { y = ConvTranspose<auto_pad="SAME_UPPER", strides=[2]>(x, w) })",
     "conv n=1 c=6 k=2 in=4 kernel=3 stride=2 pad_end=1 transposed=1\n"},
    {"nhwc_conv_of_groups",
     R"((float16[1,8,6,4] x, float16[8,3,3,2] w, float16[8] b) => (y)
        { y0 = com.microsoft.NhwcConv<group=2, strides=[2,2], pads=[1,1,1,1]>(x, w, b) y =
          Relu(y0) })",
     "conv n=1 c=4 k=8 in=8x6 kernel=3x3 stride=2x2 pad=1x1 groups=2 layout=nhwc bias=1\n"
     "elementwise fn=relu elements=96\n"},
    // 400 bytes of input, 648 of offsets, 2·9·18 columns of 4 bytes.
    {"deform_conv_of_groups",
     R"((float[1,4,5,5] x, float[6,2,3,3] w, float[1,18,3,3] o) => (float[1,6,3,3] y)
        { y = DeformConv<group=2>(x, w, o) })",
     "other fn=deform_columns bytes=2344\n"
     "gemm m=9 n=3 k=18 batch=2 weight=activation\n",
     19},
    {"attention_on_rows",
     R"((float[2,5,32] q, float[2,7,32] k, float[2,7,32] v) => (float[2,5,32] y)
        { y = Attention<q_num_heads=8, kv_num_heads=8>(q, k, v) })",
     "attention batch=2 heads=8 q=5 kv=7 d=4\n", 23},
    {"attention_of_heads_with_past",
     R"((float[2,8,1,16] q, float[2,2,1,16] k, float[2,2,1,24] v, float[2,2,9,16] pk,
        float[2,2,9,24] pv) => (float[2,8,1,24] y, float[2,2,10,16] nk, float[2,2,10,24] nv)
        { y, nk, nv = Attention(q, k, v, "", pk, pv) })",
     "attention batch=2 heads=8 kv_heads=2 q=1 kv=10 d=16 dv=24\n", 23},
    // 16 + 16 + 12 columns.
    {"projected_attention_of_three_widths",
     R"((float[2,5,16] x, float[16,44] w, float[44] b) => (float[2,5,12] y)
        { y = com.microsoft.Attention<num_heads=4, qkv_hidden_sizes=[16,16,12]>(x, w, b) })",
     "gemm m=10 n=44 k=16 layout=nn weight=activation bias=1\n"
     "attention batch=2 heads=4 q=5 d=4 dv=3\n"},
    {"projected_attention_without_bias",
     R"((float[2,5,16] x, float[16,48] w) => (float[2,5,16] y)
        { y = com.microsoft.Attention<num_heads=4>(x, w) })",
     "gemm m=10 n=48 k=16 layout=nn weight=activation\n"
     "attention batch=2 heads=4 q=5 d=4\n"},
    {"quantized_attention_with_past",
     R"((uint8[2,1,16] x, int8[16,48] w, float[48] b, float xs, float ws, int32[2] m, uint8 xz,
        int8 wz, float[2,2,4,7,4] past) => (float[2,1,16] y, float[2,2,4,8,4] p)
        { y, p = com.microsoft.QAttention<num_heads=4>(x, w, b, xs, ws, m, xz, wz, past) })",
     "gemm m=2 n=48 k=16 layout=nn weight=activation bias=1\n"
     "attention batch=2 heads=4 q=1 kv=8 d=4\n"},
    {"multi_head_attention_packed",
     R"((float[2,5,4,3,8] q) => (float[2,5,32] y)
        { y = com.microsoft.MultiHeadAttention<num_heads=4>(q) })",
     "attention batch=2 heads=4 q=5 d=8\n"},
    {"multi_head_attention_causal",
     R"((float[2,5,16] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
        { y = com.microsoft.MultiHeadAttention<num_heads=4, unidirectional=1>(q, k, v) })",
     "attention batch=2 heads=4 q=5 d=4 causal=1\n"},
    {"group_query_attention_with_window",
     R"((float16[1,5,32] q, float16[1,5,8] k, float16[1,5,8] v, float16[1,2,3,4] pk,
        float16[1,2,3,4] pv, int32[1] s, int32 t) => (y)
        { y0 = com.microsoft.GroupQueryAttention<num_heads=8, kv_num_heads=2,
          local_window_size=4>(q,k,v,pk,pv,s,t) y = Relu(y0) })",
     "attention batch=1 heads=8 kv_heads=2 q=5 kv=8 d=4 causal=1 window=4\n"
     "elementwise fn=relu elements=160\n"},
    {"group_query_attention_of_equal_heads",
     R"((float16[1,5,32] q, float16[1,5,32] k, float16[1,5,32] v, float16[1,8,3,4] pk,
        float16[1,8,3,4] pv, int32[1] s, int32 t) => (float16[1,5,32] y)
        { y = com.microsoft.GroupQueryAttention<num_heads=8>(q,k,v,pk,pv,s,t) })",
     "attention batch=1 heads=8 q=5 kv=8 d=4 causal=1\n"},
    {"pool_of_a_line",
     R"((float[2,8,9] x) => (float[2,8,4] y)
        { y = AveragePool<kernel_shape=[2], strides=[2]>(x) })",
     "pool fn=average n=2 c=8 in=9 out=4 kernel=2\n"},
    {"pool_of_a_volume",
     R"((float[2,8,4,6,8] x) => (float[2,8,2,3,4] y)
        { y = MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>(x) })",
     "pool fn=max n=2 c=8 in=4x6x8 out=2x3x4 kernel=2x2x2\n"},
    {"pool_channels_last",
     R"((uint8[1,8,6,4] x) => (uint8[1,4,3,4] y)
        { y = com.microsoft.NhwcMaxPool<kernel_shape=[2,2], strides=[2,2]>(x) })",
     "pool fn=max n=1 c=4 in=8x6 out=4x3 kernel=2x2\n"},
    {"lp_pool", R"((float[2,8,9] x) => (float[2,8,8] y) { y = LpPool<kernel_shape=[2]>(x) })",
     "pool fn=average n=2 c=8 in=9 out=8 kernel=2\n"},
    {"global_max_pool", R"((float[2,8,7] x) => (float[2,8,1] y) { y = GlobalMaxPool(x) })",
     "pool fn=max n=2 c=8 in=7 out=1 kernel=7\n"},
    {"global_pool_of_a_volume",
     R"((float[2,8,3,4,5] x) => (float[2,8,1,1,1] y) { y = GlobalAveragePool(x) })",
     "pool fn=average n=2 c=8 in=3x4x5 out=1x1x1 kernel=3x4x5\n"},
    // 15, 20 and 5 rows of weights: three gates, four, and none.
    {"gru_of_its_weight",
     R"((float[35,20,8] x, float[1,15,8] w, float[1,15,5] r) => (float[35,1,20,5] y)
        { y = GRU(x, w, r) })",
     "recurrent cell=gru batch=20 seq=35 input=8 hidden=5 bias=0\n"},
    {"lstm_of_its_weight",
     R"((float[35,20,8] x, float[1,20,8] w, float[1,20,5] r) => (float[35,1,20,5] y)
        { y = LSTM(x, w, r) })",
     "recurrent cell=lstm batch=20 seq=35 input=8 hidden=5 bias=0\n"},
    {"rnn_of_its_weight",
     R"((float[35,20,8] x, float[1,5,8] w, float[1,5,5] r) => (float[35,1,20,5] y)
        { y = RNN(x, w, r) })",
     "recurrent cell=rnn_tanh batch=20 seq=35 input=8 hidden=5 bias=0\n"},
    {"rnn_tanh",
     R"((float[35,20,8] x, float[1,5,8] w, float[1,5,5] r) => (float[35,1,20,5] y)
        { y = RNN<hidden_size=5, activations=["Tanh"]>(x, w, r) })",
     "recurrent cell=rnn_tanh batch=20 seq=35 input=8 hidden=5 bias=0\n"},
    {"lstm_packed",
     R"((float[35,20,8] x, float[1,20,8] w, float[1,20,5] r, int32[20] l) => (float[35,1,20,5]
        y)
        { y = LSTM<hidden_size=5>(x, w, r, "", l) })",
     "recurrent cell=lstm batch=20 seq=35 input=8 hidden=5 packed=1 bias=0\n"},
    // Known lengths pack nothing.
    {"lstm_of_known_lengths",
     R"((float[7,2,8] x, float[1,20,8] w, float[1,20,5] r) => (float[7,1,2,5] y) <int32[2] l =
        {7,7}>
        { y = LSTM<hidden_size=5>(x, w, r, "", l) })",
     "recurrent cell=lstm batch=2 seq=7 input=8 hidden=5 bias=0\n"},
    // The weight is stored [directions, input, 4·hidden].
    {"quantized_lstm",
     R"((float[35,20,8] x, int8[1,8,20] w, int8[1,5,20] r, float[1,40] b, int32[20] l,
        float[1,20,5] h, float[1,20,5] c, float[1,20] p, float[1] ws, int8[1] wz, float[1] rs,
        int8[1] rz) => (float[35,1,20,5] y)
        { y = com.microsoft.DynamicQuantizeLSTM(x, w, r, b, l, h, c, p, ws, wz, rs, rz) })",
     "recurrent cell=lstm batch=20 seq=35 input=8 hidden=5 packed=1\n"},
    {"batch_norm_2d",
     R"((float[6,8] x, float[8] s, float[8] b, float[8] m, float[8] v) => (float[6,8] y)
        { y = BatchNormalization(x, s, b, m, v) })",
     "norm fn=batch rows=6 cols=8\n"},
    {"group_norm_channels_last",
     R"((float16[2,5,5,8] x, float[8] s, float[8] b) => (y)
        { y0 = com.microsoft.GroupNorm<groups=4, activation=0>(x, s, b) y = Relu(y0) })",
     "norm fn=group rows=8 cols=50\n"
     "elementwise fn=relu elements=400\n"},
    {"layer_norm_of_two_axes",
     R"((float[2,5,16] x, float[5,16] s) => (float[2,5,16] y)
        { y = LayerNormalization<axis=1>(x, s) })",
     "norm fn=layer rows=2 cols=80\n"},
    {"layer_norm_of_all_axes",
     R"((float[2,5,16] x, float[2,5,16] s) => (float[2,5,16] y)
        { y = LayerNormalization<axis=-3>(x, s) })",
     "norm fn=layer rows=1 cols=160\n"},
    {"simplified_layer_norm",
     R"((float[2,5,16] x, float[16] s) => (y)
        { y0 = SimplifiedLayerNormalization<axis=-1>(x, s) y = Relu(y0) })",
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=relu elements=160\n"},
    {"lp_norm", R"((float[2,5,16] x) => (float[2,5,16] y) { y = LpNormalization<axis=2>(x) })",
     "norm fn=layer rows=10 cols=16\n"},
    {"softmax_axis", R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax<axis=1>(x) })",
     "softmax rows=32 cols=5\n"},
    {"softmax_flattening_the_last_axis",
     R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax<axis=2>(x) })",
     "softmax rows=10 cols=16\n", 12},
    {"softmax_13", R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax(x) })",
     "softmax rows=10 cols=16\n", 13},
    {"softmax_past_the_last_axis",
     R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax<axis=3>(x) })",
     "softmax rows=160 cols=1\n", 12},
    {"softmax_of_a_scalar", R"((float x) => (float y) { y = Softmax(x) })",
     "softmax rows=1 cols=1\n"},
    {"log_softmax", R"((float[2,5,16] x) => (float[2,5,16] y) { y = LogSoftmax(x) })",
     "softmax rows=10 cols=16\n"},
    {"instance_norm_of_a_line",
     R"((float[2,8,5] x, float[8] s, float[8] b) => (float[2,8,5] y)
        { y = InstanceNormalization(x, s, b) })",
     "norm fn=instance rows=16 cols=5\n"},
    {"local_response_norm_of_rows", R"((float[6,8] x) => (float[6,8] y) { y = LRN<size=5>(x) })",
     "norm fn=local_response rows=6 cols=8\n"},
    {"nll_loss_of_each_row",
     R"((float[8,10] s, int64[8] t) => (float[8] l)
        { l = NegativeLogLikelihoodLoss<reduction="none">(s, t) })",
     "reduce fn=nll_loss elements=8 outputs=8\n"},
    // 2 · 5·64·log2 64 flop.
    {"dft_complex", R"((float[2,64,2] x) => (float[2,64,2] y) { y = DFT(x) })",
     "other fn=dft flop=3840 bytes=2048\n", 17},
    // 64 lines of 64 real points; the default of later sets is the same axis, 128 lines of 32 the
    // other.
    {"dft_axis", R"((float[2,32,64,1] x) => (float[2,32,64,2] y) { y = DFT<axis=2>(x) })",
     "other fn=dft flop=61440 bytes=49152\n", 17},
    {"dft_in_later_sets", R"((float[2,32,64,1] x) => (float[2,32,64,2] y) { y = DFT(x) })",
     "other fn=dft flop=61440 bytes=49152\n", 20},
    {"dft_of_a_given_axis",
     R"((float[2,32,64,1] x) => (float[2,32,64,2] y) <int64 a = {1}> { y = DFT(x, "", a) })",
     "other fn=dft flop=51200 bytes=49152\n", 20},
    // One point is its own transform; two take 2.5·2·1 flop each.
    {"dft_of_one_point", R"((float[2,1,1] x) => (float[2,1,2] y) { y = DFT(x) })",
     "other fn=dft bytes=24\n", 17},
    {"dft_of_two_points", R"((float[2,2,1] x) => (float[2,2,2] y) { y = DFT(x) })",
     "other fn=dft flop=10 bytes=48\n", 17},
    {"stft_of_a_window",
     R"((float[2,128,1] x, float[32] w) => (float[2,7,17,2] y) <int64 step = {16}>
        { y = STFT<onesided=1>(x, step, w) })",
     "other fn=stft flop=6048 bytes=6512\n", 17},
    // 17 bins of one side are 32 points; both sides of 32 complex points are 32 bins: 14·(2·32 +
    // 5·32·5) flop.
    {"stft_of_its_bins",
     R"((float[2,128] x, int64 n) => (float[2,7,17,2] y) <int64 step = {16}>
        { y = STFT<onesided=1>(x, step, "", n) })",
     "other fn=stft flop=6048 bytes=6512\n", 17},
    {"stft_complex",
     R"((float[2,128,2] x, int64 n) => (float[2,7,32,2] y) <int64 step = {16}>
        { y = STFT<onesided=0>(x, step, "", n) })",
     "other fn=stft flop=12096 bytes=12800\n", 17},
    {"stft_without_window",
     R"((float[2,128,1] x) => (float[2,7,17,2] y) <int64 step = {16}, int64 n = {32}>
        { y = STFT<onesided=1>(x, step, "", n) })",
     "other fn=stft flop=6048 bytes=6512\n", 17},
    // Half of the elements is a broadcast operand.
    {"add_half", R"((float[2,8] a, float[1,8] b) => (float[2,8] y) { y = Add(a, b) })",
     "elementwise fn=add elements=16\n"},
    {"add_more_than_half",
     R"((float[3,8] a, float[3,8] b, float[1,8] c) => (float[3,8] y) { y = Sum(a, b, c) })",
     "elementwise fn=sum elements=24 inputs=2\n"},
    {"where",
     R"((bool[4,8] m, float16[4,8] a, float16[4,8] b) => (float16[4,8] y)
        { y = Where(m, a, b) })",
     "elementwise fn=where elements=32 inputs=3\n"},
    {"arg_max", R"((float[4,8] a) => (int64[4] y) { y = ArgMax<axis=1, keepdims=0>(a) })",
     "reduce fn=arg_max elements=32 outputs=4\n"},
    {"is_nan", R"((float[4,8] a) => (bool[4,8] y) { y = IsNaN(a) })",
     "elementwise fn=is_nan elements=32\n"},
    {"reduce_l2", R"((float[4,8] a) => (float[1,1] y) { y = ReduceL2(a) })",
     "reduce fn=l2 elements=32 outputs=1\n", 13},
    {"cum_sum", R"((float[4,8] a, int64 x) => (float[4,8] y) { y = CumSum(a, x) })",
     "reduce fn=cum_sum elements=32 outputs=32\n"},
    {"cast_to_the_same_type",
     R"((float[4,8] a) => (float[4,8] y) { c = Cast<to=1>(a) y = Relu(c) })",
     "elementwise fn=relu elements=32\n"},
    {"cast_like", R"((float[4,8] a, float16 b) => (float16[4,8] y) { y = CastLike(a, b) })",
     "cast elements=32\n"},
    // A copy in training mode alone.
    {"dropout_in_training",
     R"((float[4,8] a) => (float[4,8] y) <float r = {0.5}, bool t = {1}>
        { d = Dropout(a, r, t) y = Relu(d) })",
     "elementwise fn=dropout elements=32\n"
     "elementwise fn=relu elements=32\n"},
    {"dropout_in_inference",
     R"((float[4,8] a) => (float[4,8] y) <float r = {0.5}, bool t = {0}>
        { d = Dropout(a, r, t) y = Relu(d) })",
     "elementwise fn=relu elements=32\n"},
    {"dropout_of_a_training_graph",
     R"((float[4,8] a) => (float[4,8] y) { d = Dropout<is_test=0>(a) y = Relu(d) })",
     "elementwise fn=dropout elements=32\n"
     "elementwise fn=relu elements=32\n",
     6},
    {"dropout_of_an_unknown_mode",
     R"((float[4,8] a, bool t) => (float[4,8] y) <float r = {0.5}>
        { d = Dropout(a, r, t) y = Relu(d) })",
     "elementwise fn=relu elements=32\n"},
    {"adagrad",
     R"((float r, int64 t, float[4,8] x, float[4,8] g, float[4,8] h) => (float[4,8] y,
        float[4,8] z)
        { y, z = ai.onnx.preview.training.Adagrad(r, t, x, g, h) })",
     "optimizer fn=momentum parameters=32\n"},
    {"dynamic_quantize",
     R"((float[4,8] x) => (uint8[4,8] y, float s, uint8 z)
        { y, s, z = DynamicQuantizeLinear(x) })",
     "elementwise fn=dynamic_quantize_linear elements=32\n"},
    // Columns are copied, as are rows of an activation: read and written.
    {"gather_cols", R"((float[8,16] x, int64[3] i) => (float[8,3] y) { y = Gather<axis=1>(x, i) })",
     "other fn=gather bytes=192\n"},
    {"gather_act", R"((float[8,16] x, int64[3] i) => (float[3,16] y) { y = Gather(x, i) })",
     "other fn=gather bytes=384\n"},
    {"slice",
     R"((float[8,16] x) => (float[4,16] y) <int64[1] a = {0}, int64[1] b = {4}, int64[1] c =
        {0}>
        { y = Slice(x, a, b, c) })",
     "other fn=slice bytes=512\n"},
    {"split",
     R"((float[8,16] x) => (float[4,16] y, float[4,16] z) { y, z = Split<num_outputs=2>(x) })",
     "other fn=split bytes=1024\n"},
    // Never more than the input is read.
    {"pad", R"((float[8,16] x) => (float[10,16] y) <int64[4] p = {1,0,1,0}> { y = Pad(x, p) })",
     "other fn=pad bytes=1152\n"},
    {"expand", R"((float[1,16] x) => (float[8,16] y) <int64[2] p = {8,16}> { y = Expand(x, p) })",
     "other fn=expand bytes=576\n"},
    {"depth_to_space",
     R"((float[1,8,2,2] x) => (float[1,2,4,4] y) { y = DepthToSpace<blocksize=2>(x) })",
     "other fn=depth_to_space bytes=256\n"},
    {"unread_transpose",
     R"((float[2,3] x) => (float[2,3] y) { t = Transpose<perm=[1,0]>(x) y = Relu(x) })",
     "elementwise fn=relu elements=6\n"},
    {"transpose_default", R"((float[2,3,4] x) => (float[4,3,2] y) { y = Transpose(x) })",
     "layout elements=24 perm=2x1x0\n"},
    {"transpose_gemm",
     R"((float[3,8] a, float[3,4] b) => (float[8,4] y)
        { t = Transpose<perm=[1,0]>(a) y = Gemm(t, b) })",
     "gemm m=8 n=4 k=3 layout=tn weight=activation\n"},
    // The bias has one order.
    {"transpose_gemm_bias",
     R"((float[8,3] a, float[3,4] b, float[4,8] c) => (float[8,4] y)
        { t = Transpose<perm=[1,0]>(c) y = Gemm(a, b, t) })",
     "layout elements=32 perm=1x0\n"
     "gemm m=8 n=4 k=3 layout=nn weight=activation bias=1\n"},
    {"transpose_twice_read",
     R"((float[2,3,5] q, float[2,3,7] k) => (float[2,5,7] y, float[2,5,3] z)
        { t = Transpose<perm=[0,2,1]>(q) y = MatMul(t, k) z = Relu(t) })",
     "layout elements=30 perm=0x2x1\n"
     "gemm m=5 n=7 k=3 batch=2 layout=nn weight=activation\n"
     "elementwise fn=relu elements=30\n"},
    // Not the last two axes.
    {"transpose_heads",
     R"((float[2,5,3,4] q, float[2,3,4,7] k) => (float[2,3,5,7] y)
        { t = Transpose<perm=[0,2,1,3]>(q) y = MatMul(t, k) })",
     "layout elements=120 perm=0x2x1x3\n"
     "gemm m=5 n=7 k=4 batch=6 layout=nn weight=activation\n"},
    {"transpose_three",
     R"((float[2,3,4] x) => (float[2,4,3] y) { y = Transpose<perm=[0,2,1]>(x) })",
     "layout elements=24 perm=0x2x1\n"},
    {"embedding_of_tables",
     R"((int64[2,3] i) => (float[2,3,2,2] y) <float[4,2,2] t =
        {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
        { y = Gather(t, i) })",
     "embedding vocab=4 width=4 lookups=6\n"},
    {"gather_of_a_vector",
     R"((int64[3] i) => (float[3] y) <float[4] t = {0,0,0,0}> { y = Gather(t, i) })",
     "other fn=gather bytes=24\n"},
    {"bias_softmax",
     R"((float[2,5,16] x, float[2,5,16] b) => (float[2,5,16] y)
        { y = com.microsoft.BiasSoftmax<axis=2, is_inner_broadcast=0>(x, b) })",
     "softmax rows=10 cols=16\n"},
    {"qlinear_softmax",
     R"((uint8[2,16] x, float s, uint8 z, float ys, uint8 yz) => (uint8[2,16] y)
        { y = com.microsoft.QLinearSoftmax<axis=1, opset=13>(x, s, z, ys, yz) })",
     "softmax rows=2 cols=16\n"},
};

INSTANTIATE_TEST_SUITE_P(All, OnnxForm, testing::ValuesIn(kForms),
                         [](const auto& test) { return test.param.name; });

// Ranks and attributes that the operator does not take, and unknown sizes.
TEST(OnnxForms, ImpossibleOnesAreCounted) {
  struct Case {
    const char *op, *graph;
    int opset = 21;
  };
  const Case cases[] = {
      {"MatMul", R"((float x, float[3] w) => (float y) { y = MatMul(x, w) })"},
      {"MatMul", R"((float[3] x, float w) => (float y) { y = MatMul(x, w) })"},
      {"MatMul", R"((float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) })"},
      {"Conv", R"((float[1,4] x, float[4,4] w) => (float[1,4] y) { y = Conv(x, w) })"},
      {"Conv", R"((float[1,4,9] x, float[4,4,3,3] w) => (float[1,4,7] y) { y = Conv(x, w) })"},
      {"ConvTranspose",
       R"((float[1,4,9] x, float[4,2,3,3] w) => (float[1,2,7] y) { y = ConvTranspose(x, w) })"},
      {"NhwcConv",
       R"((float16[1,9,4] x, float16[4,3,3,4] w) => (float16[1,7,4] y)
       { y = com.microsoft.NhwcConv(x, w) })"},
      {"DeformConv",
       R"((float[1,4,5,5] x, float[6,2,3,3] w, float[1,18,3,3] o) => (float[1,6,3,3] y)
       { y = DeformConv<group=0>(x, w, o) })",
       19},
      {"DeformConv",
       R"((float[1,4,5,5] x, float[6,2,3] w, float[1,18,3,3] o) => (float[1,6,3,3] y)
       { y = DeformConv(x, w, o) })",
       19},
      {"Attention",
       R"((float[2,5,32] q, float[2,7,32] k, float[2,7,32] v) => (float[2,5,32] y)
       { y = Attention(q, k, v) })",
       23},
      {"Attention",
       R"((float[2,5,32] q, float[2,7,32] k, float[2,7,32] v) => (float[2,5,32] y)
       { y = Attention<q_num_heads=8, kv_num_heads=0>(q, k, v) })",
       23},
      {"Attention",
       R"((float[2,8,5,16] q, float[2,7,32] k, float[2,7,32] v) => (float[2,8,5,16] y)
       { y = Attention(q, k, v) })",
       23},
      {"Attention",
       R"((float[2,8,5,16] q, float[2,8,7,16] k, float[2,7,32] v) => (float[2,8,5,16] y)
       { y = Attention(q, k, v) })",
       23},
      {"Attention",
       R"((float[5,16] q, float[7,16] k, float[7,16] v) => (float[5,16] y)
       { y = Attention<q_num_heads=1, kv_num_heads=1>(q, k, v) })",
       23},
      {"Attention",
       R"((float[1,2,8,5,16] q, float[1,2,8,7,16] k, float[1,2,8,7,16] v) => (float[1,2,8,5,16]
       y)
       { y = Attention(q, k, v) })",
       23},
      {"Attention",
       R"((float[2,5,16] x, float[16,48] w, float[48] b) => (float[2,5,16] y)
       { y = com.microsoft.Attention(x, w, b) })"},
      {"Attention",
       R"((float[5,16] x, float[16,48] w, float[48] b) => (float[5,16] y)
       { y = com.microsoft.Attention<num_heads=4>(x, w, b) })"},
      {"Attention",
       R"((float[2,5,16] x, float[48] w, float[48] b) => (float[2,5,16] y)
       { y = com.microsoft.Attention<num_heads=4>(x, w, b) })"},
      {"MultiHeadAttention",
       R"((float[2,5,16] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
       { y = com.microsoft.MultiHeadAttention(q, k, v) })"},
      {"MultiHeadAttention",
       R"((float[5,16] q, float[5,16] k, float[5,16] v) => (float[5,16] y)
       { y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v) })"},
      {"MultiHeadAttention",
       R"((float[2,5,16] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
       { y = com.microsoft.MultiHeadAttention<num_heads=32>(q, k, v) })"},
      {"GroupQueryAttention",
       R"((float[2,5,16] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
       { y = com.microsoft.GroupQueryAttention(q, k, v) })"},
      {"GroupQueryAttention",
       R"((float[2,5,16] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
       { y = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=0>(q, k, v) })"},
      {"GroupQueryAttention",
       R"((float[2,4,5,4] q, float[2,5,16] k, float[2,5,16] v) => (float[2,5,16] y)
       { y = com.microsoft.GroupQueryAttention<num_heads=4>(q, k, v) })"},
      {"AveragePool",
       R"((float[8,9] x) => (float[8,4] y)
       { y = AveragePool<kernel_shape=[2], strides=[2]>(x) })"},
      {"AveragePool",
       R"((float[2,8,9] x) => (float[2,8,4] y) { y = AveragePool<strides=[2]>(x) })"},
      {"GlobalAveragePool", R"((float[2,8] x) => (float[2,1] y) { y = GlobalAveragePool(x) })"},
      {"GRU",
       R"((float[35,8] x, float[1,15,8] w, float[1,15,5] r) => (float[35,1,20,5] y)
       { y = GRU(x, w, r) })"},
      {"GRU",
       R"((float[35,20,8] x, float[15,8] w, float[1,15,5] r) => (float[35,1,20,5] y)
       { y = GRU(x, w, r) })"},
      {"BatchNormalization",
       R"((float[8] x, float[8] s, float[8] b, float[8] m, float[8] v) => (float[8] y)
       { y = BatchNormalization(x, s, b, m, v) })"},
      {"InstanceNormalization",
       R"((float[6,8] x, float[8] s, float[8] b) => (float[6,8] y)
       { y = InstanceNormalization(x, s, b) })"},
      {"GroupNorm",
       R"((float[2,8,5,5] x, float[8] s, float[8] b) => (float[2,8,5,5] y)
       { y = com.microsoft.GroupNorm(x, s, b) })"},
      {"GroupNorm",
       R"((float[8] x, float[8] s, float[8] b) => (float[8] y)
       { y = com.microsoft.GroupNorm<groups=2>(x, s, b) })"},
      {"LayerNormalization",
       R"((float[2,5,16] x, float[5,16] s) => (float[2,5,16] y)
       { y = LayerNormalization<axis=3>(x, s) })"},
      {"LayerNormalization",
       R"((float[2,5,16] x, float[5,16] s) => (float[2,5,16] y)
       { y = LayerNormalization<axis=-4>(x, s) })"},
      {"LRN", R"((float[8] x) => (float[8] y) { y = LRN<size=5>(x) })"},
      {"SoftmaxCrossEntropyLoss",
       R"((float[8] s, int64[8] t) => (float l) { l = SoftmaxCrossEntropyLoss(s, t) })"},
      {"NegativeLogLikelihoodLoss",
       R"((float[8] s, int64[8] t) => (float l) { l = NegativeLogLikelihoodLoss(s, t) })"},
      {"DFT", R"((float[2,64,2] x) => (float[2,64,2] y) { y = DFT<axis=2>(x) })", 17},
      {"DFT", R"((float[64] x) => (float[64] y) { y = DFT<axis=0>(x) })", 17},
      {"STFT",
       R"((float[128] x) => (float[2,7,17,2] y) <int64 s = {16}, int64 n = {32}>
       { y = STFT(x, s, "", n) })",
       17},
      {"EmbedLayerNormalization",
       R"((int32[2,5] ids, int32[2,5] seg, float[30] w, float[9,16] p, float[2,16] t, float[16]
       g, float[16] b) => (float[2,5,16] y)
       { y = com.microsoft.EmbedLayerNormalization(ids, seg, w, p, t, g, b) })"},
      {"EmbedLayerNormalization",
       R"((int32[2,n] ids, int32[2,5] seg, float[30,16] w, float[9,16] p, float[2,16] t, float[16]
       g, float[16] b) => (float[2,5,16] y)
       { y = com.microsoft.EmbedLayerNormalization(ids, seg, w, p, t, g, b) })"},
      {"EmbedLayerNormalization",
       R"((int32[2,5] ids, int32[2,5] seg, float[30,n] w, float[9,16] p, float[2,16] t, float[16]
       g, float[16] b) => (float[2,5,16] y)
       { y = com.microsoft.EmbedLayerNormalization(ids, seg, w, p, t, g, b) })"},
      {"Adam",
       R"((float r, int64 t, float[4,8] x, float[4,8] g, float[4,8] v) => (float[4,8] y)
       { y = ai.onnx.preview.training.Adam(r, t, x, g, v) })"},
      {"Momentum",
       R"((float r, int64 t, float[4,8] x, float[4,8] g) => (float[4,8] y)
       { y = ai.onnx.preview.training.Momentum(r, t, x, g) })"},
      {"TopK",
       R"((float[4,n,100] x) => (float[4,3,5] v, int64[4,3,5] i) <int64[1] k = {5}>
       { v, i = TopK(x, k) })"},
      {"TopK", R"((float[4,100] x, int64[1] k) => (v, int64[4,5] i) { v, i = TopK(x, k) })"},
      {"ReduceMean", R"((float[4,n] x) => (float[4,1] v) { v = ReduceMean(x) })", 13},
      {"Concat", R"((float[4,n] x, float[4,3] z) => (v) { v = Concat<axis=1>(x, z) })"},
      {"Split",
       R"((float[4,n] x) => (float[4,2] v, w) { v, w = Split<axis=1, num_outputs=2>(x) })"},
      {"BatchNormalization",
       R"((float[4,n] x, float[8] s) => (float[4,8] v)
       { v = BatchNormalization(x, s, s, s, s) })"},
      {"Softmax", R"((float[4,n] x) => (float[4,8] v) { v = Softmax(x) })"},
  };
  for (const Case& c : cases) {
    const Workload workload = read_graph(c.graph, c.opset);
    EXPECT_THAT(workload.ops, IsEmpty()) << c.graph;
    EXPECT_EQ(workload.skipped.count(std::string("unknown shape: ") + c.op), 1U) << c.graph;
  }
}

// What no cost model takes reads all of its inputs and writes its outputs.
TEST(OnnxForms, UnknownOnesMoveTheirBytes) {
  struct Case {
    const char *op, *graph, *outline;
  };
  const Case cases[] = {
      {"Conv",
       R"((float[1,4,5,6,7,8] x, float[8,4,3,3,3,3] w) => (float[1,8,3,4,5,6] y)
       { y = Conv(x, w) })",
       "other fn=Conv bytes=48768\n"},
      {"MaxPool",
       R"((float[2,8,4,6,8,2] x) => (float[2,8,2,3,4,1] y)
       { y = MaxPool<kernel_shape=[2,2,2,2], strides=[2,2,2,2]>(x) })",
       "other fn=MaxPool bytes=26112\n"},
      {"GlobalAveragePool",
       R"((float[2,8,3,4,5,6] x) => (float[2,8,1,1,1,1] y) { y = GlobalAveragePool(x) })",
       "other fn=GlobalAveragePool bytes=23104\n"},
      {"QLinearConv",
       R"((uint8[1,9,4] x, float xs, uint8 xz, int8[6,4,3] w, float ws, int8 wz, float ys, uint8
       yz) => (uint8[1,7,6] y)
       { y = com.microsoft.QLinearConv<channels_last=1>(x, xs, xz, w, ws, wz, ys, yz) })",
       "other fn=QLinearConv bytes=165\n"},
      {"Einsum",
       R"((float[5,8] a, float[8,3] b) => (float[3] y)
       { y = Einsum<equation="ij,jk->k">(a, b) })",
       "other fn=Einsum bytes=268\n"},
      {"Einsum",
       R"((float[5,8] a, float[8,3] b) => (float[5] y)
       { y = Einsum<equation="ij,jk->i">(a, b) })",
       "other fn=Einsum bytes=276\n"},
      {"Einsum",
       R"((float[5,8] a, float[8,3] b) => (float[5,3] y) { y = Einsum<equation="ij,jk">(a, b) })",
       "other fn=Einsum bytes=316\n"},
      {"Einsum",
       R"((float[5,8] a, float[8,3] b, float[3,2] c) => (float[5,2] y)
       { y = Einsum<equation="ij,jk,kl->il">(a, b, c) })",
       "other fn=Einsum bytes=320\n"},
  };
  for (const Case& c : cases) {
    const Workload workload = read_graph(c.graph);
    EXPECT_EQ(outline(workload), c.outline) << c.graph;
    const std::string key = std::string("operator without a cost model: ") + c.op;
    EXPECT_EQ(workload.skipped.count(key), 1U) << c.graph;
  }
}

// Of a stored input too, where only the mask is computed.
TEST(OnnxForms, ProjectedAttentionReadsItsProjection) {
  for (const bool stored : {false, true}) {
    auto model = model_of(std::string(stored ? "(" : "(float[2,5,16] x, ") +
                          "int32[2,5] m) => (float[2,5,16] y)"
                          " { y = com.microsoft.Attention<num_heads=4>(x, w, b, m) }");
    if (stored) add_weight(model, "x", {2, 5, 16});
    add_weight(model, "w", {16, 48});
    add_weight(model, "b", {48});
    const auto workload = read_model(model);
    ASSERT_TRUE(workload);
    ASSERT_EQ(outline(*workload),
              "gemm m=10 n=48 k=16 layout=nn bias=1\nattention batch=2 heads=4 q=5 d=4\n");
    EXPECT_THAT(workload->ops[1].inputs, ElementsAre(workload->ops[0].outputs.at(0), "m"));
  }
}

// Types of the first input, of the weight and of the result.
TEST(OnnxForms, TypesAreThoseOfOperandsAndResult) {
  struct Case {
    const char* graph;
    Dtypes dtypes;
  };
  const Case cases[] = {
      {"(bool[4] m, float16[4] a, float16[4] b) => (float16[4] y) { y = Where(m, a, b) }",
       {Dtype::fp16, Dtype::boolean, Dtype::fp16}},
      {"(float[4] a) => (int64[1] y) { y = ArgMax(a) }", {Dtype::fp32, Dtype::fp32, Dtype::int64}},
      {"(float[4,8] a) => (float16[4,8] y) { y = Cast<to=10>(a) }",
       {Dtype::fp32, Dtype::fp32, Dtype::fp16}},
      {"(uint8[5,8] a, float as, uint8 az, int8[8,4] b, float bs, int8 bz, float ys, uint8 yz)"
       " => (uint8[5,4] y) { y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz) }",
       Dtypes(Dtype::int8)},
      {"(float16[5,32] x, uint8[64,1,16] w, float16[64] s) => (float16[5,64] y)"
       " { y = com.microsoft.MatMulNBits<K=32, N=64, bits=4, block_size=32>(x, w, s) }",
       {Dtype::fp16, Dtype::int4, Dtype::fp16}},
      {"(float16[5,32] x, uint8[64,1,32] w, float16[64] s) => (float16[5,64] y)"
       " { y = com.microsoft.MatMulNBits<K=32, N=64, bits=8, block_size=32>(x, w, s) }",
       {Dtype::fp16, Dtype::int8, Dtype::fp16}},
      {"(float16[5,32] x, uint8[64,1,16] w, float16[64] s) => (float16[5,64] y)"
       " { y = com.microsoft.MatMulNBits<K=32, N=64, block_size=32>(x, w, s) }",
       {Dtype::fp16, Dtype::int4, Dtype::fp16}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(read_graph(c.graph).ops.at(0).dtypes, c.dtypes) << c.graph;
  }
}

}  // namespace
}  // namespace rooftile
