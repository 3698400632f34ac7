// Conditions on parameters that the way to a statement decides.
#pragma once

#include <optional>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether a condition on a parameter holds by what is passed on the way: `if with_hidden:`,
// `if z is None:`, `if mode == "mask":`. Empty where that does not tell.
std::optional<bool> holds_on_the_way(const Context& context, const Guard& guard);

// `if len(gpu_ids) > 0:` for a parameter whose default of `[]` the caller leaves.
bool lacks_items_on_the_way(const Context& context);

// `if loose:` for a parameter that the caller gives as self.loose, `if writer:` for a writer that
// is made before the loop: the same in each pass.
bool is_setting_on_the_way(const SourceFacts& facts, const Context& context, const Guard& guard);

}  // namespace rooftile::source
