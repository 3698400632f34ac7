#include "rooftile/analysis/source/unseen_batches.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr int kMaxBatchHops = 10;    // from value to value
constexpr int kMaxBatchVisits = 60;  // of one question
constexpr std::size_t kMaxBatchPassers = 8;

// Of `enumerate(loader)` the call of a library that made what it reads; null where that is not
// seen.
const Call* library_maker(const SourceFacts& facts, const Expr* read) {
  while (read->call() != nullptr && !read->call()->arguments.empty() &&
         is_one_of(read->call()->method, {"enumerate", "tqdm", "iter", "zip", "cycle"})) {
    read = read->call()->arguments.front().value;
  }
  const auto& globals = facts.store().globals;
  const auto global = globals.find(read->full_name());
  const bool is_global = !read->full_name().empty() && global != globals.end();
  const Expr* made = is_global ? global->second->value : resolved(read);
  const Call* call = made == nullptr ? nullptr : made->call();
  return call != nullptr && call->target == nullptr && !call->name.empty() ? call : nullptr;
}

// Derived from DataLoader, also by way of other own classes.
bool derives_from_loader(const ClassDef& def) {
  return std::ranges::any_of(lineage(&def), [](const ClassDef* each) {
    return std::ranges::any_of(each->bases, [](const Expr* base) {
      return base->type->class_def == nullptr && base->full_name().ends_with(".DataLoader");
    });
  });
}

// Its construction is known: no need to guess.
bool is_seen(const Expr& read) {
  const Type& type = *read.type;
  const Call* made = read.call() != nullptr ? read.call() : type.made_by;
  return (made != nullptr && is_torch_loader(*made)) ||
         (type.class_def != nullptr && derives_from_loader(*type.class_def));
}

// `loader`, `tqdm(loader)`, also under a name of its own; none that another library made.
bool is_called_loader(const SourceFacts& facts, const Expr* iterable) {
  const Expr& read = *resolved(iterable);
  const bool is_called = read.statement != nullptr &&
                         contains(lower(read.statement->file->slice(read.range)), "loader");
  if (!is_called || is_seen(read)) return false;
  const Call* made = library_maker(facts, &read);
  return made == nullptr || is_torch_loader(*made);
}

// `train_iter`, `dataprovider`: what next() is called on.
bool is_called_iterator(const SourceFacts& facts, const Expr* iterator) {
  if (iterator == nullptr || iterator->statement == nullptr) return false;
  const std::string name = lower(iterator->statement->file->slice(iterator->range));
  return is_called_loader(facts, iterator) ||
         contains_any(name, {"iter", "provider", "prefetch", "fetcher"});
}

class BatchSearch {
 public:
  explicit BatchSearch(const SourceFacts& facts) : facts_(facts) {}

  bool comes_from_batch(const Expr* value, int depth) {
    if (value == nullptr || depth > kMaxBatchHops || ++visits_ > kMaxBatchVisits) return false;
    switch (value->kind) {
      case ExprKind::subscript:
        return comes_from_batch(value->children().front(), depth + 1);
      case ExprKind::attribute:
        return is_kept_batch(*value, depth) ||
               comes_from_batch(value->children().front(), depth + 1);
      case ExprKind::name:
        return is_batch_name(*value, depth);
      case ExprKind::call:
        return is_batch_call(*value->call(), depth);
      case ExprKind::list:
      case ExprKind::tuple:
        return !value->children().empty() &&
               std::ranges::all_of(value->children(),
                                   [&](auto* part) { return comes_from_batch(part, depth + 1); });
      default:
        return false;
    }
  }

 private:
  // `for x, y in loader`, `for key, value in batch.items()`
  bool is_run_over(const Expr* iterable, int depth) {
    return is_called_loader(facts_, iterable) || comes_from_batch(iterable, depth + 1);
  }

  bool is_batch_name(const Expr& name, int depth) {
    if (const Expr* source = comprehension_source(name)) return is_run_over(source, depth);
    const Statement* binding = name.binding();
    if (binding != nullptr && binding->kind == StatementKind::for_) {
      return is_run_over(binding->value, depth);
    }
    if (binding != nullptr && binding->kind == StatementKind::assignment && binding->word == "=") {
      return comes_from_batch(binding->value, depth + 1);
    }
    return binding == nullptr && name.statement != nullptr &&
           (is_set_to_batch(name, depth) || is_passed_batch(name, depth));
  }

  // One of several branches sets it.
  bool is_set_to_batch(const Expr& name, int depth) {
    const Statement& use = *name.statement;
    return std::ranges::any_of(use.file->statements, [&](const Statement* statement) {
      const bool sets = statement->function == use.function && statement->target != nullptr &&
                        statement != &use && uses_variable(statement->target, name.word()) &&
                        statement->target->kind != ExprKind::subscript &&
                        statement->target->kind != ExprKind::attribute;
      if (!sets) return false;
      if (statement->kind == StatementKind::for_) return is_run_over(statement->value, depth);
      return statement->kind == StatementKind::assignment && statement->word == "=" &&
             comes_from_batch(statement->value, depth + 1);
    });
  }

  bool is_passed_batch(const Expr& name, int depth) {
    const FunctionDef* function = name.statement->function;
    if (function == nullptr || function->callers.size() > kMaxBatchPassers) return false;
    return std::ranges::any_of(function->callers, [&](const Call* caller) {
      const Argument* given = passed_argument(*caller, *function, name.word());
      return given != nullptr && comes_from_batch(given->value, depth + 1);
    });
  }

  bool is_batch_call(const Call& call, int depth) {
    if (const Expr* iterator = stepped_iterator(call)) return is_called_iterator(facts_, iterator);
    if (call.target != nullptr) return gives_back_part(call, depth);
    if (call.name == "torch.nn.Module.__call__") return false;
    // loader.get_batch("train")
    if (call.receiver != nullptr && is_called_loader(facts_, call.receiver)) return true;
    const bool is_wrapped =
        !call.arguments.empty() && is_one_of(call.method, {"Variable", "enumerate", "zip", "tuple",
                                                           "list", "tqdm", "dict", "Munch"});
    const Expr* from = is_wrapped ? call.arguments.front().value : call.receiver;
    // What a copy to the GPU gives is there already.
    return !copies_to_device(facts_, call) && comes_from_batch(from, depth + 1);
  }

  // `images, ids = self.parse(batch)`, where parse() takes items out of what it gets;
  // `self.fetch()`, which calls next().
  bool gives_back_part(const Call& call, int depth) {
    bool gives = false;
    for_statements(call.target->body, [&](const Statement& statement) {
      if (statement.kind != StatementKind::return_ || statement.value == nullptr || gives) return;
      const Expr* part = statement.value;
      if (part->kind == ExprKind::tuple && !part->children().empty())
        part = part->children().front();
      gives = comes_from_batch(part, depth + 1);
    });
    return gives;
  }

  // `for i, self.batch in enumerate(self.loader)`, `self.batch = batch` in a method of the class.
  bool is_kept_batch(const Expr& attribute, int depth) {
    const FunctionDef* method =
        attribute.statement == nullptr ? nullptr : attribute.statement->function;
    const bool is_own = method != nullptr && method->class_def != nullptr &&
                        attribute.children().front()->word() == "self";
    if (!is_own) return false;
    bool keeps = false;
    for (const FunctionDef* other : method->class_def->methods) {
      for_statements(other->body, [&](const Statement& statement) {
        if (keeps || statement.target == nullptr || !has_part(*statement.target, attribute)) return;
        const bool is_loop = statement.kind == StatementKind::for_;
        const bool is_set = statement.kind == StatementKind::assignment && statement.word == "=";
        keeps = is_loop ? is_run_over(statement.value, depth)
                        : is_set && comes_from_batch(statement.value, depth + 1);
      });
    }
    return keeps;
  }

  // Whether `self.batch` is the target, or one of several.
  static bool has_part(const Expr& target, const Expr& attribute) {
    if (target.kind == ExprKind::tuple || target.kind == ExprKind::list) {
      return std::ranges::any_of(target.children(),
                                 [&](const Expr* part) { return has_part(*part, attribute); });
    }
    return target.kind == ExprKind::attribute && target.word() == attribute.word();
  }

  const SourceFacts& facts_;
  int visits_ = 0;
};

}  // namespace

bool is_unseen_batch(const SourceFacts& facts, const Expr* value) {
  return BatchSearch(facts).comes_from_batch(value, 0);
}

}  // namespace rooftile::source
