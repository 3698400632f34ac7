// From the syntax tree of one file to statements and expressions; names are not resolved yet.
#pragma once

#include "rooftile/formats/python/syntax_tree.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Fills in everything of `file` that one file alone tells: text, path and module must be set.
void lower_tree(const python::SyntaxTree& tree, File& file, FactsMemory& memory);

// "package.train" and 1 give "package": what a relative import counts from.
std::string package_of(const File& file, std::size_t dots);

}  // namespace rooftile::source
