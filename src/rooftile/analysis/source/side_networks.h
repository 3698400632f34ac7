// Networks that programs make beside those that they train.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the program is seen to make the module, or what has it inside, only for variables of a
// function in which an optimizer gets the parameters of others: a frozen encoder, a judge of the
// results. False where that is not seen.
bool is_beside_training(const SourceFacts& facts, const Program& program, const ClassDef& def);

}  // namespace rooftile::source
