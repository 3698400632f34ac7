#include "rooftile/reports/layout.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Layout, WidthCountsCodePoints) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("µs–×"), 4);
}

TEST(Layout, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(printable("a\x1b[2J\tb\n\x7f"), "a [2J b  ");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            " 31m");  // the one-character form of ESC [
  EXPECT_EQ(printable("µ × \xc2\xa0"), "µ × \xc2\xa0");
}

TEST(Layout, CutsKeepBothEndsOfNames) {
  EXPECT_EQ(cut_middle("/layers.0/mlp/MatMul", 11), "/laye…atMul");
  EXPECT_EQ(cut_end("m=4096 n=2304", 7), "m=4096…");
  EXPECT_EQ(cut_end("µµµ", 3), "µµµ");
  EXPECT_EQ(cut_end("µµµµ", 3), "µµ…");
  EXPECT_EQ(cut_middle("µµµµ", 3), "µ…µ");
}

TEST(Layout, WrapsAtSpacesAndKeepsLongWords) {
  EXPECT_EQ(wrapped("one two three", 9, 2), "  one two\n  three\n");
  EXPECT_EQ(wrapped("averyveryverylongword x", 10), "averyveryverylongword\nx\n");
  EXPECT_EQ(wrapped("one  two", 0, 1), " one two\n");
  EXPECT_EQ(wrapped("", 10), "");
}

const TextTable kTable{{{"name", false, Cut::middle}, {"n", true}, {"last"}},
                       {{"/a/b/c/d/e/f/g", "7", "x"}, {"µ", "1234", ""}}};

TEST(Layout, TablesAlignAndHaveNoTrailingSpaces) {
  EXPECT_EQ(table_text(kTable),
            "name               n  last\n"
            "/a/b/c/d/e/f/g     7  x\n"
            "µ               1234\n");
}

TEST(Layout, NarrowTablesCutOnlyWhatMayBeCut) {
  EXPECT_EQ(table_text(kTable, 25, 1),
            " name             n  last\n"
            " /a/b/…/e/f/g     7  x\n"
            " µ             1234\n");
}

TEST(Layout, MarkdownTablesEscapeBars) {
  EXPECT_EQ(table_markdown({{{"a"}, {"b", true}}, {{"x|y", "1"}}}),
            "| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
}

TEST(Layout, VeryLongCellsAreCutAtAnyWidth) {
  TextTable table{{{"kernel", false, Cut::middle}, {"n", true}}, {}};
  table.rows.push_back({std::string(3000, 'k'), "1"});
  EXPECT_LT(table_text(table).size(), 400U);
}

}  // namespace
}  // namespace rooftile
