// Normalisations and softmaxes spelled out in primitive operations.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rooftile/analysis/decomposed.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace memory_bound_decomposed_normalization_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Layer norms, RMS norms and softmaxes that the graph computes from primitives: a mean, a difference, its
square, a root and a division; or an exponential, its sum and a division. Found through the data flow,
not by order. One finding for the network.

## Why it costs time
Each primitive reads and writes the whole tensor. The fused operation reads it once and writes it once.

## How to fix
Use the one operation: `nn.LayerNorm`, `nn.RMSNorm`, `softmax`, with statistics in fp32 inside. ONNX
has LayerNormalization since opset 17 and RMSNormalization since opset 23; in older files norms are
spelled out. Those that PyTorch's exporter wrote out are put together again and not reported.

## How the saving is estimated
The time of the primitives minus the time of the operation that replaces them, with the gradients in a
training step.

## When not to
- A compiler fuses the primitives as well.
- Runtimes recognise the usual patterns when they load an ONNX file.
- A norm with a twist, such as statistics over part of the row, is not the operation it resembles.

## Evidence
- NVIDIA, Memory-Limited Layers User's Guide: time of these layers is proportional to the bytes moved.
- ONNX operator documentation: LayerNormalization exists since opset 17, RMSNormalization since 23.
)md";

// Each operation counts once, even where a mean serves two patterns.
struct Patterns {
  std::vector<std::size_t> ops;
  TimeEstimate after;
  std::size_t norms = 0, rms_norms = 0, softmaxes = 0;
  std::size_t longest = 0;
};

// The operation that replaces a pattern, and its gradient in a training step.
std::optional<TimeEstimate> replacement_time(const RuleInput& input, const Decomposed& pattern) {
  const Op& last = input.workload.ops[pattern.ops.back()];
  Op op;
  op.body = pattern.replacement;
  op.dtypes = last.dtypes;
  auto time = input.model.estimate(op);
  if (!time) return std::nullopt;
  if (input.workload.mode == Mode::training) {
    op.phase = Phase::dgrad;
    if (const auto gradient = input.model.estimate(op)) time = *time + *gradient;
  }
  return *time * static_cast<double>(last.count);
}

Patterns collect_patterns(const RuleInput& input) {
  const Graph& graph = input.graph;
  Patterns patterns;
  std::set<std::size_t> ops;
  for (const Decomposed& pattern : find_decomposed(input.workload, graph)) {
    const auto time = replacement_time(input, pattern);
    if (!time) continue;
    patterns.after = patterns.after + *time;
    const bool softmax = std::holds_alternative<Softmax>(pattern.replacement);
    ++(softmax ? patterns.softmaxes : patterns.norms);
    const auto* norm = std::get_if<Normalization>(&pattern.replacement);
    if (norm != nullptr && norm->fn == NormKind::rms) ++patterns.rms_norms;
    patterns.longest = std::max(patterns.longest, pattern.ops.size());
    ops.insert(pattern.ops.begin(), pattern.ops.end());
  }
  patterns.ops.assign(ops.begin(), ops.end());
  return patterns;
}

// "24 norms and 12 softmaxes"
std::string counts_text(const Patterns& patterns) {
  const auto plural = [](std::size_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  std::string text;
  if (patterns.norms > 0) text = plural(patterns.norms, "norm", "norms");
  if (patterns.norms > 0 && patterns.softmaxes > 0) text += " and ";
  if (patterns.softmaxes > 0) text += plural(patterns.softmaxes, "softmax", "softmaxes");
  return text;
}

// Of a graph that a runtime runs, the file is what can change.
Fix propose(const RuleInput& input, const Patterns& patterns) {
  if (input.workload.graph != GraphKind::runtime) {
    return {"Use the fused operations (nn.LayerNorm, nn.RMSNorm, softmax).",
            Exactness::exact_arithmetic};
  }
  std::string opsets;
  if (patterns.norms > patterns.rms_norms) opsets = "LayerNormalization from opset 17";
  if (patterns.rms_norms > 0) {
    opsets += fmt::format("{}RMSNormalization from opset 23", opsets.empty() ? "" : ", ");
  }
  return {opsets.empty() ? "Use the operator Softmax."
                         : fmt::format("Export with the fused operators: {}.", opsets),
          Exactness::exact_arithmetic};
}

std::vector<Finding> check(const RuleInput& input) {
  const Patterns patterns = collect_patterns(input);
  if (patterns.ops.empty()) return {};
  const LayerGroup group = with_gradients(input, patterns.ops);
  const auto saving = saving_of_replacing(input, group, patterns.after);
  if (!matters(group) || !is_gain(input, saving)) return {};
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{} decomposed into up to {} primitive ops: {} of the time.",
                  counts_text(patterns), patterns.longest, share_text(group.time_share)),
      propose(input, patterns), saving);
  finding.evidence = {
      Evidence::estimated("Patterns recognised by their data flow; the fused operation reads and "
                          "writes its tensor once.")};
  soften_unless_clear(input, finding);
  return {finding};
}

}  // namespace memory_bound_decomposed_normalization_rule

extern const Rule memory_bound_decomposed_normalization{
    .id = "memory_bound/decomposed-normalization",
    .level = Level::warning,
    .cause = Cause::fusion,
    .summary = "Normalization/softmax decomposed into primitive ops",
    .doc = memory_bound_decomposed_normalization_rule::kDoc,
    .in_ops = memory_bound_decomposed_normalization_rule::check};

}  // namespace rooftile
