// Bytes of a Python file as text that the parser takes, at the same offsets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::python {

// Replaces bytes that are no UTF-8 (latin-1 and the like) and control characters, one for one, and
// carriage returns that end a line alone, as Python does. Binary content and UTF-16 are errors.
Result<std::string> clean_text(std::string bytes);

// Whether a file can matter to us: it names PyTorch or a library on top of it.
bool mentions_training(std::string_view bytes);

// Byte of the first character of each line.
std::vector<std::uint32_t> line_starts(std::string_view text);

}  // namespace rooftile::python
