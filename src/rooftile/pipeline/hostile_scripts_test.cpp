// Scripts and folders that were made to be slow, or to lead elsewhere.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/source_store.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
using source::SourceFacts;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Each operand that is looked at twice would double the time: 2^100.
TEST(HostileScripts, LongConditions) {
  std::string condition = "a == 0";
  for (int i = 1; i < 100; ++i) condition += fmt::format(" {} a == {}", i % 2 ? "or" : "and", i);
  EXPECT_TRUE(read_python_text("t.py", "import torch\nx = " + condition + "\n").has_value());
}

// 8 bases each, 12 levels: 8^12 ways up.
TEST(HostileScripts, WideHierarchies) {
  constexpr int kWide = 8, kDeep = 12;
  std::string text = "import torch\n";
  for (int level = 0; level < kDeep; ++level) {
    for (int i = 0; i < kWide; ++i) {
      std::string bases = "object";
      for (int base = 0; level > 0 && base < kWide; ++base) {
        bases += fmt::format(", C{}_{}", level - 1, base);
      }
      text += fmt::format("class C{}_{}({}):\n    pass\n", level, i, bases);
    }
  }
  text += "x = C11_0()\nx.missing()\nprint(x.also_missing)\n";
  EXPECT_TRUE(read_python_text("t.py", text).has_value());
}

TEST(HostileScripts, FilesThatImportEachOther) {
  constexpr int kFiles = 60, kNames = 30;
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < kFiles; ++i) {
    std::string text = "import torch\n";
    for (int other = 0; other < kFiles; ++other) text += fmt::format("from m{} import *\n", other);
    for (int name = 0; name < kNames; ++name) text += fmt::format("unknown{}()\n", name);
    files.emplace_back(fmt::format("m{}.py", i), text);
  }
  EXPECT_TRUE(read_python_texts(files).has_value());
}

class HostileFolders : public testing::Test {
 protected:
  HostileFolders() { fs::create_directories(root_ / "named"); }

  void put(const std::string& name, const std::string& text) { root_.write(name, text); }
  SourceFacts facts_of_named() {
    const std::string paths[] = {(root_ / "named").string()};
    return read_python(paths, {}).value();
  }

  TemporaryFolder root_;
};

TEST_F(HostileFolders, LinksOutAreNamedAndNotFollowed) {
  fs::create_directories(root_ / "home");
  put("home/mine.py", "import torch\n");
  put("named/train.py", "import torch\n");
  fs::create_symlink("../home/mine.py", root_ / "named/link.py");
  fs::create_symlink("../home", root_ / "named/package");
  fs::create_symlink("/", root_ / "named/everything");
  fs::create_symlink("train.py", root_ / "named/inside.py");
  const SourceFacts facts = facts_of_named();
  EXPECT_EQ(facts.files.size(), 2u) << "train.py, and the link to it";
  ASSERT_EQ(facts.skipped.size(), 3u);
  EXPECT_THAT(facts.skipped[0].reason, HasSubstr("link out of the folder"));
}

TEST_F(HostileFolders, SlowPatternsAreGivenUp) {
  std::string patterns;
  for (int i = 0; i < 4'000; ++i) patterns += "*a*a*a*a*a*a*a*b\n";
  put("named/.gitignore", patterns);
  for (int i = 0; i < 10; ++i) put(fmt::format("named/{}{}.py", std::string(200, 'a'), i), "x = 1");
  EXPECT_EQ(facts_of_named().not_relevant.size(), 10u);
}

TEST_F(HostileFolders, ConfigurationsOutsideOfTheProjectAreNotRead) {
  fs::create_directories(root_ / "secret");
  put("named/setup.py", "");
  put("secret/key.yaml", "token: hidden\n");
  put("named/inside.yaml", "defaults:\n  - //" + (root_ / "secret").string() + ": key\nlr: 1\n");
  for (const std::string start :
       {"config_path='../secret', config_name='key'", "config_path='.', config_name='inside'"}) {
    put("named/train.py", fmt::format("import hydra, torch\n@hydra.main({})\ndef main(cfg):\n"
                                      "    print(cfg.token)\n",
                                      start));
    const SourceFacts facts = facts_of_named();
    for (const auto& file : facts.store().configurations) {
      EXPECT_THAT(file->text, Not(HasSubstr("hidden"))) << start;
    }
  }
}

TEST_F(HostileFolders, SyntaxErrorsAreNamedAndNotJudged) {
  put("named/train.py", "import torch\nx = (1,\n\ndef f(:\n    pass\n");
  const std::string paths[] = {(root_ / "named").string()};
  const Workload workload = read_all(paths, {}).value();
  const Report report = check(workload, all_rules());
  EXPECT_EQ(verdict_of(report), CheckVerdict::not_judged);
  EXPECT_THAT(report.not_judged_because,
              HasSubstr("1 of 1 Python files could not be read in full"));
  EXPECT_THAT(report.notes, Contains(HasSubstr("syntax errors")));
  EXPECT_THAT(report.notes, Contains(HasSubstr("train.py:")));
}

}  // namespace
}  // namespace rooftile
