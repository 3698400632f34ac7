#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/line_mutator.h"
#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/script_mutator.h"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> stored(const std::string& target) {
  std::vector<std::string> texts;
  for (const auto& entry :
       fs::directory_iterator(fs::path(ROOFTILE_ROOT) / "tests/fuzz/corpus" / target)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

TEST(ModelMutator, MakesOtherModelsOfAllSeeds) {
  const std::vector<std::string> seeds = stored("onnx");
  ASSERT_FALSE(seeds.empty());
  int changed = 0, made = 0;
  for (const std::string& seed : seeds) {
    for (std::uint32_t i = 0; i < 100; ++i) {
      onnx::ModelProto model, donor, again;
      ASSERT_TRUE(model.ParseFromString(seed));
      ASSERT_TRUE(donor.ParseFromString(seeds[i % seeds.size()]));
      fuzzing::ModelMutator(model, donor, i).mutate();
      const std::string bytes = model.SerializeAsString();
      EXPECT_TRUE(again.ParseFromString(bytes));
      changed += bytes == seed ? 0 : 1;
      ++made;
    }
  }
  EXPECT_GT(changed, made * 8 / 10);
}

TEST(ModelMutator, TakesModelsWithoutAnything) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    onnx::ModelProto model;
    const onnx::ModelProto donor;
    fuzzing::ModelMutator(model, donor, i).mutate();
  }
}

TEST(ScriptMutator, MostMutantsAreOthersAndStillParse) {
  const std::vector<std::string> seeds = stored("python");
  ASSERT_FALSE(seeds.empty());
  int changed = 0, parsed = 0, made = 0;
  for (const std::string& seed : seeds) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      const auto script = fuzzing::parts_of(seed),
                 donor = fuzzing::parts_of(seeds[i % seeds.size()]);
      ASSERT_TRUE(script && donor);
      const std::string text = fuzzing::ScriptMutator(*script, *donor, i).mutate();
      const auto tree = rooftile::python::parse_python(text);
      changed += text == seed ? 0 : 1;
      parsed += tree && !tree->has_errors ? 1 : 0;
      ++made;
    }
  }
  EXPECT_GT(changed, made * 8 / 10);
  EXPECT_GT(parsed, made * 8 / 10);
}

TEST(ScriptMutator, ABlockMovesWithItsLines) {
  EXPECT_EQ(fuzzing::reindented("if a:\n        b()\n", "    ", ""), "if a:\n    b()\n");
  EXPECT_EQ(fuzzing::reindented("if a:\n    b()", "", "  "), "if a:\n      b()");
}

TEST(ScriptMutator, TakesAnyText) {
  for (const std::string_view text : {"", "(", "\n\n", "if", "\xff\xfe", "x"}) {
    const auto parts = fuzzing::parts_of(text);
    for (std::uint32_t i = 0; parts && i < 50; ++i) {
      fuzzing::ScriptMutator(*parts, *parts, i).mutate();
    }
  }
}

TEST(JsonMutator, MostMutantsAreOthersAndStillParse) {
  const std::vector<std::string> seeds = stored("hf_config");
  ASSERT_FALSE(seeds.empty());
  int changed = 0, parsed = 0, made = 0;
  for (const std::string& seed : seeds) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::string text = fuzzing::JsonMutator(seed, i).mutate();
      changed += text == seed ? 0 : 1;
      parsed += fuzzing::JsonScanner(text).scan() ? 1 : 0;
      ++made;
    }
  }
  EXPECT_GT(changed, made * 8 / 10);
  EXPECT_EQ(parsed, made);
}

TEST(JsonMutator, TakesAnyText) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1,"), std::string("\"\\"),
        std::string("{\"a\""), std::string("[]"), std::string("-"), std::string(500, '[')}) {
    for (std::uint32_t i = 0; i < 50; ++i) fuzzing::JsonMutator(text, i).mutate();
  }
}

TEST(LineMutator, TakesAnyText) {
  for (const char* text : {"", "\n", "=", "a=1 b", " \n \n", "99999999999999999999999"}) {
    for (std::uint32_t i = 0; i < 50; ++i) fuzzing::LineMutator(text, i).mutate();
  }
}

}  // namespace
