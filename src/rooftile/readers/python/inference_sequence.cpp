// Lists, tuples and dictionaries of inference.h: what each of their items is.
#include <algorithm>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

// Of numbers and texts one kind for all is enough.
bool is_worth_following(const Expr* item) {
  switch (item->type->kind) {
    case TypeKind::unknown:
    case TypeKind::number:
    case TypeKind::text:
    case TypeKind::dtype:
    case TypeKind::host_object:
      return false;
    case TypeKind::container:
      return item->type->items != nullptr || item->type->made_by != nullptr;
    default:
      return true;
  }
}

}  // namespace

const Type* Inference::infer_sequence(Expr& expr) {
  const Type* element = nullptr;
  bool same = true;
  for (std::size_t i = 0; i < expr.children().size(); ++i) {
    const Type* type = infer(expr.children()[i]);
    if (expr.kind == ExprKind::dict && i % 2 == 0) continue;
    if (expr.children()[i]->kind == ExprKind::starred && type->is(TypeKind::container)) {
      type = type->element;
    }
    if (type == nullptr) continue;
    same = same && (element == nullptr || element->kind == type->kind);
    element = element == nullptr ? type : join(element, type);
  }
  Type made = *container_of(same ? element : nullptr);
  const bool is_followed = std::ranges::any_of(expr.children(), [&](const Expr* item) {
    return is_worth_following(item) || modules_.contains(item->full_name());
  });
  if (is_followed) made.items = &expr;
  return store_.intern(made);
}

// `methods[name].get_trainer(…)` of `methods = {"onet": onet, "pix2mesh": pix2mesh}`, files that
// offer the same: the one of a key that is written, else the first. Null for other lists.
const Expr* Inference::chosen_module(const Type& container, const Expr& index) const {
  if (container.items == nullptr || container.items->kind != ExprKind::dict) return nullptr;
  const auto items = container.items->children();
  const Expr* chosen = nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (!modules_.contains(items[i + 1]->full_name())) return nullptr;
    const bool is_key = index.kind == ExprKind::text && items[i]->word() == index.word();
    if (chosen == nullptr || is_key) chosen = items[i + 1];
  }
  return chosen;
}

// Of one that is written: pair[0], loaders["train"]; null where the index does not tell.
const Type* Inference::written_item(const Type& container, const Expr& index) const {
  if (container.items == nullptr) return nullptr;
  const auto items = container.items->children();
  if (container.items->kind == ExprKind::dict) {
    // networks[args.model]: the default of the option.
    const Value key = facts_.value(&index);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const bool is_it = items[i]->kind == ExprKind::text && key.kind == ValueKind::text &&
                         items[i]->word() == key.text;
      if (is_it) return items[i + 1]->type;
    }
    return nullptr;
  }
  const auto place = index.kind == ExprKind::integer ? parse_integer(index.word()) : std::nullopt;
  const bool is_inside = place && *place >= 0 && std::cmp_less(*place, items.size());
  return is_inside ? items[static_cast<std::size_t>(*place)]->type : nullptr;
}

const Type* Inference::infer_comprehension(Expr& expr) {
  const std::size_t mark = changes_.size();
  for (const Expr* child : expr.children()) {
    if (child->kind != ExprKind::for_clause) continue;
    infer(child->children()[1]);
    bind_iteration(child->children()[0], child->children()[1], expr.statement);
  }
  const Type* element = &unknown_type();
  for (const Expr* child : expr.children()) {
    if (child->kind == ExprKind::for_clause) continue;
    const Type* type = infer(child);
    if (child == expr.children()[0] ||
        (child == expr.children()[1] && expr.children()[1]->kind != ExprKind::for_clause)) {
      element = type;  // of a dict, the value
    }
  }
  take_changes(mark);
  return container_of(element);
}

namespace {

// Calls that give the items of their first argument.
bool passes_items(std::string_view name) {
  return name == "tqdm.tqdm" || name == "iter" || name == "list" || name == "reversed" ||
         name == "itertools.islice" || name == "tqdm" || name == "sorted";
}

// `bar = tqdm(enumerate(loader))`, and then `for i, batch in bar`: what the name was set to.
const Expr* made_sequence(const Expr* iterable) {
  const Statement* set = iterable->binding();
  const bool is_set = set != nullptr && set->kind == StatementKind::assignment &&
                      set->target->kind == ExprKind::name &&
                      set->file == iterable->statement->file &&
                      set->range.end <= iterable->range.begin;
  const Expr* value = is_set ? set->value : nullptr;
  const Call* call = value == nullptr ? nullptr : value->call();
  const bool hands_on = call != nullptr && (passes_items(call->name) || call->name == "enumerate" ||
                                            call->name == "zip");
  return hands_on ? value : iterable;
}

}  // namespace

// The target of a loop over `iterable`, looked at through enumerate, zip and the like.
void Inference::bind_iteration(const Expr* target, const Expr* iterable,
                               const Statement* statement) {
  iterable = made_sequence(iterable);
  const Call* call = iterable->call();
  const Expr* given =
      call == nullptr || call->arguments.empty() ? nullptr : call->arguments[0].value;
  if (given != nullptr && passes_items(call->name)) return bind_iteration(target, given, statement);
  if (call != nullptr && call->name == "range") {
    return bind(target, simple(TypeKind::number), nullptr, statement);
  }
  if (target->kind == ExprKind::tuple && given != nullptr && call->name == "zip") {
    for (std::size_t i = 0; i < target->children().size() && i < call->arguments.size(); ++i) {
      bind_iteration(target->children()[i], call->arguments[i].value, statement);
    }
    return;
  }
  if (target->kind == ExprKind::tuple && target->children().size() == 2 &&
      bind_pairs(target, iterable, statement)) {
    return;
  }
  const Type* type = iterable->type;
  if (type->is(TypeKind::loader)) {
    type = next_item(*type);
  } else if (!type->is(TypeKind::tensor)) {
    type = type->element == nullptr ? &unknown_type() : type->element;
  }
  bind(target, type, nullptr, statement);
}

// `for i, batch in enumerate(loader)`, `for key, value in batch.items()`, `for name, weight in
// model.named_parameters()`.
bool Inference::bind_pairs(const Expr* target, const Expr* iterable, const Statement* statement) {
  const Call* call = iterable->call();
  if (call != nullptr && call->name == "enumerate" && !call->arguments.empty()) {
    bind(target->children()[0], simple(TypeKind::number), nullptr, statement);
    bind_iteration(target->children()[1], call->arguments[0].value, statement);
    return true;
  }
  const bool has_items = call != nullptr && call->method == "items";
  const bool is_named = iterable->type->is(TypeKind::gradients);
  if (!has_items && !is_named) return false;
  const Type* second = iterable->type->element;
  bind(target->children()[0], simple(TypeKind::text), nullptr, statement);
  bind(target->children()[1], second == nullptr ? &unknown_type() : second, nullptr, statement);
  return true;
}

namespace {

// The loader that the loops around a statement read; null without one.
const Type* loader_around(const Statement* statement) {
  for (; statement != nullptr; statement = statement->parent) {
    if (statement->kind == StatementKind::function) return nullptr;
    if (statement->kind != StatementKind::for_) continue;
    const Expr* loader = find_inside(
        statement->value, [](const Expr& part) { return part.type->is(TypeKind::loader); });
    if (loader != nullptr) return loader->type;
  }
  return nullptr;
}

}  // namespace

// A generator that hands on what a loader gives, once or without end, is a loader itself.
const Type* Inference::infer_yield(Expr& expr) {
  const Type* given = nullptr;
  for (const Expr* child : expr.children()) given = infer(child);
  if (given == nullptr || function_ == nullptr) return &unknown_type();
  if (given->is(TypeKind::loader)) {
    returns(*function_, given);
  } else if (const Type* loader = loader_around(expr.statement)) {
    returns(*function_, given->on_gpu() ? with_residence(*loader, Residence::gpu) : loader);
  }
  return &unknown_type();
}

// `for k in batch: batch[k] = batch[k].cuda()`: then all of the batch is there.
void Inference::note_moved_items(const Expr& target, const Type& type) {
  if (target.kind != ExprKind::subscript || target.children().size() != 2) return;
  const Expr& batch = *target.children()[0];
  const Expr& key = *target.children()[1];
  const Statement* loop = key.kind == ExprKind::name ? key.binding() : nullptr;
  const bool is_each = loop != nullptr && loop->kind == StatementKind::for_;
  if (!is_each || !type.is(TypeKind::tensor) || type.residence == Residence::host) return;
  const Entry* entry = bound_entry(&batch);
  if (entry == nullptr || !entry->type->is(TypeKind::tensor)) return;
  if (is_made_in_place(*entry)) return;
  if (batch.kind == ExprKind::name)
    writable(*entry).type = with_residence(*entry->type, type.residence);
}

namespace {

bool is_part_of_training(const Type& type) {
  return type.is(TypeKind::module) || type.is(TypeKind::optimizer) ||
         type.is(TypeKind::scheduler) || type.is(TypeKind::loader);
}

// What a loss or a network gives: `losses["real"] = criterion(scores, ones)`.
bool is_recorded(const Type& type) {
  return type.is(TypeKind::tensor) && type.requires_grad && !type.guessed;
}

}  // namespace

// `optimizers[name] = Adam(…)` and `losses["real"] = criterion(…)` of a dictionary that was empty.
void Inference::note_set_item(const Expr& target, const Type& type) {
  if (target.kind != ExprKind::subscript) return;
  if (!is_part_of_training(type) && !is_recorded(type)) return;
  const Entry* entry = bound_entry(target.children()[0]);
  const Statement* binding = entry == nullptr ? nullptr : entry->binding;
  const Expr* value = binding == nullptr ? nullptr : binding->value;
  if (value == nullptr) return;
  const bool is_empty = value->kind == ExprKind::dict && value->children().empty();
  if (!is_empty || entry->type->is(TypeKind::module)) return;
  Type made = *container_of(&type);
  if (entry->type->is(TypeKind::container) && entry->type->element != nullptr) {
    if (entry->type->element->kind != type.kind) return;
    made = *container_of(join(entry->type->element, &type));
  }
  writable(*entry).type = store_.intern(made);
}

const Type* Inference::container_method(Call& call, const Type& receiver) {
  const std::string_view method = call.method;
  if (method == "append") note_append(call, receiver);
  if (method == "items" || method == "values" || method == "copy") return &receiver;
  return receiver.element == nullptr ? &unknown_type() : receiver.element;
}

// next(x), also of an own class with __next__.
const Type* Inference::next_of(Call& call) {
  const Type& from = *call.arguments[0].value->type;
  if (const FunctionDef* own = find_method(from.class_def, "__next__")) {
    return own_function_call(call, *own, false);
  }
  return next_item(from);
}

const Type* Inference::next_item(const Type& from) {
  if (from.is(TypeKind::loader)) {
    Type batch = *tensor(from.on_gpu() ? Residence::gpu : Residence::host);
    batch.made_by = from.made_by;
    return store_.intern(batch);
  }
  return from.element == nullptr ? &unknown_type() : from.element;
}

}  // namespace rooftile::source
