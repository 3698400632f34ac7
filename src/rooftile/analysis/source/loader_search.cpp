// The loader that a value comes out of, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// `features = extract(model, loader)`, which goes through the loader and gives back what it made of
// all batches.
bool collects_all(const Call& call) {
  const bool gets_loader = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::loader);
  });
  if (call.target == nullptr || !gets_loader) return false;
  const auto& body = call.target->body;
  return !has_yield(body) && any_statement(body, [](const Statement& each) {
    return each.kind == StatementKind::for_;
  });
}

}  // namespace

const Expr* stepped_iterator(const Call& call) {
  if (call.method != "next" && call.method != "__next__") return nullptr;
  const bool is_function = call.receiver == nullptr && !call.arguments.empty();
  return is_function ? call.arguments.front().value : call.receiver;
}

namespace {

using script::SourceStep;

// `Evaluation(model, loader)`: an object of an own class that nothing can be read out of.
bool makes_keeper(const Call& call) {
  const ClassDef* def = call.expr->type->class_def;
  const bool is_made = call.target != nullptr && call.target->name == "__init__" && def != nullptr;
  return is_made && std::ranges::all_of(lineage(def), [](const ClassDef* each) {
           const bool is_own = std::ranges::all_of(each->bases, [](const Expr* base) {
             return base->type->class_def != nullptr || base->word() == "object";
           });
           return is_own && std::ranges::none_of(each->methods, [](const FunctionDef* method) {
                    return is_one_of(method->name,
                                     {"__iter__", "__next__", "__getitem__", "next", "__call__"});
                  });
         });
}

struct NotFromLoaders {
  script::SearchedInVain nodes;
};

}  // namespace

const Call* loader_of(const SourceFacts& facts, const Expr* value) {
  const Call* loader = nullptr;
  const auto judge = [&](const Expr& part) {
    const bool is_loader = part.type->is(TypeKind::loader) && part.type->made_by != nullptr;
    if (is_loader) loader = part.type->made_by;
    if (is_loader) return SourceStep::found;
    if (part.type->is(TypeKind::number)) return SourceStep::stop;  // a size
    const Call* call = part.call();
    if (call == nullptr) return SourceStep::go_wide;
    // New values, of the size that a batch has; and what was made of a batch on the GPU.
    if (copies_to_device(facts, *call)) return SourceStep::stop;
    const bool is_new = call->name == "torch.nn.Module.__call__" ||
                        call->method.ends_with("_like") || makes_on_host(facts, *call) ||
                        makes_keeper(*call);
    if (is_new) return SourceStep::stop;
    return collects_all(*call) ? SourceStep::stop : SourceStep::go_wide;
  };
  auto& in_vain = facts.store().kept<NotFromLoaders>().nodes;
  if (value != nullptr) script::find_source(facts, *value, judge, in_vain);
  return loader;
}

}  // namespace rooftile::source
