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

// `[x.cuda() for x in args]` with `def to_cuda(*args)`.
bool Inference::goes_through_arguments(const Expr& comprehension) const {
  if (function_ == nullptr) return false;
  return std::ranges::any_of(comprehension.children(), [&](const Expr* clause) {
    if (clause->kind != ExprKind::for_clause || clause->children().size() < 2) return false;
    const Expr& iterable = *clause->children()[1];
    return iterable.kind == ExprKind::name &&
           std::ranges::any_of(function_->parameters, [&](const Parameter& parameter) {
             return parameter.starred && parameter.name == iterable.word();
           });
  });
}

bool is_length_item(const Expr& subscript) {
  const Expr* key = subscript.children().size() == 2 ? subscript.children()[1] : nullptr;
  return key != nullptr && key->kind == ExprKind::text && subscript.children()[0]->type->on_gpu() &&
         (key->word().ends_with("_len") || key->word().ends_with("lens") ||
          key->word().ends_with("lengths"));
}

namespace {

// What a function returns under the key of a dictionary; null where that is not seen.
const Expr* returned_item(const FunctionDef& function, const Expr& key) {
  if (key.kind != ExprKind::text) return nullptr;
  const Expr* found = nullptr;
  for_statements(function.body, [&](const Statement& statement) {
    const bool returns = statement.kind == StatementKind::return_ && statement.value != nullptr;
    const Expr* given = returns ? resolved(statement.value) : nullptr;
    if (given == nullptr || given->kind != ExprKind::dict) return;
    const auto items = given->children();
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i]->word() == key.word()) found = items[i + 1];
    }
  });
  return found;
}

}  // namespace

// Where the other function was not read yet, the one that is being read is read once more after it.
void Inference::read_first(const FunctionDef& other) {
  if (visits_[&other] > 0) return;
  enqueue(other);
  if (function_ != nullptr) {
    enqueue(*function_);
  } else {
    stale_.insert(file_);
  }
}

// `batch["names"]` of a loader whose collate function, one of the project, puts numbers or texts of
// the data set into a list; null for others.
const Type* Inference::collated_list(const Type& batch, const Expr& key) {
  const Argument* collate =
      batch.made_by == nullptr ? nullptr : batch.made_by->argument("collate_fn");
  const Argument* dataset = collate == nullptr ? nullptr : batch.made_by->argument("dataset", 0);
  if (dataset == nullptr) return nullptr;
  const FunctionDef* function = collate->value->type->function;
  const FunctionDef* get = find_method(dataset->value->type->class_def, "__getitem__");
  if (function == nullptr || get == nullptr) return nullptr;
  read_first(*function);
  read_first(*get);
  const Expr* list = resolved(returned_item(*function, key));
  const bool is_list = list != nullptr && list->kind == ExprKind::comprehension;
  const Expr* item = is_list ? list->children()[0] : nullptr;
  if (item == nullptr || item->kind != ExprKind::subscript || item->children().size() != 2) {
    return nullptr;
  }
  const Expr* given = returned_item(*get, *item->children()[1]);
  const bool is_plain =
      given != nullptr && (given->type->is(TypeKind::number) || given->type->is(TypeKind::text));
  return is_plain ? container_of(given->type) : nullptr;
}

const Type* Inference::infer_comprehension(Expr& expr) {
  const std::size_t mark = changes_.size();
  for (const Expr* child : expr.children()) {
    if (child->kind != ExprKind::for_clause || child->children().size() < 2) continue;
    infer(child->children()[1]);
    if (expr.statement != nullptr) {
      bind_iteration(child->children()[0], child->children()[1], expr.statement);
    }
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
  if (element->is(TypeKind::unknown) && element->on_gpu() && goes_through_arguments(expr)) {
    element = tensor(Residence::gpu);
  }
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
  const Statement* set = iterable == nullptr ? nullptr : iterable->binding();
  const bool is_set = set != nullptr && set->kind == StatementKind::assignment &&
                      set->target->kind == ExprKind::name && iterable->statement != nullptr &&
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
  const Call* call = iterable == nullptr ? nullptr : iterable->call();
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
  const Type* type = iterable == nullptr ? &unknown_type() : iterable->type;
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
  const Call* call = iterable == nullptr ? nullptr : iterable->call();
  if (call != nullptr && call->name == "enumerate" && !call->arguments.empty()) {
    bind(target->children()[0], simple(TypeKind::number), nullptr, statement);
    bind_iteration(target->children()[1], call->arguments[0].value, statement);
    return true;
  }
  const bool has_items = call != nullptr && call->method == "items";
  const bool is_named = iterable != nullptr && iterable->type->is(TypeKind::gradients);
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
  if (entry == nullptr || entry->type == nullptr || !entry->type->is(TypeKind::tensor)) return;
  if (is_made_in_place(*entry)) return;
  if (batch.kind == ExprKind::name)
    writable(*entry).type = with_residence(*entry->type, type.residence);
}

namespace {

bool is_object_dictionary(const Call& call) {
  return is_one_of(call.method, {"edict", "EasyDict", "AttrDict", "Munch", "munchify", "DotMap"});
}

bool is_part_of_training(const Type& type) {
  return type.is(TypeKind::module) || type.is(TypeKind::optimizer) ||
         type.is(TypeKind::scheduler) || type.is(TypeKind::loader);
}

// What a loss or a network gives: `losses["real"] = criterion(scores, ones)`.
bool is_recorded(const Type& type) {
  return type.is(TypeKind::tensor) && type.requires_grad && !type.guessed;
}

}  // namespace

// Munch(generator=…, encoder=…): a dictionary of networks or tensors with items that are
// attributes; null for settings.
const Type* Inference::object_dictionary(const Call& call) {
  if (!is_object_dictionary(call) || call.arguments.empty()) return nullptr;
  const Type* element = nullptr;
  for (const Argument& argument : call.arguments) {
    const Type* type = argument.value->type;
    const bool is_copied = argument.name.empty() && type->is(TypeKind::container);
    if (is_copied) type = type->element;
    if (argument.unpacked || type == nullptr) return nullptr;
    if (!type->is(TypeKind::tensor) && !is_part_of_training(*type)) return nullptr;
    if (element != nullptr && element->kind != type->kind) return nullptr;
    element = element == nullptr ? type : join(element, type);
  }
  Type made = *container_of(element);
  made.made_by = &call;
  return store_.intern(made);
}

// `losses = [0] * n`, then `losses[i] = loss`: a list of tensors.
void Inference::note_set_tensor(const Expr& target, const Type& type) {
  if (target.kind != ExprKind::subscript || !type.is(TypeKind::tensor)) return;
  const Expr& list = *target.children()[0];
  const Entry* entry = list.kind == ExprKind::name ? lookup(list.word()) : nullptr;
  const Expr* made =
      entry == nullptr || entry->binding == nullptr ? nullptr : entry->binding->value;
  const bool is_repeated = made != nullptr && made->kind == ExprKind::binary &&
                           made->word() == "*" && made->children().size() == 2 &&
                           made->children()[0]->kind == ExprKind::list &&
                           made->children()[0]->children().size() == 1;
  const bool is_filler = is_repeated && is_one_of(made->children()[0]->children()[0]->word(),
                                                  {"0", "0.", "0.0", "None"});
  if (!is_filler || entry->type == nullptr || !entry->type->is(TypeKind::container)) return;
  const Type* held = entry->type->element;
  const bool is_tensor = held != nullptr && held->is(TypeKind::tensor);
  writable(*entry).type = container_of(is_tensor ? join(held, &type) : &type);
}

// `optimizers[name] = Adam(…)` and `losses["real"] = criterion(…)` of a dictionary that was empty.
void Inference::note_set_item(const Expr& target, const Type& type) {
  note_set_tensor(target, type);
  if (target.kind != ExprKind::subscript) return;
  if (!is_part_of_training(type) && !is_recorded(type)) return;
  const Entry* entry = bound_entry(target.children()[0]);
  const Statement* binding = entry == nullptr ? nullptr : entry->binding;
  const Expr* value = binding == nullptr ? nullptr : binding->value;
  if (value == nullptr || entry->type == nullptr) return;
  const bool is_object = value->call() != nullptr && is_object_dictionary(*value->call()) &&
                         value->call()->arguments.empty();
  const bool is_empty = is_object || (value->kind == ExprKind::dict && value->children().empty());
  if (!is_empty || entry->type->is(TypeKind::module)) return;
  Type made = *container_of(&type);
  if (entry->type->is(TypeKind::container) && entry->type->element != nullptr) {
    if (entry->type->element->kind != type.kind) return;
    made = *container_of(join(entry->type->element, &type));
  }
  if (is_object) made.made_by = value->call();
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
