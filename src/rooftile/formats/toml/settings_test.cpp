#include "rooftile/formats/toml/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace rooftile::toml_file {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const std::vector<Entry>& entries) {
  std::vector<std::string> all;
  for (const Entry& entry : entries) all.push_back(entry.text);
  return all;
}

TEST(Settings, AllKeys) {
  const auto settings = parse_settings(R"(
select = ["precision/*", "compile/*"]
ignore = [
  "compile/off",
]
exclude = ["third_party/"]
gpu = "a100"
fail-on = "warning"
baseline = "rooftile-baseline.json"
[per-path-ignores]
"tests/**" = ["*"]
)",
                                       "conf/rooftile.toml");
  ASSERT_TRUE(settings) << to_string(settings.error());
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(settings->select), (Texts{"precision/*", "compile/*"}));
  EXPECT_EQ(texts(settings->ignore), (Texts{"compile/off"}));
  EXPECT_EQ(settings->where(settings->ignore.front()), "conf/rooftile.toml:4");
  EXPECT_EQ(texts(settings->exclude), (Texts{"third_party/"}));
  EXPECT_EQ(settings->gpu->text, "a100");
  EXPECT_EQ(settings->fail_on->text, "warning");
  EXPECT_EQ(settings->baseline->text, "rooftile-baseline.json");
  ASSERT_EQ(settings->path_ignores.size(), 1u);
  EXPECT_EQ(settings->path_ignores[0].path, "tests/**");
  EXPECT_EQ(texts(settings->path_ignores[0].rules), (Texts{"*"}));
  EXPECT_EQ(settings->folder, "conf");
}

TEST(Settings, PyprojectHasATableForUs) {
  const auto ours =
      parse_settings("[tool.other]\nx = 1\n[tool.rooftile]\ngpu = \"t4\"\n", "pyproject.toml");
  ASSERT_TRUE(ours) << to_string(ours.error());
  EXPECT_EQ(ours->gpu->text, "t4");
  const auto none = parse_settings("[tool.other]\nx = 1\n", "pyproject.toml");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->file, "");
}

TEST(Settings, TextsMayHaveAnyLetters) {
  const auto settings =
      parse_settings("exclude = [\"größe/*\", '\u1861Ux8'] # é\n", "rooftile.toml");
  ASSERT_TRUE(settings) << to_string(settings.error());
  EXPECT_EQ(settings->exclude[0].text, "größe/*");
  EXPECT_EQ(settings->exclude[1].text, "\u1861Ux8");
}

// What the library asserts on, or takes for granted.
TEST(Settings, WhatIsNoTomlIsAnError) {
  const std::string_view texts[] = {"[= [] ", std::string_view("a = 1\n[\0tool]", 12), "[\x7f]",
                                    "[[=", "a\u1861 = 1"};
  for (const std::string_view text : texts) {
    EXPECT_FALSE(parse_settings(text, "rooftile.toml")) << text;
  }
}

TEST(Settings, KeysOfCountlessPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 140'000; ++i) key += ".a";
  const auto deep = parse_settings("x = 1\n" + key + " = 1\n", "rooftile.toml");
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().where, "rooftile.toml:2");
  EXPECT_TRUE(parse_settings("ignore = [\"a.b.c\"]\n", "rooftile.toml"));
}

TEST(Settings, ErrorsNameFileAndLine) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"\nselct = []\n", "r/rooftile.toml:2: unknown key 'selct'; did you mean select?"},
      {"frobnicate_everything = 1\n", "r/rooftile.toml:1: unknown key 'frobnicate_everything'"},
      {"select = \"gemm/*\"\n",
       "r/rooftile.toml:1: select: expected a list of texts, found a text"},
      {"ignore = [\n1]\n",
       "r/rooftile.toml:2: ignore: expected a list of texts, and in it a text, found a number"},
      {"gpu = true\n", "r/rooftile.toml:1: gpu: expected a text, found true or false"},
      {"fail-on = \"never\"\n",
       "r/rooftile.toml:1: fail-on: expected error, warning, advice or info, found 'never'"},
      {"per-path-ignores = []\n",
       "r/rooftile.toml:1: per-path-ignores: expected a table of paths with lists of rules, found "
       "a list"}};
  for (const auto& each : cases) {
    const auto settings = parse_settings(each.text, "r/rooftile.toml");
    ASSERT_FALSE(settings) << each.text;
    EXPECT_EQ(to_string(settings.error()), each.message);
  }
  const auto broken = parse_settings("a = \n", "r/rooftile.toml");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where, "r/rooftile.toml:1");
}

TEST(Settings, NearestFolderWins) {
  const fs::path root = fs::path(testing::TempDir()) / "rooftile_settings";
  fs::create_directories(root / "project/src/deep");
  std::ofstream(root / "rooftile.toml") << "gpu = \"t4\"\n";
  std::ofstream(root / "project/pyproject.toml") << "[tool.rooftile]\ngpu = \"a100\"\n";
  std::ofstream(root / "project/src/pyproject.toml") << "[project]\nname = \"x\"\n";
  std::ofstream(root / "project/src/deep/train.py") << "import torch\n";
  const auto gpu_for = [&](const fs::path& input) {
    const auto settings = find_settings(input.string());
    return settings && settings->gpu ? settings->gpu->text : "none";
  };
  EXPECT_EQ(gpu_for(root / "project/src/deep/train.py"), "a100");
  EXPECT_EQ(gpu_for(root / "project"), "a100");
  EXPECT_EQ(gpu_for(root), "t4");
  fs::remove_all(root);
}

}  // namespace
}  // namespace rooftile::toml_file
