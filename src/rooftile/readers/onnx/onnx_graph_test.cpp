// Whole graphs: weights, folding, data flow, dimensions, control flow and functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ReadOptions given(std::optional<std::int64_t> batch, std::optional<std::int64_t> seq = {},
                  std::map<std::string, std::int64_t> dims = {},
                  std::map<std::string, Extents> shapes = {}) {
  ReadOptions options;
  options.batch = batch;
  options.seq = seq;
  options.dims = std::move(dims);
  options.shapes = std::move(shapes);
  return options;
}

const Gemm& gemm(const Workload& workload, std::size_t index = 0) {
  return std::get<Gemm>(workload.ops.at(index).body);
}

TEST(OnnxGraph, AWeightWithoutDataIsAParameter) {
  auto model = model_of("(float[8,3] x) => (float[8,4] y) { y = MatMul(x, w) }");
  add_weight(model, "w", {3, 4});
  const auto workload = read_model(model);
  ASSERT_TRUE(workload);
  EXPECT_EQ(outline(*workload), "gemm m=8 n=4 k=3 layout=nn\n");
  EXPECT_EQ(workload->parameters, 12);
  EXPECT_THAT(workload->ops[0].inputs, ElementsAre("x"));
}

// A model in channels_last is exported with dims in the order NCHW.
TEST(OnnxGraph, DimsDoNotSayHowTensorsLieInMemory) {
  const Workload workload = read_graph("(float[8,3] x) => (float[8,3] y) { y = Relu(x) }");
  EXPECT_FALSE(workload.layouts_known());
}

TEST(OnnxGraph, AFoldedLinearWeightIsTransposed) {
  auto model = model_of("(float[8,3] x) => (float[8,4] y) { y = MatMul(x, w) }");
  model.mutable_graph()->mutable_node(0)->set_input(1, "onnx::MatMul_123");
  add_weight(model, "onnx::MatMul_123", {3, 4});
  EXPECT_EQ(gemm(read_model(model).value()).layout, GemmLayout::nt);
}

TEST(OnnxGraph, ATransposedWeightIsStoredTransposed) {
  auto model = model_of(
      "(float[8,3] x) => (float[8,4] y) { t = Transpose<perm=[1,0]>(w) y = MatMul(x, t) }");
  add_weight(model, "w", {4, 3});
  const auto workload = read_model(model).value();
  EXPECT_EQ(outline(workload), "gemm m=8 n=4 k=3\n");
  EXPECT_EQ(workload.skipped.at("constant folding"), 1);
  EXPECT_EQ(workload.parameters, 12);
}

TEST(OnnxGraph, WeightsFromConstantOfShapeAreParameters) {
  const auto workload = read_graph(R"((float[1,3,8,8] x) => (float[1,4,6,6] y)
      <int64[4] s = {4, 3, 3, 3}> { w = ConstantOfShape(s)  y = Conv(x, w) })");
  EXPECT_EQ(outline(workload), "conv n=1 c=3 k=4 in=8x8 kernel=3x3\n");
  EXPECT_EQ(workload.parameters, 108);
  EXPECT_EQ(workload.ops[0].name, "y");
}

TEST(OnnxGraph, ABiasAddIsTheEpilogue) {
  for (const char* sum : {"Add(b, y)", "Add(y, b)"}) {
    auto model =
        model_of(std::string("(float[2,8,3] x) => (float[2,8,4] z) { y = MatMul(x, w) s = ") + sum +
                 " z = Relu(s) }");
    add_weight(model, "w", {3, 4});
    add_weight(model, "b", {4});
    const auto workload = read_model(model).value();
    EXPECT_EQ(outline(workload),
              "gemm m=16 n=4 k=3 layout=nn bias=1\nelementwise fn=relu elements=64\n")
        << sum;
    EXPECT_THAT(workload.ops[0].outputs, ElementsAre("s")) << sum;
    EXPECT_THAT(workload.ops[1].inputs, ElementsAre("s")) << sum;
    EXPECT_EQ(workload.parameters, 16) << sum;
  }
}

TEST(OnnxGraph, ABiasIsARowOfWeights) {
  const auto is_bias = [](const std::vector<std::int64_t>& dims) {
    auto model = model_of("(float[2,8,4] x) => (z) { y = MatMul(x, w) z = Add(y, b) }");
    add_weight(model, "w", {4, 4});
    add_weight(model, "b", dims);
    const auto workload = read_model(model).value();
    EXPECT_EQ(workload.ops.size(), std::get<Gemm>(workload.ops[0].body).bias ? 1U : 2U);
    return workload.ops.size() == 1;
  };
  EXPECT_TRUE(is_bias({4}));
  EXPECT_TRUE(is_bias({1, 1, 4}));
  EXPECT_FALSE(is_bias({}));
  EXPECT_FALSE(is_bias({1}));
  EXPECT_FALSE(is_bias({8, 4}));
  EXPECT_FALSE(is_bias({8, 1}));
  EXPECT_FALSE(is_bias({2, 1, 4}));
  EXPECT_EQ(read_graph("(float[8,4] x, float[4,4] w, float[4] b) => (z)"
                       "{ y = MatMul(x, w) z = Add(y, b) }")
                .ops.size(),
            2U);
}

TEST(OnnxGraph, ABiasAddWithASecondReaderStays) {
  auto model = model_of(
      "(float[8,3] x) => (float[8,4] z, float[8,4] r)"
      "{ y = MatMul(x, w) z = Add(y, b) r = Relu(y) }");
  add_weight(model, "w", {3, 4});
  add_weight(model, "b", {4});
  EXPECT_EQ(outline(read_model(model).value()),
            "gemm m=8 n=4 k=3 layout=nn\nelementwise fn=add elements=32\n"
            "elementwise fn=relu elements=32\n");
}

TEST(OnnxGraph, ViewsCarryTheDataFlow) {
  const auto workload = read_graph(R"((float[2,3,4] x) => (float[6,4] z)
      <int64[2] s = {6, 4}> { a = Relu(x)  v = Reshape(a, s)  z = Tanh(v) })");
  EXPECT_THAT(workload.ops[1].inputs, ElementsAre("a"));
}

TEST(OnnxGraph, ShapeArithmeticIsLeftOutAndCounted) {
  const auto workload = read_graph(R"((float[N,6,4] x) => (y)
      <int64 zero = {0}, int64[1] rest = {-1}, int64[1] axes = {0}>
      { s = Shape(x)  n = Gather(s, zero)  u = Unsqueeze(n, axes)
        t = Concat<axis=0>(u, rest)  r = Reshape(x, t)  y = Relu(r) })",
                                   21, given(3));
  EXPECT_EQ(outline(workload), "elementwise fn=relu elements=72\n");
  EXPECT_EQ(workload.skipped.at("shape computation"), 4);
}

// The library's own data propagation does not follow Equal, Where and Expand.
TEST(OnnxGraph, ExpandOfAComputedShapeIsKnown) {
  const auto workload = read_graph(R"((float[B,1,4] x) => (y)
      <int64[3] want = {-1, 5, -1}, int64[3] minus = {-1, -1, -1}, int64[3] one = {1, 1, 1}>
      { e = Equal(want, minus)  t = Where(e, one, want)  r = Expand(x, t)  y = Relu(r) })",
                                   21, given(2));
  EXPECT_EQ(outline(workload), "other fn=expand bytes=192\nelementwise fn=relu elements=40\n");
}

TEST(OnnxGraph, RowsOfAWeightTableAreAnEmbedding) {
  auto model = model_of("(int64[B,S] ids) => (y) { y = Gather(table, ids) }");
  add_weight(model, "table", {50257, 768});
  const auto workload = read_model(model, given(2, 10)).value();
  EXPECT_EQ(outline(workload), "embedding vocab=50257 width=768 lookups=20\n");
  EXPECT_EQ(workload.parameters, 50257 * 768);
}

// A table of learned positions has no row for longer sequences.
TEST(OnnxGraph, PositionsBeyondTheirTableAreNoted) {
  const auto is_noted = [](std::int64_t length, std::int64_t rows) {
    auto model = model_of(R"((int64[B,S] ids) => (y) <int64 zero = {0}, int64 one = {1}>
        { s = Shape(ids)  n = Gather(s, one)  p = Range(zero, n, one)
          q = Gather(table, p)  t = Gather(words, ids)  y = Add(t, q) })");
    add_weight(model, "table", {rows, 64});
    add_weight(model, "words", {100, 64});
    const std::string note =
        "positions are looked up in 'table', which has " + std::to_string(rows);
    const auto notes = read_model(model, given(2, length)).value().notes;
    return std::ranges::any_of(
        notes, [&](const std::string& one) { return one.find(note) != std::string::npos; });
  };
  EXPECT_TRUE(is_noted(4000, 1024));
  EXPECT_TRUE(is_noted(8192, 1024));
  EXPECT_TRUE(is_noted(1025, 1024));
  EXPECT_FALSE(is_noted(1024, 1024));
  // Of few rows, kinds of tokens: only numbers that are known tell.
  EXPECT_TRUE(is_noted(8192, 64));
  EXPECT_FALSE(is_noted(8192, 63));
}

// Weights, biases and tables that are trained, whatever operator has them as a constant.
TEST(OnnxGraph, ParametersAreWhatIsTrained) {
  struct Case {
    const char *what, *graph;  // "@8@": eight zeros
    std::int64_t parameters;
  };
  const Case cases[] = {
      {"a bias", R"((float[4,8] x) => (float[4,8] y) <float[8] b = @8@> { y = Add(x, b) })", 8},
      {"a scale", R"((float[4,8] x) => (float[4,8] y) <float b = {1}> { y = Add(x, b) })", 0},
      {"a scale with an axis",
       R"((float[4,8] x) => (float[4,8] y) <float[1] b = {1}> { y = Mul(x, b) })", 0},
      {"what a mask chooses",
       R"((float[4,8] x, bool[4,8] c) => (float[4,8] y) <float[8] b = @8@> { y = Where(c, x, b) })",
       0},
      {"a border", R"((float[4,8] x) => (bool[4,8] y) <float[8] b = @8@> { y = Less(x, b) })", 0},
      {"a square mask",
       R"((float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,2,2] m = @4@> { y = Mul(x, m) })", 0},
      {"three axes",
       R"((float[1,2,2] x) => (float[1,2,2] y) <float[1,2,2] m = @4@> { y = Mul(x, m) })", 4},
      {"one for each sample",
       R"((float[2,1,2,2] x) => (float[2,1,2,2] y) <float[2,1,2,2] m = @8@> { y = Mul(x, m) })", 8},
      {"not square",
       R"((float[1,1,2,4] x) => (float[1,1,2,4] y) <float[1,1,2,4] m = @8@> { y = Mul(x, m) })", 8},
      {"sizes of a resize",
       R"((float[1,1,2,2] x) => (float[1,1,4,4] y)
        <float[4] s = {1,1,2,2}> { y = Resize(x, "", s) })",
       0},
      {"angles of rotary positions",
       R"((float[4,8] x) => (float[4,2] y)
        <float[8,2] inv_freq = @16@> { y = MatMul(x, inv_freq) })",
       0},
      {"a layer", R"((float[4,8] x) => (float[4,2] y) <float[8,2] w = @16@> { y = MatMul(x, w) })",
       16},
      {"a table of integers",
       R"((int64[3] i) => (int64[3,2] y) <int64[4,2] t = @8@> { y = Gather(t, i) })", 0},
      {"a table of quantized numbers",
       R"((int64[3] i) => (int8[3,2] y) <int8[4,2] t = @8@> { y = Gather(t, i) })", 8},
      {"scale and shift, not the statistics",
       R"((float[2,8,3] x) => (float[2,8,3] y)
        <float[8] s = @8@, float[8] b = @8@, float[8] m = @8@, float[8] v = @8@>
        { y = BatchNormalization(x, s, b, m, v) })",
       16},
      {"one weight of two layers",
       R"((float[4,4] x) => (float[4,4] y)
        <float[4,4] w = @16@> { h = MatMul(x, w) y = MatMul(h, w) })",
       16},
      {"values of a choice",
       R"((int64[3] i) => (float[3,4] y)
        <int64 d = {4}, float[2] v = {0,1}> { y = OneHot(i, d, v) })",
       0},
      {"numbers that are computed",
       R"((float[4,8] x) => (float[4,8] y)
        <int64[1] n = {8}> { b = ConstantOfShape(n) y = Add(x, b) })",
       0},
      {"a quantized layer, not its scales",
       R"((float[4,8] x) => (float[4,2] y)
        <int8[8,2] q = @16@, float[2] s = {1,1}>
        { w = DequantizeLinear<axis=1>(q, s) y = MatMul(x, w) })",
       16},
      {"scale and shift of a norm",
       R"((float[4,8] x) => (float[4,8] y)
        <float[8] s = @8@, float[8] b = @8@> { y = LayerNormalization(x, s, b) })",
       16},
      {"a mask of scores",
       R"((float[4,8] x) => (float[4,8] y) <float[4,8] m = @32@> { h = Add(x, m) y = Softmax(h) })",
       0},
      {"a bias of rows",
       R"((float[4,8] x) => (float[4,8] y) <float[4,8] m = @32@> { h = Add(x, m) y = Relu(h) })",
       32},
      {"a scale of scores",
       R"((float[4,8] x) => (float[4,8] y) <float[4,8] m = @32@> { h = Mul(x, m) y = Softmax(h) })",
       32},
  };
  for (const Case& c : cases) {
    std::string graph = c.graph;
    for (std::size_t at = graph.find('@'); at != std::string::npos; at = graph.find('@')) {
      const std::size_t end = graph.find('@', at + 1);
      std::string zeros = "{0";
      for (int i = std::stoi(graph.substr(at + 1)); i > 1; --i) zeros += ",0";
      graph.replace(at, end - at + 1, zeros + "}");
    }
    EXPECT_EQ(read_graph(graph).parameters, c.parameters) << c.what;
  }
}

TEST(OnnxGraph, QuantisedOperandsAreIntegers) {
  auto model = model_of(R"((int8[4,8] xq) => (y) <float s = {0.5}>
      { x = DequantizeLinear(xq, s)  w = DequantizeLinear(wq, s)  y = MatMul(x, w) })");
  add_weight(model, "wq", {8, 16}, onnx::TensorProto::INT8);
  const auto workload = read_model(model).value();
  ASSERT_EQ(workload.ops.size(), 1U);
  EXPECT_EQ(workload.ops[0].dtypes, Dtypes(Dtype::int8, Dtype::int8, Dtype::fp32));
  EXPECT_THAT(workload.ops[0].inputs, ElementsAre("xq"));
}

// A Reshape, a Transpose and another Reshape; behind more views the integers are not looked for.
TEST(OnnxGraph, QuantizedOperandsBehindViews) {
  const auto read_as = [](const std::string& views) {
    const auto workload = read_graph(R"((int8[4,8] xq, int8[4,8] wq) => (y)
        <float s = {0.5}, int64[2] to = {4, 8}>
        { a = DequantizeLinear(xq, s) w = DequantizeLinear(wq, s) )" +
                                     views + " v = Transpose<perm=[1,0]>(w) y = MatMul(x, v) }");
    return workload.ops.at(0).dtypes.input;
  };
  EXPECT_EQ(read_as("x = Identity(a)"), Dtype::int8);
  EXPECT_EQ(read_as("b = Reshape(a, to) c = Squeeze(b) x = Flatten(c)"), Dtype::int8);
  EXPECT_EQ(read_as("b = Reshape(a, to) c = Squeeze(b) d = Identity(c) x = Flatten(d)"),
            Dtype::fp32);
}

TEST(OnnxGraph, QuantizedWeightsBehindATranspose) {
  const auto workload = read_graph(R"((int8[8,16] xq, int8[4,16] wq, float s) => (y)
      { x = DequantizeLinear(xq, s)  w = DequantizeLinear(wq, s)
        t = Transpose<perm=[1,0]>(w)  y = MatMul(x, t) })");
  ASSERT_FALSE(workload.ops.empty());
  EXPECT_EQ(workload.ops.front().dtypes.input, Dtype::int8);
}

// Between DequantizeLinear and QuantizeLinear all runs in integers, with the activation behind it;
// the first quantization and the last dequantization are passes of their own.
TEST(OnnxGraph, AQuantizedGraphRunsInIntegers) {
  auto model = model_of(R"((float[1,8,6,6] x) => (float[1,8,6,6] y) <float s = {0.5}, int8 z = {0}>
      { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
        w = DequantizeLinear(wq, s, z)
        c = Conv<pads=[1,1,1,1]>(d, w)  r = Relu(c)
        cq = QuantizeLinear(r, s, z)  cd = DequantizeLinear(cq, s, z)
        a = Add(cd, d)  aq = QuantizeLinear(a, s, z)  y = DequantizeLinear(aq, s, z) })");
  add_weight(model, "wq", {8, 8, 3, 3}, onnx::TensorProto::INT8);
  const auto workload = read_model(model).value();
  EXPECT_EQ(outline(workload),
            "elementwise fn=quantize_linear elements=288\n"
            "conv n=1 c=8 k=8 in=6x6 kernel=3x3 pad=1x1 layout=nhwc\n"
            "elementwise fn=add elements=288 inputs=2\n"
            "elementwise fn=dequantize_linear elements=288\n");
  EXPECT_EQ(workload.ops[1].dtypes, Dtypes(Dtype::int8, Dtype::int8, Dtype::int8));
  EXPECT_EQ(workload.ops[2].dtypes, Dtypes(Dtype::int8, Dtype::int8, Dtype::int8));
  EXPECT_EQ(workload.graph, GraphKind::runtime);
}

// A norm between a convolution and its activation is folded with it; what follows an activation
// runs by itself.
TEST(OnnxGraph, ANormBeforeTheActivationRunsInIntegers) {
  const auto operations = [](const std::string& behind) {
    auto model = model_of(R"((float[1,8,6,6] x, float[8] f, float[8] b, float[8] m, float[8] v)
        => (float[1,8,6,6] y) <float s = {0.5}, int8 z = {0}>
        { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
          w = DequantizeLinear(wq, s, z)  c = Conv<pads=[1,1,1,1]>(d, w)  )" +
                          behind + R"(  rq = QuantizeLinear(r, s, z)
          y = DequantizeLinear(rq, s, z) })");
    add_weight(model, "wq", {8, 8, 3, 3}, onnx::TensorProto::INT8);
    return outline(read_model(model).value());
  };
  const std::string before =
      "elementwise fn=quantize_linear elements=288\n"
      "conv n=1 c=8 k=8 in=6x6 kernel=3x3 pad=1x1 layout=nhwc\n";
  const std::string after = "elementwise fn=dequantize_linear elements=288\n";
  EXPECT_EQ(operations("n = BatchNormalization(c, f, b, m, v)  r = Relu(n)"), before + after);
  EXPECT_EQ(operations("a = Relu(c)  r = BatchNormalization(a, f, b, m, v)"),
            before + "norm fn=batch rows=36 cols=8\n" + after);
}

// Integers, where nothing but QuantizeLinear reads them, behind an activation and views; else
// floats.
TEST(OnnxGraph, WhatAConvolutionOfIntegersWrites) {
  struct Case {
    const char *behind, *outputs;
    Dtype written;
    std::size_t operations;  // behind the convolution
  };
  const char* const result = "int8[1,8,6,6] y";
  const Case cases[] = {
      {"y = QuantizeLinear(c, s, z)", result, Dtype::int8, 0},
      {"r = Relu(c) y = QuantizeLinear(r, s, z)", result, Dtype::int8, 0},
      {"r = Reshape(c, flat) y = QuantizeLinear(r, s, z)", "int8[8,36] y", Dtype::int8, 0},
      {"u = Reshape(c, flat) v = Flatten(u) r = Reshape(v, flat) y = QuantizeLinear(r, s, z)",
       "int8[8,36] y", Dtype::int8, 0},
      {"u = Reshape(c, flat) v = Flatten(u) t = Reshape(v, flat) r = Flatten(t)"
       " y = QuantizeLinear(r, s, z)",
       "int8[8,36] y", Dtype::fp32, 0},
      {"y = QuantizeLinear(c, s, z) t = QuantizeLinear(c, s, z)",
       "int8[1,8,6,6] y, int8[1,8,6,6] t", Dtype::int8, 0},
      {"y = QuantizeLinear(c, s, z) t = Tanh(c)", "int8[1,8,6,6] y, float[1,8,6,6] t", Dtype::fp32,
       1},
      {"t = Tanh(c) y = QuantizeLinear(c, s, z)", "int8[1,8,6,6] y, float[1,8,6,6] t", Dtype::fp32,
       1},
      {"r = Relu(c) t = Tanh(c) y = QuantizeLinear(r, s, z)", "int8[1,8,6,6] y, float[1,8,6,6] t",
       Dtype::fp32, 2},
      {"r = Softmax(c) y = QuantizeLinear(r, s, z)", result, Dtype::fp32, 1},
      {"y = Relu(c)", "float[1,8,6,6] y", Dtype::fp32, 0},
      {"r = Relu(c) y = QuantizeLinear(r, s, z)", "int8[1,8,6,6] y, float[1,8,6,6] c", Dtype::fp32,
       1},
      {"a = Add(c, d) r = Relu(a) y = QuantizeLinear(r, s, z)", result, Dtype::fp32, 2},
      {"a = Relu(c) r = Relu(a) y = QuantizeLinear(r, s, z)", result, Dtype::fp32, 1},
  };
  for (const Case& c : cases) {
    auto model = model_of(std::string("(float[1,8,6,6] x) => (") + c.outputs + R"()
        <float s = {0.5}, int8 z = {0}, int64[2] flat = {8,36}>
        { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
          w = DequantizeLinear(wq, s, z) c = Conv<pads=[1,1,1,1]>(d, w) )" +
                          c.behind + " }");
    add_weight(model, "wq", {8, 8, 3, 3}, onnx::TensorProto::INT8);
    const auto workload = read_model(model).value();
    ASSERT_EQ(workload.ops.size(), 2 + c.operations) << c.behind;
    EXPECT_EQ(workload.ops[1].dtypes, Dtypes(Dtype::int8, Dtype::int8, c.written)) << c.behind;
  }
}

// Clip with an upper bound alone leaves out its second input.
TEST(OnnxGraph, ALeftOutInputKeepsTheIntegersOfTheFirst) {
  const auto workload = read_graph(R"((float[2,8] x) => (float[2,8] y)
      <float s = {0.5}, int8 z = {0}, float six = {6}>
      { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  c = Clip(d, "", six)
        cq = QuantizeLinear(c, s, z)  y = DequantizeLinear(cq, s, z) })");
  ASSERT_EQ(workload.ops.size(), 3U);
  EXPECT_EQ(dims_text(workload.ops[1].body), "fn=clip elements=16");
  EXPECT_EQ(workload.ops[1].dtypes, Dtypes(Dtype::int8));
}

TEST(OnnxGraph, ANarrowWeightNeedsRowsOfItsLength) {
  for (const std::string x : {"float16[2,31] x", "float16 x", "float16[a,b,32] x"}) {
    const auto workload = read_graph("(" + x + R"(, uint8[64,1,16] w, float16[64] s) => (y)
      { y = com.microsoft.MatMulNBits<K=32, N=64, bits=4, block_size=32>(x, w, s) })");
    EXPECT_THAT(workload.ops, IsEmpty()) << x;
    EXPECT_EQ(workload.skipped.count("unknown shape: MatMulNBits"), 1U) << x;
  }
}

TEST(OnnxGraph, WeightOnlyQuantisationMultipliesInFloat) {
  auto model = model_of(R"((float16[4,8] x) => (y)
      { w = DequantizeLinear(wq, s)  y = MatMul(x, w) })");
  add_weight(model, "wq", {8, 16}, onnx::TensorProto::INT8);
  add_weight(model, "s", {}, onnx::TensorProto::FLOAT16);
  const auto workload = read_model(model).value();
  EXPECT_EQ(workload.ops.at(0).dtypes, Dtypes(Dtype::fp16, Dtype::int8, Dtype::fp16));
}

TEST(OnnxGraph, NamesAreUniqueAndModulesCome) {
  auto model = model_of("(float[8,3] x) => (float[8,3] z) { y = Relu(x) z = Relu(y) }");
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    node.set_name("/encoder/layers.0/act/Relu");
  }
  const auto workload = read_model(model).value();
  EXPECT_EQ(workload.ops[0].name, "/encoder/layers.0/act/Relu");
  EXPECT_EQ(workload.ops[1].name, "/encoder/layers.0/act/Relu#2");
  EXPECT_EQ(workload.ops[0].source.module, "encoder.layers.0.act");
  EXPECT_EQ(workload.ops[0].source.file, "m.onnx");
}

TEST(OnnxGraph, UnnamedOperatorsAreNamedByTheirResultsAndWeights) {
  auto model = model_of("(float[8,3] x) => (float[8,4] z) { y = MatMul(x, w) z = Relu(y) }");
  model.mutable_graph()->mutable_node(0)->set_input(1, "encoder.fc1.weight");
  add_weight(model, "encoder.fc1.weight", {3, 4});
  const auto workload = read_model(model).value();
  EXPECT_EQ(workload.ops.at(0).name, "y");
  EXPECT_EQ(workload.ops[0].source.module, "encoder.fc1");
  EXPECT_EQ(workload.ops.at(1).name, "z");
  EXPECT_EQ(workload.ops[1].source.module, "");
}

TEST(OnnxGraph, ThreeOfAName) {
  auto model = model_of("(float[8] x) => (float[8] z) { u = Relu(x) y = Relu(u) z = Relu(y) }");
  for (auto& node : *model.mutable_graph()->mutable_node()) node.set_name("act");
  const auto workload = read_model(model).value();
  EXPECT_EQ(workload.ops.at(1).name, "act#2");
  EXPECT_EQ(workload.ops.at(2).name, "act#3");
}

// A list that breaks off keeps the entries that are complete; without any, the name of the node
// holds the module.
TEST(OnnxGraph, ScopesInTheMetadataNameTheModule) {
  const auto module = [](const char* scopes) {
    auto model = model_of("(float[8,3] x) => (float[8,3] y) { y = Relu(x) }");
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
    node.set_name("/net/act/Relu");
    auto* entry = node.add_metadata_props();
    entry->set_key("pkg.torch.onnx.name_scopes");
    entry->set_value(scopes);
    return read_model(model).value().ops.at(0).source.module;
  };
  EXPECT_EQ(module("['', 'encoder', 'encoder.act', 'relu']"), "encoder.act");
  EXPECT_EQ(module("['', 'encoder', 'encoder.act', 'rel"), "encoder");
  EXPECT_EQ(module("['"), "net.act");
  EXPECT_EQ(module("[]"), "net.act");
}

TEST(OnnxGraph, AnUnsortedGraphIsSorted) {
  const auto workload = read_graph("(float[8,3] x) => (float[8,3] z) { z = Relu(y) y = Tanh(x) }");
  EXPECT_EQ(outline(workload),
            "elementwise fn=tanh elements=24\nelementwise fn=relu elements=24\n");
}

// --- dimensions

TEST(OnnxDimensions, AnUnknownOneIsNamedWithItsFlag) {
  const auto workload = read_graph(
      "(float[batch,heads,4] x, float[?,5,4] u, float[2,?,4] v) => (y)"
      " { y = Relu(x) z = Relu(u) }");
  EXPECT_EQ(outline(workload), "elementwise fn=relu elements=20\n");
  EXPECT_EQ(workload.skipped.at("unknown shape: Relu"), 1);
  EXPECT_THAT(workload.notes,
              ElementsAre("batch 1 assumed for dimension 'batch'; set it with --batch",
                          "input 'x': dimension 'heads' is unknown; pass --dim heads=N",
                          "axis 1 of input 'v' has no size; pass --shape v=2xNx4"));
}

// What the inputs are read at is the workload's batch and sequence; 512 is the longest input of
// BERT.
TEST(OnnxDimensions, ASequenceIsAssumed) {
  const auto workload = read_graph("(int64[?,?] ids) => (y) { y = Neg(ids) }");
  EXPECT_EQ(outline(workload), "elementwise fn=neg elements=512\n");
  EXPECT_EQ(workload.batch, 1);
  EXPECT_EQ(workload.sequence, 512);
  EXPECT_THAT(workload.notes,
              ElementsAre("batch 1 assumed for the first axis of input 'ids'; set it with --batch",
                          "sequence length 512 assumed for the second axis of input 'ids'; set it "
                          "with --seq"));
  const auto named = read_graph("(float[batch,seq_len,4] x) => (y) { y = Neg(x) }", 21, given(2));
  EXPECT_EQ(outline(named), "elementwise fn=neg elements=4096\n");
}

// A cache of 5 positions and one new token.
TEST(OnnxDimensions, ThePastIsGiven) {
  ReadOptions options = given(1, 1);
  options.past = 5;
  EXPECT_EQ(outline(read_graph("(float[batch,past_sequence_length,4] k, float[batch,seq_len,4] x)"
                               "=> (y) { c = Concat<axis=1>(k, x)  y = Relu(c) }",
                               21, options)),
            "other fn=concat bytes=192\nelementwise fn=relu elements=24\n");
}

TEST(OnnxDimensions, ARecurrentNetworksFirstAxisIsNotTheBatch) {
  const auto workload = read_graph(R"((float[?,2,8] x) => (y)
      <float[1,20,8] w, float[1,20,5] r> { y, h, c = LSTM<hidden_size = 5>(x, w, r) })");
  EXPECT_THAT(workload.ops, IsEmpty());
  EXPECT_FALSE(workload.batch);
}

TEST(OnnxDimensions, FlagsGiveSizes) {
  const ReadOptions options = given(2, 7, {{"heads", 3}});
  EXPECT_EQ(outline(read_graph("(float[batch,heads,sequence_length] x, float[?,4] u) => (y, z)"
                               "{ y = Relu(x) z = Tanh(u) }",
                               21, options)),
            "elementwise fn=relu elements=42\nelementwise fn=tanh elements=8\n");
}

TEST(OnnxDimensions, SumsOfSymbols) {
  auto model = model_of(
      "(float[batch,seq_len] q, float[batch,past_length,2] p, float[batch,both] m) => (y)"
      "{ y = Relu(m) }");
  model.mutable_graph()
      ->mutable_input(2)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("past_length + seq_len");
  EXPECT_EQ(outline(read_model(model, given(1, 7, {{"past_length", 5}})).value()),
            "elementwise fn=relu elements=12\n");
}

TEST(OnnxDimensions, AShapeIsGivenByInput) {
  const ReadOptions options = given({}, {}, {}, {{"x", {2, 3, 5}}});
  EXPECT_EQ(outline(read_graph("(float[a,b,c] x) => (y) { y = Relu(x) }", 21, options)),
            "elementwise fn=relu elements=30\n");
}

TEST(OnnxDimensions, AShapeMustFit) {
  const auto model = model_of("(float[a,b] x) => (y) { y = Relu(x) }");
  const auto unknown = read_model(model, given({}, {}, {}, {{"z", {2, 3}}}));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "the model has no input 'z'; its inputs are: x");
  const auto rank = read_model(model, given({}, {}, {}, {{"x", {2, 3, 4}}}));
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().message, "--shape gives input 'x' 3 dimensions, the model declares 2");
}

TEST(OnnxDimensions, AFixedBatchIsChangedWhereAllShapesFollow) {
  EXPECT_EQ(outline(read_graph("(float[4,3,8,8] x) => (float[4,3,8,8] y) { y = Relu(x) }", 21,
                               given(16))),
            "elementwise fn=relu elements=3072\n");
}

TEST(OnnxDimensions, ReshapesFollowTheBatch) {
  struct Case {
    std::string_view name, graph, outline;
  };
  const Case cases[] = {
      {"the batch itself",
       "(float[4,6] x) => (float[4,2,3] y) <int64[3] s = {4, 2, 3}> { r = Reshape(x, s) y = "
       "Relu(r) }",
       "elementwise fn=relu elements=96\n"},
      {"a factor of it",
       "(float[4,6] x) => (y) <int64[2] s = {8, 3}> { r = Reshape(x, s) y = Relu(r) }",
       "elementwise fn=relu elements=96\n"},
      {"beside a free size, which had taken it up",
       "(float[4,6] x) => (y) <int64[2] s = {4, -1}> { r = Reshape(x, s) y = Softmax(r) }",
       "softmax rows=16 cols=6\n"},
      {"batch 1",
       "(float[1,6] x) => (y) <int64[2] s = {1, 6}> { r = Reshape(x, s) y = Softmax(r) }",
       "softmax rows=16 cols=6\n"},
      {"an expanded class token",
       "(float[4,2,3] x) => (y) <int64[3] s = {4, 1, 3}, float[1,1,3] c = {1, 2, 3}>"
       " { t = Expand(c, s) j = Concat<axis = 1>(t, x) y = Relu(j) }",
       "other fn=concat bytes=960\nelementwise fn=relu elements=144\n"},
  };
  for (const Case& c : cases) {
    const auto workload = read_graph(std::string(c.graph), 21, given(16));
    EXPECT_EQ(outline(workload), c.outline) << c.name;
    EXPECT_THAT(workload.notes, testing::IsEmpty()) << c.name;
  }
}

TEST(OnnxDimensions, AFixedBatchStaysWhereAShapeDoesNotFollow) {
  const auto workload = read_graph(R"((float[4,6] x) => (float[4,6] y)
      <float[4,6] table> { a = Add(x, table)  y = Relu(a) })",
                                   21, given(16));
  EXPECT_THAT(workload.notes, testing::ElementsAre(HasSubstr("fixes the batch at 4")));
}

TEST(OnnxDimensions, TheSequenceLeadsInRecurrentNetworks) {
  const auto workload = read_graph(R"((float[35,20,8] x) => (y)
      <float[1,20,8] w, float[1,20,5] r> { y, h, c = LSTM<hidden_size = 5>(x, w, r) })",
                                   21, given(16));
  EXPECT_THAT(workload.notes, testing::ElementsAre(HasSubstr("--batch 16 has no effect")));
}

// --- control flow and functions

TEST(OnnxControlFlow, ALoopMultipliesItsBody) {
  const auto workload = read_graph(R"((float[8,3] x, float[3,3] w) => (y)
      <int64 trips = {12}, bool go = {1}>
      { y = Loop(trips, go, x) <body = b (int64 i, bool c, float[8,3] s) => (bool d, float[8,3] t)
          { d = Identity(c)  t = MatMul(s, w) }> })");
  EXPECT_EQ(outline(workload), "gemm m=8 n=3 k=3 layout=nn weight=activation count=12\n");
}

TEST(OnnxControlFlow, AnUnknownTripCountIsNoted) {
  const auto workload = read_graph(R"((float[8,3] x, int64 trips, bool go) => (y)
      { y = Loop(trips, go, x) <body = b (int64 i, bool c, float[8,3] s) => (bool d, float[8,3] t)
          { d = Identity(c)  t = Relu(s) }> })");
  EXPECT_EQ(workload.ops.at(0).count, 1);
  EXPECT_THAT(workload.notes,
              ElementsAre("Loop 'y': how often it runs is not known; its body is counted once"));
}

TEST(OnnxControlFlow, AScanRunsOverItsSequence) {
  const auto workload = read_graph(R"((float[3] s, float[7,3] xs) => (f, ys)
      { f, ys = Scan<num_scan_inputs=1, body = b (float[3] a, float[3] x) => (float[3] o, float[3] z)
          { o = Add(a, x)  z = Identity(o) }>(s, xs) })");
  EXPECT_EQ(outline(workload), "elementwise fn=add elements=3 inputs=2 count=7\n");
}

TEST(OnnxControlFlow, TheLargerBranchCounts) {
  const auto workload = read_graph(R"((bool c, float[8,3] x, float[3,3] w) => (y)
      { y = If(c) <then_branch = t () => (float[8,3] a) { a = Relu(x) },
                   else_branch = e () => (float[8,3] b) { b = MatMul(x, w) }> })");
  EXPECT_EQ(outline(workload), "gemm m=8 n=3 k=3 layout=nn weight=activation\n");
  EXPECT_THAT(workload.notes.at(0), HasSubstr("the larger branch is counted"));
}

TEST(OnnxFunctions, CallsShareNoValues) {
  const auto model = parse_model(R"(
      <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
      g (float[2] x) => (float[2] y) { a = local.f(x)  y = local.f(a) }
      <opset_import: ["" : 21], domain: "local"> f (v) => (r) { t = Relu(v)  r = Tanh(t) })");
  const auto workload = read_model(model).value();
  ASSERT_EQ(workload.ops.size(), 4U);
  std::set<std::string> names;
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(workload.ops[i].outputs.size(), 1U);
    names.insert(workload.ops[i].outputs.front());
    if (i > 0) EXPECT_EQ(workload.ops[i].inputs, workload.ops[i - 1].outputs);
  }
  EXPECT_EQ(names.size(), 4U);
}

TEST(OnnxFunctions, AreOpenedWithTheirAttributes) {
  const auto model = parse_model(R"(
      <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
      g (float[2,3,4] x) => (float[2,3,4] y) { a = local.Twice<to=[0, 2, 1]>(x)  y = Relu(a) }
      <opset_import: ["" : 21], domain: "local">
      Twice <to> (v) => (r) { t = Transpose<perm: ints = @to>(v)  s = Sigmoid(t)
                              r = Transpose<perm: ints = @to>(s) })");
  EXPECT_EQ(outline(read_model(model).value()),
            "layout elements=24 perm=0x2x1\nelementwise fn=sigmoid elements=24\n"
            "layout elements=24 perm=0x2x1\nelementwise fn=relu elements=24\n");
}

}  // namespace
}  // namespace rooftile
