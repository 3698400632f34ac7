// Paths as reports, baselines and diffs show them.
#pragma once

#include <string>

namespace rooftile {

// Without "./" and "x/..", and relative to the current folder where it lies below it, so that one
// file has one name however it was given. "-" stays.
std::string normal_path(const std::string& path);

}  // namespace rooftile
