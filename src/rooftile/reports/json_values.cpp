#include "rooftile/reports/json_values.h"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "rooftile/reports/layout.h"

namespace rooftile {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Spelled as the enumerators: part of the contract, whatever people read elsewhere.
std::string_view exactness_id(Exactness exactness) {
  switch (exactness) {
    case Exactness::bit_exact:
      return "bit_exact";
    case Exactness::exact_arithmetic:
      return "exact_arithmetic";
    case Exactness::changes_numerics:
      return "changes_numerics";
    case Exactness::changes_training:
      return "changes_training";
    case Exactness::not_applicable:
      break;
  }
  return "not_applicable";
}

}  // namespace

nlohmann::ordered_json json_number(double value) {
  if (value == std::floor(value) && std::abs(value) <= kExactIntegers) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

std::string csv_field(const std::string& field) {
  constexpr std::string_view kFormula = "=+-@";
  std::string text = printable(field);
  if (!text.empty() && kFormula.find(text[0]) != std::string_view::npos) text.insert(0, 1, '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_number(double value) { return json_number(value).dump(); }

nlohmann::ordered_json json_range(const std::optional<Range<Seconds>>& range) {
  if (!range) return nullptr;
  return {{"low", json_number(range->low.value())},
          {"expected", json_number(range->expected.value())},
          {"high", json_number(range->high.value())}};
}

nlohmann::ordered_json bytes_json(const Range<Bytes>& range) {
  return {{"low", json_number(range.low.value())},
          {"expected", json_number(range.expected.value())},
          {"high", json_number(range.high.value())}};
}

nlohmann::ordered_json json_text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

nlohmann::ordered_json json_fix(const Fix& fix) {
  nlohmann::ordered_json json = {{"text", fix.text}, {"exactness", exactness_id(fix.exactness)}};
  if (fix.edits.empty()) return json;
  auto edits = nlohmann::ordered_json::array();
  for (const TextEdit& edit : fix.edits) {
    edits.push_back({{"file", edit.file},
                     {"begin", edit.begin},
                     {"end", edit.end},
                     {"replacement", edit.replacement}});
  }
  json["edits"] = std::move(edits);
  json["safe"] = fix.safe;
  return json;
}

std::vector<std::string> evidence_lines(const Finding& finding) {
  std::vector<std::string> lines;
  for (const Evidence& evidence : finding.evidence) lines.push_back(to_string(evidence));
  return lines;
}

std::string dump_json(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace rooftile
