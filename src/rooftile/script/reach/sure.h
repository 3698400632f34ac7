// Whether a run is sure to get somewhere.
#pragma once

#include <cstddef>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether a run with all options at their defaults gets there as far as the files tell: nothing on
// the way is picked by a name, an option or a setting of which no value is known. False also for
// the code of a class that nothing seen makes.
bool is_sure_to_run(const SourceFacts& facts, const Statement& statement);
bool is_sure_to_run(const SourceFacts& facts, const File& file, std::size_t line);
// Whether the defaults pick another branch than the one that it stands in: `if joining ==
// "concat":` of an option that is "last".
bool is_left_by_default(const SourceFacts& facts, const Statement& statement);

}  // namespace rooftile::source
