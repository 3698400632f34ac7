// Which Python files a folder holds.
#pragma once

#include <cstdint>
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
  // Patterns may be made to be slow: those that are left match nothing once this is used up.
  mutable std::int64_t steps_left_ = 100'000'000;
};

inline constexpr std::string_view kLinkOut = "a link out of the folder";

// What a walk did not enter or read, and why: "a link out of the folder".
struct LeftOut {
  std::string path, reason;
};

struct FolderFiles {
  std::vector<std::string> files;  // sorted
  std::vector<LeftOut> left_out;   // at most some hundred
};

// Paths of .py and .ipynb files below a folder. Without .git, caches, environments and build
// outputs, what .gitignore rules exclude, and links that lead to a folder seen before; links that
// lead out of the folder are left out, so that nothing else than what was named is read or edited.
Result<FolderFiles> python_files(const std::string& folder);

}  // namespace rooftile::python
