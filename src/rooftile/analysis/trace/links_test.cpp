#include "rooftile/analysis/trace/links.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TEST(IdIndex, FindsTheFirstRowOfAnId) {
  // Near one another, and far apart.
  for (const std::uint32_t apart : {1U, 1000U}) {
    Column<std::uint32_t> ids;
    for (const std::uint32_t id : {0U, 10 + 2 * apart, 10U, 10U, 10 + apart}) ids.push_back(id);
    const IdIndex index(ids);
    EXPECT_EQ(index.row_of(10), 2U);
    EXPECT_EQ(index.row_of(10 + apart), 4U);
    EXPECT_EQ(index.row_of(10 + 2 * apart), 1U);
    for (const std::uint32_t other : {0U, 1U, 9U, 11 + 2 * apart, 0xffffffffU}) {
      EXPECT_EQ(index.row_of(other), kNone) << other;
    }
  }
  EXPECT_EQ(IdIndex({}).row_of(1), kNone);
}

std::uint32_t op_of_call(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return link_events(*timeline).call_op.at(0);
}

// Clocks of whole microseconds: an operator that a call names may lie two microseconds beside it.
TEST(Links, ExternalIdsNameAnOperatorThatWasRunning) {
  EXPECT_EQ(op_of_call("op main 0us 10us aten::mm id=5\ncall main 12us 1us x id=5\n"), 0U);
  EXPECT_EQ(op_of_call("op main 0us 10us aten::mm id=5\ncall main 12001ns 1us x id=5\n"), kNone);
  EXPECT_EQ(op_of_call("op main 12us 10us aten::mm id=5\ncall main 10us 1us x id=5\n"), 0U);
  EXPECT_EQ(op_of_call("op main 12us 10us aten::mm id=5\ncall main 9999ns 1us x id=5\n"), kNone);
  EXPECT_EQ(op_of_call("op main 0us 10us aten::mm id=5\ncall main 12us 1us x id=5 corr=5\n"),
            kNone);
  EXPECT_EQ(op_of_call("op main 0us 10us aten::mm id=5\ncall main 12us 1us x\n"), kNone);
  EXPECT_EQ(op_of_call("op main 0us 10us aten::mm id=5\ncall other 5us 1us x id=5\n"), 0U);
}

// The id counts more than the clock on the call's own thread.
TEST(Links, ACallWithinAnOperatorMayNameAnother) {
  const std::string two = "op main 0us 10us aten::mm id=5\nop main 10us 10us aten::add id=6\n";
  EXPECT_EQ(op_of_call(two + "call main 10us 1us x id=5\n"), 0U);
  EXPECT_EQ(op_of_call(two + "call main 10us 1us x id=6\n"), 1U);
  EXPECT_EQ(op_of_call(two + "call main 10us 1us x id=7\n"), 1U);
  const std::string apart = "op main 0us 10us aten::mm id=5\nop other 10us 10us aten::add id=6\n";
  EXPECT_EQ(op_of_call(apart + "call other 10us 1us x id=5\n"), 1U);
}

// By stream: what nothing recorded launched and begins before any launch, and what follows it up to
// the first that a call launched.
TEST(Links, WorkFromBeforeTheRecordingIsLeftOver) {
  const auto timeline = parse_timeline(R"(
call main 20us 5us cudaLaunchKernel corr=1
kernel 7 10us 5us before
kernel 7 30us 5us before
kernel 7 50us 5us own corr=1
kernel 7 60us 5us after
kernel 8 30us 5us alone
kernel 9 19us 5us early
)");
  ASSERT_TRUE(timeline);
  EXPECT_EQ(link_events(*timeline).leftover,
            (std::vector<bool>{true, true, false, false, false, true}));
  const auto later = parse_timeline(R"(
call main 20us 5us cudaLaunchKernel corr=1
kernel 7 30us 5us before
kernel 7 50us 5us own corr=1
)");
  ASSERT_TRUE(later);
  EXPECT_EQ(link_events(*later).leftover, (std::vector<bool>{false, false}));
}

// Of the operators with a number the last to start before its node, outside of backward passes.
TEST(ForwardOps, MakeTheNodesOfTheirNumber) {
  const auto timeline = parse_timeline(R"(
op main 0us 5us aten::view seq=3
op main 10us 5us aten::mm seq=3
op main 20us 5us aten::add seq=4
op grad 100us 90us autograd::engine::evaluate_function: MmBackward0 seq=3
op grad 110us 5us aten::mm seq=3
op main 300us 5us aten::relu seq=3
op grad 400us 9us autograd::engine::evaluate_function: OtherBackward0 seq=9
op grad 420us 9us autograd::engine::evaluate_function: PlainBackward0
)");
  ASSERT_TRUE(timeline);
  const Links links = link_events(*timeline);
  const ForwardOps forward(*timeline, links);
  EXPECT_EQ(forward.of(3), 1U);
  EXPECT_EQ(forward.of(4), 1U);
  EXPECT_EQ(forward.of(1), kNone);
  EXPECT_EQ(forward.of(6), kNone);
  EXPECT_EQ(forward.of(7), kNone);
  EXPECT_EQ(forward.of(kNone), kNone);
  EXPECT_TRUE(is_backward(*timeline, links, 4));
  EXPECT_FALSE(is_backward(*timeline, links, 1));
}

}  // namespace
}  // namespace rooftile::trace
