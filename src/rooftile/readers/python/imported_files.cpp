// What files import, of derive.h.
#include <algorithm>

#include "rooftile/readers/python/derive.h"

namespace rooftile::source {

void add_import(const File& importer, const File& file) {
  auto& imported = const_cast<File&>(importer).imported;
  if (&file == &importer || file.is_notebook) return;
  if (std::ranges::find(imported, &file) == imported.end()) imported.push_back(&file);
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
