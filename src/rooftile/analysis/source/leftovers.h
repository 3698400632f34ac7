// Classes that stand in the files and that no training run makes.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether no file uses the function's name, comments left out, but where it is defined.
bool is_named_nowhere(const SourceFacts& facts, const FunctionDef& function);
// A function of a script that is started, which nothing in it calls or names, and which no other
// file can take: what stands in it never runs.
bool is_never_used(const SourceFacts& facts, const FunctionDef& function);
// A class without bases that no call makes, and whose name stands for no other use of it: a file
// that has a class of that name means its own.
bool is_made_nowhere(const SourceFacts& facts, const ClassDef& def);
// `getattr(models, name)`, `models.__dict__[name]`: what the file defines may be taken of it.
bool is_taken_by_name(const SourceFacts& facts, const File& file);
// A module class that no training run makes or names, where others take what stands beside it.
bool is_left_over(const SourceFacts& facts, const ClassDef& def);

}  // namespace rooftile::source
