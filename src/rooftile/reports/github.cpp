// Workflow commands of GitHub Actions: each finding becomes an annotation of the pull request.
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/path.h"
#include "rooftile/base/text.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

// A value of a property ends at a comma or a colon, a message at the end of the line.
std::string encoded(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || special.find(c) != std::string_view::npos) {
      result += fmt::format("%{:02X}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string property(std::string_view text) { return encoded(text, "%:,"); }
std::string value(std::string_view text) { return encoded(text, "%"); }

// A notebook's lines are those of a cell, which its file does not know.
std::string place(const Finding& finding) {
  const Provenance& at = finding.location;
  if (at.file.empty() || at.file == "-") return "";
  std::string text = " file=" + property(normal_path(at.file)) + ",";
  const bool is_notebook = finding.spot.line > 0 && finding.spot.column == 0;
  if (at.line > 0 && !is_notebook) text += fmt::format("line={},", at.line);
  return text;
}

std::string annotation(const Finding& finding, const Report& report) {
  std::string text = finding.message;
  const std::string& name =
      finding.location.node.empty() ? finding.location.module : finding.location.node;
  if (!name.empty()) text = name + ": " + text;
  if (!finding.fix.text.empty()) text += "\nFix: " + finding.fix.text;
  if (const std::string saving = saving_text(finding, report); !saving.empty()) {
    text += "\n" + saving;
  }
  const std::string where = place(finding);
  return fmt::format("::{}{}title={}::{}\n", severity_word(finding.level, "notice"),
                     where.empty() ? " " : where, property("rooftile " + finding.rule),
                     value(text));
}

}  // namespace

std::string render_github(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += annotation(finding, report);
  if (!report.findings.empty()) return text;
  return printable(nothing_found_text(report)) + '\n';
}

extern const ReportFormat github_format{
    "github", [](const Report& report, const TextStyle&) { return render_github(report); }};

}  // namespace rooftile
