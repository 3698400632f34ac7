#include "rooftile/analysis/source/unseen_batches.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

using script::SourceStep;

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
  return (type.made_by != nullptr && is_torch_loader(*type.made_by)) ||
         (type.class_def != nullptr && derives_from_loader(*type.class_def));
}

// `loader`, `self.train_loader`; none that another library made.
bool is_called_loader(const SourceFacts& facts, const Expr& read) {
  const bool is_variable = read.kind == ExprKind::name || read.kind == ExprKind::attribute;
  if (!is_variable || !contains(lower(read.word()), "loader") || is_seen(read)) return false;
  return std::ranges::none_of(script::origins(facts, read), [](const Expr* origin) {
    const Call* call = origin->call();
    return call != nullptr && call->target == nullptr && !call->name.empty();
  });
}

// `train_iter`, `dataprovider`: what next() is called on.
bool is_called_iterator(const Expr& iterator) {
  const std::string name = lower(iterator.statement->file->slice(iterator.range));
  return contains_any(name, {"iter", "provider", "prefetch", "fetcher"});
}

SourceStep step_of_call(const SourceFacts& facts, const Call& call) {
  const Expr* iterator = stepped_iterator(call);
  if (iterator != nullptr && is_called_iterator(*iterator)) return SourceStep::found;
  if (iterator != nullptr ||
      is_one_of(call.method, {"enumerate", "iter", "zip", "cycle", "tuple", "list", "tqdm", "dict",
                              "Munch", "Variable"})) {
    return SourceStep::go_on;
  }
  // What a copy to the GPU gives is there already.
  if (call.name == "torch.nn.Module.__call__" || copies_to_device(facts, call)) {
    return SourceStep::stop;
  }
  return call.target != nullptr ? SourceStep::go_on : SourceStep::receiver;
}

}  // namespace

bool is_unseen_batch(const SourceFacts& facts, const Expr* value) {
  const auto judge = [&](const Expr& part) {
    switch (part.kind) {
      case ExprKind::name:
      case ExprKind::attribute:
        if (is_called_loader(facts, part))
          return &part == value ? SourceStep::stop : SourceStep::found;
        return is_seen(part) ? SourceStep::stop : SourceStep::go_on;
      case ExprKind::subscript:
      case ExprKind::list:
      case ExprKind::tuple:
        return SourceStep::go_on;
      case ExprKind::call:
        return step_of_call(facts, *part.call());
      default:
        return SourceStep::stop;
    }
  };
  return value != nullptr && script::find_source(facts, *value, judge);
}

}  // namespace rooftile::source
