// Attention written out as products and a softmax in training scripts.
#pragma once

#include <optional>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct WrittenAttention {
  const Expr* scores = nullptr;  // the product of queries and keys
  const Expr* softmax = nullptr;
  const Expr* product = nullptr;  // of the weights with the values
  bool weights_leave = false;     // returned, stored or read by something else
  bool has_other_terms = false;   // exponents, products of weights: no fused call takes them
  bool has_bias = false;          // a bias is added that may be trained, no mask
  bool weights_change = false;    // masked or scaled behind the softmax
};

// softmax(q @ k) @ v in the function, followed through its variables; empty where there is none.
std::optional<WrittenAttention> attention_by_hand(const FunctionDef& function);

// What is done with queries and keys before their product.
struct AttentionInputs {
  std::size_t dimensions = 0;  // that they surely have; 0 where that is not seen
  bool are_scaled = false;
};
AttentionInputs inputs_of(const SourceFacts& facts, const WrittenAttention& attention);

}  // namespace rooftile::source
