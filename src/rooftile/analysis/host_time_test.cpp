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

}  // namespace
}  // namespace rooftile
