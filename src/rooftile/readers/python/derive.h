// What follows from resolved names and types: arguments behind **, roles of loops, the order of
// layers, programs, and the indexes of the queries.
#pragma once

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Items of dictionaries that a call unpacks become its arguments, where they are written down.
void follow_unpacked_arguments(SourceFacts& facts);
void index_calls(SourceFacts& facts);
// Needs the callers of functions.
void find_loop_roles(SourceFacts& facts);
void find_layers(SourceFacts& facts);
// Needs the roles of loops; also sets Loop::on_gpu.
void find_programs(SourceFacts& facts);

}  // namespace rooftile::source
