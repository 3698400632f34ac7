// Reads ONNX models.
#pragma once

#include <string_view>

#include "rooftile/readers/reader.h"

namespace rooftile {

extern const Reader onnx_reader;

// The reader's work after the file is read, in this process: for tests and fuzzing. `model` is a
// serialised ModelProto; anything else is an error or crashes the ONNX library.
Result<Workload> read_onnx_bytes(std::string_view model, const std::string& name,
                                 const ReadOptions& options);

}  // namespace rooftile
