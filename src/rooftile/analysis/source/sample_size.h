// How large the samples of a loader are, as far as the source tells.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the loader gives images, audio, video or volumes, or reads a file for each sample: some
// MB a batch. Not token ids, labels, digits and thumbnails, or what is not seen.
bool has_large_samples(const SourceFacts& facts, const Call& loader);
// The same of what the programs that train with the file read.
bool has_large_samples(const SourceFacts& facts, const File& file);

}  // namespace rooftile::source
