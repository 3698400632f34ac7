// Facts of scripts as lines for goldens: files, programs, options, functions, classes, loops, and
// what calls and variables are.
#pragma once

#include <string>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile {

std::vector<std::string> facts_lines(const SourceFacts& facts);

}  // namespace rooftile
