#include <gtest/gtest.h>

#include "rooftile/rewriter/edit_plan.h"
#include "rooftile/rewriter/unified_diff.h"

namespace rooftile {
namespace {

Finding with_edits(std::vector<TextEdit> edits, bool safe = true) {
  Finding finding;
  finding.fix = {"Change it", Exactness::bit_exact, std::move(edits), safe};
  return finding;
}

struct PlanCase {
  const char* name;
  std::vector<Finding> findings;
  bool with_unsafe;
  std::vector<std::size_t> fixed;
  std::string text;  // made of "0123456789"
};

TEST(EditPlan, TakesWholeFixesThatDoNotTouch) {
  const PlanCase cases[] = {
      {"apart",
       {with_edits({{"f", 6, 7, "b"}}), with_edits({{"f", 1, 2, "a"}})},
       false,
       {0, 1},
       "0a2345b789"},
      {"the first of two that overlap stays",
       {with_edits({{"f", 3, 6, "x"}}), with_edits({{"f", 5, 7, "y"}, {"f", 9, 9, "z"}})},
       false,
       {0},
       "012x6789"},
      {"insertions at one place wait",
       {with_edits({{"f", 4, 4, "x"}}), with_edits({{"f", 4, 4, "y"}})},
       false,
       {0},
       "0123x456789"},
      {"a line that both need is inserted once",
       {with_edits({{"f", 0, 0, "i\n"}, {"f", 2, 3, "a"}}),
        with_edits({{"f", 0, 0, "i\n"}, {"f", 7, 8, "b"}})},
       false,
       {0, 1},
       "i\n01a3456b89"},
      {"unsafe ones are left", {with_edits({{"f", 1, 2, "a"}}, false)}, false, {}, ""},
      {"and made when asked for", {with_edits({{"f", 1, 2, "a"}}, false)}, true, {0}, "0a23456789"},
      {"a frozen file takes all of its fix along",
       {with_edits({{"f", 1, 2, "a"}, {"frozen", 1, 2, "a"}})},
       false,
       {},
       ""},
      {"edits of one fix may touch",
       {with_edits({{"f", 2, 3, "a"}, {"f", 3, 4, "b"}})},
       false,
       {0},
       "01ab456789"}};
  for (const PlanCase& plan_case : cases) {
    SCOPED_TRACE(plan_case.name);
    const EditPlan plan = plan_edits(plan_case.findings, plan_case.with_unsafe, {"frozen"});
    EXPECT_EQ(plan.fixed, plan_case.fixed);
    const auto edits = plan.by_file.find("f");
    if (edits == plan.by_file.end()) {
      EXPECT_EQ(plan_case.text, "");
      continue;
    }
    EXPECT_EQ(edited_text("0123456789", edits->second).value_or("error"), plan_case.text);
  }
}

TEST(EditPlan, CountsWhatIsLeft) {
  const EditPlan plan = plan_edits(
      {with_edits({{"f", 0, 1, ""}}), with_edits({{"f", 0, 1, "x"}}),
       with_edits({{"f", 5, 6, ""}}, false), with_edits({{"frozen", 5, 6, ""}}), with_edits({})},
      false, {"frozen"});
  EXPECT_EQ(plan.overlapping, 1);
  EXPECT_EQ(plan.unsafe, 1);
  EXPECT_EQ(plan.frozen, 1);
}

TEST(EditedText, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(edited_text("abc", {{"f", 2, 4, ""}}));
  EXPECT_FALSE(edited_text("abc", {{"f", 0, 2, ""}, {"f", 1, 3, ""}}));
  EXPECT_FALSE(edited_text("abc", {{"f", 2, 1, ""}}));
  EXPECT_EQ(edited_text("abc", {}).value(), "abc");
}

struct DiffCase {
  const char *name, *path, *before, *after, *diff;
};

// Written by hand after the manual of GNU diffutils, "Unified Format", and checked with patch.
TEST(UnifiedDiff, Cases) {
  const DiffCase cases[] = {
      {"equal", "f.py", "a\n", "a\n", ""},
      {"one line in the middle", "f.py", "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
       "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
       "--- a/f.py\n+++ b/f.py\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
      {"insertion at the start", "f.py", "a\nb\n", "x\na\nb\n",
       "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,3 @@\n+x\n a\n b\n"},
      {"into an empty file", "f.py", "", "x\n", "--- a/f.py\n+++ b/f.py\n@@ -0,0 +1 @@\n+x\n"},
      {"CRLF stays", "f.py", "a\r\nb\r\n", "a\r\nc\r\n",
       "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"},
      {"no newline at the end", "f.py", "a\nb", "a\nc",
       "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
       "\\ No newline at end of file\n"},
      {"a newline is added", "f.py", "a", "a\n",
       "--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
      {"far changes are two hunks", "f.py", "a\n1\n2\n3\n4\n5\n6\n7\nb\n",
       "x\n1\n2\n3\n4\n5\n6\n7\ny\n",
       "--- a/f.py\n+++ b/f.py\n@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n"
       "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n"},
      {"names with spaces end in a tab", "./my dir/f.py", "a\n", "b\n",
       "--- a/my dir/f.py\t\n+++ b/my dir/f.py\t\n@@ -1 +1 @@\n-a\n+b\n"},
      {"other characters are quoted", "a\"b\n.py", "a\n", "b\n",
       "--- \"a/a\\\"b\\012.py\"\n+++ \"b/a\\\"b\\012.py\"\n@@ -1 +1 @@\n-a\n+b\n"}};
  for (const DiffCase& diff_case : cases) {
    EXPECT_EQ(unified_diff(diff_case.path, diff_case.before, diff_case.after), diff_case.diff)
        << diff_case.name;
  }
}

TEST(UnifiedDiff, TextsWithNothingInCommonAreOneChange) {
  std::string before, after;
  for (int i = 0; i < 5000; ++i) {
    before += "a" + std::to_string(i) + "\n";
    after += "b" + std::to_string(i) + "\n";
  }
  const std::string diff = unified_diff("f.py", before, after);
  EXPECT_TRUE(diff.starts_with("--- a/f.py\n+++ b/f.py\n@@ -1,5000 +1,5000 @@\n-a0\n-a1\n"));
}

}  // namespace
}  // namespace rooftile
