// The loader that a value comes out of, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/host_makers.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/returned_loaders.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {
namespace {

// `features = extract(model, loader)`, which goes through the loader and gives back what it made of
// all batches.
bool collects_all(const Call& call) {
  const bool gets_loader = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::loader);
  });
  if (call.target == nullptr || !gets_loader) return false;
  bool loops = false;
  bool yields = false;
  for_statements(call.target->body, [&](const Statement& statement) {
    loops = loops || statement.kind == StatementKind::for_;
    yields = yields || (statement.value != nullptr && statement.value->kind == ExprKind::yield);
  });
  return loops && !yields;
}

}  // namespace

const Expr* stepped_iterator(const Call& call) {
  if (call.method != "next" && call.method != "__next__") return nullptr;
  const bool is_function = call.receiver == nullptr && !call.arguments.empty();
  return is_function ? call.arguments.front().value : call.receiver;
}

const Call* loader_of(const SourceFacts& facts, const Expr* value) {
  using script::SourceStep;
  const Call* loader = nullptr;
  const auto judge = [&](const Expr& part) {
    const bool is_loader = part.type->is(TypeKind::loader) && part.type->made_by != nullptr;
    if (is_loader) loader = part.type->made_by;
    if (is_loader) return SourceStep::found;
    if (part.type->is(TypeKind::number)) return SourceStep::stop;  // a size
    const Call* call = part.call();
    if (call == nullptr) return SourceStep::go_on;
    // New values, of the size that a batch has; and what was made of a batch on the GPU.
    if (copies_to_device(facts, *call)) return SourceStep::stop;
    const bool is_new = call->name == "torch.nn.Module.__call__" ||
                        call->method.ends_with("_like") || is_maker(*call);
    if (is_new) return SourceStep::stop;
    loader = returned_loader(*call);
    if (loader != nullptr) return SourceStep::found;
    return collects_all(*call) ? SourceStep::stop : SourceStep::go_on;
  };
  if (value != nullptr) script::find_source(facts, *value, judge);
  return loader;
}

}  // namespace rooftile::source
