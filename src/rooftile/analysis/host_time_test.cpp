#include "rooftile/analysis/host_time.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

TEST(HostTime, EveryRepeatIsALaunch) {
  EXPECT_DOUBLE_EQ(
      estimate_host(*parse_workload("softmax s fp32 rows=1 cols=2 count=7\ncast c fp32 "
                                    "out_dtype=fp16 elements=9\n"))
          .launches,
      8);
}

// Eager PyTorch needs 39 ms for a step of a decoder with 32 layers (gpt-fast), 10 ms on the fastest
// hosts.
TEST(HostTime, AnEagerDecodeStepTakesTensOfMilliseconds) {
  Workload step = *parse_workload("softmax layer fp32 rows=1 cols=2 count=390\n");
  step.mode = Mode::decode;
  const HostEstimate host = estimate_host(step);
  EXPECT_GT(host.time.expected, Seconds(10e-3));
  EXPECT_NEAR(host.time.high.value(), 39e-3, 1e-3);
}

}  // namespace
}  // namespace rooftile
