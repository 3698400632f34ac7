// Whether the inputs of a training program have one size or many, as far as the source tells.
#pragma once

#include <optional>
#include <string>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct SizeSign {
  const Call* call = nullptr;
  std::string text;  // "RandomCrop(32)", "the CIFAR10 data set"
};

// Whether random numbers are drawn in the expression, or in what its names are bound to.
bool draws_at_random(const Expr* expr);

// A crop or resize to a size that is written or an option's default, or a data set whose images
// have one size.
std::optional<SizeSign> fixed_input_size(const SourceFacts& facts, const Program& program);
// A collate function that pads to the batch's longest.
std::optional<SizeSign> varying_input_size(const SourceFacts& facts, const Program& program);
// A call that pads sequences to the batch's longest without a fixed multiple, tokenizers included.
std::optional<SizeSign> padded_to_longest(const SourceFacts& facts, const Program& program);

}  // namespace rooftile::source
