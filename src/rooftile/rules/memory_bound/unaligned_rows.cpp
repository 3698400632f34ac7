#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/trace/attention_parts.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace memory_bound_unaligned_rows_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Softmaxes and normalizations in a trace whose rows are not a multiple of 16 bytes and that take at least 1.5
times what the time model allows for rows padded to that multiple.

## Why it costs time
PyTorch's kernels read 16 bytes at a time where each row starts at an address that 16 divides. Other rows
are read element by element, at a third of the memory's bandwidth in 16 bits.

## How to fix
Pad the last axis: a sequence, a vocabulary or a hidden size that is a multiple of 8 elements in 16 bits, 4
in fp32. Softmax over padded scores needs the mask extended by minus infinity; attention is better fused.

## How the saving is estimated
Measured time less the model's for the padded rows.

## When not to
- The softmax of attention that is not fused: see `attention/unfused`.
- Rows of up to 1024 elements of a softmax lie in registers, and alignment does not matter.
- Normalization over a padded axis changes its statistics: only sizes of the model can change there.

## Evidence
- PyTorch, aten/src/ATen/native/cuda/SoftMax.cu: the vectorized kernel asks for aligned rows; rows of up to
  1024 elements have separate kernels.
- PyTorch, aten/src/ATen/native/cuda/layer_norm_kernel.cu: `can_vectorize` asks for rows that are multiples
  of four elements.
)md";

constexpr double kBeyond = 1.5;              // times the model's longest time
constexpr std::int64_t kInRegisters = 1024;  // elements of a row of a softmax

std::int64_t row_of(const Op& op) {
  if (const auto* softmax = std::get_if<Softmax>(&op.body)) return softmax->cols;
  const auto* norm = std::get_if<Normalization>(&op.body);
  const bool by_row = norm != nullptr && (norm->fn == NormKind::layer || norm->fn == NormKind::rms);
  return by_row ? norm->cols : 0;
}

bool is_unaligned(const Op& op) {
  const std::int64_t row = row_of(op);
  const bool is_softmax = std::holds_alternative<Softmax>(op.body);
  if (row <= (is_softmax ? kInRegisters : 1)) return false;
  return row % alignment_elements(op.dtypes.input) != 0;
}

Op padded(const Op& op) {
  Op changed = op;
  const std::int64_t row = round_up(row_of(op), alignment_elements(op.dtypes.input));
  if (auto* softmax = std::get_if<Softmax>(&changed.body)) softmax->cols = row;
  if (auto* norm = std::get_if<Normalization>(&changed.body)) norm->cols = row;
  return changed;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  if (trace.is_foreign || !is_recorded_on(trace, input.device())) return cases;
  const auto wanted = [&](const OpUse* use, const KernelUse&) {
    return use != nullptr && use->op && is_unaligned(*use->op) && !is_attention_part(trace, *use);
  };
  for (const UseGroup& group : group_by_shape(trace, wanted)) {
    const auto saved = saving_if(input.model, group, padded);
    if (!saved || !is_visible(trace, group.time)) continue;
    const Seconds slowest = group.time - saved->low;
    if (group.time < kBeyond * slowest) continue;
    const Op& op = *group.uses.front()->op;
    const std::int64_t row = row_of(op), to = row_of(padded(op));
    Finding finding = about_group(
        trace, group,
        fmt::format("{} over rows of {} elements takes {}: rows are not 16-byte aligned",
                    group_text(group), row, cost_text(trace, group.time)),
        {fmt::format("Pad the rows {} → {}", row, to), Exactness::exact_arithmetic},
        gain_of_kernel_time(trace, *saved));
    finding.ops = workload_ops_of(input, group);
    finding.count = group.kernels;
    finding.evidence = {Evidence::measured(
        fmt::format("{} in {}; the model says {} at most for rows of {}", time_text(group.time),
                    kernels_text(group), time_text(slowest), to))};
    note_pace(trace, finding);
    cases.push_back({group.name + group.shape, std::move(finding)});
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace memory_bound_unaligned_rows_rule

extern const Rule memory_bound_unaligned_rows{
    .id = "memory_bound/unaligned-rows",
    .level = Level::advice,
    .cause = Cause::alignment,
    .summary = "Softmax or normalization reads rows that are not 16-byte aligned",
    .doc = memory_bound_unaligned_rows_rule::kDoc,
    .in_traces = memory_bound_unaligned_rows_rule::check};

}  // namespace rooftile
