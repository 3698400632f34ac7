// What stands before and behind findings and tables on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/reports/reports.h"

namespace rooftile {

inline constexpr std::string_view kBold = "1";
inline constexpr std::string_view kDim = "2";

// In the colour of an escape code, where the style has colours.
std::string painted(const std::string& text, std::string_view code, const TextStyle& style);

// What was judged, where, how long it takes, and what was assumed.
std::string header_text(const Report& report, const TextStyle& style);

// What stands behind the numbers: coverage and what was left out.
std::string basis_text(const Report& report, const TextStyle& style);

}  // namespace rooftile
