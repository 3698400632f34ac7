#include <fmt/format.h>

#include <algorithm>

#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace {

constexpr std::string_view kDoc = R"md(
## What it finds
fp32 products left over in a network that otherwise runs in 16 bits, on a GPU with TF32 (Ampere and
later). A network that is fp32 throughout gets advice on mixed precision instead.

## Why it costs time
PyTorch multiplies fp32 matrices on CUDA cores unless TF32 is allowed: 19.5 against 156 TFLOPS on an
A100. A few such products can take as long as all the 16-bit ones.

## How to fix
`torch.set_float32_matmul_precision("high")`, or cast the layer's input if its precision was not
meant.

## How the saving is estimated
The time model predicts the products in TF32.

## When not to
- Somebody may have kept the layer in fp32 on purpose: routers, norms of logits, scientific code.
- Convolutions and recurrent layers are not reported: cuDNN uses TF32 by default.
- GPUs before Ampere have no TF32; memory-bound products gain little.

## Evidence
- PyTorch CUDA semantics note, TF32: off by default for matrix products since 1.12; 10240 x 10240 on
  an A100 takes 0.11 s in fp32 and 0.016 s in TF32, with relative errors about a hundred times
  larger.
)md";

bool is_left_over(const Op& op) {
  return std::holds_alternative<Gemm>(op.body) && op.dtypes.input == Dtype::fp32;
}

bool mixes_precisions(const Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const Op& op) {
    return is_matrix_op(op) && is_16_bit_float(op.dtypes.input);
  });
}

Op in_tf32(const Op& op) {
  Op changed = op;
  changed.dtypes = Dtypes(Dtype::tf32);
  return changed;
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows which kernels ran: precision/fp32-on-cuda-cores judges them.
  if (!input.workload.traces.empty()) return {};
  if (!input.device().has_tensor_cores(Dtype::tf32) || !mixes_precisions(input.workload)) return {};
  std::vector<Finding> findings;
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_left_over)) {
    const auto saving = saving_if_all(input, group, in_tf32);
    if (group.time_share < kMinTimeShare || !is_math_bound(input, group)) continue;
    if (is_pointless(saving)) continue;
    Finding finding = finding_at_groups(
        input, {group},
        "an fp32 product in a network that otherwise runs in 16 bits: without TF32 it runs on CUDA "
        "cores",
        {"Allow TF32 (torch.set_float32_matmul_precision(\"high\")), or cast if fp32 was not meant",
         Exactness::changes_numerics},
        saving);
    finding.evidence = {"fp32 0.11 s, TF32 0.016 s on an A100: PyTorch CUDA semantics, TF32"};
    note_changes(input, group, in_tf32, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

extern const Rule precision_tf32_off{.id = "precision/tf32-off",
                                     .level = Level::advice,
                                     .cause = Cause::precision,
                                     .summary = "fp32 products left over in a 16-bit network",
                                     .doc = kDoc,
                                     .check = check};

}  // namespace rooftile
