// rooftile check: read, judge, tell.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "rooftile/base/file.h"
#include "rooftile/base/path.h"
#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/project.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxBaselineBytes = std::size_t{256} << 20U;

// Machines see what people see: info only where it was asked for.
void drop_info(Report& report) {
  std::erase_if(report.findings, [](const Finding& f) { return f.level == Level::info; });
}

void drop_unused_rules(Report& report) {
  std::erase_if(report.rules, [&](const RuleSummary& rule) {
    return std::none_of(report.findings.begin(), report.findings.end(),
                        [&](const Finding& f) { return f.rule == rule.id; });
  });
}

Level fail_on(const CheckCommand& command, const Project& project) {
  if (command.fail_on) return *command.fail_on;
  const auto& setting = project.settings.fail_on;
  return (setting ? parse_level(setting->text) : std::nullopt).value_or(Level::advice);
}

// The file of the flag, else of the settings, relative to their folder.
std::string baseline_path(const CheckCommand& command, const Project& project) {
  if (!command.baseline.empty() || !project.settings.baseline) return command.baseline;
  const std::filesystem::path folder = project.settings.folder;
  return (folder / project.settings.baseline->text).string();
}

Result<void> set_aside_baseline(const std::string& path, Report& report) {
  if (path.empty()) return {};
  const auto text = read_file(path, kMaxBaselineBytes);
  if (!text) {
    return fail(text.error().message + "; --write-baseline makes the baseline", path);
  }
  const auto baseline = parse_baseline(*text);
  if (!baseline) return fail(baseline.error().message, path);
  set_aside_known(*baseline, report);
  return {};
}

// Only a baseline makes way for another one.
Result<Outcome> write_baseline(const std::string& path, const Report& report) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    const auto old = read_file(path, kMaxBaselineBytes);
    if (!old || (!old->empty() && !parse_baseline(*old))) {
      return fail("exists and is no baseline; name another file to write to", path);
    }
  }
  const auto written = write_output(path, render_baseline(report));
  if (!written) return tl::unexpected(written.error());
  return Outcome{fmt::format("{} finding{} in {}\n", report.findings.size(),
                             report.findings.size() == 1 ? "" : "s", printable(path)),
                 ExitCode::clean};
}

ExitCode verdict(const Report& report, const CheckCommand& command, Level lowest) {
  const bool found = std::any_of(report.findings.begin(), report.findings.end(),
                                 [&](const Finding& finding) { return finding.level >= lowest; });
  // A budget that cannot be judged is not kept.
  const bool over_budget = command.budget && (report.total.expected > *command.budget ||
                                              !is_sufficient(report.coverage));
  if (found || over_budget) return ExitCode::findings;
  // A network or trace that nobody could judge has not passed, nor has a script that nobody could
  // read; a folder without training code has.
  const bool is_unread = report.scripts && report.scripts->files > 0 &&
                         report.scripts->with_errors == report.scripts->files;
  const bool is_failure =
      (report.coverage.ops > 0 || is_unread) && verdict_of(report) == CheckVerdict::not_judged;
  return is_failure ? ExitCode::error : ExitCode::clean;
}

// Empty for several files and for standard input, which is gone.
std::string typed_again(const InputOptions& input, const DeviceSummary& device) {
  if (input.files.size() != 1 || input.files.front() == "-" || device.id.empty()) return "";
  const bool gpu_named = !input.gpu.empty() || !input.gpu_file.empty();
  return shell_word(input.files.front()) + (gpu_named ? "" : " --gpu " + device.id) + input.flags;
}

// Of the options that the header shows, those that had an effect.
std::vector<std::pair<std::string, std::string>> used_options(
    std::vector<std::pair<std::string, std::string>> shown, const Workload& workload) {
  std::erase_if(shown, [&](const auto& option) {
    return std::any_of(workload.unused_options.begin(), workload.unused_options.end(),
                       [&](const std::string& flag) {
                         return flag == "--" + option.first || flag.ends_with(" " + option.first);
                       });
  });
  return shown;
}

Report judge(const Subject& subject, const InputOptions& input,
             std::span<const Rule* const> rules) {
  if (!subject.device) return check(subject.workload, rules);
  const BatchCurve curve = curve_of(subject.workload, input.files, input.read, *subject.device);
  return check(subject.workload, *subject.device, rules, &curve);
}

// A repository may switch rules off: whoever reads the report has to know.
void note_settings(const Project& project, const RuleChoice& choice, Report& report) {
  const auto all = std::ssize(all_rules());
  const auto off = all - std::ssize(project.rules);
  const bool by_flags = !choice.select.empty() || !choice.ignore.empty();
  if (project.settings.file.empty() || by_flags || off == 0) return;
  report.notes.push_back(
      fmt::format("{} leaves out {} of {} rules", normal_path(project.settings.file), off, all));
}

}  // namespace

Result<Outcome> run(const CheckCommand& command, const TextStyle& style) {
  InputOptions input = command.input;
  const auto project = open_project(command.rules, input);
  if (!project) return tl::unexpected(project.error());
  const auto subject = read_subject(input);
  if (!subject) return tl::unexpected(subject.error());

  Report report = judge(*subject, input, project->rules);
  note_settings(*project, command.rules, report);
  report.options = used_options(input.shown, subject->workload);
  report.arguments = typed_again(input, report.device);
  report.budget = command.budget;
  const auto before = std::ssize(report.findings);
  ignore_by_path(project->settings, report);
  if (const auto ignored = before - std::ssize(report.findings); ignored > 0) {
    report.notes.push_back(fmt::format("{} leaves out {} finding{} by their paths",
                                       normal_path(project->settings.file), ignored,
                                       ignored == 1 ? "" : "s"));
  }
  if (!command.write_baseline.empty()) return write_baseline(command.write_baseline, report);
  const auto known = set_aside_baseline(baseline_path(command, *project), report);
  if (!known) return tl::unexpected(known.error());
  const Level lowest = fail_on(command, *project);
  TextStyle shown = style;
  shown.verbose = command.output.verbose || lowest == Level::info;
  const ReportFormat& format = report_format(command.output.format);
  if (!shown.verbose && !format.counts_hidden) drop_info(report);
  drop_unused_rules(report);
  return Outcome{format.render(report, shown), verdict(report, command, lowest)};
}

}  // namespace rooftile
