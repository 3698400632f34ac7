#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_fp16_without_scaler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A training forward under CUDA autocast in fp16 (its default dtype) and a plain `loss.backward()` in
a program without a `GradScaler` or a loss scale.

## Why it costs time
It does not: gradients below the smallest fp16 number become zero, and the network stops learning
or learns worse.

## How to fix
`dtype=torch.bfloat16` where the GPU has it (Ampere and later), else a `GradScaler`:
`scaler.scale(loss).backward()`, `scaler.step(optimizer)`, `scaler.update()`.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- bf16 has the range of fp32.
- The loss is multiplied by a constant, or a library scales it: accelerate, Lightning, DeepSpeed,
  transformers.
- Autocast is off by default or for the CPU.

## Evidence
- Micikevicius et al., "Mixed Precision Training", ICLR 2018: an SSD detector lost 67 per cent of
  its activation gradients to zero; a scale of 8 restored the accuracy.
- PyTorch notes, "Automatic Mixed Precision examples".
)md";

using namespace source;

bool scales_losses(const SourceFacts& facts, const Program& program) {
  if (!constructions_in(facts, program, TypeKind::scaler).empty()) return true;
  return has_training_framework(program) ||
         mentions(program, {"scaler", "loss_scale", "loss_scaling", "scale_loss", "GradScaler",
                            "NativeScaler", "ApexScaler", "ShardedGradScaler", "FP16_Optimizer"});
}

// A plain backward of the pass, and the fp16 region around a forward of it.
struct Unscaled {
  const Call* backward = nullptr;
  const Call* autocast = nullptr;
};

const Call* fp16_region(const SourceFacts& facts, const Iteration& iteration) {
  for (const IteratedCall& one : iteration.calls) {
    if (!one.call->name.ends_with(".__call__")) continue;
    for (const Way& way : ways_to(facts, *one.call)) {
      const auto around = autocast_around(facts, way);
      const bool is_fp16 = around && around->on_gpu && around->dtype == AutocastDtype::fp16;
      const bool is_of_pass = iteration.loop == nullptr || way.step_loop == iteration.loop;
      if (is_fp16 && !around->is_off && way.trains() && is_of_pass && !way.gradients_off) {
        return around->call;
      }
    }
  }
  return nullptr;
}

Unscaled unscaled_backward(const SourceFacts& facts, const Iteration& iteration) {
  Unscaled found;
  for (const ScalingEvent& event : scaling_events(facts, iteration)) {
    if (event.kind == ScalingKind::scaled_backward) return {};
    if (event.kind != ScalingKind::backward || found.backward != nullptr) continue;
    bool is_multiplied = false;  // (loss * 1024).backward() scales by hand
    visit(resolved(event.at->call->receiver), [&](const Expr& part) {
      is_multiplied = is_multiplied || (part.kind == ExprKind::binary && part.word() == "*");
      return part.kind != ExprKind::call;
    });
    if (!is_multiplied) found.backward = event.at->call;
  }
  if (found.backward != nullptr) found.autocast = fp16_region(facts, iteration);
  return found;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.method_calls("autocast").empty()) return {};
  for (const Iteration& iteration : training_iterations(facts)) {
    const auto programs = training_programs_of(facts, *iteration.file);
    if (programs.empty() || scales_losses(facts, *programs.front())) continue;
    const Unscaled unscaled = unscaled_backward(facts, iteration);
    if (unscaled.autocast == nullptr || !seen.insert(unscaled.autocast).second) continue;
    Finding finding = finding_at(
        *unscaled.autocast,
        fmt::format(
            "the forward runs in fp16, and {} goes backward without loss scaling: gradients "
            "below 6e-8 become zero",
            receiver_text(*unscaled.backward)),
        {"Use dtype=torch.bfloat16 on Ampere and later, which needs no scaling, or step through "
         "torch.amp.GradScaler(\"cuda\")",
         Exactness::changes_numerics});
    finding.evidence = {
        Evidence::found(fmt::format("plain backward at {}, no GradScaler in the program",
                                    place_text(*unscaled.backward, *unscaled.autocast->file))),
        Evidence::published("two thirds of SSD's activation gradients were zero without scaling",
                            "Micikevicius et al., Mixed Precision Training, 2018")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace precision_fp16_without_scaler_rule

extern const Rule precision_fp16_without_scaler{
    .id = "precision/fp16-without-scaler",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "fp16 autocast trains without loss scaling",
    .doc = precision_fp16_without_scaler_rule::kDoc,
    .in_scripts = precision_fp16_without_scaler_rule::find};

}  // namespace rooftile
