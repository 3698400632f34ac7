// What speaks against running a network in 16 bits.
#pragma once

#include <string_view>

#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Of autocast around the whole forward of the network with these parts, `layer` among them; empty
// where nothing does.
std::string_view reason_against_autocast(const SourceFacts& facts, const Program& program,
                                         const TrainedParts& parts, const SizedLayer& layer);

}  // namespace rooftile::source
