#include "rooftile/analysis/fusion.h"

#include <gtest/gtest.h>

#include <string>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

std::vector<FusibleRun> runs_of(const char* text) {
  static Workload workload;
  workload = *parse_workload(text);
  return find_fusible_runs(workload, Graph(workload), std::vector<bool>(workload.ops.size()));
}

// Bytes by hand: 1000 fp16 elements are 2000 bytes.
TEST(Fusion, ValuesBetweenTheOperationsAreNeitherWrittenNorRead) {
  const auto runs = runs_of(
      "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
      "elementwise b fp16 fn=add elements=1000 inputs=2 from=a,y to=b\n");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].ops, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(runs[0].before, Bytes(4000 + 6000));
  EXPECT_EQ(runs[0].after, Bytes(2000 + 2000 + 2000));  // x and y read, b written
}

TEST(Fusion, AValueWithAnotherReaderIsStillWritten) {
  for (const char* reader : {"gemm c fp16 m=10 n=10 k=100 from=a\n",
                             "reduce c fp16 fn=mean elements=1000 outputs=10 from=a to=c\n"}) {
    const std::string text =
        "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
        "elementwise b fp16 fn=tanh elements=1000 from=a to=b\n";
    const auto runs = runs_of((text + reader).c_str());
    ASSERT_EQ(runs.size(), 1u) << reader;
    EXPECT_EQ(runs[0].after, Bytes(2000 + 2000 + 2000)) << reader;  // x read, a and b written
  }
}

TEST(Fusion, NothingFusesAcrossAProduct) {
  EXPECT_TRUE(runs_of("elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
                      "gemm g fp16 m=10 n=100 k=100 from=a to=g\n"
                      "elementwise b fp16 fn=add elements=1000 inputs=2 from=a,g to=b\n")
                  .empty());
}

TEST(Fusion, NothingFusesIntoBatchNormButBehindIt) {
  const auto runs = runs_of(
      "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
      "norm n fp16 fn=batch rows=100 cols=10 from=a to=n\n"
      "elementwise b fp16 fn=relu elements=1000 from=n to=b\n");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].ops, (std::vector<std::size_t>{1, 2}));
}

TEST(Fusion, OtherSizesDoNotFuse) {
  EXPECT_TRUE(runs_of("elementwise a fp16 fn=relu elements=100 from=x to=a\n"
                      "elementwise b fp16 fn=add elements=1000 from=a,y to=b\n")
                  .empty());
}

// From half of the elements to twice as many pass from one to the other in registers.
TEST(Fusion, SizesWithinAFactorOfTwo) {
  const auto fuses = [](int read) {
    const std::string text =
        "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
        "elementwise b fp16 fn=add elements=" +
        std::to_string(read) + " from=a,y to=b\n";
    return !runs_of(text.c_str()).empty();
  };
  EXPECT_FALSE(fuses(499));
  EXPECT_TRUE(fuses(500));
  EXPECT_TRUE(fuses(1999));
  EXPECT_FALSE(fuses(2000));
}

TEST(Fusion, KindsThatPassOverElements) {
  const auto runs = runs_of(
      "cast a fp32 out_dtype=fp16 elements=1000 from=x to=a\n"
      "softmax b fp16 rows=10 cols=100 from=a to=b\n"
      "norm c fp16 fn=layer rows=10 cols=100 from=b to=c\n");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].ops, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(runs[0].before, Bytes(6000 + 4000 + 4000));
  EXPECT_EQ(runs[0].after, Bytes(4000 + 2000));  // x read, c written
}

TEST(Fusion, WhatDoesNotFuse) {
  for (const char* text : {"elementwise a fp16 fn=relu elements=1000 from=x to=a count=2\n"
                           "elementwise b fp16 fn=tanh elements=1000 from=a to=b\n",
                           "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
                           "elementwise b fp16 fn=tanh elements=1000 from=a to=b phase=dgrad\n",
                           "elementwise a fp16 fn=relu elements=1 to=a phase=dgrad\n"
                           "elementwise b fp16 fn=tanh elements=1 from=a to=b\n",
                           "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
                           "reduce b fp16 fn=sum elements=1000 outputs=10 from=a to=b\n",
                           "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
                           "elementwise b fp16 fn=tanh elements=1000 from=y to=b\n"}) {
    EXPECT_TRUE(runs_of(text).empty()) << text;
  }
  const Workload chain = *parse_workload(
      "elementwise a fp16 fn=relu elements=1000 from=x to=a\n"
      "elementwise b fp16 fn=tanh elements=1000 from=a to=b\n");
  EXPECT_TRUE(find_fusible_runs(chain, Graph(chain), {false, true}).empty());
  EXPECT_TRUE(find_fusible_runs(chain, Graph(chain), {true, false}).empty());
}

// Squeeze and excitation: the mean and the scaling each compute the activation from x, so that it
// is neither read nor written for itself; the scaling still reads x and writes.
TEST(Fusion, ReadersOfDifferentKernelsComputeAnActivationAgain) {
  const auto runs = runs_of(
      "conv c fp16 n=2 c=8 k=50 in=4x5 kernel=1x1 to=x\n"
      "elementwise a fp16 fn=silu elements=2000 from=x to=a\n"
      "pool p fp16 fn=average n=2 c=50 in=4x5 out=1x1 kernel=4x5 from=a to=p\n"
      "gemm g fp16 m=2 n=50 k=50 from=p to=g\n"
      "elementwise b fp16 fn=mul elements=2000 from=a,g to=b\n");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].ops, (std::vector<std::size_t>{1, 4}));
  EXPECT_EQ(runs[0].before, Bytes(8000 + 8000));
  EXPECT_EQ(runs[0].after, Bytes(8000));
  // A product reads what is in memory.
  EXPECT_TRUE(runs_of("elementwise a fp16 fn=silu elements=2000 from=x to=a\n"
                      "gemm g fp16 m=20 n=100 k=100 from=a to=g\n"
                      "elementwise b fp16 fn=mul elements=2000 inputs=2 from=a,g to=b\n")
                  .empty());
}

}  // namespace
}  // namespace rooftile
