// Which loops read a loader, for loaders.h.
#include <algorithm>
#include <string_view>
#include <vector>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
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
  while (iterable != nullptr && iterable->call() != nullptr &&
         !iterable->call()->arguments.empty() &&
         is_one_of(iterable->call()->name, {"enumerate", "zip"})) {
    iterable = iterable->call()->arguments.front().value;
  }
  return iterable != nullptr && iterable->type->is(TypeKind::tensor) && !iterable->type->guessed;
}

constexpr int kMaxPassings = 3;              // from caller to caller
constexpr std::size_t kMaxPassers = 16;      // callers of one function
constexpr std::size_t kMaxLoadersRead = 32;  // by one loop

// `x` of tqdm(enumerate(x)).
const Expr* wrapped_iterable(const Expr* read) {
  while (read != nullptr && read->call() != nullptr && read->call()->target == nullptr &&
         !read->call()->arguments.empty() && !read->call()->arguments.front().unpacked) {
    read = read->call()->arguments.front().value;
  }
  return read;
}

// Of `self.loader` the statement of `__init__` that sets it to a parameter; null for others.
const Statement* setting_in_constructor(const Expr& attribute, const FunctionDef& method) {
  const FunctionDef* init =
      method.class_def == nullptr ? nullptr : method.class_def->method("__init__");
  if (init == nullptr) return nullptr;
  const Statement* found = nullptr;
  for_statements(init->body, [&](const Statement& statement) {
    const bool sets = statement.kind == StatementKind::assignment && statement.target != nullptr &&
                      statement.target->kind == ExprKind::attribute &&
                      statement.target->word() == attribute.word() && statement.value != nullptr &&
                      statement.value->kind == ExprKind::name;
    if (sets) found = &statement;
  });
  return found;
}

// Every loader that callers pass for what a loop reads: evaluate(model, dev), evaluate(model,
// test).
void add_passed(const SourceFacts& facts, const Expr* read, int passings,
                std::vector<const Call*>& found) {
  read = wrapped_iterable(read);
  if (read == nullptr || read->statement == nullptr || passings > kMaxPassings) return;
  const FunctionDef* function = read->statement->function;
  if (function == nullptr) return;
  if (read->kind == ExprKind::attribute) {
    const Statement* set = setting_in_constructor(*read, *function);
    if (set == nullptr) return;
    function = set->function;
    read = set->value;
  }
  if (read->kind != ExprKind::name || function->callers.size() > kMaxPassers) return;
  for (const Call* caller : function->callers) {
    if (found.size() >= kMaxLoadersRead) return;
    const Argument* given = passed_argument(*caller, *function, read->word());
    if (given == nullptr || given->value == nullptr) continue;
    found.push_back(loader_of(facts, given->value));
    add_passed(facts, given->value, passings + 1, found);
  }
}

// Those of all branches that set what a loop reads: `if name == "a": loader = … else: loader = …`.
void add_branches(const SourceFacts& facts, const Expr* read, std::vector<const Call*>& found) {
  read = wrapped_iterable(read);
  const bool is_open = read != nullptr && read->kind == ExprKind::name &&
                       read->binding() == nullptr && read->statement != nullptr;
  if (!is_open) return;
  for (const Statement* set : read->statement->file->statements) {
    const bool sets = set->kind == StatementKind::assignment &&
                      set->function == read->statement->function && set->value != nullptr &&
                      set->range.begin < read->range.begin && set->target != nullptr &&
                      set->target->kind == ExprKind::name && set->target->word() == read->word();
    if (sets && found.size() < kMaxLoadersRead) found.push_back(loader_of(facts, set->value));
  }
}

// The calls that make what a loop reads. Of a class derived from DataLoader also its __init__,
// which has the call that rules ask about.
std::vector<const void*> loaders_read(const SourceFacts& facts, const Loop& loop) {
  const Statement& statement = *loop.statement;
  std::vector<const Call*> made{loop.loader};
  const bool is_batch = statement.kind == StatementKind::for_ && reads_tensor(statement.value);
  if (statement.kind == StatementKind::for_ && !is_batch) {
    if (loop.loader == nullptr) made.push_back(loader_of(facts, statement.value));
    // A training loop that gets its evaluation from a flag is read by what it is named for.
    const bool trains = loop.role == LoopRole::training_step;
    const bool is_known = made.back() != nullptr;
    if (is_known && !trains) add_passed(facts, statement.value, 0, made);
    if (is_known) add_branches(facts, statement.value, made);
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
    const auto found = made_by == nullptr ? index->end() : index->find(made_by);
    if (found != index->end()) return found->second;
  }
  return {};
}

}  // namespace rooftile::source
