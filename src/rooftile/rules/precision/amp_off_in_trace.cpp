#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_amp_off_in_trace {

constexpr double kMinShare = threshold::kWorthADay;  // of the window, in fp32 products
constexpr double kOtherPrecision = 0.05;  // of the matrix time, that shows a choice was made
// Saved where no shape is known: no more, and no less where the units are no faster (GeForce's
// TF32), because products on CUDA cores come less close to their peak.
constexpr double kMostUnshaped = 0.75, kLeastUnshaped = 0.25;
// A product that takes this long on CUDA cores is large: its bytes cost little, and on Tensor Cores
// it comes about as close to their peak as the large ones of docs/accuracy.md.
constexpr Seconds kLarge{0.5e-3};
constexpr double kTensorCoresReach = 0.6, kTensorCoresReachAtMost = 0.8;
constexpr int kAmpere = 80;
constexpr double kPaceOfGpu =
    0.5;  // of kernel time saved: where less shortens the step, others come first

bool is_fp32(const OpUse* use, const KernelUse& kernel) {
  const std::optional<Dtype> dtype = operand_dtype(use, kernel);
  return is_matrix_kernel(kernel) && (dtype == Dtype::fp32 || dtype == Dtype::tf32);
}

bool is_other(const OpUse* use, const KernelUse& kernel) {
  const std::optional<Dtype> dtype = operand_dtype(use, kernel);
  return is_matrix_kernel(kernel) && dtype && *dtype != Dtype::fp32 && *dtype != Dtype::tf32 &&
         *dtype != Dtype::fp64;
}

bool runs_on_cuda_cores(const KernelUse& kernel) {
  return !kernel.facts.tensor_core.value_or(kernel.facts.dtype == Dtype::tf32);
}

Seconds mean_time(const KernelUse& kernel) {
  return kernel.count > 0 ? kernel.time / static_cast<double>(kernel.count) : Seconds();
}

// By the peaks, where no shape is known.
Range<Seconds> unshaped_saving(const Device& device, const UseGroup& group, Dtype dtype) {
  const bool is_slow = runs_on_cuda_cores(*group.kernel);
  const auto now = device.cuda_core_peak.find(Dtype::fp32);
  const auto tf32 = device.peak(Dtype::tf32);
  const auto later = device.peak(dtype);
  const bool is_known = is_slow && later && now != device.cuda_core_peak.end();
  constexpr double kLikely = 0.75;  // of the most
  if (is_known && mean_time(*group.kernel) >= kLarge) {
    const double gap = now->second / *later;
    const double most = std::max(kLeastUnshaped, 1 - gap / kTensorCoresReachAtMost);
    const double likely = std::max(kLikely * kLeastUnshaped, 1 - gap / kTensorCoresReach);
    return {Seconds(0), likely * group.time, most * group.time};
  }
  double faster = kMostUnshaped;
  if (is_known) faster = 1 - now->second / *later;
  if (later && !is_slow && tf32) faster = 1 - *tf32 / *later;
  const double most = std::clamp(faster, kLeastUnshaped, kMostUnshaped);
  return {Seconds(0), kLikely * most * group.time, most * group.time};
}

// Of all groups when products multiply in `dtype`.
Range<Seconds> saving_in(const RuleInput& input, const std::vector<UseGroup>& groups, Dtype dtype) {
  const auto change = [&](const Op& op) {
    Op changed = op;
    changed.dtypes = Dtypes(dtype);
    return changed;
  };
  Range<Seconds> total{};
  for (const UseGroup& group : groups) {
    const auto saving = saving_if(input.model, group, change);
    total += saving ? *saving : unshaped_saving(input.device(), group, dtype);
  }
  return total;
}

bool is_convolution(const UseGroup& group) {
  return group.kernel->facts.kernel_class == KernelClass::convolution ||
         contains(group.name, "conv");
}

// Of the time of the groups.
double share_of_convolutions(const std::vector<UseGroup>& groups) {
  Seconds all, convolutions;
  for (const UseGroup& group : groups) {
    all += group.time;
    if (is_convolution(group)) convolutions += group.time;
  }
  return all > Seconds() ? convolutions / all : 0;
}

bool mostly_convolutions(const std::vector<UseGroup>& groups) {
  return share_of_convolutions(groups) > threshold::kMost;
}

Seconds time_of(const std::vector<UseGroup>& groups) {
  Seconds time;
  for (const UseGroup& group : groups) time += group.time;
  return time;
}

std::string_view products_text(const std::vector<UseGroup>& groups) {
  constexpr double kFew = 0.1;
  const double share = share_of_convolutions(groups);
  if (share < kFew) return "GEMMs";
  return share > 1 - kFew ? "convolutions" : "convolutions and GEMMs";
}

// What autocast hands on in 16 bits, and so in half the bytes: batch norm, activations, sums,
// pooling and changes of layout between the products. Only where operators say what the kernels
// are.
bool is_halved(const OpUse* use, const KernelUse& kernel) {
  if (use == nullptr || use->phase == Phase::optimizer) return false;
  switch (kernel.facts.kernel_class) {
    case KernelClass::normalization:
      return contains(use->name, "batch_norm") || contains(use->name, "BatchNorm");
    case KernelClass::elementwise:
    case KernelClass::pooling:
    case KernelClass::layout_conversion:
      return !contains(use->name, "_foreach_");
    default:
      return false;
  }
}

// At most half of their time; of networks of convolutions likely most of that, as nothing else is
// between their products. Transformers keep norms and the residual sum in fp32.
Range<Seconds> saving_in_between(const TraceSummary& trace, const std::vector<UseGroup>& groups) {
  const Seconds time = time_of_kernels(trace, is_halved);
  const double likely = mostly_convolutions(groups) ? 0.3 : 0.1;
  return {Seconds(0), likely * time, 0.5 * time};
}

Fix propose(const RuleInput& input, const TraceSummary& trace, Dtype half,
            const std::vector<UseGroup>& groups) {
  // The switch for TF32 in GEMMs does not govern cuDNN.
  constexpr double kFewSlow = 0.1;  // of the fp32 products
  std::vector<UseGroup> slow;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(slow), [](const UseGroup& group) {
    return runs_on_cuda_cores(*group.kernel) && !is_convolution(group);
  });
  if (time_of(slow) < kFewSlow * time_of(groups)) slow.clear();
  std::string text = fmt::format(
      "torch.autocast(\"cuda\", dtype={}){}",
      half == Dtype::bf16 ? "torch.bfloat16" : "torch.float16",
      half == Dtype::fp16 && input.workload.mode == Mode::training ? " with a GradScaler" : "");
  if (mostly_convolutions(groups)) {
    text += ", and model.to(memory_format=torch.channels_last) for the convolutions";
  }
  if (!slow.empty() && input.device().has_tensor_cores(Dtype::tf32)) {
    const Range<Seconds> tf32 = gain_of_kernel_time(trace, saving_in(input, slow, Dtype::tf32));
    text += "; TF32 alone (set_float32_matmul_precision(\"high\"))";
    text += tf32.expected < threshold::kReported * steady_span(trace)
                ? " is the smaller change"
                : fmt::format(" likely saves {}", cost_text(trace, tf32.expected));
  }
  return {text, Exactness::changes_numerics};
}

std::string describe_products(const std::vector<UseGroup>& groups, const std::string& cost,
                              double slow, Dtype half) {
  if (slow < 1 - threshold::kMost) {
    const std::string rest = slow > 0 ? fmt::format(" ({} on CUDA cores)", share_text(slow)) : "";
    return fmt::format(
        "all {} of fp32 data run in TF32{} and take {}; {} runs up to twice as fast and halves the "
        "memory traffic",
        products_text(groups), rest, cost, to_string(half));
  }
  return fmt::format(
      "all {} are fp32 and take {}, {} of it on CUDA cores; this GPU's Tensor Cores support {}",
      products_text(groups), cost, share_text(slow), to_string(half));
}

std::vector<Evidence> evidence_of(const TraceSummary& trace, const std::vector<UseGroup>& groups) {
  constexpr std::size_t kMostTold = 3;
  std::vector<Evidence> lines;
  for (const UseGroup& group : groups) {
    if (lines.size() == kMostTold || !is_visible(trace, group.time)) break;
    const std::string kernels = group.uses.empty() ? "" : " in " + kernels_text(group);
    lines.push_back(Evidence::measured(
        fmt::format("{} takes {}{}", group_text(group), cost_text(trace, group.time), kernels)));
  }
  lines.push_back(
      Evidence::published("mixed precision up to 3x", "PyTorch Performance Tuning Guide"));
  return lines;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  const Device& device = input.device();
  const Dtype half = device.compute_capability >= kAmpere ? Dtype::bf16 : Dtype::fp16;
  if (trace.is_foreign || !device.has_tensor_cores(half) || !is_recorded_on(trace, device)) {
    return {};
  }
  const std::vector<UseGroup> groups = group_by_shape(trace, is_fp32);
  const Seconds time = time_of(groups);
  const Seconds slow = time_of_kernels(trace, [](const OpUse* use, const KernelUse& kernel) {
    return is_fp32(use, kernel) && runs_on_cuda_cores(kernel);
  });
  const Seconds steady = steady_span(trace);
  if (time < kMinShare * steady) return {};
  if (time_of_kernels(trace, is_other) > kOtherPrecision * time) return {};
  const Range<Seconds> saved = saving_in(input, groups, half) + saving_in_between(trace, groups);
  if (saved.expected < threshold::kReported * steady) return {};
  const Range<Seconds> gain = gain_of_kernel_time(trace, saved);
  Finding finding =
      about_trace(trace, describe_products(groups, cost_text(trace, time), slow / time, half),
                  propose(input, trace, half, groups), gain);
  finding.evidence = evidence_of(trace, groups);
  // Where the host sets the pace, it counts once the launches are mended.
  const bool is_for_later =
      gain.expected < kMinShare * steady && trace.kernel_time_share.value_or(1) < kPaceOfGpu;
  if (gain.expected < threshold::kReported * steady || is_for_later) {
    finding.own_level = Level::info;
  }
  if (steady < trace.time.span) {
    finding.message += fmt::format("; the saving's share is of the {} without first calls",
                                   time_text(per_step(trace, steady)));
    finding.pass = per_step(trace, steady);
  }
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace precision_amp_off_in_trace

}  // namespace rooftile
