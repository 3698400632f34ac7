#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_narrow_loads_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Tensor Core kernels whose names say that they load less than 16 bytes at a time (`align1`, `align2`,
`align4`, `ldg4` in 16 bits), for GEMMs whose recorded widths would allow 16 bytes, or whose shapes
are not recorded. GEMMs of misaligned widths are reported by `gemm/unaligned-row-stride`, with this
kernel as evidence.

## Why it costs time
The library falls back to narrower loads when a pointer or a row stride is not a multiple of 16 bytes:
a slice, a view at an odd offset, a tensor cut out of a wider buffer.

## How to fix
Let operands start at 16-byte addresses with rows that are multiples of 16 bytes: split along aligned
borders, pad the parent buffer, or make the operand contiguous once outside the loop.

## How the saving is estimated
The time model's ratio for a large GEMM with rows of that alignment and with aligned rows, applied
to the measured time. What other kernels or the host hide is taken off.

## When not to
- Memory-bound GEMMs lose less than the estimate says.
- Copying a large operand only to align it can cost more than it saves.

## Evidence
- cuBLAS documentation, "Tensor Core Usage": rows, leading dimensions and pointers are to be multiples
  of 16 bytes.
- ML Engineering book (S. Bekman), "SwiGLU-based MLP": width 10922 runs at 273 TFLOPS on an H100,
  10944 at 398 TFLOPS.
)md";

constexpr double kWide = 16;  // bytes

// 0 where the name does not say.
double load_bytes(const OpUse* use, const KernelUse& kernel) {
  const std::optional<Dtype> dtype = operand_dtype(use, kernel);
  return dtype ? kernel.facts.alignment * size_in_bytes(*dtype) : 0;
}

bool has_misaligned_widths(const OpUse* use) {
  if (use == nullptr || !use->op) return false;
  const std::vector<MatrixProduct> products = matrix_products(*use->op);
  return std::any_of(products.begin(), products.end(),
                     [](const MatrixProduct& product) { return !alignment_of(product).full(); });
}

bool is_narrow(const OpUse* use, const KernelUse& kernel) {
  const double bytes = load_bytes(use, kernel);
  return is_matrix_kernel(kernel) && kernel.facts.tensor_core.value_or(false) && bytes > 0 &&
         bytes < kWide && !has_misaligned_widths(use);
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const UseGroup& group) {
  const OpUse* use = group.uses.empty() ? nullptr : group.uses.front();
  const double bytes = load_bytes(use, *group.kernel);
  const Range<double> left =
      rate_left_by_alignment(input.model, *operand_dtype(use, *group.kernel), bytes);
  const Range<Seconds> saved{(1 - left.high) * group.time, (1 - left.expected) * group.time,
                             (1 - left.low) * group.time};
  Finding finding = about_group(
      trace, group,
      fmt::format("{}: the kernel loads {:g} bytes at a time instead of 16 and takes {}{}",
                  group_text(group), bytes, cost_text(trace, group.time),
                  use != nullptr && use->op ? "; the widths would allow 16" : ""),
      {"Align the operands' pointers and row strides to 16 bytes (slices, views, odd buffers)",
       Exactness::exact_arithmetic},
      gain_of_kernel_time(trace, saved));
  finding.count = group.kernels;
  finding.ops = workload_ops_of(input, group);
  finding.evidence = {
      Evidence::measured(fmt::format("{} runs of kernel {}, alignment {} elements", group.kernels,
                                     short_kernel_name(group.kernel->name),
                                     group.kernel->facts.alignment)),
      Evidence::published("16-byte rows and pointers", "cuBLAS documentation, Tensor Core Usage")};
  note_pace(trace, finding);
  return finding;
}

// Products of an attention that is not fused, which a fused kernel replaces, as far as their time
// in the attentions goes.
bool is_of_attention(const UseGroup& group, Seconds& of_attention) {
  constexpr double kMost = 0.5;  // of the group
  if (!contains_any(group.name, {"bmm", "matmul"}) || of_attention < kMost * group.time) {
    return false;
  }
  of_attention = of_attention - std::min(of_attention, group.time);
  return true;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, [&](const TraceSummary& trace) {
    std::vector<TraceCase> cases;
    if (trace.is_foreign) return cases;
    Seconds of_attention;
    for (const AttentionUse& attention : trace.attentions) of_attention += attention.narrow_time;
    for (const UseGroup& group : group_by_shape(trace, is_narrow)) {
      if (!is_visible(trace, group.time)) break;
      if (is_of_attention(group, of_attention)) continue;
      add_if_visible(trace, group.name + group.shape + group.kernel->name,
                     describe(input, trace, group), cases);
    }
    return cases;
  });
}

}  // namespace gemm_narrow_loads_rule

extern const Rule gemm_narrow_loads{.id = "gemm/narrow-loads",
                                    .level = Level::warning,
                                    .cause = Cause::alignment,
                                    .summary = "Kernels load less than 16 bytes at a time",
                                    .doc = gemm_narrow_loads_rule::kDoc,
                                    .in_traces = gemm_narrow_loads_rule::check};

}  // namespace rooftile
