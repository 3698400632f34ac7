// Words in pieces of source text.
#pragma once

#include <string_view>

namespace rooftile::source {

// Whether the text, comments left out, has the word; '_' and '-' separate words, as in mentions().
bool has_word(std::string_view text, std::string_view word);

}  // namespace rooftile::source
