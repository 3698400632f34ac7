// The version of the library and of its command line.
#pragma once

#include <string_view>

namespace rooftile {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace rooftile
