#include "rooftile/reports/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rooftile/reports/layout.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxPlaces = 12;  // a reader who needs more takes JSON
constexpr int kCodeWidth = 60;

bool is_one_change(const Finding& a, const Finding& b) {
  return a.spot.line > 0 && b.spot.line > 0 && !a.saving && !b.saving && a.rule == b.rule &&
         a.level == b.level && a.step == b.step && a.location.file == b.location.file &&
         !a.fix.text.empty() && a.fix.text == b.fix.text && a.fix.exactness == b.fix.exactness;
}

// "105"; in a notebook "cell 3, line 2".
std::string line_text(const Finding& finding) {
  const std::int64_t line = finding.location.line;
  return finding.spot.cell > 0 ? fmt::format("cell {}, line {}", finding.spot.cell, line)
                               : fmt::format("{}", line);
}

bool is_wait_of_one_step(const Finding& a, const Finding& b) {
  return !a.step.empty() && a.step == b.step && !a.saving && !b.saving;
}

// One line for each wait, those with one fix in one file joined.
std::vector<std::string> other_waits(const FindingGroup& group) {
  const Finding& first = *group.front();
  std::vector<std::string> lines{
      fmt::format("{} more {} for the GPU in each step of the loop at {}; each empties the launch "
                  "queue, so mend them together:",
                  group.size() - 1, group.size() == 2 ? "wait" : "waits", shown_path(first.step))};
  std::string fix = first.fix.text;
  for (std::size_t i = 1; i < group.size(); ++i) {
    const Finding& one = *group[i];
    const std::string place =
        one.spot.cell > 0 ? fmt::format("{}, {}", shown_path(one.location.file), line_text(one))
                          : fmt::format("{}:{}", shown_path(one.location.file), one.location.line);
    const std::string rule = one.rule == first.rule ? "" : " (" + one.rule + ")";
    if (i > kMaxPlaces) {
      lines.push_back(fmt::format("- and {} more", group.size() - i));
      break;
    }
    lines.push_back(fmt::format("- {}: {}{}{}", place, one.message, rule,
                                one.fix.text == fix ? "" : ". Fix: " + one.fix.text));
    fix = one.fix.text;
  }
  return lines;
}

}  // namespace

std::vector<FindingGroup> grouped(const std::vector<Finding>& findings, Level least) {
  std::vector<FindingGroup> groups;
  for (const Finding& finding : findings) {
    if (finding.level < least) continue;
    const auto same = std::ranges::find_if(groups, [&](const FindingGroup& group) {
      return is_wait_of_one_step(*group.front(), finding) || is_one_change(*group.front(), finding);
    });
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

bool is_step_of_waits(const FindingGroup& group) {
  return group.size() > 1 && std::ranges::any_of(group, [&](const Finding* one) {
           return one != group.front() && !is_one_change(*group.front(), *one);
         });
}

std::vector<std::string> other_places(const FindingGroup& group) {
  if (group.size() < 2) return {};
  if (is_step_of_waits(group)) return other_waits(group);
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
