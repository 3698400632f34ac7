// What a trace says about the machine and the recording, beside the events.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/workload/timeline.h"

namespace rooftile {

// Collected while the file is read: members come before and after the events.
struct TraceHeader {
  std::vector<TraceDevice> devices;
  std::optional<std::int64_t> rank, world_size;
  bool with_shapes = false, with_stack = false, with_memory = false, is_foreign = false;
  Nanoseconds base = 0;  // baseTimeNanoseconds

  // One member of the top-level object, as written.
  void add(std::string_view key, std::string_view value);
};

}  // namespace rooftile
