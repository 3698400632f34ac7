// Reads traces of PyTorch's profiler (Kineto, Chrome trace JSON), plain or gzip.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rooftile/base/byte_stream.h"
#include "rooftile/base/result.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// What is read of a file's text to recognise it.
inline constexpr std::size_t kTextHeadBytes = 4096;

// Whether a file is a trace, or something that is easily taken for one and that read_kineto refuses
// by name. `head`: its first bytes (up to 4 KiB) as they are in the file.
bool is_kineto(std::string_view path, std::string_view head);

// Memory grows with the rows of the timeline only, about 17 bytes an event, never with the file. An
// error when the file is not a trace, which says what it is.
Result<Timeline> read_kineto(const std::string& path, const ReadProgress& progress = {});

// The same over bytes that come from elsewhere; `file` is the name in the timeline.
Result<Timeline> read_kineto_bytes(ByteStream& bytes, const std::string& file);

}  // namespace rooftile
