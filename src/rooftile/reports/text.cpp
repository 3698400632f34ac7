// The report on a terminal: what it costs, where the time goes, what to change, what was left out.
#include "rooftile/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "rooftile/base/path.h"
#include "rooftile/reports/collectives.h"
#include "rooftile/reports/groups.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/text_frame.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

constexpr int kIndent = 4;  // of what belongs to a finding
constexpr int kShortestName = 24;

std::string_view level_colour(Level level) {
  switch (level) {
    case Level::error:
      return "1;31";
    case Level::warning:
      return "1;33";
    case Level::advice:
      return "1;36";
    case Level::info:
      return kDim;
  }
  return "";
}

Level least_shown(const TextStyle& style) { return style.verbose ? Level::info : Level::advice; }

bool is_shown(const Finding& finding, const TextStyle& style) {
  return finding.level >= least_shown(style);
}

// A link on "train.py:12" where the terminal knows links (OSC 8).
std::string linked(const std::string& text, const Provenance& location, const TextStyle& style) {
  if (!style.links || location.line <= 0 || location.file == "-") return text;
  return fmt::format("\033]8;;{}#{}\033\\{}\033]8;;\033\\", file_uri(location.file), location.line,
                     text);
}

// "warning  gemm/unaligned-row-stride  lm_head                    saves 0.8–1.5 ms, 12 %"
std::string finding_headline(const FindingGroup& group, const Report& report,
                             const TextStyle& style) {
  const Finding& finding = *group.front();
  const std::int64_t count = count_of(group);
  const std::string level = fmt::format("{:<7}", to_string(finding.level));
  const std::string saving = saving_text(finding, report);
  const std::string times = count > 1 ? fmt::format(" (×{})", count) : "";
  const std::string before = fmt::format("{}  {}  ", level, finding.rule);
  PlaceText place = place_text(finding.location, report.inputs.size() > 1);
  const int taken = display_width(before + times + "  " + saving) + (place.path.empty() ? 0 : 1);
  const int room = style.width - taken - display_width(place.path);
  if (style.width > 0) place.name = cut_middle(place.name, std::max(kShortestName, room));
  const int gap = style.width - taken - display_width(place.path + place.name);
  // A saving that does not fit starts a line of its own.
  const std::string padding = gap >= 0 || style.width == 0
                                  ? std::string(static_cast<std::size_t>(std::max(gap, 0) + 2), ' ')
                                  : '\n' + std::string(kIndent, ' ');
  place.path = linked(place.path, finding.location, style);
  const std::string line =
      fmt::format("{}  {}  {}{}", painted(level, level_colour(finding.level), style),
                  painted(finding.rule, kBold, style), place.joined(), times);
  if (saving.empty()) return line + '\n';
  return fmt::format("{}{}{}\n", line, padding, painted(saving, kBold, style));
}

std::string fix_line(const Finding& finding) {
  if (finding.fix.text.empty()) return "";
  const std::string_view exactness = exactness_text(finding);
  std::string line = "Fix: " + finding.fix.text;
  if (exactness.empty()) return line;
  if (line.back() == '.') line.pop_back();
  return fmt::format("{} ({}).", line, exactness);
}

// `before` is the finding printed before, or null.
std::string group_text(const FindingGroup& group, const Finding* before, const Report& report,
                       const TextStyle& style) {
  const Finding& finding = *group.front();
  std::string text = finding_headline(group, report, style);
  text += wrapped(printable(finding.message), style.width, kIndent);
  const std::string fix = fix_line(finding);
  const bool is_same =
      before != nullptr && before->rule == finding.rule && !fix.empty() && fix_line(*before) == fix;
  const std::string change =
      wrapped(is_same ? "Fix: as above." : printable(fix), style.width, kIndent);
  const bool is_step = is_step_of_waits(group);  // each with a fix of its own
  if (is_step) text += change;
  for (const std::string& line : other_places(group)) {
    text += wrapped(printable(line), style.width, kIndent);
  }
  if (!is_step) text += change;
  if (!style.verbose) return text;
  for (const Evidence& fact : finding.evidence) {
    text += painted(wrapped("- " + printable(to_string(fact)), style.width, kIndent), kDim, style);
  }
  return text;
}

std::string findings_text(const Report& report, const TextStyle& style) {
  std::string text;
  const Finding* before = nullptr;
  for (const FindingGroup& group : grouped(report.findings, least_shown(style))) {
    if (!text.empty()) text += '\n';
    text += group_text(group, before, report, style);
    before = group.front();
  }
  return text.empty() ? nothing_found_text(report) + '\n' : text;
}

// "1 more for information (precision/amp-off)"; empty where nothing is hidden.
std::string hidden_text(const Report& report, const TextStyle& style) {
  constexpr std::size_t kMostNamed = 3;
  std::size_t hidden = 0;
  std::vector<std::string> rules;
  for (const Finding& finding : report.findings) {
    if (is_shown(finding, style)) continue;
    ++hidden;
    if (std::ranges::find(rules, finding.rule) == rules.end()) rules.push_back(finding.rule);
  }
  if (hidden == 0) return "";
  const bool is_long = rules.size() > kMostNamed;
  if (is_long) rules.resize(kMostNamed);
  return fmt::format("{} more for information ({}{})", hidden, join(rules, ", "),
                     is_long ? " …" : "");
}

std::string next_step(const Report& report, const TextStyle& style) {
  const auto shown = [&](const Finding& finding) { return is_shown(finding, style); };
  const std::string hidden = hidden_text(report, style);
  const auto first = std::find_if(report.findings.begin(), report.findings.end(), shown);
  if (first != report.findings.end()) {
    const auto fixes =
        std::count_if(report.findings.begin(), report.findings.end(), [&](const auto& finding) {
          return shown(finding) && finding.fix.safe && !finding.fix.edits.empty();
        });
    const std::string fix =
        fixes > 0 ? fmt::format("; rooftile fix makes {} of the changes", fixes) : "";
    const std::string more = hidden.empty() ? "" : "; --verbose shows " + hidden;
    return wrapped("Next: rooftile explain " + first->rule + fix + more, style.width);
  }
  if (!hidden.empty()) return wrapped("Next: --verbose shows " + hidden + '.', style.width);
  const bool listed = report.coverage.ops_with_time > 0 || !report.traces.empty();
  if (!listed || report.arguments.empty()) return "";
  return fmt::format("Next: rooftile ops {}\n", printable(report.arguments));
}

}  // namespace

std::string render_text(const Report& report, const TextStyle& style) {
  std::string text = header_text(report, style);
  if (!report.traces.empty() && has_pass(report.traces.front())) {
    text += '\n' + table_text(pass_table(report.traces.front(), report.traces.size() > 1), 0, 2);
    if (report.traces.size() > 1) text += '\n' + table_text(ranks_table(report), 0, 2);
  }
  if (!report.collectives.empty()) text += '\n' + table_text(collectives_table(report), 0, 2);
  if (report.kinds.size() > 1) text += '\n' + table_text(kinds_table(report, style.terminal), 0, 2);
  text += '\n' + findings_text(report, style);
  const std::string basis = basis_text(report, style);
  if (!basis.empty() || !report.traces.empty()) text += '\n' + basis;
  return text + next_step(report, style);
}

extern const ReportFormat text_format{"text", render_text, true};

}  // namespace rooftile
