// Modules that a script imports by a name it puts together.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr int kMaxParts = 8;
// Scripts that load more by name are rare; each costs a look at all files.
constexpr int kMaxDynamicImports = 200;

// The beginning of a text, whether it is all of it, and else what is known of its end.
struct Beginning {
  std::string text;
  bool is_whole = false;
  std::string end = {};
};

class NameReader {
 public:
  explicit NameReader(const SourceFacts& facts) : facts_(facts) {}

  Beginning read(const Expr* expr, int depth = 0) const {
    if (expr == nullptr || depth > kMaxParts) return {};
    const Value value = facts_.value(expr);
    if (value.kind == ValueKind::text) return {std::string(value.text), true};
    if (expr->kind == ExprKind::format) return written(*expr, depth);
    if (expr->kind == ExprKind::binary && expr->word() == "+") return joined(*expr, depth);
    if (expr->kind == ExprKind::binary && expr->word() == "%") {
      return until(read(expr->children()[0], depth + 1), '%');
    }
    if (expr->call() != nullptr && expr->call()->method == "format") {
      return until(read(expr->call()->receiver, depth + 1), '{');
    }
    if (expr->kind != ExprKind::name) return {};
    if (expr->word() == "__name__") return {expr->statement->file->module, true};
    const Statement* binding = expr->binding();
    const bool is_set = binding != nullptr && binding->kind == StatementKind::assignment &&
                        binding->word == "=" && binding->target->kind == ExprKind::name;
    return is_set ? read(binding->value, depth + 1) : Beginning{};
  }

 private:
  static void append(Beginning& left, const Beginning& right) {
    if (!left.is_whole) {
      left.end = right.is_whole ? left.end + right.text : right.end;
      return;
    }
    left = {left.text + right.text, right.is_whole, right.end};
  }

  Beginning joined(const Expr& expr, int depth) const {
    Beginning left = read(expr.children()[0], depth + 1);
    append(left, read(expr.children()[1], depth + 1));
    return left;
  }

  // "models.{}.net" and "models.%s.net": what stands before the first hole and behind the last.
  static Beginning until(Beginning whole, char hole) {
    const std::size_t first = std::min(whole.text.find(hole), whole.text.size());
    const std::size_t last = whole.text.rfind(hole == '{' ? '}' : '%');
    if (last != std::string::npos && last >= first) {
      whole.end = whole.text.substr(std::min(last + (hole == '{' ? 1 : 2), whole.text.size()));
    }
    whole.text.resize(first);
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
    for (const Expr* part : expr.children()) {
      const std::size_t hole = std::min(text.find('{'), text.size());
      name.text += text.substr(0, hole);
      text.remove_prefix(std::min(text.find('}', hole), text.size() - 1) + 1);
      const Beginning known = read(part, depth + 1);
      name.text += known.text;
      if (!known.is_whole) return {name.text, false, std::string(text.substr(text.rfind('}') + 1))};
    }
    name.text += text;
    return name;
  }

  const SourceFacts& facts_;
};

bool is_library_import(const Call& call) {
  const bool is_named = call.name == "importlib.import_module" ||
                        is_one_of(call.method, {"import_module", "__import__"});
  return is_named && !call.arguments.empty() && call.target == nullptr;
}

// Whether `module` is the name, from its start or from some package on, or begins and ends with it,
// with one package or module between.
bool is_meant(std::string_view module, const Beginning& name) {
  const std::size_t dot = name.text.rfind('.');
  if (!name.is_whole && dot == std::string::npos) return false;  // no package to look into
  for (std::size_t at = module.find(name.text); at != std::string_view::npos;
       at = module.find(name.text, at + 1)) {
    const bool starts = at == 0 || module[at - 1] == '.';
    std::string_view rest = module.substr(at + name.text.size());
    const bool ends = rest.ends_with(name.end) && rest.size() >= name.end.size();
    if (ends) rest.remove_suffix(name.end.size());
    const bool fits = name.is_whole ? rest.empty() : ends && rest.find('.') == rest.npos;
    if (starts && fits) return true;
  }
  return false;
}

void import_by_name(SourceFacts& facts, const Call& call, Beginning name);

// Whether the file defines a network or a data set, and is no training script itself.
bool has_parts_of_training(const File& file) {
  const bool trains = std::ranges::any_of(file.calls, [](const Call* call) {
    return call->method == "backward" && call->receiver != nullptr;
  });
  if (trains) return false;
  return std::ranges::any_of(file.classes, [](const ClassDef* def) {
    return def->statement->parent == nullptr &&
           (def->method("forward") != nullptr || def->method("__getitem__") != nullptr);
  });
}

// import_class(settings.model): where nothing is known of the name, the files with networks and
// data sets that nothing else imports.
void import_unclaimed(SourceFacts& facts, const Call& call) {
  std::unordered_set<const File*> claimed{call.file};
  for (const auto& file : facts.files) claimed.insert(file->imported.begin(), file->imported.end());
  constexpr std::size_t kMaxFiles = 24;
  std::vector<const File*> found;
  for (const auto& file : facts.files) {
    const bool is_test = contains_any(file->module, {"test"});
    if (claimed.contains(file.get()) || is_test || !has_parts_of_training(*file)) continue;
    found.push_back(file.get());
  }
  if (found.size() > kMaxFiles) return;
  for (const File* file : found) add_import(*call.file, *file);
}

void import_by_name(SourceFacts& facts, const Call& call) {
  import_by_name(facts, call, NameReader(facts).read(call.arguments.front().value));
}

void import_by_name(SourceFacts& facts, const Call& call, Beginning name) {
  if (name.text.empty()) return import_unclaimed(facts, call);
  bool found = false;
  for (const auto& file : facts.files) {
    if (!is_meant(file->module, name)) continue;
    add_import(*call.file, *file);
    found = true;
  }
  // Where all given files stand in one package, their names begin below it.
  const std::size_t dot = name.text.find('.');
  if (!found && dot != std::string::npos && dot + 1 != name.text.size()) {
    name.text.erase(0, dot + 1);
    for (const auto& file : facts.files) {
      const bool is_below = file->module.starts_with(name.text) && is_meant(file->module, name);
      if (is_below) add_import(*call.file, *file);
      found = found || is_below;
    }
  }
  if (!found) import_unclaimed(facts, call);  // the default names a file that is not given
}

// spec_from_file_location(name, path), imp.load_source(name, path).
const Expr* loaded_path(const Call& call) {
  if (!is_one_of(call.method, {"spec_from_file_location", "load_source", "SourceFileLoader"})) {
    return nullptr;
  }
  const Argument* path = call.argument(call.method == "load_source" ? "pathname" : "location", 1);
  if (path == nullptr) path = call.argument("path");
  return path == nullptr ? nullptr : path->value;
}

// "./models/unet.py" as "models.unet".
Beginning module_of_path(Beginning path) {
  std::string& text = path.text;
  while (text.starts_with('.') || text.starts_with('/')) text.erase(0, 1);
  std::string& end = path.is_whole ? text : path.end;
  if (end.ends_with(".py")) end.resize(end.size() - 3);
  std::ranges::replace(text, '/', '.');
  std::ranges::replace(path.end, '/', '.');
  return path;
}

void import_by_path(SourceFacts& facts, const Call& call, const Expr* path) {
  import_by_name(facts, call, module_of_path(NameReader(facts).read(path)));
}

}  // namespace

void follow_dynamic_imports(SourceFacts& facts) {
  int followed = 0;
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      const Expr* path = loaded_path(*call);
      if (path == nullptr && !is_library_import(*call)) continue;
      if (++followed > kMaxDynamicImports) return;
      path != nullptr ? import_by_path(facts, *call, path) : import_by_name(facts, *call);
    }
  }
}

}  // namespace rooftile::source
