// Reader of torch.export archives (.pt2): docs/formats/pt2.md.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/readers/reader.h"

namespace rooftile {

extern const Reader exported_program_reader;

// An archive in memory; `name` is what its operations and errors call it.
Result<Workload> read_pt2_bytes(std::string_view archive, const std::string& name,
                                const ReadOptions& options);

}  // namespace rooftile
