// What the queries of analysis/source say of scripts, as lines for goldens: of programs, files,
// loops, loaders, calls, functions and layers.
#pragma once

#include <string>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile {

std::vector<std::string> query_lines(const SourceFacts& facts);

}  // namespace rooftile
