#include "rooftile/cli/measure_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

int table_width(const TextStyle& style) { return style.terminal ? style.width : 0; }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string error_text(const FitError& error) {
  return fmt::format("{} / {} / {}", percent(error.mean), percent(error.median),
                     percent(error.p90));
}

// "+12 %": how far the prediction is above the measurement.
std::string deviation(Seconds predicted, Seconds measured) {
  if (!(measured > Seconds(0))) return "";
  return fmt::format("{:+.0f} %", 100 * (predicted / measured - 1));
}

std::string signed_time_text(Seconds time) {
  return time < Seconds(0) ? "-" + time_text(Seconds(-time.value())) : time_text(time);
}

std::vector<std::string> op_row(const Op& op, const gpu::CheckedOp& checked) {
  std::string verdict = checked.failure;
  std::string off;
  if (checked.measured && checked.predicted) {
    const bool inside =
        *checked.measured >= checked.predicted->low && *checked.measured <= checked.predicted->high;
    verdict = inside ? "in range" : "out of range";
    off = deviation(checked.predicted->expected, *checked.measured);
  }
  return {printable(gpu::operation_text(op)),
          checked.predicted ? range_text(*checked.predicted) : "",
          checked.measured ? time_text(*checked.measured) : "",
          off,
          printable(verdict),
          printable(checked.kernel)};
}

TextTable ops_table(const Workload& workload, const gpu::Verification& verification) {
  TextTable table{{{"operation", false, Cut::end},
                   {"predicted/run", true},
                   {"measured/run", true},
                   {"off", true},
                   {"verdict"},
                   {"kernel", false, Cut::end}},
                  {}};
  for (const gpu::CheckedOp& checked : verification.ops) {
    table.rows.push_back(op_row(workload.ops[checked.op], checked));
  }
  return table;
}

std::string finding_verdict(const gpu::CheckedFinding& checked) {
  const auto saving = checked.measured_saving();
  if (!saving) return "not measurable here";
  if (*saving >= checked.predicted.low && *saving <= checked.predicted.high) return "in range";
  return (*saving > Seconds(0)) == (checked.predicted.expected > Seconds(0)) ? "same sign"
                                                                             : "other sign";
}

std::vector<std::string> finding_row(const Finding& finding, const gpu::CheckedFinding& checked) {
  const auto saving = checked.measured_saving();
  return {finding.rule,
          fmt::format("{}/{}", checked.measured_ops, checked.ops),
          saving ? time_text(*checked.before) : "",
          saving ? time_text(*checked.after) : "",
          saving ? signed_time_text(checked.predicted.expected) : "",
          saving ? signed_time_text(*saving) : "",
          finding_verdict(checked)};
}

TextTable findings_table(const std::vector<Finding>& findings,
                         const gpu::Verification& verification) {
  TextTable table{{{"finding"},
                   {"ops", true},
                   {"before", true},
                   {"after", true},
                   {"saving predicted", true},
                   {"measured", true},
                   {"verdict"}},
                  {}};
  for (const gpu::CheckedFinding& checked : verification.findings) {
    table.rows.push_back(finding_row(findings[checked.finding], checked));
  }
  return table;
}

// Mean error and coverage over the operations with both times.
std::string summary_line(const gpu::Verification& verification) {
  double count = 0, inside = 0, error = 0;
  for (const gpu::CheckedOp& op : verification.ops) {
    if (!op.measured || !op.predicted) continue;
    ++count;
    error += std::abs(op.predicted->expected / *op.measured - 1);
    inside += *op.measured >= op.predicted->low && *op.measured <= op.predicted->high ? 1 : 0;
  }
  if (count == 0) return "no operation could be measured\n";
  return fmt::format("{} of {} operations measured: mean error {}, {} inside their range\n", count,
                     verification.ops.size(), percent(error / count), share_text(inside / count));
}

// Empty where the GPU runs as fast as expected.
std::string pace_text(const FittedSection& section) {
  std::vector<std::string> parts;
  const auto add = [&](Pace pace, const char* what) {
    const double factor = section.paces.of(pace);
    if (factor != 1) parts.push_back(fmt::format("{:.2f} of the {}", factor, what));
  };
  add(Pace::sm_clock, "SM clock");
  add(Pace::memory_clock, "memory bandwidth");
  add(Pace::power, "sustained rate");
  if (parts.empty()) return "";
  return fmt::format(
      "{}: at {} expected\n  (locked clocks, a power limit, a part of a GPU, other programs?)\n",
      section.key, fmt::join(parts, ", "));
}

// Empty where the constants explain the points; sound ones leave a median of 11 % at most.
std::string misfit_text(const FittedSection& section) {
  constexpr double kPoorFit = 0.2;
  if (section.after.median <= kPoorFit) return "";
  return fmt::format(
      "{}: half of the points stay more than {} off\n"
      "  (of another GPU, with other programs, of other layouts?)\n",
      section.key, percent(section.after.median));
}

}  // namespace

std::string calibration_text(const CalibrationResult& result, const TextStyle& style) {
  TextTable table{{{"section"},
                   {"started from"},
                   {"points", true},
                   {"error before: mean / median / p90", true},
                   {"after", true}},
                  {}};
  for (const FittedSection& section : result.sections) {
    table.rows.push_back({section.key, section.donor, fmt::format("{}", section.points),
                          error_text(section.before), error_text(section.after)});
  }
  std::string text = table_text(table, table_width(style));
  for (const FittedSection& section : result.sections) {
    text += pace_text(section) + misfit_text(section);
  }
  if (result.unused > 0) {
    text += fmt::format("{} points fit no section and were left out\n", result.unused);
  }
  return text;
}

std::string session_text(const gpu::SessionCounts& counts) {
  std::string text = fmt::format("{} points measured", counts.measured);
  if (counts.known > 0) text += fmt::format(", {} known from before", counts.known);
  if (counts.failed > 0) text += fmt::format(", {} could not be", counts.failed);
  if (counts.left > 0) text += fmt::format(", {} left when the time was over", counts.left);
  return text + "\n";
}

std::string verification_text(const Workload& workload, const std::vector<Finding>& findings,
                              const gpu::Verification& verification, const TextStyle& style) {
  std::string text = table_text(ops_table(workload, verification), table_width(style));
  text += summary_line(verification);
  if (!verification.findings.empty()) {
    text += '\n' + table_text(findings_table(findings, verification), table_width(style));
  }
  if (verification.unmeasurable_findings > 0) {
    text +=
        fmt::format("{} findings do not replace one operation by another and were not measured\n",
                    verification.unmeasurable_findings);
  }
  return text;
}

}  // namespace rooftile
