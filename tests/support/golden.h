// Texts against files in tests/golden. UPDATE_GOLDENS=1 in the environment rewrites them; read the
// difference before you commit it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace rooftile {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void expect_golden(const std::filesystem::path& path, const std::string& text) {
  const char* update = std::getenv("UPDATE_GOLDENS");
  if (update != nullptr && *update == '1') {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: run with UPDATE_GOLDENS=1";
  EXPECT_EQ(text, file_text(path)) << path << " differs: if it should, run with UPDATE_GOLDENS=1";
}

}  // namespace rooftile
