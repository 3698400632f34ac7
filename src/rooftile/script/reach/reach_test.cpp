#include "rooftile/script/reach/reach.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

// A program that trains; `body` is what each step does after the update, `more` are functions.
SourceFacts facts_of(const std::string& body, const std::string& more = {}) {
  const std::string text = R"(import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
)" + more + R"(
for step, x in enumerate(torch.utils.data.DataLoader(data)):
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
)" + body;
  return read_python_text("train.py", text).value();
}

Ways ways_to_mark(const SourceFacts& facts) {
  const auto& calls = facts.method_calls("mark");
  EXPECT_EQ(calls.size(), 1U);
  return ways_to(facts, *calls.front());
}

TEST(Reach, KnowsTheStepLoop) {
  const Ways ways = ways_to_mark(facts_of("    mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().trains());
  EXPECT_NE(ways.front().step_loop, nullptr);
  EXPECT_EQ(ways.front().shut, Shut::no);
  EXPECT_FALSE(ways.front().is_off_by_default);
}

TEST(Reach, GoesThroughAnyNumberOfCalls) {
  std::string chain = "def f0():\n    mark()\n";
  for (int i = 1; i < 40; ++i) {
    chain += "def f" + std::to_string(i) + "():\n    f" + std::to_string(i - 1) + "()\n";
  }
  const Ways ways = ways_to_mark(facts_of("    f39()\n", chain));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().in_each_training_step());
}

TEST(Reach, EndsOnRecursion) {
  const Ways ways = ways_to_mark(
      facts_of("    f(3)\n",
               "def f(n):\n    mark()\n    g(n - 1)\ndef g(n):\n    if n > 0:\n        f(n)\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().in_each_training_step());
}

TEST(Reach, JoinsWaysThatAgree) {
  std::string calls;
  for (int i = 0; i < 100; ++i) calls += "    f()\n";
  EXPECT_EQ(ways_to_mark(facts_of(calls, "def f():\n    mark()\n")).size(), 1U);
}

TEST(Reach, KeepsTheWayThatLetsMorePass) {
  const Ways ways = ways_to_mark(
      facts_of("    if step % 100 == 0:\n        f()\n    f()\n", "def f():\n    mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_EQ(ways.front().shut, Shut::no);
}

TEST(Reach, KnowsWhatIsRare) {
  const Ways ways = ways_to_mark(facts_of("    if step % 100 == 0:\n        mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_EQ(ways.front().shut, Shut::yes);
}

TEST(Reach, FindsNoWayToWhatNothingCalls) {
  EXPECT_TRUE(ways_to_mark(facts_of("    pass\n", "# f() was called here\ndef f():\n    mark()\n"))
                  .empty());
  EXPECT_TRUE(ways_to_mark(facts_of("    pass\n",
                                    "def f():\n    mark()\ndef g():\n    h()\n"
                                    "def h():\n    f()\n"))
                  .empty());
}

TEST(Reach, TakesWhatIsNamedForCalled) {
  EXPECT_FALSE(
      ways_to_mark(facts_of("    pass\n", "def f():\n    mark()\nhooks = {'f': f}\n")).empty());
}

// A branch for an argument that each caller gives, or that no caller gives.
TEST(Reach, KnowsWhatCallersPass) {
  const std::string asks = "def f(scale=None):\n    if scale is not None:\n        mark()\n";
  EXPECT_TRUE(ways_to_mark(facts_of("    f()\n", asks)).empty());
  EXPECT_FALSE(ways_to_mark(facts_of("    f(2)\n    f()\n", asks)).empty());
  const std::string lacks = "def f(scale=None):\n    if scale is None:\n        mark()\n";
  EXPECT_TRUE(ways_to_mark(facts_of("    f(2)\n    f(scale=3)\n", lacks)).empty());
}

TEST(Reach, KnowsWhatIsOffByDefault) {
  const Ways ways = ways_to_mark(facts_of("    if args.log:\n        mark()\n",
                                          "import argparse\nparser = argparse.ArgumentParser()\n"
                                          "parser.add_argument('--log', action='store_true')\n"
                                          "args = parser.parse_args()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().is_off_by_default);
}

TEST(Reach, KnowsWhereGradientsAreOff) {
  const Ways ways = ways_to_mark(
      facts_of("    with torch.no_grad():\n        f()\n    f()\n", "def f():\n    mark()\n"));
  ASSERT_EQ(ways.size(), 2U);
  EXPECT_EQ(std::ranges::count_if(ways, &Way::gradients_off), 1);
}

// `timed(load)` does not lead to `train`, which another call hands over.
TEST(Reach, FollowsTheFunctionThatIsHandedOver) {
  const Ways ways = ways_to_mark(facts_of("    timed(load)\n",
                                          "def load():\n    pass\ndef save():\n    mark()\n"
                                          "def timed(run):\n    run()\ntimed(save)\n"));
  EXPECT_TRUE(std::ranges::none_of(ways, &Way::trains));
}

}  // namespace
}  // namespace rooftile::source
