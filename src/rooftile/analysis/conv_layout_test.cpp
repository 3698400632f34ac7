#include "rooftile/analysis/conv_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

struct Case {
  const char* text;
  double factor;
};

// Ratios: PyTorch, torch/_inductor/graph.py, decide_layout_opt.
TEST(ConvLayout, FactorIsThatOfInductorsCategory) {
  const Case cases[] = {
      {"conv dense fp16 n=8 c=128 k=128 in=28x28 kernel=3x3", 0.823},
      {"conv small fp16 n=8 c=64 k=64 in=28x28 kernel=3x3", 0.783},
      {"conv shrinks fp16 n=8 c=256 k=128 in=28x28 kernel=3x3", 0.725},
      {"conv narrows fp16 n=8 c=256 k=129 in=28x28 kernel=3x3", 0.823},
      {"conv wider fp16 n=8 c=65 k=64 in=28x28 kernel=3x3", 0.823},
      {"conv widens fp16 n=8 c=64 k=65 in=28x28 kernel=3x3", 0.823},
      {"conv pointwise fp16 n=8 c=256 k=128 in=28x28 kernel=1x1", 0.823},
      {"conv grouped fp16 n=8 c=128 k=128 groups=2 in=28x28 kernel=3x3", 1.358},
      {"conv depthwise fp16 n=8 c=128 k=128 groups=128 in=28x28 kernel=3x3", 0.823},
  };
  for (const Case& c : cases) {
    const auto workload = parse_workload(c.text);
    ASSERT_TRUE(workload) << c.text;
    EXPECT_EQ(channels_last_factor(std::get<Convolution>(workload->ops[0].body)), c.factor)
        << c.text;
  }
}

TEST(ConvLayout, AGroupedLayerDeclinesInTrainingAndIsWeighedInInference) {
  auto workload = *parse_workload(
      "conv dense fp16 n=8 c=256 k=256 in=28x28 kernel=3x3 count=8\n"
      "conv grouped fp16 n=8 c=256 k=256 groups=2 in=28x28 kernel=3x3\n");
  EXPECT_TRUE(channels_last_pays(workload));
  workload.mode = Mode::training;
  EXPECT_FALSE(channels_last_pays(workload));
}

// 0.823 and 1.358 of each: the groups of two, of half the work, may have 0.494 of it.
TEST(ConvLayout, FactorsAreWeighedByTheWork) {
  const auto pays = [](int dense, int grouped) {
    return channels_last_pays(*parse_workload(
        fmt::format("conv dense fp16 n=8 c=256 k=256 in=28x28 kernel=3x3 count={}\n"
                    "conv grouped fp16 n=8 c=256 k=256 groups=2 in=28x28 kernel=3x3 count={}\n",
                    dense, grouped)));
  };
  EXPECT_FALSE(pays(1, 1));
  EXPECT_TRUE(pays(11, 10));
}

TEST(ConvLayout, SmallLayersAloneDeclineInTraining) {
  const auto pays = [](const char* text, Mode mode) {
    Workload workload = *parse_workload(text);
    workload.mode = mode;
    return channels_last_pays(workload);
  };
  const char* const small = "conv a fp16 n=8 c=64 k=64 in=28x28 kernel=3x3\n";
  EXPECT_TRUE(pays(small, Mode::inference));
  EXPECT_FALSE(pays(small, Mode::training));
  EXPECT_TRUE(
      pays("conv a fp16 n=8 c=64 k=64 in=28x28 kernel=3x3\n"
           "conv b fp16 n=8 c=64 k=96 in=28x28 kernel=3x3\n",
           Mode::training));
  EXPECT_FALSE(pays("conv a fp16 n=8 c=256 k=128 in=28x28 kernel=3x3\n", Mode::training));
  EXPECT_FALSE(
      pays("conv a fp16 n=8 c=64 k=64 in=28x28 kernel=3x3 phase=dgrad\n", Mode::inference));
}

TEST(ConvLayout, NothingPaysWithoutConvolutions) { EXPECT_FALSE(channels_last_pays({})); }

}  // namespace
}  // namespace rooftile
