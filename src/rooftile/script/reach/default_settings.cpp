#include "rooftile/script/reach/default_settings.h"

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

// "network.width" of `opt["network"].get("width").lower()`, also where a variable keeps a part.
std::string keys_of(const Expr& expr) {
  constexpr int kMaxSteps = 16;
  std::string keys;
  const auto add = [&](std::string_view key) {
    keys = keys.empty() ? std::string(key) : std::string(key) + "." + keys;
  };
  const Expr* at = resolved(&expr);
  for (int i = 0; i < kMaxSteps; ++i) {
    const Call* call = at->call();
    if (call != nullptr && call->receiver != nullptr) {
      const bool gets = call->method == "get" && !call->arguments.empty() &&
                        call->arguments[0].value->kind == ExprKind::text;
      if (!gets && !is_one_of(call->method, {"lower", "upper", "strip"})) return {};
      if (gets) add(call->arguments[0].value->word());
      at = resolved(call->receiver);
    } else if (at->kind == ExprKind::subscript && at->children().size() == 2 &&
               at->children()[1]->kind == ExprKind::text) {
      add(at->children()[1]->word());
      at = resolved(at->children()[0]);
    } else if (at->kind == ExprKind::attribute && at->children()[0]->word() != "self") {
      add(at->word());
      at = resolved(at->children()[0]);
    } else {
      break;
    }
  }
  return keys;
}

// `kind == "gan"`, `kind in ("gan", "wgan")`; empty for other conditions.
std::optional<bool> truth_of(const SourceFacts& facts, const Program& program,
                             const Expr& condition) {
  const bool compares = condition.kind == ExprKind::comparison &&
                        condition.children().size() == 2 &&
                        is_one_of(condition.word(), {"==", "!=", "in", "not in"});
  const auto given =
      compares ? default_setting(facts, program, *condition.children()[0]) : std::nullopt;
  if (!given) return std::nullopt;
  const Expr& asked = *condition.children()[1];
  const auto is_given = [&](const Expr* one) {
    return one->kind == ExprKind::text && lower(one->word()) == lower(*given);
  };
  const bool are_several = asked.kind == ExprKind::list || asked.kind == ExprKind::tuple;
  if (!are_several && asked.kind != ExprKind::text) return std::nullopt;
  const bool holds =
      are_several ? std::ranges::any_of(asked.children(), is_given) : is_given(&asked);
  return holds == is_one_of(condition.word(), {"==", "in"});
}

bool is_left(const SourceFacts& facts, const Program& program, const Statement& import) {
  for (const Statement* at = &import; at->parent != nullptr; at = at->parent) {
    const Statement& choice = *at->parent;
    if (choice.kind != StatementKind::if_) continue;
    const bool is_else = at->block.data() != choice.body.data();
    if (truth_of(facts, program, *choice.value) == std::optional(is_else)) return true;
  }
  return false;
}

bool names(const ImportedName& name, const File& file) {
  const auto is_it = [&](std::string_view module) {
    return file.module == module || file.module.ends_with("." + std::string(module));
  };
  return is_it(name.full_name) || is_it(name.full_name.substr(0, name.full_name.rfind('.')));
}

// The imports of the file that the settings leave out: `others` is what else the program imports.
FileSet left_out(const SourceFacts& facts, const Program& program) {
  FileSet left, others;
  for (const File* file : program.files) {
    for (const File* imported : file->imported) {
      bool is_seen = false, is_out = true;
      for (const Statement* statement : file->statements) {
        const bool is_its = statement->kind == StatementKind::import_ &&
                            std::ranges::any_of(statement->imports, [&](const auto& name) {
                              return names(name, *imported);
                            });
        is_seen = is_seen || is_its;
        is_out = is_out && (!is_its || is_left(facts, program, *statement));
      }
      (is_seen && is_out ? left : others).insert(*imported);
    }
  }
  FileSet only;
  for (const File* file : program.files) {
    if (left.contains(*file) && !others.contains(*file)) only.insert(*file);
  }
  return only;
}

}  // namespace

std::optional<std::string_view> default_setting(const SourceFacts& facts, const Program& program,
                                                const Expr& expr) {
  const auto& by_entry = facts.store().kept<DefaultSettings>().by_entry;
  const auto values = by_entry.find(program.entry);
  const std::string keys = values == by_entry.end() ? std::string() : keys_of(expr);
  if (keys.empty()) return std::nullopt;
  std::optional<std::string_view> found;
  for (const auto& [path, value] : values->second) {
    if (path != keys && !path.ends_with("." + keys)) continue;
    if (found && *found != value) return std::nullopt;
    found = value;
  }
  return found;
}

bool runs_by_default(const SourceFacts& facts, const Program& program, const File& file) {
  if (!program.has(file)) return false;
  auto& kept = facts.store().kept<DefaultSettings>();
  if (!kept.by_entry.contains(program.entry)) return true;
  const auto [left, is_new] = kept.left.try_emplace(&program);
  if (is_new) left->second = left_out(facts, program);
  return !left->second.contains(file);
}

}  // namespace rooftile::source
