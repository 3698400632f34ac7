// Patterns of names.
#pragma once

#include <string_view>

namespace rooftile {

// Whether the whole text matches: `*` stands for any characters, "/" included, and `?` for one.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace rooftile
