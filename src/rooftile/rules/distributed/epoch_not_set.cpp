#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace epoch_not_set {

constexpr std::string_view kDoc = R"md(
## What it finds
A `DistributedSampler` that shuffles, for training, in a program that never calls `set_epoch`; also
a user-defined one that draws the order from its epoch.

## Why it costs time
The order is drawn from the seed and the number of the epoch. Without the call it stays that of
epoch 0: the same batches come in each epoch, and training needs more of them.

## How to fix
`sampler.set_epoch(epoch)` at the start of each epoch.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- `shuffle=False`; samplers for evaluation.
- Lightning and accelerate, which call it.
- Custom samplers that count on their own.

## Evidence
- PyTorch documentation, `DistributedSampler.set_epoch`: otherwise the same ordering will always
  be used.
)md";

using namespace source;

bool is_for_evaluation(const Call& sampler) {
  std::string words(sampler.file->slice(sampler.expr->range));
  if (sampler.statement->target != nullptr) {
    words += sampler.file->slice(sampler.statement->target->range);
  }
  return contains_any(lower(words), {"val", "test", "eval", "infer"});
}

// In the else of `if mode == "train":`.
bool is_beside_training(const SourceFacts& facts, const Call& sampler) {
  return !leads_there(facts, sampler, [](const Guard& guard) {
    return guard.kind == GuardKind::training && guard.negated;
  });
}

// Under `if split == "train":`.
bool is_in_training_branch(const SourceFacts& facts, const Call& sampler) {
  return std::ranges::any_of(guards_on_ways(facts, *sampler.statement), [](const Guard& guard) {
    return guard.kind == GuardKind::training && !guard.negated;
  });
}

// Written in the call of an evaluation's loader, or in a function that makes one by its name.
bool stands_in_evaluation(const SourceFacts& facts, const Call& sampler) {
  for (const Expr* outer = sampler.expr->parent; outer != nullptr; outer = outer->parent) {
    const bool is_loader = outer->call() != nullptr && outer->type->is(TypeKind::loader);
    if (is_loader && source::is_for_evaluation(facts, *outer->call())) return true;
  }
  const std::string name = sampler.function == nullptr ? "" : lower(sampler.function->name);
  return contains_any(name, {"valid", "_val", "val_", "test", "eval"}) && !contains(name, "train");
}

// Whether the loaders that get the sampler under its name are all for evaluation.
bool serves_evaluation(const SourceFacts& facts, const Call& sampler) {
  if (stands_in_evaluation(facts, sampler)) return true;
  if (is_in_training_branch(facts, sampler)) return false;
  const std::string_view name = last_name(sampler.statement->target);
  if (name.empty()) return false;
  bool serves = false;
  for (const Call* loader : facts.constructions(TypeKind::loader)) {
    const Argument* given = loader->argument("sampler", 3);
    const bool is_it = loader->function == sampler.function && loader->file == sampler.file &&
                       given != nullptr && last_name(given->value) == name &&
                       loader->open_paren > sampler.open_paren;
    if (!is_it) continue;
    if (!source::is_for_evaluation(facts, *loader)) return false;
    serves = true;
  }
  return serves;
}

bool sets_epoch(const SourceFacts& facts, const Program& program) {
  const auto& calls = facts.method_calls("set_epoch");
  return std::any_of(calls.begin(), calls.end(),
                     [&](const Call* call) { return program.has(*call->file); });
}

// An own class that shuffles by the epoch that it is told, and does not count epochs itself.
bool is_told_its_epoch(const ClassDef& def) {
  const FunctionDef* draws = def.method("__iter__");
  if (draws == nullptr || def.method("set_epoch") == nullptr) return false;
  if (!contains(def.name, "Sampler")) return false;
  const std::string_view text = draws->file->slice(draws->statement->range);
  return contains(text, "manual_seed") && contains(text, "self.epoch") &&
         !contains(text, "self.epoch +=") && !contains(text, "self.epoch = ");
}

std::vector<const Call*> samplers_of(const SourceFacts& facts) {
  std::vector<const Call*> samplers = facts.calls(
      {"torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"});
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) {
      if (!is_told_its_epoch(*def)) continue;
      const auto& made = facts.calls(def->full_name);
      samplers.insert(samplers.end(), made.begin(), made.end());
    }
  }
  return samplers;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* sampler : samplers_of(facts)) {
    if (facts.argument(*sampler, "shuffle", 3).is_false() || is_for_evaluation(*sampler)) continue;
    if (serves_evaluation(facts, *sampler) || is_beside_training(facts, *sampler)) continue;
    if (ways_to(facts, *sampler).empty()) continue;
    const auto programs = training_programs_of(facts, *sampler->file);
    const bool is_unset =
        !programs.empty() && std::all_of(programs.begin(), programs.end(), [&](const Program* one) {
          return !sets_epoch(facts, *one) && !has_training_framework(*one);
        });
    if (!is_unset) continue;
    Finding finding = finding_at(
        *sampler, "set_epoch is never called: every epoch visits the samples in the same order",
        {"Call sampler.set_epoch(epoch) at the start of each epoch", Exactness::changes_training});
    finding.evidence = {Evidence::published("PyTorch documentation, DistributedSampler.set_epoch")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace epoch_not_set

extern const Rule distributed_epoch_not_set{
    .id = "distributed/epoch-not-set",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Every epoch visits the samples in the same order (no set_epoch)",
    .doc = epoch_not_set::kDoc,
    .in_scripts = epoch_not_set::find};

}  // namespace rooftile
