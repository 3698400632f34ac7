// rooftile check: read, judge, tell.
#include <algorithm>

#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

std::string rendered(const Report& report, const std::string& format, const TextStyle& style) {
  if (format == "json") return render_json(report);
  if (format == "sarif") return render_sarif(report);
  if (format == "markdown") return render_markdown(report);
  return render_text(report, style);
}

// Machines see what people see: info only where it was asked for.
void drop_info(Report& report) {
  std::erase_if(report.findings, [](const Finding& f) { return f.level == Level::info; });
  std::erase_if(report.rules, [&](const RuleSummary& rule) {
    return std::none_of(report.findings.begin(), report.findings.end(),
                        [&](const Finding& f) { return f.rule == rule.id; });
  });
}

ExitCode verdict(const Report& report, const CheckCommand& command) {
  const bool found =
      std::any_of(report.findings.begin(), report.findings.end(),
                  [&](const Finding& finding) { return finding.level >= command.fail_on; });
  // A budget that cannot be judged is not kept.
  const bool over_budget = command.budget && (report.total.expected > *command.budget ||
                                              !is_sufficient(report.coverage));
  return found || over_budget ? ExitCode::findings : ExitCode::clean;
}

}  // namespace

Result<Outcome> run(const CheckCommand& command, const TextStyle& style) {
  const auto rules = pick_rules(command.select, command.ignore);
  if (!rules) return tl::unexpected(rules.error());
  const auto subject = read_subject(command.input);
  if (!subject) return tl::unexpected(subject.error());

  Report report = subject->device ? check(subject->workload, *subject->device, *rules)
                                  : check(subject->workload, *rules);
  report.options = command.input.shown;
  report.budget = command.budget;
  TextStyle shown = style;
  shown.verbose = command.output.verbose || command.fail_on == Level::info;
  // The text report counts what it hides.
  if (!shown.verbose && command.output.format != "text") drop_info(report);
  return Outcome{rendered(report, command.output.format, shown), verdict(report, command)};
}

}  // namespace rooftile
