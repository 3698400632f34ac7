// A network whose expected memory is more than one process can use of the GPU.
#include <fmt/format.h>

#include "rooftile/analysis/memory/adapter_training.h"
#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/rule.h"

namespace rooftile {
namespace gpu_memory_does_not_fit_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A model whose weights, gradients, optimizer state, activations, KV cache, recurrent
state and workspace are expected to
take more memory than one process can use of the GPU.

## Why it costs time
The run ends with an out-of-memory error. Where only the high end of the range is above the limit, it
may end so with another sequence length or another fragmentation.

## How to fix
The finding names what makes it fit, with its price: a smaller batch; fused or chunked cross-entropy,
which never holds all logits (they are computed once more at most); activation checkpointing (the forward
pass of the repeated layers once more); autocast; optimizer states, KV cache or weights in fewer bits.
Where no batch fits: a shorter input, which takes at most the memory of its share of the positions; long
recordings and documents run in chunks. Where none of these is enough alone, it names those that are
together. Over several GPUs: weights and optimizer sharded (FSDP, ZeRO-3: weights gathered twice and
gradients reduced once a step); tensor parallelism (a sum over all GPUs behind each attention, Mamba or
feed-forward block), for numbers of GPUs that divide the heads, within a node of 8 and beyond with
pipeline stages over the nodes; expert parallelism for mixtures of experts (tokens sent to their experts
and back). Other changes stand beside these where GPUs alone do not help or where they halve the GPUs
for each sample. Over more than 8 GPUs, or with another batch, no time is given: it depends on the
network between boards. *Tight* is what leaves less than a tenth.

With a smaller batch, as many more gradient accumulation steps leave training as it is.

## How the saving is estimated
No time is saved. The price of a change is predicted by the time model, communication without overlap.
Memory is the sum of
- weights as stored, and in training gradients, optimizer state and fp32 copies;
- activations: in training 60 to 140 % of what the backward pass reads and the loss in fp32, in inference the
  tensors that are alive at the same time;
- the KV cache of all sequences, or the states that recurrent layers keep in its place (Mamba, linear
  attention; of one size at any length), and the workspace of cuBLAS with 2 to 16 % fragmentation.

A process can use what ECC, driver (0.2 GiB and 0.9 %) and CUDA context (0.5 GiB) leave.

## When not to
- Offloading to the host's memory, paged optimizers and LoRA hold less than the model's own step.
- A serving engine that reserves a pool for its cache holds as much cache as is left.

## Evidence
- S. Bekman, Machine Learning Engineering Open Book, "Anatomy of Model's Memory Usage": 18 bytes a
  parameter for AdamW in mixed precision.
- Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.
- Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024, and Liger Kernel's
  fused linear cross-entropy: logits in chunks.
- vLLM, "Parallelism and Scaling": tensor parallelism within a node, pipeline parallelism over nodes,
  expert parallelism for mixtures; the number of heads has to be divisible by the tensor-parallel size.
- vLLM, "Quantized KV Cache": keys and values in FP8 take half the memory.
- Hu et al., "LoRA", 2021; Dettmers et al., "QLoRA", 2023: adapters of frozen weights, in 16 or 4 bits.
- Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022: Adam's states in a quarter of
  the bytes.
- Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
- "Total capacity" in public out-of-memory messages of PyTorch: T4 14.75 GiB, L4 22.03, RTX 4090
  23.65, L40S 44.42, A100 79.25.
)md";

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.ops.empty() || !input.workload.traces.empty()) return {};
  const MemoryEstimate memory = estimate_memory(input.workload, input.device());
  const Range<Bytes> total = memory.total();
  if (memory.fit() != Fit::does_not_fit) return {};
  Finding finding;
  // A crash for sure only where even the low end is too much.
  finding.own_level = total.low > memory.usable ? Level::error : Level::warning;
  finding.message = fmt::format("about {} are needed, {} of {} are usable", bytes_text(total),
                                bytes_text(memory.usable), input.device().name);
  if (!input.workload.sources.empty()) finding.location.file = input.workload.sources.front();
  const std::string adapters = adapter_text(input.workload, memory);
  finding.fix = {fit_text(changes_that_fit(input.workload, input.analysis, input.model, memory),
                          input.analysis.total.expected) +
                     (adapters.empty() ? "" : ". " + adapters),
                 Exactness::not_applicable};
  finding.evidence = {Evidence::estimated(fmt::format(
      "weights {}, gradients {}, optimizer {}, activations {}, KV cache {}, recurrent state {}",
      bytes_text(memory.weights), bytes_text(memory.gradients.expected),
      bytes_text(memory.optimizer.expected), bytes_text(memory.activations.expected),
      bytes_text(memory.kv_cache.expected), bytes_text(memory.recurrent_state.expected)))};
  return {finding};
}

}  // namespace gpu_memory_does_not_fit_rule

extern const Rule gpu_memory_does_not_fit{.id = "gpu_memory/does-not-fit",
                                          .level = Level::error,
                                          .cause = Cause::none,
                                          .summary = "The model needs more memory than the GPU has",
                                          .doc = gpu_memory_does_not_fit_rule::kDoc,
                                          .in_ops = gpu_memory_does_not_fit_rule::check};

}  // namespace rooftile
