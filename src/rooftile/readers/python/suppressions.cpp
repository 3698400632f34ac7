#include "rooftile/readers/python/suppressions.h"

#include <algorithm>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// Ids and their patterns: precision/amp-off, compile/*.
bool is_rule_pattern(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '/' ||
           c == '*';
  });
}

// What stands after "allow": rules, then perhaps a reason.
void read_allow(std::string_view rest, Suppression& found) {
  const std::size_t dashes = rest.find("--");
  if (dashes != std::string_view::npos) {
    found.reason = trim(rest.substr(dashes + 2));
    rest = rest.substr(0, dashes);
  }
  for (const std::string_view part : split(rest, ',')) {
    const std::string_view rule = trim(part);
    if (!is_rule_pattern(rule)) {
      found.problem = "expected the id of a rule, found " + quoted(rule);
      return;
    }
    found.rules.push_back(rule);
  }
}

}  // namespace

void find_suppression(File& file, ByteRange comment) {
  std::string_view text = trim(file.slice(comment));
  text.remove_prefix(std::min(text.find_first_not_of("# \t"), text.size()));
  constexpr std::string_view kMark = "rooftile:";
  if (!text.starts_with(kMark)) return;
  text = trim(text.substr(kMark.size()));
  Suppression found;
  const auto after = std::ranges::upper_bound(file.line_starts, comment.begin);
  found.line = static_cast<std::uint32_t>(after - file.line_starts.begin());
  const std::uint32_t line_start = *std::prev(after);
  found.own_line = trim(file.slice({line_start, comment.begin})).empty();
  constexpr std::string_view kAllow = "allow";
  if (!text.starts_with(kAllow)) {
    found.problem = "expected 'allow' and the ids of rules, found " + quoted(text);
  } else {
    read_allow(text.substr(kAllow.size()), found);
  }
  file.suppressions.push_back(std::move(found));
}

}  // namespace rooftile::source
