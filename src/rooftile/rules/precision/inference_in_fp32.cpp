#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/against_autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_inference_in_fp32_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a script: a program that trains nothing and runs a network on a GPU for one input after the other, whose layers are
large enough for Tensor Cores, and that nowhere uses or offers 16 bits or TF32. Large enough are convolutions from and to 64 channels, layers of 512 features, and models of torchvision, timm, transformers and the
like.

## Why it costs time
In fp32, GEMMs run on CUDA cores, and each tensor moves twice the bytes: 19.5 TFLOPS on an A100, against 312 in
bf16 and half of that in TF32.

## How to fix
`with torch.autocast("cuda", dtype=torch.bfloat16):` around the forward, or `model.half()` once and inputs in
`torch.float16`. Compare the results with those in fp32. TF32 alone is one line on Ampere and later:
`torch.set_float32_matmul_precision("high")`.

## How the saving is estimated
From a script alone nothing is estimated; `rooftile check` on a trace of the program does.

## When not to
- Programs that train: `precision/amp-off` and `precision/eval-without-autocast` speak of those.
- Scripts that by their name measure a network, `test.py`, `eval.py`, `benchmark.py`: information.
- Small networks, which wait for data or launches, and networks of which nothing is seen.
- Scientific code that needs fp32, and Fréchet distances (FID), which are compared with those of others.
- Depthwise convolutions, Fourier transforms, inverted matrices, extensions: information, with the reason.

## Evidence
- PyTorch recipe "Automatic Mixed Precision", section "Inference/Evaluation".
- PyTorch CUDA semantics note, TF32: 10240 x 10240 on an A100 takes 0.11 s in fp32, 0.016 s in TF32.
- NVIDIA A100 datasheet: peak rates.
)md";

using namespace source;

// The network that a pass calls, and what it is made of.
struct Inference {
  const Call* forward = nullptr;
  SizedLayer layer;
  TrainedParts parts;
};

std::optional<Inference> inference_in(const SourceFacts& facts, const Program& program,
                                      const Loop& loop) {
  for (const IteratedCall& one : iteration_of(facts, loop.statement->body).calls) {
    const Call& call = *one.call;
    if (call.name != "torch.nn.Module.__call__" || is_inside_module(call)) continue;
    TrainedParts parts = parts_of(facts, program, *call.expr->children().front());
    if (!parts.is_complete) continue;
    const auto layer = tensor_core_sized_layer(
        facts, program, [&](const Call& made) { return is_part(parts, made); });
    if (layer) return Inference{&call, *layer, std::move(parts)};
  }
  return std::nullopt;
}

std::optional<Inference> inference_of(const SourceFacts& facts, const Program& program) {
  for (const Loop* loop : facts.loops(LoopRole::evaluation_step)) {
    const bool runs = program.has(*loop->file) && loop->on_gpu &&
                      runs_in(facts, program, *loop->statement) &&
                      is_reached_by_default(facts, *loop->statement);
    if (!runs) continue;
    if (auto found = inference_in(facts, program, *loop)) return found;
  }
  return std::nullopt;
}

Finding finding_for(const SourceFacts& facts, const Program& program, const Inference& inference) {
  Finding finding = finding_at(
      *inference.forward,
      fmt::format("the network ({}) runs in fp32: the Tensor Cores multiply bf16 and fp16 several "
                  "times as fast",
                  inference.layer.text),
      {"Run the forward pass under torch.autocast(\"cuda\", dtype=torch.bfloat16), or call "
       "model.half() once and pass inputs in torch.float16; compare the results with those in fp32",
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::found("no autocast, 16-bit weights, precision option or TF32 switch anywhere in "
                      "the program, which trains nothing"),
      Evidence::published("PyTorch recipe, Automatic Mixed Precision, Inference/Evaluation")};
  const std::string_view doubt =
      reason_against_autocast(facts, program, inference.parts, inference.layer);
  if (!doubt.empty()) finding.evidence.push_back(Evidence::to_check(std::string(doubt)));
  if (!doubt.empty() || is_evaluation_script(*program.entry)) finding.own_level = Level::info;
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Program& program : facts.programs) {
    if (!program.infers_on_gpu || chooses_precision(facts, program)) continue;
    if (is_tutorial(facts, program) || is_numerically_strict(facts, program)) continue;
    // A distance between distributions is compared with published ones, which are of fp32.
    if (is_reinforcement_learning(program) || mentions(program, {"fid", "FID"})) continue;
    const auto inference = inference_of(facts, program);
    if (!inference) continue;
    const bool is_new = std::ranges::none_of(findings, [&](const Finding& other) {
      return other.location.file == inference->forward->file->path;
    });
    if (is_new) findings.push_back(finding_for(facts, program, *inference));
  }
  return findings;
}

}  // namespace precision_inference_in_fp32_rule

extern const Rule precision_inference_in_fp32{
    .id = "precision/inference-in-fp32",
    .level = Level::advice,
    .cause = Cause::none,
    .typical = Typical::half,
    .summary = "A network runs in fp32 for one input after the other, without mixed precision",
    .doc = precision_inference_in_fp32_rule::kDoc,
    .in_scripts = precision_inference_in_fp32_rule::find,
    .costs_elsewhere = true};

}  // namespace rooftile
