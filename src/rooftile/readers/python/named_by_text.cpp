// Classes and functions that a script names by a text: `class_name="training.loss.OwnLoss"`, and
// the `_target_` of a configuration.
#include <algorithm>
#include <unordered_map>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

const File* file_named(const Store& store, std::string_view full_name) {
  const auto def = store.classes_by_name.find(full_name);
  if (def != store.classes_by_name.end()) return def->second->file;
  const auto function = store.functions_by_name.find(full_name);
  const bool is_plain = function != store.functions_by_name.end() &&
                        function->second->class_def == nullptr &&
                        function->second->outer == nullptr;
  return is_plain ? function->second->file : nullptr;
}

// Texts in a file name what it loads.
void follow_texts(const SourceFacts& facts) {
  const Store& store = facts.store();
  for (const auto& file : facts.files) {
    for (const std::string_view text : file->dotted_texts) {
      if (const File* named = file_named(store, text)) add_import(*file, *named);
    }
  }
}

// What the configurations of Hydra make is loaded by the files that make objects of them.
void follow_targets(const SourceFacts& facts) {
  const Store& store = facts.store();
  std::vector<const File*> makers;
  for (const auto& file : facts.files) {
    const bool makes = std::ranges::any_of(file->calls, [](const Call* call) {
      return call->method == "instantiate" && call->target == nullptr;
    });
    if (makes) makers.push_back(file.get());
  }
  for (const auto& configuration : store.configurations) {
    for (const Statement* statement : configuration->statements) {
      const bool is_target = statement->kind == StatementKind::assignment &&
                             statement->value != nullptr &&
                             statement->target->word() == "_target_" && may_name(*statement->value);
      if (!is_target) continue;
      const ClassDef* def = named_by_text(store, statement->value->word());
      const File* file = def != nullptr ? def->file : file_named(store, statement->value->word());
      for (const File* maker : makers) {
        if (file != nullptr) add_import(*maker, *file);
      }
    }
  }
}

}  // namespace

bool may_name(const Expr& expr) {
  constexpr std::size_t kMaxBytes = 120;
  if (expr.kind != ExprKind::text || expr.word().size() > kMaxBytes) return false;
  const std::size_t dot = expr.word().find('.');
  return dot != std::string_view::npos && dot != 0 && !expr.word().ends_with('.') &&
         expr.word().find_first_of(" /\\\n") == std::string_view::npos;
}

const ClassDef* named_by_text(const Store& store, std::string_view name) {
  const auto exact = store.classes_by_name.find(name);
  if (exact != store.classes_by_name.end()) return exact->second;
  // `vip.VIP` of vip/models/model.py, by an `__init__.py` that is not given, or below src/.
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  const std::string_view package = name.substr(0, name.find('.'));
  const std::string_view own = name.substr(dot + 1);
  const ClassDef* found = nullptr;
  for (const auto& [full_name, def] : store.classes_by_name) {
    if (def->name != own) continue;
    const auto parts = split(full_name, '.');
    const bool is_below = std::ranges::find(parts, package) != parts.end();
    if (!is_below) continue;
    if (found != nullptr) return nullptr;
    found = def;
  }
  return found;
}

void follow_names_in_texts(SourceFacts& facts) {
  follow_texts(facts);
  follow_targets(facts);
}

}  // namespace rooftile::source
