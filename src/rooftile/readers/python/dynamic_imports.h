// Modules that a script imports by a name it puts together.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Adds to File::imported what `importlib.import_module` and `__import__` may load: the one file
// whose name is known with all options at their defaults, else all files of a package whose names
// begin like the part that is written (`"models." + name`, f"{__name__}.{name}").
void follow_dynamic_imports(SourceFacts& facts);

}  // namespace rooftile::source
