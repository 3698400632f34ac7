// The Python grammar with its whole parse table spelt out. The generated one packs the rows of most
// states as lists, which the parser searches from their start for every token; one row per state
// takes 1.5 MB and a step.
#pragma once

#include <tree_sitter/api.h>

namespace rooftile::python {

// Parses as tree_sitter_python() does; made on the first call, lives as long as the process.
const TSLanguage* python_language();

}  // namespace rooftile::python
