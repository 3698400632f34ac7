// Facts of scripts as lines for goldens: files, programs, options, functions, classes, loops, and
// what calls and variables are.
#pragma once

#include <string>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile {

// What stands there, with single spaces and not all of what is long; of a statement its first line.
std::string code_of(const source::Expr* expr);
std::string code_of(const source::Statement* statement);

std::vector<std::string> facts_lines(const SourceFacts& facts);

}  // namespace rooftile
