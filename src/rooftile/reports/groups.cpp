#include "rooftile/reports/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rooftile/reports/layout.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxPlaces = 12;  // a reader who needs more takes JSON
constexpr int kCodeWidth = 60;

bool is_one_change(const Finding& a, const Finding& b) {
  return a.spot.line > 0 && b.spot.line > 0 && !a.saving && !b.saving && a.rule == b.rule &&
         a.level == b.level && a.location.file == b.location.file && !a.fix.text.empty() &&
         a.fix.text == b.fix.text && a.fix.exactness == b.fix.exactness;
}

// "105"; in a notebook "cell 3, line 2".
std::string line_text(const Finding& finding) {
  const std::int64_t line = finding.location.line;
  return finding.spot.cell > 0 ? fmt::format("cell {}, line {}", finding.spot.cell, line)
                               : fmt::format("{}", line);
}

}  // namespace

std::vector<FindingGroup> grouped(const std::vector<Finding>& findings, Level least) {
  std::vector<FindingGroup> groups;
  for (const Finding& finding : findings) {
    if (finding.level < least) continue;
    const auto same = std::ranges::find_if(
        groups, [&](const FindingGroup& group) { return is_one_change(*group.front(), finding); });
    if (same == groups.end()) {
      groups.push_back({&finding});
    } else {
      same->push_back(&finding);
    }
  }
  return groups;
}

std::int64_t count_of(const FindingGroup& group) {
  std::int64_t count = 0;
  for (const Finding* finding : group) count += finding->count;
  return count;
}

std::vector<std::string> other_places(const FindingGroup& group) {
  if (group.size() < 2) return {};
  FindingGroup others(group.begin() + 1, group.end());
  std::ranges::stable_sort(others, {}, [](const Finding* finding) { return finding->spot.line; });
  const std::size_t left_out = others.size() - std::min(others.size(), kMaxPlaces);
  others.resize(others.size() - left_out);
  const std::string more = left_out == 0 ? "" : fmt::format(", and {} more", left_out);
  const bool is_notebook = group.front()->spot.cell > 0;
  const std::string_view noun = is_notebook ? "" : others.size() == 1 ? "line " : "lines ";
  const bool says_the_same = std::ranges::all_of(
      others, [&](const Finding* one) { return one->message == group.front()->message; });
  std::vector<std::string> lines;
  for (const Finding* one : others) {
    lines.push_back(says_the_same
                        ? line_text(*one)
                        : fmt::format("Also at {}{}: {}", is_notebook ? "" : "line ",
                                      line_text(*one), cut_end(one->spot.code, kCodeWidth)));
  }
  if (!says_the_same) {
    if (left_out > 0) lines.push_back(fmt::format("Also at {} more places.", left_out));
    return lines;
  }
  return {fmt::format("Also at {}{}{}.", noun, fmt::join(lines, is_notebook ? "; " : ", "), more)};
}

}  // namespace rooftile
