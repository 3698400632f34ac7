#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string message_of(const Workload& workload) {
  const Rule* const rules[] = {find_rule("memory_bound/dominates")};
  const Report report = check(workload, *find_device("h100"), rules);
  return report.findings.size() == 1 ? report.findings.front().message : "";
}

// A training step also waits for memory in the optimizer, which no fusion shortens: its share
// stands beside that of the other operations, and is no part of it.
TEST(MemoryBoundDominates, NamesTheOptimizerApart) {
  const Workload forward = *parse_workload(
      "gemm fc bf16 m=64 n=4096 k=4096 to=a\n"
      "elementwise act bf16 fn=gelu elements=400000000 from=a\n");
  EXPECT_THAT(message_of(forward), HasSubstr("Memory-bound operations take"));
  EXPECT_THAT(message_of(forward), Not(HasSubstr("optimizer")));
  const Workload step = derive_training(forward);
  const TimeModel model(*find_device("h100"));
  const Analysis analysis = analyse(step, model);
  double optimizer = 0;
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    if (step.ops[i].phase == Phase::optimizer) optimizer += analysis.ops[i].time_share;
  }
  ASSERT_GT(optimizer, 0.005);
  EXPECT_THAT(message_of(step),
              HasSubstr(", the optimizer another " + std::to_string(std::lround(100 * optimizer)) +
                        " % and GEMMs"));
}

// Shares of the few operations that have a time say nothing of the network.
TEST(MemoryBoundDominates, IsSilentWhereMostOperationsHaveNoTime) {
  Workload forward = *parse_workload(
      "gemm fc bf16 m=64 n=4096 k=4096 to=a\n"
      "elementwise act bf16 fn=gelu elements=400000000 from=a\n");
  ASSERT_NE(message_of(forward), "");
  forward.skipped["unknown shape: MatMul"] = 1;
  EXPECT_EQ(message_of(forward), "");
}

}  // namespace
}  // namespace rooftile
