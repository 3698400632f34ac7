// Whether a program says anything about the precision it trains in.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Any sign that the author chose a precision, or offers it as an option: autocast, 16-bit weights,
// TF32, an option --fp16, a framework with an option of its own. Imports, documentation and words
// that mean something else do not count. Nor does an option that a library's trainer brings along,
// where no settings file and no documented command of the project sets the precision.
bool chooses_precision(const SourceFacts& facts, const Program& program);

// Whether a runner of mmcv or mmengine trains, which has settings of its own; their tools for
// settings, images and layers alone do not count.
bool trains_by_mmcv(const Program& program);

}  // namespace rooftile::source
