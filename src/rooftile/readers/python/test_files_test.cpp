#include <gtest/gtest.h>

#include <utility>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

TEST(TestFiles, TestsAreKnownByTheirNames) {
  for (const auto& [path, expected] :
       {std::pair("test_ops.py", true), std::pair("ops_test.py", false),
        std::pair("tests/helper.py", true), std::pair("conftest.py", true),
        std::pair("train.py", false), std::pair("latest.py", false)}) {
    const Result<SourceFacts> facts = read_python_text(path, "import torch\nx = torch.zeros(2)\n");
    ASSERT_TRUE(facts && facts->files.size() == 1) << path;
    EXPECT_EQ(facts->files.front()->is_test, expected) << path;
  }
}

TEST(TestFiles, EndingsOfNamesNeedTestsInTheFile) {
  for (const auto& [text, expected] :
       {std::pair("import torch\ndef test_sum():\n  assert torch.ones(2).sum() == 2\n", true),
        std::pair("import torch\nimport unittest\nx = torch.zeros(2)\n", true),
        std::pair("import torch\ndef test():\n  return torch.zeros(2)\n", false)}) {
    const Result<SourceFacts> facts = read_python_text("ops_test.py", text);
    ASSERT_TRUE(facts && facts->files.size() == 1) << text;
    EXPECT_EQ(facts->files.front()->is_test, expected) << text;
  }
}

}  // namespace
}  // namespace rooftile::source
