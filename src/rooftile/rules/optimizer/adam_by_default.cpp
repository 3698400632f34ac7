#include <fmt/format.h>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace optimizer_adam_by_default_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that trains a large model with `torch.optim.Adam` or `AdamW`.

## Why it costs time
In the AlgoPerf competition, which measured the time to a target on eight workloads of vision, speech,
language and graphs on the same hardware, Distributed Shampoo reached the targets about 28 % faster than a
well-tuned NadamW, and Schedule-Free AdamW, which needs no schedule to be tuned, about 8 % faster.

## How to fix
Only where trainings are long or repeated, and the tuning pays:
- Distributed Shampoo (`distributed_shampoo` of facebookresearch/optimizers): two more matrices for each weight
  matrix, so about twice Adam's state or more, and their inverse roots every so many steps.
- Schedule-Free AdamW (`schedulefree`): as much state as AdamW, a call of `optimizer.train()` and
  `optimizer.eval()` around evaluation, no learning-rate schedule.

## How the saving is estimated
It is not: the number of steps changes, which neither a source nor a recording shows.

## When not to
- Fine-tuning, and short trainings.
- Memory is short: Shampoo needs more than Adam.
- No optimizer won on all workloads; on ResNet-50 hardly any entry beat the baseline.

## Evidence
- Kasimbeg et al., "Accelerating Neural Network Training: An Analysis of the AlgoPerf Competition",
  arXiv:2502.15015 (2025): 28 % and 8 % by wall-clock time.
- MLCommons AlgoPerf leaderboard, version 0.5: scores of 0.78 for Distributed Shampoo and 0.71 for Schedule-Free
  AdamW with tuning.
)md";

using namespace source;

Finding finding_for(const Call& optimizer) {
  Finding finding = finding_at(
      optimizer,
      fmt::format("{} is not the fastest to a target: in AlgoPerf, Distributed Shampoo was about "
                  "28 % and Schedule-Free AdamW about 8 % faster than a tuned NadamW",
                  optimizer.method),
      {"Try Schedule-Free AdamW (the state of AdamW, no schedule) or Distributed Shampoo (about "
       "twice "
       "the state) where trainings are long or repeated",
       Exactness::changes_training});
  finding.evidence = {Evidence::published("28 % and 8 % by wall-clock time",
                                          "AlgoPerf competition, arXiv:2502.15015")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Program* program : training_programs(facts)) {
    if (is_tutorial(facts, *program) || is_reinforcement_learning(*program)) continue;
    if (mentions(*program, {"from_pretrained", "pretrained", "finetune", "fine_tune"})) continue;
    if (!tensor_core_sized_layer(facts, *program)) continue;
    for (const Call* call : calls_in(facts, *program, {"torch.optim.Adam", "torch.optim.AdamW"})) {
      if (!is_reached_by_default(facts, *call)) continue;
      findings.push_back(finding_for(*call));
      break;
    }
  }
  return findings;
}

}  // namespace optimizer_adam_by_default_rule

extern const Rule optimizer_adam_by_default{.id = "optimizer/adam-by-default",
                                            .level = Level::info,
                                            .cause = Cause::none,
                                            .summary = "Faster optimizers than Adam are known",
                                            .doc = optimizer_adam_by_default_rule::kDoc,
                                            .in_scripts = optimizer_adam_by_default_rule::find};

}  // namespace rooftile
