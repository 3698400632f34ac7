// What changed between two recordings: the verdict first, then the parts, operators and kernels.
#include "rooftile/reports/trace_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"

namespace rooftile {
namespace {

using DiffJson = nlohmann::ordered_json;

constexpr std::string_view kDiffSchema = "rooftile-diff/1";
// Unless verbose.
constexpr std::size_t kShownParts = 8, kShownOps = 10, kShownKernels = 10;
// Causes named in the verdict, and the least share of the change that is worth naming.
constexpr std::size_t kNamedCauses = 3;
constexpr double kNamedShare = 0.05;

constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kPartWords{
    {{"compute", "compute"},
     {"exposed_communication", "exposed communication"},
     {"exposed_copy", "exposed copies"},
     {"idle.launch", "waiting for launches"},
     {"idle.synchronization", "synchronization"},
     {"idle.data_loading", "data loading"},
     {"idle.communication_wait", "waiting for other ranks"},
     {"idle.allocator", "memory allocation"},
     {"idle.copy", "calls that copy"},
     {"idle.host_work", "other work of the host"},
     {"idle.module_loading", "first calls, loading or compiling kernels"},
     {"idle.start_up", "start-up"},
     {"idle.between_kernels", "pauses between kernels"},
     {"idle.unrecorded_work", "launched work started late"},
     {"idle.restart", "launched work started late after a wait"},
     {"idle.outside", "outside the host's work"},
     {"idle.migration", "migrations of managed memory"},
     {"idle.unknown", "idle, cause unknown"}}};

std::string part_words(const std::string& key) {
  for (const auto& [name, words] : kPartWords) {
    if (name == key) return std::string(words);
  }
  return key;
}

// The unit is that of the larger, so that two times compare at a glance: "41.2 → 29.8 ms".
std::string times_text(const ChangedTime& time) {
  const std::string after = time_text(time.after), before = time_text(time.before);
  const std::size_t after_unit = after.rfind(' '), before_unit = before.rfind(' ');
  const bool same_unit = after_unit != std::string::npos && before_unit != std::string::npos &&
                         after.substr(after_unit) == before.substr(before_unit);
  return fmt::format("{} → {}", same_unit ? before.substr(0, before_unit) : before, after);
}

// "12", or "11.8" where steps were cut.
std::string mean_text(double count) {
  const double whole = std::round(count);
  return std::abs(count - whole) < 0.005 * std::max(1.0, whole) ? fmt::format("{:.0f}", whole)
                                                                : digits_text(count);
}

std::string signed_time(Seconds change) {
  if (change == Seconds()) return "0";
  const std::string size = time_text(Seconds(std::abs(change.value())));
  return (change < Seconds() ? "−" : "+") + size;
}

// "−28 %"; empty where there was nothing before.
std::string signed_percent(const ChangedTime& time) {
  if (time.before <= Seconds()) return {};
  const double share = time.change() / time.before;
  return (share < 0 ? "−" : "+") + share_text(std::abs(share));
}

std::string_view whole_word(const TraceDiff& diff) { return diff.is_per_step ? "step" : "span"; }

// "data loading −10.9 ms, compute −0.5 ms": what made the change.
std::string causes_text(const TraceDiff& diff) {
  const double least = kNamedShare * std::abs(diff.span.change().value());
  std::vector<std::string> causes;
  for (const TraceDiffPart& part : diff.parts) {
    if (causes.size() == kNamedCauses || std::abs(part.time.change().value()) < least) break;
    causes.push_back(part_words(part.key) + " " + signed_time(part.time.change()));
  }
  return join(causes, ", ");
}

std::string diff_verdict(const TraceDiff& diff) {
  std::string text =
      fmt::format("{} {}", diff.is_per_step ? "Step" : "Span", times_text(diff.span));
  const std::string percent = signed_percent(diff.span);
  if (!percent.empty()) text += " (" + percent + ")";
  if (verdict_of(diff) == TraceVerdict::noise) {
    return text + (diff.spread ? ": no more than steps vary." : ": no change worth a word.");
  }
  const std::string causes = causes_text(diff);
  return text + (causes.empty() ? "." : ": " + causes + ".");
}

std::string spread_text(const TraceDiff& diff) {
  if (!diff.is_per_step) return {};
  if (!diff.spread) return "Too few steps to tell how they vary.";
  return fmt::format("Steps vary by ±{}; a change below that may be noise.",
                     time_text(*diff.spread));
}

std::string diff_side_line(std::string_view title, const TraceDiffSide& side) {
  std::vector<std::string> facts;
  if (!side.format.empty()) facts.push_back(printable(side.format));
  if (!side.gpu.empty()) facts.push_back(printable(side.gpu));
  if (side.ranks > 1) facts.push_back(fmt::format("{} ranks", side.ranks));
  facts.push_back(side.steps > 0 ? fmt::format("{} steps", mean_text(side.steps))
                                 : std::string("no steps found"));
  std::string files = side.files.empty() ? "–" : printable(side.files.front());
  if (side.files.size() > 1) files += fmt::format(" and {} more", side.files.size() - 1);
  return fmt::format("{}  {}: {}\n", title, files, join(facts, ", "));
}

bool is_in_noise(const TraceDiff& diff, Seconds change) {
  return diff.spread && std::abs(change.value()) <= diff.spread->value();
}

std::string part_change(const TraceDiff& diff, const ChangedTime& time) {
  const bool doubtful = time.change() != Seconds() && is_in_noise(diff, time.change());
  return signed_time(time.change()) + (doubtful ? " ?" : "");
}

std::string cell_time(Seconds time) { return time == Seconds() ? "0" : time_text(time); }

TextTable parts_table(const TraceDiff& diff, bool verbose) {
  TextTable table{
      {{std::string(whole_word(diff))}, {"first", true}, {"second", true}, {"change", true}}, {}};
  const auto add = [&](const std::string& name, const ChangedTime& time) {
    table.rows.push_back(
        {name, cell_time(time.before), cell_time(time.after), part_change(diff, time)});
  };
  ChangedTime rest;
  for (std::size_t i = 0; i < diff.parts.size(); ++i) {
    const TraceDiffPart& part = diff.parts[i];
    if (verbose || i < kShownParts) {
      add(part_words(part.key), part.time);
    } else {
      rest.before += part.time.before;
      rest.after += part.time.after;
    }
  }
  if (rest.before + rest.after > Seconds()) add("other", rest);
  add("total", diff.span);
  return table;
}

std::string runs_text(const ChangedCount& runs) {
  const std::string before = mean_text(runs.before), after = mean_text(runs.after);
  return before == after ? after : before + " → " + after;
}

// What is worth saying of an operator: that it came or went, its new shapes, its new kernel.
std::string op_remark(const TraceDiffOp& op) {
  if (op.runs.before == 0) return "new";
  if (op.runs.after == 0) return "gone";
  if (op.shapes_before != op.shapes_after) {
    return fmt::format("{} → {}", op.shapes_before, op.shapes_after);
  }
  if (op.kernel_before != op.kernel_after && !op.kernel_before.empty() &&
      !op.kernel_after.empty()) {
    return "another kernel";
  }
  return "";
}

TextTable ops_diff_table(const TraceDiff& diff, std::size_t shown) {
  TextTable table{{{"operator", false, Cut::end},
                   {"shapes", false, Cut::end},
                   {"", false, Cut::end},
                   {"runs", true},
                   {"first", true},
                   {"second", true},
                   {"change", true}},
                  {}};
  for (std::size_t i = 0; i < shown; ++i) {
    const TraceDiffOp& op = diff.ops[i];
    const std::string& shapes = op.runs.after > 0 ? op.shapes_after : op.shapes_before;
    const std::string phase = op.phase == "forward" ? "" : " (" + op.phase + ")";
    table.rows.push_back({printable(op.name) + phase, printable(shapes), printable(op_remark(op)),
                          runs_text(op.runs), cell_time(op.kernels.before),
                          cell_time(op.kernels.after), signed_time(op.kernels.change())});
  }
  return table;
}

std::string_view kernel_state(const TraceDiffKernel& kernel) {
  if (kernel.before.empty()) return "new";
  if (kernel.after.empty()) return "gone";
  if (kernel.before != kernel.after) return "replaced";
  return kernel.time.change() < Seconds() ? "faster" : "slower";
}

std::string kernel_words(const TraceDiffKernel& kernel) {
  if (kernel.before.empty()) return printable(kernel.after);
  if (kernel.after.empty() || kernel.before == kernel.after) return printable(kernel.before);
  return fmt::format("{} → {}", cut_end(printable(kernel.before), 40), printable(kernel.after));
}

TextTable kernels_diff_table(const TraceDiff& diff, std::size_t shown) {
  TextTable table{{{"kernel", false, Cut::end},
                   {""},
                   {"runs", true},
                   {"first", true},
                   {"second", true},
                   {"change", true}},
                  {}};
  for (std::size_t i = 0; i < shown; ++i) {
    const TraceDiffKernel& kernel = diff.kernels[i];
    table.rows.push_back({kernel_words(kernel), std::string(kernel_state(kernel)),
                          runs_text(kernel.runs), cell_time(kernel.time.before),
                          cell_time(kernel.time.after), signed_time(kernel.time.change())});
  }
  return table;
}

// The table with what it leaves out: "… and 12 more with less effect, 230 unchanged".
template <class Rows, class Table>
std::string rows_text(const Rows& rows, double same, std::size_t most, const TextStyle& style,
                      const Table& table) {
  if (rows.empty()) return {};
  const std::size_t shown = style.verbose ? rows.size() : std::min(rows.size(), most);
  // Kernel names run to hundreds of characters: they are cut in files too.
  std::string text = '\n' + table_text(table(shown), style.width);
  std::vector<std::string> rest;
  if (shown < rows.size()) {
    rest.push_back(fmt::format("{} more with less effect", rows.size() - shown));
  }
  if (same > 0) rest.push_back(fmt::format("{:.0f} unchanged", same));
  if (!rest.empty()) text += "… and " + join(rest, ", ") + "\n";
  return text;
}

DiffJson changed_json(const ChangedTime& time) {
  return {{"before", json_number(time.before.value())},
          {"after", json_number(time.after.value())},
          {"change", json_number(time.change().value())}};
}

DiffJson changed_json(const ChangedCount& count) {
  return {{"before", json_number(count.before)}, {"after", json_number(count.after)}};
}

DiffJson diff_side_json(const TraceDiffSide& side) {
  return {{"files", side.files},
          {"format", side.format},
          {"gpu", json_text_or_null(side.gpu)},
          {"ranks", side.ranks},
          {"steps", json_number(side.steps)}};
}

DiffJson ops_diff_json(const TraceDiff& diff) {
  DiffJson rows = DiffJson::array();
  for (const TraceDiffOp& op : diff.ops) {
    rows.push_back({{"name", op.name},
                    {"phase", op.phase},
                    {"shapes_before", op.shapes_before},
                    {"shapes_after", op.shapes_after},
                    {"runs", changed_json(op.runs)},
                    {"kernel_time_s", changed_json(op.kernels)},
                    {"host_time_s", changed_json(op.host)},
                    {"kernel_before", json_text_or_null(op.kernel_before)},
                    {"kernel_after", json_text_or_null(op.kernel_after)}});
  }
  return rows;
}

DiffJson kernels_diff_json(const TraceDiff& diff) {
  DiffJson rows = DiffJson::array();
  for (const TraceDiffKernel& kernel : diff.kernels) {
    rows.push_back({{"state", kernel_state(kernel)},
                    {"before", json_text_or_null(kernel.before)},
                    {"after", json_text_or_null(kernel.after)},
                    {"op", json_text_or_null(kernel.op)},
                    {"runs", changed_json(kernel.runs)},
                    {"time_s", changed_json(kernel.time)}});
  }
  return rows;
}

std::string_view diff_verdict_name(TraceVerdict verdict) {
  switch (verdict) {
    case TraceVerdict::faster:
      return "faster";
    case TraceVerdict::slower:
      return "slower";
    case TraceVerdict::noise:
      return "noise";
  }
  return "noise";
}

}  // namespace

std::string render_trace_diff_text(const TraceDiff& diff, const TextStyle& style) {
  std::string text;
  if (diff.paired_ranks > 0) text += wrapped(diff_verdict(diff), style.width);
  text += diff_side_line("first ", diff.before) + diff_side_line("second", diff.after);
  if (diff.paired_ranks > 0) {
    text += '\n' + table_text(parts_table(diff, style.verbose));
    text += wrapped(spread_text(diff), style.width);
  }
  text += rows_text(diff.ops, diff.same_ops, kShownOps, style,
                    [&](std::size_t shown) { return ops_diff_table(diff, shown); });
  text += rows_text(diff.kernels, diff.same_kernels, kShownKernels, style,
                    [&](std::size_t shown) { return kernels_diff_table(diff, shown); });
  if (!diff.notes.empty()) text += '\n';
  for (const std::string& note : diff.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

std::string render_trace_diff_json(const TraceDiff& diff) {
  DiffJson parts = DiffJson::object();
  for (const TraceDiffPart& part : diff.parts) parts[part.key] = changed_json(part.time);
  return dump_json(
      {{"schema", kDiffSchema},
       {"before", diff_side_json(diff.before)},
       {"after", diff_side_json(diff.after)},
       {"verdict", diff_verdict_name(verdict_of(diff))},
       {"per_step", diff.is_per_step},
       {"paired_ranks", diff.paired_ranks},
       {"span_s", changed_json(diff.span)},
       {"spread_s", diff.spread ? json_number(diff.spread->value()) : DiffJson(nullptr)},
       {"parts_s", parts},
       {"gpu_busy_s", changed_json(diff.gpu_busy)},
       {"communication_s", changed_json(diff.communication)},
       {"copy_s", changed_json(diff.copy)},
       {"kernel_time_s", changed_json(diff.kernel_time)},
       {"launch_time_s", changed_json(diff.launch_time)},
       {"kernels", changed_json(diff.kernel_runs)},
       {"changed_ops", ops_diff_json(diff)},
       {"changed_kernels", kernels_diff_json(diff)},
       {"unchanged_ops", json_number(diff.same_ops)},
       {"unchanged_kernels", json_number(diff.same_kernels)},
       {"notes", diff.notes}});
}

}  // namespace rooftile
