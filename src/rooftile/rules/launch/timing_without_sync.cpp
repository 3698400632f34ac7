#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace timing_without_sync {

constexpr std::string_view kDoc = R"md(
## What it finds
The difference of two clock reads within one step, around calls of a module or a backward that nothing
waits for before the second read. Reads of values, `synchronize()` and copies without `non_blocking` wait for
what was launched before them, also in functions that are called. Also over whole passes:
`meter.update(time() - end)` with `end = time()` at the end of each pass, and no wait in any part that every
pass runs.

## Why it costs time
Kernels run on after the call returns: the clock measures how long the launches took. Decisions
taken from such numbers are wrong.

## How to fix
`torch.cuda.synchronize()` before each clock read while measuring, or
`torch.cuda.Event(enable_timing=True)` and `elapsed_time`, which hold nothing up.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Information throughout: what one interval misses the next one has, and the mean is near right.
- The interval covers an epoch or the whole run, whose end waits anyway.
- Only loading of data is timed.
- Something waits behind the forward and backward: `.item()`, `.cpu()`, `synchronize()`, a copy. Over whole
  passes, a wait in every hundredth pass does not count: the passes between are measured as launches.

## Evidence
- PyTorch CUDA semantics note, "Asynchronous execution": time measurements without
  synchronizations are not accurate.
)md";

using namespace source;

const Statement* step_loop_around(const Statement& statement) {
  for (const Statement* outer = &statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return nullptr;
    if (outer->loop != nullptr && outer->loop->is_step()) return outer;
  }
  return nullptr;
}

bool is_clock_read(const Expr* value) {
  const Expr* made = resolved(value);
  return made != nullptr && made->call() != nullptr && is_clock(*made->call());
}

// `clock() - start`, `end - start` of two reads.
bool is_difference(const Expr& part) {
  return part.kind == ExprKind::binary && part.word() == "-" && is_clock_read(part.children()[0]);
}

// The statement that set the start of a difference; null for others.
const Statement* started_at(const Expr& part) {
  if (!is_difference(part)) return nullptr;
  const Statement* binding = part.children()[1]->binding();
  if (part.children()[1]->kind != ExprKind::name || binding == nullptr) return nullptr;
  const bool is_start = binding->value != nullptr && binding->value->call() != nullptr &&
                        is_clock(*binding->value->call());
  return is_start ? binding : nullptr;
}

// What is done between two clock reads, in the order in which it runs.
struct Event {
  const Call* call = nullptr;  // null for a read that no call does
  bool waits = false, works = false;
};
using Interval = std::vector<Event>;

// The work that nothing waits for any more.
std::vector<const Call*> left_running(const Interval& interval) {
  const auto last = std::find_if(interval.rbegin(), interval.rend(),
                                 [](const Event& event) { return event.waits; });
  std::vector<const Call*> left;
  for (auto event = last.base(); event != interval.end(); ++event) {
    if (event->works) left.push_back(event->call);
  }
  return left;
}

bool has_wait(const Interval& interval) { return std::ranges::any_of(interval, &Event::waits); }

// `self.model(x)`, also where nothing shows what the model is.
bool is_named_model(const Call& call) {
  const Expr* callee = call.expr->children().front();
  return call.target == nullptr && callee->type->is(TypeKind::unknown) &&
         is_one_of(last_name(callee), {"model", "net", "network"});
}

// Not a loss, which is little work.
bool is_network(const Call& call) {
  const Expr* callee = call.expr->children().front();
  const bool is_loss = callee->type->is(TypeKind::loss) ||
                       contains_any(lower(last_name(callee)), {"loss", "criterion"});
  return !is_loss && (call.name == "torch.nn.Module.__call__" || is_named_model(call));
}

bool is_gpu_work(const Call& call) {
  return call.name == "torch.nn.Module.__call__" || call.method == "backward" ||
         call.name == "torch.optim.Optimizer.step" || is_named_model(call);
}

// model(x), or train(batch) that calls it.
bool runs_gpu_work(const Call& call) {
  return is_gpu_work(call) ||
         (call.target != nullptr && any_call_below(*call.target, kMaxCallDepth, is_gpu_work));
}

// `images.cuda()`: without non_blocking the host waits for the copy, and for all that the GPU was
// given before.
bool waits_for_copy(const SourceFacts& facts, const Call& call) {
  if (!copies_to_device(facts, call) || call.receiver_type().on_gpu()) return false;
  return std::ranges::all_of(std::to_array<std::string_view>({"non_blocking", "async"}),
                             [&](std::string_view name) {
                               const Value given = facts.argument(call, name);
                               return given.absent() || given.is_false();
                             });
}

// What becomes of a prediction is mostly made on the host: boxes = self.post_process(batch, preds).
// So are the losses that a model hands out for printing.
bool may_read_result(const Call& call) {
  const bool asks = call.method.starts_with("get_") && contains_any(call.method, {"loss", "error"});
  // get_current_errors(), get_current_errors(epoch): nothing that a loss could be computed of.
  const bool computes = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    const Expr& given = *argument.value;
    const bool counts = given.type->is(TypeKind::number) || given.kind == ExprKind::integer ||
                        is_one_of(last_name(&given), {"epoch", "step", "iteration"});
    return argument.unpacked || !counts;
  });
  if (asks && call.receiver != nullptr && !computes) return true;
  if (call.target != nullptr || call.name.starts_with("torch.")) return false;
  return contains_any(lower(call.method), {"post_process", "postprocess", "decode", "nms"});
}

bool names_rank(const Expr* expr) {
  return any_inside(expr, [](const Expr& part) { return contains(last_name(&part), "rank"); });
}

// `step % n` where n is not known as 1; not `rank % gpus == 0`.
bool skips_passes(const SourceFacts& facts, const Expr* condition) {
  return any_inside(condition, [&](const Expr& part) {
    const bool is_remainder =
        part.kind == ExprKind::binary && part.word() == "%" && !names_rank(part.children()[0]);
    return is_remainder && !facts.value(part.children()[1]).is(1);
  });
}

// `if i == n_critic - 1:` of the loop's own counter.
bool is_for_one_pass(const Expr* condition) {
  const bool compares = condition->kind == ExprKind::comparison && condition->word() == "==";
  const Statement* counts = compares ? condition->children()[0]->binding() : nullptr;
  return counts != nullptr && counts->kind == StatementKind::for_;
}

// `if step % 100 == 0:` around it inside the loop, but not around the clock's read at the end.
bool is_rare(const SourceFacts& facts, const Statement& statement, const Statement* loop,
             const Statement& end) {
  for (const Statement* at = &statement; at != nullptr && at != loop; at = at->parent) {
    if (is_within(end, *at)) return false;
    if (at->kind != StatementKind::if_) continue;
    if (skips_passes(facts, at->value) || is_for_one_pass(at->value)) return true;
  }
  return false;
}

// Whether a backward of the project's own in the call's programs reads values.
bool has_waiting_backward(const SourceFacts& facts, const Call& call) {
  if (call.method != "backward") return false;
  const auto waits = [&](const ClassDef* def) {
    const FunctionDef* backward = def->is_autograd_function ? def->method("backward") : nullptr;
    return backward != nullptr && any_call_below(*backward, kMaxCallDepth, [&](const Call& inner) {
             return waits_itself(facts, inner);
           });
  };
  return std::ranges::any_of(facts.programs_of(*call.file), [&](const Program* program) {
    return std::ranges::any_of(program->files, [&](const File* file) {
      return std::ranges::any_of(file->classes, waits);
    });
  });
}

// The host waits behind what the call gives the GPU, or before it.
bool waits_here(const SourceFacts& facts, const Call& call) {
  return waits_itself(facts, call) || waits_for_copy(facts, call) ||
         has_waiting_backward(facts, call);
}

bool is_rarely(const IteratedCall& one) {
  return std::ranges::any_of(one.branches,
                             [](const Branch& branch) { return contains(branch.condition, "%"); });
}

// What an own function does when it is called.
void add_events_below(const SourceFacts& facts, const FunctionDef& function, Interval& interval) {
  for (const IteratedCall& one : iteration_of(facts, function.body).calls) {
    const bool waits = waits_here(facts, *one.call);
    const bool works = is_gpu_work(*one.call);
    if ((waits && !is_rarely(one)) || works) interval.push_back({one.call, waits, works});
  }
  const auto& reads = host_reads(facts, *function.file);
  const bool reads_value = std::ranges::any_of(reads, [&](const HostRead& read) {
    return read.call == nullptr && read.statement->function == &function;
  });
  if (reads_value) interval.push_back({nullptr, true, false});
}

// What has the later clock read inside, as `print(loss, time() - start)`, runs after it.
Interval between(const SourceFacts& facts, const Statement& start, const Statement& last,
                 std::uint32_t end) {
  const File& file = *start.file;
  const std::uint32_t begin = start.range.begin;
  const Statement* loop = step_loop_around(start);
  std::vector<std::pair<std::uint32_t, Interval>> parts;
  for (const Call* call : file.calls) {
    const ByteRange at = call->expr->range;
    if (at.begin <= begin || at.begin >= end || at.end > end || is_clock(*call)) continue;
    if (call->statement->function != start.function) continue;
    const bool waits = waits_here(facts, *call) || may_read_result(*call);
    Interval part{
        {call, waits && !is_rare(facts, *call->statement, loop, last), is_gpu_work(*call)}};
    if (call->target != nullptr && !is_rare(facts, *call->statement, loop, last)) {
      add_events_below(facts, *call->target, part);
    }
    parts.emplace_back(at.end, std::move(part));
  }
  for (const HostRead& read : host_reads(facts, file)) {
    const ByteRange at = read.expr->range;
    const bool is_inside =
        at.begin > begin && at.end <= end && read.statement->function == start.function;
    if (!is_inside || is_rare(facts, *read.statement, loop, last)) continue;
    parts.emplace_back(at.end, Interval{{read.call, true, false}});
  }
  std::ranges::stable_sort(parts, {}, [](const auto& part) { return part.first; });
  Interval interval;
  for (const auto& [at, part] : parts) interval.insert(interval.end(), part.begin(), part.end());
  return interval;
}

// Printed, returned, passed on, or kept in a variable that is read.
bool is_used(const Expr& part) {
  const Statement& statement = *part.statement;
  if (statement.kind != StatementKind::assignment) return true;
  if (statement.target->kind != ExprKind::name || statement.value != &part) return true;
  const std::string_view name = statement.target->word();
  for (const Statement* other : statement.file->statements) {
    if (other == &statement || other->function != statement.function) continue;
    bool reads = false;
    for_own_expressions(*other, [&](const Expr* expr) {
      reads = reads || (expr != other->target && uses_variable(expr, name));
    });
    if (reads) return true;
  }
  return false;
}

// Both reads stand in one function, outside of its loops, and a training loop calls it on each
// pass.
bool is_function_of_step(const SourceFacts& facts, const Statement& start, const Statement& end) {
  const auto is_in_loop = [](const Statement& statement) {
    const Statement* outer = &statement;
    while (outer->kind != StatementKind::function && outer->loop == nullptr) outer = outer->parent;
    return outer->loop != nullptr;
  };
  if (start.function == nullptr || end.function != start.function) return false;
  if (is_in_loop(start) || is_in_loop(end)) return false;
  return any_way(facts, start, [](const Way& way) {
    return way.in_each_training_step() && way.step_loop != nullptr && !way.is_in_inner_loop;
  });
}

// `scores = model(x)` directly before it.
bool follows_gpu_work(const Statement& statement) {
  if (statement.index == 0) return false;
  const auto calls = calls_inside(*statement.block[statement.index - 1]);
  return std::ranges::any_of(calls, [](const Call* call) { return runs_gpu_work(*call); });
}

// An interval in a step that leaves out GPU work.
struct Untimed {
  const Statement* start = nullptr;
  const Call* work = nullptr;  // that runs on; null where nothing at all waits
};

// A backward, or the only forward: of several that are waited for a last one is little.
const Call* main_work_left(const Interval& interval, const std::vector<const Call*>& left) {
  const auto backward = std::ranges::find(left, "backward", &Call::method);
  if (backward != left.end()) return *backward;
  const auto runs_network = [](const Event& event) {
    return event.works && is_network(*event.call);
  };
  const auto network =
      std::ranges::find_if(left, [](const Call* call) { return is_network(*call); });
  const bool is_only =
      network != left.end() &&
      std::ranges::count_if(interval, runs_network) ==
          std::ranges::count_if(left, [](const Call* one) { return is_network(*one); });
  return is_only ? *network : nullptr;
}

// The forward and backward count; behind a wait the update of the weights alone is little.
std::optional<Untimed> untimed_work(const SourceFacts& facts, const Expr& part,
                                    const Statement& start) {
  const Statement* loop = step_loop_around(start);
  const Expr* now = resolved(part.children()[0]);
  // `print(t3 - t2)` behind the loop tells of its last pass.
  const bool is_behind =
      loop != nullptr && !is_within(*part.statement, *loop) && follows_gpu_work(*now->statement);
  const Statement& last = is_behind ? *now->statement : *part.statement;
  const bool is_in_step =
      loop != nullptr ? is_within(last, *loop) : is_function_of_step(facts, start, last);
  if (!is_in_step || start.range.begin >= part.range.begin) return {};
  if (!trains_on_gpu(facts, *start.file) && !is_evaluated_on_gpu(facts, *now->call())) return {};
  if (!is_used(part) || !is_reached_by_default(facts, *part.statement)) return {};
  const Interval interval =
      between(facts, start, last, std::min(now->range.begin, part.range.begin));
  const std::vector<const Call*> left = left_running(interval);
  if (left.empty()) return {};
  if (!has_wait(interval)) return Untimed{&start, nullptr};
  const Call* main = main_work_left(interval, left);
  return main == nullptr ? std::nullopt : std::optional(Untimed{&start, main});
}

// Below the loop itself, not in an `if` or an inner loop of it.
bool is_on_each_pass(const Statement& statement, const Statement& loop) {
  const Statement* outer = statement.parent;
  while (outer->kind == StatementKind::with_) outer = outer->parent;
  return outer == &loop;
}

// `update(time() - end); end = time()`: the statement at the end of each pass that sets `end`
// for the next one. Null for others.
const Statement* set_again(const Expr& part, const Statement& loop) {
  if (!is_difference(part)) return nullptr;
  const File& file = *loop.file;
  const std::string_view start = file.slice(part.children()[1]->range);
  const Statement* again = nullptr;
  bool is_only = !last_name(part.children()[1]).empty();
  for_statements(loop.body, [&](const Statement& statement) {
    const bool sets =
        statement.kind == StatementKind::assignment && file.slice(statement.target->range) == start;
    if (!sets) return;
    is_only = is_only && again == nullptr && is_clock_read(statement.value) &&
              statement.range.begin > part.range.begin && is_on_each_pass(statement, loop);
    again = &statement;
  });
  const bool is_skipped = std::ranges::any_of(before(*part.statement), [](const Statement* each) {
    return each->kind == StatementKind::if_ && !each->body.empty() &&
           each->body.back()->kind == StatementKind::continue_;
  });
  return is_only && !is_skipped && is_on_each_pass(*part.statement, loop) ? again : nullptr;
}

// The whole pass lies between the two reads, but for what stands from `part` to `again`.
bool is_untimed_pass(const SourceFacts& facts, const Expr& part, const Statement& again,
                     const Statement& loop) {
  if (loop.loop->role != LoopRole::training_step || !trains_on_gpu(facts, *loop.file)) return false;
  const File& file = *loop.file;
  const auto is_outside = [&](const Statement& statement) {
    return statement.range.begin > part.statement->range.end &&
           statement.range.end < again.range.begin;
  };
  for (const HostRead& read : host_reads(facts, file)) {
    if (is_outside(*read.statement)) continue;
    if (is_within(*read.statement, loop) &&
        !is_rare(facts, *read.statement, &loop, *part.statement))
      return false;
  }
  bool has_work = false;
  for (const IteratedCall& one : iteration_of(facts, loop.body).calls) {
    const bool is_untimed = is_outside(*one.anchor);
    const bool waits = waits_for_gpu(facts, *one.call) || waits_for_copy(facts, *one.call);
    if (!is_rarely(one) && !is_untimed && waits) return false;
    const bool is_work =
        one.call->name == "torch.nn.Module.__call__" || one.call->method == "backward";
    const bool is_timed =
        one.anchor->range.begin < part.range.begin || one.anchor->range.begin > again.range.begin;
    has_work = has_work || (is_work && is_timed && !is_rarely(one));
  }
  return has_work && is_used(part) && is_reached_by_default(facts, *part.statement);
}

// A difference of clock reads that leaves out GPU work.
std::optional<Untimed> untimed(const SourceFacts& facts, const Expr& part) {
  if (const Statement* start = started_at(part)) return untimed_work(facts, part, *start);
  const Statement* loop = step_loop_around(*part.statement);
  const Statement* again = loop == nullptr ? nullptr : set_again(part, *loop);
  const bool is_untimed = again != nullptr && is_untimed_pass(facts, part, *again, *loop);
  return is_untimed ? std::optional(Untimed{again, nullptr}) : std::nullopt;
}

Finding finding_for(const Expr& part, const Untimed& found) {
  const File& file = *part.statement->file;
  const std::string measured = code_text(file, &part);
  Finding finding = finding_at(
      file, resolved(part.children()[0])->range.begin, "step",
      found.work == nullptr
          ? fmt::format("`{}` measures how long the launches took: nothing since {} waits for the "
                        "GPU",
                        measured, place_text(*found.start, file))
          : fmt::format("`{}` leaves out what the GPU has yet to do: nothing waits for `{}` ({}) "
                        "before the clock is read",
                        measured, code_text(*found.work->file, found.work->expr),
                        place_text(*found.work, file)),
      {"Call torch.cuda.synchronize() before each clock read while measuring, or use "
       "torch.cuda.Event(enable_timing=True)",
       Exactness::bit_exact});
  finding.evidence = {
      Evidence::published("time measurements without synchronizations are not accurate",
                          "PyTorch CUDA semantics note, Asynchronous execution")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    for (const Statement* statement : file->statements) {
      for_own_expressions(*statement, [&](const Expr* expr) {
        visit(expr, [&](const Expr& part) {
          const auto found = untimed(facts, part);
          if (found) findings.push_back(finding_for(part, *found));
          return true;
        });
      });
    }
  }
  return findings;
}

}  // namespace timing_without_sync

extern const Rule launch_timing_without_sync{.id = "launch/timing-without-sync",
                                             .level = Level::info,
                                             .cause = Cause::none,
                                             .summary = "GPU work is timed without synchronizing",
                                             .doc = timing_without_sync::kDoc,
                                             .in_scripts = timing_without_sync::find};

}  // namespace rooftile
