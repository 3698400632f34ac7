#include "rooftile/analysis/source/step_waits.h"

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/host_consumers.h"
#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

void add_once(const Loop* loop, std::vector<const Loop*>& loops) {
  if (loop != nullptr && std::ranges::find(loops, loop) == loops.end()) loops.push_back(loop);
}

// `optimizer.step()` of a scaler reads on the host whether a gradient overflowed, but for a fused
// optimizer, which takes the flag on the GPU. Who offers a scaler trains with it.
void add_scaled_steps(const SourceFacts& facts, std::unordered_set<const Loop*>& loops) {
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (const ScalingEvent& event : pass.events) {
      if (event.kind != ScalingKind::scaler_step) continue;
      const Call* made = event.optimizer == nullptr ? nullptr : event.optimizer->type->made_by;
      if (made != nullptr && facts.argument(*made, "fused").is_true()) continue;
      loops.insert(pass.iteration->loop);
    }
  }
}

struct LoopsThatWait {
  bool is_known = false;
  std::unordered_set<const Loop*> by_nature, reading;
};

// `for name, part in losses.items():`: a few by their names, but for those of net.state_dict().
bool goes_through_names(const SourceFacts& facts, const Expr& iterable) {
  const Call* call = iterable.call();
  const bool lists = call != nullptr && call->receiver != nullptr &&
                     is_one_of(call->method, {"items", "values", "keys"});
  const auto lists_weights = [](const Expr& part) {
    return part.call() != nullptr &&
           (part.call()->method == "state_dict" || part.call()->method.starts_with("named_"));
  };
  return lists && find_inside(&script::origin(facts, *call->receiver), lists_weights) == nullptr;
}

bool has_few_passes(const SourceFacts& facts, const Expr* iterable) {
  constexpr std::int64_t kFew = 4;
  const Expr& over = *resolved(iterable);
  if (over.kind == ExprKind::list || over.kind == ExprKind::tuple) {
    return std::ssize(over.children()) <= kFew;
  }
  const Call* range = over.call();
  if (range == nullptr || range->name != "range" || range->arguments.size() != 1) {
    return goes_through_names(facts, over);
  }
  const Value passes = facts.value(range->arguments.front().value);
  return passes.kind == ValueKind::integer && passes.integer <= kFew;
}

// A loop that is no epoch and no pass over batches of its own.
bool is_inner(const SourceFacts& facts, const Statement& loop) {
  const bool is_plain = loop.loop == nullptr || loop.loop->role == LoopRole::other;
  return is_plain && !has_few_passes(facts, loop.value);
}

// The innermost such loop around the statement, or around the calls that lead to it in the step.
const Statement* inner_loop(const SourceFacts& facts, const Statement& statement,
                            const Loop& step_loop, int depth) {
  constexpr int kMaxDepth = 5;
  for (const Statement* at = &statement; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function) break;
    if (at == step_loop.statement) return nullptr;
    const bool loops = at->kind == StatementKind::for_ || at->kind == StatementKind::while_;
    if (loops && at != &statement && is_inner(facts, *at)) return at;
  }
  if (statement.function == nullptr || depth == kMaxDepth) return nullptr;
  const Statement* found = nullptr;
  for (const Call* caller : statement.function->callers) {
    if (!is_hot(facts, *caller)) continue;
    const Statement* loop = inner_loop(facts, *caller->statement, step_loop, depth + 1);
    if (loop == nullptr) return nullptr;  // some way there is in no loop
    found = loop;
  }
  return found;
}

// `[f(x.item()) for x in items]`
bool is_in_comprehension(const SourceFacts& facts, const Expr& expr) {
  for (const Expr* at = expr.parent; at != nullptr && at->kind != ExprKind::lambda;
       at = at->parent) {
    const bool repeats = at->kind == ExprKind::comprehension &&
                         std::ranges::any_of(at->children(), [&](const Expr* clause) {
                           return clause->kind == ExprKind::for_clause &&
                                  !has_few_passes(facts, clause->children().back());
                         });
    if (repeats) return true;
  }
  return false;
}

bool is_in_inner_loop(const SourceFacts& facts, const Call& call, const Loop& loop) {
  return any_way(facts, call,
                 [&](const Way& way) { return way.step_loop == &loop && way.is_in_inner_loop; });
}

bool asks_for_gradients_inside(const SourceFacts& facts, const Loop& loop) {
  return std::ranges::any_of(facts.calls("torch.autograd.grad"), [&](const Call* call) {
    return is_in_inner_loop(facts, *call, loop);
  });
}

// Whether gradients are computed once in each pass of the loop itself: where they are in a loop
// inside, its passes are the steps.
bool is_plain_step(const SourceFacts& facts, const Loop& loop) {
  const auto is_once = [&](const Way& way) {
    return way.step_loop == &loop && !way.is_in_inner_loop;
  };
  return loop.backward != nullptr && any_way(facts, *loop.backward, is_once) &&
         !asks_for_gradients_inside(facts, loop);
}

}  // namespace

std::vector<const Loop*> step_loops_of(const SourceFacts& facts, const Statement& statement) {
  std::vector<const Loop*> loops;
  for (const Way& way : ways_to(facts, statement)) {
    if (way.trains()) add_once(way.step_loop, loops);
  }
  if (!loops.empty()) return loops;
  for (const Program* program : training_programs_of(facts, *statement.file)) {
    for (const Loop* loop : program->training_loops) add_once(loop, loops);
  }
  if (loops.size() > 1) loops.clear();
  return loops;
}

const Statement* loop_in_step(const SourceFacts& facts, const Statement& statement,
                              const Expr* expr) {
  for (const Loop* loop : step_loops_of(facts, statement)) {
    if (!is_plain_step(facts, *loop)) continue;
    if (expr != nullptr && is_in_comprehension(facts, *expr)) return &statement;
    if (const Statement* inner = inner_loop(facts, statement, *loop, 0)) return inner;
  }
  return nullptr;
}

namespace {

const LoopsThatWait& loops_that_wait(const SourceFacts& facts) {
  auto& known = facts.store().kept<LoopsThatWait>();
  if (known.is_known) return known;
  known.is_known = true;
  add_scaled_steps(facts, known.by_nature);
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const HostRead& read : host_reads(facts, *file)) {
      if (!is_hot(facts, *read.statement)) continue;
      auto& loops = feeds_host(read) ? known.by_nature : known.reading;
      for (const Loop* each : step_loops_of(facts, *read.statement)) loops.insert(each);
    }
  }
  return known;
}

}  // namespace

bool has_other_waits(const SourceFacts& facts, const Call& wait) {
  const Statement* place = place_of_work(*wait.statement);
  const auto calls = place == nullptr ? wait.file->calls : calls_inside(*place);
  const auto waits = [&](const Call& one) {
    const bool is_alike = one.method == wait.method;
    return !is_alike &&
           (waits_itself(facts, one) ||
            starts_with_any(one.name, {"torch.cuda.empty_cache", "torch.distributed.all_",
                                       "torch.distributed.reduce", "torch.distributed.broadcast"}));
  };
  return std::ranges::any_of(calls, [&](const Call* call) {
    return waits(*call) ||
           (call->target != nullptr && any_call_below(*call->target, kMaxCallDepth, waits));
  });
}

bool waits_anyway(const SourceFacts& facts, const Loop& loop) {
  return loops_that_wait(facts).by_nature.contains(&loop);
}

bool empties_queue(const SourceFacts& facts, const Loop& loop) {
  const LoopsThatWait& waiting = loops_that_wait(facts);
  return waiting.by_nature.contains(&loop) || waiting.reading.contains(&loop);
}

}  // namespace rooftile::source
