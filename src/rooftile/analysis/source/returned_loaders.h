// Loaders that an own function makes for nobody.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// `train, _ = make_loaders()`: no caller keeps what the function made.
bool is_dropped_by_callers(const Call& loader);

}  // namespace rooftile::source
