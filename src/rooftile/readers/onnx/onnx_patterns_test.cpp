// Functions that exporters and models write out in smaller operators: forms that are one of them,
// and what looks alike and is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

std::string graph(const std::string& inputs, const std::string& outputs,
                  const std::string& constants, const std::string& body) {
  return "(" + inputs + ") => (" + outputs + ") <" + constants + "> { " + body + " }";
}

std::string norm(const std::string& body, const std::string& inputs = "float[2,5,16] x",
                 const std::string& outputs = "float[2,5,16] y") {
  return graph(inputs, outputs,
               "float two = {2}, float three = {3}, float one = {1}, float eps = {1e-5}, "
               "float[16] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, "
               "float[16] b = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}",
               body);
}

// 1.4169 and 1.4174 are about as far from a root of two as its rounding to 16 bits may be.
std::string activation(const std::string& body, const std::string& inputs = "float[4,8] x",
                       const std::string& outputs = "float[4,8] y") {
  return graph(inputs, outputs,
               "float r = {1.4142135}, float ir = {0.70710678}, float c = {0.044715}, "
               "float b = {0.7978845}, float q = {1.702}, float one = {1}, float half = {0.5}, "
               "float two = {2}, float three = {3}, float near = {1.4169}, float off = {1.4174}",
               body);
}

std::string attention(
    const std::string& body,
    const std::string& inputs = "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v",
    const std::string& outputs = "float[2,4,8,16] y") {
  return graph(inputs, outputs,
               "float s = {0.5}, float t = {2}, float same = {0.5004}, float off = {0.5007}, "
               "float zero = {0}, float inf = {-1e30}",
               body);
}

constexpr const char* kLstm =
    "(float[4,32] a, float[4,32] b, float[4,8] c) => (float[4,8] h, float[4,8] n) { s = "
    "Add(a, b) i, f, g, o = Split<axis=1>(s) is = Sigmoid(i) fs = Sigmoid(f) gt = Tanh(g) os "
    "= Sigmoid(o) k = Mul(fs, c) w = Mul(is, gt) n = Add(k, w) t = Tanh(n) h = Mul(os, t) }";
constexpr const char* kGru =
    "(float[4,24] a, float[4,24] b, float[4,8] h) => (float[4,8] y) { ir, iz, in = "
    "Split<axis=1>(a) hr, hz, hn = Split<axis=1>(b) ra = Add(hr, ir) r = Sigmoid(ra) za = "
    "Add(hz, iz) z = Sigmoid(za) m = Mul(hn, r) na = Add(in, m) n = Tanh(na) d = Sub(h, n) k "
    "= Mul(d, z) y = Add(k, n) }";
constexpr const char* kRotary =
    "(float[2,4,8,16] x) => (float[2,4,8,16] y) <int64[1] zero = {0}, int64[1] half = {8}, "
    "int64[1] end = {16}, int64[1] axis = {3}, float[1] c = {0.5}, float[1] s = {0.25}> { a "
    "= Slice(x, zero, half, axis) b = Slice(x, half, end, axis) n = Neg(b) r = "
    "Concat<axis=-1>(n, a) u = Mul(x, c) v = Mul(r, s) y = Add(u, v) }";

// Each first text is replaced by the second.
std::string changed(std::string text,
                    const std::vector<std::pair<std::string, std::string>>& changes) {
  for (const auto& [before, after] : changes) {
    const std::size_t at = text.find(before);
    if (at == std::string::npos) throw std::runtime_error("nowhere: " + before);
    text.replace(at, before.size(), after);
  }
  return text;
}

struct PatternCase {
  std::string name, graph;
  std::string outline;     // of what is found; empty where nothing is, and
  std::size_t pieces = 0;  // so many operations stay apart

  friend void PrintTo(const PatternCase& c, std::ostream* out) { *out << c.name; }
};

class OnnxPattern : public testing::TestWithParam<PatternCase> {};

bool is_function(const Op& op) {
  constexpr std::array<std::string_view, 8> kFunctions{
      "gelu", "silu", "quick_gelu", "mish", "hardswish", "lstm_cell", "gru_cell", "rotary"};
  const auto* elementwise = std::get_if<Elementwise>(&op.body);
  return std::holds_alternative<Attention>(op.body) ||
         std::holds_alternative<Normalization>(op.body) ||
         (elementwise != nullptr && is_one_of(elementwise->fn, kFunctions));
}

TEST_P(OnnxPattern, IsFoundOrStaysApart) {
  const PatternCase& param = GetParam();
  const Workload workload = read_export(param.graph);
  if (!param.outline.empty()) {
    EXPECT_EQ(outline(workload), param.outline);
  } else {
    EXPECT_EQ(workload.ops.size(), param.pieces) << outline(workload);
    EXPECT_TRUE(std::ranges::none_of(workload.ops, is_function)) << outline(workload);
  }
}

const PatternCase kPatterns[] = {
    {"norm_product",
     norm("p = Mul(x, x) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) i = "
          "Reciprocal(r) n = Mul(x, i) y = Mul(w, n)"),
     "norm fn=rms rows=10 cols=16\n", 0},
    {"norm_divided",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Mul(n, w)"),
     "norm fn=rms rows=10 cols=16\n", 0},
    {"norm_one_over",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) i "
          "= Div(one, r) n = Mul(x, i) y = Mul(n, w)"),
     "norm fn=rms rows=10 cols=16\n", 0},
    {"norm_no_affine",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Relu(n)"),
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=relu elements=160\n",
     0},
    {"norm_bias_only",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Add(n, b)"),
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=add elements=160\n",
     0},
    {"norm_affine",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) m = Mul(n, w) y = Add(m, b)"),
     "norm fn=rms rows=10 cols=16\n", 0},
    {"norm_eps_first",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(eps, v) r = Sqrt(e) n "
          "= Div(x, r) y = Mul(n, w)"),
     "norm fn=rms rows=10 cols=16\n", 0},
    {"norm_cast_read",
     norm("c = Cast<to=1>(x) p = Pow(c, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, "
          "eps) r = Sqrt(e) i = Reciprocal(r) n = Mul(c, i) y = Mul(n, w) z = Relu(c)",
          "float16[2,5,16] x", "float[2,5,16] y, float[2,5,16] z"),
     "cast elements=160\n"
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=relu elements=160\n",
     0},
    {"norm_layer_product",
     norm("m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) p = Mul(d, d) v = "
          "ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n = Div(d, r) s = "
          "Mul(n, w) y = Add(s, b)"),
     "norm fn=layer rows=10 cols=16\n", 0},
    {"norm_layer_other_mean",
     norm("m = ReduceMean<axes=[-1]>(z) d = Sub(x, m) p = Mul(d, d) v = "
          "ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n = Div(d, r) y = "
          "Mul(n, w)",
          "float[2,5,16] x, float[2,5,16] z"),
     "reduce fn=mean elements=160 outputs=10\n"
     "elementwise fn=sub elements=160\n"
     "norm fn=rms rows=10 cols=16\n",
     0},
    {"norm_power3",
     norm("p = Pow(x, three) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) "
          "n = Div(x, r) y = Mul(n, w)"),
     "", 6},
    {"norm_product_of_two",
     norm("p = Mul(x, z) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n = "
          "Div(x, r) y = Mul(n, w)",
          "float[2,5,16] x, float[2,5,16] z"),
     "", 6},
    {"norm_eps_tensor",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, z) r = Sqrt(e) n = "
          "Div(x, r) y = Mul(n, w)",
          "float[2,5,16] x, float[2,5,1] z"),
     "", 6},
    {"norm_no_eps",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) r = Sqrt(v) n = Div(x, r) y = "
          "Mul(n, w)"),
     "", 5},
    {"norm_exp",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Exp(e) n = "
          "Div(x, r) y = Mul(n, w)"),
     "", 6},
    {"norm_wrong_way",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(r, x) y = Mul(n, w)"),
     "", 6},
    {"norm_two_over",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) i "
          "= Div(two, r) n = Mul(x, i) y = Mul(n, w)"),
     "", 7},
    {"norm_scales_other",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(z, r) y = Mul(n, w)",
          "float[2,5,16] x, float[2,5,16] z"),
     "", 6},
    {"norm_mul_root",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Mul(x, r) y = Mul(n, w)"),
     "", 6},
    {"norm_inverse_divides",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) i "
          "= Reciprocal(r) n = Div(x, i) y = Mul(n, w)"),
     "", 7},
    {"norm_mean_is_output",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Mul(n, w)",
          "float[2,5,16] x", "float[2,5,16] y, float[2,5,1] r"),
     "", 6},
    {"norm_weight_activation",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Mul(n, z)",
          "float[2,5,16] x, float[16] z"),
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=mul elements=160\n",
     0},
    {"norm_weight_scalar",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) y = Mul(n, two)"),
     "norm fn=rms rows=10 cols=16\n"
     "elementwise fn=mul elements=160\n",
     0},
    {"norm_cast_then_relu",
     norm("p = Pow(x, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) n "
          "= Div(x, r) h = Cast<to=10>(n) y = Relu(h)",
          "float[2,5,16] x", "float16[2,5,16] y"),
     "norm fn=rms rows=10 cols=16\n"
     "cast elements=160\n"
     "elementwise fn=relu elements=160\n",
     0},
    {"activation_erf_times",
     activation("d = Mul(x, ir) e = Erf(d) p = Add(one, e) m = Mul(p, x) y = Mul(half, m)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_erf_half_on_sum",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(p, half) y = Mul(m, x)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_erf_half_first",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) h = Mul(half, x) y = Mul(h, p)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_erf_near",
     activation("d = Div(x, near) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_erf_off",
     activation("d = Div(x, off) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"), "",
     5},
    {"activation_erf_two",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, two) m = Mul(x, p) y = Mul(m, half)"), "", 5},
    {"activation_erf_not_half",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, two)"), "", 5},
    {"activation_erf_other",
     activation("d = Div(z, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)",
                "float[4,8] x, float[4,8] z"),
     "", 5},
    {"activation_erf_sub",
     activation("d = Sub(x, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"), "", 5},
    {"activation_erf_no_mul",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Sub(x, p) y = Mul(m, half)"), "", 5},
    {"activation_erf_sum_out",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)",
                "float[4,8] x", "float[4,8] y, float[4,8] p"),
     "", 5},
    {"activation_erf_half_half",
     activation("d = Div(x, r) e = Erf(d) p = Add(e, one) h = Mul(x, half) y = Mul(h, p) z = "
                "Relu(h)",
                "float[4,8] x", "float[4,8] y, float[4,8] z"),
     "", 6},
    {"activation_tanh_pow",
     activation("p3 = Pow(x, three) a = Mul(p3, c) i = Add(x, a) z = Mul(i, b) t = Tanh(z) p "
                "= Add(t, one) m = Mul(x, p) y = Mul(m, half)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_tanh_cast",
     activation("s = Mul(x, x) k = Mul(x, s) h = Cast<to=1>(k) a = Mul(c, h) i = Add(x, a) z "
                "= Mul(b, i) t = Tanh(z) p = Add(one, t) m = Mul(x, p) y = Mul(half, m)"),
     "elementwise fn=gelu elements=32\n", 0},
    {"activation_tanh_plain",
     activation("z = Mul(x, b) t = Tanh(z) p = Add(t, one) m = Mul(x, p) y = Mul(m, half)"), "", 5},
    {"activation_tanh_deep",
     activation("f = Mul(x, two) g = Mul(f, two) s = Mul(g, x) k = Mul(s, two) l = Mul(k, "
                "two) a = Mul(c, l) i = Add(x, a) z = Mul(b, i) t = Tanh(z) p = Add(one, t) "
                "m = Mul(x, p) y = Mul(half, m)"),
     "", 12},
    {"activation_silu_reversed", activation("s = Sigmoid(x) y = Mul(s, x)"),
     "elementwise fn=silu elements=32\n", 0},
    {"activation_quick", activation("z = Mul(q, x) s = Sigmoid(z) y = Mul(s, x)"),
     "elementwise fn=quick_gelu elements=32\n", 0},
    {"activation_quick_other", activation("z = Mul(two, x) s = Sigmoid(z) y = Mul(s, x)"), "", 3},
    {"activation_hardsigmoid_scaled", activation("z = Mul(q, x) s = HardSigmoid(z) y = Mul(s, x)"),
     "", 3},
    {"activation_mish_other",
     activation("s = Softplus(z) t = Tanh(s) y = Mul(x, t)", "float[4,8] x, float[4,8] z"), "", 3},
    {"activation_tanh_gate", activation("t = Tanh(z) y = Mul(x, t)", "float[4,8] x, float[4,8] z"),
     "", 2},
    {"activation_silu_add", activation("s = Sigmoid(x) y = Add(x, s)"), "", 2},
    {"activation_silu_broadcast", activation("s = Sigmoid(x) y = Mul(s, x)"),
     "elementwise fn=silu elements=32\n", 0},
    {"attention_plain",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_scale_first",
     attention("qs = Mul(s, q) ks = Mul(s, k) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_same",
     attention("qs = Mul(q, same) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_off",
     attention("qs = Mul(q, off) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)"),
     "", 5},
    {"attention_casts",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) c = "
               "Cast<to=1>(scores) i = Identity(c) weights = Softmax<axis=-1>(i) h = "
               "Cast<to=1>(weights) d = Dropout(h) y = MatMul(d, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_cast_read",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) c = Identity(scores) "
               "weights = Softmax<axis=-1>(c) y = MatMul(weights, v) z = Relu(c)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v",
               "float[2,4,8,16] y, float[2,4,8,8] z"),
     "", 6},
    {"attention_mask_left",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) m = Add(mask, scores) "
               "weights = Softmax<axis=-1>(m) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, float[2,1,8,8] mask"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_mask_right",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) m = Add(scores, mask) "
               "weights = Softmax<axis=-1>(m) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, float[2,1,8,8] mask"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_mask_where",
     attention("qs = Mul(q, s) ks = Mul(k, s) n = Where(mask, zero, inf) scores = "
               "MatMul(qs, ks) m = Add(scores, n) weights = Softmax<axis=-1>(m) y = "
               "MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, bool[2,1,8,8] mask"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_mask_where_tensor",
     attention("qs = Mul(q, s) ks = Mul(k, s) n = Where(mask, z, inf) scores = MatMul(qs, "
               "ks) m = Add(scores, n) weights = Softmax<axis=-1>(m) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, bool[2,1,8,8] mask, "
               "float[2,1,8,8] z"),
     "elementwise fn=where elements=128 inputs=2\n"
     "attention batch=2 heads=4 q=8 d=16\n",
     0},
    {"attention_mask_where_shared",
     attention("qs = Mul(q, s) ks = Mul(k, s) n = Where(mask, zero, inf) scores = "
               "MatMul(qs, ks) m = Add(scores, n) weights = Softmax<axis=-1>(m) y = "
               "MatMul(weights, v) z = Relu(n)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, bool[2,1,8,8] mask",
               "float[2,4,8,16] y, float[2,1,8,8] z"),
     "elementwise fn=where elements=128\n"
     "attention batch=2 heads=4 q=8 d=16\n"
     "elementwise fn=relu elements=128\n",
     0},
    {"attention_mask_equal",
     attention("qs = Mul(q, s) ks = Mul(k, s) e = Equal(mask, zero) n = Where(e, inf, zero) "
               "scores = MatMul(qs, ks) m = Add(scores, n) weights = Softmax<axis=-1>(m) y "
               "= MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, float[2,1,8,8] mask"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_broadcast_keys",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[1,4,16,8] k, float[2,4,8,16] v"),
     "", 5},
    {"attention_broadcast_values",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,1,8,16] v"),
     "", 5},
    {"attention_three_axes",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[6,8,16] q, float[6,16,9] k, float[6,9,12] v", "float[6,8,12] y"),
     "attention batch=1 heads=6 q=8 kv=9 d=16 dv=12\n", 0},
    {"attention_two_axes",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[8,16] q, float[16,8] k, float[8,16] v", "float[8,16] y"),
     "", 5},
    {"attention_five_axes",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[1,2,4,8,16] q, float[1,2,4,16,8] k, float[1,2,4,8,16] v",
               "float[1,2,4,8,16] y"),
     "", 5},
    {"attention_weights_on_the_right",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(v, weights)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,16,8] v", "float[2,4,16,8] y"),
     "", 5},
    {"attention_weights_out",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v",
               "float[2,4,8,16] y, float[2,4,8,8] weights"),
     "", 5},
    {"attention_scores_out",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v",
               "float[2,4,8,16] y, float[2,4,8,8] scores"),
     "", 5},
    {"attention_result_turned",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) o = MatMul(weights, v) y = "
               "Transpose<perm=[0,2,1,3]>(o)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v", "float[2,8,4,16] y"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_empty_rows",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) n = IsNaN(weights) f = Where(n, zero, weights) y = "
               "MatMul(f, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_empty_rows_swapped",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = "
               "Softmax<axis=-1>(scores) n = IsNaN(weights) f = Where(n, weights, zero) y = "
               "MatMul(f, v)"),
     "", 7},
    {"attention_keys_turned",
     attention("kt = Transpose<perm=[0,1,3,2]>(k) qs = Mul(q, s) ks = Mul(kt, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,8,16] k, float[2,4,8,16] v"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_keys_turned_before_scale",
     attention("ks0 = Mul(k, s) ks = Transpose<perm=[0,1,3,2]>(ks0) qs = Mul(q, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,4,8,16] k, float[2,4,8,16] v"),
     "", 5},
    {"attention_only_add",
     attention("qs = Mul(q, s) ks = Mul(k, s) scores = Add(qs, q) weights = "
               "Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,8] q, float[2,4,16,8] k, float[2,4,8,16] v"),
     "", 5},
    // Its shape stays: a copy that eager mode does not make.
    {"attention_result_reshaped",
     graph(
         "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v", "float[2,8,4,16] y",
         "float s = {0.5}, int64[4] same = {2,4,8,16}",
         "qs = Mul(q, s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) "
         "o = MatMul(weights, v) r = Reshape(o, same) y = Transpose<perm=[0,2,1,3]>(r)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    // What splits off the heads is a view, once for each operand.
    {"attention_two_splits",
     attention("t0 = Transpose<perm=[1,0,2,3]>(q) qh = Transpose<perm=[0,2,1,3]>(t0) qs = Mul(qh, "
               "s) ks = Mul(k, s) scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = "
               "MatMul(weights, v)",
               "float[8,2,4,16] q, float[2,4,16,8] k, float[2,4,8,16] v"),
     "layout elements=1024 perm=1x0x2x3\n"
     "attention batch=2 heads=4 q=8 d=16\n",
     0},
    {"attention_one_split",
     attention("qh = Transpose<perm=[0,2,1,3]>(q) qs = Mul(qh, s) ks = Mul(k, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,8,4,16] q, float[2,4,16,8] k, float[2,4,8,16] v"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_other_order",
     attention("qh = Transpose<perm=[0,3,1,2]>(q) qs = Mul(qh, s) ks = Mul(k, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,8,16,4] q, float[2,4,16,8] k, float[2,4,8,16] v"),
     "layout elements=1024 perm=0x3x1x2\n"
     "attention batch=2 heads=4 q=8 d=16\n",
     0},
    {"attention_turned_query",
     attention("qt = Transpose<perm=[0,1,3,2]>(q) qs = Mul(qt, s) ks = Mul(k, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,16,8] q, float[2,4,16,8] k, float[2,4,8,16] v"),
     "layout elements=1024 perm=0x1x3x2\n"
     "attention batch=2 heads=4 q=8 d=16\n",
     0},
    {"attention_turned_twice",
     attention("k1 = Transpose<perm=[0,1,3,2]>(k) k2 = Transpose<perm=[0,1,3,2]>(k1) ks = Mul(k2, "
               "s) qs = Mul(q, s) scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = "
               "MatMul(weights, v)"),
     "layout elements=1024 perm=0x1x3x2\n"
     "attention batch=2 heads=4 q=8 d=16\n",
     0},
    {"attention_split_read_twice",
     attention(
         "qh = Transpose<perm=[0,2,1,3]>(q) qs = Mul(qh, s) ks = Mul(k, s) scores = MatMul(qs, ks) "
         "weights = Softmax<axis=-1>(scores) y = MatMul(weights, v) z = LayerNormalization(qh, g)",
         "float[2,8,4,16] q, float[2,4,16,8] k, float[2,4,8,16] v, float[16] g",
         "float[2,4,8,16] y, float[2,4,8,16] z"),
     "layout elements=1024 perm=0x2x1x3\n"
     "attention batch=2 heads=4 q=8 d=16\n"
     "norm fn=layer rows=64 cols=16\n",
     0},
    {"attention_values_split",
     attention("vh = Transpose<perm=[0,2,1,3]>(v) qs = Mul(q, s) ks = Mul(k, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, vh)",
               "float[2,4,8,16] q, float[2,4,16,8] k, float[2,8,4,16] v"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_keys_split_and_turned",
     attention("kh = Transpose<perm=[0,2,1,3]>(k) kt = Transpose<perm=[0,1,3,2]>(kh) ks = Mul(kt, "
               "s) qs = Mul(q, s) scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = "
               "MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,8,4,16] k, float[2,4,8,16] v"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_keys_together",
     attention("kt = Transpose<perm=[0,2,3,1]>(k) ks = Mul(kt, s) qs = Mul(q, s) scores = "
               "MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
               "float[2,4,8,16] q, float[2,8,4,16] k, float[2,4,8,16] v"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_unfolded",
     graph("float[8,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v", "float[2,4,8,16] y",
           "float s = {0.5}, int64[4] heads = {2,4,8,16}",
           "qt = Transpose<perm=[1,0,2]>(q) q4 = Reshape(qt, heads) qs = Mul(q4, s) ks = Mul(k, s) "
           "scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)"),
     "attention batch=2 heads=4 q=8 d=16\n", 0},
    {"attention_unfolded_read_twice",
     graph("float[8,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, float[16] g",
           "float[2,4,8,16] y, float[8,8,16] z", "float s = {0.5}, int64[4] heads = {2,4,8,16}",
           "qt = Transpose<perm=[1,0,2]>(q) q4 = Reshape(qt, heads) qs = Mul(q4, s) ks = Mul(k, s) "
           "scores = MatMul(qs, ks) weights = Softmax<axis=-1>(scores) y = MatMul(weights, v) z = "
           "LayerNormalization(qt, g)"),
     "layout elements=1024 perm=1x0x2\n"
     "attention batch=2 heads=4 q=8 d=16\n"
     "norm fn=layer rows=64 cols=16\n",
     0},
    {"lstm_order",
     changed(kLstm, {{"k = Mul(fs, c)", "k = Mul(c, fs)"},
                     {"h = Mul(os, t)", "h = Mul(t, os)"},
                     {"n = Add(k, w)", "n = Add(w, k)"}}),
     "elementwise fn=lstm_cell elements=128 inputs=2\n", 0},
    {"lstm_wrong_order",
     changed(kLstm, {{"gt = Tanh(g) os = Sigmoid(o)", "gt = Sigmoid(g) os = Tanh(o)"}}), "", 10},
    {"lstm_relu", changed(kLstm, {{"t = Tanh(n)", "t = Relu(n)"}}), "", 10},
    {"lstm_no_sum", changed(kLstm, {{"s = Add(a, b)", "s = Mul(a, b)"}}), "", 10},
    {"lstm_forget_tanh", changed(kLstm, {{"fs = Sigmoid(f)", "fs = Tanh(f)"}}), "", 10},
    {"lstm_input_tanh", changed(kLstm, {{"is = Sigmoid(i)", "is = Tanh(i)"}}), "", 10},
    {"lstm_other_output", changed(kLstm, {{"h = Mul(os, t)", "h = Mul(is, t)"}}), "", 10},
    {"lstm_gate_read", changed(kLstm, {{"float[4,8] n)", "float[4,8] n, float[4,8] os)"}}), "", 10},
    {"gru_swapped",
     changed(kGru, {{"m = Mul(hn, r) na = Add(in, m)", "m = Mul(in, r) na = Add(hn, m)"}}),
     "elementwise fn=gru_cell elements=96 inputs=2\n", 0},
    {"gru_gate_read", changed(kGru, {{"=> (float[4,8] y)", "=> (float[4,8] y, float[4,8] r)"}}), "",
     10},
    {"gru_part_read", changed(kGru, {{"=> (float[4,8] y)", "=> (float[4,8] y, float[4,8] hn)"}}),
     "", 10},
    {"gru_keeps_state", changed(kGru, {{"y = Add(k, n)", "y = Add(k, h)"}}), "", 10},
    {"gru_other_gate", changed(kGru, {{"k = Mul(d, z)", "k = Mul(d, r)"}}), "", 10},
    {"gru_mixed_parts",
     changed(kGru,
             {{"ra = Add(hr, ir)", "ra = Add(hz, ir)"}, {"za = Add(hz, iz)", "za = Add(hr, iz)"}}),
     "", 10},
    {"gru_tanh_gate", changed(kGru, {{"r = Sigmoid(ra)", "r = Tanh(ra)"}}), "", 10},
    {"gru_scaled_state", changed(kGru, {{"m = Mul(hn, r)", "m = Mul(h, r)"}}), "", 10},
    {"gru_one_split", changed(kGru, {{"ra = Add(hr, ir)", "ra = Add(ir, ir)"}}), "", 10},
    {"rotary_not_negated", changed(kRotary, {{"n = Neg(b)", "n = Relu(b)"}}), "", 5},
    {"rotary_of_two",
     changed(kRotary, {{"a = Slice(x, zero, half, axis)", "a = Slice(w, zero, half, axis)"},
                       {"(float[2,4,8,16] x)", "(float[2,4,8,16] x, float[2,4,8,16] w)"}}),
     "", 5},
    {"rotary_other_cosine",
     changed(kRotary, {{"u = Mul(x, c)", "u = Mul(w, c)"},
                       {"(float[2,4,8,16] x)", "(float[2,4,8,16] x, float[2,4,8,16] w)"}}),
     "", 5},
    {"rotary_difference", changed(kRotary, {{"y = Add(u, v)", "y = Sub(u, v)"}}), "", 5},
    {"rotary_divided", changed(kRotary, {{"v = Mul(r, s)", "v = Div(r, s)"}}), "", 5},
    {"rotary_divided_cosine", changed(kRotary, {{"u = Mul(x, c)", "u = Div(x, c)"}}), "", 5},
    {"rotary_in_another_order",
     changed(kRotary, {{"u = Mul(x, c)", "u = Mul(c, x)"}, {"y = Add(u, v)", "y = Add(v, u)"}}),
     "elementwise fn=rotary elements=1024\n", 0},
    {"rotary_half_read",
     changed(kRotary, {{"=> (float[2,4,8,16] y)", "=> (float[2,4,8,16] y, float[2,4,8,8] a)"}}), "",
     5},
};

INSTANTIATE_TEST_SUITE_P(All, OnnxPattern, testing::ValuesIn(kPatterns),
                         [](const auto& test) { return test.param.name; });

// Which ones the exporter writes out, and which ones the model's own code does.
TEST(OnnxPatterns, AreTheExportersOrTheModels) {
  const auto is_model = [](const std::string& text) {
    const Workload workload = read_export(text);
    return std::ranges::any_of(workload.notes, [](const std::string& note) {
      return note.find("the model's code writes") != std::string::npos;
    });
  };
  EXPECT_FALSE(is_model(
      activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)")));
  EXPECT_TRUE(is_model(
      activation("d = Div(x, r) e = Erf(d) p = Add(e, one) m = Mul(p, half) y = Mul(m, x)")));
  EXPECT_TRUE(is_model(
      activation("d = Div(x, r) e = Erf(d) p = Add(e, one) h = Mul(half, x) y = Mul(h, p)")));
  EXPECT_TRUE(is_model(activation("z = Mul(q, x) s = Sigmoid(z) y = Mul(s, x)")));
  EXPECT_FALSE(is_model(activation("s = Sigmoid(x) y = Mul(s, x)")));
  EXPECT_TRUE(is_model(kRotary));
  EXPECT_FALSE(is_model(kGru));
}

// Operands as they were before what belongs to the call, and the mask before it became numbers.
TEST(OnnxPatterns, AttentionReadsItsOperands) {
  const auto reads = [](const std::string& mask, const std::string& type) {
    return read_export(attention("qs = Mul(q, s) ks = Mul(k, s) " + mask +
                                     " scores = MatMul(qs, ks) m = Add(scores, n) "
                                     "weights = Softmax<axis=-1>(m) y = MatMul(weights, v)",
                                 "float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v, " +
                                     type + "[2,1,8,8] mask"))
        .ops.at(0)
        .inputs;
  };
  const auto expected = testing::ElementsAre("q", "k", "v", "mask");
  EXPECT_THAT(reads("n = Where(mask, zero, inf)", "bool"), expected);
  EXPECT_THAT(reads("e = Equal(mask, zero) n = Where(e, inf, zero)", "float"), expected);
  EXPECT_THAT(reads("l = Trilu<upper=0>(mask) e = Equal(l, zero) n = Where(e, inf, zero)", "float"),
              expected);
}

// A Transpose of the call's own is beside the one that splits off the heads.
TEST(OnnxPatterns, TransposesOfTheCallAreNoSplit) {
  const auto operations = [](const char* name) {
    onnx::ModelProto model =
        model_of(attention("qt = Transpose<perm=[1,0,2,3]>(q) qh = Transpose<perm=[0,2,1,3]>(qt) "
                           "qs = Mul(qh, s) ks = Mul(k, s) scores = MatMul(qs, ks) "
                           "weights = Softmax<axis=-1>(scores) y = MatMul(weights, v)",
                           "float[8,2,4,16] q, float[2,4,16,8] k, float[2,4,8,16] v"),
                 17);
    model.set_producer_name("pytorch");
    model.mutable_graph()->mutable_node(1)->set_name(name);
    return outline(read_model(model).value());
  };
  const std::string call = "attention batch=2 heads=4 q=8 d=16\n";
  EXPECT_EQ(operations("/scaled_dot_product_attention/Transpose"), call);
  EXPECT_EQ(operations("/Transpose"), "layout elements=1024 perm=1x0x2x3\n" + call);
}

TEST(OnnxPatterns, AreNamedInANote) {
  using testing::Contains;
  using testing::HasSubstr;
  EXPECT_THAT(read_export(kLstm).notes, Contains(HasSubstr("1 lstm_cell: ")));
  EXPECT_THAT(read_export(kGru).notes, Contains(HasSubstr("1 gru_cell: ")));
  EXPECT_THAT(read_export(kRotary).notes, Contains(HasSubstr("1 rotary: ")));
}

}  // namespace
}  // namespace rooftile
