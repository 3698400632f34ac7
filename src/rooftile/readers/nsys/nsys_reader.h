// Nsight Systems SQLite exports. docs/formats/nsys.md says what is read and what is not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// Whether the file is an SQLite database or one of Nsight Systems' own files; read_nsys() refuses
// what it cannot read by what it is. `head` holds the first bytes.
bool is_nsys(std::string_view path, std::string_view head);

// A recording of each process that used a GPU, by GPU; at least one. `progress` is told (bytes
// read, bytes in all). What a damaged file lost is in the first one's Timeline::skipped; a file
// without anything readable is an error.
Result<std::vector<Timeline>> read_nsys(
    const std::string& path,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

// The same from memory; `path` names it.
Result<std::vector<Timeline>> read_nsys_bytes(const std::string& bytes, const std::string& path);

}  // namespace rooftile
