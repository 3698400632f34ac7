// Definitions, imports and what holds the walk of lowering.h together.
#include "rooftile/readers/python/lower.h"

#include "rooftile/readers/python/lowering.h"
#include "rooftile/readers/python/suppressions.h"

namespace rooftile::source {

Lowering::Lowering(const python::SyntaxTree& tree, File& file, FactsMemory& memory)
    : tree_(tree), file_(file), memory_(memory), arena_(memory.others) {}

std::string_view Lowering::text(Id id) const {
  return std::string_view(file_.text).substr(node(id).begin, node(id).end - node(id).begin);
}

Lowering::Id Lowering::child(Id id, Field field) const {
  for (Id child = id + 1; child < node(id).after; child = node(child).after) {
    if (node(child).field == field && kind(child) != Kind::comment) return child;
  }
  return 0;
}

Lowering::Id Lowering::child(Id id, Kind wanted) const {
  for (Id child = id + 1; child < node(id).after; child = node(child).after) {
    if (kind(child) == wanted) return child;
  }
  return 0;
}

Lowering::Id Lowering::expression_child(Id id) const {
  Id found = 0;
  each_child(id, [&](Id child) {
    if (found == 0 && kind(child) != Kind::token) found = child;
  });
  return found;
}

std::string Lowering::qualified(std::string_view name) const {
  std::string full;
  if (class_def_ != nullptr) {
    full = class_def_->full_name;
  } else if (function_ != nullptr) {
    full = function_->full_name;
  } else {
    full = file_.module;
  }
  if (!full.empty()) full += '.';
  return full.append(name);
}

void Lowering::function(Id id, Id outer, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::function, outer, out);
  FunctionDef& def = memory_.functions.emplace_back();
  statement->function_def = &def;
  def.statement = statement;
  def.file = &file_;
  def.returns = &unknown_type();
  def.decorators = decorators(outer);
  if (const Id name = child(id, Field::name)) def.name = text(name);
  def.full_name = arena_.copy(std::string_view(qualified(def.name)));
  def.class_def = class_def_;
  def.outer = function_;
  def.is_async = text(id).starts_with("async");
  if (class_def_ != nullptr) class_def_->methods.push_back(&def);
  if (const Id list = child(id, Field::parameters)) def.parameters = parameters(list);
  file_.functions.push_back(&def);
  ClassDef* const old_class = std::exchange(class_def_, nullptr);
  FunctionDef* const old_function = std::exchange(function_, &def);
  if (const Id body = child(id, Field::body)) def.body = block(body, statement);
  function_ = old_function;
  class_def_ = old_class;
}

void Lowering::class_definition(Id id, Id outer, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::class_, outer, out);
  ClassDef& def = memory_.classes.emplace_back();
  statement->class_def = &def;
  def.statement = statement;
  def.file = &file_;
  def.decorators = decorators(outer);
  if (const Id name = child(id, Field::name)) def.name = text(name);
  def.full_name = arena_.copy(std::string_view(qualified(def.name)));
  if (const Id bases = child(id, Field::superclasses)) {
    const std::size_t mark = children_.size();
    each_child(bases, [&](Id base) {
      if (kind(base) != Kind::keyword_argument && kind(base) != Kind::token) push(base, nullptr);
    });
    def.bases = arena_.copy(std::span<const Expr* const>(children_).subspan(mark));
    children_.resize(mark);
  }
  file_.classes.push_back(&def);
  ClassDef* const old_class = std::exchange(class_def_, &def);
  if (const Id body = child(id, Field::body)) def.body = block(body, statement);
  class_def_ = old_class;
}

void Lowering::decorated(Id id, std::vector<Statement*>& out) {
  if (const Id function_id = child(id, Kind::function_definition)) {
    function(function_id, id, out);
  } else if (const Id class_id = child(id, Kind::class_definition)) {
    class_definition(class_id, id, out);
  } else {
    add(StatementKind::other, id, out);
  }
}

std::span<const Expr* const> Lowering::decorators(Id id) {
  if (kind(id) != Kind::decorated_definition) return {};
  const std::size_t mark = children_.size();
  each_child(id, [&](Id part) {
    const Id what = kind(part) == Kind::decorator ? expression_child(part) : 0;
    if (what != 0) push(what, nullptr);
  });
  const auto kept = arena_.copy(std::span<const Expr* const>(children_).subspan(mark));
  children_.resize(mark);
  return kept;
}

std::span<const Parameter> Lowering::parameters(Id id) {
  std::vector<Parameter> found;
  each_child(id, [&](Id child) {
    const Parameter made = parameter(child);
    if (!made.name.empty()) found.push_back(made);
  });
  return arena_.copy(std::span<const Parameter>(found));
}

Parameter Lowering::parameter(Id id) {
  Parameter made;
  made.type = &unknown_type();
  Id name = id;
  const Kind written = kind(id);
  if (written == Kind::typed_parameter) name = expression_child(id);
  if (written == Kind::default_parameter || written == Kind::typed_default_parameter) {
    name = child(id, Field::name);
    if (const Id value = child(id, Field::value)) made.default_value = expression(value);
  }
  if (const Id hint = child(id, Field::type)) made.annotation = expression(hint);
  if (name == 0) return made;
  if (kind(name) == Kind::list_splat_pattern || kind(name) == Kind::dictionary_splat_pattern) {
    made.double_starred = kind(name) == Kind::dictionary_splat_pattern;
    made.starred = !made.double_starred;
    name = expression_child(name);
  }
  if (name != 0 && kind(name) == Kind::identifier) made.name = text(name);
  return made;
}

std::string package_of(const File& file, std::size_t dots) {
  std::string_view name = file.module;
  const bool is_package = file.path.ends_with("__init__.py");
  for (std::size_t i = is_package ? 1 : 0; i < dots; ++i) {
    const std::size_t dot = name.rfind('.');
    name = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  }
  return std::string(name);
}

void Lowering::bind_import(std::string_view local, std::string_view full,
                           std::vector<ImportedName>& names) {
  names.push_back({local, full});
  file_.imports.push_back(full);
}

void Lowering::import(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::import_, id, out);
  std::vector<ImportedName> names;
  each_child(id, [&](Id part) {
    if (kind(part) == Kind::aliased_import) {
      const Id name = child(part, Field::name);
      const Id alias = child(part, Field::alias);
      if (name != 0 && alias != 0) bind_import(text(alias), text(name), names);
    } else if (kind(part) == Kind::dotted_name) {
      const std::string_view full = text(part);
      file_.imports.push_back(full);
      names.push_back({full.substr(0, full.find('.')), full.substr(0, full.find('.'))});
    }
  });
  statement->imports = arena_.copy(std::span<const ImportedName>(names));
}

std::string Lowering::imported_module(Id id) const {
  if (kind(id) != Kind::relative_import) return std::string(text(id));
  const std::string_view written = text(id);
  const std::size_t dots = std::min(written.find_first_not_of(". \t"), written.size());
  std::string full = package_of(file_, dots);
  const std::string_view rest = written.substr(dots);
  if (!rest.empty() && !full.empty()) full += '.';
  return full.append(rest);
}

void Lowering::import_from(Id id, std::vector<Statement*>& out) {
  Statement* statement = add(StatementKind::import_, id, out);
  const Id module = child(id, Field::module_name);
  if (module == 0) return;  // from __future__
  const std::string from = imported_module(module);
  std::vector<ImportedName> names;
  each_child(id, [&](Id part) {
    if (part == module || kind(part) == Kind::token) return;
    if (kind(part) == Kind::wildcard_import) {
      bind_import("*", arena_.copy(std::string_view(from)), names);
      return;
    }
    const bool aliased = kind(part) == Kind::aliased_import;
    const Id name = aliased ? child(part, Field::name) : part;
    const Id local = aliased ? child(part, Field::alias) : part;
    if (name == 0 || local == 0) return;
    const std::string full =
        from.empty() ? std::string(text(name)) : from + "." + std::string(text(name));
    bind_import(text(local), arena_.copy(std::string_view(full)), names);
  });
  statement->imports = arena_.copy(std::span<const ImportedName>(names));
}

void Lowering::run() {
  if (tree_.nodes.empty()) return;
  file_.has_errors = tree_.has_errors;
  file_.first_error = tree_.first_error;
  file_.body = block(0, nullptr);
  for (const python::SyntaxNode& node : tree_.nodes) {
    if (node.kind == Kind::comment) {
      find_suppression(file_, {node.begin, node.end});
    }
  }
}

void lower_tree(const python::SyntaxTree& tree, File& file, FactsMemory& memory) {
  Lowering(tree, file, memory).run();
}

}  // namespace rooftile::source
