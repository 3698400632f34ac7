// The embedding table and the output layer that share a vocabulary.
#pragma once

#include <cstddef>
#include <optional>

#include "rooftile/workload/workload.h"

namespace rooftile {

// What vocabularies are padded to: 16-byte rows in every precision and even tiles. Source: Anthony
// et al., "The Case for Co-Designing Model Architectures with Hardware" (2024).
inline constexpr std::int64_t kVocabularyStep = 64;

// True for a layer from or to a vocabulary that one of the workload's embeddings has.
bool uses_vocabulary(const Workload& workload, const Gemm& gemm);

// The layer that makes logits: the last GEMM with weights in the forward pass, where it widens to a
// vocabulary.
std::optional<std::size_t> logits_layer(const Workload& workload);

}  // namespace rooftile
