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

// Microseconds for one operation; a graph is replayed at once, where nobody waits for each step.
TEST(HostTime, OperationsHaveARange) {
  Workload pass = *parse_workload("softmax layer fp32 rows=1 cols=2 count=10\n");
  const HostEstimate host = estimate_host(pass);
  EXPECT_NEAR(host.time.low.value(), 40e-6, 1e-12);
  EXPECT_NEAR(host.time.expected.value(), 120e-6, 1e-12);
  EXPECT_NEAR(host.time.high.value(), 240e-6, 1e-12);
  pass.mode = Mode::decode;
  EXPECT_NEAR(estimate_host(pass).time.low.value(), 200e-6, 1e-12);
  EXPECT_NEAR(estimate_host(pass).time.expected.value(), 600e-6, 1e-12);
  EXPECT_TRUE(waits_for_launches(Mode::inference));
  EXPECT_FALSE(waits_for_launches(Mode::decode));
}

TEST(HostTime, FewOperationsAreAPartOfSomethingElse) {
  const auto is_bound = [](double launches, double kernels) {
    const HostEstimate host{launches, {Seconds(1), Seconds(2), Seconds(3)}};
    return is_launch_bound(host, Seconds(kernels));
  };
  EXPECT_TRUE(is_bound(20, 1.9));
  EXPECT_FALSE(is_bound(19, 1.9));
  EXPECT_FALSE(is_bound(20, 2));
}

}  // namespace
}  // namespace rooftile
