#include "rooftile/script/reach/unused.h"

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <unordered_map>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

// What a file says, and where.
using WordPlaces = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;

struct FileWords {
  WordPlaces names;
  WordPlaces members;  // of objects: `model.train` names no function of a module
};

struct Unused {
  std::unordered_map<const File*, FileWords> words;
  std::unordered_map<const File*, bool> taken_by_name;
  std::unordered_map<const File*, std::vector<const File*>> importers;
  std::unordered_map<const void*, bool> known;  // by FunctionDef or ClassDef
};

class Words {
 public:
  Words(const Store& store, FileWords& words) : store_(store), words_(words) {}

  void add_statement(const Statement& statement) {
    const bool exports = statement.target != nullptr && statement.target->word() == "__all__";
    if (exports) return;
    for_own_expressions(statement, [&](const Expr* expr) { add(expr); });
    if (const FunctionDef* def = statement.function_def) {
      for (const Parameter& each : def->parameters) add(each.default_value);
      for (const Expr* each : def->decorators) add(each);
    }
    if (const ClassDef* def = statement.class_def) {
      for (const Expr* each : def->bases) add(each);
      for (const Expr* each : def->decorators) add(each);
    }
  }

 private:
  void add(const Expr* expr) {
    visit(expr, [&](const Expr& part) {
      if (part.kind == ExprKind::name || part.kind == ExprKind::attribute) {
        if (part.type->is(TypeKind::class_) && part.type->choices != nullptr) {
          for (const ClassDef* def : part.type->classes()) {
            words_.names[def->full_name].push_back(part.range.begin);
          }
        }
        const std::string_view defined = defined_name(part);
        WordPlaces& places = defined.empty() && is_member(part) ? words_.members : words_.names;
        places[defined.empty() ? part.word() : defined].push_back(part.range.begin);
      } else if (part.kind == ExprKind::text && !part.word().empty()) {
        add_text(part);
      }
      return true;
    });
  }

  // `self.model.train`, but not `tools.train` of a module, also one that is loaded by its name.
  static bool is_member(const Expr& part) {
    if (part.kind != ExprKind::attribute) return false;
    const Expr& owner = *part.children().front();
    const bool is_kept = owner.kind == ExprKind::attribute && owner.full_name().empty();
    const Call* made = owner.binding() == nullptr || owner.binding()->value == nullptr
                           ? nullptr
                           : owner.binding()->value->call();
    const bool is_loaded =
        made != nullptr && is_one_of(made->method, {"import_module", "__import__"});
    const bool is_open = owner.type->is(TypeKind::unknown) || owner.type->is(TypeKind::host_object);
    return is_kept || !(is_open || is_loaded);
  }

  // The full name of what is defined in the files, also where it is imported under another name;
  // empty for anything else.
  std::string_view defined_name(const Expr& part) const {
    const auto function = store_.functions_by_name.find(part.full_name());
    if (function != store_.functions_by_name.end()) return function->second->full_name;
    const auto def = store_.classes_by_name.find(part.full_name());
    return def != store_.classes_by_name.end() ? def->second->full_name : std::string_view();
  }

  // "Net" and "models.build" may name something, "train" is a word.
  void add_text(const Expr& text) {
    constexpr std::size_t kLongestName = 100;
    const std::string_view word = text.word();
    const std::size_t dot = word.find_last_of(".:");
    const bool may_name = dot != std::string_view::npos || (word[0] >= 'A' && word[0] <= 'Z');
    if (word.size() > kLongestName || !may_name) return;
    words_.names[word.substr(dot + 1)].push_back(text.range.begin);
  }

  const Store& store_;
  FileWords& words_;
};

const FileWords& words_of(const SourceFacts& facts, const File& file) {
  const auto [place, is_new] = facts.store().kept<Unused>().words.try_emplace(&file);
  if (!is_new) return place->second;
  Words words(facts.store(), place->second);
  for (const Statement* statement : file.statements) words.add_statement(*statement);
  return place->second;
}

bool is_under_main_guard(const Statement& statement) {
  for (const Statement* at = &statement; at != nullptr; at = at->parent) {
    const bool asks = at->kind == StatementKind::if_ && uses_variable(at->value, "__name__");
    if (asks) return true;
  }
  return false;
}

// A use at the place is one that the program runs.
bool counts(const SourceFacts& facts, const Program& program, const File& file,
            std::uint32_t byte) {
  const Statement* statement = statement_at(file, byte);
  if (statement == nullptr) return true;
  if (program.entry != &file && is_under_main_guard(*statement)) return false;
  return !stands_in_unused(facts, *statement);
}

bool is_method(const FunctionDef& def) { return def.class_def != nullptr; }
bool is_method(const ClassDef& def) { return def.statement->parent != nullptr; }

// By one of the names: the full one, or the last part where what it leads to is not known.
template <class Def>
bool is_used_in(const SourceFacts& facts, const Program& program, const Def& def) {
  const ByteRange own = def.statement->range;
  return std::ranges::any_of(program.files, [&](const File* each) {
    const FileWords& words = words_of(facts, *each);
    const auto names_it = [&](const WordPlaces& places, std::string_view name) {
      const auto found = places.find(name);
      return found != places.end() && std::ranges::any_of(found->second, [&](std::uint32_t byte) {
               const bool is_own = each == def.file && byte >= own.begin && byte < own.end;
               return !is_own && counts(facts, program, *each, byte);
             });
    };
    return names_it(words.names, def.name) || names_it(words.names, def.full_name) ||
           (is_method(def) && names_it(words.members, def.name));
  });
}

const std::vector<const File*>& importers_of(const SourceFacts& facts, const File& file) {
  auto& importers = facts.store().kept<Unused>().importers;
  if (importers.empty()) {
    for (const auto& each : facts.files) {
      for (const File* imported : each->imported) importers[imported].push_back(each.get());
    }
  }
  return importers[&file];
}

// `models.__dict__[name]`; of `args.__dict__[key]` no code comes.
bool looks_up_by_name(std::string_view text) {
  constexpr std::string_view kLookUp = ".__dict__[";
  for (std::size_t at = text.find(kLookUp); at != text.npos; at = text.find(kLookUp, at + 1)) {
    std::size_t first = at;
    while (first > 0 && (std::isalnum(static_cast<unsigned char>(text[first - 1])) != 0 ||
                         text[first - 1] == '_')) {
      --first;
    }
    const std::string owner = lower(text.substr(first, at - first));
    if (!contains_any(owner, {"arg", "opt", "conf", "cfg", "param", "self"})) return true;
  }
  return false;
}

// `getattr(models, name)`, `models.__dict__[name]`.
bool takes_by_name(const File& user, std::string_view module) {
  if (contains(user.text, "globals()") || looks_up_by_name(user.text)) return true;
  return std::ranges::any_of(user.calls, [&](const Call* call) {
    // model.eval() is another
    if (call->name == "eval" || call->name == "fire.Fire") return true;
    return is_one_of(call->name, {"getattr", "vars"}) && !call->arguments.empty() &&
           user.slice(call->arguments[0].value->range).ends_with(module);
  });
}

// Whether what the file defines may be taken of it by a name that is not known; also of a package
// that hands on what it imports.
bool is_taken_by_name(const SourceFacts& facts, const File& file) {
  auto& known = facts.store().kept<Unused>().taken_by_name;
  if (const auto found = known.find(&file); found != known.end()) return found->second;
  constexpr std::string_view kPackage = "__init__.py";
  const std::string_view module =
      std::string_view(file.module).substr(std::string_view(file.module).rfind('.') + 1);
  const auto takes = [&](const File* user) {
    const bool is_package =
        user != &file && user->path.ends_with(kPackage) &&
        file.path.starts_with(user->path.substr(0, user->path.size() - kPackage.size()));
    return takes_by_name(*user, module) || (is_package && is_taken_by_name(facts, *user));
  };
  const bool is_taken = takes(&file) || std::ranges::any_of(importers_of(facts, file), takes);
  return known[&file] = is_taken;
}

// `loaded = import_module(name)`, and then `loaded.__dict__.items()`: all that a configuration file
// sets, which runs nothing else.
bool reads_settings(const Call& load) {
  const Expr* target = load.statement->target;
  return target != nullptr && target->kind == ExprKind::name &&
         contains(load.file->text, std::string(target->word()) + ".__dict__.items()");
}

// Where settings files name classes, they are what picks them: another one is only made by code, or
// where an option names it.
bool is_left_by_settings(const SourceFacts& facts, std::string_view name) {
  const auto& named = facts.store().kept<NamedInSettings>().names;
  if (named.empty() || named.contains(name)) return false;
  return std::ranges::none_of(facts.store().options, [&](const auto& each) {
    const Option& option = each.second;
    return (option.value != nullptr && option.value->word() == name) ||
           std::ranges::find(option.given, name) != option.given.end();
  });
}

// A name of a configuration, or of what a program of the file takes by a name that is not known.
bool may_be_chosen(const SourceFacts& facts, const File& file, std::string_view name) {
  const auto names_it = [&](const auto& each) { return contains(each->text, name); };
  const auto programs = facts.programs_of(file);
  const auto is_in_program = [&](const Call* call) {
    return !reads_settings(*call) &&
           std::ranges::any_of(programs, [&](const auto* one) { return one->has(*call->file); });
  };
  return is_taken_by_name(facts, file) ||
         std::ranges::any_of(facts.method_calls("import_module"), is_in_program) ||
         std::ranges::any_of(facts.method_calls("__import__"), is_in_program) ||
         std::ranges::any_of(facts.store().configurations, names_it);
}

template <class Def>
bool stands_unused(const SourceFacts& facts, const Def& def) {
  const File& file = *def.file;
  const bool is_left = std::is_same_v<Def, ClassDef> && is_left_by_settings(facts, def.name);
  if (file.is_notebook || (!is_left && may_be_chosen(facts, file, def.name))) return false;
  if (is_for_others(facts, file)) return false;
  auto programs = training_programs_of(facts, file);
  if (programs.empty()) programs = facts.programs_of(file);
  return std::ranges::none_of(
      programs, [&](const Program* program) { return is_used_in(facts, *program, def); });
}

// While it is worked out it counts as used: what only uses itself is met from outside or not.
template <class Def>
bool is_known_unused(const SourceFacts& facts, const Def& def, bool may_be) {
  auto& known = facts.store().kept<Unused>().known;
  const auto [place, is_new] = known.try_emplace(&def, false);
  if (!is_new || !may_be) return place->second;
  const bool is_it = stands_unused(facts, def);
  return known[&def] = is_it;
}

// A method that a library may call, or one that overrides another.
bool may_be_called_from_outside(const FunctionDef& method) {
  const ClassDef& def = *method.class_def;
  return !def.bases.empty() || method.name.starts_with("__") || !method.decorators.empty();
}

// `@register()`, which hands the class out by its name.
bool is_registered(const ClassDef& def) {
  return std::ranges::all_of(def.decorators, [](const Expr* each) {
    const std::string_view name = each->call() != nullptr ? each->call()->method : each->word();
    return contains(lower(name), "regist");
  });
}

// `choose("penalty")`, which is not seen, may make what derives from another class of the files.
bool has_own_base(const ClassDef& def) {
  return !def.is_module && std::ranges::any_of(def.bases, [](const Expr* base) {
    return base->type->class_def != nullptr;
  });
}

}  // namespace

bool is_for_others(const SourceFacts& facts, const File& file) {
  const auto has_entry = [](const Program* program) { return program->entry != nullptr; };
  return std::ranges::none_of(facts.programs_of(file), has_entry);
}

const Statement* statement_at(const File& file, std::uint32_t byte) {
  const auto after = std::ranges::upper_bound(
      file.statements, byte, {}, [](const Statement* each) { return each->range.begin; });
  if (after == file.statements.begin()) return nullptr;
  const Statement* at = *std::prev(after);
  while (at != nullptr && byte >= at->range.end) at = at->parent;
  return at;
}

const Statement* statement_in(const File& file, std::size_t line) {
  if (line == 0 || line > file.line_starts.size()) return nullptr;
  const std::size_t first = file.text.find_first_not_of(" \t", file.line_starts[line - 1]);
  return first == std::string::npos ? nullptr
                                    : statement_at(file, static_cast<std::uint32_t>(first));
}

bool is_unused(const SourceFacts& facts, const FunctionDef& function) {
  if (function.class_def != nullptr) {
    return is_unused(facts, *function.class_def) ||
           is_known_unused(facts, function, !may_be_called_from_outside(function));
  }
  if (function.outer != nullptr) return is_unused(facts, *function.outer);
  const bool may_be = function.decorators.empty() && function.name != "main" &&
                      function.statement->parent == nullptr;
  return is_known_unused(facts, function, may_be);
}

bool is_unused(const SourceFacts& facts, const ClassDef& def) {
  const bool is_picked = !def.decorators.empty() && !is_registered(def);
  const bool may_be = !is_picked && def.statement->parent == nullptr && !has_own_base(def) &&
                      (def.decorators.empty() || is_left_by_settings(facts, def.name));
  return is_known_unused(facts, def, may_be);
}

bool may_be_made(const SourceFacts& facts, const ClassDef& def) {
  const File& file = *def.file;
  if (file.is_notebook || may_be_chosen(facts, file, def.name)) return true;
  return is_for_others(facts, file) ||
         std::ranges::any_of(facts.programs_of(file), [&](const Program* program) {
           return is_used_in(facts, *program, def);
         });
}

bool is_named_elsewhere(const SourceFacts& facts, const FunctionDef& method) {
  return is_for_others(facts, *method.file) ||
         std::ranges::any_of(facts.programs_of(*method.file), [&](const Program* program) {
           return program->entry != nullptr && is_used_in(facts, *program, method);
         });
}

bool is_overridden(const SourceFacts& facts, const FunctionDef& method) {
  const ClassDef* def = method.class_def;
  if (def == nullptr || !method.callers.empty() || !facts.calls(def->full_name).empty()) {
    return false;
  }
  const auto is_of_class = [&](const Call* call) {
    return call->receiver != nullptr && call->receiver->full_name() == def->full_name;
  };
  if (std::ranges::any_of(facts.method_calls("from_pretrained"), is_of_class)) return false;
  bool is_derived = false;
  bool is_made = false;  // what derives from it
  for (const auto& file : facts.files) {
    for (const ClassDef* other : file->classes) {
      const bool derives = std::ranges::any_of(
          other->bases, [&](const Expr* base) { return base->type->class_def == def; });
      if (!derives) continue;
      is_derived = true;
      is_made = is_made || !facts.calls(other->full_name).empty();
      if (std::ranges::find(other->methods, method.name, &FunctionDef::name) ==
          other->methods.end()) {
        return false;
      }
    }
  }
  return is_derived && (is_made || !may_be_chosen(facts, *def->file, def->name));
}

bool stands_in_unused(const SourceFacts& facts, const Statement& statement) {
  for (const Statement* at = &statement; at != nullptr; at = at->parent) {
    if (at->function_def != nullptr && is_unused(facts, *at->function_def)) return true;
    if (at->class_def != nullptr && is_unused(facts, *at->class_def)) return true;
  }
  return false;
}

}  // namespace rooftile::source
