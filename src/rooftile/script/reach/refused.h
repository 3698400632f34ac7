// Calls that Python refuses, and with them all that comes behind.
#pragma once

#include <unordered_set>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Files that import from a module which the project's own package lacks.
struct LackingModules {
  std::unordered_set<const File*> files;
};
// Whether a file of the program does: it ends at the import.
bool lacks_module(const SourceFacts& facts, const Program& program);

// Whether each run of the function ends in a call with a keyword that the one called does not
// take.
bool is_refused(const SourceFacts& facts, const FunctionDef& function);

}  // namespace rooftile::source
