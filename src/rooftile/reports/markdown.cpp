// The report as Markdown, for a pull request or an issue.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/reports/groups.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

// Text of a model in running Markdown: what would start markup is escaped.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_[]<>|#").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// A code span survives backticks in the text when its fence is longer.
std::string code(std::string_view text) {
  const std::string plain = printable(text);
  std::size_t longest = 0, run = 0;
  for (const char c : plain) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  if (longest == 0) return fmt::format("`{}`", plain);
  const std::string fence(longest + 1, '`');
  return fmt::format("{0} {1} {0}", fence, plain);
}

std::string header(const Report& report) {
  std::vector<std::string> inputs;
  for (const std::string& input : report.inputs) inputs.push_back(code(input));
  std::string text = "## Rooftile: " + join(inputs, " + ");
  if (report.device.name.empty()) return text + "\n\n" + escaped(scripts_text(report)) + ".\n";
  text += fmt::format(" on {}\n\n{}", escaped(report.device.name), mode_name(report.mode));
  const std::string options = options_text(report);
  if (!options.empty()) text += ", " + escaped(options);
  if (!report.traces.empty()) {
    text += ".\n";
    for (const std::string& line : trace_lines(report)) text += '\n' + escaped(line) + '\n';
    return text;
  }
  if (!is_sufficient(report.coverage)) {
    return text + "; expected time unknown: " + escaped(report.not_judged_because) + ".\n";
  }
  text += fmt::format("; expected time **{}**, likely {}", range_text(report.total),
                      time_text(report.total.expected));
  if (report.budget) {
    text += fmt::format(", {} the budget of {}",
                        report.total.expected <= *report.budget ? "within" : "**over**",
                        time_text(*report.budget));
  }
  if (!report.device.calibrated)
    text += ". The time model is not calibrated on this GPU" +
            (report.device.peak_dtype.empty() ? std::string() : " in " + report.device.peak_dtype);
  text += ".\n";
  for (const std::string& line : step_lines(report)) text += '\n' + escaped(line) + '\n';
  return text;
}

std::string finding_markdown(const FindingGroup& group, const Report& report) {
  const Finding& finding = *group.front();
  const std::int64_t count = count_of(group);
  const std::string times = count > 1 ? fmt::format(" (×{})", count) : "";
  const std::string saving = saving_text(finding, report);
  std::string text =
      fmt::format("### {}: {}{}\n\n**{}**{} · {}\n\n{}\n", finding.rule,
                  code(place_text(finding.location, report.inputs.size() > 1).joined()), times,
                  to_string(finding.level), saving.empty() ? "" : " · " + saving,
                  code("rooftile explain " + finding.rule), escaped(finding.message));
  for (const std::string& line : other_places(group)) text += '\n' + escaped(line) + "  \n";
  if (!finding.fix.text.empty()) {
    const std::string_view exactness = exactness_text(finding);
    text += "\n**Fix:** " + escaped(finding.fix.text);
    text += exactness.empty() ? "\n" : fmt::format(" *({})*\n", exactness);
  }
  if (finding.evidence.empty()) return text;
  text += "\n<details><summary>Evidence</summary>\n\n";
  for (const Evidence& fact : finding.evidence) {
    text += "- " + escaped(to_string(fact)) + '\n';
  }
  return text + "\n</details>\n";
}

std::string basis(const Report& report) {
  const std::string coverage = coverage_text(report);
  std::string text = coverage.empty() ? "" : fmt::format("Times cover {}.", coverage);
  const std::string skipped = skipped_text(report);
  if (!skipped.empty()) text += fmt::format(" Left out: {}.", escaped(skipped));
  const std::string set_aside = set_aside_text(report);
  if (!set_aside.empty()) text += fmt::format(" Not shown: {}.", set_aside);
  text += '\n';
  if (!report.notes.empty()) text += '\n';
  for (const std::string& note : report.notes) text += "- " + escaped(note) + '\n';
  return text;
}

}  // namespace

std::string render_markdown(const Report& report) {
  std::string text = header(report);
  if (!report.traces.empty() && has_pass(report.traces.front())) {
    text += '\n' + table_markdown(pass_table(report.traces.front(), report.traces.size() > 1));
    if (report.traces.size() > 1) text += '\n' + table_markdown(ranks_table(report));
  }
  if (report.kinds.size() > 1) text += '\n' + table_markdown(kinds_table(report));
  if (report.findings.empty()) text += fmt::format("\n{}\n", nothing_found_text(report));
  for (const FindingGroup& group : grouped(report.findings, Level::info)) {
    text += '\n' + finding_markdown(group, report);
  }
  return text + '\n' + basis(report);
}

extern const ReportFormat markdown_format{
    "markdown", [](const Report& report, const TextStyle&) { return render_markdown(report); }};

}  // namespace rooftile
