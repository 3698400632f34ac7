#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace gemm_misaligned_view_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A GEMM that reads or writes a view: all widths are aligned, but the distance between two
rows, or the first element, is not a multiple of 16 bytes. Slices such as `x[:, 1:]`, uneven
`split`s and columns of an odd-width parent buffer look like that.

## Why it costs time
The fast kernels need 16-byte aligned row starts as well as row lengths. Only strides and offsets
can show it, so graphs without them (ONNX) never report it.

## How to fix
Make the parent buffer's width a multiple of 16 bytes and split it at aligned columns, or call
`.contiguous()` once outside the loop.

## How the saving is estimated
The time model predicts the GEMM with aligned strides and offsets.

## When not to
- A copy in every step can cost more than it gains: copy once, or change the parent.
- Only strides count here; sizes need not change.
- Memory-bound GEMMs are not reported.

## Evidence
- cuBLAS documentation, "Tensor Core Usage": the leading dimensions and the three pointers are to be
  multiples of 16 bytes.
)md";

bool is_multiple(std::int64_t elements, Dtype dtype) {
  return elements * info(dtype).bits % 128 == 0;
}

// "w row stride 4097", "x offset 1".
std::vector<std::string> faults_of(const Op& op) {
  const auto& gemm = std::get<Gemm>(op.body);
  std::vector<std::string> faults;
  const auto judge = [&](std::string_view role, std::int64_t stride, std::int64_t offset,
                         Dtype dtype) {
    if (!is_multiple(stride, dtype))
      faults.push_back(fmt::format("{} row stride {}", role, stride));
    if (!is_multiple(offset, dtype)) faults.push_back(fmt::format("{} offset {}", role, offset));
  };
  judge("x", gemm.x_stride, gemm.x_offset, op.dtypes.input);
  judge("w", gemm.w_stride, gemm.w_offset, op.dtypes.weight);
  judge("out", gemm.out_stride, gemm.out_offset, op.dtypes.output);
  return faults;
}

Op aligned(const Op& op) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  gemm.x_stride = round_up(gemm.x_stride, alignment_elements(op.dtypes.input));
  gemm.w_stride = round_up(gemm.w_stride, alignment_elements(op.dtypes.weight));
  gemm.out_stride = round_up(gemm.out_stride, alignment_elements(op.dtypes.output));
  gemm.x_offset = gemm.w_offset = gemm.out_offset = 0;
  return changed;
}

bool is_misaligned_view(const RuleInput& input, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->m > 1 && gemm->n > 1 &&
         input.device().has_tensor_cores(op.dtypes.input) &&
         misaligned_row_dims(*gemm, op.dtypes).empty() && !faults_of(op).empty();
}

Fix propose(const Op& op) {
  const auto& before = std::get<Gemm>(op.body);
  const Op fixed = aligned(op);
  const auto& after = std::get<Gemm>(fixed.body);
  std::vector<std::string> steps;
  const auto add = [&](std::string_view role, std::int64_t from, std::int64_t to) {
    if (from != to) steps.push_back(fmt::format("row stride of {} {} → {}", role, from, to));
  };
  add("x", before.x_stride, after.x_stride);
  add("w", before.w_stride, after.w_stride);
  add("out", before.out_stride, after.out_stride);
  if (before.x_offset + before.w_offset + before.out_offset != 0) {
    steps.emplace_back("start the view at a multiple of 16 bytes");
  }
  return {fmt::format("{}: widen the parent buffer or copy once outside the loop; layout only",
                      join(steps, ", ")),
          Exactness::exact_arithmetic};
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_misaligned_view(input, op); };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (group.time_share < threshold::kReported || !is_math_bound(input, group)) continue;
    const Op& op = input.workload.ops[group.ops.front()];
    const std::optional<Range<Seconds>> saving = saving_if_all(input, group, aligned);
    if (is_pointless(saving)) continue;
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("{} breaks the 16-byte condition although all widths meet it: rows are "
                    "{:g}-byte aligned",
                    join(faults_of(op), ", "), worst_alignment(input, group)),
        propose(op), saving);
    soften_unless_clear(input, finding);
    note_changes(input, group, aligned, finding);
    finding.evidence = {Evidence::published("pointers and leading dimensions",
                                            "cuBLAS documentation, Tensor Core Usage")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gemm_misaligned_view_rule

extern const Rule gemm_misaligned_view{.id = "gemm/misaligned-view",
                                       .level = Level::warning,
                                       .cause = Cause::alignment,
                                       .summary = "View starts its rows at unaligned addresses",
                                       .doc = gemm_misaligned_view_rule::kDoc,
                                       .in_ops = gemm_misaligned_view_rule::check};

}  // namespace rooftile
