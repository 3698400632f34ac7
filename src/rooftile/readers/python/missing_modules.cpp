#include "rooftile/readers/python/missing_modules.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/refused.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFoldersUp = 4;

// What a build makes: compiled extensions, messages of protobuf, versions.
bool is_built(std::string_view module) {
  return module.starts_with('_') || module.ends_with("_pb2") ||
         contains_any(lower(module), {"version", "cuda", "cpp", "ext", "ops", "lib"});
}

// Whether some file or folder there has the module's name, whatever its ending.
bool has_module(const fs::path& package, std::string_view module) {
  std::error_code error;
  const auto entries = fs::directory_iterator(package, error);
  if (error) return true;
  return std::any_of(fs::begin(entries), fs::end(entries), [&](const fs::directory_entry& each) {
    const std::string name = each.path().filename().string();
    return std::string_view(name).substr(0, name.find('.')) == module;
  });
}

// Of "modules.background.Predictor" the package and the module; empty for what has fewer parts.
bool is_missing(const File& file, std::string_view full_name) {
  const auto parts = split(full_name, '.');
  if (parts.size() < 3 || is_built(parts[1])) return false;
  // Found, in a package of the same name further down.
  const std::string found = "/" + std::string(parts[0]) + "/" + std::string(parts[1]);
  const bool is_imported = std::ranges::any_of(file.imported, [&](const File* other) {
    return contains(other->path, found + "/") || contains(other->path, found + ".py");
  });
  if (is_imported) return false;
  std::error_code error;
  fs::path folder = fs::weakly_canonical(file.path, error).parent_path();
  bool lacks = false;
  for (int up = 0; up < kMaxFoldersUp && !error; ++up, folder = folder.parent_path()) {
    if (fs::exists(folder / "__init__.py", error))
      continue;  // a package: absolute names start above
    const fs::path package = folder / parts[0];
    // Another file there is imported: the package is the project's own.
    const bool is_own = std::ranges::any_of(file.imported, [&](const File* other) {
      return fs::weakly_canonical(other->path, error).parent_path() == package;
    });
    if (!is_own) continue;
    if (has_module(package, parts[1])) return false;
    lacks = true;
  }
  return lacks;
}

}  // namespace

void note_missing_modules(const SourceFacts& facts) {
  auto& lacking = facts.store().kept<LackingModules>().files;
  for (const auto& file : facts.files) {
    if (file->is_notebook || file->is_configuration) continue;
    const bool lacks = std::ranges::any_of(file->body, [&](const Statement* statement) {
      return statement->kind == StatementKind::import_ &&
             std::ranges::any_of(statement->imports, [&](const ImportedName& name) {
               return is_missing(*file, name.full_name);
             });
    });
    if (lacks) lacking.insert(file.get());
  }
}

}  // namespace rooftile::source
