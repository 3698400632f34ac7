#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace odd_class_count {

constexpr std::string_view kDoc = R"md(
## What it finds
The last `nn.Linear` of a module with a written number of outputs of 64 or more that is not a multiple
of 8, in a program that trains on a GPU. Information, hidden unless asked for.

## Why it costs time
The gradient of this layer's weights and the GEMM itself have rows that do not start at 16-byte
addresses.

## How to fix
Give the layer the next multiple of 8 outputs and slice the logits before the loss.

## How the saving is estimated
Not estimated; it is one layer, and a small one in most networks.

## When not to
- Nearly always: measure first. It pays for some tens of thousands of classes. The output layer of
  a vocabulary is reported with its embedding, by `gemm/odd-vocabulary`.

## Evidence
- NVIDIA Linear/Fully-Connected Layers User's Guide: outputs divisible by 8 in fp16.
)md";

using namespace source;

constexpr std::int64_t kStep = 8, kFewest = 64;

// The last layer in order of __init__, if it is a Linear.
const Call* last_linear(const ClassDef& def) {
  if (def.layers.empty()) return nullptr;
  const Call* last = def.layers.back().made_by;
  return last != nullptr && last->name == "torch.nn.Linear" ? last : nullptr;
}

// gemm/odd-vocabulary judges an embedding and its output layer together, with one size for both.
bool is_of_vocabulary(const SourceFacts& facts, const Call& layer, std::int64_t outputs) {
  const auto programs = training_programs_of(facts, *layer.file);
  return std::ranges::any_of(facts.calls("torch.nn.Embedding"), [&](const Call* embedding) {
    const Value size = facts.argument(*embedding, "num_embeddings", 0);
    if (size.kind != ValueKind::integer || size.integer != outputs) return false;
    return std::ranges::any_of(
        programs, [&](const Program* program) { return program->has(*embedding->file); });
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const ClassDef* def : facts.modules()) {
    const Call* last = last_linear(*def);
    if (last == nullptr || !trains_on_gpu(facts, *def->file)) continue;
    const auto out = fixed_argument(facts, *last, "out_features", 1);
    if (!out || *out < kFewest || *out % kStep == 0) continue;
    if (is_of_vocabulary(facts, *last, *out)) continue;
    Finding finding = finding_at(
        *last, fmt::format("the last layer has {} outputs, not a multiple of 8", *out),
        {fmt::format("Make it {} and slice the logits before the loss, where a trace shows the "
                     "layer to matter",
                     (*out + kStep - 1) / kStep * kStep),
         Exactness::exact_arithmetic});
    finding.evidence = {Evidence::published("outputs divisible by 8 in fp16",
                                            "NVIDIA Linear/Fully-Connected Layers User's Guide")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace odd_class_count

extern const Rule gemm_odd_class_count{.id = "gemm/odd-class-count",
                                       .level = Level::info,
                                       .cause = Cause::none,
                                       .summary = "Class count is not a multiple of 8",
                                       .doc = odd_class_count::kDoc,
                                       .in_scripts = odd_class_count::find};

}  // namespace rooftile
