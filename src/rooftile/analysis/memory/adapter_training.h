// What training low-rank adapters of a decoder's frozen weights needs: LoRA and QLoRA.
#pragma once

#include <optional>
#include <string>

#include "rooftile/analysis/memory/memory.h"

namespace rooftile {

// Adapters of rank 16 on all linear layers but the output layer, in fp32 with gradients and Adam's
// states. Frozen weights have neither; they are in 16 bits, or, with QLoRA, those of linear layers
// in 4 bits.
struct AdapterTraining {
  double adapter_parameters = 0;
  Bytes lora, qlora;                            // expected, in all; activations as today
  Bytes lora_checkpointed, qlora_checkpointed;  // with activation checkpointing
};

// Of a training step of a decoder whose weights are all dense; empty for other workloads.
std::optional<AdapterTraining> adapter_training(const Workload& workload,
                                                const MemoryEstimate& memory);

// "another training method, which freezes the weights: LoRA … (20.1 GiB) or QLoRA … (9.4 GiB)":
// those that fit; empty where none does.
std::string adapter_text(const Workload& workload, const MemoryEstimate& memory);

}  // namespace rooftile
