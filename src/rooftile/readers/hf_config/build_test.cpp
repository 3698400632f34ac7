#include "rooftile/readers/hf_config/build.h"

#include <gtest/gtest.h>

namespace rooftile::hf {
namespace {

TEST(LayerLabel, NamesRuns) {
  EXPECT_EQ(layer_label({3}), "3");
  EXPECT_EQ(layer_label({0, 1, 2}), "{0-2}");
  EXPECT_EQ(layer_label({0, 2, 3}), "{0,2-3}");
  EXPECT_EQ(layer_label({0, 2, 4}), "{0,2,4}");
  EXPECT_EQ(layer_label({0, 2, 4, 6}), "{0,2,4,...}");
}

}  // namespace
}  // namespace rooftile::hf
