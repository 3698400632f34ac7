#include <gtest/gtest.h>

#include "rooftile/aten/operator_cases.h"
#include "rooftile/aten/program.h"

namespace rooftile {
namespace {

using aten_test::arguments_of;
using aten_test::expect_all;

// A complex product is four real ones: 8·m·n·k flop.
TEST(AtenComplex, Products) {
  expect_all({
      {"aten::mm",
       "6,4|4,1|c10::complex<float>; 4,10|10,1|c10::complex<float>",
       {"gemm fp32 m=6 n=20 k=8 layout=nn"}},
      {"aten::bmm",
       "3,6,4|24,4,1|c10::complex<double>; 3,4,10|40,1,4|c10::complex<double>",
       {"gemm fp64 m=6 n=20 k=8 batch=3 weight=activation"}},
      // Rows that are 16 complex numbers apart are 32 real ones apart.
      {"aten::mm",
       "6,4|16,1|c10::complex<float>; 4,10|10,1|c10::complex<float>",
       {"gemm fp32 m=6 n=20 k=8 layout=nn x_stride=32"}},
      {"aten::mm", "6,4|4,1|c10::complex<float>; 4,10|10,1|float", {}},
      {"aten::mm", "6,4|4,1|c10::complex<Mystery>; 4,10|10,1|c10::complex<Mystery>", {}},
      {"aten::mm", "6,4|4,1|c10::complex<float>", {}},
  });
}

TEST(AtenComplex, PassesReadBothParts) {
  const auto bytes = [](std::string_view name, std::string_view arguments) {
    const auto op = aten_op(name, arguments_of(arguments));
    if (!op) return std::int64_t{-1};
    const auto& pass = std::get<Elementwise>(op->body);
    return op->streams.bytes != 0 ? op->streams.bytes : pass.elements * 4 * (pass.inputs + 1);
  };
  constexpr std::string_view kTwo =
      "8,5|5,1|c10::complex<float>; 8,5|5,1|c10::complex<float>; ||Scalar|1";
  EXPECT_EQ(bytes("aten::add", kTwo), 3 * 40 * 8);
  EXPECT_EQ(bytes("aten::add_", kTwo), 3 * 40 * 8);
  // By a row of complex numbers; by real ones.
  EXPECT_EQ(bytes("aten::mul", "8,5|5,1|c10::complex<float>; 5|1|c10::complex<float>"),
            (2 * 40 + 5) * 8);
  EXPECT_EQ(bytes("aten::mul", "8,5|5,1|c10::complex<float>; 8,5|5,1|float"), 2 * 40 * 8 + 40 * 4);
  EXPECT_EQ(bytes("aten::cumsum", "8,5|5,1|c10::complex<float>; ||Scalar|1"), -1);
}

TEST(AtenComplex, SumsReadBothParts) {
  for (const std::string_view axis : {"[1]", "[-1]"}) {
    const auto op = aten_op("aten::sum", arguments_of("8,5|5,1|c10::complex<float>; ||ScalarList|" +
                                                      std::string(axis) + "; ||Scalar|False"));
    ASSERT_TRUE(op);
    const auto& sum = std::get<Reduction>(op->body);
    EXPECT_EQ(sum.elements, 2 * 40);
    EXPECT_EQ(sum.outputs, 2 * 8) << axis;
  }
}

TEST(AtenComplex, MadeOfTwoRealNumbers) {
  for (const std::string_view name : {"aten::polar", "aten::complex"}) {
    const auto op = aten_op(name, arguments_of("8,5|5,1|float; 8,5|5,1|float"));
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(op->streams.bytes, 4 * 40 * 4) << name;
  }
}

// 5·log2 of the length for each complex value; each axis is a pass.
TEST(AtenComplex, FourierTransforms) {
  const auto expect = [](std::string_view name, std::string_view arguments, std::int64_t flop,
                         std::int64_t bytes) {
    const auto op = aten_op(name, arguments_of(arguments));
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(std::get<Other>(op->body).flop, flop) << name;
    EXPECT_EQ(std::get<Other>(op->body).bytes, bytes) << name;
  };
  expect("aten::_fft_c2c", "4,16|16,1|c10::complex<float>; ||ScalarList|[1]; ||Scalar|0",
         5 * 64 * 4, 2 * 64 * 8);
  expect("aten::_fft_r2c", "4,16|16,1|float; ||ScalarList|[-1]; ||Scalar|0; ||Scalar|True",
         5 * 32 * 4, 2 * 64 * 4);
  expect("aten::_fft_c2c", "4,16|16,1|c10::complex<float>; ||ScalarList|[0, 1]; ||Scalar|0",
         5 * 64 * (2 + 4), 2 * 2 * 64 * 8);
  for (const std::string_view axes : {"[2]", "[]", "x"}) {
    EXPECT_FALSE(
        aten_op("aten::_fft_c2c",
                arguments_of("4,16|16,1|c10::complex<float>; ||ScalarList|" + std::string(axes))));
  }
}

TEST(AtenComplex, CopiesAndUnknownOperatorsMoveBothParts) {
  AtenProgram program;
  AtenCall call;
  call.name = "linalg_inv";
  call.arguments = {{{8, 8}, {8, 1}, "c10::complex<float>", {}}};
  call.results = call.arguments;
  EXPECT_EQ(program.add(call), CallKind::unknown);
  EXPECT_EQ(std::get<Other>(program.take_ops().at(0).body).bytes, 2 * 64 * 8);

  call.name = "clone";
  call.results[0].strides = {1, 8};
  const CallWork copy = work_of(call);
  ASSERT_EQ(copy.ops.size(), 1U);
  EXPECT_EQ(std::get<LayoutConversion>(copy.ops[0].body).elements, 2 * 64);
}

}  // namespace
}  // namespace rooftile
