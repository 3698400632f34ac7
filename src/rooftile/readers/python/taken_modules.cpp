// Modules that are loaded by a name that is not known, told by what the script takes of them.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {}  // namespace

void add_import(const File& importer, const File& file) {
  auto& imported = const_cast<File&>(importer).imported;
  if (&file == &importer || file.is_notebook) return;
  if (std::ranges::find(imported, &file) == imported.end()) imported.push_back(&file);
}

bool loads_module(const Call& call) {
  const auto loads = [](const Call& one) {
    return is_one_of(one.method, {"import_module", "__import__", "spec_from_file_location",
                                  "load_source", "SourceFileLoader"});
  };
  if (call.target == nullptr) return loads(call);
  if (!contains_any(call.method, {"import", "load", "module"})) return false;
  const ByteRange own = call.target->statement->range;
  return std::ranges::any_of(call.target->file->calls, [&](const Call* one) {
    const ByteRange at = one->expr->range;
    return at.begin >= own.begin && at.end <= own.end && one->target == nullptr && loads(*one);
  });
}

std::vector<const File*> with_imported(const File& file) {
  std::vector<const File*> found, pending{&file};
  FileSet seen;
  while (!pending.empty()) {
    const File* next = pending.back();
    pending.pop_back();
    if (!seen.insert(*next)) continue;
    found.push_back(next);
    pending.insert(pending.end(), next->imported.begin(), next->imported.end());
  }
  return found;
}

}  // namespace rooftile::source
