#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "rooftile/readers/python/read_python.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

TEST(TestFiles, TestsAreKnownByTheirNames) {
  for (const auto& [path, expected] :
       {std::pair("test_ops.py", true), std::pair("ops_test.py", false),
        std::pair("tests/helper.py", true), std::pair("conftest.py", true),
        std::pair("train.py", false), std::pair("latest.py", false),
        std::pair("own/tests/helper.py", true), std::pair("own/testing/helper.py", true),
        std::pair("test/helper.py", true), std::pair("tests.py", false),
        std::pair("mytests/helper.py", false), std::pair("own/test_ops.py", true)}) {
    const Result<SourceFacts> facts = read_python_text(path, "import torch\nx = torch.zeros(2)\n");
    ASSERT_TRUE(facts && facts->files.size() == 1) << path;
    EXPECT_EQ(facts->files.front()->is_test, expected) << path;
  }
}

TEST(TestFiles, EndingsOfNamesNeedTestsInTheFile) {
  for (const auto& [text, expected] :
       {std::pair("import torch\ndef test_sum():\n  assert torch.ones(2).sum() == 2\n", true),
        std::pair("import torch\nimport unittest\nx = torch.zeros(2)\n", true),
        std::pair("import torch\nimport pytest\n", true),
        std::pair("import torch\nfrom absl.testing import absltest\n", true),
        std::pair("import torch\nfrom torch.testing import assert_close\n", true),
        std::pair("import torch\ndef test_net():\n  pass\ndef train():\n  test_net()\n", false),
        std::pair("import torch\ndef test_net():\n  pass\ndef test_all():\n  test_net()\n", true),
        std::pair("import torch\ndef test_net():\n  pass\ntest_net()\n", true),
        std::pair("import torch\nclass T:\n  def test_net(self):\n    pass\n", true),
        std::pair("import torch\ndef run():\n  def test_net():\n    pass\n", false),
        std::pair("import torch\ndef test():\n  return torch.zeros(2)\n", false)}) {
    const Result<SourceFacts> facts = read_python_text("ops_test.py", text);
    ASSERT_TRUE(facts && facts->files.size() == 1) << text;
    EXPECT_EQ(facts->files.front()->is_test, expected) << text;
  }
}

// The files that are parsed of a folder that holds these, by their paths in it.
std::set<std::string> read_of(const std::vector<std::pair<std::string, std::string>>& files) {
  namespace fs = std::filesystem;
  const TemporaryFolder root;
  for (const auto& [path, text] : files) root.write(path, text);
  const std::vector<std::string> paths{root.string()};
  const Result<SourceFacts> facts = read_python(paths, {});
  EXPECT_TRUE(facts.has_value());
  std::set<std::string> read;
  for (const auto& file : facts->files) {
    read.insert(fs::path(file->path).lexically_relative(root.path()).string());
  }
  return read;
}

TEST(TestFiles, TestsOfAFolderThatNothingImportsAreLeftOut) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"train.py", "import torch\nfrom tests.nets import Net\n"},
      {"tests/nets.py", "import torch\nfrom .blocks import Block\n"},
      {"tests/blocks.py", "import torch\n"},
      {"tests/alone.py", "import torch\n"},
      {"test_ops.py", "import torch\ndef test_sum():\n  pass\n"},
      {"test_a.py", "import torch\nimport pytest\n"},
      {"test_b.py", "import torch\nimport unittest\n"},
      {"test_c.py", "import torch\n"},
      {"test_cityscapes.py", "import torch\nfrom train import Net\nNet().eval()\n"}};
  EXPECT_EQ(read_of(files), (std::set<std::string>{"train.py", "tests/nets.py", "tests/blocks.py",
                                                   "test_c.py", "test_cityscapes.py"}));
}

TEST(TestFiles, WhatImportsOrIsImportedIsRead) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"train.py", "import torch\nfrom data import load\n"},
      {"data.py", "def load():\n  return 1\n"},
      {"run.py", "import train\n"},
      {"indented.py", "if x:\n \tfrom train import y\n"},
      {"said.py", "x = 'import train'\n"},
      {"other.py", "import os\n"},
      {"second.py", "import data\n"},
      {"lib/__init__.py", "from .deep import x\nimport train\n"},
      {"lib/deep.py", "x = 1\n"},
      {"lib/more.py", "x = 1\n"}};
  EXPECT_EQ(read_of(files), (std::set<std::string>{"train.py", "data.py", "run.py", "indented.py",
                                                   "lib/__init__.py", "lib/deep.py"}));
}

}  // namespace
}  // namespace rooftile::source
