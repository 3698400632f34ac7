#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/analysis/layer_groups.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/tuner/width_search.h"

namespace rooftile {
namespace gemm_unaligned_row_stride_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A GEMM on Tensor Cores whose rows do not start at 16-byte addresses: a width that is not a
multiple of 8 elements in fp16 and bf16, 4 in tf32, 16 in int8. Which widths count depends on the
layout. For a Linear layer they are `in_features` and `out_features`, in the forward pass and in
both gradients; the number of tokens never counts. One finding covers all layers that share the
width.

## Why it costs time
The fast kernels load 16 bytes per thread and need every row to start at a 16-byte boundary. For
other rows the library falls back to kernels that load 8, 4 or 2 bytes at a time.

## How to fix
Round the width up: zero rows in the weight and bias (`out_features`, then slice the output), zero
columns in the weight and zeros in the input (`in_features`). For a model not trained yet, choose an
aligned width.

## How the saving is estimated
The time model predicts the layer with both widths, forward and gradients. The proposed width is the
fastest of the next multiples; a multiple of 64 is preferred where it costs at most 1 % more width.

## When not to
- The number of tokens (m, the batch) need not be a multiple of 8: in row-major layouts it is no row
  length, neither forward nor in the gradients, so it is not reported. Guides that ask for it are
  about cuBLAS before 11.0 and cuDNN before 7.6.3, which used Tensor Cores only where all sizes were
  such multiples; newer ones always do, and are slower where rows are not aligned.
- Up to 8 tokens, and where the time model expects less than a tenth: such GEMMs wait for memory
  whatever their widths are, and are not reported.
- Under `torch.compile` Inductor pads large GEMMs by itself; padding the weight once still saves
  it the copies.
- Slice or mask padded outputs before a softmax, a norm or a mean runs over them.
- Calling `.contiguous()` on the sliced output brings the odd row stride back.

## Evidence
- cuBLAS documentation, "Tensor Core Usage": row lengths, leading dimensions and pointers are to be
  multiples of 16 bytes.
- NVIDIA Matrix Multiplication Background User's Guide, "Tensor Core Requirements": what cuBLAS 11.0
  and cuDNN 7.6.3 changed.
- ML Engineering book (S. Bekman), "SwiGLU-based MLP": width 10922 runs at 273 TFLOPS on an H100,
  10944 at 398 TFLOPS.
- m87-labs/kestrel pull request 143: 588 inputs take 130.6 µs, 592 take 37.0 µs (bf16, Hopper).
)md";

// A group of equal layers and those of its row dimensions that are misaligned.
struct Fault {
  LayerGroup group;
  std::vector<GemmDim> dims;
};

const Gemm& gemm_of(const RuleInput& input, const LayerGroup& group) {
  return std::get<Gemm>(input.workload.ops[group.ops.front()].body);
}

bool runs_on_tensor_cores(const RuleInput& input, const Op& op) {
  // Row alignment of fp8 is a requirement, not a matter of speed: it has a rule of its own.
  return op.dtypes.input != Dtype::fp8 && op.dtypes.input != Dtype::fp4 &&
         input.device().has_tensor_cores(op.dtypes.input);
}

// Up to here a product reads its weight for next to no work: gemm/single-row.
constexpr std::int64_t kFewRows = 8;

// Elements that any of the operation's tensors needs for 16 bytes.
std::int64_t step_of(const Dtypes& dtypes) {
  return std::max({alignment_elements(dtypes.input), alignment_elements(dtypes.weight),
                   alignment_elements(dtypes.output)});
}

Op aligned(const Op& op, const std::vector<GemmDim>& dims) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  for (const GemmDim dim : dims) {
    gemm = with_size(gemm, dim, round_up(size_of(gemm, dim), step_of(op.dtypes)));
  }
  return changed;
}

std::vector<Fault> find_faults(const RuleInput& input) {
  const auto wanted = [&](const Op& op) {
    const auto* gemm = std::get_if<Gemm>(&op.body);
    return gemm != nullptr && gemm->m > kFewRows && gemm->n > 1 &&
           runs_on_tensor_cores(input, op) && !misaligned_row_dims(*gemm, op.dtypes).empty() &&
           !uses_vocabulary(input.workload, *gemm);
  };
  std::vector<Fault> faults;
  for (LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    const Op& op = input.workload.ops[group.ops.front()];
    std::vector<GemmDim> dims = misaligned_row_dims(std::get<Gemm>(op.body), op.dtypes);
    const auto align = [&](const Op& one) { return aligned(one, dims); };
    if (!pays_to_align(input, group, align)) continue;
    faults.push_back({std::move(group), std::move(dims)});
  }
  return faults;
}

// Joins faults that share a width: one odd width of a model is one cause, wherever it appears.
std::vector<std::vector<Fault>> join_by_width(const RuleInput& input, std::vector<Fault> faults) {
  std::vector<std::size_t> set_of(faults.size());
  std::iota(set_of.begin(), set_of.end(), 0);
  std::map<std::int64_t, std::size_t> owner;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    for (const GemmDim dim : faults[i].dims) {
      const auto [found, is_new] =
          owner.try_emplace(size_of(gemm_of(input, faults[i].group), dim), i);
      const std::size_t joined = set_of[found->second];
      if (!is_new) std::replace(set_of.begin(), set_of.end(), set_of[i], joined);
    }
  }
  std::map<std::size_t, std::vector<Fault>> sets;
  for (std::size_t i = 0; i < faults.size(); ++i) sets[set_of[i]].push_back(std::move(faults[i]));
  std::vector<std::vector<Fault>> result;
  result.reserve(sets.size());
  for (auto& [first, set] : sets) result.push_back(std::move(set));
  return result;
}

constexpr std::size_t kMostTold = 4;  // widths named in one message

using Widths = std::map<std::int64_t, std::int64_t>;  // misaligned -> padded

Op padded(const Op& op, const std::vector<GemmDim>& dims, const Widths& widths) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  for (const GemmDim dim : dims) {
    const auto found = widths.find(size_of(gemm, dim));
    if (found != widths.end()) gemm = with_size(gemm, dim, found->second);
  }
  return changed;
}

std::optional<Range<Seconds>> saving_with(const RuleInput& input,
                                          const std::vector<const Fault*>& faults,
                                          const Widths& widths) {
  Range<Seconds> total{};
  for (const Fault* fault : faults) {
    const auto saving = saving_if_all(
        input, fault->group, [&](const Op& op) { return padded(op, fault->dims, widths); });
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

std::vector<const Fault*> pointers_to(const std::vector<Fault>& faults) {
  std::vector<const Fault*> pointers;
  pointers.reserve(faults.size());
  for (const Fault& fault : faults) pointers.push_back(&fault);
  return pointers;
}

// Of all operations with this fault.
std::int64_t step_of(const RuleInput& input, const std::vector<Fault>& faults) {
  std::int64_t step = 1;
  for (const Fault& fault : faults) {
    step = std::max(step, step_of(input.workload.ops[fault.group.ops.front()].dtypes));
  }
  return step;
}

Widths choose_widths(const RuleInput& input, const std::vector<Fault>& faults) {
  const std::int64_t step = step_of(input, faults);
  Widths widths;
  std::map<std::int64_t, std::vector<const Fault*>> users;  // of each width
  for (const Fault& fault : faults) {
    for (const GemmDim dim : fault.dims) {
      const std::int64_t width = size_of(gemm_of(input, fault.group), dim);
      widths[width] = round_up(width, step);
      std::vector<const Fault*>& known = users[width];
      if (known.empty() || known.back() != &fault) known.push_back(&fault);
    }
  }
  for (auto& [width, chosen] : widths) {
    const std::int64_t best = choose_padded_width(width, step, [&, from = width](std::int64_t to) {
      widths[from] = to;
      return saving_with(input, users[from], widths);
    });
    chosen = best;
  }
  return widths;
}

std::string names_of(const RuleInput& input, const std::vector<Fault>& faults, std::int64_t width) {
  std::set<std::string> names;
  for (const Fault& fault : faults) {
    const Gemm& gemm = gemm_of(input, fault.group);
    for (const GemmDim dim : fault.dims) {
      if (size_of(gemm, dim) == width) names.emplace(dim_name(gemm, dim));
    }
  }
  return join({names.begin(), names.end()}, " and ");
}

std::string describe(const RuleInput& input, const std::vector<Fault>& faults,
                     const Widths& widths) {
  const Op& op = input.workload.ops[faults.front().group.ops.front()];
  const std::int64_t step = step_of(input, faults);
  std::vector<std::string> causes;
  for (const auto& [width, to] : widths) {
    if (causes.size() == kMostTold) {
      causes.push_back(fmt::format("and {} more widths", widths.size() - kMostTold));
      break;
    }
    causes.push_back(fmt::format(
        "{} {} is {}", names_of(input, faults, width), width,
        width % 2 != 0 ? std::string("odd") : fmt::format("not a multiple of {}", step)));
  }
  return fmt::format("{}: rows are {:g}-byte aligned, the fast {} kernels need 16 ({})",
                     join(causes, ", "), worst_alignment(input, faults.front().group),
                     to_string(op.dtypes.input),
                     misaligned_operands_text(input, faults.front().group));
}

struct Growth {
  double before = 0, after = 0;  // weight elements
};

Growth weight_growth(const RuleInput& input, const std::vector<Fault>& faults,
                     const Widths& widths) {
  Growth growth;
  for (const Fault& fault : faults) {
    const Op& op = input.workload.ops[fault.group.ops.front()];
    const double runs = count_runs(input.workload, fault.group, Phase::forward);
    growth.before += runs * count_parameters(op);
    growth.after += runs * count_parameters(padded(op, fault.dims, widths));
  }
  return growth;
}

std::string growth_text(const Growth& growth) {
  if (growth.before <= 0) return "";
  return fmt::format(", {} parameters", change_text(growth.after / growth.before - 1));
}

// Names the sides of the weight that grow.
std::string padding_text(const RuleInput& input, const std::vector<Fault>& faults) {
  bool out = false, in = false;
  for (const Fault& fault : faults) {
    if (!gemm_of(input, fault.group).weight_is_parameter) {
      return "pad both operands with zeros and slice or mask the result";
    }
    for (const GemmDim dim : fault.dims) (dim == GemmDim::n ? out : in) = true;
  }
  if (out && in) return "pad the weights with zero rows and columns and slice the outputs";
  return out ? "pad the weight with zero rows and slice the output"
             : "pad the weight with zero columns and the input with zeros";
}

std::string plural(std::string_view noun, std::int64_t count) {
  return fmt::format("{}{}", noun, count == 1 ? "" : "s");
}

Fix propose(const RuleInput& input, const std::vector<Fault>& faults, const Widths& widths) {
  std::vector<std::string> steps;
  for (const auto& [width, to] : widths) {
    if (steps.size() == kMostTold) break;
    const std::string names = names_of(input, faults, width);
    steps.push_back(fmt::format("{} → {}: +{}{}", width, to, to - width,
                                names == "out_features"  ? plural(" row", to - width)
                                : names == "in_features" ? plural(" column", to - width)
                                                         : std::string()));
  }
  return {
      fmt::format("{}{}; {}", join(steps, ", "), growth_text(weight_growth(input, faults, widths)),
                  padding_text(input, faults)),
      Exactness::exact_arithmetic};
}

std::optional<Finding> judge(const RuleInput& input, const std::vector<Fault>& faults) {
  std::vector<LayerGroup> groups;
  double share = 0;
  for (const Fault& fault : faults) {
    groups.push_back(fault.group);
    share += fault.group.time_share;
  }
  if (share < threshold::kReported) return std::nullopt;
  const Widths widths = choose_widths(input, faults);
  const std::optional<Range<Seconds>> saving = saving_with(input, pointers_to(faults), widths);
  if (is_pointless(saving)) return std::nullopt;
  Finding finding = finding_at_groups(input, groups, describe(input, faults, widths),
                                      propose(input, faults, widths), saving);
  soften_unless_clear(input, finding);
  for (const Fault& fault : faults) {
    const auto change = [&](const Op& op) { return padded(op, fault.dims, widths); };
    note_changes(input, fault.group, change, finding);
  }
  finding.evidence = {
      Evidence::published("16-byte rows, leading dimensions and pointers",
                          "cuBLAS documentation, Tensor Core Usage"),
      Evidence::published(
          "cuBLAS before 11.0 leaves the Tensor Cores out here, newer versions are only slower",
          "NVIDIA Matrix Multiplication Background User's Guide, Tensor Core Requirements"),
      Evidence::published("H100, width 10922 -> 10944: 273 -> 398 TFLOPS",
                          "ML Engineering, SwiGLU-based MLP")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const std::vector<Fault>& faults : join_by_width(input, find_faults(input))) {
    if (std::optional<Finding> finding = judge(input, faults)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_unaligned_row_stride_rule

extern const Rule gemm_unaligned_row_stride{.id = "gemm/unaligned-row-stride",
                                            .level = Level::warning,
                                            .cause = Cause::alignment,
                                            .summary = "Matrix rows are not 16-byte aligned",
                                            .doc = gemm_unaligned_row_stride_rule::kDoc,
                                            .in_ops = gemm_unaligned_row_stride_rule::check};

}  // namespace rooftile
