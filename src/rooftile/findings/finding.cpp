#include "rooftile/findings/finding.h"

#include <array>

namespace rooftile {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"info", "advice", "warning", "error"};
constexpr std::array<std::string_view, 5> kExactnessNames{"bit-exact", "exact in real arithmetic",
                                                          "changes numerics", "changes training",
                                                          "not applicable"};

}  // namespace

std::string_view to_string(Level level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<Level> parse_level(std::string_view text) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == text) return static_cast<Level>(i);
  }
  return std::nullopt;
}

std::string_view to_string(Exactness exactness) {
  return kExactnessNames[static_cast<std::size_t>(exactness)];
}

Seconds expected_saving(const Finding& finding) {
  return finding.saving ? finding.saving->expected : Seconds(0);
}

}  // namespace rooftile
