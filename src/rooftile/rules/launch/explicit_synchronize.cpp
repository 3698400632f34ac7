#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace explicit_synchronize {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.cuda.synchronize()` or `synchronize()` of a stream or event on each training step, with no
clock read within three statements of it.

## Why it costs time
The host stops until the GPU has finished everything. The next kernels are launched only then, and
the GPU idles meanwhile.

## How to fix
Remove it. CUDA keeps the order of kernels on a stream; a copy to the host waits on its own.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Around timing, for which it is needed.
- Before the host reads the result of a copy with `non_blocking=True`.
- Under a guard of ten steps or more, or a profiling flag.
- Beside reads of values of the GPU in the same step: information.

## Evidence
- PyTorch CUDA semantics note, "Asynchronous execution".
)md";

using namespace source;

constexpr std::ptrdiff_t kNear = 3;

bool is_near_clock(const Statement& statement) {
  const auto block = statement.block;
  const auto at = static_cast<std::ptrdiff_t>(statement.index);
  for (std::ptrdiff_t i = at - kNear; i <= at + kNear; ++i) {
    if (i < 0 || i >= static_cast<std::ptrdiff_t>(block.size())) continue;
    if (reads_clock(*block[static_cast<std::size_t>(i)])) return true;
  }
  return statement.parent != nullptr && statement.parent->kind == StatementKind::if_ &&
         block.size() == 1 && is_near_clock(*statement.parent);
}

// `with Timer("step: %f"): …; torch.cuda.synchronize()`
bool is_in_timed_block(const Statement& statement) {
  for (const Statement* at = statement.parent; at != nullptr; at = at->parent) {
    const bool is_timed = std::ranges::any_of(at->items, [](const WithItem& item) {
      const Call* made = item.context->call();
      return made != nullptr && contains_any(lower(made->method), {"time", "clock", "stopwatch"});
    });
    if (is_timed) return true;
  }
  return false;
}

// A helper that does nothing but wait, for callers that then read a clock.
bool waits_for_clock(const Call& call) {
  const FunctionDef* function = call.function;
  if (function == nullptr || function->callers.empty()) return false;
  return function->calls.size() == 1 &&
         std::ranges::all_of(function->callers,
                             [](const Call* caller) { return is_near_clock(*caller->statement); });
}

bool follows_async_copy(const Statement& statement) {
  const auto earlier = before(statement);
  return std::any_of(earlier.begin(), earlier.end(), [](const Statement* one) {
    const std::string_view text = one->file->slice(one->range);
    const auto has = [&](std::string_view part) {
      return text.find(part) != std::string_view::npos;
    };
    return has("non_blocking=True") && (has("cpu") || has(".copy_("));
  });
}

bool is_timing_function(const FunctionDef* function) {
  return function != nullptr && function->name.find("time") != std::string_view::npos;
}

// optimizer.synchronize() of Horovod waits for the gradients of the other processes.
bool is_for_gradients(const Call& call) {
  return call.receiver != nullptr && (call.receiver_type().is(TypeKind::optimizer) ||
                                      contains(lower(last_name(call.receiver)), "optim"));
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.method_calls("synchronize")) {
    // That of an own class is judged by what it does.
    if (is_for_gradients(*call) || call->target != nullptr) continue;
    if (!call->arguments.empty() && call->name != "torch.cuda.synchronize") continue;
    if (is_timing_function(call->function)) continue;
    if (is_near_clock(*call->statement) || follows_async_copy(*call->statement)) continue;
    if (waits_for_clock(*call) || is_in_timed_block(*call->statement)) continue;
    if (!is_in_step_loop(facts, *call)) continue;
    Fix fix{
        "Remove it: kernels keep their order on a stream, and reading a result waits on its own",
        Exactness::bit_exact};
    if (call->statement->value == call->expr) {
      add_edit(remove_statement(*call->statement), fix);
      fix.safe = !fix.edits.empty() && call->name == "torch.cuda.synchronize";
    }
    Finding finding = finding_at(
        *call, "the host waits for the whole GPU in every step, and nothing here is timed",
        std::move(fix));
    finding.evidence = {Evidence::published("PyTorch CUDA semantics note, Asynchronous execution")};
    if (has_other_waits(facts, *call)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(Evidence::found("other waits of the step stay"));
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace explicit_synchronize

extern const Rule launch_explicit_synchronize{
    .id = "launch/explicit-synchronize",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Step synchronizes with the GPU for no visible reason",
    .doc = explicit_synchronize::kDoc,
    .in_scripts = explicit_synchronize::find};

}  // namespace rooftile
