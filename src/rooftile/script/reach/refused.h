// Calls that Python refuses, and with them all that comes behind.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether each run of the function ends in a call with a keyword that the one called does not
// take.
bool is_refused(const SourceFacts& facts, const FunctionDef& function);

}  // namespace rooftile::source
