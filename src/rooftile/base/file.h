// Bounded reading of files.
#pragma once

#include <cstdint>
#include <string>

#include "rooftile/base/result.h"

namespace rooftile {

// The first bytes of a regular file, at most `limit`. Directories, devices and missing files are
// errors.
Result<std::string> read_head(const std::string& path, std::size_t limit);
// A whole regular file, or standard input for "-"; one larger than `limit` is an error.
Result<std::string> read_file(const std::string& path, std::size_t limit);

}  // namespace rooftile
