#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Layers of training scripts with a bias directly before BatchNorm, one finding per class or
// function that builds them.
std::vector<Finding> biases_before_batchnorm(const source::SourceFacts& facts);

}  // namespace rooftile
