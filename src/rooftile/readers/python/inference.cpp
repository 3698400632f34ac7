// Files, functions and parameters of inference.h.
#include "rooftile/readers/python/inference.h"

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/known_names.h"

namespace rooftile::source {
namespace {

// A function is read again when it learns more about its parameters, but not for ever.
constexpr int kMaxVisits = 4;

}  // namespace

Inference::Inference(SourceFacts& facts) : facts_(facts), store_(facts.store()) {}

const File* Inference::find_module(std::string_view name, const File& from) const {
  if (is_library_root(name)) {
    const auto own = modules_.find(name);
    return own == modules_.end() ? nullptr : own->second;
  }
  if (!modules_by_suffix_.contains(name)) return find_in_root(name);
  // The nearest package first: a/b/train.py means a/b/model.py by `import model`.
  std::string prefix = from.module;
  while (!prefix.empty()) {
    const std::size_t dot = prefix.rfind('.');
    prefix.resize(dot == std::string::npos ? 0 : dot);
    const std::string full = prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
    const auto found = modules_.find(full);
    if (found != modules_.end() && found->second != &from)
      return found->second;  // utils/model.py imports model
  }
  const File* found = find_by_suffix(name, from);
  return found == nullptr ? find_in_root(name) : found;
}

// `import engine.data` where all given files lie below engine/, a folder without __init__.py, so
// that their modules are named from there on.
const File* Inference::find_in_root(std::string_view name) const {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return nullptr;
  if (const File* found = find_behind_foreign_prefix(name)) return found;
  const auto found = modules_.find(name.substr(dot + 1));
  if (found == modules_.end()) return nullptr;
  std::string path(name);
  std::ranges::replace(path, '.', '/');
  const std::string_view whole = found->second->path;
  const bool is_it = whole.ends_with(path + ".py") || whole.ends_with(path + "/__init__.py");
  return is_it ? found->second : nullptr;
}

// A name in the given files under the name of its definition; others in their public spelling.
std::string_view Inference::resolve_import(std::string_view full_name, const File& from) {
  std::string_view name = full_name;
  if (!has_own_library_ && is_library_root(name)) return known(name).name;
  std::unordered_set<std::string_view>& foreign = foreign_names_[&from];
  if (foreign.contains(name)) return known(name).name;
  for (std::size_t end = name.size(); end != std::string_view::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const File* file = find_module(name.substr(0, end), from);
    if (file == nullptr || file == &from) continue;
    if (end != name.size()) {
      const std::string_view rest = name.substr(end + 1);
      file = find_definer(name.substr(0, end), rest.substr(0, rest.find('.')), *file);
      if (file == &from) continue;
    }
    std::vector<const File*>& imported = writable(from).imported;
    if (std::ranges::find(imported, file) == imported.end()) imported.push_back(file);
    add_packages_of(*file, from);
    return intern(file->module + std::string(name.substr(end)));
  }
  foreign.insert(intern(name));
  return known(name).name;
}

// Variables that are known for modules and losses by what is called of them.
void Inference::note_receiver(const Call& call) {
  if (call.receiver == nullptr || call.receiver->kind != ExprKind::name) return;
  const void* place = call.function;
  if (place == nullptr) place = call.file;
  if (is_one_of(call.method, {"eval", "train", "cuda", "parameters"})) {
    switched_names_[place].insert(call.receiver->word());
  }
  // model.backward(loss) is another thing.
  const bool is_plain = call.method == "backward" &&
                        std::ranges::none_of(call.arguments, [](const Argument& argument) {
                          return argument.name.empty();
                        });
  if (is_plain) backward_names_[place].insert(call.receiver->word());
}

void Inference::collect_definitions() {
  for (const auto& file : facts_.files) {
    std::string_view name = file->module;
    if (file->is_notebook) name = {};  // unet.ipynb imports unet.py, and nothing imports a notebook
    while (!name.empty()) {
      if (name == file->module) modules_.emplace(name, file.get());
      has_own_library_ = has_own_library_ || is_library_root(name);
      modules_by_suffix_[name].push_back(file.get());
      const std::size_t dot = name.find('.');
      name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    }
    for (const FunctionDef* def : file->functions) {
      store_.functions_by_name.emplace(def->full_name, def);
    }
    for (const Call* call : file->calls) note_receiver(*call);
    for (const ClassDef* def : file->classes) store_.classes_by_name.emplace(def->full_name, def);
  }
}

void Inference::enqueue(const FunctionDef& def) {
  if (visits_[&def] < kMaxVisits && queued_.insert(&def).second) queue_.push_back(&def);
}

void Inference::visit_queued() {
  while (!queue_.empty()) {
    const FunctionDef* def = queue_.front();
    queue_.pop_front();
    queued_.erase(def);
    visit_function(*def);
  }
}

// Programs whose main part stands at the top level of a file.
void Inference::visit_stale_modules() {
  const std::unordered_set<const File*> stale = std::exchange(stale_, {});
  for (const auto& file : facts_.files) {
    if (!stale.contains(file.get())) continue;
    visit_module(*file);
    visit_queued();
  }
}

void Inference::visit_module(File& file) {
  // `import models.unet` binds `models` alone, and loads both.
  for (const std::string_view name : file.imports) {
    if (contains(name, ".")) resolve_import(name, file);
  }
  Scope& scope = scopes_.emplace_back(&scope_memory_);
  scope.file = &file;
  module_scopes_[&file] = &scope;
  wildcard_sources_.clear();
  scope_ = &scope;
  function_ = nullptr;
  file_ = &file;
  visit(file.body);
  changes_.clear();
}

// What a parameter of a method is by its role; null where it has none.
const Type* Inference::method_parameter(const FunctionDef& def, std::size_t index) {
  const Parameter& parameter = def.parameters[index];
  const ClassDef& owner = *def.class_def;
  if (index == 0 && parameter.name == "self") return own_object(owner);
  // `return cls(**settings)` of a classmethod makes one.
  const bool makes_own = index == 0 && parameter.name == "cls" &&
                         std::ranges::any_of(def.decorators, [](const Expr* each) {
                           return each->word() == "classmethod";
                         });
  if (makes_own) return class_type(owner);
  const bool is_step =
      def.name == "training_step" || def.name == "validation_step" || def.name == "test_step";
  if (owner.is_lightning_module && is_step && index == 1) return tensor(Residence::gpu);
  if (owner.is_module && def.name == "forward" && parameter.default_value == nullptr) {
    return join(parameter.type, tensor(Residence::unknown));
  }
  return nullptr;
}

// By its annotation; null where that does not tell.
const Type* Inference::annotated_parameter(const Parameter& parameter) {
  if (parameter.annotation == nullptr) return nullptr;
  infer(parameter.annotation);
  const std::string_view hint = parameter.annotation->full_name();
  // What callers seem to pass is less sure than that.
  if (hint == "int" || hint == "float" || hint == "bool") return simple(TypeKind::number);
  if (hint == "str") return simple(TypeKind::text);
  if (!parameter.type->is(TypeKind::unknown)) return nullptr;
  if (hint == "torch.Tensor") return tensor(Residence::unknown);
  if (hint == kAnyModule) {
    Type any;
    any.kind = TypeKind::module;
    any.name = kAnyModule;
    return store_.intern(any);
  }
  const auto own = store_.classes_by_name.find(hint);
  return own == store_.classes_by_name.end() ? nullptr : store_.intern(instance_of(*own->second));
}

namespace {

// `config` of a network in a file with a class Config, where no caller tells: models that a script
// imports by a name have their sizes like that.
const ClassDef* own_settings(const FunctionDef& def, const Parameter& parameter) {
  const bool is_open = parameter.type->is(TypeKind::unknown) && parameter.name == "config" &&
                       def.class_def != nullptr && def.name == "__init__";
  if (!is_open) return nullptr;
  const auto found = std::ranges::find(def.file->classes, "Config", &ClassDef::name);
  return found == def.file->classes.end() ? nullptr : *found;
}

}  // namespace

const Type* Inference::conventional_parameter(const FunctionDef& def, std::size_t index) {
  const Parameter& parameter = def.parameters[index];
  if (def.class_def != nullptr) {
    if (const Type* type = method_parameter(def, index)) return type;
  }
  if (parameter.starred || parameter.double_starred) return simple(TypeKind::container);
  if (const Type* type = annotated_parameter(parameter)) return type;
  if (const ClassDef* config = own_settings(def, parameter)) {
    return store_.intern(instance_of(*config));
  }
  return guess(parameter.type, parameter.name);
}

void Inference::bind_parameters(const FunctionDef& def) {
  for (std::size_t i = 0; i < def.parameters.size(); ++i) {
    Entry entry;
    entry.type = conventional_parameter(def, i);
    if (def.parameters[i].default_value != nullptr) {
      const Type* usual = infer(def.parameters[i].default_value);
      const bool is_place = entry.type->guessed && usual->is(TypeKind::device);
      if (entry.type->is(TypeKind::unknown) || is_place) entry.type = usual;
    }
    scope_->names[def.parameters[i].name] = entry;
  }
}

void Inference::visit_function(const FunctionDef& def) {
  ++visits_[&def];
  Scope& scope = scopes_.emplace_back(&scope_memory_);
  const auto outer =
      def.outer != nullptr ? function_scopes_.find(def.outer) : function_scopes_.end();
  scope.outer = outer != function_scopes_.end() ? outer->second : module_scopes_[def.file];
  scope.file = def.file;
  function_scopes_[&def] = &scope;
  scope_ = &scope;
  function_ = &def;
  file_ = def.file;
  bind_parameters(def);
  visit(def.body);
  changes_.clear();
}

// Names of a module that are bound once, for other files and for values.
void Inference::record_globals(const File& file) {
  for (const auto& [name, entry] : module_scopes_[&file]->names) {
    if (entry.binding == nullptr || entry.binding->kind != StatementKind::assignment) continue;
    const std::string full =
        file.module.empty() ? std::string(name) : file.module + "." + std::string(name);
    store_.globals.emplace(intern(full), entry.binding);
  }
}

// `Net(**options)`: what is in the dictionary, once that is known.
void Inference::pass_unpacked_arguments() {
  follow_unpacked_arguments(facts_);
  for (const auto& file : facts_.files) {
    for (const Call* call : file->calls) {
      if (call->target == nullptr) continue;
      for (const Argument& argument : call->arguments) {
        if (argument.followed) pass_named(*call->target, argument.name, argument.value->type);
      }
    }
  }
  visit_queued();
}

void Inference::run() {
  // The sources of transformers and of PyTorch need less than 0.1 visits for each byte.
  constexpr std::uint64_t kVisitsPerByte = 10, kLeastVisits = 4'000'000;
  most_visits_ = kLeastVisits;
  for (const auto& file : facts_.files) most_visits_ += kVisitsPerByte * file->text.size();
  find_default_places();
  collect_definitions();
  find_foreign_prefixes();
  for (const auto& file : store_.configurations) visit_module(*file);
  // Twice: a file may use what a later one defines, and classes are known after the first pass.
  for (int round = 0; round < 2; ++round) {
    for (const auto& file : facts_.files) visit_module(*file);
    record_options_of_functions();
    find_files_with_default_place();
    classify_classes();
  }
  for (const auto& file : facts_.files) {
    for (const FunctionDef* def : file->functions) {
      if (def->name == "__init__") visit_function(*def);
    }
  }
  visit_queued();
  for (const auto& file : facts_.files) {
    for (const FunctionDef* def : file->functions) {
      if (visits_[def] == 0) enqueue(*def);
      visit_queued();
    }
  }
  pass_unpacked_arguments();
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds; ++round) visit_stale_modules();
  for (const auto& file : facts_.files) record_globals(*file);
}

}  // namespace rooftile::source
