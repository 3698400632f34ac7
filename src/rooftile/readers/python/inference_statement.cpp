// Statements of inference.h: what they bind.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kFewNames = 2048;        // bytes that the names of most branches fit into
constexpr std::size_t kMaxAssignments = 1000;  // of one dotted name

bool leaves(std::span<const Statement* const> block) {
  if (block.empty()) return false;
  const StatementKind last = block.back()->kind;
  return last == StatementKind::return_ || last == StatementKind::raise_ ||
         last == StatementKind::continue_ || last == StatementKind::break_;
}

// `for p in group["params"]:` in a class derived from an optimizer of the library.
bool lists_weights(const Statement& loop) {
  const Expr* listed = loop.value;
  const ClassDef* def = loop.function == nullptr ? nullptr : loop.function->class_def;
  const bool takes_item = def != nullptr && listed != nullptr &&
                          listed->kind == ExprKind::subscript && listed->children().size() == 2 &&
                          listed->children()[1]->kind == ExprKind::text &&
                          listed->children()[1]->word() == "params";
  return takes_item && listed->type->is(TypeKind::unknown) &&
         std::ranges::any_of(def->bases, [](const Expr* base) {
           return base->full_name().starts_with("torch.optim.");
         });
}

}  // namespace

void Inference::visit(std::span<const Statement* const> block) {
  for (const Statement* statement : block) visit(*statement);
}

void Inference::visit(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::assignment:
      return visit_assignment(statement);
    case StatementKind::if_:
      return visit_if(statement);
    case StatementKind::for_:
    case StatementKind::while_:
      return visit_loop(statement);
    case StatementKind::with_:
      return visit_with(statement);
    case StatementKind::try_:
      return visit_try(statement);
    case StatementKind::function: {
      const FunctionDef& def = *statement.function_def;
      for (const Expr* decorator : def.decorators) infer(decorator);
      set_name(def.name, {def.full_name, function_type(def), &statement});
      return;
    }
    case StatementKind::class_:
      return visit_class(statement);
    case StatementKind::import_:
      return visit_import(statement);
    case StatementKind::global_:
      return visit_global(statement);
    case StatementKind::return_:
      return visit_return(statement);
    default:
      if (statement.value != nullptr) infer(statement.value);
      return visit(statement.body);
  }
}

void Inference::set_name(std::string_view name, const Entry& entry) {
  Scope* scope = scope_;
  if (scope->global.contains(name)) {
    scope = module_scopes_[scope->file];
    Entry& shared = scope->names[name];
    shared = {entry.full_name, shared.type == nullptr ? entry.type : join(shared.type, entry.type),
              nullptr};
    return;
  }
  const auto found = scope->names.find(name);
  if (found == scope->names.end()) {
    changes_.push_back({name, std::nullopt, entry});
    scope->names.emplace(name, entry);
  } else {
    changes_.push_back({name, found->second, entry});
    found->second = entry;
  }
}

// Undoes what was bound since, and returns it, one change a name.
std::vector<Inference::Change> Inference::take_changes(std::size_t mark) {
  std::vector<Change> taken;
  std::array<std::byte, kFewNames> few;
  std::pmr::monotonic_buffer_resource memory(few.data(), few.size());
  std::pmr::unordered_map<std::string_view, std::size_t> places(&memory);
  for (std::size_t i = mark; i < changes_.size(); ++i) {
    const auto [place, added] = places.emplace(changes_[i].name, taken.size());
    if (added) {
      taken.push_back(changes_[i]);
    } else {
      taken[place->second].after = changes_[i].after;
    }
  }
  changes_.resize(mark);
  for (const Change& change : taken) {
    if (change.before) {
      scope_->names[change.name] = *change.before;
    } else {
      scope_->names.erase(change.name);
    }
  }
  return taken;
}

const Type* Inference::type_of(const Entry& entry) {
  if (!entry.type->is(TypeKind::unknown)) return entry.type;
  const auto def = store_.classes_by_name.find(entry.full_name);
  return def == store_.classes_by_name.end() ? entry.type : class_type(*def->second);
}

Entry Inference::join(const std::optional<Entry>& a, const std::optional<Entry>& b) {
  if (!a) return b.value_or(Entry{{}, &unknown_type(), nullptr});
  if (!b) return *a;
  Entry both = *a;
  if (both.full_name.empty()) both.full_name = b->full_name;
  // One own class or another, by an option: `from models.plain import Plain as Model`.
  const Type* first = type_of(*a);
  const Type* second = type_of(*b);
  const bool are_classes =
      first != second && first->is(TypeKind::class_) && second->is(TypeKind::class_);
  if (are_classes) both.full_name = {};
  both.type = are_classes ? join(first, second) : join(a->type, b->type);
  if (a->binding != b->binding) both.binding = nullptr;
  return both;
}

void Inference::join_branches(const std::vector<Change>& first, const std::vector<Change>& second) {
  std::array<std::byte, kFewNames> few;
  std::pmr::monotonic_buffer_resource memory(few.data(), few.size());
  std::pmr::unordered_map<std::string_view, const Change*> others(&memory);
  for (const Change& change : second) others.emplace(change.name, &change);
  for (const Change& change : first) {
    const auto other = others.find(change.name);
    const bool both = other != others.end();
    set_name(change.name, join(change.after, both ? other->second->after : change.before));
    if (both) others.erase(other);
  }
  for (const Change& change : second) {
    if (others.contains(change.name)) set_name(change.name, join(change.after, change.before));
  }
}

void Inference::visit_if(const Statement& statement) {
  infer(statement.value);
  const std::size_t mark = changes_.size();
  visit(statement.body);
  const std::vector<Change> first = take_changes(mark);
  visit(statement.otherwise);
  const std::vector<Change> second = take_changes(mark);
  if (leaves(statement.body)) {
    for (const Change& change : second) set_name(change.name, *change.after);
  } else if (second.empty() && asks_for_cuda(statement.value)) {
    for (const Change& change : first) {
      const bool moves = change.after->type->on_gpu();
      set_name(change.name, moves ? *change.after : join(change.after, change.before));
    }
  } else if (leaves(statement.otherwise)) {
    for (const Change& change : first) set_name(change.name, *change.after);
  } else {
    join_branches(first, second);
  }
}

void Inference::forget_target(const Expr* target) {
  if (target == nullptr) return;
  if (target->kind == ExprKind::name) {
    const auto found = scope_->names.find(target->word());
    if (found == scope_->names.end() || found->second.binding == nullptr) return;
    Entry entry = found->second;
    entry.binding = nullptr;
    set_name(target->word(), entry);
  } else if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    for (const Expr* part : target->children()) forget_target(part);
  }
}

// At the top of a loop, what its body assigns may come from the pass before.
void Inference::forget_assigned(std::span<const Statement* const> block) {
  for (const Statement* statement : block) {
    if (statement->kind == StatementKind::assignment || statement->kind == StatementKind::for_) {
      forget_target(statement->target);
    }
    forget_assigned(statement->body);
    forget_assigned(statement->otherwise);
  }
}

void Inference::visit_loop(const Statement& statement) {
  infer(statement.value);
  if (lists_weights(statement)) {
    Type weights;
    weights.kind = TypeKind::gradients;
    weights.element = tensor(Residence::unknown);
    writable(*statement.value).type = store_.intern(weights);
  }
  const std::size_t mark = changes_.size();
  forget_assigned(statement.body);
  if (statement.target != nullptr) bind_iteration(statement.target, statement.value, &statement);
  visit(statement.body);
  const std::vector<Change> body = take_changes(mark);
  join_branches(body, {});
  visit(statement.otherwise);
}

void Inference::visit_with(const Statement& statement) {
  for (const WithItem& item : statement.items) {
    const Type* type = infer(item.context);
    if (item.target != nullptr) bind(item.target, type, nullptr, &statement);
  }
  visit(statement.body);
}

void Inference::visit_try(const Statement& statement) {
  visit(statement.body);
  for (const Statement* handler : statement.otherwise) {
    if (handler->word == "else" || handler->word == "finally") {
      visit(handler->body);
      continue;
    }
    const std::size_t mark = changes_.size();
    visit(handler->body);
    const std::vector<Change> changed = take_changes(mark);
    if (!leaves(handler->body)) {
      // What was there before the handler comes first: its import, not the fallback's.
      for (const Change& change : changed) {
        set_name(change.name, join(change.before, change.after));
      }
    }
  }
}

void Inference::visit_class(const Statement& statement) {
  const ClassDef& def = *statement.class_def;
  for (const Expr* base : def.bases) infer(base);
  for (const Expr* decorator : def.decorators) infer(decorator);
  Scope& inner = scopes_.emplace_back(&scope_memory_);
  inner.outer = scope_;
  inner.file = scope_->file;
  Scope* const outer = std::exchange(scope_, &inner);
  const std::size_t mark = changes_.size();
  visit(def.body);
  changes_.resize(mark);
  for (const auto& [name, entry] : inner.names) attributes_[&def].emplace(name, entry);
  scope_ = outer;
  set_name(def.name, {def.full_name, class_type(def), &statement});
}

void Inference::visit_import(const Statement& statement) {
  for (const ImportedName& name : statement.imports) {
    if (name.local == "*") {
      scope_->wildcards.push_back(resolve_import(name.full_name, *statement.file));
      wildcard_sources_.clear();
      continue;
    }
    set_name(name.local,
             {resolve_import(name.full_name, *statement.file), &unknown_type(), &statement});
  }
}

void Inference::visit_global(const Statement& statement) {
  std::string_view text = statement.file->slice(statement.range);
  if (!text.starts_with("global")) return;
  text.remove_prefix(std::string_view("global").size());
  for (const std::string_view part : split(text, ',')) scope_->global.insert(trim(part));
}

void Inference::visit_assignment(const Statement& statement) {
  const Type* type = statement.value == nullptr ? &unknown_type() : infer(statement.value);
  if (statement.word != "=") {
    const Type* before = infer(statement.target);
    const bool tensor = before->is(TypeKind::tensor) || type->is(TypeKind::tensor);
    type = tensor ? join(before, type) : before;
  }
  bind(statement.target, type, statement.value, &statement);
}

void Inference::bind(const Expr* target, const Type* type, const Expr* value,
                     const Statement* statement) {
  switch (target->kind) {
    case ExprKind::name: {
      const Type* made = of_backward(moved_module(type, value, target->word()), target->word());
      Entry entry{{}, guess(made, target->word()), statement};
      // Net = models.Net, autocast = torch.cuda.amp.autocast
      const bool alias = value != nullptr && !value->full_name().empty() &&
                         (value->kind == ExprKind::name || value->kind == ExprKind::attribute) &&
                         !is_dtype(value->full_name()) && statement->word == "=";
      if (alias && (value->type->is(TypeKind::function) || value->type->is(TypeKind::class_) ||
                    known(value->full_name()).call.gives != Gives::unknown)) {
        entry.full_name = value->full_name();
      }
      note_partial(value, entry);
      note_imported(value, entry);
      set_name(target->word(), entry);
      writable(*target).type = entry.type;
      return;
    }
    case ExprKind::tuple:
    case ExprKind::list:
      return bind_sequence(target, type, value, statement);
    case ExprKind::starred:
      return bind(target->children()[0], container_of(type->element), nullptr, statement);
    case ExprKind::attribute:
      return bind_attribute(target, type, statement);
    default:
      infer(target);
      note_moved_items(*target, *type);
      note_set_item(*target, *type);
  }
}

// Methods that were read before one of their attributes was known.
void Inference::read_again(const ClassDef& def) {
  for (const FunctionDef* method : def.methods) {
    if (method != function_ && visits_[method] > 0) enqueue(*method);
  }
}

// self.net = Net()
void Inference::bind_own_attribute(const Expr& target, const Type* type,
                                   const Statement& statement) {
  const Type& owner = *target.children()[0]->type;
  Entry& entry = attributes_[owner.class_def][target.word()];
  const Type* guessed = guess(type, target.word());
  // Layers and parameters move with the module that has them.
  const bool moves = guessed->is(TypeKind::module) || guessed->is(TypeKind::tensor);
  if (owner.is(TypeKind::module) && moves && guessed->residence == Residence::host) {
    guessed = with_residence(*guessed, Residence::unknown);
  }
  const Type* before = entry.type;
  // `self.batch = {}`, and then `self.batch = next(self.loader)`.
  const Expr* value = statement.value;
  const bool is_next =
      value != nullptr && value->call() != nullptr && value->call()->name == "next";
  const bool clears =
      value != nullptr && value->kind == ExprKind::dict && value->children().empty();
  if (before != nullptr && clears && before->is(TypeKind::tensor)) guessed = before;
  if (before != nullptr && is_next && before->is(TypeKind::container)) entry.type = guessed;
  entry = entry.type == nullptr || entry.binding == &statement
              ? Entry{{}, guessed, &statement}
              : Entry{{}, join(entry.type, guessed), nullptr};
  if (before != nullptr && before != entry.type) read_again(*owner.class_def);
  writable(target).type = entry.type;
}

void Inference::bind_attribute(const Expr* target, const Type* type, const Statement* statement) {
  const Expr* object = target->children()[0];
  const Type* owner = infer(object);
  const bool is_self = object->kind == ExprKind::name && object->word() == "self";
  if (is_self && owner->class_def != nullptr) return bind_own_attribute(*target, type, *statement);
  infer(target);
  record_entry(*target, statement->value);
  if (statement->kind == StatementKind::assignment) record_parsed_entry(*target, *statement);
  if (target->full_name().empty()) return;
  std::vector<const Statement*>& all = store_.assignments_by_name[target->full_name()];
  const bool room = all.size() < kMaxAssignments;
  if (room && std::ranges::find(all, statement) == all.end()) all.push_back(statement);
}

}  // namespace rooftile::source
