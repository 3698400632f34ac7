// bf16 in training scripts for a GPU without it.
#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

std::vector<Finding> unsupported_bf16_in_source(const source::SourceFacts& facts,
                                                const Device* gpu);

}  // namespace rooftile
