#include "rooftile/formats/python/folder.h"

#include <gtest/gtest.h>

#include <string>

namespace rooftile::python {
namespace {

struct GlobCase {
  const char *pattern, *path;
  bool ignored;
};

// gitignore(5).
TEST(IgnoreRules, PatternsAsGitReadsThem) {
  const GlobCase cases[] = {
      {"*.py", "a.py", true},
      {"*.py", "a/b.py", true},
      {"/*.py", "a/b.py", false},
      {"a*c", "abbc", true},
      {"a*c", "abcd", false},
      {"a/*/c", "a/b/c", true},
      {"a/*/c", "a/b/b/c", false},
      {"a/**/c", "a/c", true},
      {"a/**/c", "a/b/b/c", true},
      {"a/**/c", "a/bc", false},
      {"**/foo", "foo", true},
      {"**/foo", "a/b/foo", true},
      {"**/foo", "a/bfoo", false},
      {"foo/**", "foo/a/b", true},
      {"**/a*/b?.py", "x/y/abc/b1.py", true},
      {"**/a*/b?.py", "x/abc/z/b1.py", false},
      {"a**b", "axxb", true},
      {"[a-c]*.py", "beta.py", true},
      {"[!a-c]*.py", "beta.py", false},
      {"\\*.py", "*.py", true},
      {"\\*.py", "a.py", false},
      {"a?c", "a/c", false},
  };
  for (const GlobCase& c : cases) {
    const IgnoreRules rules(c.pattern);
    EXPECT_EQ(rules.judge(c.path, false) == IgnoreRules::Verdict::ignored, c.ignored)
        << c.pattern << " " << c.path;
  }
}

TEST(IgnoreRules, TheLastRuleThatMatchesDecides) {
  const IgnoreRules rules("*.py\n!train.py\nbuild/\n");
  EXPECT_EQ(rules.judge("a.py", false), IgnoreRules::Verdict::ignored);
  EXPECT_EQ(rules.judge("train.py", false), IgnoreRules::Verdict::kept);
  EXPECT_EQ(rules.judge("build", true), IgnoreRules::Verdict::ignored);
  EXPECT_EQ(rules.judge("build", false), IgnoreRules::Verdict::none);
}

}  // namespace
}  // namespace rooftile::python
