// Names in the text form: percent-encoding (RFC 3986) of what would end a word or a list item.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

std::string encode_name(std::string_view name);
std::string encode_word(std::string_view name);  // an empty one is a percent sign alone
std::string decode_name(std::string_view text);  // a malformed escape stays as it is

// Separated by commas. Of a text, empty items are dropped.
std::string encode_names(const std::vector<std::string>& names);
std::vector<std::string> decode_names(std::string_view text);

}  // namespace rooftile
