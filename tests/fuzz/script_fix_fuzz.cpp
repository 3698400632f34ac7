// Any bytes as a script: all rules are asked, all their edits are made until none is left, and the
// result still parses if the input did. Asked anew, which one input in eight is, nothing else is
// found.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "rooftile/pipeline/fix.h"
#include "tests/fuzz/script_hooks.h"

namespace {

using rooftile::FixOptions;
using rooftile::FixResult;

// In a folder that is not there: no run reads files.
constexpr const char* kPath = "/no-such-folder/train.py";

rooftile::Result<FixResult> fix(const std::string& bytes) {
  FixOptions options;
  const auto rules = rooftile::all_rules();
  options.rules.assign(rules.begin(), rules.end());
  options.with_unsafe = true;
  options.read.contents[kPath] = bytes;
  const std::string paths[] = {kPath};
  return rooftile::fix_scripts(paths, options);
}

// Edits that would bring forth another finding are given up: made scripts often have two mistakes
// of which one hides the other.
void require_known_problems(const FixResult& result) {
  for (const std::string& problem : result.problems) {
    const bool known = problem.ends_with("has syntax errors") || problem.ends_with("without end") ||
                       problem.ends_with("not UTF-8 where a fix would edit") ||
                       problem.find("would have a new finding after its fixes") != problem.npos;
    if (!known) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Files without the word are passed over.
  const std::string bytes =
      "import torch\n" + std::string(reinterpret_cast<const char*>(data), size);
  const auto first = fix(bytes);
  if (!first) return 0;
  require_known_problems(*first);
  if (first->files.empty() || size % 8 != 0) return 0;
  const auto second = fix(first->files.front().after);
  if (!second || !second->files.empty()) std::abort();
  return 0;
}
