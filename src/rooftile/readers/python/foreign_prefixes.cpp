// Imports by a path that the given files lack (inference.h): in a part of a larger tree, or in a
// checkout whose folder has another name, `import vision.mvit.utils.misc` means utils/misc.py. And
// which of several files of one name is meant.
#include <algorithm>

#include "rooftile/readers/python/inference.h"
#include "rooftile/readers/python/known_names.h"

namespace rooftile::source {
namespace {

// Calls look(prefix, rest) for the two sides of each dot, the shortest prefix first, until true.
template <class Look>
bool for_splits(std::string_view name, const Look& look) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    if (look(name.substr(0, dot), name.substr(dot + 1))) return true;
  }
  return false;
}

}  // namespace

// A prefix is foreign when most imports of its root lead to given files once it is taken off, and
// to two at least: of a library that has a utils/misc.py as well, only some do.
void Inference::find_foreign_prefixes() {
  struct Uses {
    std::unordered_set<const File*> files;
    std::size_t imports = 0;
  };
  std::unordered_map<std::string_view, Uses> prefixes;
  std::unordered_map<std::string_view, std::size_t> imports_of_root;
  const auto led_by = [&](std::string_view name) {
    const auto file = modules_.find(name);
    return file == modules_.end() ? nullptr : file->second;
  };
  const auto look_at = [&](std::string_view name) {
    const bool is_here = for_splits(
        name, [&](std::string_view start, auto) { return modules_by_suffix_.contains(start); });
    if (is_here || modules_by_suffix_.contains(name) || is_library_root(name)) return;
    ++imports_of_root[name.substr(0, name.find('.'))];
    for_splits(name, [&](std::string_view prefix, std::string_view rest) {
      const std::size_t last = rest.rfind('.');
      if (last == std::string_view::npos) return false;
      const File* file = led_by(rest);
      const std::string_view holder = rest.substr(0, last);
      if (file == nullptr && holder.find('.') != std::string_view::npos) file = led_by(holder);
      if (file == nullptr) return false;
      Uses& uses = prefixes[prefix];
      uses.files.insert(file);
      ++uses.imports;
      return true;
    });
  };
  for (const auto& file : facts_.files) {
    for (const Statement* statement : file->statements) {
      for (const ImportedName& each : statement->imports) look_at(each.full_name);
    }
  }
  for (const auto& [prefix, uses] : prefixes) {
    const std::size_t all = imports_of_root[prefix.substr(0, prefix.find('.'))];
    if (uses.files.size() > 1 && uses.imports * 2 >= all) foreign_prefixes_.insert(prefix);
  }
}

const File* Inference::find_behind_foreign_prefix(std::string_view name) const {
  const File* found = nullptr;
  for_splits(name, [&](std::string_view prefix, std::string_view rest) {
    if (!foreign_prefixes_.contains(prefix)) return false;
    const auto file = modules_.find(rest);
    if (file != modules_.end()) found = file->second;
    return found != nullptr;
  });
  return found;
}

// Whether the file has the name at its top level, defined or imported; anything may be behind `*`.
bool Inference::defines(const File& file, std::string_view name) const {
  const auto is_here = [&](const auto* def) {
    return def->name == name && def->statement->function == nullptr;
  };
  if (std::ranges::any_of(file.functions, is_here) || std::ranges::any_of(file.classes, is_here)) {
    return true;
  }
  const auto is_it = [&](const Expr* target) {
    return target->kind == ExprKind::name && target->word() == name;
  };
  return std::ranges::any_of(file.statements, [&](const Statement* statement) {
    const Expr* target = statement->target;
    return std::ranges::any_of(
               statement->imports,
               [&](const ImportedName& each) { return each.local == name || each.local == "*"; }) ||
           (target != nullptr && (is_it(target) || std::ranges::any_of(target->children(), is_it)));
  });
}

// `from utils import read` beside another utils.py, that lacks it: the one at the root.
const File* Inference::find_definer(std::string_view name, std::string_view member,
                                    const File& found) const {
  const auto own = modules_.find(name);
  const bool has_choice = own != modules_.end() && own->second != &found;
  if (!has_choice || found.path.ends_with("__init__.py")) return &found;
  return !defines(found, member) && defines(*own->second, member) ? own->second : &found;
}

}  // namespace rooftile::source
