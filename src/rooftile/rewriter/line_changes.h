// Which lines differ between two texts.
#pragma once

#include <string_view>
#include <vector>

namespace rooftile {

// Lines [a_begin, a_end) became [b_begin, b_end); one of them may be empty.
struct LineChange {
  std::size_t a_begin = 0, a_end = 0, b_begin = 0, b_end = 0;

  bool operator==(const LineChange&) const = default;
};

// In order, with equal lines between them; few and short as long as the texts differ little (Myers,
// "An O(ND) Difference Algorithm and Its Variations", 1986).
std::vector<LineChange> line_changes(const std::vector<std::string_view>& a,
                                     const std::vector<std::string_view>& b);

}  // namespace rooftile
