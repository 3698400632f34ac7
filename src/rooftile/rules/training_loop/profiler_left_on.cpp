#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace training_loop_profiler_left_on_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A training loop, or a part of each of its steps, inside `torch.profiler.profile` without `schedule`,
`torch.autograd.profiler.profile` or `emit_nvtx`.

## Why it costs time
Every operation is recorded, with its shapes and stacks where asked for. Memory of the host grows
with each step.

## How to fix
Give the profiler a schedule of a few steps, or remove it.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- A flag that is off by default is around it.
- The loop stops after at most a hundred steps.
- The file is there to profile or to benchmark.

## Evidence
- PyTorch performance tuning guide, "Disable debugging APIs".
- PyTorch recipe "PyTorch Profiler", section on long-running jobs.
)md";

using namespace source;

// The profiler that records without end; null otherwise.
const Call* endless_profiler(const SourceFacts& facts, const Expr* manager) {
  const Expr* made = resolved(manager);
  const Call* call = made == nullptr ? nullptr : made->call();
  if (call == nullptr) return nullptr;
  const bool is_old = call->name == "torch.autograd.profiler.profile" ||
                      call->name == "torch.autograd.profiler.emit_nvtx" ||
                      call->name == "torch.cuda.profiler.profile";
  const Value enabled = facts.argument(*call, "enabled", 0);
  if (is_old) return enabled.absent() || enabled.is_true() ? call : nullptr;
  if (call->name != "torch.profiler.profile") return nullptr;
  const Value schedule = facts.argument(*call, "schedule");
  return schedule.absent() || schedule.kind == ValueKind::none ? call : nullptr;
}

constexpr std::int64_t kShortRun = 100;  // steps

bool is_bounded(const SourceFacts& facts, const Loop& loop) {
  const bool breaks = any_statement(loop.statement->body, [&](const Statement& statement) {
    return statement.kind == StatementKind::break_;
  });
  if (breaks) return true;
  const Expr* iterable = loop.statement->value;
  const Call* range = iterable == nullptr ? nullptr : iterable->call();
  if (range == nullptr || range->method != "range" || range->arguments.empty()) return false;
  const Value steps = facts.value(range->arguments.back().value);
  return steps.kind == ValueKind::integer && steps.integer <= kShortRun;
}

bool is_for_profiling(const File& file) {
  return file.path.find("profil") != std::string::npos ||
         file.path.find("bench") != std::string::npos;
}

// `with emit_nvtx():` around a part of each step.
std::vector<Finding> profiled_steps(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (is_for_profiling(*file)) continue;
    for (const Statement* statement : file->statements) {
      const bool is_with = statement->kind == StatementKind::with_ && !statement->items.empty();
      const Expr* manager = is_with ? statement->items.front().context : nullptr;
      const Call* profiler = manager == nullptr ? nullptr : endless_profiler(facts, manager);
      if (profiler == nullptr || !is_hot(facts, *statement)) continue;
      const Statement* loop = training_loop_around(*statement);
      if (loop != nullptr && is_bounded(facts, *loop->loop)) continue;
      Finding finding = finding_at(
          *statement,
          fmt::format("each training step runs under {}: every operation pays for its record, and "
                      "the profiler starts and ends once a step",
                      profiler->method),
          {"Remove it, or put it behind a flag that is off, or profile a few steps by "
           "torch.profiler.schedule",
           Exactness::bit_exact});
      finding.evidence = {
          Evidence::published("PyTorch performance tuning guide, Disable debugging APIs")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings = profiled_steps(facts);
  std::unordered_set<const Call*> seen;
  for (const Loop* loop : facts.loops(LoopRole::training_step)) {
    if (!trains_on_gpu(facts, *loop->file) || is_bounded(facts, *loop)) continue;
    if (is_reached_by_default(facts, *loop->statement)) {
      for (const Guard& guard : guards_on_ways(facts, *loop->statement)) {
        const Call* profiler = endless_profiler(facts, guard.expr);
        if (profiler == nullptr || is_for_profiling(*profiler->file)) continue;
        if (!seen.insert(profiler).second) continue;
        Finding finding = finding_at(
            *profiler,
            fmt::format(
                "the training loop at {} runs under {} from start to end: events pile up in "
                "memory, and each operation pays for its record",
                place_text(*loop->statement, *profiler->file), profiler->method),
            {"Profile a few steps: torch.profiler.profile(schedule=torch.profiler.schedule(wait=5, "
             "warmup=2, active=3)) with prof.step() at the end of each, or put it behind a flag",
             Exactness::bit_exact});
        finding.evidence = {
            Evidence::published("PyTorch performance tuning guide, Disable debugging APIs"),
            Evidence::published(
                "PyTorch profiler recipe, Using profiler to analyze long-running jobs")};
        findings.push_back(std::move(finding));
      }
    }
  }
  return findings;
}

}  // namespace training_loop_profiler_left_on_rule

extern const Rule training_loop_profiler_left_on{
    .id = "training_loop/profiler-left-on",
    .level = Level::warning,
    .cause = Cause::none,
    .typical = Typical::half,
    .summary = "Profiler is enabled for the whole training",
    .doc = training_loop_profiler_left_on_rule::kDoc,
    .in_scripts = training_loop_profiler_left_on_rule::find};

}  // namespace rooftile
