// Operators: what each becomes, with counts derived by hand.
#include <gtest/gtest.h>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

struct OperatorCase {
  std::string name;
  std::string graph;
  std::string outline;  // expected
  int opset = 21;

  friend void PrintTo(const OperatorCase& c, std::ostream* out) { *out << c.name; }
};

class OnnxOperator : public testing::TestWithParam<OperatorCase> {};

TEST_P(OnnxOperator, BecomesOperations) {
  const auto& param = GetParam();
  EXPECT_EQ(outline(read_graph(param.graph, param.opset)), param.outline);
}

const OperatorCase kOperators[] = {
    // A Linear layer on [batch, seq, k]: leading axes are rows.
    {"matmul_rows", R"((float[2,5,3] x, float[3,4] w) => (float[2,5,4] y) { y = MatMul(x, w) })",
     "gemm m=10 n=4 k=3 layout=nn weight=activation\n"},
    // Broadcast leading axes are a batch: 2·6 products.
    {"matmul_batched",
     R"((float[2,6,5,3] q, float[1,6,3,7] k) => (float[2,6,5,7] y) { y = MatMul(q, k) })",
     "gemm m=5 n=7 k=3 batch=12 layout=nn weight=activation\n"},
    {"matmul_vector", R"((float[3] x, float[3,4] w) => (float[4] y) { y = MatMul(x, w) })",
     "gemm m=1 n=4 k=3 layout=nn weight=activation\n"},
    // The Transpose of the last two axes is a layout, not a copy.
    {"matmul_transposed",
     R"((float[2,5,3] q, float[2,7,3] k) => (float[2,5,7] y)
        { t = Transpose<perm=[0,2,1]>(k)  y = MatMul(q, t) })",
     "gemm m=5 n=7 k=3 batch=2 weight=activation\n"},
    {"gemm_transposed_both",
     R"((float[3,8] a, float[4,3] b, float[4] c) => (float[8,4] y)
        { y = Gemm<transA=1, transB=1>(a, b, c) })",
     "gemm m=8 n=4 k=3 layout=tt weight=activation bias=1\n"},
    {"einsum_attention_scores",
     R"((float[2,4,5,8] q, float[2,4,6,8] k) => (float[2,4,5,6] s)
        { s = Einsum<equation="bhqd,bhkd->bhqk">(q, k) })",
     "gemm m=5 n=6 k=8 batch=8 weight=activation\n"},
    {"einsum_ellipsis",
     R"((float[2,4,5,8] x, float[8,3] w) => (float[2,4,5,3] y)
        { y = Einsum<equation="...i,ij->...j">(x, w) })",
     "gemm m=40 n=3 k=8 layout=nn weight=activation\n"},
    {"einsum_trace", R"((float[2,5,5] x) => (float[2] y) { y = Einsum<equation="bij->b">(x) })",
     "reduce fn=sum elements=50 outputs=2\n"},
    // (224 + 2·3 - 7) / 2 + 1 = 112
    {"conv",
     R"((float[1,3,224,224] x, float[64,3,7,7] w, float[64] b) => (float[1,64,112,112] y)
        { y = Conv<pads=[3,3,3,3], strides=[2,2]>(x, w, b) })",
     "conv n=1 c=3 k=64 in=224x224 kernel=7x7 stride=2x2 pad=3x3 bias=1\n"},
    // SAME: 5 outputs of stride 2 need (5-1)·2+3 - 9 = 2 rows of padding.
    {"conv_same",
     R"((float[1,4,9] x, float[4,2,3] w) => (float[1,4,5] y)
        { y = Conv<auto_pad="SAME_UPPER", strides=[2], group=2>(x, w) })",
     "conv n=1 c=4 k=4 in=9 kernel=3 stride=2 pad=1 groups=2\n"},
    // (4-1)·2 + 3 - 2·1 + 1 = 8
    {"conv_transpose",
     R"((float[1,6,4,4] x, float[6,5,3,3] w) => (float[1,5,8,8] y)
        { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, w) })",
     "conv n=1 c=6 k=5 in=4x4 kernel=3x3 stride=2x2 pad=1x1 output_pad=1x1 "
     "transposed=1\n"},
    // (4-1)·2 + 3 = 9 without padding: two fewer are padding, one more is added.
    {"conv_transpose_to_a_smaller_output",
     R"((float[1,6,4,4] x, float[6,5,3,3] w) => (float[1,5,7,7] y)
        { y = ConvTranspose<strides=[2,2], output_shape=[7,7]>(x, w) })",
     "conv n=1 c=6 k=5 in=4x4 kernel=3x3 stride=2x2 pad=1x1 transposed=1\n"},
    {"conv_transpose_to_a_larger_output",
     R"((float[1,6,4,4] x, float[6,5,3,3] w) => (float[1,5,10,10] y)
        { y = ConvTranspose<strides=[2,2], output_shape=[10,10]>(x, w) })",
     "conv n=1 c=6 k=5 in=4x4 kernel=3x3 stride=2x2 output_pad=1x1 transposed=1\n"},
    {"conv_transpose_with_bias",
     R"((float[1,6,4,4] x, float[6,5,3,3] w, float[5] b) => (float[1,5,9,9] y)
        { y = ConvTranspose<strides=[2,2]>(x, w, b) })",
     "conv n=1 c=6 k=5 in=4x4 kernel=3x3 stride=2x2 transposed=1 bias=1\n"},
    {"lstm",
     R"((float[35,20,100] x, float[2,800,100] w, float[2,800,200] r)
        => (float[35,2,20,200] y)
        { y = LSTM<hidden_size=200, direction="bidirectional">(x, w, r) })",
     "recurrent cell=lstm batch=20 seq=35 input=100 hidden=200 directions=2 bias=0\n"},
    {"gru_batch_first",
     R"((float[20,35,8] x, float[1,15,8] w, float[1,15,5] r, float[1,30] b)
        => (float[20,35,1,5] y) { y = GRU<hidden_size=5, layout=1>(x, w, r, b) })",
     "recurrent cell=gru batch=20 seq=35 input=8 hidden=5\n"},
    {"rnn_relu",
     R"((float[7,2,8] x, float[1,5,8] w, float[1,5,5] r) => (float[7,1,2,5] y)
        { y = RNN<hidden_size=5, activations=["Relu"]>(x, w, r) })",
     "recurrent cell=rnn_relu batch=2 seq=7 input=8 hidden=5 bias=0\n"},
    {"batch_norm",
     R"((float[2,8,5,5] x, float[8] s, float[8] b, float[8] m, float[8] v)
        => (float[2,8,5,5] y) { y = BatchNormalization(x, s, b, m, v) })",
     "norm fn=batch rows=50 cols=8\n"},
    {"layer_norm",
     R"((float[2,5,16] x, float[16] s) => (float[2,5,16] y) { y = LayerNormalization(x, s) })",
     "norm fn=layer rows=10 cols=16\n"},
    {"rms_norm",
     R"((float[2,5,16] x, float[16] s) => (float[2,5,16] y) { y = RMSNormalization(x, s) })",
     "norm fn=rms rows=10 cols=16\n", 23},
    {"group_norm",
     R"((float[2,8,5,5] x, float[8] s, float[8] b) => (float[2,8,5,5] y)
        { y = GroupNormalization<num_groups=4>(x, s, b) })",
     "norm fn=group rows=8 cols=50\n"},
    {"instance_norm",
     R"((float[2,8,5,5] x, float[8] s, float[8] b) => (float[2,8,5,5] y)
        { y = InstanceNormalization(x, s, b) })",
     "norm fn=instance rows=16 cols=25\n"},
    // Each of 2·25 positions over its 8 channels.
    {"local_response_norm", R"((float[2,8,5,5] x) => (float[2,8,5,5] y) { y = LRN<size=5>(x) })",
     "norm fn=local_response rows=50 cols=8\n"},
    {"softmax_last", R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax(x) })",
     "softmax rows=10 cols=16\n"},
    // Before opset 13 the default axis 1 flattens what follows.
    {"softmax_flattening", R"((float[2,5,16] x) => (float[2,5,16] y) { y = Softmax(x) })",
     "softmax rows=2 cols=80\n", 11},
    {"max_pool",
     R"((float[1,8,112,112] x) => (float[1,8,56,56] y)
        { y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) })",
     "pool fn=max n=1 c=8 in=112x112 out=56x56 kernel=3x3\n"},
    {"global_pool", R"((float[2,8,7,7] x) => (float[2,8,1,1] y) { y = GlobalAveragePool(x) })",
     "pool fn=average n=2 c=8 in=7x7 out=1x1 kernel=7x7\n"},
    {"add_two_tensors", R"((float[4,8] a, float[4,8] b) => (float[4,8] y) { y = Add(a, b) })",
     "elementwise fn=add elements=32 inputs=2\n"},
    // A row that is broadcast is not a full-size operand.
    {"add_row", R"((float[4,8] a, float[8] b) => (float[4,8] y) { y = Add(a, b) })",
     "elementwise fn=add elements=32\n"},
    {"leaky_relu", R"((float[4,8] a) => (float[4,8] y) { y = LeakyRelu(a) })",
     "elementwise fn=leaky_relu elements=32\n"},
    {"reduce_mean", R"((float[4,8,2] a) => (float[4,8,1] y) { y = ReduceMean<axes=[2]>(a) })",
     "reduce fn=mean elements=64 outputs=32\n", 13},
    {"cast", R"((float[4,8] a) => (float16[4,8] y) { y = Cast<to=10>(a) })", "cast elements=32\n"},
    {"transpose", R"((float[2,3,4] a) => (float[3,2,4] y) { y = Transpose<perm=[1,0,2]>(a) })",
     "layout elements=24 perm=1x0x2\n"},
    // Only an axis of one element moves: the order in memory stays.
    {"transpose_of_nothing",
     R"((float[1,3,4] a) => (float[3,1,4] y)
        { t = Transpose<perm=[1,0,2]>(a)  y = Relu(t) })",
     "elementwise fn=relu elements=12\n"},
    // 2·3·4 floats read and written
    {"concat", R"((float[2,3] a, float[2,9] b) => (float[2,12] y) { y = Concat<axis=1>(a, b) })",
     "other fn=concat bytes=192\n"},
    {"views_vanish",
     R"((float[2,3,4] a) => (float[6,4] y)
        { f = Flatten<axis=2>(a)  i = Identity(f)  d = Dropout(i)  y = Relu(d) })",
     "elementwise fn=relu elements=24\n"},
    {"attention_opset_23",
     R"((float[2,8,5,16] q, float[2,2,7,16] k, float[2,2,7,16] v) => (float[2,8,5,16] y)
        { y = Attention<is_causal=1>(q, k, v) })",
     "attention batch=2 heads=8 kv_heads=2 q=5 kv=7 d=16 causal=1\n", 23},
    // Heads side by side, and a cache of 3 positions.
    {"attention_opset_23_on_rows",
     R"((float[2,5,32] q, float[2,7,8] k, float[2,7,12] v, float[2,2,3,4] pk, float[2,2,3,6] pv)
        => (float[2,5,48] y, float[2,2,10,4] nk, float[2,2,10,6] nv)
        { y, nk, nv = Attention<q_num_heads=8, kv_num_heads=2>(q, k, v, "", pk, pv) })",
     "attention batch=2 heads=8 kv_heads=2 q=5 kv=10 d=4 dv=6\n", 23},
    // Log-probabilities of 8 rows, and of 2·4·4 positions.
    {"cross_entropy",
     R"((float[8,10] s, int64[8] t) => (float l) { l = SoftmaxCrossEntropyLoss(s, t) })",
     "softmax rows=8 cols=10\n"},
    {"cross_entropy_of_pixels",
     R"((float[2,10,4,4] s, int64[2,4,4] t) => (float l) { l = SoftmaxCrossEntropyLoss(s, t) })",
     "softmax rows=32 cols=10\n"},
    {"nll_loss",
     R"((float[8,10] s, int64[8] t) => (float l) { l = NegativeLogLikelihoodLoss(s, t) })",
     "reduce fn=nll_loss elements=8 outputs=1\n"},
    // 4·100·4 read, 4·5 values of 4 bytes and 4·5 positions of 8 written
    {"top_k",
     R"((float[4,100] x) => (float[4,5] v, int64[4,5] i) <int64[1] k = {5}>
        { v, i = TopK(x, k) })",
     "other fn=top_k bytes=1840\n"},
    // 2 · 2.5·64·log2 64 flop; 2·64 real numbers read, 2·64 complex ones written
    {"dft", R"((float[2,64,1] x) => (float[2,64,2] y) { y = DFT(x) })",
     "other fn=dft flop=1920 bytes=1536\n", 17},
    // 1 + (128-32)/16 = 7 frames of 32 each: 2·7·(32 + 2.5·32·5) flop; 1024 bytes of signal, frames
    // written and read 2·3 584/2, 2·7·17 complex results of 8 bytes.
    {"stft",
     R"((float[2,128,1] x, float[32] w) => (float[2,7,17,2] y) <int64 step = {16}, int64 n = {32}>
        { y = STFT<onesided=1>(x, step, w, n) })",
     "other fn=stft flop=6048 bytes=6512\n", 17},
    // 9 positions read 18 numbers: 200 bytes of input, 648 of offsets, 648 of columns
    {"deform_conv",
     R"((float[1,2,5,5] x, float[3,2,3,3] w, float[1,18,3,3] o) => (float[1,3,3,3] y)
        { y = DeformConv(x, w, o) })",
     "other fn=deform_columns bytes=1496\ngemm m=9 n=3 k=18 weight=activation\n", 19},
    // A mask of 9·9 numbers and a bias beside them.
    {"deform_conv_with_mask",
     R"((float[1,2,5,5] x, float[3,2,3,3] w, float[1,18,3,3] o, float[3] b, float[1,9,3,3] m)
        => (float[1,3,3,3] y) { y = DeformConv(x, w, o, b, m) })",
     "other fn=deform_columns bytes=1820\ngemm m=9 n=3 k=18 weight=activation bias=1\n", 19},
    // A step over all tensors: of 4·8 and 8 parameters.
    {"adam",
     R"((float r, int64 t, float[4,8] x, float[8] x2, float[4,8] g, float[8] g2, float[4,8] v,
         float[8] v2, float[4,8] h, float[8] h2) => (float[4,8] y, float[8] y2)
        { y, y2 = ai.onnx.preview.training.Adam(r, t, x, x2, g, g2, v, v2, h, h2) })",
     "optimizer fn=adam parameters=40\n"},
    {"momentum",
     R"((float r, int64 t, float[4,8] x, float[8] x2, float[4,8] g, float[8] g2, float[4,8] v,
         float[8] v2) => (float[4,8] y, float[8] y2)
        { y, y2 = ai.onnx.preview.training.Momentum(r, t, x, x2, g, g2, v, v2) })",
     "optimizer fn=momentum parameters=40\n"},
    {"unknown_operator", R"((float[4,8] a) => (float[4,8] y) { y = local.Twist(a) })",
     "other fn=Twist bytes=256\n"},  // the output's shape is what the file declares
};

INSTANTIATE_TEST_SUITE_P(All, OnnxOperator, testing::ValuesIn(kOperators),
                         [](const auto& test) { return test.param.name; });

const OperatorCase kContrib[] = {
    // The operator projects q, k and v itself: 2·5 rows of 16 inputs and 48 outputs.
    {"attention",
     R"((float[2,5,16] x, float[16,48] w, float[48] b) => (float[2,5,16] y)
        { y = com.microsoft.Attention<num_heads=4, unidirectional=1>(x, w, b) })",
     "gemm m=10 n=48 k=16 layout=nn weight=activation bias=1\n"
     "attention batch=2 heads=4 q=5 d=4 causal=1\n"},
    {"attention_with_past",
     R"((float[2,1,16] x, float[16,48] w, float[48] b, int32[2] m, float[2,2,4,7,4] past)
        => (float[2,1,16] y, float[2,2,4,8,4] present)
        { y, present = com.microsoft.Attention<num_heads=4>(x, w, b, m, past) })",
     "gemm m=2 n=48 k=16 layout=nn weight=activation bias=1\n"
     "attention batch=2 heads=4 q=1 kv=8 d=4\n"},
    {"multi_head_attention",
     R"((float[2,5,16] q, float[2,7,16] k, float[2,7,16] v) => (y)
        { y0 = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v)  y = Relu(y0) })",
     "attention batch=2 heads=4 q=5 kv=7 d=4\nelementwise fn=relu elements=160\n"},
    // The result is as wide as the values, and the cache as long as they are.
    {"multi_head_attention_of_wide_values",
     R"((float[2,5,16] q, float[2,7,16] k, float[2,7,24] v) => (y, z)
        { y0, pk, pv = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v)
          y = Relu(y0)  z = Tanh(pv) })",
     "attention batch=2 heads=4 q=5 kv=7 d=4 dv=6\nelementwise fn=relu elements=240\n"
     "elementwise fn=tanh elements=336\n"},
    {"multi_head_attention_with_past",
     R"((float[2,1,16] q, float[2,1,16] k, float[2,1,16] v, float[2,4,7,4] pk, float[2,4,7,4] pv)
        => (float[2,1,16] y)
        { y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v, "", "", "", pk, pv) })",
     "attention batch=2 heads=4 q=1 kv=8 d=4\n"},
    // Keys in heads are those of another sequence, complete already.
    {"multi_head_attention_across_sequences",
     R"((float[2,5,16] q, float[2,4,7,4] k, float[2,4,7,6] v, float[2,4,9,4] pk,
         float[2,4,9,6] pv) => (float[2,5,24] y)
        { y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v, "", "", "", pk, pv) })",
     "attention batch=2 heads=4 q=5 kv=7 d=4 dv=6\n"},
    {"decoder_masked_attention_with_past",
     R"((float[2,1,16] q, float[2,1,16] k, float[2,1,16] v, float[2,4,7,4] pk, float[2,4,7,4] pv)
        => (float[2,1,16] y)
        { y = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads=4>(q, k, v, "", "", pk, pv)
        })",
     "attention batch=2 heads=4 q=1 kv=8 d=4\n"},
    // 8 query and 2 key heads of 4: a packed row has (8 + 2·2)·4 = 48 elements.
    {"group_query_attention_packed",
     R"((float16[1,5,48] q, float16[1,2,3,4] pk, float16[1,2,3,4] pv, int32[1] s, int32 t) => (y)
        { y0 = com.microsoft.GroupQueryAttention<num_heads=8, kv_num_heads=2>(q,,,pk,pv,s,t)
          y = Relu(y0) })",
     "attention batch=1 heads=8 kv_heads=2 q=5 kv=8 d=4 causal=1\n"
     "elementwise fn=relu elements=160\n"},
    {"skip_layer_norm",
     R"((float[2,5,16] x, float[2,5,16] s, float[16] g) => (y)
        { y0 = com.microsoft.SkipLayerNormalization(x, s, g)  y = Relu(y0) })",
     "norm fn=layer rows=10 cols=16\nelementwise fn=relu elements=160\n"},
    {"skip_rms_norm",
     R"((float[2,5,16] x, float[2,5,16] s, float[16] g) => (float[2,5,16] y)
        { y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g) })",
     "norm fn=rms rows=10 cols=16\n"},
    {"embed_layer_norm",
     R"((int32[2,5] ids, int32[2,5] seg, float[30,16] w, float[9,16] p, float[2,16] t,
         float[16] g, float[16] b) => (y)
        { y0, m = com.microsoft.EmbedLayerNormalization(ids, seg, w, p, t, g, b)  y = Relu(y0) })",
     "embedding vocab=30 width=16 lookups=10\nnorm fn=layer rows=10 cols=16\n"
     "elementwise fn=relu elements=160\n"},
    {"gelu_family",
     R"((float[4,8] x, float[8] b) => (y)
        { a = com.microsoft.Gelu(x)  c = com.microsoft.FastGelu(a, b)
          d = com.microsoft.BiasGelu(c, b)  y = com.microsoft.QuickGelu(d) })",
     "elementwise fn=gelu elements=32\nelementwise fn=fast_gelu elements=32\n"
     "elementwise fn=bias_gelu elements=32\nelementwise fn=quick_gelu elements=32\n"},
    {"fused_matmul",
     R"((float[2,3,5] a, float[2,3,7] b) => (y)
        { y = com.microsoft.FusedMatMul<transA=1>(a, b) })",
     "gemm m=5 n=7 k=3 batch=2 layout=tn weight=activation\n"},
    {"fused_gemm",
     R"((float[4,3] a, float[7,3] b, float[7] c) => (y)
        { y = com.microsoft.FusedGemm<transB=1, activation="Relu">(a, b, c) })",
     "gemm m=4 n=7 k=3 weight=activation bias=1\n"},
    {"fused_conv",
     R"((float[1,3,8,8] x, float[4,3,3,3] w) => (y)
        { y = com.microsoft.FusedConv<activation="Relu">(x, w) })",
     "conv n=1 c=3 k=4 in=8x8 kernel=3x3\n"},
    {"nhwc_conv",
     R"((float16[1,8,8,3] x, float16[4,3,3,3] w) => (y)
        { y0 = com.microsoft.NhwcConv<pads=[1,1,1,1]>(x, w)  y = Relu(y0) })",
     "conv n=1 c=3 k=4 in=8x8 kernel=3x3 pad=1x1 layout=nhwc\n"
     "elementwise fn=relu elements=256\n"},
    {"matmul_nbits",
     R"((float16[2,5,32] x, uint8[64,1,16] w, float16[64] s) => (y)
        { y0 = com.microsoft.MatMulNBits<K=32, N=64, bits=4, block_size=32>(x, w, s)
          y = Relu(y0) })",
     "gemm m=10 n=64 k=32\nelementwise fn=relu elements=640\n"},
    {"dynamic_quantize_matmul",
     R"((float[2,5,8] x, int8[8,4] w, float s) => (y)
        { y0 = com.microsoft.DynamicQuantizeMatMul(x, w, s)  y = Relu(y0) })",
     "gemm m=10 n=4 k=8 layout=nn weight=activation\nelementwise fn=relu elements=40\n"},
    {"dynamic_quantize_matmul_with_bias",
     R"((float[2,5,8] x, int8[8,4] w, float s, float[4] b) => (y)
        { y0 = com.microsoft.DynamicQuantizeMatMul(x, w, s, "", b)  y = Relu(y0) })",
     "gemm m=10 n=4 k=8 layout=nn weight=activation bias=1\nelementwise fn=relu elements=40\n"},
    {"gemm_fast_gelu",
     R"((float[5,8] x, float[8,4] w) => (float[5,4] y) { y = com.microsoft.GemmFastGelu(x, w) })",
     "gemm m=5 n=4 k=8 layout=nn weight=activation\n"},
    {"gemm_fast_gelu_with_bias",
     R"((float[5,8] x, float[8,4] w, float[4] b) => (float[5,4] y)
        { y = com.microsoft.GemmFastGelu(x, w, b) })",
     "gemm m=5 n=4 k=8 layout=nn weight=activation bias=1\n"},
    {"matmul_integer_to_float_with_bias",
     R"((uint8[5,8] a, int8[8,4] b, float as, float bs, uint8 az, int8 bz, float[4] c)
        => (float[5,4] y) { y = com.microsoft.MatMulIntegerToFloat(a, b, as, bs, az, bz, c) })",
     "gemm m=5 n=4 k=8 layout=nn weight=activation bias=1\n"},
    {"qgemm",
     R"((uint8[5,8] a, float as, uint8 az, int8[4,8] b, float bs, int8 bz) => (y)
        { y0 = com.microsoft.QGemm<transB=1>(a, as, az, b, bs, bz)  y = Relu(y0) })",
     "gemm m=5 n=4 k=8 weight=activation\nelementwise fn=relu elements=20\n"},
    {"qlinear_add",
     R"((uint8[2,8] a, float as, uint8 az, uint8[8] b, float bs, uint8 bz, float cs, uint8 cz)
        => (y) { y = com.microsoft.QLinearAdd(a, as, az, b, bs, bz, cs, cz) })",
     "elementwise fn=qlinear_add elements=16\n"},
    {"rotary",
     R"((float[2,5,16] x, int64[2,5] p, float[9,2] c, float[9,2] s) => (y)
        { y = com.microsoft.RotaryEmbedding(x, p, c, s) })",
     "elementwise fn=rotary_embedding elements=160\n"},
};

INSTANTIATE_TEST_SUITE_P(Contrib, OnnxOperator, testing::ValuesIn(kContrib),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rooftile
