#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/bound_share.h"
#include "rooftile/analysis/op_math.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace precision_fp32_on_tensor_core_gpu_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A network whose GEMMs are all fp32, on a GPU whose Tensor Cores take 16-bit floats, when a
good part of the time is math-bound, or in inference reads weights. The finding stands for the whole
network.

## Why it costs time
fp32 GEMMs run on CUDA cores, at a small fraction of the Tensor Core rate (19.5 against 312
TFLOPS on an A100), and each operand takes twice the memory traffic.

## How to fix
Mixed precision: `torch.autocast("cuda", dtype=torch.bfloat16)` on Ampere and later, fp16 with
`torch.amp.GradScaler` on Volta and Turing. Nearly for free on Ampere and later is TF32:
`torch.set_float32_matmul_precision("high")`.

## How the saving is estimated
The time model predicts every GEMM in 16 bits; other operations are left as they are, so
the saving is on the low side. Convolutions and recurrent layers count as TF32 already on Ampere and
later, which is cuDNN's default in PyTorch.

## When not to
- The file says what is stored, not how it runs: a model exported in fp32 may well train under
  autocast. Then check again with `--dtype bf16`.
- Small and launch-bound networks gain nothing, and nothing is reported.
- Scientific code, eigenvalue solvers and some GAN and reinforcement-learning losses need fp32.
- TF32 keeps 10 bits of mantissa: relative errors are about a hundred times those of fp32.

## Evidence
- PyTorch CUDA semantics note, TF32: a 10240 x 10240 GEMM on an A100 takes 0.11 s in fp32 and
  0.016 s in TF32.
- PyTorch Performance Tuning Guide: mixed precision is up to 3 times as fast on Volta and newer.
- NVIDIA, GTC 2019 S9998: ResNet-50 on one V100, 355 images/s in fp32, 710 with AMP.
)md";

constexpr double kMinShare = threshold::kWorthADay;  // of the time, in math-bound fp32 products
constexpr double kMinGain = threshold::kBeyondModelError;  // of the total time
constexpr int kAmpere = 80;

bool is_fp32(const Op& op) { return is_matrix_op(op) && op.dtypes.input == Dtype::fp32; }

// A product in fewer bits shows that somebody has chosen precisions already.
bool uses_other_precision(const Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const Op& op) {
    return is_matrix_op(op) && op.dtypes.input != Dtype::fp32 && op.dtypes.input != Dtype::fp64;
  });
}

Op with_dtype(const Op& op, Dtype dtype) {
  Op changed = op;
  changed.dtypes = Dtypes(dtype);
  return changed;
}

Range<Seconds> total_saving(const RuleInput& input, const std::vector<LayerGroup>& groups,
                            Dtype dtype) {
  Range<Seconds> total{};
  for (const LayerGroup& group : groups) {
    const auto saving =
        saving_if_all(input, group, [&](const Op& op) { return with_dtype(op, dtype); });
    total += saving.value_or(Range<Seconds>{});
  }
  return total;
}

// Inference that waits for its weights: casting them in each pass would save nothing.
Fix propose_storing(Dtype half) {
  return {fmt::format("Store the weights in {}: model.to(torch.{})", to_string(half),
                      half == Dtype::bf16 ? "bfloat16" : "float16"),
          Exactness::changes_numerics};
}

Fix propose(const RuleInput& input, Dtype half, const Range<Seconds>& tf32) {
  const bool training = input.workload.mode == Mode::training;
  std::string text =
      fmt::format("If it runs in fp32 as given, use {}{}", to_string(half),
                  half == Dtype::fp16 && training ? " autocast with a GradScaler" : " autocast");
  if (tf32.expected >= kMinGain * input.analysis.total.expected) {
    text += fmt::format("; TF32 alone (set_float32_matmul_precision(\"high\")) saves {}",
                        change_text(tf32.expected / input.analysis.total.expected).substr(1));
  }
  return {text, Exactness::changes_numerics};
}

struct Shares {
  double math_bound = 0, reading = 0;  // of the time, in math- and in memory-bound GEMMs
};

Shares shares_of(const RuleInput& input, const std::vector<LayerGroup>& groups) {
  Shares shares;
  for (const LayerGroup& group : groups) {
    const std::size_t first = group.ops.front();
    if (is_math_bound(input, group)) {
      shares.math_bound += group.time_share;
    } else if (limit_of(input.workload.ops[first], input.analysis.ops[first], input.device()) ==
               Bound::memory) {
      shares.reading += group.time_share;
    }
  }
  return shares;
}

// Which of the matrix operations run in TF32 as they are: PyTorch lets cuDNN use it, not cuBLAS.
struct InTf32 {
  bool all = true, any = false;
  bool pays = false;  // for the others
};

InTf32 runs_in_tf32(const RuleInput& input, const std::vector<LayerGroup>& groups) {
  InTf32 in_tf32;
  for (const LayerGroup& group : groups) {
    const Op& op = input.workload.ops[group.ops.front()];
    const bool now = math_unit(input.device(), op).dtype == Dtype::tf32;
    in_tf32.all = in_tf32.all && now;
    in_tf32.any = in_tf32.any || now;
  }
  return in_tf32;
}

std::string state_text(const InTf32& now) {
  if (now.all) return "all weights are fp32 and run in TF32, PyTorch's default for cuDNN";
  return now.any ? "all weights are fp32; convolutions and recurrent layers run in TF32, PyTorch's "
                   "default for cuDNN, other GEMMs in fp32"
                 : "all GEMMs are fp32";
}

std::string message_for(const Shares& shares, Dtype half, const InTf32& now) {
  if (shares.math_bound < kMinShare) {
    return fmt::format("{}, and {} of the time goes into reading for them; {} has half the bytes",
                       state_text(now), share_text(shares.reading), to_string(half));
  }
  return fmt::format(
      "{}; those that fewer bits would speed up take {} of the time; this GPU's Tensor Cores "
      "support {}{}",
      state_text(now), share_text(shares.math_bound), to_string(half), now.pays ? " and tf32" : "");
}

std::vector<Evidence> evidence_for(const Device& device, Dtype half, const InTf32& now) {
  const Evidence amp =
      Evidence::published("mixed precision up to 3x of fp32", "PyTorch Performance Tuning Guide");
  if (!device.has_tensor_cores(Dtype::tf32)) {
    return {Evidence::published("ResNet-50 on a V100, 355 images/s in fp32, 710 with AMP",
                                "NVIDIA, GTC 2019 S9998"),
            amp};
  }
  std::vector<Evidence> evidence;
  const auto fast = device.peak(half), slow = device.peak(Dtype::tf32);
  if (now.any && fast && slow) {
    evidence.push_back(
        Evidence::published(fmt::format("Tensor Cores of this GPU: {} in {}, {} in tf32 (data "
                                        "sheet); allow_tf32 is true for cuDNN and false for GEMMs",
                                        rate_text(*fast), to_string(half), rate_text(*slow)),
                            "PyTorch CUDA semantics, TF32"));
  }
  if (now.pays) {
    evidence.push_back(
        Evidence::published("GEMMs: fp32 0.11 s, TF32 0.016 s for 10240 x 10240 on an A100",
                            "PyTorch CUDA semantics, TF32"));
  }
  if (now.pays || !now.any) evidence.push_back(amp);
  return evidence;
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows which kernels ran: precision/amp-off judges them.
  if (!input.workload.traces.empty()) return {};
  const Device& device = input.device();
  const Dtype half = device.compute_capability >= kAmpere ? Dtype::bf16 : Dtype::fp16;
  if (!device.has_tensor_cores(half) || uses_other_precision(input.workload)) return {};
  const std::vector<LayerGroup> groups =
      group_equal_layers(input.workload, input.analysis, is_fp32);
  const Shares shares = shares_of(input, groups);
  const bool only_reads = shares.math_bound < kMinShare;
  const bool may_gain = input.workload.mode != Mode::training && shares.reading >= kMinShare;
  if (only_reads && !may_gain) return {};
  const Range<Seconds> saving = total_saving(input, groups, half);
  if (saving.expected < kMinGain * input.analysis.total.expected) return {};
  const Range<Seconds> tf32 = device.has_tensor_cores(Dtype::tf32)
                                  ? total_saving(input, groups, Dtype::tf32)
                                  : Range<Seconds>{};
  InTf32 now = runs_in_tf32(input, groups);
  now.pays = tf32.expected >= kMinGain * input.analysis.total.expected;
  Finding finding =
      finding_at_groups(input, groups, message_for(shares, half, now),
                        only_reads ? propose_storing(half) : propose(input, half, tf32), saving);
  finding.evidence = evidence_for(device, half, now);
  for (const LayerGroup& group : groups) {
    note_changes(
        input, group, [&](const Op& op) { return with_dtype(op, half); }, finding);
  }
  return {finding};
}

}  // namespace precision_fp32_on_tensor_core_gpu_rule

extern const Rule precision_fp32_on_tensor_core_gpu{
    .id = "precision/fp32-on-tensor-core-gpu",
    .level = Level::advice,
    .cause = Cause::precision,
    .summary = "All GEMMs are fp32 on a GPU with Tensor Cores",
    .doc = precision_fp32_on_tensor_core_gpu_rule::kDoc,
    .in_ops = precision_fp32_on_tensor_core_gpu_rule::check};

}  // namespace rooftile
