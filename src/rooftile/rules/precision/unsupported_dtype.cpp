#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rooftile/analysis/time/math_unit.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {

// unsupported_dtype_in_source.cpp
std::vector<Finding> unsupported_bf16_in_source(const source::SourceFacts& facts,
                                                const Device* gpu);

namespace precision_unsupported_dtype_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a model or trace: matrix operations in a precision that this GPU's Tensor Cores do not multiply,
  where they multiply another of as many bits or more: bf16 or tf32 on Volta and Turing, fp8 before
  Ada and Hopper, fp4 before Blackwell, int8 on Volta, int4 before Turing and from Hopper on. One finding stands for the whole network.
- In a training script, where the GPU is known (`--gpu`, or a trace beside it): autocast in bf16,
  a model in bf16 and the bf16 options of Transformers, Lightning and Accelerate on a GPU without
  bf16; and `torch.cuda.is_bf16_supported()`, which counts emulation.

Advice on sizes of the same layers is left out: it would be for the wrong precision.

## Why it costs time
A GPU without bf16 multiplies it in fp32 on CUDA cores, without an error: 8.1 in place of 65 TFLOPS
on a T4, 15.7 in place of 125 on a V100. fp8 and fp4 do not run at all: `torch._scaled_mm` raises an
error before compute capability 8.9 and 10.0, and kernels for checkpoints in 8 or 4 bits unpack the
weights and multiply in 16. Products of int4 with int4 have Tensor Cores on Turing, Ampere and Ada only.

## How to fix
Use the precision that the finding names. On Volta and Turing that is fp16: `torch_dtype=torch.float16`
for inference; for training `torch.autocast("cuda", dtype=torch.float16)` with
`torch.amp.GradScaler("cuda")`, weights in fp32. For a choice at run time ask
`torch.cuda.is_bf16_supported(including_emulation=False)`.

## How the saving is estimated
The time model predicts each of these operations in both precisions. For fp8, fp4 and int4, which do
not run, no saving is given, only the time in the precision that does.

## When not to
- Networks that overflow fp16 (beyond 65504), as some trained in bf16 do: T5, Gemma. Then fp32 keeps
  the range, or a newer GPU.
- Only the storage is in few bits: weight-only kernels multiply in 16 bits, and nothing is reported.
- A decode step or a small batch waits for the weights: fp8 weights on an A100 then take half the time
  of 16-bit ones with kernels that unpack them. The finding is information and says so.
- Where no other precision is faster, as on a P4, nothing is reported.
- A program that looks at the compute capability itself.

## Evidence
- CUDA C++ Programming Guide, "Compute Capabilities": bf16 and TF32 Tensor Cores from 8.0 on, fp8
  from 8.9, fp4 from 10.0; 7.0 has fp16 only, 7.5 also int8 and int4; 9.0 and later have no int4.
- vLLM refuses it: "Bfloat16 is only supported on GPUs with compute capability of at least 8.0 … You
  can use float16 instead" (vllm-project/vllm issue 1157).
- PyTorch pull request 148322: on older GPUs bf16 is emulated in fp32, slowly, and
  `is_bf16_supported()` returns True. Issue 118703: `torch._scaled_mm` and compute capability.
)md";

// The precision in which this GPU runs the operation faster, where it lacks the given one. fp32 and
// fp64 have rules of their own.
std::optional<Dtype> better_dtype(const Device& device, const Op& op) {
  const Dtype given = op.dtypes.input;
  if (!is_matrix_op(op) || given == Dtype::fp32 || given == Dtype::fp64) return std::nullopt;
  if (device.has_tensor_cores(given)) return std::nullopt;
  const std::optional<Dtype> best = best_supported(device, given);
  if (best && *best != given) return best;
  // Multiplied as it is, but on CUDA cores: int8 on Volta.
  return device.has_tensor_cores(Dtype::fp16) ? std::optional(Dtype::fp16) : std::nullopt;
}

Op in_better_dtype(const Device& device, const Op& op) {
  const Dtype from = op.dtypes.input;
  const Dtype to = better_dtype(device, op).value_or(from);
  Op changed = op;
  for (Dtype* dtype : {&changed.dtypes.input, &changed.dtypes.weight, &changed.dtypes.output}) {
    if (*dtype == from) *dtype = to;
  }
  return changed;
}

// The wrong precisions of the network, and those in their place.
struct Choice {
  std::vector<LayerGroup> groups;
  std::vector<Dtype> wrong, right;  // of each pair
  Range<Seconds> saving{};
  double share = 0;
  bool is_refused = false;
  // Weights in so few bits, unpacked by the kernel that multiplies, take less time than wider ones.
  bool has_fast_weights = false;
};

Choice choose(const RuleInput& input) {
  const Device& device = input.device();
  Choice choice;
  std::set<std::pair<Dtype, Dtype>> pairs;
  const auto wanted = [&](const Op& op) { return better_dtype(device, op).has_value(); };
  choice.groups = group_equal_layers(input.workload, input.analysis, wanted);
  for (const LayerGroup& group : choice.groups) {
    const Op& op = input.workload.ops[group.ops.front()];
    const Dtype wrong = op.dtypes.input, right = *better_dtype(device, op);
    if (pairs.emplace(wrong, right).second) {
      choice.wrong.push_back(wrong);
      choice.right.push_back(right);
    }
    choice.is_refused |= math_support(device, wrong) == MathSupport::refused;
    choice.share += group.time_share;
    choice.saving += saving_if_all(input, group, [&](const Op& one) {
                       return in_better_dtype(device, one);
                     }).value_or(Range<Seconds>{});
  }
  const Seconds surely = threshold::kBeyondModelError * input.analysis.total.expected;
  choice.has_fast_weights = choice.is_refused && surely < choice.saving.expected * -1.0;
  return choice;
}

std::string names_of(const std::vector<Dtype>& dtypes) {
  std::vector<std::string> names;
  for (const Dtype dtype : dtypes) {
    if (std::ranges::count(names, to_string(dtype)) == 0) names.emplace_back(to_string(dtype));
  }
  return join(names, " and ");
}

std::string describe(const RuleInput& input, const Choice& choice) {
  const Device& device = input.device();
  const std::string wrong = names_of(choice.wrong);
  if (choice.is_refused) {
    return fmt::format(
        "{} GEMMs do not run on this GPU: {}", wrong,
        choice.wrong.front() == Dtype::int4
            ? "it has no int4 Tensor Cores, and kernels for int4 weights multiply in "
              "16 bits"
            : "torch._scaled_mm refuses them, and kernels for weights in so few bits "
              "multiply in 16");
  }
  const MathUnit now = math_unit(device, choice.wrong.front());
  const MathUnit then = math_unit(device, choice.right.front());
  return fmt::format(
      "this GPU has no {} Tensor Cores: {} of the time is in operations that run in {} on "
      "CUDA "
      "cores, with a peak of {} instead of {} in {}",
      wrong, share_text(choice.share), to_string(now.dtype), rate_text(now.peak),
      rate_text(then.peak), to_string(then.dtype));
}

Fix propose(const RuleInput& input, const Choice& choice) {
  const std::string right = names_of(choice.right);
  const Seconds after = input.analysis.total.expected - choice.saving.expected;
  if (choice.has_fast_weights) {
    return {
        fmt::format("Keep the weights in {} and the activations in 16 bits (weight-only kernels "
                    "such as Marlin, which vLLM takes on this GPU): the time is theirs; with "
                    "weights in {} the pass takes {}",
                    names_of(choice.wrong), right, time_text(after)),
        Exactness::changes_numerics};
  }
  if (choice.is_refused) {
    return {fmt::format("Run in {}: likely {} in all; checkpoints in fewer bits stay small "
                        "with weight-only kernels",
                        right, time_text(after)),
            Exactness::changes_numerics};
  }
  const bool scales = choice.right.front() == Dtype::fp16;
  const bool trains = input.workload.mode == Mode::training;
  const std::string how = !scales ? ""
                          : trains
                              ? ": torch.autocast(\"cuda\", dtype=torch.float16) with "
                                "torch.amp.GradScaler(\"cuda\")"
                              : " (torch_dtype=torch.float16), if its activations stay below 65504";
  return {fmt::format("Use {}{}", right, how), Exactness::changes_numerics};
}

std::vector<Finding> check_operations(const RuleInput& input) {
  const Device& device = input.device();
  if (std::ranges::any_of(input.workload.traces, [&](const TraceSummary& trace) {
        return !is_recorded_on(trace, device);
      })) {
    return {};
  }
  const Choice choice = choose(input);
  if (choice.share < threshold::kReported) return {};
  if (!choice.is_refused && !is_gain(input, choice.saving)) return {};
  Finding finding =
      finding_at_groups(input, choice.groups, describe(input, choice), propose(input, choice),
                        choice.is_refused ? std::nullopt : std::optional(choice.saving));
  finding.evidence = {
      Evidence::published(
          fmt::format("Tensor Core precisions of compute capability {}.{}",
                      device.compute_capability / 10, device.compute_capability % 10),
          "CUDA C++ Programming Guide"),
      choice.wrong.front() == Dtype::int4
          ? Evidence::published("sub-byte integers in mma",
                                "PTX ISA, Warp Level Matrix Instructions")
      : choice.is_refused
          ? Evidence::published("torch._scaled_mm and compute capability", "PyTorch issue 118703")
          : Evidence::published("bf16 emulated in fp32 on older GPUs",
                                "PyTorch pull request 148322")};
  // A checkpoint that its engine reads as it should needs no change.
  if (choice.has_fast_weights) {
    finding.own_level = Level::info;
    return {finding};
  }
  for (const LayerGroup& group : choice.groups) {
    note_changes(
        input, group, [&](const Op& op) { return in_better_dtype(device, op); }, finding);
  }
  return {finding};
}

}  // namespace precision_unsupported_dtype_rule

extern const Rule precision_unsupported_dtype{
    .id = "precision/unsupported-dtype",
    .level = Level::warning,
    .cause = Cause::precision,
    .typical = Typical::half,
    .summary = "Tensor Cores of the GPU do not support the precision",
    .doc = precision_unsupported_dtype_rule::kDoc,
    .in_ops = precision_unsupported_dtype_rule::check_operations,
    .in_scripts = unsupported_bf16_in_source,
    .outranks_sizes = true};

}  // namespace rooftile
