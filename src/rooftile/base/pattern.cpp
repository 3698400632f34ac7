#include "rooftile/base/pattern.h"

namespace rooftile {

// Only the last star has to be tried again, so the time is bounded by the product of the sizes.
bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t at = 0, i = 0;
  std::size_t star = std::string_view::npos, retry = 0;
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      retry = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i])) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++retry;
    } else {
      return false;
    }
  }
  return pattern.substr(at).find_first_not_of('*') == std::string_view::npos;
}

}  // namespace rooftile
