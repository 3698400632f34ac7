// The text form of a workload, one operation a line: gemm vocab bf16 m=4096 n=50257 k=768
// Grammar: docs/formats/workload.md.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Any text gives a workload or an error with its line; `source` is named in errors and provenance.
Result<Workload> parse_workload(std::string_view text, std::string_view source = "-");

// Whether the line is meant as an operation, mistakes or not: it has a key=value and a kind or a
// dtype in its place.
bool is_operation_line(std::string_view line);

// Reads back to an equal workload.
std::string to_text(const Workload& workload);
std::string to_text(const Op& op);

// The dims alone, without kind, name and dtype: "m=4096 n=50257 k=768".
std::string dims_text(const Body& body);

}  // namespace rooftile
