#include "rooftile/analysis/memory/adapter_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// The rank that Hugging Face PEFT's and Unsloth's examples take.
constexpr double kRank = 16;
// Bytes of a trained parameter: fp32 weight, gradient and two states of Adam. PEFT keeps adapters
// in fp32 beside weights in 16 bits.
constexpr double kTrained = 4 + 4 + 8;
constexpr double kHalfBytes = 2;
// NF4 with double quantization: 4 bits and 0.127 of constants. Source: Dettmers et al., "QLoRA",
// 2023.
constexpr double kFourBits = (4 + 0.127) / 8;

bool is_decoder(const Workload& workload) {
  bool attends = false;
  for (const Op& op : workload.ops) {
    const auto* attention = std::get_if<Attention>(&op.body);
    if (attention == nullptr || op.phase != Phase::forward) continue;
    if (!attention->causal) return false;
    attends = true;
  }
  return attends;
}

struct LinearLayers {
  double parameters = 0, adapters = 0;
};

// Empty where a product with weights has many of them, as experts have.
std::optional<LinearLayers> linear_layers(const Workload& workload, std::size_t head) {
  LinearLayers layers;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    const auto* gemm = std::get_if<Gemm>(&op.body);
    if (gemm == nullptr || !gemm->weight_is_parameter || op.phase != Phase::forward) continue;
    if (gemm->batch > 1) return std::nullopt;
    if (i == head) continue;
    const double n = to_double(gemm->n), k = to_double(gemm->k), runs = to_double(op.count);
    layers.parameters += n * k * runs;
    layers.adapters += kRank * (n + k) * runs;
  }
  return layers;
}

}  // namespace

std::optional<AdapterTraining> adapter_training(const Workload& workload,
                                                const MemoryEstimate& memory) {
  const auto head = logits_layer(workload);
  if (workload.mode != Mode::training || !head || !is_decoder(workload)) return std::nullopt;
  const auto layers = linear_layers(workload, *head);
  const double parameters = count_parameters(workload);
  if (!layers || layers->parameters <= 0 || layers->parameters > parameters) return std::nullopt;
  const double others = parameters - layers->parameters;
  const Bytes adapters(layers->adapters * kTrained);
  const Bytes in_half(parameters * kHalfBytes);
  const Bytes in_four(others * kHalfBytes + layers->parameters * kFourBits);
  const Bytes kept = memory.library + memory.growing() + adapters;
  const auto recomputed = kept_activations(workload, {true, false});
  const bool saves = recomputed && *recomputed < memory.activations.expected;
  const Bytes less =
      saves ? memory.growing() * (1 - *recomputed / memory.activations.expected) : Bytes();
  return AdapterTraining{.adapter_parameters = layers->adapters,
                         .lora = kept + in_half,
                         .qlora = kept + in_four,
                         .lora_checkpointed = kept + in_half - less,
                         .qlora_checkpointed = kept + in_four - less};
}

std::string adapter_text(const Workload& workload, const MemoryEstimate& memory) {
  const auto training = adapter_training(workload, memory);
  if (!training) return "";
  std::vector<std::string> ways;
  const auto add = [&](const char* name, Bytes plain, Bytes checkpointed) {
    const bool fits = memory.fit_of(plain) != Fit::does_not_fit;
    const Bytes needed = fits ? plain : checkpointed;
    if (memory.fit_of(needed) == Fit::does_not_fit) return;
    ways.push_back(fmt::format("{} ({}{})", name, bytes_text(needed),
                               fits ? "" : " with activation checkpointing"));
  };
  add("LoRA with weights in 16 bits", training->lora, training->lora_checkpointed);
  add("QLoRA with weights in 4 bits", training->qlora, training->qlora_checkpointed);
  if (ways.empty()) return "";
  return fmt::format(
      "Another training method, not an equal change, trains {:.3g} M parameters of adapters of "
      "rank "
      "16 and freezes the weights: {}",
      training->adapter_parameters / 1e6, join(ways, " or "));
}

}  // namespace rooftile
