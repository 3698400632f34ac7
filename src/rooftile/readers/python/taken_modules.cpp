// Modules that are loaded by a name that is not known, told by what the script takes of them.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

// `Net` of `load_source(name, path).Net(…)` and `getattr(import_module(name), "Net")`.
std::string_view taken_at_once(const Call& call) {
  const Expr* use = call.expr->parent;
  if (use == nullptr) return {};
  if (use->kind == ExprKind::attribute) return use->word();
  const Call* taken = use->call();
  const bool is_taken = taken != nullptr && taken->name == "getattr" &&
                        taken->arguments.size() > 1 && taken->arguments[0].value == call.expr &&
                        taken->arguments[1].value->kind == ExprKind::text;
  return is_taken ? taken->arguments[1].value->word() : std::string_view();
}

// The files with the function of `load(path).create_model()`, a path that is not known.
std::vector<const File*> modules_by_function(const SourceFacts& facts, const Call& call) {
  const Expr* use = call.expr->parent;
  const bool is_taken = use != nullptr && use->kind == ExprKind::attribute &&
                        use->parent != nullptr && use->parent->call() != nullptr;
  if (!is_taken || !contains_any(use->word(), {"model", "net", "backbone"})) return {};
  constexpr std::size_t kMaxFiles = 16;
  std::vector<const File*> found;
  for (const auto& file : facts.files) {
    const bool has_it = std::ranges::any_of(file->functions, [&](const FunctionDef* one) {
      return one->name == use->word() && one->class_def == nullptr && one->outer == nullptr;
    });
    if (has_it && file.get() != call.file) found.push_back(file.get());
  }
  if (found.size() > kMaxFiles) found.clear();
  return found;
}

// The only other file with a class or function of the name that is taken of the module at once:
// `load_source(name, path).Renderer(net)`.
std::vector<const File*> module_by_name(const SourceFacts& facts, const Call& call) {
  const std::string_view name = taken_at_once(call);
  std::vector<const File*> found;
  if (name.empty()) return found;
  for (const auto& file : facts.files) {
    const auto is_it = [&](const auto* def) {
      return def->name == name && def->statement->parent == nullptr;
    };
    const bool has_it =
        std::ranges::any_of(file->classes, is_it) || std::ranges::any_of(file->functions, is_it);
    if (has_it && file.get() != call.file) found.push_back(file.get());
  }
  if (found.size() > 1) found.clear();
  return found;
}

}  // namespace

void add_import(const File& importer, const File& file) {
  auto& imported = const_cast<File&>(importer).imported;
  if (&file == &importer || file.is_notebook) return;
  if (std::ranges::find(imported, &file) == imported.end()) imported.push_back(&file);
}

std::vector<const File*> modules_by_use(const SourceFacts& facts, const Call& call) {
  const Expr* variable = call.statement == nullptr ? nullptr : call.statement->target;
  const bool is_kept = variable != nullptr && variable->kind == ExprKind::name &&
                       call.statement->kind == StatementKind::assignment &&
                       call.statement->value == call.expr;
  const std::string_view at_once = taken_at_once(call);
  if (!is_kept && at_once.empty()) return {};
  std::unordered_set<std::string_view> taken;
  if (!at_once.empty()) taken.insert(at_once);
  for (const Call* use : call.file->calls) {
    const bool is_of_it = is_kept && use->receiver != nullptr &&
                          use->receiver->kind == ExprKind::name &&
                          use->receiver->word() == variable->word();
    if (is_of_it) taken.insert(use->method);
  }
  constexpr std::size_t kMaxFiles = 16;
  std::vector<const File*> found;
  for (const auto& file : facts.files) {
    const bool has_network = std::ranges::any_of(file->classes, [&](const ClassDef* def) {
      // Bases are not read yet where the import stands at the top of a file.
      const bool is_network = def->is_module || def->method("forward") != nullptr;
      return is_network && taken.contains(def->name) && def->statement->parent == nullptr;
    });
    if (has_network && file.get() != call.file) found.push_back(file.get());
  }
  if (found.size() > kMaxFiles) found.clear();
  return found;
}

std::vector<const File*> modules_taken_of(const SourceFacts& facts, const Call& call) {
  auto used = modules_by_use(facts, call);
  if (used.empty()) used = modules_by_function(facts, call);
  if (used.empty()) used = module_by_name(facts, call);
  return used;
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
