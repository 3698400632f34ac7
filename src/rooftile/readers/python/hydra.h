// Configurations of programs that Hydra starts: the YAML files that @hydra.main names, with those
// of their lists of defaults.
#pragma once

#include <span>
#include <vector>

#include "rooftile/readers/python/source_files.h"

namespace rooftile::source {

// Each as the assignments it stands for, in the lines of the YAML file: of `train: {workers: 4}`
// the text is `cfg.train.workers = 4`. Files that are missing or no YAML are passed over, as are
// values that are computed (${…}) or lists.
std::vector<ParsedFile> read_configurations(std::span<const ParsedFile> scripts,
                                            const PythonOptions& options, FactsMemory& memory);

}  // namespace rooftile::source
