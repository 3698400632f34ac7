#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_half_off_tensor_cores_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
GEMMs and convolutions on 16-bit operands whose kernels, by their names in the trace, run
on CUDA cores although the GPU's Tensor Cores take the precision.

## Why it costs time
Tensor Cores multiply 16-bit operands four to sixteen times as fast as CUDA cores.

## How to fix
Mostly a shape or layout keeps the library from the Tensor Core kernels: pad row lengths and channels
to multiples of 8, avoid sliced or transposed operands of odd width, use a current cuBLAS and cuDNN. For
batched products with a side shorter than 16 the library has kernels on CUDA cores: pad that side to 8 or
16, or multiply the transposes.

## How the saving is estimated
Where the operator's shape is recorded: the measured time less what the time model predicts on Tensor
Cores. Else from 0 to what the ratio of the two peaks leaves, half of it likely. What other kernels or
the host hide is taken off.

## When not to
- Matrix-vector products and other memory-bound shapes are not reported: they gain nothing, unless
  a batched product with a short side takes three times as long as its operands.
- Depthwise convolutions have no GEMM to speed up.

## Evidence
- cuBLAS documentation, "Tensor Core Usage".
- NVIDIA, Convolutional Layers User's Guide, "Choosing Parameters": channels in multiples of 8.
)md";

bool is_memory_bound(const RuleInput& input, const Op& op) {
  const std::vector<MatrixProduct> products = matrix_products(op);
  return std::none_of(products.begin(), products.end(),
                      [&](const MatrixProduct& product) { return is_math_bound(input, product); });
}

constexpr std::int64_t kShortSide = 16;
constexpr double kFarSlower = 3;  // times what the model expects of aligned products

// The side of a batched product for which the library takes a kernel for thin matrices; 0 = none.
std::int64_t short_side(const OpUse* use) {
  const auto* gemm = use != nullptr && use->op ? std::get_if<Gemm>(&use->op->body) : nullptr;
  if (gemm == nullptr || gemm->batch < 2) return 0;
  const std::int64_t side = std::min(gemm->m, gemm->n);
  return side > 1 && side < kShortSide ? side : 0;
}

// Kernels for thin matrices name the type in which they add up.
std::optional<Dtype> multiplied_dtype(const OpUse* use, const KernelUse& kernel) {
  return short_side(use) > 0 ? use->op->dtypes.input : operand_dtype(use, kernel);
}

// Far slower than its operands come from memory.
bool is_thin_and_slow(const RuleInput& input, const OpUse* use) {
  if (short_side(use) == 0) return false;
  const std::optional<TimeEstimate> estimate = input.model.estimate(*use->op);
  return estimate &&
         use->kernel_time > kFarSlower * static_cast<double>(use->count) * estimate->time.expected;
}

bool is_depthwise(const OpUse* use, const KernelUse& kernel) {
  if (kernel.name.find("depthwise") != std::string::npos) return true;
  const auto* conv = use != nullptr && use->op ? std::get_if<Convolution>(&use->op->body) : nullptr;
  return conv != nullptr && conv->groups > 1;
}

bool is_off(const RuleInput& input, const OpUse* use, const KernelUse& kernel) {
  if (!is_matrix_kernel(kernel) || kernel.facts.tensor_core.value_or(true)) return false;
  if (is_depthwise(use, kernel)) return false;
  const std::optional<Dtype> dtype = multiplied_dtype(use, kernel);
  if (!dtype || !is_16_bit_float(*dtype) || !input.device().has_tensor_cores(*dtype)) return false;
  if (is_thin_and_slow(input, use)) return true;
  if (is_vector_kernel(kernel)) return false;
  return use == nullptr || !use->op || !is_memory_bound(input, *use->op);
}

Fix propose(std::int64_t side) {
  if (side == 0) {
    return {
        "Find what keeps it off: row lengths or channels that are not multiples of 8, sliced "
        "operands, an old library",
        Exactness::exact_arithmetic};
  }
  return {fmt::format("Pad the side of {} to {}, or multiply the transposes: for shorter sides the "
                      "library has kernels on CUDA cores",
                      side, side <= 8 ? 8 : kShortSide),
          Exactness::exact_arithmetic};
}

Range<Seconds> saving_of(const RuleInput& input, const UseGroup& group, Dtype dtype) {
  const auto same = [](const Op& op) { return op; };
  if (const auto saving = saving_if(input.model, group, same)) return *saving;
  const Device& device = input.device();
  const auto slow = device.cuda_core_peak.find(dtype);
  const double left =
      slow == device.cuda_core_peak.end() ? 0.25 : slow->second / device.tensor_core_peak.at(dtype);
  const Seconds most = std::max(0.0, 1 - left) * group.time;
  return {Seconds(0), 0.5 * most, most};
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const UseGroup& group) {
  const OpUse* use = group.uses.empty() ? nullptr : group.uses.front();
  const Dtype dtype = *multiplied_dtype(use, *group.kernel);
  Finding finding = about_group(
      trace, group,
      fmt::format("{}: a {} GEMM on CUDA cores takes {}; the Tensor Cores of this GPU stay idle",
                  group_text(group), to_string(dtype), cost_text(trace, group.time)),
      propose(short_side(use)), gain_of_kernel_time(trace, saving_of(input, group, dtype)));
  finding.count = group.kernels;
  finding.ops = workload_ops_of(input, group);
  finding.evidence = {Evidence::measured(
      fmt::format("{} runs of kernel {}", group.kernels, short_kernel_name(group.kernel->name)))};
  note_pace(trace, finding);
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, [&](const TraceSummary& trace) {
    std::vector<TraceCase> cases;
    if (trace.is_foreign || !is_recorded_on(trace, input.device())) return cases;
    const auto wanted = [&](const OpUse* use, const KernelUse& kernel) {
      return is_off(input, use, kernel);
    };
    for (const UseGroup& group : group_by_shape(trace, wanted)) {
      if (!is_visible(trace, group.time)) break;
      cases.push_back({group.name + group.shape, describe(input, trace, group)});
    }
    return cases;
  });
}

}  // namespace precision_half_off_tensor_cores_rule

extern const Rule precision_half_off_tensor_cores{
    .id = "precision/half-off-tensor-cores",
    .level = Level::warning,
    .cause = Cause::precision,
    .summary = "16-bit GEMMs run on CUDA cores",
    .doc = precision_half_off_tensor_cores_rule::kDoc,
    .in_traces = precision_half_off_tensor_cores_rule::check};

}  // namespace rooftile
