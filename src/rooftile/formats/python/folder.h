// Which Python files a folder holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::python {

// The rules of one .gitignore. Patterns as in git's documentation, gitignore(5): `*`, `?`, `[…]`,
// `**`, a leading `!`, `/` at the front or in the middle anchors, `/` at the end means folders.
class IgnoreRules {
 public:
  explicit IgnoreRules(std::string_view text);

  // What the last matching rule says of a path relative to the .gitignore's folder.
  enum class Verdict { none, ignored, kept };
  Verdict judge(std::string_view path, bool is_folder) const;

 private:
  struct Rule {
    std::string pattern;
    bool negated = false, folders_only = false, anchored = false;
  };
  std::vector<Rule> rules_;
};

// Whether the pattern matches the whole text; `*` and `?` do not match "/", `**` does. At most
// some thousand steps: what takes longer does not match.
bool matches_glob(std::string_view pattern, std::string_view text);

// Paths of .py and .ipynb files below a folder, sorted. Without .git, caches, environments and
// build outputs, what .gitignore rules exclude, and links that lead to a folder seen before.
Result<std::vector<std::string>> python_files(const std::string& folder);

}  // namespace rooftile::python
