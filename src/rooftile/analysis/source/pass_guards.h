// Which guards between a loop and a statement keep it from running on each pass.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether there is a GPU, or several, is settled once: by how the program is started.
bool is_about_launch(const Guard& guard);
// Whether it leads there on some passes alone, or never: conditions on values, `x % n == 0` with n
// unknown or at least ten, the first time, exceptions, debugging.
bool is_shut(const Guard& guard);
// The same, with conditions on values open: what stands there costs in each pass that meets them.
bool is_shut_for_good(const Guard& guard);

}  // namespace rooftile::source
