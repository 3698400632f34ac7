// What a project says about its checks, in rooftile.toml or in pyproject.toml's [tool.rooftile].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::toml_file {

// A text of the file and its line.
struct Entry {
  std::string text;
  int line = 0;
};

// Rules that are not asked in some files.
struct PathIgnore {
  std::string path;  // pattern as in a .gitignore
  std::vector<Entry> rules;
};

struct Settings {
  std::string file;    // empty: there is none
  std::string folder;  // of the file; paths in it count from here
  std::vector<Entry> select, ignore, exclude;
  std::vector<PathIgnore> path_ignores;
  std::optional<Entry> gpu, fail_on, baseline;

  // "pyproject.toml:12", for errors about an entry.
  std::string where(const Entry& entry) const;
};

// Keys outside of our table are none of our business in pyproject.toml. Errors: TOML that cannot be
// read, keys that we do not know, values of another type, all with file and line.
Result<Settings> parse_settings(std::string_view text, const std::string& path);

// Of the nearest folder, from the one of `input` upwards, that has a rooftile.toml or a
// pyproject.toml with our table. Where `input` is no file and no folder, the current folder's.
Result<Settings> find_settings(const std::string& input);

}  // namespace rooftile::toml_file
