// What a Python library's functions and classes give, in a file of data/libraries.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::toml_file {

struct LibraryCalls {
  std::string gives;               // "new_tensor", "optimizer"; the reader of the text knows which
  std::vector<std::string> names;  // full ones; with `*` or `[`: patterns
  int line = 0;
};

struct LibraryFile {
  std::string library, source;
  std::vector<std::string> dtypes, builtins, true_with_gpu, keeps_results;
  std::vector<std::pair<std::string, std::string>> spellings, homes;  // other name, public name
  std::vector<std::pair<std::string, std::string>> since;  // name, first version that has it
  std::vector<std::pair<std::string, std::vector<std::string>>> exports;  // package, patterns
  std::vector<LibraryCalls> calls;
};

// docs/formats/library.md explains the keys. Errors name the line, what stands there and what was
// expected.
Result<LibraryFile> parse_library(std::string_view text, const std::string& path);

}  // namespace rooftile::toml_file
