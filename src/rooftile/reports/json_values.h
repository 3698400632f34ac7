// Pieces of JSON that several renderers write. Include in .cpp files only: it brings the JSON
// library.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/findings/finding.h"

namespace rooftile {

// An integer where the number is one and a double holds it exactly.
nlohmann::ordered_json json_number(double value);
// The shortest text that reads back to the same double; integers without exponent.
std::string csv_number(double value);
// RFC 4180: quotes around fields with separators, quotes doubled. No control characters, and
// nothing that a spreadsheet would run as a formula.
std::string csv_field(const std::string& field);
// {"low": …, "expected": …, "high": …}, or null.
nlohmann::ordered_json json_range(const std::optional<Range<Seconds>>& range);
nlohmann::ordered_json bytes_json(const Range<Bytes>& range);
// null for an empty text.
nlohmann::ordered_json json_text_or_null(const std::string& text);
// One line each.
std::vector<std::string> evidence_lines(const Finding& finding);
// The exactness is spelled as its enumerator: "exact_arithmetic".
nlohmann::ordered_json json_fix(const Fix& fix);

// Indented, one line end at the end; bytes that are not UTF-8 become U+FFFD.
std::string dump_json(const nlohmann::ordered_json& json);

}  // namespace rooftile
