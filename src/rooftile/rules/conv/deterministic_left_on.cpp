#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace deterministic_left_on {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.backends.cudnn.deterministic = True` or `torch.use_deterministic_algorithms(True)` without any
condition, in a program that trains convolutions on a GPU.

## Why it costs time
cuDNN may then only use algorithms without atomic additions, and for gradients these are often not
the fastest. `use_deterministic_algorithms` also replaces indexing, scatter and interpolation.

## How to fix
Remove the line, or put it under an option that is off by default.

## How the saving is estimated
Not from the source alone: compare the step time with and without.

## When not to
- Runs that must repeat bit by bit. Put it under an option; it is then not reported.
- Under a seed option that is off by default, in tests, or with `warn_only=True`.
- Models without convolutions: the cuDNN flag changes nothing there. Those whose only convolution may be a
  patch embedding: information.

## Evidence
- PyTorch documentation, "Reproducibility": deterministic operations are often slower.
- PyTorch documentation, `torch.use_deterministic_algorithms`: the list of operations.
)md";

using namespace source;

// A condition that only asks for a GPU, or one that is true with all options at their defaults.
bool is_open(const SourceFacts& facts, const Guard& guard) {
  if (guard.kind != GuardKind::condition && guard.kind != GuardKind::option &&
      guard.kind != GuardKind::debug) {
    return true;
  }
  if (guard.expr != nullptr) {
    const std::string_view asked = guard.expr->statement->file->slice(guard.expr->range);
    // One way or the other, by how the program is started.
    if (contains_any(asked, {"distributed", "multiprocessing", "world_size"})) return true;
  }
  const Value value = facts.value(guard.expr);
  if (guard.negated ? value.is_false() : value.is_true()) return true;
  return !guard.negated && guard.expr != nullptr &&
         uses_name(guard.expr, {"is_available", "cuda", "use_cuda", "disable_cuda", "no_cuda",
                                "use_gpu", "num_gpus", "num_gpu", "n_gpu", "ngpu", "device_count"});
}

bool is_unconditional(const SourceFacts& facts, const Statement& statement) {
  return is_reached_when_launched(facts, statement) &&
         leads_there(facts, statement, [&](const Guard& guard) { return !is_open(facts, guard); });
}

// Library models count too: those of vision have convolutions.
bool has_convolution(const SourceFacts& facts, const Program& program) {
  for (const File* file : program.files) {
    for (const Call* call : file->calls) {
      if (is_convolution(*call) || call->name.starts_with("torch.nn.functional.conv")) return true;
    }
  }
  return main_convolution(facts, program).has_value() ||
         !calls_in(facts, program, {"timm.create_model", "torchvision.models.*"}).empty();
}

bool trains_convolutions(const SourceFacts& facts, const Statement& statement) {
  const auto programs = training_programs_of(facts, *statement.file);
  return std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
    return runs_training(*program) && runs_in(facts, *program, statement) &&
           has_convolution(facts, *program);
  });
}

// A transformer, whose only convolution may be the patch embedding.
bool may_be_transformer(const SourceFacts& facts, const Statement& statement) {
  const auto programs = training_programs_of(facts, *statement.file);
  return std::ranges::all_of(programs, [&](const Program* program) {
    return has_attention(*program) && !trains_plain_convolution(facts, *program);
  });
}

Finding finding_for(const SourceFacts& facts, const Statement& statement, std::string_view what,
                    Fix fix) {
  Finding finding = finding_at(
      statement,
      fmt::format("{} rules out the fastest algorithms, for gradients of convolutions above all",
                  what),
      std::move(fix));
  finding.evidence = {Evidence::published("deterministic operations are often slower",
                                          "PyTorch documentation, Reproducibility"),
                      Evidence::found("set without a condition")};
  if (may_be_transformer(facts, statement)) finding.own_level = Level::info;
  return finding;
}

void check_flag(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Statement* statement : facts.assignments("torch.backends.cudnn.deterministic")) {
    const Value value = facts.value(statement->value);
    if (!value.is_true() || !value.fixed() || !trains_convolutions(facts, *statement)) {
      continue;
    }
    if (!is_unconditional(facts, *statement) || is_for_a_while(*statement)) continue;
    Fix fix{"Set it to False, or only under an option for repeatable runs",
            Exactness::exact_arithmetic};
    add_edit(replace(*statement->file, statement->value->range, "False"), fix);
    findings.push_back(finding_for(facts, *statement, "cudnn.deterministic", std::move(fix)));
  }
}

void check_function(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Call* call :
       training_calls(facts, {"torch.use_deterministic_algorithms", "torch.set_deterministic"})) {
    const Value mode = facts.argument(*call, "mode", 0);
    if (!mode.is_true() || !mode.fixed()) continue;
    if (!facts.argument(*call, "warn_only").absent()) continue;
    if (!is_unconditional(facts, *call->statement)) continue;
    Fix fix{"Call it only under an option for repeatable runs", Exactness::exact_arithmetic};
    if (const Argument* written = call->argument("mode", 0); written != nullptr) {
      add_edit(replace(*call->file, written->value->range, "False"), fix);
    }
    findings.push_back(
        finding_for(facts, *call->statement, "torch.use_deterministic_algorithms", std::move(fix)));
  }
}

void check_trainer(const SourceFacts& facts, std::vector<Finding>& findings) {
  for (const Call* call : training_calls(facts, {"lightning.pytorch.Trainer"})) {
    const Value value = facts.argument(*call, "deterministic");
    if (!value.is_true() || !value.fixed() || !trains_convolutions(facts, *call->statement))
      continue;
    Fix fix{"Remove deterministic=True, or set it by an option", Exactness::exact_arithmetic};
    if (const Argument* written = call->argument("deterministic"); written != nullptr) {
      add_edit(remove_argument(*call, *written), fix);
    }
    findings.push_back(finding_for(facts, *call->statement, "deterministic=True", std::move(fix)));
  }
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_flag(facts, findings);
  check_function(facts, findings);
  check_trainer(facts, findings);
  return findings;
}

}  // namespace deterministic_left_on

extern const Rule conv_deterministic_left_on{
    .id = "conv/deterministic-left-on",
    .level = Level::advice,
    .cause = Cause::none,
    .typical = Typical::tenth,
    .summary = "Deterministic algorithms enabled for all runs",
    .doc = deterministic_left_on::kDoc,
    .in_scripts = deterministic_left_on::find};

}  // namespace rooftile
