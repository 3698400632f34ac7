// functools.partial and imports by text, of inference.h.
#include <algorithm>

#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
// Own functions and classes stay callable; of those of libraries the name is enough.
const Type* Inference::partial_of(const Call& call) {
  if (call.arguments.empty() || call.arguments[0].unpacked) return &unknown_type();
  const Type& target = *call.arguments[0].value->type;
  if (!target.is(TypeKind::function) && !target.is(TypeKind::class_)) return &unknown_type();
  Type made = target;
  made.made_by = &call;
  return store_.intern(made);
}

// make_norm = functools.partial(torch.nn.LayerNorm, eps=1e-6) stands for LayerNorm.
void Inference::note_partial(const Expr* value, Entry& entry) {
  const Call* partial = value == nullptr ? nullptr : value->call();
  const bool is_partial = partial != nullptr && partial->name == "functools.partial" &&
                          !partial->arguments.empty() && value->type->is(TypeKind::unknown);
  if (!is_partial) return;
  const std::string_view name = partial->arguments[0].value->full_name();
  if (known(name).call.gives == Gives::unknown) return;
  entry.full_name = name;
  entry.type = &unknown_type();
}

// `networks = importlib.import_module(args.model)` stands for the module, by the option's default.
void Inference::note_imported(const Expr* value, Entry& entry) {
  const Call* call = value == nullptr ? nullptr : value->call();
  const bool loads =
      call != nullptr && call->name == "importlib.import_module" && !call->arguments.empty();
  if (!loads) return;
  const Value name = facts_.value(call->arguments[0].value);
  const File* file = name.kind == ValueKind::text ? find_module(name.text, *file_) : nullptr;
  if (file != nullptr && file != file_) entry = {file->module, &unknown_type(), nullptr};
}

// `instantiate(cfg.agent)` of Hydra makes the class that the configuration names.
const Type* Inference::loaded_or_made(Call& call) {
  if (call.arguments.empty() || call.arguments[0].unpacked) return &unknown_type();
  if (call.name != "hydra.utils.instantiate") return &unknown_type();
  const ClassDef* def = configured_class(*call.arguments[0].value, *file_);
  // `def make(config): return instantiate(config)`
  for (std::size_t i = 0; def == nullptr && function_ != nullptr && i < function_->callers.size();
       ++i) {
    const Call& caller = *function_->callers[i];
    const Argument* given = passed_argument(caller, *function_, call.arguments[0].value->word());
    if (given != nullptr) def = configured_class(*given->value, *caller.file);
  }
  return def == nullptr ? &unknown_type() : store_.intern(instance_of(*def));
}

// The class that `_target_` names in the part `cfg.agent` of a configuration.
const ClassDef* Inference::configured_class(const Expr& part, const File& file) const {
  const std::string_view whole = file.slice(part.range);
  for (std::size_t dot = whole.find('.'); dot != std::string_view::npos;
       dot = whole.find('.', dot + 1)) {
    const auto target = store_.options.find(std::string(whole.substr(dot + 1)) + "._target_");
    if (target == store_.options.end() || target->second.several) continue;
    const Expr* named = target->second.value;
    if (named != nullptr && named->kind == ExprKind::text)
      return named_by_text(store_, named->word());
  }
  return nullptr;
}

// Returns the index of the first parameter that a positional argument of the call itself gets.
std::size_t Inference::pass_bound(const Call& partial, const FunctionDef& def) {
  const Expr& target = *partial.arguments[0].value;
  const bool is_method = def.class_def != nullptr &&
                         (target.type->is(TypeKind::class_) || target.kind == ExprKind::attribute);
  std::size_t next = is_method ? 1 : 0;
  for (const Argument& argument : partial.arguments.subspan(1)) {
    if (argument.unpacked) continue;
    if (argument.name.empty()) {
      pass_placed(def, next++, argument.value->type);
    } else {
      pass_named(def, argument.name, argument.value->type);
    }
  }
  return next;
}

}  // namespace rooftile::source
