// The loader that a value comes out of, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
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

namespace {

using script::SourceStep;

// Calls take(part, loader) for each part that is a loader and asks it how to go on.
template <class Take>
void for_loaders(const SourceFacts& facts, const Expr& value, const Take& take) {
  script::find_source(facts, value, [&](const Expr& part) {
    const Type& type = *part.type;
    if (type.is(TypeKind::loader) && type.made_by != nullptr) {
      return take(part, *type.made_by);
    }
    if (part.type->is(TypeKind::number)) return SourceStep::stop;  // a size
    const Call* call = part.call();
    if (call == nullptr) return SourceStep::go_wide;
    // New values, of the size that a batch has; and what was made of a batch on the GPU.
    if (copies_to_device(facts, *call)) return SourceStep::stop;
    const bool is_new = call->name == "torch.nn.Module.__call__" ||
                        call->method.ends_with("_like") || makes_on_host(facts, *call);
    if (is_new) return SourceStep::stop;
    return collects_all(*call) ? SourceStep::stop : SourceStep::go_wide;
  });
}

}  // namespace

const Call* loader_of(const SourceFacts& facts, const Expr* value) {
  const Call* loader = nullptr;
  if (value == nullptr) return loader;
  for_loaders(facts, *value, [&](const Expr&, const Call& made) {
    loader = &made;
    return SourceStep::found;
  });
  return loader;
}

std::vector<const Call*> loaders_of(const SourceFacts& facts, const Expr& value) {
  std::vector<const Call*> loaders, by_type;
  for_loaders(facts, value, [&](const Expr& part, const Call& made) {
    const bool is_made_here = part.call() == &made;
    (is_made_here ? loaders : by_type).push_back(&made);
    return is_made_here ? SourceStep::stop : SourceStep::go_wide;
  });
  return loaders.empty() ? by_type : loaders;
}

}  // namespace rooftile::source
