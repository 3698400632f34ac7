// Automatic mixed precision in training scripts: autocast regions and gradient scalers in all their
// spellings.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

enum class AutocastDtype { fp16, bf16, unknown };

struct Autocast {
  const Call* call = nullptr;  // null for a decorator without parentheses
  bool on_gpu = true;          // false for the CPU's
  AutocastDtype dtype = AutocastDtype::unknown;
  bool is_off = false;      // by a literal, or by the default of an option
  bool may_be_off = false;  // depends on something unknown, or on an option
};

// What a context manager or decorator means, names followed; empty when it is no autocast.
std::optional<Autocast> autocast_of(const SourceFacts& facts, const Expr* manager);
// The innermost one around a statement on this way there, also an outer function's.
std::optional<Autocast> autocast_around(const SourceFacts& facts, const Way& way);
// All in the program, by file and text, those of `@autocast()` included.
std::vector<Autocast> autocasts_in(const SourceFacts& facts, const Program& program);
// A forward pass of the training that surely or by default runs under autocast; null for none.
const Call* forward_under_autocast(const SourceFacts& facts, const Program& program);

struct Scaler {
  const Call* call = nullptr;  // its construction
  bool is_off = false;         // enabled=False, or so by an option's default
  bool may_be_off = false;     // `enabled` depends on something
};

Scaler scaler_of(const SourceFacts& facts, const Call& construction);
std::vector<Scaler> scalers_in(const SourceFacts& facts, const Program& program);
// Whether the expression is a GradScaler, by its type or where that is unknown by its name.
bool is_scaler(const Expr* expr);

}  // namespace rooftile::source
