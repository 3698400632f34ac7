#include "rooftile/findings/evidence.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Evidence, InOneLine) {
  EXPECT_EQ(to_string(Evidence::measured("3 runs of kernel x")), "measured: 3 runs of kernel x");
  EXPECT_EQ(to_string(Evidence::published("up to 3x", "PyTorch Performance Tuning Guide")),
            "up to 3x: PyTorch Performance Tuning Guide");
  EXPECT_EQ(to_string(Evidence::published("PyTorch documentation, torch.compile")),
            "PyTorch documentation, torch.compile");
  EXPECT_EQ(to_string(Evidence::found("loader at train.py:12")), "loader at train.py:12");
}

}  // namespace
}  // namespace rooftile
