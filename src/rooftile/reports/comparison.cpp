// Two workloads side by side: a table to read, and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rooftile/base/text.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCompareSchema = "rooftile-compare/1";
constexpr std::size_t kShownRows = 20;  // unless verbose

std::string signed_share(const Range<Seconds>& saving, Seconds before) {
  if (before <= Seconds()) return "";
  return share_text(std::abs(saving.expected / before));
}

std::string coverage_text(const Coverage& coverage) {
  return fmt::format("{} of {}", count_text(coverage.ops_with_time), count_text(coverage.ops));
}

std::string verdict_text(const Comparison& comparison) {
  const Range<Seconds>& saving = comparison.saving;
  const Range<Seconds> loss{saving.high * -1.0, saving.expected * -1.0, saving.low * -1.0};
  const std::string share = signed_share(saving, comparison.before.total.expected);
  switch (verdict_of(comparison)) {
    case Verdict::same:
      return "The same operations: no difference.";
    case Verdict::faster:
      return fmt::format("The second is faster: saves {}, likely {}.", range_text(saving), share);
    case Verdict::slower:
      return fmt::format("The second is slower: takes {} more, likely {}.", range_text(loss),
                         share);
    case Verdict::unknown:
      return fmt::format("No verdict: times cover {} operations of the first, {} of the second.",
                         coverage_text(comparison.before.coverage),
                         coverage_text(comparison.after.coverage));
    case Verdict::unclear:
      break;
  }
  const bool gains = saving.expected > Seconds();
  return fmt::format("Not certain: the second likely {} {}, {}, but the range includes none.",
                     gains ? "saves" : "takes",
                     time_text(Seconds(std::abs(saving.expected.value()))) + (gains ? "" : " more"),
                     share);
}

using Words = std::map<std::string, std::string>;

// What names the shape of a row, by key; the count is one of them.
Words words_of(const OpRow& row) {
  Words words{{"dtype", row.dtype}};
  if (row.count != 1) words["count"] = fmt::format("{}", row.count);
  for (const std::string_view word : split(row.dims, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    words[std::string(word.substr(0, equals))] = word.substr(equals + 1);
  }
  return words;
}

// "n 50257 → 50304": the keys that differ; defaults are not written, so a side may lack one.
std::string change_text(const ComparedOp& op) {
  if (!op.before) return "new: " + op.after->dims;
  if (!op.after) return "gone: " + op.before->dims;
  const Words before = words_of(*op.before), after = words_of(*op.after);
  std::vector<std::string> changes;
  const auto value = [](const Words& words, const std::string& key) {
    const auto found = words.find(key);
    if (found != words.end()) return found->second;
    return std::string(key == "count" ? "1" : "default");
  };
  Words keys = before;
  keys.insert(after.begin(), after.end());
  for (const auto& [key, unused] : keys) {
    const std::string was = value(before, key), is = value(after, key);
    if (was != is) changes.push_back(fmt::format("{} {} → {}", key, was, is));
  }
  return changes.empty() ? "other precision of weights or output" : join(changes, ", ");
}

std::string time_of(const std::optional<OpRow>& row) {
  if (!row) return "–";
  return row->time ? time_text(row->time->expected * static_cast<double>(row->count)) : "unknown";
}

std::string saving_cell(const ComparedOp& op) {
  const bool known = (!op.before || op.before->time) && (!op.after || op.after->time);
  if (!known) return "unknown";
  const double expected = op.saving.expected.value();
  if (expected == 0) return "0";
  return fmt::format("{}{}", expected > 0 ? "" : "+", time_text(Seconds(std::abs(expected))));
}

// Minus where the second side saves time, as a difference of times reads.
std::string difference_cell(const ComparedOp& op) {
  const std::string text = saving_cell(op);
  const bool shorter = op.saving.expected > Seconds() && text != "unknown";
  const bool certain = op.saving.low > Seconds() || op.saving.high < Seconds();
  return (shorter ? "−" : "") + text + (certain || text == "unknown" ? "" : " ?");
}

TextTable changes_table(const Comparison& comparison, std::size_t shown) {
  TextTable table{{{"operation", false, Cut::middle},
                   {"kind"},
                   {"phase"},
                   {"change", false, Cut::end},
                   {"first", true},
                   {"second", true},
                   {"difference", true}},
                  {}};
  for (std::size_t i = 0; i < shown; ++i) {
    const ComparedOp& op = comparison.changed[i];
    const OpRow& row = op.after ? *op.after : *op.before;
    table.rows.push_back({printable(row.name), row.kind, row.phase, printable(change_text(op)),
                          time_of(op.before), time_of(op.after), difference_cell(op)});
  }
  return table;
}

bool has_times(const ComparedSide& side) { return side.coverage.ops_with_time > 0; }

std::string side_text(std::string_view title, const ComparedSide& side) {
  std::vector<std::string> names;
  for (const std::string& input : side.inputs) names.push_back(printable(input));
  const std::string time = has_times(side) ? fmt::format("{} ({})", time_text(side.total.expected),
                                                         range_text(side.total))
                                           : "time unknown";
  return fmt::format("{}  {}: {}, {}\n", title, join(names, ", "), time, flop_text(side.flop));
}

Json side_json(const ComparedSide& side) {
  return {{"inputs", side.inputs},
          {"total_s", json_range(side.total)},
          {"flop", json_number(side.flop.value())},
          {"bytes", json_number(side.bytes.value())},
          {"operations", json_number(side.coverage.ops)},
          {"operations_with_time", json_number(side.coverage.ops_with_time)}};
}

Json row_json(const std::optional<OpRow>& row) {
  if (!row) return nullptr;
  return {{"name", row->name},   {"kind", row->kind},
          {"dtype", row->dtype}, {"phase", row->phase},
          {"dims", row->dims},   {"count", row->count},
          {"bound", row->bound}, {"time_s", json_range(row->time)}};
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::unclear:
      return "unclear";
    case Verdict::same:
      return "same";
    case Verdict::unknown:
      return "unknown";
  }
  return "unclear";
}

std::string changes_text(const Comparison& comparison, const TextStyle& style) {
  std::string text;
  const std::size_t rows = comparison.changed.size();
  const std::size_t shown = style.verbose ? rows : std::min(rows, kShownRows);
  if (shown > 0) {
    text += '\n' + table_text(changes_table(comparison, shown), style.terminal ? style.width : 0);
  }
  if (shown < rows) text += fmt::format("… and {} more with less effect\n", rows - shown);
  const bool unsure = std::ranges::any_of(comparison.changed, [](const ComparedOp& op) {
    return op.saving.low <= Seconds() && op.saving.high >= Seconds();
  });
  return text + fmt::format("\n{} unchanged.{}\n", count_text(comparison.unchanged),
                            unsure ? " A difference with ? is within the model's error." : "");
}

}  // namespace

std::string render_comparison_text(const Comparison& comparison, const TextStyle& style) {
  std::string text = fmt::format("On {}\n", printable(comparison.device.name));
  text += side_text("first ", comparison.before) + side_text("second", comparison.after);
  text += wrapped(verdict_text(comparison), style.width);
  // Against nothing, all operations of the other side would be new.
  if (has_times(comparison.before) && has_times(comparison.after)) {
    text += changes_text(comparison, style);
  }
  for (const std::string& note : comparison.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

std::string render_comparison_json(const Comparison& comparison) {
  Json rows = Json::array();
  for (const ComparedOp& op : comparison.changed) {
    rows.push_back({{"before", row_json(op.before)},
                    {"after", row_json(op.after)},
                    {"saving_s", json_range(op.saving)}});
  }
  return dump_json({{"schema", kCompareSchema},
                    {"gpu", {{"id", comparison.device.id}, {"name", comparison.device.name}}},
                    {"before", side_json(comparison.before)},
                    {"after", side_json(comparison.after)},
                    {"verdict", verdict_name(verdict_of(comparison))},
                    {"saving_s", json_range(comparison.saving)},
                    {"changed", rows},
                    {"unchanged", json_number(comparison.unchanged)},
                    {"notes", comparison.notes}});
}

}  // namespace rooftile
