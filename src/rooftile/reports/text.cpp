// The report on a terminal: what it costs, where the time goes, what to change, what was left out.
#include "rooftile/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "rooftile/reports/reports.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

constexpr int kIndent = 4;  // of what belongs to a finding
constexpr int kShortestPlace = 24;

constexpr std::string_view kBold = "1";
constexpr std::string_view kDim = "2";

std::string painted(const std::string& text, std::string_view code, const TextStyle& style) {
  if (!style.colour || code.empty() || text.empty()) return text;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

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

bool is_shown(const Finding& finding, const TextStyle& style) {
  return style.verbose || finding.level != Level::info;
}

// Scripts alone have none.
bool has_operations(const Report& report) {
  return !report.scripts || report.coverage.ops > 0 || !report.traces.empty();
}

std::string title(const Report& report, const TextStyle& style) {
  std::vector<std::string> inputs;
  for (const std::string& input : report.inputs) {
    inputs.push_back(input == "-" ? "standard input" : printable(input));
  }
  const std::string network = painted(join(inputs, " + "), kBold, style);
  std::string line = network;
  if (!report.device.name.empty()) {
    line += fmt::format(" on {}", report.device.name);
    if (has_operations(report)) line += fmt::format(", {}", mode_name(report.mode));
  }
  const std::string options = options_text(report);
  if (!options.empty()) line += ", " + options;
  return line + '\n';
}

std::string budget_text(const Report& report) {
  if (!report.budget) return "";
  if (!is_sufficient(report.coverage)) {
    return fmt::format("; too few operations to judge the budget of {}", time_text(*report.budget));
  }
  const bool kept = report.total.expected <= *report.budget;
  return fmt::format("; {} the budget of {}", kept ? "within" : "over", time_text(*report.budget));
}

std::string time_line(const Report& report) {
  if (report.coverage.ops_with_time <= 0) return "Expected time unknown.\n";
  return fmt::format("Expected time {}, likely {}{}.\n", range_text(report.total),
                     time_text(report.total.expected), budget_text(report));
}

std::string work_line(const Report& report) {
  if (report.coverage.ops_with_time <= 0 && report.flop.value() <= 0) return "";
  std::string line = flop_text(report.flop);
  const Seconds time = report.total.expected;
  if (time.value() > 0 && report.flop.value() > 0) {
    const FlopPerSecond rate = report.flop / time;
    line += " at " + rate_text(rate);
    if (report.device.peak) {
      line += fmt::format(", {} of the {} peak", share_text(rate / *report.device.peak),
                          report.device.peak_dtype);
    }
  }
  if (report.parameters > 0) {
    line += fmt::format("; {} parameters", count_text(report.parameters));
  }
  return line + ".\n";
}

std::string header(const Report& report, const TextStyle& style) {
  std::string text = title(report, style);
  const std::string scripts = scripts_text(report);
  if (!scripts.empty()) text += wrapped(scripts + '.', style.width);
  if (report.device.name.empty() || !has_operations(report)) {
    // Scripts alone take no time.
  } else if (report.traces.empty()) {
    text += time_line(report) + work_line(report);
    for (const std::string& line : step_lines(report)) text += wrapped(line, style.width);
  } else {
    for (const std::string& line : trace_lines(report)) text += wrapped(line, style.width);
  }
  if (!report.device.calibrated && !report.device.id.empty()) {
    text += wrapped("The time model is not calibrated on this GPU: ranges are wide.", style.width);
  }
  for (const std::string& note : report.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

// "warning  gemm/unaligned-row-stride  lm_head                    saves 0.8–1.5 ms, 12 %"
std::string finding_headline(const Finding& finding, const Report& report, const TextStyle& style) {
  const std::string level = fmt::format("{:<7}", to_string(finding.level));
  const std::string saving = saving_text(finding, report);
  const std::string times = finding.count > 1 ? fmt::format(" (×{})", finding.count) : "";
  const std::string before = fmt::format("{}  {}  ", level, finding.rule);
  const int taken = display_width(before + times + "  " + saving);
  std::string place = place_text(finding.location, report.inputs.size() > 1);
  if (style.width > 0) place = cut_start(place, std::max(kShortestPlace, style.width - taken));
  const int gap = style.width - taken - display_width(place);
  // A saving that does not fit starts a line of its own.
  const std::string padding = gap >= 0 || style.width == 0
                                  ? std::string(static_cast<std::size_t>(std::max(gap, 0) + 2), ' ')
                                  : '\n' + std::string(kIndent, ' ');
  const std::string line =
      fmt::format("{}  {}  {}{}", painted(level, level_colour(finding.level), style),
                  painted(finding.rule, kBold, style), place, times);
  if (saving.empty()) return line + '\n';
  return fmt::format("{}{}{}\n", line, padding, painted(saving, kBold, style));
}

std::string fix_line(const Fix& fix) {
  if (fix.text.empty()) return "";
  const std::string_view exactness = exactness_text(fix.exactness);
  std::string line = "Fix: " + fix.text;
  if (exactness.empty()) return line;
  if (line.back() == '.') line.pop_back();
  return fmt::format("{} ({}).", line, exactness);
}

// `before` is the finding printed before, or null.
std::string finding_text(const Finding& finding, const Finding* before, const Report& report,
                         const TextStyle& style) {
  std::string text = finding_headline(finding, report, style);
  text += wrapped(printable(finding.message), style.width, kIndent);
  const std::string fix = fix_line(finding.fix);
  const bool is_same = before != nullptr && before->rule == finding.rule && !fix.empty() &&
                       fix_line(before->fix) == fix;
  text += wrapped(is_same ? "Fix: as above." : printable(fix), style.width, kIndent);
  if (!style.verbose) return text;
  for (const std::string& fact : finding.evidence) {
    text += painted(wrapped("- " + printable(fact), style.width, kIndent), kDim, style);
  }
  return text;
}

std::string findings_text(const Report& report, const TextStyle& style) {
  std::string text;
  const Finding* before = nullptr;
  for (const Finding& finding : report.findings) {
    if (!is_shown(finding, style)) continue;
    if (!text.empty()) text += '\n';
    text += finding_text(finding, before, report, style);
    before = &finding;
  }
  return text.empty() ? std::string(nothing_found_text(report)) + '\n' : text;
}

// What stands behind the numbers: coverage and what was left out.
std::string basis_text(const Report& report, const TextStyle& style) {
  const std::string coverage = coverage_text(report);
  std::string text;
  if (!coverage.empty()) text = wrapped("Times cover " + coverage + '.', style.width);
  const std::string skipped = skipped_text(report);
  if (!skipped.empty()) text += wrapped("Left out: " + skipped + '.', style.width);
  const std::string set_aside = set_aside_text(report);
  if (!set_aside.empty()) text += wrapped("Not shown: " + set_aside + '.', style.width);
  if (!style.verbose) return text;
  for (const std::string& comment : report.set_aside.unused_comments) {
    text += wrapped("Comment not needed: " + printable(comment) + '.', style.width);
  }
  return text;
}

std::string next_step(const Report& report, const TextStyle& style) {
  const auto shown = [&](const Finding& finding) { return is_shown(finding, style); };
  const auto first = std::find_if(report.findings.begin(), report.findings.end(), shown);
  if (first != report.findings.end()) {
    const auto fixes =
        std::count_if(report.findings.begin(), report.findings.end(), [&](const auto& finding) {
          return shown(finding) && finding.fix.safe && !finding.fix.edits.empty();
        });
    const std::string fix =
        fixes > 0 ? fmt::format("; rooftile fix makes {} of the changes", fixes) : "";
    return "Next: rooftile explain " + first->rule + fix + '\n';
  }
  const auto hidden = std::count_if(report.findings.begin(), report.findings.end(),
                                    [&](const Finding& finding) { return !shown(finding); });
  if (hidden > 0) {
    return fmt::format("Next: --verbose shows {} more for information.\n", hidden);
  }
  if (report.inputs.size() != 1 || report.inputs.front() == "-" || report.device.id.empty()) {
    return "";
  }
  return fmt::format("Next: rooftile ops {} --gpu {}\n", printable(report.inputs.front()),
                     report.device.id);
}

}  // namespace

std::string render_text(const Report& report, const TextStyle& style) {
  std::string text = header(report, style);
  if (!report.traces.empty() && has_pass(report.traces.front())) {
    text += '\n' + table_text(pass_table(report.traces.front()), 0, 2);
    if (report.traces.size() > 1) text += '\n' + table_text(ranks_table(report), 0, 2);
  }
  if (report.kinds.size() > 1) text += '\n' + table_text(kinds_table(report), 0, 2);
  text += '\n' + findings_text(report, style);
  const std::string basis = basis_text(report, style);
  text += basis.empty() ? "" : '\n' + basis;
  return text + next_step(report, style);
}

}  // namespace rooftile
