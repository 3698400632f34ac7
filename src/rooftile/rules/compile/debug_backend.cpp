#include <fmt/format.h>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace debug_backend {

constexpr std::string_view kDoc = R"md(
## What it finds
In a program that trains on a GPU: `torch.compile(backend="eager")` or `"aot_eager"`,
`torch._dynamo.config.suppress_errors = True`, or `TORCHDYNAMO_DISABLE` set in the script.

## Why it costs time
These switches are for finding errors. With the debugging backends the graph is traced and then run
operation by operation; with errors suppressed, whatever fails to compile silently runs in Python.

## How to fix
Remove the switch.

## How the saving is estimated
Not from the source alone; compare the step time with the default backend.

## When not to
- Under an option that is off by default.
- Benchmarks and tests of the compiler itself.

## Evidence
- PyTorch documentation, "torch.compile Troubleshooting": backends eager and aot_eager for ablation.
)md";

using namespace source;

bool is_benchmark(const File& file) { return lower(file.path).find("bench") != std::string::npos; }

bool is_judged(const SourceFacts& facts, const Statement& statement) {
  return trains_on_gpu(facts, *statement.file) && !is_benchmark(*statement.file) &&
         is_reached_by_default(facts, statement);
}

Finding finding_for(const Statement& statement, std::string message, Fix fix) {
  Finding finding = finding_at(statement, std::move(message), std::move(fix));
  finding.evidence = {Evidence::published("PyTorch documentation, torch.compile Troubleshooting")};
  return finding;
}

void check_backends(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Call* call : training_calls(facts, {"torch.compile"})) {
    const Value backend = facts.argument(*call, "backend", 3);
    const bool is_debug =
        backend.is("eager") || backend.is("aot_eager") || backend.is("aot_eager_decomp_partition");
    if (!is_debug || is_benchmark(*call->file)) continue;
    Fix fix{"Remove the backend: the default, inductor, makes fused kernels",
            Exactness::exact_arithmetic};
    if (const Argument* written = call->argument("backend"); written != nullptr) {
      add_edit(remove_argument(*call, *written), fix);
    }
    Finding finding = finding_at(
        *call,
        fmt::format("backend=\"{}\" traces the model and runs it operation by operation, for "
                    "debugging",
                    backend.text),
        std::move(fix));
    finding.evidence = {
        Evidence::published("PyTorch documentation, torch.compile Troubleshooting")};
    findings.push_back(std::move(finding));
  }
}

void check_settings(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const std::string_view name :
       {"torch._dynamo.config.suppress_errors", "torch._dynamo.config.disable"}) {
    for (const Statement* statement : facts.assignments(name)) {
      if (!facts.value(statement->value).is_true() || !is_judged(facts, *statement)) continue;
      Fix fix{"Remove the line once the model compiles", Exactness::exact_arithmetic};
      add_edit(remove_statement(*statement), fix);
      findings.push_back(finding_for(
          *statement,
          name.ends_with("disable")
              ? "torch.compile is switched off"
              : "what fails to compile runs in Python without a word: errors are suppressed",
          std::move(fix)));
    }
  }
}

// os.environ["TORCHDYNAMO_DISABLE"] = "1"
bool switches_off(const SourceFacts& facts, const Statement& statement) {
  const Expr* target = statement.target;
  if (statement.kind != StatementKind::assignment) return false;
  if (target->kind != ExprKind::subscript || target->children().size() != 2) return false;
  const std::string_view key = target->children()[1]->word();
  if (key != "TORCHDYNAMO_DISABLE" && key != "TORCH_COMPILE_DISABLE") return false;
  const Value value = facts.value(statement.value);
  return value.kind == ValueKind::text && value.text != "0" && !value.text.empty();
}

void check_environment(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"})) continue;
    for (const Statement* statement : file->statements) {
      if (!switches_off(facts, *statement) || !is_judged(facts, *statement)) continue;
      Fix fix{"Remove the line", Exactness::exact_arithmetic};
      add_edit(remove_statement(*statement), fix);
      findings.push_back(finding_for(
          *statement, "the environment variable switches torch.compile off", std::move(fix)));
    }
  }
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_backends(facts, findings);
  check_settings(facts, findings);
  check_environment(facts, findings);
  return findings;
}

}  // namespace debug_backend

extern const Rule compile_debug_backend{
    .id = "compile/debug-backend",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "torch.compile runs in a debugging mode or is disabled",
    .doc = debug_backend::kDoc,
    .in_scripts = debug_backend::find};

}  // namespace rooftile
