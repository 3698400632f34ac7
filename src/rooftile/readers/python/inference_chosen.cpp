// Classes that are picked by a name at run time, of inference.h: `globals()[args.model](size=8)`.
#include <algorithm>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// Whether __init__ takes what the call gives it: all names, no more values than parameters, and
// nothing left that has no default.
bool takes_arguments(const FunctionDef& init, const Call& call) {
  std::size_t positional = 1;  // self
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked) return false;
    positional += argument.name.empty() ? 1 : 0;
  }
  std::size_t place = 0, named = 0;
  for (const Parameter& parameter : init.parameters) {
    if (parameter.starred || parameter.double_starred) return false;
    const bool is_named =
        std::ranges::find(call.arguments, parameter.name, &Argument::name) != call.arguments.end();
    if (place++ >= positional && !is_named && parameter.default_value == nullptr) return false;
    named += is_named ? 1 : 0;
  }
  return positional + named == call.arguments.size() + 1 && positional <= place;
}

}  // namespace

// The one module class in reach that takes the arguments; null where several do or none.
const ClassDef* Inference::chosen_class(const Expr& callee, const Call& call) {
  const bool is_lookup = callee.kind == ExprKind::subscript && callee.children.size() == 2 &&
                         callee.children[0]->call != nullptr &&
                         callee.children[0]->call->method == "globals" &&
                         callee.children[0]->call->receiver == nullptr;
  const bool has_names = std::ranges::any_of(
      call.arguments, [](const Argument& argument) { return !argument.name.empty(); });
  if (!is_lookup || !has_names) return nullptr;
  const auto scope = module_scopes_.find(file_);
  if (scope == module_scopes_.end()) return nullptr;
  const ClassDef* found = nullptr;
  bool is_single = true;
  const auto consider = [&](const ClassDef* def) {
    const FunctionDef* init = find_method(def, "__init__");
    if (def == nullptr || !def->is_module || init == nullptr) return;
    if (!takes_arguments(*init, call)) return;
    is_single = is_single && (found == nullptr || found == def);
    found = def;
  };
  for (const auto& [name, entry] : scope->second->names) {
    if (entry.type->is(TypeKind::class_)) consider(entry.type->class_def);
  }
  for (const std::string_view package : scope->second->wildcards) {
    const auto module = modules_.find(package);
    if (module == modules_.end()) continue;
    for (const ClassDef* def : module->second->classes) consider(def);
  }
  return is_single ? found : nullptr;
}

}  // namespace rooftile::source
