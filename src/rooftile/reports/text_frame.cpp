#include "rooftile/reports/text_frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

// What savings are of.
std::string_view pass_word(const Report& report) {
  if (report.traces.empty()) return report.mode == Mode::training ? "whole step" : "whole pass";
  const TraceSummary& trace = report.traces.front();
  if (!trace.steps.durations.empty()) return "whole step";
  return is_judged_whole(trace) ? "whole recording" : "judged part";
}

// Scripts alone have none.
bool has_operations(const Report& report) {
  return !report.scripts || report.coverage.ops > 0 || !report.traces.empty();
}

std::string title(const Report& report, const TextStyle& style) {
  std::vector<std::string> inputs;
  for (const std::string& input : report.inputs) {
    inputs.push_back(input == "-" ? "standard input" : shown_path(input));
  }
  const std::string network = painted(join(inputs, " + "), kBold, style);
  std::string line = network;
  if (!report.device.name.empty()) {
    line += fmt::format(" on {}", printable(report.device.name));
    // A recording without a network may be of anything.
    const bool says_mode =
        has_operations(report) && (report.traces.empty() || report.mode == Mode::training ||
                                   shows_network(report.traces.front()));
    if (says_mode) line += fmt::format(", {}", mode_name(report.mode));
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
  if (!is_sufficient(report.coverage)) {
    return fmt::format("Expected time unknown: {}.\n", printable(report.not_judged_because));
  }
  return fmt::format("Expected time {}, likely {}{}.\n", range_text(report.total),
                     time_text(report.total.expected), budget_text(report));
}

std::string work_line(const Report& report) {
  if (report.coverage.ops_with_time <= 0 && report.flop.value() <= 0) return "";
  std::string line = flop_text(report.flop);
  const Seconds time = report.total.expected;
  if (is_sufficient(report.coverage) && time.value() > 0 && report.flop.value() > 0) {
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

bool states_savings(const Report& report, const TextStyle& style) {
  return std::ranges::any_of(report.findings, [&](const Finding& finding) {
    return finding.saving && (style.verbose || finding.level != Level::info);
  });
}

}  // namespace

std::string painted(const std::string& text, std::string_view code, const TextStyle& style) {
  if (!style.colour || code.empty() || text.empty()) return text;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string header_text(const Report& report, const TextStyle& style) {
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
    const std::string dtype =
        report.device.peak_dtype.empty() ? "" : " in " + report.device.peak_dtype;
    text += wrapped(
        fmt::format("The time model is not calibrated on this GPU{}: ranges are wide.", dtype),
        style.width);
  }
  for (const std::string& note : report.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

std::string basis_text(const Report& report, const TextStyle& style) {
  const std::string coverage = coverage_text(report);
  std::string text;
  if (!coverage.empty()) text = wrapped("Times cover " + coverage + '.', style.width);
  const std::string skipped = skipped_text(report);
  if (!skipped.empty()) text += wrapped("Left out: " + skipped + '.', style.width);
  if (states_savings(report, style)) {
    text += wrapped(
        fmt::format("Savings are in time and percent of the {}, and overlap.", pass_word(report)),
        style.width);
  }
  const std::string set_aside = set_aside_text(report);
  if (!set_aside.empty()) text += wrapped("Not shown: " + set_aside + '.', style.width);
  if (!style.verbose) return text;
  for (const std::string& comment : report.set_aside.unused_comments) {
    text += wrapped("Comment not needed: " + printable(comment) + '.', style.width);
  }
  return text;
}

}  // namespace rooftile
