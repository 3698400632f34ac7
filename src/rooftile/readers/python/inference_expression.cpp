// Names, attributes and operations of inference.h.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

constexpr int kMaxReexports = 8;

bool is_cuda(std::string_view text) { return text.starts_with("cuda"); }
bool is_cpu(std::string_view text) { return text == "cpu" || text.starts_with("cpu:"); }

bool is_tensor_attribute(std::string_view word) {
  return is_one_of(word, {"T", "mT", "real", "imag", "loss", "logits", "last_hidden_state",
                          "values", "indices"});
}

bool is_number_attribute(std::string_view word) {
  return is_one_of(word, {"ndim", "requires_grad", "is_cuda", "nbytes"});
}

}  // namespace

const Type* Inference::infer(const Expr* expr) {
  if (expr == nullptr) return &unknown_type();
  if (++visited_ > most_visits_) return &unknown_type();
  Expr& mine = writable(*expr);
  mine.type = infer_kind(mine);
  return mine.type;
}

const Type* Inference::infer_kind(Expr& expr) {
  switch (expr.kind) {
    case ExprKind::name:
      return infer_name(expr);
    case ExprKind::attribute:
      return infer_attribute(expr);
    case ExprKind::call:
      return infer_call(expr);
    case ExprKind::subscript:
      return infer_subscript(expr);
    case ExprKind::text:
    case ExprKind::format:
      return infer_text(expr);
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
      return simple(TypeKind::number);
    case ExprKind::list:
    case ExprKind::tuple:
    case ExprKind::set:
    case ExprKind::dict:
      return infer_sequence(expr);
    case ExprKind::unary:
    case ExprKind::binary:
    case ExprKind::comparison:
    case ExprKind::logical:
      return infer_operation(expr);
    case ExprKind::conditional:
      for (const Expr* child : expr.children()) infer(child);
      return chosen_type(expr);
    case ExprKind::comprehension:
      return infer_comprehension(expr);
    case ExprKind::starred:
    case ExprKind::await:
      return join_children(expr);
    case ExprKind::yield:
      return infer_yield(expr);
    case ExprKind::walrus:
      if (expr.children().size() != 2) return &unknown_type();
      infer(expr.children()[1]);
      bind(expr.children()[0], expr.children()[1]->type, expr.children()[1], expr.statement);
      return expr.children()[1]->type;
    default:
      for (const Expr* child : expr.children()) infer(child);
      return &unknown_type();
  }
}

// Device names are devices: device = "cuda:0".
const Type* Inference::infer_text(Expr& expr) {
  for (const Expr* child : expr.children()) infer(child);
  if (is_cuda(expr.word())) return simple(TypeKind::device, Residence::gpu);
  if (is_cpu(expr.word())) return simple(TypeKind::device, Residence::host);
  return simple(TypeKind::text);
}

const Entry* Inference::lookup(std::string_view name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

std::optional<Entry> Inference::lookup_wildcard(std::string_view name) {
  return lookup_wildcard(name, scope_);
}

std::optional<Entry> Inference::lookup_wildcard(std::string_view name, const Scope* from) {
  while (from != nullptr && from->wildcards.empty()) from = from->outer;
  if (from == nullptr) return std::nullopt;
  for (const WildcardSource& source : wildcard_sources(*from)) {
    if (source.scope == nullptr && exports(source.package, name)) {
      const std::string full = std::string(source.package) + "." + std::string(name);
      return Entry{known(intern(full)).name, &unknown_type(), nullptr};
    }
    if (source.scope == nullptr) continue;
    const auto found = source.scope->names.find(name);
    if (found != source.scope->names.end()) return found->second;
  }
  return std::nullopt;
}

// A module hands on what it got by `import *` itself. Modules may import each other.
const std::vector<Inference::WildcardSource>& Inference::wildcard_sources(const Scope& from) {
  constexpr std::size_t kMostSources = 4096;
  const auto [kept, is_new] = wildcard_sources_.try_emplace(&from);
  std::vector<WildcardSource>& all = kept->second;
  if (!is_new) return all;
  std::unordered_set<std::string_view> seen;
  struct Open {
    const Scope* scope;
    std::size_t next = 0;
  };
  std::vector<Open> open{{&from}};
  while (!open.empty() && all.size() < kMostSources) {
    Open& inner = open.back();
    if (inner.next == inner.scope->wildcards.size()) {
      const Scope* outer = inner.scope->outer;
      open.pop_back();
      if (outer != nullptr) open.push_back({outer});
      continue;
    }
    const std::string_view package = inner.scope->wildcards[inner.next++];
    if (!seen.insert(package).second) continue;
    const auto own = modules_.find(package);
    if (own == modules_.end()) {
      all.push_back({nullptr, package});
      continue;
    }
    const auto names = module_scopes_.find(own->second);
    if (names == module_scopes_.end()) continue;
    all.push_back({names->second, package});
    open.push_back({names->second});
  }
  return all;
}

// Follows re-exports of the given files to where a name is defined.
std::optional<Entry> Inference::definition(std::string_view full_name) {
  std::string_view full = full_name;
  for (int i = 0; i < kMaxReexports; ++i) {
    const std::size_t dot = full.rfind('.');
    const std::string_view package = dot == std::string_view::npos ? "" : full.substr(0, dot);
    const auto module = modules_.find(package);
    if (module == modules_.end()) return std::nullopt;
    const auto scope = module_scopes_.find(module->second);
    if (scope == module_scopes_.end()) return std::nullopt;
    const std::string_view name = full.substr(dot + 1);
    const auto found = scope->second->names.find(name);
    std::optional<Entry> entry;
    if (found != scope->second->names.end()) {
      entry = found->second;
    } else {
      Scope* const here = std::exchange(scope_, scope->second);
      entry = lookup_wildcard(name);
      scope_ = here;
    }
    if (!entry) return std::nullopt;
    if (entry->full_name.empty() || entry->full_name == full) {
      return Entry{full, entry->type, entry->binding};
    }
    if (!entry->type->is(TypeKind::unknown)) return entry;
    full = entry->full_name;
    if (!modules_.contains(full.substr(0, full.rfind('.')))) return Entry{full, &unknown_type()};
  }
  return std::nullopt;
}

const Type* Inference::infer_name(Expr& expr) {
  std::optional<Entry> found;
  if (const Entry* entry = lookup(expr.word())) {
    found = *entry;
  } else {
    found = lookup_wildcard(expr.word());
  }
  if (!found) {
    // A file that was not given may hand `torch` on by `import *`.
    const bool is_known = is_builtin(expr.word()) || expr.word() == "torch";
    if (is_known) store_.set_origin(expr, expr.word(), expr.binding());
    return &unknown_type();
  }
  if (!found->full_name.empty() && found->type->is(TypeKind::unknown)) {
    if (const std::optional<Entry> defined = definition(found->full_name)) found = defined;
  }
  store_.set_origin(expr, found->full_name, found->binding);
  if (is_dtype(expr.full_name())) return simple(TypeKind::dtype);
  return found->type;
}

const Entry* Inference::class_attribute(const ClassDef* def, std::string_view name) {
  for (const ClassDef* each : lineage(store_, def)) {
    const auto members = attributes_.find(each);
    if (members == attributes_.end()) continue;
    const auto found = members->second.find(name);
    if (found != members->second.end()) return &found->second;
  }
  return nullptr;
}

const FunctionDef* Inference::find_method(const ClassDef* def, std::string_view name) {
  for (const ClassDef* each : lineage(store_, def)) {
    if (const FunctionDef* method = each->method(name)) return method;
  }
  return nullptr;
}

// `@property def net(self): …`; who reads it before it was read itself is read again.
const FunctionDef* Inference::find_property(const ClassDef& def, std::string_view name) {
  const FunctionDef* getter = find_method(&def, name);
  const bool is_property =
      getter != nullptr && std::ranges::any_of(getter->decorators, [](const Expr* each) {
        return each->word() == "property" || each->word() == "cached_property";
      });
  if (!is_property) return nullptr;
  if (visits_[getter] == 0) {
    enqueue(*getter);
    if (function_ != nullptr && function_ != getter) enqueue(*function_);
  }
  return getter;
}

// nn.ModuleDict(dict(wte=nn.Embedding(…))): members are attributes.
const Type* Inference::dictionary_member(const Call& made_by, std::string_view word) {
  if (made_by.name != "torch.nn.ModuleDict" || made_by.arguments.empty()) return nullptr;
  const Expr& given = *made_by.arguments[0].value;
  const Type* found = nullptr;
  if (given.call() != nullptr) {
    const Argument* argument = given.call()->argument(word);
    if (argument != nullptr) found = argument->value->type;
  }
  for (std::size_t i = 0; given.kind == ExprKind::dict && i + 1 < given.children().size(); i += 2) {
    if (given.children()[i]->word() == word) found = given.children()[i + 1]->type;
  }
  return found == nullptr ? nullptr : with_residence(*found, Residence::unknown);
}

// An attribute or property of an own class; null where it has none.
const Type* Inference::own_member(const ClassDef* def, std::string_view word,
                                  const Statement** binding) {
  if (def == nullptr) return nullptr;
  const Entry* entry = class_attribute(def, word);
  const bool may_be_property = entry == nullptr || entry->type->function != nullptr;
  const FunctionDef* getter = may_be_property ? find_property(*def, word) : nullptr;
  if (entry != nullptr && (getter == nullptr || entry->type->function != getter)) {
    *binding = entry->binding;
    return entry->type;
  }
  const bool is_known = getter != nullptr && !getter->returns->is(TypeKind::unknown);
  return is_known ? getter->returns : nullptr;
}

// Of a tensor; null for other words.
const Type* Inference::tensor_attribute(const Type& object, std::string_view word) {
  if (word == "data" || word == "grad") return tensor(object.residence);  // without a graph
  if (is_tensor_attribute(word)) return store_.intern(object);
  if (word == "shape") return container_of(simple(TypeKind::number));
  if (word == "dtype") return simple(TypeKind::dtype);
  if (word == "device") return simple(TypeKind::device, object.residence);
  if (is_number_attribute(word)) return simple(TypeKind::number);
  return nullptr;
}

const Type* Inference::attribute_type(const Type& object, std::string_view word,
                                      const Statement** binding) {
  if (const Type* member = own_member(object.class_def, word, binding)) return member;
  if (object.is(TypeKind::module) && word == "module") return store_.intern(object);
  if (object.is(TypeKind::module) && object.made_by != nullptr) {
    if (const Type* member = dictionary_member(*object.made_by, word)) return member;
  }
  if (object.is(TypeKind::tensor)) {
    if (const Type* known = tensor_attribute(object, word)) return known;
  }
  if (object.is(TypeKind::accelerator) && word == "device") {
    return simple(TypeKind::device, Residence::gpu);
  }
  return guess(&unknown_type(), word);
}

const Type* Inference::infer_attribute(Expr& expr) {
  const Expr& object = *expr.children()[0];
  const Type* owner = infer(&object);
  const bool instance = object.binding() != nullptr &&
                        object.binding()->kind == StatementKind::assignment &&
                        object.type->is(TypeKind::unknown);
  const std::string_view root = object.full_name();
  if (!root.empty() && !instance) {
    const std::string full = std::string(root) + "." + std::string(expr.word());
    const std::string_view name = known(full).name;
    if (const std::optional<Entry> defined = definition(name)) {
      store_.set_origin(expr, defined->full_name, defined->binding);
      return defined->type;
    }
    // Config.from_json(path), Moves.to_device(batch), Base.reset(self)
    if (const FunctionDef* method =
            owner->is(TypeKind::class_) ? static_method(owner->class_def, expr.word()) : nullptr) {
      store_.set_origin(expr, method->full_name, expr.binding());
      return function_type(*method);
    }
    if (const Type* member = class_member(expr, *owner, name)) return member;
    if (owner->is(TypeKind::unknown) || owner->is(TypeKind::class_)) {
      store_.set_origin(expr, resolve_import(name, *file_), expr.binding());
      return is_dtype(expr.full_name()) ? simple(TypeKind::dtype) : &unknown_type();
    }
  }
  const Statement* binding = expr.binding();
  const Type* type = attribute_type(*owner, expr.word(), &binding);
  store_.set_origin(expr, expr.full_name(), binding);
  return type;
}

const Type* Inference::infer_subscript(Expr& expr) {
  for (const Expr* child : expr.children()) infer(child);
  if (const Type* named = named_global(expr)) return named;
  const Type* object = expr.children()[0]->type;
  switch (object->kind) {
    case TypeKind::tensor:
    case TypeKind::array:
    case TypeKind::text:
    case TypeKind::module:  // a layer of a list, with the list's class unknown
      if (object->is(TypeKind::module)) return simple(TypeKind::module, object->residence);
      return object;
    case TypeKind::container:
      if (expr.children().size() == 2) {
        if (const Expr* module = chosen_module(*object, *expr.children()[1])) {
          store_.set_origin(expr, module->full_name(), expr.binding());
        }
        if (const Type* item = written_item(*object, *expr.children()[1])) return item;
      }
      return object->element == nullptr ? &unknown_type() : object->element;
    default:
      return &unknown_type();
  }
}

namespace {

// Of an operation without tensors and arrays: text + x is text.
const Type& kept_type(const Expr& operation) {
  const Type& first = *operation.children()[0]->type;
  const bool keeps =
      first.is(TypeKind::text) || first.is(TypeKind::container) || first.is(TypeKind::device);
  return keeps ? first : unknown_type();
}

}  // namespace

// `args.device or "cpu"`
const Type* Inference::chosen_operand(Expr& expr) {
  const Type* chosen = nullptr;
  for (const Expr* child : expr.children()) {
    const Type* each = infer(child);
    chosen = chosen == nullptr ? each : either(chosen, each);
  }
  return chosen == nullptr ? &unknown_type() : chosen;
}

const Type* Inference::infer_operation(Expr& expr) {
  // Before the children are visited: a second visit of each would double at every level.
  if (expr.kind == ExprKind::logical && expr.word() != "not") return chosen_operand(expr);
  const Type* joined = nullptr;
  bool all_numbers = true;
  for (const Expr* child : expr.children()) {
    const Type* type = infer(child);
    all_numbers = all_numbers && type->is(TypeKind::number);
    if (type->is(TypeKind::tensor)) {
      joined = joined != nullptr && joined->is(TypeKind::tensor) ? combine(joined, type) : type;
    } else if (joined == nullptr && type->is(TypeKind::array)) {
      joined = type;
    }
  }
  const bool identity = expr.word() == "is" || expr.word() == "is not" || expr.word() == "in" ||
                        expr.word() == "not in" || expr.word() == "not";
  if (identity || (joined == nullptr && expr.kind == ExprKind::comparison)) {
    return simple(TypeKind::number);
  }
  if (joined == nullptr) return all_numbers ? simple(TypeKind::number) : &kept_type(expr);
  if (expr.kind == ExprKind::comparison && joined->is(TypeKind::tensor)) {
    return tensor(joined->residence);
  }
  return joined;
}

}  // namespace rooftile::source
