// Comments that allow what a rule would report.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Records the comment in these bytes if it is one of ours: `# rooftile: allow RULE -- reason`.
void find_suppression(File& file, ByteRange comment);

}  // namespace rooftile::source
