// Modules that a script imports by a name it puts together.
#include <algorithm>
#include <string>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr int kMaxParts = 8;
// Scripts that load more by name are rare; each costs a look at all files.
constexpr int kMaxDynamicImports = 200;

// The beginning of a text, and whether it is all of it.
struct Beginning {
  std::string text;
  bool is_whole = false;
};

std::string_view package_of(const File& file) {
  const std::string_view module = file.module;
  if (file.path.ends_with("__init__.py")) return module;
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
}

class NameReader {
 public:
  explicit NameReader(const SourceFacts& facts) : facts_(facts) {}

  Beginning read(const Expr* expr, int depth = 0) const {
    if (expr == nullptr || depth > kMaxParts) return {};
    const Value value = facts_.value(expr);
    if (value.kind == ValueKind::text) return {std::string(value.text), true};
    if (expr->kind == ExprKind::format) return written(*expr, depth);
    if (expr->kind == ExprKind::binary && expr->word == "+") return joined(*expr, depth);
    if (expr->kind == ExprKind::binary && expr->word == "%") {
      return until(read(expr->children[0], depth + 1), '%');
    }
    if (expr->call != nullptr && expr->call->method == "format") {
      return until(read(expr->call->receiver, depth + 1), '{');
    }
    if (expr->kind != ExprKind::name) return {};
    if (expr->word == "__name__") return {expr->statement->file->module, true};
    if (expr->word == "__package__") return {std::string(package_of(*expr->statement->file)), true};
    const Statement* binding = expr->binding;
    const bool is_set = binding != nullptr && binding->kind == StatementKind::assignment &&
                        binding->word == "=" && binding->target != nullptr &&
                        binding->target->kind == ExprKind::name;
    return is_set ? read(binding->value, depth + 1) : Beginning{};
  }

 private:
  Beginning joined(const Expr& expr, int depth) const {
    Beginning left = read(expr.children[0], depth + 1);
    if (!left.is_whole) return left;
    const Beginning right = read(expr.children[1], depth + 1);
    return {left.text + right.text, right.is_whole};
  }

  static Beginning until(Beginning whole, char hole) {
    whole.text.resize(std::min(whole.text.find(hole), whole.text.size()));
    whole.is_whole = false;
    return whole;
  }

  // Of an f-string what stands before the first part that is not known.
  Beginning written(const Expr& expr, int depth) const {
    std::string_view text = expr.statement->file->slice(expr.range);
    const std::size_t quote = text.find_first_of("'\"");
    if (quote == std::string_view::npos || text.size() < quote + 2) return {};
    text = text.substr(quote + 1, text.size() - quote - 2);
    Beginning name{"", true};
    for (const Expr* part : expr.children) {
      const std::size_t hole = std::min(text.find('{'), text.size());
      name.text += text.substr(0, hole);
      text.remove_prefix(std::min(text.find('}', hole), text.size() - 1) + 1);
      const Beginning known = read(part, depth + 1);
      name.text += known.text;
      if (!known.is_whole) return {name.text, false};
    }
    name.text += text;
    return name;
  }

  const SourceFacts& facts_;
};

bool is_import(const Call& call) {
  return (call.method == "import_module" || call.method == "__import__") && !call.arguments.empty();
}

// Whether `module` is the name, from its start or from some package on, or begins with it within
// the last package.
bool is_meant(std::string_view module, const Beginning& name) {
  const std::size_t dot = name.text.rfind('.');
  if (!name.is_whole && dot == std::string::npos) return false;  // no package to look into
  for (std::size_t at = module.find(name.text); at != std::string_view::npos;
       at = module.find(name.text, at + 1)) {
    const bool starts = at == 0 || module[at - 1] == '.';
    const std::string_view rest = module.substr(at + name.text.size());
    if (starts && (name.is_whole ? rest.empty() : rest.find('.') == rest.npos)) return true;
  }
  return false;
}

// `MODULES[kind]` of a dictionary of module names that is written out; empty for other expressions.
std::span<const Expr* const> names_to_choose(const SourceFacts& facts, const Expr& expr) {
  if (expr.kind != ExprKind::subscript || expr.children.size() != 2) return {};
  const Expr* table = expr.children[0];
  if (table->binding == nullptr && !table->full_name.empty()) {
    const auto global = facts.store().globals.find(table->full_name);
    if (global != facts.store().globals.end()) table = global->second->value;
  } else if (table->binding != nullptr) {
    table = table->binding->value;
  }
  const bool is_table = table != nullptr && table->kind == ExprKind::dict;
  return is_table ? table->children : std::span<const Expr* const>{};
}

void import_by_name(SourceFacts& facts, const Call& call, Beginning name);

void import_by_name(SourceFacts& facts, const Call& call) {
  const Expr& written = *call.arguments.front().value;
  const auto choices = names_to_choose(facts, written);
  if (choices.empty()) return import_by_name(facts, call, NameReader(facts).read(&written));
  constexpr std::size_t kMaxChoices = 40;
  for (std::size_t i = 1; i < std::min(choices.size(), kMaxChoices); i += 2) {
    const Beginning name = NameReader(facts).read(choices[i]);
    if (name.is_whole) import_by_name(facts, call, name);
  }
}

void import_by_name(SourceFacts& facts, const Call& call, Beginning name) {
  if (name.text.starts_with('.')) {
    const Argument* package = call.argument("package", 1);
    const Beginning base = NameReader(facts).read(package == nullptr ? nullptr : package->value);
    name.text = (base.is_whole ? base.text : std::string(package_of(*call.file))) + name.text;
  }
  if (name.text.empty()) return;
  auto& imported = const_cast<File&>(*call.file).imported;
  for (const auto& file : facts.files) {
    if (file.get() == call.file || file->is_notebook || !is_meant(file->module, name)) continue;
    if (std::ranges::find(imported, file.get()) == imported.end()) imported.push_back(file.get());
  }
}

}  // namespace

void follow_dynamic_imports(SourceFacts& facts) {
  int followed = 0;
  for (const auto& file : facts.files) {
    if (!contains_any(file->text, {"import_module", "__import__"})) continue;
    for (const Call* call : file->calls) {
      if (is_import(*call) && ++followed <= kMaxDynamicImports) import_by_name(facts, *call);
    }
  }
}

}  // namespace rooftile::source
