#include "rooftile/base/text.h"

#include <gtest/gtest.h>

#include "rooftile/base/file.h"
#include "rooftile/base/file_kind.h"

namespace rooftile {
namespace {

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
}

TEST(Text, WholeNumbersOnly) {
  EXPECT_EQ(parse_integer("42"), 42);
  EXPECT_EQ(parse_integer("42x"), std::nullopt);
  EXPECT_EQ(parse_integer(""), std::nullopt);
  EXPECT_EQ(parse_integer("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_number("1e-3"), 1e-3);
}

TEST(Text, NearestNames) {
  const std::vector<std::string> names{"gemm/partial-tiles", "h100_sxm", "a100_sxm_80gb"};
  EXPECT_EQ(nearest("h100_sxn", names), (std::vector<std::string>{"h100_sxm"}));
  EXPECT_TRUE(nearest("zzzzzz", names).empty());
}

TEST(Text, QuotedIsShortAndPrintable) {
  EXPECT_EQ(rooftile::quoted(std::string("a\x01z")), "'a?z'");
  EXPECT_LT(rooftile::quoted(std::string(1000, 'x')).size(), 70U);
}

TEST(Text, ShellWordsStayOneWord) {
  EXPECT_EQ(shell_word("runs/a_1.onnx"), "runs/a_1.onnx");
  EXPECT_EQ(shell_word("my model.onnx"), "'my model.onnx'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(FileKind, NamesWhatItIs) {
  EXPECT_EQ(describe_content("\xff\xd8\xff\xe0"), "a JPEG image");
  EXPECT_EQ(describe_content("\n<html><body>"), "an HTML page");
  EXPECT_EQ(describe_content("version https://git-lfs.github.com/spec/v1"),
            "a Git LFS pointer, not the file itself (run 'git lfs pull')");
  EXPECT_EQ(describe_content(""), "empty");
  EXPECT_EQ(describe_content("hello"), "plain text");
  EXPECT_EQ(describe_content(std::string_view("\0\1\2", 3)), "binary data");
}

TEST(File, RefusesWhatIsNoFile) {
  EXPECT_EQ(read_head("/", 10).error().message, "is a directory, expected a file");
  EXPECT_EQ(read_head("/dev/null", 10).error().message, "is not a regular file");
  EXPECT_EQ(read_head("/nonexistent", 10).error().message, "No such file or directory");
}

}  // namespace
}  // namespace rooftile
