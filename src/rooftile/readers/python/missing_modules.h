// Modules of a project that its files import and that are not there.
#pragma once

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Notes for script/reach the files that import from a module which the project's own package lacks:
// `from modules.background import Predictor` without such a file in modules/.
void note_missing_modules(const SourceFacts& facts);

}  // namespace rooftile::source
