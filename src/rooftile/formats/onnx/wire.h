// A pass over the protobuf bytes of a model before the ONNX library sees them: bounds what it will
// have to build, and leaves out weights and documentation, so that a graph of kilobytes remains.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile::onnx_format {

struct WireLimits {
  int depth = 96;                          // nested messages; protobuf itself stops at 100
  std::size_t nodes = 1'000'000;           // of all graphs and functions together
  std::size_t slim_bytes = 64U << 20U;     // what may remain
  std::size_t tensor_bytes = 4096;         // larger tensor payloads are dropped
  std::size_t attribute_bytes = 64 << 10;  // larger packed lists and strings are dropped
};

// The same ModelProto without documentation strings, external file names and large tensor payloads
// (such a tensor is marked as stored externally). Errors name the byte at which reading failed.
Result<std::string> slim_model(std::string_view bytes, const WireLimits& limits = {});

// Whether the bytes can be the beginning of a ModelProto: its first field is the IR version, and a
// field of a ModelProto follows.
bool looks_like_model(std::string_view head);

}  // namespace rooftile::onnx_format
