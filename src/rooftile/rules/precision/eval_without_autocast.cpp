#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_eval_without_autocast_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An evaluation loop that calls the model outside autocast, in a program whose training loop calls
the same model under it.

## Why it costs time
The forward in fp32 runs on CUDA cores and moves twice the bytes. It also evaluates another
arithmetic than the one that is trained.

## How to fix
`with torch.autocast("cuda", dtype=…):` around the forward of the evaluation, with the dtype of the
training.

## How the saving is estimated
Not from the source alone. With a trace (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Autocast is inside the model's `forward`.
- Evaluation is of another model: an average of weights, a half-precision copy.
- accelerate, which puts every forward of what it prepared under autocast.
- Full precision is wanted for final numbers.
- Autocast is an option that is off by default.

## Evidence
- PyTorch recipe "Automatic Mixed Precision", section "Inference/Evaluation".
)md";

using namespace source;

bool is_forward(const Call& call) { return call.name == "torch.nn.Module.__call__"; }

// Then evaluation gets it too.
bool casts_inside_forward(const SourceFacts& facts, const Program& program) {
  for (const Autocast& autocast : autocasts_in(facts, program)) {
    const FunctionDef* function = autocast.call != nullptr ? autocast.call->function : nullptr;
    if (function != nullptr && function->class_def != nullptr && function->class_def->is_module) {
      return true;
    }
  }
  for (const ClassDef* module : facts.modules()) {
    const FunctionDef* forward = module->method("forward");
    if (forward == nullptr || !program.has(*module->file)) continue;
    for (const Expr* decorator : forward->decorators) {
      if (autocast_of(facts, decorator)) return true;
    }
  }
  return false;
}

// Models that are only spelled the same may be others where the training's file does not lead to
// the evaluation.
bool is_in_reach_of(const Call& evaluated, const Call& trained) {
  constexpr int kFewLevels = 4;
  return evaluated.file == trained.file ||
         (evaluated.function != nullptr &&
          any_call_above(*evaluated.function, kFewLevels,
                         [&](const Call& call) { return call.file == trained.file; }));
}

// Of two forwards, each of which names the model in front.
bool is_same_model(const Call& evaluated, const Call& trained) {
  const Expr* a = evaluated.expr->children().front();
  const Expr* b = trained.expr->children().front();
  const std::string_view name = last_name(a);
  if (name.find("ema") != std::string_view::npos) return false;
  if (a->type->half || a->type->bfloat16) return false;
  const bool is_known = a->type->made_by != nullptr && b->type->made_by != nullptr;
  return is_same_object(a, b) && (is_known || is_in_reach_of(evaluated, trained));
}

// One call that an option puts under autocast is there in evaluation too.
bool lacks_autocast(const SourceFacts& facts, const Call& call) {
  const Ways& ways = ways_to(facts, call);
  return std::ranges::any_of(ways, &Way::evaluates) &&
         std::ranges::none_of(
             ways, [](const Way& way) { return way.evaluates() && way.autocast != nullptr; });
}

const Call* plain_forward(const SourceFacts& facts, const Loop& loop, const Call& trained) {
  for (const IteratedCall& one : iteration_of(facts, loop.statement->body).calls) {
    if (!is_forward(*one.call) || is_inside_module(*one.call)) continue;
    if (!is_same_model(*one.call, trained)) continue;
    return lacks_autocast(facts, *one.call) ? one.call : nullptr;
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  const std::vector<const Loop*> loops = facts.loops(LoopRole::evaluation_step);
  if (loops.empty()) return {};
  for (const Program* program : training_programs(facts)) {
    // accelerate puts each forward of what it prepares under autocast, also an evaluation's.
    if (!facts.constructions_in(*program, TypeKind::accelerator).empty()) continue;
    const Call* trained = forward_under_autocast(facts, *program);
    if (trained == nullptr || casts_inside_forward(facts, *program)) continue;
    for (const Loop* loop : loops) {
      if (!program->has(*loop->file) || loop->file->is_test) continue;
      if (!is_user_evaluation(facts, *loop)) continue;
      const Call* call = plain_forward(facts, *loop, *trained);
      if (call == nullptr || !seen.insert(call).second) continue;
      Finding finding = finding_at(
          *call, "evaluation runs in fp32, although the same model is trained under autocast",
          {"Put the forward of the evaluation under the same autocast; it needs no scaler",
           Exactness::changes_numerics});
      finding.evidence = {
          Evidence::found(fmt::format("training forward under autocast at {}",
                                      place_text(*trained, *call->file))),
          Evidence::published("PyTorch recipe, Automatic Mixed Precision, Inference/Evaluation")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_eval_without_autocast_rule

extern const Rule precision_eval_without_autocast{
    .id = "precision/eval-without-autocast",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Evaluation runs in fp32 although training uses autocast",
    .doc = precision_eval_without_autocast_rule::kDoc,
    .in_scripts = precision_eval_without_autocast_rule::find};

}  // namespace rooftile
