#include "rooftile/analysis/unrolled_rnn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

// A GRU with `gates` separate products of the hidden state in each step.
Workload separate_gates(int steps, int gates) {
  std::string text;
  for (int t = 1; t <= steps; ++t) {
    std::string names;
    for (int gate = 0; gate < gates; ++gate) {
      text += fmt::format("gemm h fp16 m=8 n=64 k=64 from=s{} to=g{}_{}\n", t - 1, t, gate);
      names += fmt::format("{}g{}_{}", gate > 0 ? "," : "", t, gate);
    }
    text += fmt::format("elementwise s fp16 fn=sigmoid elements=512 inputs={} from={} to=i{}\n",
                        gates, names, t);
    text += fmt::format("elementwise t fp16 fn=tanh elements=512 from=i{} to=s{}\n", t, t);
  }
  return *parse_workload(text);
}

TEST(UnrolledRnn, SeparateGatesAreOneLoop) {
  const Workload workload = separate_gates(10, 3);
  const auto loops = find_unrolled_loops(workload, Graph(workload));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].length, 10);
  EXPECT_TRUE(loops[0].plain);
  EXPECT_TRUE(loops[0].projections.empty());
  EXPECT_EQ(loops[0].products_per_step, 3);
}

// h -> gates -> h, and logits of each h; those of a decoder go into the next step.
Workload with_logits(bool fed_back) {
  std::string text;
  for (int t = 1; t <= 9; ++t) {
    const std::string input =
        fed_back && t > 1 ? fmt::format("s{},o{}", t - 1, t - 1) : fmt::format("s{}", t - 1);
    text += fmt::format("gemm h fp16 m=8 n=64 k=64 from={} to=g{}\n", input, t);
    text += fmt::format("elementwise s fp16 fn=sigmoid elements=512 from=g{} to=i{}\n", t, t);
    text += fmt::format("elementwise t fp16 fn=tanh elements=512 from=i{} to=s{}\n", t, t);
    text += fmt::format("gemm logits fp16 m=8 n=1000 k=64 from=s{} to=o{}\n", t, t);
  }
  return *parse_workload(text);
}

TEST(UnrolledRnn, OutputsAreProductsThatNoStepReads) {
  const Workload collected = with_logits(false);
  auto loops = find_unrolled_loops(collected, Graph(collected));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].outputs.size(), 9u);
  EXPECT_EQ(collected.ops[loops[0].outputs[0]].name, "logits");
  const Workload fed_back = with_logits(true);
  loops = find_unrolled_loops(fed_back, Graph(fed_back));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_LE(loops[0].outputs.size(), 1u);  // the last step's, which nothing reads
}

TEST(UnrolledRnn, ShortChainsAreNoLoop) {
  const Workload workload = separate_gates(7, 1);
  EXPECT_TRUE(find_unrolled_loops(workload, Graph(workload)).empty());
}

// x -> product, h -> product, both into the cell -> h.
Workload cells(int steps, const std::string& cell, const std::string& other = "") {
  std::string text;
  for (int t = 1; t <= steps; ++t) {
    text += fmt::format("gemm x fp16 m=8 n=256 k=32 from=x{} to=p{}\n", t, t);
    text += fmt::format("gemm h fp16 m=8 n=256 k=64 from=h{} to=g{}\n", t - 1, t);
    text += fmt::format(fmt::runtime(other), t, t);
    text += fmt::format(fmt::runtime(cell), t, t, t);
  }
  return *parse_workload(text);
}

const std::string kCell =
    "elementwise c fp16 fn=lstm_cell elements=2048 inputs=2 from=p{},g{} to=h{}\n";

TEST(UnrolledRnn, StepsHaveProjectionsOfTheirInputs) {
  const Workload workload = cells(8, kCell);
  const auto loops = find_unrolled_loops(workload, Graph(workload));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].length, 8);
  EXPECT_EQ(loops[0].products_per_step, 1);
  EXPECT_TRUE(loops[0].plain);
  EXPECT_EQ(loops[0].steps, (std::vector<std::size_t>{1, 4, 7, 10, 13, 16, 19, 22}));
  EXPECT_EQ(loops[0].projections, (std::vector<std::size_t>{0, 3, 6, 9, 12, 15, 18, 21}));
  EXPECT_EQ(loops[0].pointwise, (std::vector<std::size_t>{2, 5, 8, 11, 14, 17, 20}));
  EXPECT_TRUE(loops[0].outputs.empty());
}

// A norm within the cell, and another function than a cell's.
TEST(UnrolledRnn, OtherCells) {
  const Workload normed =
      cells(8, "elementwise c fp16 fn=lstm_cell elements=2048 inputs=2 from=p{},n{} to=h{}\n",
            "norm n fp16 fn=layer rows=8 cols=256 from=g{} to=n{}\n");
  const auto loops = find_unrolled_loops(normed, Graph(normed));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_FALSE(loops[0].plain);
  for (const char* fn : {"relu", "sigmoid", "tanh"}) {
    const Workload plain = cells(8, std::string("elementwise c fp16 fn=") + fn +
                                        " elements=2048 inputs=2 from=p{},g{} to=h{}\n");
    EXPECT_TRUE(find_unrolled_loops(plain, Graph(plain)).empty()) << fn;
  }
}

TEST(UnrolledRnn, OneStepCellsInAChain) {
  std::string text;
  for (int t = 1; t <= 9; ++t) {
    text += fmt::format(
        "recurrent r fp16 cell=lstm batch=8 seq=1 input=64 hidden=64 from=s{} to=s{}\n", t - 1, t);
  }
  const Workload workload = *parse_workload(text);
  const auto loops = find_unrolled_loops(workload, Graph(workload));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].length, 9);
}

}  // namespace
}  // namespace rooftile
