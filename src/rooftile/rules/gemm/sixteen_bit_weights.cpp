#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gemm_sixteen_bit_weights_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Inference through Linear layers with 16-bit weights. Layers that wait for memory, as in decoding and at
small batches, are one finding; layers that wait for the Tensor Cores, as in prefill, are another, as
information where they save less than a fifth of the pass, and where int8 is all that the GPU has. Silent
for training and for models that are quantized already. In recordings without
shapes, and in CUDA graphs, the kernels' names tell: cuBLAS multiplies a single row by kernels named gemv.

## Why it costs time
With few rows the time is the size of the weights divided by the memory bandwidth: half the bits take
half of it. With many rows Tensor Cores multiply 8-bit operands at twice the 16-bit rate.

## How to fix
| GPU | 8 bits | 4 bits |
|---|---|---|
| Ada, Hopper | fp8 weights and activations (vLLM: `--quantization fp8`, torchao, TensorRT-LLM) | int4 weights (AWQ, GPTQ) |
| Blackwell | fp8 | NVFP4 (TensorRT Model Optimizer) |
| Turing, Ampere | int8 weights, unpacked in the kernel (torchao), or int8 throughout (SmoothQuant) | int4 weights (AWQ, GPTQ with Marlin kernels) |
| Volta | int8 weights | int4 weights |

## How the saving is estimated
The time model predicts the layers with 8-bit weights, and with them, where the GPU has fp8 Tensor
Cores, the quantization of the activations. The layer to the vocabulary stays in 16 bits, as tools
leave it. What 4-bit weights take is the same prediction; scales are not counted. Products in int8
throughout are not measured here: they save what SmoothQuant measured, up to half at twice the rate. Where only names tell: a
quarter of the kernels' time at least, a third likely, as in gpt-fast with int8, and 0.7 with 4 bits.

## When not to
- Check the accuracy on your own task; 4-bit weights lose more than 8-bit ones.
- Weights that are unpacked in the kernel lose their gain at large batches; above 32 rows they are not
  proposed.
- State-space models (Mamba) lose accuracy with plain int8 activations; they need a method of their own.
- Kernels of 8 bits want sizes that are multiples of 16; other layers are left out.

## Evidence
- gpt-fast (PyTorch), Llama-2-7B on an A100-80GB at batch 1: 104 tokens/s in bf16, 155 with int8
  weights, 197 with int4 weights.
- Frantar et al., "MARLIN: Mixed-Precision Auto-Regressive Parallel Inference on Large Language
  Models", 2024: near 4 times as fast up to batches of 16 to 32.
- Xiao et al., "SmoothQuant", 2023: int8 weights and activations make models up to 1.56 times as fast.
- vLLM documentation, "FP8 W8A8": half the memory and up to 1.6 times the throughput.
- NVIDIA H100 data sheet: 1979 dense TFLOP/s in fp8, 989 in bf16.
)md";

constexpr double kMinShare = threshold::kWorthADay;
constexpr double kMinGain = threshold::kBeyondModelError;  // of the pass
constexpr double kLargeGain =
    threshold::kWorthTraining;         // of the pass: worth another precision in prefill too
constexpr std::int64_t kAligned = 16;  // elements, of 8-bit kernels

bool is_layer_with_weights(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && op.phase == Phase::forward;
}

bool is_quantized(const Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const Op& op) {
    return is_layer_with_weights(op) && info(op.dtypes.weight).bits <= 8;
  });
}

bool is_convertible(const Workload& workload, const Op& op) {
  if (!is_layer_with_weights(op) || !is_16_bit_float(op.dtypes.weight)) return false;
  const auto& gemm = std::get<Gemm>(op.body);
  return gemm.n % kAligned == 0 && gemm.k % kAligned == 0 && !uses_vocabulary(workload, gemm);
}

Op with_weights(const Op& op, Dtype weight) {
  Op changed = op;
  changed.dtypes.weight = weight;
  return changed;
}

Op with_fp8_weights(const Op& op) { return with_weights(op, Dtype::fp8); }
Op with_int8_weights(const Op& op) { return with_weights(op, Dtype::int8); }
Op with_four_bit_weights(const Op& op) { return with_weights(op, Dtype::int4); }
Op in_int8(const Op& op) {
  Op changed = with_weights(op, Dtype::int8);
  changed.dtypes.input = Dtype::int8;
  return changed;
}

struct Layers {
  std::vector<LayerGroup> groups;
  double time_share = 0;
};

Layers layers_bound_by(const RuleInput& input, Bound bound) {
  Layers layers;
  for (LayerGroup& group : group_equal_layers(input.workload, input.analysis, [&](const Op& op) {
         return is_convertible(input.workload, op);
       })) {
    const auto& time = input.analysis.ops[group.ops.front()].time;
    if (!time || time->bound != bound) continue;
    layers.time_share += group.time_share;
    layers.groups.push_back(std::move(group));
  }
  return layers;
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const Layers& layers,
                                        const Change& change) {
  Range<Seconds> total{};
  for (const LayerGroup& group : layers.groups) {
    const auto saving = saving_if_all(input, group, change);
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

bool is_enough(const RuleInput& input, const std::optional<Range<Seconds>>& saving) {
  return saving && saving->expected >= kMinGain * pass_time(input);
}

Finding finding_of(const RuleInput& input, const Layers& layers, const Change& change,
                   std::string message, std::string fix,
                   const std::optional<Range<Seconds>>& saving) {
  Finding finding = finding_at_groups(input, layers.groups, std::move(message),
                                      {std::move(fix), Exactness::changes_numerics}, saving);
  for (const LayerGroup& group : layers.groups) note_changes(input, group, change, finding);
  return finding;
}

std::string dtype_of(const RuleInput& input, const Layers& layers) {
  const Op& op = input.workload.ops[layers.groups.front().ops.front()];
  return std::string(to_string(op.dtypes.weight));
}

Bytes weights_read(const RuleInput& input, const Layers& layers) {
  Bytes bytes;
  for (const LayerGroup& group : layers.groups) {
    const Op& op = input.workload.ops[group.ops.front()];
    bytes += storage(count_parameters(op), op.dtypes.weight) *
             count_runs(input.workload, group, Phase::forward);
  }
  return bytes;
}

std::int64_t most_rows(const RuleInput& input, const Layers& layers) {
  std::int64_t rows = 0;
  for (const LayerGroup& group : layers.groups) {
    rows = std::max(rows, std::get<Gemm>(input.workload.ops[group.ops.front()].body).m);
  }
  return rows;
}

struct Remedy {
  Change change;
  std::string_view name;
};

// Kernels that unpack weights keep their gain up to 32 rows (MARLIN); beyond them the products have
// to run in 8 bits.
constexpr std::int64_t kMostRowsToUnpack = 32;

std::optional<Remedy> eight_bits(const RuleInput& input, const Layers& layers) {
  if (input.device().has_tensor_cores(Dtype::fp8)) {
    return Remedy{with_fp8_weights, "fp8 (vLLM, TensorRT, torchao)"};
  }
  if (most_rows(input, layers) <= kMostRowsToUnpack) {
    return Remedy{with_int8_weights, "int8, unpacked in the kernel (torchao, TensorRT-LLM)"};
  }
  if (!input.device().has_tensor_cores(Dtype::int8)) return std::nullopt;
  return Remedy{in_int8, "int8, with int8 activations (SmoothQuant, TensorRT)"};
}

// What four bits would save, as a share of the pass.
std::string four_bit_text(const RuleInput& input, const Layers& layers) {
  const bool fp4 = input.device().has_tensor_cores(Dtype::fp4);
  if (!fp4 && most_rows(input, layers) > kMostRowsToUnpack) return "";
  const auto saving = saving_of(input, layers, with_four_bit_weights);
  if (!saving || saving->expected <= Seconds(0)) return "";
  return fmt::format("; {} would save about {} of the pass",
                     fp4 ? "NVFP4" : "int4 weights (AWQ, GPTQ)",
                     share_text(saving->expected / pass_time(input)));
}

std::optional<Finding> judge_memory_bound(const RuleInput& input) {
  const Layers layers = layers_bound_by(input, Bound::memory);
  if (layers.time_share < kMinShare) return std::nullopt;
  const std::optional<Remedy> remedy = eight_bits(input, layers);
  if (!remedy) return std::nullopt;
  const auto saving = saving_of(input, layers, remedy->change);
  if (!is_enough(input, saving)) return std::nullopt;
  const Bytes bytes = weights_read(input, layers);
  Finding finding = finding_of(
      input, layers, remedy->change,
      fmt::format("{} of the time goes into layers that wait for {} of {} weights",
                  share_text(layers.time_share), traffic_text(bytes), dtype_of(input, layers)),
      fmt::format("Store these weights in {}{}", remedy->name, four_bit_text(input, layers)),
      saving);
  finding.evidence = {Evidence::estimated(memory_floor_text(bytes, input.device()))};
  return finding;
}

// In int8, between the shares of the layers' time that SmoothQuant saves, with its quantization of
// the activations, and that twice the rate would.
Range<Seconds> int8_saving(const RuleInput& input, const Layers& layers) {
  constexpr double kPublished = 1.56, kTwice = 2, kLeast = 1.2;  // kLeast is assumed
  const Seconds time = layers.time_share * input.analysis.total.expected;
  return {time * (1 - 1 / kLeast), time * (1 - 1 / kPublished), time * (1 - 1 / kTwice)};
}

std::optional<Finding> judge_math_bound(const RuleInput& input) {
  const bool fp8 = input.device().has_tensor_cores(Dtype::fp8);
  if (!fp8 && !input.device().has_tensor_cores(Dtype::int8)) return std::nullopt;
  const Layers layers = layers_bound_by(input, Bound::math);
  if (layers.time_share < kMinShare) return std::nullopt;
  const Change change = fp8 ? with_fp8_weights : in_int8;
  const auto saving = fp8 ? saving_of(input, layers, change) : int8_saving(input, layers);
  if (!is_enough(input, saving)) return std::nullopt;
  const std::string_view eight = fp8 ? "fp8" : "int8";
  Finding finding =
      finding_of(input, layers, change,
                 fmt::format("{} of the time goes into math-bound layers in {}, which this GPU "
                             "multiplies in {} at twice the rate",
                             share_text(layers.time_share), dtype_of(input, layers), eight),
                 fmt::format("Quantize weights and activations to {}", eight), saving);
  if (!fp8 || saving->expected < kLargeGain * pass_time(input)) finding.own_level = Level::info;
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode == Mode::training || is_quantized(input.workload)) return {};
  std::vector<Finding> findings;
  for (auto judge : {judge_memory_bound, judge_math_bound}) {
    if (auto finding = judge(input)) findings.push_back(std::move(*finding));
  }
  return findings;
}

// Kernels of no operator with shapes, in CUDA graphs or recordings without: their names alone tell.
bool multiplies_by_vectors(const KernelUse& kernel) {
  return kernel.facts.kernel_class == KernelClass::gemm && kernel.facts.dtype &&
         is_16_bit_float(*kernel.facts.dtype) && contains(kernel.name, "gemv");
}

struct VectorProducts {
  Seconds time;
  std::int64_t count = 0;
};

VectorProducts vector_products(const TraceSummary& trace) {
  VectorProducts found;
  const auto add = [&](const KernelUse& kernel) {
    if (!multiplies_by_vectors(kernel)) return;
    found.time += kernel.time;
    found.count += kernel.count;
  };
  std::ranges::for_each(trace.orphans, add);
  for (const OpUse& use : trace.ops) {
    if (!use.op) std::ranges::for_each(use.kernels, add);
  }
  found.time = found.time * table_part(trace);
  return found;
}

std::vector<TraceCase> judge_vectors(const TraceSummary& trace) {
  constexpr double kMost = 0.5;  // of the window
  // Half of the bytes are left in 8 bits, a quarter in 4; unpacking takes some of it back.
  constexpr double kLow = 0.25, kExpected = 0.35, kHigh = 0.7;
  if (trains(trace) || trace.is_foreign) return {};
  const VectorProducts products = vector_products(trace);
  if (products.time < kMost * trace.time.span) return {};
  const Range<Seconds> saved{kLow * products.time, kExpected * products.time,
                             kHigh * products.time};
  Finding finding = about_trace(
      trace,
      fmt::format("{} read 16-bit matrices for one row each (gemv), {}: one sequence at a time "
                  "waits for its weights",
                  count_text(trace, table_count(trace, products.count), "kernel"),
                  cost_text(trace, products.time)),
      {"Store the weights in 8 or 4 bits (fp8, int8; AWQ, GPTQ), or decode several sequences in "
       "one step, which share the reading",
       Exactness::changes_numerics},
      gain_of_kernel_time(trace, saved));
  finding.count = products.count;
  finding.evidence = {Evidence::measured(
      fmt::format("{} in kernels named gemv with 16-bit types", time_text(products.time)))};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check_traces(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge_vectors);
}

}  // namespace gemm_sixteen_bit_weights_rule

extern const Rule gemm_sixteen_bit_weights{
    .id = "gemm/sixteen-bit-weights",
    .level = Level::advice,
    .cause = Cause::precision,
    .summary = "Inference reads or multiplies weights of 16 bits",
    .doc = gemm_sixteen_bit_weights_rule::kDoc,
    .in_ops = gemm_sixteen_bit_weights_rule::check,
    .in_traces = gemm_sixteen_bit_weights_rule::check_traces};

}  // namespace rooftile
