// globals()[name](…), getattr(models, name)(…): classes that a script picks by a text, of
// inference.h.
#include <algorithm>
#include <optional>
#include <string>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// A network that takes all the keywords of the call; without keywords nothing tells.
bool takes(const FunctionDef* init, const Call& call) {
  if (init == nullptr) return false;
  std::size_t named = 0;
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked || argument.name.empty()) continue;
    ++named;
    const auto& parameters = init->parameters;
    const bool has_name =
        std::ranges::find(parameters, argument.name, &Parameter::name) != parameters.end();
    if (!has_name && (parameters.empty() || !parameters.back().double_starred)) return false;
  }
  return named > 1;
}

const Call* builtin_call(const Expr& expr, std::string_view name) {
  const Call* call = expr.call();
  const bool is_it = call != nullptr && call->receiver == nullptr && call->method == name;
  return is_it ? call : nullptr;
}

bool is_network(const Entry& entry) {
  return entry.type->is(TypeKind::class_) && entry.type->class_def != nullptr &&
         entry.type->class_def->is_module;
}

const Type* only_network(const std::vector<const Scope*>& scopes, const Call& call) {
  const Type* only = nullptr;
  for (const Scope* each : scopes) {
    for (const auto& [word, entry] : each->names) {
      if (!is_network(entry) || !takes(entry.type->class_def->method("__init__"), call)) continue;
      if (only != nullptr && only->class_def != entry.type->class_def) return nullptr;
      only = entry.type;
    }
  }
  return only;
}

std::optional<std::string> text_of(const SourceFacts& facts, const Expr& expr) {
  const Value value = facts.value(&expr);
  return value.kind == ValueKind::text ? std::optional(std::string(value.text)) : std::nullopt;
}

}  // namespace

// Of `models` in getattr(models, name): the names of a given file; null for other objects.
const Scope* Inference::namespace_of(const Expr& object) const {
  const auto file = modules_.find(object.full_name());
  if (object.full_name().empty() || file == modules_.end()) return nullptr;
  const auto scope = module_scopes_.find(file->second);
  return scope == module_scopes_.end() ? nullptr : scope->second;
}

// The class of that name; of a name that is not known, the only network that takes the arguments.
const Type* Inference::named_in(const Scope* scope, const Expr& name, const Call& call) {
  if (const auto text = text_of(facts_, name)) {
    const auto found = scope->names.find(*text);
    std::optional<Entry> entry = found != scope->names.end()
                                     ? std::optional<Entry>(found->second)
                                     : lookup_wildcard(intern(*text), scope);
    if (!entry) return nullptr;
    if (entry->type->is(TypeKind::unknown) && !entry->full_name.empty()) {
      entry = definition(entry->full_name);
    }
    return entry ? entry->type : nullptr;
  }
  std::vector<const Scope*> scopes{scope};
  for (const std::string_view package : scope->wildcards) {
    const auto file = modules_.find(package);
    const auto names =
        file == modules_.end() ? module_scopes_.end() : module_scopes_.find(file->second);
    if (names != module_scopes_.end()) scopes.push_back(names->second);
  }
  return only_network(scopes, call);
}

// "torch.nn.GRU" of getattr(nn, "GRU") and nn.__dict__["GRU"]; empty for what is not PyTorch's.
std::string_view Inference::picked_of_library(const Expr& callee) {
  const Expr* object = nullptr;
  const Expr* name = nullptr;
  const Call* got = builtin_call(callee, "getattr");
  if (got != nullptr && got->arguments.size() > 1 && !got->arguments[0].unpacked) {
    object = got->arguments[0].value;
    name = got->arguments[1].value;
  } else if (callee.kind == ExprKind::subscript && callee.children().size() == 2) {
    const Expr& table = *callee.children()[0];
    const bool is_dict = table.kind == ExprKind::attribute && table.word() == "__dict__";
    object = is_dict ? table.children()[0] : nullptr;
    name = callee.children()[1];
  }
  if (object == nullptr || !object->full_name().starts_with("torch")) return {};
  if (namespace_of(*object) != nullptr) return {};
  const auto text = text_of(facts_, *name);
  return text ? intern(std::string(object->full_name()) + "." + *text) : std::string_view();
}

// The only network among the names of a file, imported ones included; null where there are more.
const Type* Inference::only_network_of(const Scope& scope) {
  constexpr std::size_t kMostNames = 256;
  const Type* only = nullptr;
  if (scope.names.size() > kMostNames) return nullptr;
  for (const auto& [word, entry] : scope.names) {
    std::optional<Entry> named = entry;
    if (entry.type->is(TypeKind::unknown) && !entry.full_name.empty()) {
      named = definition(entry.full_name);
    }
    if (!named || !is_network(*named)) continue;
    if (only != nullptr && only->class_def != named->type->class_def) return nullptr;
    only = named->type;
  }
  return only;
}

// `return globals()[name]`: the class or function that has this name in the file, or the only
// network there is; null for other expressions.
const Type* Inference::named_global(const Expr& subscript) {
  if (subscript.children().size() != 2) return nullptr;
  if (builtin_call(*subscript.children()[0], "globals") == nullptr) return nullptr;
  const Scope* own = module_scopes_.at(file_);
  const Value name = facts_.value(subscript.children()[1]);
  std::optional<Entry> entry;
  if (name.kind == ValueKind::text) {
    const auto found = own->names.find(name.text);
    entry = found != own->names.end() ? std::optional<Entry>(found->second)
                                      : lookup_wildcard(name.text, own);
  }
  if (entry && entry->type->is(TypeKind::unknown) && !entry->full_name.empty()) {
    entry = definition(entry->full_name);
  }
  const bool is_own =
      entry && (entry->type->is(TypeKind::class_) || entry->type->is(TypeKind::function));
  return is_own ? entry->type : only_network_of(*own);
}

const Expr& chosen_before(const Expr& callee) {
  const bool is_open = callee.type->is(TypeKind::unknown) || callee.type->guessed;
  const Statement* set = callee.kind == ExprKind::name && is_open ? callee.binding() : nullptr;
  const bool is_set = set != nullptr && set->kind == StatementKind::assignment &&
                      set->word == "=" && set->target->kind == ExprKind::name &&
                      set->value != nullptr;
  return is_set && builtin_call(*set->value, "getattr") != nullptr ? *set->value : callee;
}

// Null where the text picks something else, or nothing is known of it.
const Type* Inference::picked_by_name(const Expr& callee, const Call& call) {
  const Type* picked = nullptr;
  if (const Call* got = builtin_call(callee, "getattr"); got != nullptr) {
    if (got->arguments.size() < 2 || got->arguments[0].unpacked) return nullptr;
    const Scope* names = namespace_of(*got->arguments[0].value);
    if (names != nullptr) picked = named_in(names, *got->arguments[1].value, call);
  } else if (callee.kind == ExprKind::subscript && callee.children().size() == 2) {
    const Expr& table = *callee.children()[0];
    const bool is_dict = table.kind == ExprKind::attribute && table.word() == "__dict__";
    const Scope* names = is_dict ? namespace_of(*table.children()[0])
                         : builtin_call(table, "globals") != nullptr ? module_scopes_.at(file_)
                                                                     : nullptr;
    if (names != nullptr) picked = named_in(names, *callee.children()[1], call);
  }
  const bool is_own =
      picked != nullptr && (picked->is(TypeKind::class_) || picked->is(TypeKind::function));
  return is_own ? picked : nullptr;
}

// Folders on the path are seldom packages: `import models` is lib/models/__init__.py rather than
// lib/config/models.py, which has an __init__.py beside it.
bool Inference::lies_in_package(const File& file, std::string_view name) const {
  const std::string_view module = file.module;
  if (module.size() <= name.size() + 1) return false;
  const auto above = modules_.find(module.substr(0, module.size() - name.size() - 1));
  return above != modules_.end() && above->second->path.ends_with("__init__.py");
}

// What a name means that starts in some folder on the path: the file nearest to the one that
// imports it; null where two are equally near.
const File* Inference::find_by_suffix(std::string_view name, const File& from) const {
  constexpr std::size_t kMostFiles = 64;
  const auto found = modules_by_suffix_.find(name);
  if (found == modules_by_suffix_.end() || found->second.size() > kMostFiles) return nullptr;
  if (found->second.size() == 1) return found->second.front();
  std::vector<const File*> files = found->second;
  const auto is_below = [&](const File* file) { return lies_in_package(*file, name); };
  if (!std::ranges::all_of(files, is_below)) std::erase_if(files, is_below);
  const auto shared_with = [&](const File* file) {
    const auto ends = std::ranges::mismatch(file->module, from.module);
    return ends.in1 - file->module.begin();
  };
  const File* nearest = files.front();
  bool is_clear = true;
  for (const File* file : std::span(files).subspan(1)) {
    const auto more = shared_with(file) - shared_with(nearest);
    if (more >= 0) is_clear = more > 0;
    if (more > 0) nearest = file;
  }
  return is_clear ? nearest : nullptr;
}

// `from models.registry import BUILDERS` runs models/__init__.py too, with all that it imports.
void Inference::add_packages_of(const File& file, const File& from) {
  const std::string_view module = file.module;
  std::vector<const File*>& imported = writable(from).imported;
  for (std::size_t dot = module.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = module.rfind('.', dot - 1)) {
    const std::string_view package = module.substr(0, dot);
    // What a file of the package imports starts when the package has run.
    if (from.module == package || from.module.starts_with(std::string(package) + ".")) return;
    const auto found = modules_.find(package);
    if (found == modules_.end() || found->second == &from) continue;
    if (std::ranges::find(imported, found->second) == imported.end()) {
      imported.push_back(found->second);
    }
  }
}

const Inference::Known& Inference::known(std::string_view full_name) {
  const auto found = known_.find(full_name);
  if (found != known_.end()) return found->second;
  const std::string_view kept = intern(full_name);
  const std::string_view name = intern(canonical_name(kept));
  return known_.emplace(kept, Known{name, library_call(name)}).first->second;
}

}  // namespace rooftile::source
