// Variants of an input against a golden: for each a line of what was changed with a hash of all
// that is concluded of it, and below it the first lines that its seed does not have, and that it
// lacks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

// What differs: "3: 'bias=True' -> 'bias=False'" in line 3.
std::string change_text(std::string_view before, std::string_view after);

// A number for a name: the same everywhere.
std::uint32_t hash_of(std::string_view text);

class Variants {
 public:
  explicit Variants(std::filesystem::path golden) : golden_(std::move(golden)) {}

  void title(const std::string& heading);
  void seed(const std::string& heading, const std::vector<std::string>& lines);
  void add(const std::string& change, const std::vector<std::string>& lines);

  // Compares all of them; a variant that differs is a failure that shows both.
  void expect() const;

 private:
  static std::map<std::string, std::string> by_change(const std::string& text);

  std::filesystem::path golden_;
  std::string text_;
  std::vector<std::string> seed_;
};

}  // namespace rooftile
