// Paths as reports, baselines and diffs show them.
#pragma once

#include <string>

namespace rooftile {

// Without "./" and "x/..", and relative to the current folder where it lies below it, so that one
// file has one name however it was given. "-" stays.
std::string normal_path(const std::string& path);

// RFC 3986: relative paths as they are, absolute ones as file URIs, other bytes percent-encoded.
std::string path_uri(const std::string& path);

// "file:///home/…" of the file, wherever the current folder is.
std::string file_uri(const std::string& path);

}  // namespace rooftile
