// Files of PyTorch's exporters: calls that they write out are put together again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

using testing::Contains;
using testing::HasSubstr;

// scaled_dot_product_attention on [2, 8, 4·16] as the older exporter writes it: heads split off,
// both operands scaled by the root of 1/sqrt(16) = 0.5.
constexpr std::string_view kAttention = R"((float[2,8,64] q, float[2,8,64] k, float[2,8,64] v)
    => (float[2,8,64] y)
    <float s = {0.5}, int64[4] split = {2,8,4,16}, int64[3] merge = {2,8,64}> {
  q4 = Reshape(q, split)  qh = Transpose<perm=[0,2,1,3]>(q4)
  k4 = Reshape(k, split)  kt = Transpose<perm=[0,2,3,1]>(k4)
  v4 = Reshape(v, split)  vh = Transpose<perm=[0,2,1,3]>(v4)
  qs = Mul(qh, s)  ks = Mul(kt, s)
  scores = MatMul(qs, ks)
  weights = Softmax<axis=-1>(scores)
  out = MatMul(weights, vh)
  oh = Transpose<perm=[0,2,1,3]>(out)
  y = Reshape(oh, merge)
})";

TEST(OnnxExport, AttentionIsOneCall) {
  const Workload workload = read_export(std::string(kAttention));
  EXPECT_EQ(outline(workload), "attention batch=2 heads=4 q=8 d=16\n");
  EXPECT_EQ(workload.graph, GraphKind::pytorch);
  EXPECT_THAT(workload.notes, Contains(HasSubstr("1 scaled_dot_product_attention")));
}

// nn.MultiheadAttention: [8, 2·4, 16] turned, unfolded to [2, 4, 8, 16].
TEST(OnnxExport, AttentionOfTheModuleIsOneCall) {
  const Workload workload = read_export(R"((float[8,8,16] q, float[8,8,16] k, float[8,8,16] v)
      => (float[2,4,8,16] y) <float s = {0.5}, int64[4] heads = {2,4,8,16}> {
    qt = Transpose<perm=[1,0,2]>(q)  q4 = Reshape(qt, heads)  qs = Mul(q4, s)
    kt = Transpose<perm=[1,0,2]>(k)  k4 = Reshape(kt, heads)
    vt = Transpose<perm=[1,0,2]>(v)  v4 = Reshape(vt, heads)
    kx = Transpose<perm=[0,1,3,2]>(k4)  ks = Mul(kx, s)
    scores = MatMul(qs, ks)  weights = Softmax<axis=-1>(scores)  y = MatMul(weights, v4) })");
  EXPECT_EQ(outline(workload), "attention batch=2 heads=4 q=8 d=16\n");
}

// Constants as exports in 16 bits store them: sqrt(2), 1 and 1/2.
TEST(OnnxExport, ActivationsIn16Bits) {
  const auto read_in = [](const char* type, onnx::TensorProto::DataType elements,
                          std::array<std::int32_t, 3> bits) {
    std::string graph = R"((T[4,8] x) => (T[4,8] y) {
      d = Div(x, r)  e = Erf(d)  p = Add(e, one)  m = Mul(x, p)  y = Mul(m, half) })";
    for (std::size_t at = graph.find("T["); at != std::string::npos; at = graph.find("T[", at)) {
      graph.replace(at, 1, type);
    }
    auto model = model_of(graph);
    const char* const names[] = {"r", "one", "half"};
    for (std::size_t i = 0; i < bits.size(); ++i) {
      onnx::TensorProto& constant = *model.mutable_graph()->add_initializer();
      constant.set_name(names[i]);
      constant.set_data_type(elements);
      constant.add_int32_data(bits[i]);
    }
    return outline(read_model(model).value());
  };
  const std::string gelu = "elementwise fn=gelu elements=32\n";
  EXPECT_EQ(read_in("float16", onnx::TensorProto::FLOAT16, {0x3da8, 0x3c00, 0x3800}), gelu);
  EXPECT_EQ(read_in("bfloat16", onnx::TensorProto::BFLOAT16, {0x3fb5, 0x3f80, 0x3f00}), gelu);
}

// A runtime fuses what a graph of any producer writes out.
TEST(OnnxExport, ActivationsOfAnyProducerAreOneOperation) {
  const Workload workload = read_graph(
      R"((float[4,8] x) => (float[4,8] y) <float r = {1.4142135}, float one = {1},
          float half = {0.5}> {
        d = Div(x, r)  e = Erf(d)  p = Add(e, one)  m = Mul(x, p)  y = Mul(m, half) })",
      17);
  EXPECT_EQ(workload.graph, GraphKind::runtime);
  EXPECT_EQ(outline(workload), "elementwise fn=gelu elements=32\n");
  ASSERT_EQ(workload.notes.size(), 1U);
  EXPECT_THAT(workload.notes.front(), HasSubstr("1 gelu: written out in smaller operators"));
}

// Scores of other producers stay as they are: 2·4 products of 8 x 8 x 16.
TEST(OnnxExport, AttentionOfOthersStays) {
  const Workload workload = read_graph(std::string(kAttention), 17);
  EXPECT_EQ(workload.graph, GraphKind::runtime);
  EXPECT_THAT(outline(workload), HasSubstr("gemm m=8 n=8 k=16 batch=8"));
  EXPECT_THAT(outline(workload), HasSubstr("softmax rows=64 cols=8"));
}

// A model that writes attention out scales once; eager mode runs it as it is listed.
TEST(OnnxExport, AttentionOfTheModelStays) {
  const Workload workload = read_export(R"((float[8,8,16] q, float[8,16,8] k, float[8,8,16] v)
      => (float[8,8,16] y) <float s = {0.25}> {
    scores = MatMul(q, k)  scaled = Mul(scores, s)  weights = Softmax<axis=-1>(scaled)
    y = MatMul(weights, v) })");
  EXPECT_EQ(outline(workload),
            "gemm m=8 n=8 k=16 batch=8 layout=nn weight=activation\n"
            "elementwise fn=mul elements=512\n"
            "softmax rows=64 cols=8\n"
            "gemm m=8 n=16 k=8 batch=8 layout=nn weight=activation\n");
}

// Two different factors are no root of one scale.
TEST(OnnxExport, UnequalScalesAreNoCall) {
  const Workload workload = read_export(R"((float[8,8,16] q, float[8,16,8] k, float[8,8,16] v)
      => (float[8,8,16] y) <float s = {0.25}, float t = {2}> {
    qs = Mul(q, s)  ks = Mul(k, t)
    scores = MatMul(qs, ks)  weights = Softmax<axis=-1>(scores)
    y = MatMul(weights, v) })");
  EXPECT_THAT(outline(workload), HasSubstr("softmax rows=64 cols=8"));
}

// One factor on one operand is the model's, and so is a product without any.
TEST(OnnxExport, AScaleOnOneSideIsNoCall) {
  for (const std::string scores :
       {"qs = Mul(q, s)  scores = MatMul(qs, k)", "ks = Mul(k, s)  scores = MatMul(q, ks)",
        "scores = MatMul(q, k)"}) {
    const Workload workload = read_export(R"((float[8,8,16] q, float[8,16,8] k, float[8,8,16] v)
        => (float[8,8,16] y) <float s = {0.25}> { )" +
                                          scores + R"(
      weights = Softmax<axis=-1>(scores)  y = MatMul(weights, v) })");
    EXPECT_THAT(outline(workload), HasSubstr("softmax rows=64 cols=8")) << scores;
  }
}

// The call scales queries and keys, each once; what else is multiplied is a pass before it.
TEST(OnnxExport, OtherFactorsArePassesBeforeTheCall) {
  const std::pair<const char*, const char*> cases[] = {
      {"qt = Mul(q, t)  qs = Mul(qt, s)  ks = Mul(k, s)", "v"},
      {"qs = Mul(q, s)  ks = Mul(k, s)  vt = Mul(v, t)", "vt"}};
  for (const auto& [factors, values] : cases) {
    const Workload workload = read_export(R"((float[2,4,8,16] q, float[2,4,16,8] k,
        float[2,4,8,16] v) => (float[2,4,8,16] y) <float s = {0.5}, float t = {2}> { )" +
                                          std::string(factors) + R"(
      scores = MatMul(qs, ks)  weights = Softmax<axis=-1>(scores)
      y = MatMul(weights, )" + values + ") }");
    EXPECT_EQ(outline(workload),
              "elementwise fn=mul elements=1024\nattention batch=2 heads=4 q=8 d=16\n")
        << factors;
  }
}

// Keys or values that all samples share, with fewer axes than the queries.
TEST(OnnxExport, OperandsOfOtherRanksAreNoCall) {
  for (const std::string operands :
       {"float[4,16,8] k, float[2,4,8,16] v", "float[2,4,16,8] k, float[8,16] v"}) {
    const Workload workload = read_export("(float[2,4,8,16] q, " + operands +
                                          R"() => (float[2,4,8,16] y) <float s = {0.5}> {
      qs = Mul(q, s)  ks = Mul(k, s)
      scores = MatMul(qs, ks)  weights = Softmax<axis=-1>(scores)  y = MatMul(weights, v) })");
    EXPECT_THAT(outline(workload), HasSubstr("softmax rows=64 cols=8")) << operands;
  }
}

// is_causal: a triangle becomes a mask of numbers; rows without a key become zero.
TEST(OnnxExport, CausalAttention) {
  const Workload workload = read_export(R"((float[2,4,8,16] q, float[2,4,16,8] k,
      float[2,4,8,16] v) => (float[2,4,8,16] y)
      <float s = {0.5}, float zero = {0}, float inf = {-1e30}, float one = {1},
       int64[2] size = {8,8}> {
    ones = Expand(one, size)  lower = Trilu<upper=0>(ones)  hidden = Equal(lower, zero)
    mask = Where(hidden, inf, zero)
    qs = Mul(q, s)  ks = Mul(k, s)
    scores = MatMul(qs, ks)  masked = Add(scores, mask)  weights = Softmax<axis=-1>(masked)
    nan = IsNaN(weights)  safe = Where(nan, zero, weights)
    y = MatMul(safe, v) })");
  EXPECT_EQ(outline(workload), "attention batch=2 heads=4 q=8 d=16 causal=1\n");
}

// Positions compared as in Transformers: key <= query.
TEST(OnnxExport, ComparedPositionsAreCausal) {
  const Workload workload = read_export(R"((float[2,4,8,16] q, float[2,4,16,8] k,
      float[2,4,8,16] v, int64[2,1,1,8] key, int64[2,1,8,1] query) => (float[2,4,8,16] y)
      <float s = {0.5}, float zero = {0}, float inf = {-1e30}> {
    seen = LessOrEqual(key, query)  mask = Where(seen, zero, inf)
    qs = Mul(q, s)  ks = Mul(k, s)
    scores = MatMul(qs, ks)  masked = Add(scores, mask)  weights = Softmax<axis=-1>(masked)
    y = MatMul(weights, v) })");
  EXPECT_THAT(outline(workload), HasSubstr("attention batch=2 heads=4 q=8 d=16 causal=1\n"));
}

// A mask of padding hides keys of a sample, not later ones.
TEST(OnnxExport, PaddingIsNotCausal) {
  const Workload workload = read_export(R"((float[2,4,8,16] q, float[2,4,16,8] k,
      float[2,4,8,16] v, float[2,1,1,8] mask) => (float[2,4,8,16] y) <float s = {0.5}> {
    qs = Mul(q, s)  ks = Mul(k, s)
    scores = MatMul(qs, ks)  masked = Add(scores, mask)  weights = Softmax<axis=-1>(masked)
    y = MatMul(weights, v) })");
  EXPECT_EQ(outline(workload), "attention batch=2 heads=4 q=8 d=16\n");
}

// The newer exporter says in the metadata which nodes are one call: two heads of keys and values
// for four of queries, repeated by an Expand that belongs to the call.
TEST(OnnxExport, HeadsRepeatedInsideTheCall) {
  onnx::ModelProto model = model_of(R"((float[2,4,8,16] q, float[2,2,8,16] k, float[2,2,8,16] v)
      => (float[2,4,8,16] y)
      <float s = {0.5}, int64[1] two = {2}, int64[5] wide = {2,2,2,8,16},
       int64[4] heads = {2,4,8,16}> {
    k5 = Unsqueeze(k, two)  ke = Expand(k5, wide)  k4 = Reshape(ke, heads)
    v5 = Unsqueeze(v, two)  ve = Expand(v5, wide)  v4 = Reshape(ve, heads)
    kt = Transpose<perm=[0,1,3,2]>(k4)
    qs = Mul(q, s)  ks = Mul(kt, s)
    scores = MatMul(qs, ks)  weights = Softmax<axis=-1>(scores)
    y = MatMul(weights, v4) })",
                                    18);
  model.set_producer_name("pytorch");
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    auto* entry = node.add_metadata_props();
    entry->set_key("pkg.torch.onnx.class_hierarchy");
    entry->set_value("['__main__.Net', 'aten.scaled_dot_product_attention.default']");
  }
  const auto workload = read_model(model);
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(outline(*workload), "attention batch=2 heads=4 kv_heads=2 q=8 d=16\n");
}

struct ExportCase {
  std::string name, graph, outline;

  friend void PrintTo(const ExportCase& c, std::ostream* out) { *out << c.name; }
};

class OnnxExportedCall : public testing::TestWithParam<ExportCase> {};

TEST_P(OnnxExportedCall, IsOneOperation) {
  EXPECT_EQ(outline(read_export(GetParam().graph)), GetParam().outline);
}

const ExportCase kExports[] = {
    {"gelu", R"((float[4,8] x) => (float[4,8] y) <float r = {1.4142135}, float one = {1},
        float half = {0.5}> {
      d = Div(x, r)  e = Erf(d)  p = Add(e, one)  m = Mul(x, p)  y = Mul(m, half) })",
     "elementwise fn=gelu elements=32\n"},
    // The tanh form with its cube as two products.
    {"gelu_tanh", R"((float[4,8] x) => (float[4,8] y) <float c = {0.044715}, float b = {0.7978845},
        float one = {1}, float half = {0.5}> {
      s = Mul(x, x)  q = Mul(x, s)  a = Mul(c, q)  i = Add(x, a)  z = Mul(b, i)  t = Tanh(z)
      p = Add(one, t)  m = Mul(x, p)  y = Mul(half, m) })",
     "elementwise fn=gelu elements=32\n"},
    // Another constant is another function.
    {"no_gelu", R"((float[4,8] x) => (float[4,8] y) <float r = {1.2}, float one = {1},
        float half = {0.5}> {
      d = Div(x, r)  e = Erf(d)  p = Add(e, one)  m = Mul(x, p)  y = Mul(m, half) })",
     "elementwise fn=div elements=32\nelementwise fn=erf elements=32\n"
     "elementwise fn=add elements=32\nelementwise fn=mul elements=32 inputs=2\n"
     "elementwise fn=mul elements=32\n"},
    {"silu", "(float[4,8] x) => (float[4,8] y) { s = Sigmoid(x)  y = Mul(x, s) }",
     "elementwise fn=silu elements=32\n"},
    // A gate of another tensor is two operations.
    {"gate", "(float[4,8] x, float[4,8] z) => (float[4,8] y) { s = Sigmoid(x)  y = Mul(z, s) }",
     "elementwise fn=sigmoid elements=32\nelementwise fn=mul elements=32 inputs=2\n"},
    // What something else reads as well must be written.
    {"shared", "(float[4,8] x) => (float[4,8] y, float[4,8] s) { s = Sigmoid(x)  y = Mul(x, s) }",
     "elementwise fn=sigmoid elements=32\nelementwise fn=mul elements=32 inputs=2\n"},
    // As Transformers' gelu_new: a power, and the half first.
    {"gelu_of_the_model",
     R"((float[4,8] x) => (float[4,8] y) <float c = {0.044715}, float three = {3},
        float b = {0.7978845}, float one = {1}, float half = {0.5}> {
      h = Mul(x, half)  q = Pow(x, three)  a = Mul(q, c)  i = Add(x, a)  z = Mul(i, b)  t = Tanh(z)
      p = Add(t, one)  y = Mul(h, p) })",
     "elementwise fn=gelu elements=32\n"},
    {"quick_gelu", R"((float[4,8] x) => (float[4,8] y) <float c = {1.702}> {
      z = Mul(x, c)  s = Sigmoid(z)  y = Mul(x, s) })",
     "elementwise fn=quick_gelu elements=32\n"},
    {"rms_norm", R"((float[2,5,16] x) => (float[2,5,16] y) <float two = {2}, float eps = {1e-5},
        float[16] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
      p = Pow(x, two)  v = ReduceMean<axes=[-1]>(p)  e = Add(v, eps)  r = Sqrt(e)
      i = Reciprocal(r)  n = Mul(x, i)  y = Mul(w, n) })",
     "norm fn=rms rows=10 cols=16\n"},
    {"rotary",
     R"((float[2,4,8,16] x) => (float[2,4,8,16] y) <int64[1] zero = {0}, int64[1] half = {8},
        int64[1] end = {16}, int64[1] axis = {3}, float[1] c = {0.5}, float[1] s = {0.25}> {
      a = Slice(x, zero, half, axis)  b = Slice(x, half, end, axis)  n = Neg(b)
      r = Concat<axis=-1>(n, a)  u = Mul(x, c)  v = Mul(r, s)  y = Add(u, v) })",
     "elementwise fn=rotary elements=1024\n"},
    {"mish", "(float[4,8] x) => (float[4,8] y) { s = Softplus(x)  t = Tanh(s)  y = Mul(x, t) }",
     "elementwise fn=mish elements=32\n"},
    {"hardswish", "(float[4,8] x) => (float[4,8] y) { s = HardSigmoid(x)  y = Mul(x, s) }",
     "elementwise fn=hardswish elements=32\n"},
    {"layer_norm", R"((float[2,5,16] x) => (float[2,5,16] y) <float two = {2}, float eps = {1e-5},
        float[16] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1},
        float[16] b = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> {
      m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  p = Pow(d, two)  v = ReduceMean<axes=[-1]>(p)
      e = Add(v, eps)  r = Sqrt(e)  n = Div(d, r)  s = Mul(n, w)  y = Add(s, b) })",
     "norm fn=layer rows=10 cols=16\n"},
    {"group_norm", R"((float[2,8,5,5] x) => (float[2,8,5,5] y)
        <int64[3] to = {0,4,-1}, int64[4] back = {2,8,5,5}, float[4] one = {1,1,1,1},
         float[4] zero = {0,0,0,0}, float[8,1,1] w = {1,1,1,1,1,1,1,1},
         float[8,1,1] b = {0,0,0,0,0,0,0,0}> {
      g = Reshape(x, to)  i = InstanceNormalization(g, one, zero)  r = Reshape(i, back)
      s = Mul(r, w)  y = Add(s, b) })",
     "norm fn=group rows=8 cols=50\n"},
    // i, f, g, o; eager mode adds the two products in the same kernel.
    {"lstm_cell", R"((float[4,32] a, float[4,32] b, float[4,8] c) => (float[4,8] h, float[4,8] n) {
      s = Add(a, b)  i, f, g, o = Split<axis=1>(s)
      is = Sigmoid(i)  fs = Sigmoid(f)  gt = Tanh(g)  os = Sigmoid(o)
      k = Mul(fs, c)  w = Mul(is, gt)  n = Add(k, w)  t = Tanh(n)  h = Mul(os, t) })",
     "elementwise fn=lstm_cell elements=128 inputs=2\n"},
    // r, z, n; the older exporter and the newer one write the same nodes.
    {"gru_cell", R"((float[4,24] a, float[4,24] b, float[4,8] h) => (float[4,8] y) {
      ir, iz, in = Split<axis=1>(a)  hr, hz, hn = Split<axis=1>(b)
      ra = Add(hr, ir)  r = Sigmoid(ra)  za = Add(hz, iz)  z = Sigmoid(za)
      m = Mul(hn, r)  na = Add(in, m)  n = Tanh(na)
      d = Sub(h, n)  k = Mul(d, z)  y = Add(k, n) })",
     "elementwise fn=gru_cell elements=96 inputs=2\n"},
    // Two layers on parts of a tensor do not read the same value.
    {"selected_for_a_product", R"((float[2,4,8] x, float[8,3] w) => (float[4,3] y)
        <int64 first = {0}> { a = Gather<axis=0>(x, first)  y = MatMul(a, w) })",
     "other fn=gather bytes=256\ngemm m=4 n=3 k=8 layout=nn weight=activation\n"},
    // A pointwise kernel reads any order of the leading axes.
    {"transposed_read", R"((float[2,8,4,16] x) => (float[2,4,8,16] y) {
      t = Transpose<perm=[0,2,1,3]>(x)  y = Relu(t) })",
     "elementwise fn=relu elements=1024\n"},
    {"transposed_norm", R"((float[2,8,4,16] x, float[16] s) => (float[2,4,8,16] y) {
      t = Transpose<perm=[0,2,1,3]>(x)  y = LayerNormalization(t, s) })",
     "layout elements=1024 perm=0x2x1x3\nnorm fn=layer rows=64 cols=16\n"},
    // Strides, not copies.
    {"views", R"((float[4,8] x) => (float[4,4] y) <int64[1] zero = {0}, int64[1] four = {4},
        int64[1] eight = {8}, int64[1] axis = {1}> {
      a = Slice(x, zero, four, axis)  b = Slice(x, four, eight, axis)  y = Mul(a, b) })",
     "elementwise fn=mul elements=16 inputs=2\n"},
};

INSTANTIATE_TEST_SUITE_P(All, OnnxExportedCall, testing::ValuesIn(kExports),
                         [](const auto& info) { return info.param.name; });

// What strides express is a view in eager mode; what a product reads, or another order of elements,
// is copied.
TEST(OnnxExport, ViewsAndCopies) {
  struct Case {
    int opset;
    const char *graph, *outline;
  };
  const Case cases[] = {
      {17,
       R"((float[1,8] x) => (float[4,8] y) <int64[2] s = {4,8}>
       { e = Expand(x, s) y = Relu(e) })",
       "elementwise fn=relu elements=32\n"},
      {17,
       R"((float[1,8] x) => (float[32] y) <int64[2] s = {4,8}, int64[1] f = {32}>
       { e = Expand(x, s) r = Reshape(e, f) y = Relu(r) })",
       "other fn=expand bytes=160\n"
       "elementwise fn=relu elements=32\n"},
      {17,
       R"((float[4,8] x, float[4,3] w) => (float[4,3] y) <int64[1] zero = {0}, int64[1] four =
       {4}, int64[1] axis = {1}>
       { a = Slice(x, zero, four, axis) y = MatMul(a, w) })",
       "other fn=slice bytes=128\n"
       "gemm m=4 n=3 k=4 layout=nn weight=activation\n"},
      {17,
       R"((float[4,8] x, float[2,3] w) => (float[8,3] y) <int64[1] zero = {0}, int64[1] four =
       {4}, int64[1] axis = {1}, int64[2] f = {8,2}>
       { a = Slice(x, zero, four, axis) r = Reshape(a, f) y = MatMul(r, w) })",
       "other fn=slice bytes=128\n"
       "gemm m=8 n=3 k=2 layout=nn weight=activation\n"},
      // Behind many views a product may follow.
      {17,
       R"((float[4,8] x) => (y) <int64[1] zero = {0}, int64[1] four = {4}, int64[1] axis = {1},
       int64[1] f = {16}, int64[2] g = {4,4}>
       { a = Slice(x, zero, four, axis) b = Reshape(a, f) c = Reshape(b, g) d = Reshape(c, f)
         e = Reshape(d, g) y = Relu(e) })",
       "elementwise fn=relu elements=16\n"},
      {17,
       R"((float[4,8] x) => (y) <int64[1] zero = {0}, int64[1] four = {4}, int64[1] axis = {1},
       int64[1] f = {16}, int64[2] g = {4,4}>
       { a = Slice(x, zero, four, axis) b = Reshape(a, f) c = Reshape(b, g) d = Reshape(c, f)
         e = Reshape(d, g) h = Reshape(e, f) y = Relu(h) })",
       "other fn=slice bytes=128\n"
       "elementwise fn=relu elements=16\n"},
      {17,
       R"((float[4,8,1] x) => (float[4,4] y) <int64[1] zero = {0}, int64[1] four = {4}, int64[1]
       axis = {1}, int64[1] last = {2}>
       { a = Slice(x, zero, four, axis) r = Squeeze(a, last) y = Relu(r) })",
       "elementwise fn=relu elements=16\n"},
      {18,
       R"((float[4,8] x) => (float[4,4] y)
       { a, b = Split<axis=1, num_outputs=2>(x) y = Mul(a, b) })",
       "elementwise fn=mul elements=16 inputs=2\n"},
      {18,
       R"((float[4,8] x, float[4,3] w) => (float[4,3] y, float[4,4] z)
       { a, b = Split<axis=1, num_outputs=2>(x) y = MatMul(a, w) z = Relu(b) })",
       "other fn=split bytes=256\n"
       "gemm m=4 n=3 k=4 layout=nn weight=activation\n"
       "elementwise fn=relu elements=16\n"},
      {17, R"((float[4,8] x) => (float[8] y) <int64 i = {1}> { a = Gather(x, i) y = Relu(a) })",
       "elementwise fn=relu elements=8\n"},
      {17,
       R"((float[4,8] x) => (float[2,8] y) <int64[2] i = {1,2}>
       { a = Gather(x, i) y = Relu(a) })",
       "other fn=gather bytes=128\n"
       "elementwise fn=relu elements=16\n"},
      {17,
       R"((float[4,8] x, float[4,8] z) => (float[4,16] y)
       { a = Concat<axis=1>(x, z) y = Relu(a) })",
       "other fn=concat bytes=512\n"
       "elementwise fn=relu elements=64\n"},
      {17,
       R"((float[2,8,4,16] x, float[2,4,8,16] z) => (float[2,4,16,16] y)
       { t = Transpose<perm=[0,2,1,3]>(x) y = Concat<axis=2>(t, z) })",
       "other fn=concat bytes=16384\n"},
      {17,
       R"((float[2,8,4,16] x, float[2,4,16,3] w) => (float[2,4,8,3] y)
       { t = Transpose<perm=[0,2,1,3]>(x) y = MatMul(t, w) })",
       "layout elements=1024 perm=0x2x1x3\n"
       "gemm m=8 n=3 k=16 batch=8 layout=nn weight=activation\n"},
      {17,
       R"((float[2,8,4,16] x, float[2,4,16,3] w) => (float[2,4,8,3] y, float[2,4,8,16] z)
       { t = Transpose<perm=[0,2,1,3]>(x) y = MatMul(t, w) z = Relu(t) })",
       "layout elements=1024 perm=0x2x1x3\n"
       "gemm m=8 n=3 k=16 batch=8 layout=nn weight=activation\n"
       "elementwise fn=relu elements=1024\n"},
      {17,
       R"((float[2,8,4,16] x) => (float[2,8,16,4] y)
       { t = Transpose<perm=[0,1,3,2]>(x) y = Relu(t) })",
       "layout elements=1024 perm=0x1x3x2\n"
       "elementwise fn=relu elements=1024\n"},
      {17, R"((float[2,8,4,16] x) => (float[2,4,8,16] y) { y = Transpose<perm=[0,2,1,3]>(x) })",
       "layout elements=1024 perm=0x2x1x3\n"},
      {23,
       R"((float[2,8,5,16] q, float[2,8,7,16] k, float[2,8,7,16] v, float[16] g) =>
       (float[2,5,8,16] y)
       { a = Attention(q, k, v) t = Transpose<perm=[0,2,1,3]>(a) y = LayerNormalization(t, g) })",
       "attention batch=2 heads=8 q=5 kv=7 d=16\n"
       "norm fn=layer rows=80 cols=16\n"},
      {23,
       R"((float[2,8,5,16] q, float[2,8,7,16] k, float[2,8,7,16] v) => (float[8,2,5,16] y)
       { a = Attention(q, k, v) t = Transpose<perm=[1,0,2,3]>(a) y = Relu(t) })",
       "attention batch=2 heads=8 q=5 kv=7 d=16\n"
       "layout elements=1280 perm=1x0x2x3\n"
       "elementwise fn=relu elements=1280\n"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(outline(read_export(c.graph, c.opset)), c.outline) << c.graph;
  }
}

// The older exporter writes the cube of the tanh form as two products; a power is the model's.
TEST(OnnxExport, WhatTheModelWritesOutIsNotedApart) {
  const auto workload = read_export(R"((float[4,8] x) => (float[4,8] y) <float c = {1.702}> {
      z = Mul(x, c)  s = Sigmoid(z)  q = Mul(x, s)  t = Sigmoid(q)  y = Mul(q, t) })");
  EXPECT_THAT(workload.notes, Contains(HasSubstr("1 silu: the exporter wrote")));
  EXPECT_THAT(workload.notes, Contains(HasSubstr("1 quick_gelu: the model's code writes")));
}

// A tensor that the exporter computed is a table or a mask, whatever it is added to: 8·16 weights.
TEST(OnnxExport, TablesAreNoParameters) {
  onnx::ModelProto model = model_of(R"((float[4,8] x) => (float[4,16] y)
      { h = MatMul(x, w)  m = Mul(h, unsqueeze_3)  y = Add(m, s) })");
  model.set_producer_name("pytorch");
  model.mutable_graph()->mutable_node(0)->set_input(1, "fc.weight");  // no name in the text syntax
  model.mutable_graph()->mutable_node(2)->set_input(1, "fc.scale");
  add_weight(model, "fc.weight", {8, 16});
  add_weight(model, "unsqueeze_3", {4, 16});
  add_weight(model, "fc.scale", {1, 16});
  const auto workload = read_model(model);
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->parameters, 8 * 16 + 16);
}

// Rows of a table that the exporter looked up beforehand: the table counts.
TEST(OnnxExport, AFoldedLookupCountsItsTable) {
  onnx::ModelProto model = model_of(R"((float[4,8] x) => (float[4,8] y) <int64[4] ids = {0,1,2,3}>
      { p = Gather(table, ids)  y = Add(x, p) })");
  model.set_producer_name("pytorch");
  add_weight(model, "wpe.weight", {16, 8});
  model.mutable_graph()->mutable_node(0)->set_input(0, "wpe.weight");
  const auto workload = read_model(model);
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->parameters, 16 * 8);
}

// Of other producers names say nothing, but what is added to scores is a mask.
TEST(OnnxExport, MasksAreNoParameters) {
  onnx::ModelProto model = model_of(R"((float[4,8] x) => (float[4,8] y)
      { h = Add(x, mask)  s = Softmax(h)  y = Add(s, bias) })");
  add_weight(model, "mask", {4, 8});
  add_weight(model, "bias", {8});
  const auto workload = read_model(model);
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->parameters, 8);
}

// Not PyTorch's cell: the update gate keeps the new state.
TEST(OnnxExport, OtherGatedCellsStayApart) {
  const auto workload = read_export(R"((float[4,24] a, float[4,24] b, float[4,8] h) =>
      (float[4,8] y) {
      ir, iz, in = Split<axis=1>(a)  hr, hz, hn = Split<axis=1>(b)
      ra = Add(hr, ir)  r = Sigmoid(ra)  za = Add(hz, iz)  z = Sigmoid(za)
      m = Mul(hn, r)  na = Add(in, m)  n = Tanh(na)
      d = Sub(n, h)  k = Mul(d, z)  y = Add(k, h) })");
  EXPECT_GT(workload.ops.size(), 5U);
}

onnx::ModelProto folded_norm() {
  onnx::ModelProto model = model_of(R"((float[2,8,6,6] x) => (float[2,16,6,6] y)
      { c = Conv<pads=[1,1,1,1]>(x, onnx__w, onnx__b)  y = Relu(c) })");
  model.set_producer_name("pytorch");
  add_weight(model, "onnx::Conv_10", {16, 8, 3, 3});
  add_weight(model, "onnx::Conv_11", {16});
  model.mutable_graph()->mutable_node(0)->set_input(1, "onnx::Conv_10");
  model.mutable_graph()->mutable_node(0)->set_input(2, "onnx::Conv_11");
  return model;
}

Workload read_training(const onnx::ModelProto& model) {
  ReadOptions training;
  training.mode = Mode::training;
  auto workload = read_model(model, training);
  EXPECT_TRUE(workload) << to_string(workload.error());
  return workload ? *workload : Workload{};
}

// 2·6·6 positions of 16 channels; 16·8·9 weights, and a scale and a shift for each channel.
TEST(OnnxExport, FoldedBatchNormIsPutBackInTraining) {
  const Workload workload = read_training(folded_norm());
  ASSERT_EQ(workload.ops.size(), 3U);
  EXPECT_FALSE(std::get<Convolution>(workload.ops[0].body).bias);
  EXPECT_EQ(dims_text(workload.ops[1].body), "fn=batch rows=72 cols=16");
  EXPECT_EQ(workload.ops[1].inputs, workload.ops[0].outputs);
  EXPECT_EQ(workload.ops[2].inputs, workload.ops[1].outputs);
  EXPECT_EQ(workload.parameters, 16 * 8 * 9 + 2 * 16);
  EXPECT_THAT(workload.notes, Contains(HasSubstr("folded 1 BatchNorm into")));
  const auto inference = read_model(folded_norm());
  EXPECT_EQ(inference->ops.size(), 2U);
  EXPECT_EQ(inference->parameters, 16 * 8 * 9 + 16);
  EXPECT_THAT(inference->notes, testing::Not(Contains(HasSubstr("folded"))));
}

// The norm reads and writes what the convolution writes, however its weights are stored.
TEST(OnnxExport, AFoldedBatchNormHasTheTypesOfTheResult) {
  onnx::ModelProto model = folded_norm();
  model.mutable_graph()->mutable_initializer(0)->set_data_type(onnx::TensorProto::FLOAT16);
  const Workload workload = read_training(model);
  ASSERT_EQ(workload.ops.size(), 3U);
  EXPECT_EQ(workload.ops[0].dtypes.weight, Dtype::fp16);
  EXPECT_EQ(workload.ops[1].dtypes, Dtypes(Dtype::fp32));
}

// Weights that are computed, as with a weight norm, have a name of the operator too, but not the
// bias; a BatchNorm in the file says that none was folded.
TEST(OnnxExport, OtherComputedWeightsAreNoFoldedNorm) {
  onnx::ModelProto computed = folded_norm();
  add_weight(computed, "conv.bias", {16});
  computed.mutable_graph()->mutable_node(0)->set_input(2, "conv.bias");
  EXPECT_EQ(read_training(computed).ops.size(), 2U);
  onnx::ModelProto kept = folded_norm();
  onnx::NodeProto& norm = *kept.mutable_graph()->mutable_node(1);
  norm.set_op_type("BatchNormalization");
  for (const char* name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}) {
    add_weight(kept, name, {16});
    norm.add_input(name);
  }
  EXPECT_EQ(read_training(kept).ops.size(), 2U);
}

}  // namespace
}  // namespace rooftile
