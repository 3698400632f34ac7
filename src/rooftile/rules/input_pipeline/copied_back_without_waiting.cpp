#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace copied_back_without_waiting {

constexpr std::string_view kDoc = R"md(
## What it finds
`x.to("cpu", non_blocking=True)` or `host.copy_(gpu_tensor, non_blocking=True)` whose result the
host reads in the same function, with no event or synchronisation between.

## Why it costs time
The copy runs on while the host goes on: the read sees old or partial data.

## How to fix
`torch.cuda.synchronize()`, `event.synchronize()` or `stream.synchronize()` before the read, or
copy without `non_blocking`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The value is not read on the host, or only after a synchronisation.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()", section on copies
  from the device.
)md";

using namespace source;

bool is_host_device(const Expr* expr) {
  const bool is_text = expr->kind == ExprKind::text && expr->word().starts_with("cpu");
  return is_text || (expr->type->is(TypeKind::device) && expr->type->residence == Residence::host);
}

// The variable that the asynchronous copy fills; empty for other calls.
std::string_view filled_variable(const SourceFacts& facts, const Call& call) {
  if (!facts.argument(call, "non_blocking", 1).is_true()) return {};
  if (call.method == "copy_") {
    const bool from_gpu = !call.arguments.empty() && is_gpu_value(call.arguments.front().value);
    const bool to_host = call.receiver_type().is(TypeKind::tensor) &&
                         call.receiver_type().residence == Residence::host;
    return from_gpu && to_host ? last_name(call.receiver) : std::string_view();
  }
  if (call.method != "to") return {};
  const Argument* device = call.argument("device", 0);
  const bool to_host = device != nullptr && is_host_device(device->value);
  const bool is_kept =
      call.statement->kind == StatementKind::assignment && call.statement->value == call.expr;
  return to_host && is_kept ? last_name(call.statement->target) : std::string_view();
}

bool reads(const Call& call, std::string_view variable) {
  const bool is_method = call.method == "numpy" || call.method == "item" || call.method == "tolist";
  if (is_method) return last_name(call.receiver) == variable;
  const bool converts = call.name == "print" || call.name == "float" || call.name == "int" ||
                        call.name == "numpy.array" || call.name == "numpy.asarray";
  return converts &&
         std::any_of(call.arguments.begin(), call.arguments.end(), [&](const Argument& argument) {
           return uses_variable(argument.value, variable);
         });
}

// The first read after the copy, or null when something waits before it.
const Call* early_read(const Call& copy, std::string_view variable) {
  for (const Statement* statement : after(*copy.statement)) {
    for (const Call* call : calls_inside(*statement)) {
      const bool waits =
          call->method == "synchronize" || call->method == "wait" || call->method == "query";
      if (waits) return nullptr;
      if (reads(*call, variable)) return call;
    }
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      const std::string_view variable = filled_variable(facts, *call);
      if (variable.empty() || !is_reached_by_default(facts, *call)) continue;
      const Call* read = early_read(*call, variable);
      if (read == nullptr) continue;
      Fix fix{
          "Wait before the read (torch.cuda.synchronize() or an event), or copy without "
          "non_blocking",
          Exactness::bit_exact};
      add_edit(insert_line_before(*read->statement, "torch.cuda.synchronize()"), fix);
      if (!binds_torch(*file)) fix.edits.clear();
      Finding finding = finding_at(
          *call,
          fmt::format("{} is read at {} while the copy to the host may still run: the values can "
                      "be wrong",
                      variable, place_text(*read, *file)),
          std::move(fix));
      finding.evidence = {Evidence::published(
          "PyTorch tutorial, A guide on good usage of non_blocking and pin_memory()")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace copied_back_without_waiting

extern const Rule input_pipeline_copied_back_without_waiting{
    .id = "input_pipeline/copied-back-without-waiting",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Host reads a value before its asynchronous copy has arrived",
    .doc = copied_back_without_waiting::kDoc,
    .in_scripts = copied_back_without_waiting::find};

}  // namespace rooftile
