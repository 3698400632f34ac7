// Captures of `rooftile.capture`: a pass of a network as a trace without times.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/byte_stream.h"
#include "rooftile/base/result.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

bool is_capture(std::string_view path, std::string_view head);
Result<Workload> read_capture_bytes(ByteStream& bytes, const std::string& file);

}  // namespace rooftile
