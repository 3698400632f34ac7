// Finds the next event in damaged text.
#pragma once

#include <cstddef>

#include "rooftile/formats/kineto/json_scan.h"

namespace rooftile {

// So many bytes from the brace on, and as many before it for the comma, are enough to know an
// event, whatever the indentation.
inline constexpr std::size_t kEventStartBytes = 256;

// The next opening brace that follows a comma or an opening bracket and starts with a key of
// events: {"ph", {"cat", {"name" …; null if there is none.
const char* find_event(const JsonCursor& text);

}  // namespace rooftile
