// From an exported program to operations.
#pragma once

#include <map>
#include <string>

#include "rooftile/formats/pt2/program.h"
#include "rooftile/readers/reader.h"

namespace rooftile::pt2_reader_detail {

// `tied`: for parameters by name, where their data lies; equal places are one tensor.
Result<Workload> convert_program(const pt2_format::Program& program,
                                 const std::map<std::string, std::string>& tied,
                                 const std::string& file, const ReadOptions& options);

}  // namespace rooftile::pt2_reader_detail
