#include "rooftile/base/pattern.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Patterns, MatchTheWholeText) {
  const struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {{"a/b", "a/b", true},    {"a/b", "a/bc", false}, {"a/*", "a/b/c", true},
               {"*", "", true},         {"a*", "a", true},      {"*b*d", "abcd", true},
               {"*b*d", "abdc", false}, {"?b", "ab", true},     {"?", "", false},
               {"", "a", false},        {"", "", true},         {"*ab", "aab", true}};
  for (const auto& each : cases) {
    EXPECT_EQ(matches_pattern(each.pattern, each.text), each.matches)
        << each.pattern << " " << each.text;
  }
}

}  // namespace
}  // namespace rooftile
