#include "rooftile/formats/pt2/expression.h"

#include <gtest/gtest.h>

namespace rooftile::pt2_format {
namespace {

const Symbols kSymbols{{"s0", 7}, {"s1", 32}};

TEST(Pt2Expression, BothSpellings) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"Symbol('s0', positive=True, integer=True)", 7},
      {"Mul(Integer(384), Symbol('s1', positive=True, integer=True))", 384 * 32},
      {"Add(Mul(Integer(-1), Symbol('s0')), Integer(10))", 3},
      {"FloorDiv(Add(Symbol('s1'), Integer(-1)), Integer(2))", 15},
      {"floor(Mul(Rational(1, 2), Symbol('s0')))", 3},
      {"Pow(Symbol('s0'), Integer(2))", 49},
      {"Max(Integer(1), Symbol('s0'), Integer(3))", 7},
      {"CeilToInt(IntTrueDiv(Symbol('s0'), Integer(2)))", 4},
      {"Float('2.0', precision=53)", 2},
      {"2*s0", 14},
      {"s0*s1 + 1", 225},
      {"(s1 - 1)//2 + 1", 16},
      {"-s0//2", -4},
      {"s1**2 % 10", 4},
      {"Mod(s0 - 10, 4)", 1},
      {"Min(s0, s1)", 7},
      {"12", 12},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(evaluate(text, kSymbols), value) << text;
}

TEST(Pt2Expression, WhatIsNotUnderstoodHasNoValue) {
  for (const char* text : {"", "s9", "2*", "(s0", "s0)", "s0/2", "s0//0", "Mod(s0, 0)", "Fancy(s0)",
                           "Add(", "Symbol(s0)", "Symbol('s0'", "s0 s1", "9**99", "1e30",
                           "Pow(0, -1)", "Piecewise((s0, s0 > 1))"}) {
    EXPECT_EQ(evaluate(text, kSymbols), std::nullopt) << text;
  }
  EXPECT_EQ(evaluate(std::string(5000, '-') + "1", kSymbols), std::nullopt);
}

TEST(Pt2Expression, SymbolsAlone) {
  EXPECT_EQ(symbol_name("Symbol('s0', positive=True, integer=True)"), "s0");
  EXPECT_EQ(symbol_name("s31"), "s31");
  EXPECT_EQ(symbol_name("2*s0"), std::nullopt);
  EXPECT_EQ(symbol_name("Symbol('s0') + Symbol('s1')"), std::nullopt);
  EXPECT_EQ(symbol_name("12"), std::nullopt);
  EXPECT_EQ(symbol_name(""), std::nullopt);
}

}  // namespace
}  // namespace rooftile::pt2_format
