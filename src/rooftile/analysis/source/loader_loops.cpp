// Which loops read a loader, for loaders.h.
#include <algorithm>
#include <string_view>
#include <vector>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// Of `batch = next(batches)`, and `batches.next()` of Python 2; null for other statements.
const Call* loader_stepped(const SourceFacts& facts, const Statement& statement) {
  const Call* call = statement.value == nullptr ? nullptr : statement.value->call();
  const Expr* from = call == nullptr ? nullptr : stepped_iterator(*call);
  return from == nullptr ? nullptr : loader_of(facts, from);
}

// `for box in boxes`, `for i, box in enumerate(boxes)` over a tensor: parts of a batch.
bool reads_tensor(const Expr* iterable) {
  while (iterable->call() != nullptr && !iterable->call()->arguments.empty() &&
         is_one_of(iterable->call()->name, {"enumerate", "zip"})) {
    iterable = iterable->call()->arguments.front().value;
  }
  return iterable->type->is(TypeKind::tensor) && !iterable->type->guessed;
}

// `x` of tqdm(enumerate(x)).
const Expr* wrapped_iterable(const Expr* read) {
  while (read->call() != nullptr && read->call()->target == nullptr &&
         !read->call()->arguments.empty() && !read->call()->arguments.front().unpacked &&
         !read->type->is(TypeKind::loader)) {
    read = read->call()->arguments.front().value;
  }
  return read;
}

// The calls that make what a loop reads. Of a class derived from DataLoader also its __init__,
// which has the call that rules ask about.
std::vector<const void*> loaders_read(const SourceFacts& facts, const Loop& loop) {
  const Statement& statement = *loop.statement;
  std::vector<const Call*> made{loop.loader};
  const Call* over = statement.value->call();
  const bool is_batch = statement.kind == StatementKind::for_ && reads_tensor(statement.value);
  const bool counts = over != nullptr && over->name == "range";
  if (statement.kind == StatementKind::for_ && !is_batch && !counts) {
    if (loop.loader == nullptr) made.push_back(loader_of(facts, statement.value));
    // A training loop that gets its evaluation from a flag is read by what it is named for.
    const bool trains = loop.role == LoopRole::training_step;
    for (const Expr* read : script::origins(facts, *wrapped_iterable(statement.value))) {
      const Call* loader = read->type->is(TypeKind::loader) ? read->type->made_by : nullptr;
      if (loader != nullptr && (!trains || loader->function == loop.function)) {
        made.push_back(loader);
      }
    }
  }
  for (const Statement* each : statement.body) made.push_back(loader_stepped(facts, *each));
  std::vector<const void*> all;
  for (const Call* call : made) {
    if (call == nullptr) continue;
    all.push_back(call);
    if (call->target != nullptr) all.push_back(call->target);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// The loops that read a loader, by the call that makes it or the own function that this call runs.
struct LoopsByLoader {
  std::optional<std::unordered_map<const void*, std::vector<const Loop*>>> loops;
};

}  // namespace

std::vector<const Loop*> loops_over(const SourceFacts& facts, const Call& loader) {
  auto& index = facts.store().kept<LoopsByLoader>().loops;
  if (!index) {
    index.emplace();
    for (const auto& file : facts.files) {
      for (const Loop* loop : file->loops) {
        for (const void* read : loaders_read(facts, *loop)) (*index)[read].push_back(loop);
      }
    }
  }
  for (const void* made_by :
       {static_cast<const void*>(&loader), static_cast<const void*>(loader.function)}) {
    const auto found = index->find(made_by);
    if (found != index->end()) return found->second;
  }
  return {};
}

}  // namespace rooftile::source
