// functools.partial and imports by text, of inference.h.
#include <algorithm>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// "models." of f"models.{name}" and of "models." + name; a whole text as it is.
std::string_view leading_text(const File& file, const Expr* expr) {
  constexpr int kMaxSteps = 4;
  for (int i = 0; i < kMaxSteps && expr != nullptr; ++i) {
    if (expr->kind == ExprKind::text) return expr->word;
    if (expr->kind == ExprKind::format) {
      std::string_view text = file.slice(expr->range);
      text.remove_prefix(std::min(text.find_first_of("'\""), text.size()));
      text.remove_prefix(std::min(text.find_first_not_of("'\""), text.size()));
      return text.substr(0, text.find('{'));
    }
    if (expr->kind == ExprKind::binary && !expr->children.empty()) {
      expr = expr->children[0];
    } else {
      const bool is_bound = expr->kind == ExprKind::name && expr->binding != nullptr &&
                            expr->binding->kind == StatementKind::assignment;
      expr = is_bound ? expr->binding->value : nullptr;
    }
  }
  return {};
}

bool is_below(std::string_view module, std::string_view prefix) {
  if (module.starts_with(prefix)) return true;
  const std::size_t at = module.find(prefix);
  return at != std::string_view::npos && at > 0 && module[at - 1] == '.';
}

}  // namespace

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
  const Call* partial = value == nullptr ? nullptr : value->call;
  const bool is_partial = partial != nullptr && partial->name == "functools.partial" &&
                          !partial->arguments.empty() && value->type->is(TypeKind::unknown);
  if (!is_partial) return;
  const std::string_view name = partial->arguments[0].value->full_name;
  if (known(name).call.gives == Gives::unknown) return;
  entry.full_name = name;
  entry.type = &unknown_type();
}

// Returns the index of the first parameter that a positional argument of the call itself gets.
std::size_t Inference::pass_bound(const Call& partial, const FunctionDef& def) {
  const Expr& target = *partial.arguments[0].value;
  const bool is_method = def.class_def != nullptr &&
                         (target.type->is(TypeKind::class_) || target.kind == ExprKind::attribute);
  std::size_t next = is_method ? 1 : 0;
  for (const Argument& argument : partial.arguments.subspan(1)) {
    if (argument.unpacked || argument.value == nullptr) continue;
    if (argument.name.empty()) {
      pass(def, next++, argument.value->type);
      continue;
    }
    const auto named = std::ranges::find(def.parameters, argument.name, &Parameter::name);
    if (named == def.parameters.end()) continue;
    pass(def, static_cast<std::size_t>(named - def.parameters.begin()), argument.value->type);
  }
  return next;
}

// importlib.import_module(f"models.{name}_model"): all given files that it may mean.
void Inference::import_by_text(const Call& call) {
  if (call.arguments.empty()) return;
  const std::string_view prefix = below_root(leading_text(*file_, call.arguments[0].value));
  if (prefix.size() < 3 || prefix.find('.') == prefix.npos || prefix.front() == '.') return;
  std::vector<const File*>& imported = writable(*file_).imported;
  for (const auto& file : facts_.files) {
    if (file.get() == file_ || !is_below(file->module, prefix)) continue;
    if (std::ranges::find(imported, file.get()) == imported.end()) imported.push_back(file.get());
  }
}

}  // namespace rooftile::source
