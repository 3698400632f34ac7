#include "rooftile/analysis/source/leftovers.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <unordered_map>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// `__all__ = ["Net", …]` names without making anything.
ByteRange exported_names(const File& file) {
  for (const Statement* statement : file.body) {
    const bool is_list = statement->kind == StatementKind::assignment &&
                         statement->target != nullptr && statement->target->word() == "__all__";
    if (is_list) return statement->range;
  }
  return {};
}

// A text that stands for itself: documentation of several lines.
bool is_documentation(const File& file, std::size_t at) {
  return std::ranges::any_of(file.statements, [&](const Statement* statement) {
    return statement->kind == StatementKind::expression && statement->value != nullptr &&
           statement->value->kind == ExprKind::text && at >= statement->range.begin &&
           at < statement->range.end;
  });
}

// Whether the text uses the name outside of the ranges: no comment, and no word of a longer text.
bool uses_class(const File& file, std::string_view name, std::initializer_list<ByteRange> without) {
  if (!has_text(file, name)) return false;
  const std::string_view text = file.text;
  const ByteRange exported = exported_names(file);
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const auto holds = [&](const ByteRange& range) { return at >= range.begin && at < range.end; };
    if (holds(exported) || std::ranges::any_of(without, holds)) continue;
    // A longer name that begins with it: cheb_conv_with_attention for cheb_conv.
    const std::size_t end = at + name.size();
    const bool goes_on =
        end < text.size() &&
        (text[end] == '_' || std::isalnum(static_cast<unsigned char>(text[end])) != 0);
    if (goes_on) continue;
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const std::string_view before = text.substr(line, at - line);
    if (before.find('#') != std::string_view::npos) continue;
    const auto quotes = std::ranges::count_if(before, [](char c) { return c == '"' || c == '\''; });
    const bool begins_text = !before.empty() && (before.back() == '"' || before.back() == '\'');
    if ((quotes % 2 == 0 || begins_text) && !is_documentation(file, at)) return true;
  }
  return false;
}

// A call of the class that some training run gets to, but for those in `except` files; also
// `Net.from_pretrained(…)` of a class derived from the method's.
bool is_made(const SourceFacts& facts, const ClassDef& def, const File* except) {
  const auto runs = [&](const Call* call) {
    if (call->file == except || call->statement == nullptr) return false;
    const auto programs = training_programs_of(facts, *call->file);
    return std::ranges::any_of(programs, [&](const Program* program) {
      return runs_in(facts, *program, *call->statement);
    });
  };
  if (std::ranges::any_of(facts.calls(def.full_name), runs)) return true;
  return std::ranges::any_of(facts.method_calls("from_pretrained"), [&](const Call* call) {
    return call->receiver != nullptr && call->receiver_type().class_def == &def && runs(call);
  });
}

// What stands under the main guard of a file serves to try it out.
ByteRange main_guard(const File& file) {
  for (const Statement* statement : file.body) {
    if (statement->kind != StatementKind::if_ || statement->value == nullptr) continue;
    if (uses_variable(statement->value, "__name__")) return statement->range;
  }
  return {};
}

// `def get_class(name)` that loads a module and takes a class of it, called with a name that is not
// known.
bool takes_unknown_class(const SourceFacts& facts, const Call& load, const File& file) {
  const FunctionDef* helper = load.function;
  if (helper == nullptr || std::ranges::none_of(helper->calls, [](const Call* call) {
        return call->name == "getattr";
      })) {
    return false;
  }
  return std::ranges::any_of(helper->callers, [&](const Call* caller) {
    const bool is_open = !caller->arguments.empty() && !caller->arguments[0].unpacked &&
                         !facts.value(caller->arguments[0].value).known();
    const Expr* use = caller->expr->parent;
    const bool makes = is_open && use != nullptr && use->call() != nullptr &&
                       use->children().front() == caller->expr;
    if (!makes) return false;
    const auto programs = training_programs_of(facts, *caller->file);
    return std::ranges::any_of(programs,
                               [&](const Program* program) { return program->has(file); });
  });
}

// Of many that nothing names, a name can mean but one.
bool may_be_named_by_settings(const SourceFacts& facts, const File& file) {
  constexpr int kFewClasses = 3;
  const auto unnamed = std::ranges::count_if(file.classes, [&](const ClassDef* def) {
    return def->is_module && !uses_class(file, def->name, {def->statement->range});
  });
  if (unnamed > kFewClasses) return false;
  const auto takes = [&](const Call* load) { return takes_unknown_class(facts, *load, file); };
  return std::ranges::any_of(facts.calls("__import__"), takes) ||
         std::ranges::any_of(facts.calls("importlib.import_module"), takes);
}

bool is_letter(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Places of the whole name in the text, comments left out.
int count_names(const File& file, std::string_view name) {
  if (!has_text(file, name)) return 0;
  const std::string_view text = file.text;
  int count = 0;
  for (std::size_t at = find_in_text(text, name); at != std::string_view::npos;
       at = find_in_text(text, name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool is_part =
        (at > 0 && is_letter(text[at - 1])) || (end < text.size() && is_letter(text[end]));
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const bool is_comment = contains(text.substr(line, at - line), "#");
    count += !is_part && !is_comment ? 1 : 0;
  }
  return count;
}

}  // namespace

bool is_named_nowhere(const SourceFacts& facts, const FunctionDef& function) {
  return std::ranges::none_of(facts.files, [&](const auto& file) {
    const bool is_own = file.get() == function.file;
    return count_names(*file, function.name) > (is_own ? 1 : 0);
  });
}

namespace {

struct NeverUsed {
  std::unordered_map<const FunctionDef*, bool> known;
};

bool names_function(const File& file, std::string_view name) {
  return std::ranges::any_of(file.statements, [&](const Statement* statement) {
    bool names = false;
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        names = names || (part.kind == ExprKind::name && part.word() == name);
        return !names;
      });
    });
    return names;
  });
}

bool stands_unused(const SourceFacts& facts, const FunctionDef& function) {
  const File& file = *function.file;
  const bool may_be = file.is_entry && !file.is_notebook && function.class_def == nullptr &&
                      function.outer == nullptr && function.decorators.empty() &&
                      function.callers.empty() && function.name != "main";
  if (!may_be || is_taken_by_name(facts, file)) return false;
  const bool is_imported = std::ranges::any_of(facts.files, [&](const auto& other) {
    return std::ranges::find(other->imported, &file) != other->imported.end();
  });
  return !is_imported && !names_function(file, function.name);
}

}  // namespace

bool is_never_used(const SourceFacts& facts, const FunctionDef& function) {
  const auto [found, is_new] = facts.store().kept<NeverUsed>().known.try_emplace(&function, false);
  if (is_new) found->second = stands_unused(facts, function);
  return found->second;
}

bool is_made_nowhere(const SourceFacts& facts, const ClassDef& def) {
  if (!def.bases.empty() || !def.decorators.empty() || !facts.calls(def.full_name).empty()) {
    return false;
  }
  return std::ranges::none_of(facts.files, [&](const auto& file) {
    if (file.get() == def.file) return count_names(*file, def.name) > 1;
    const bool has_own = std::ranges::any_of(
        file->classes, [&](const ClassDef* other) { return other->name == def.name; });
    return !has_own && count_names(*file, def.name) > 0;
  });
}

bool is_taken_by_name(const SourceFacts& facts, const File& file) {
  const std::string_view module =
      std::string_view(file.module).substr(std::string_view(file.module).rfind('.') + 1);
  return std::ranges::any_of(facts.files, [&](const auto& other) {
    if (other.get() != &file && std::ranges::find(other->imported, &file) == other->imported.end())
      return false;
    if (contains_any(other->text, {"__dict__[", "globals()", "eval("})) return true;
    return std::ranges::any_of(other->calls, [&](const Call* call) {
      return is_one_of(call->name, {"getattr", "vars"}) && !call->arguments.empty() &&
             other->slice(call->arguments[0].value->range).ends_with(module);
    });
  });
}

bool is_left_over(const SourceFacts& facts, const ClassDef& def) {
  if (is_made(facts, def, nullptr)) return false;
  const bool has_used_neighbour =
      std::ranges::any_of(def.file->classes, [&](const ClassDef* other) {
        return other != &def && other->is_module && is_made(facts, *other, def.file);
      });
  const bool has_used_function =
      std::ranges::any_of(def.file->functions, [&](const FunctionDef* other) {
        return other->class_def == nullptr &&
               std::ranges::any_of(other->callers,
                                   [&](const Call* call) { return call->file != def.file; });
      });
  // A script of its own that could name it and does not.
  const bool is_of_script =
      def.file->is_entry && def.decorators.empty() && !is_taken_by_name(facts, *def.file);
  if ((!has_used_neighbour && !has_used_function && !is_of_script) ||
      uses_class(*def.file, def.name, {def.statement->range, main_guard(*def.file)}))
    return false;
  const bool is_named = std::ranges::any_of(facts.files, [&](const auto& file) {
    return std::ranges::find(file->imported, def.file) != file->imported.end() &&
           uses_class(*file, def.name, {});
  });
  return !is_named && !may_be_named_by_settings(facts, *def.file);
}

}  // namespace rooftile::source
