// One row per operation: a table to read, CSV and JSON. The contract is docs/formats/ops.md.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/base/text.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/text_frame.h"
#include "rooftile/reports/trace_tables.h"
#include "rooftile/workload/trace_names.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOpsSchema = "rooftile-ops/1";
constexpr std::string_view kCsvHeader =
    "name,kind,dtype,phase,dims,count,flop,bytes,bound,time_s,time_low_s,time_high_s,launch_s,"
    "compute_s,memory_s,power_s,measured_s,kernels,kernel,tile,blocks_per_sm,tensor_core,"
    "flop_per_byte,ridge_flop_per_byte,calls,total_s,p10_s,p90_s,share_of_busy,stage\n";

// Work and traffic are unknown where the reader knew no shape: then nothing is counted.
bool has_cost(const OpRow& row) {
  return row.time.has_value() || row.flop.value() > 0 || row.bytes.value() > 0;
}

std::string bound_or_empty(const OpRow& row) { return row.bound == "unknown" ? "" : row.bound; }

std::string csv_recorded(const std::optional<RecordedRun>& run) {
  if (!run) return ",,,,,,";
  const Spread spread = spread_of(run->times, run->calls);
  std::string line = fmt::format(",{:.6g},{:.4g},{},{},", spread.median.value(), run->kernels,
                                 csv_field(run->kernel), run->tile);
  if (run->blocks_per_sm) line += fmt::format("{:.4g}", *run->blocks_per_sm);
  line += ',';
  if (run->tensor_core) line += *run->tensor_core ? "yes" : "no";
  return line;
}

// Work by traffic; empty where nothing is counted or moved.
std::optional<FlopPerByte> intensity(const OpRow& row) {
  if (!has_cost(row) || row.bytes.value() <= 0) return std::nullopt;
  return row.flop / row.bytes;
}

std::string csv_roofline(const OpRow& row) {
  const std::optional<FlopPerByte> reached = intensity(row);
  return fmt::format(",{},{}", reached ? fmt::format("{:.6g}", reached->value()) : "",
                     row.ridge ? fmt::format("{:.6g}", row.ridge->value()) : "");
}

std::string csv_calls(const OpRow& row, const Report& report) {
  if (!row.recorded) return ",,,,,,";
  const RecordedRun& run = *row.recorded;
  const Spread spread = spread_of(run.times, run.calls);
  const std::optional<double> share = share_of_busy(run.total, report);
  return fmt::format(",{},{:.6g},{:.6g},{:.6g},{},{}", run.calls, run.total.value(),
                     spread.p10.value(), spread.p90.value(),
                     share ? fmt::format("{:.4g}", *share) : "", stage_text(run.stage));
}

std::string csv_row(const OpRow& row, const Report& report) {
  std::string line;
  for (const std::string* text : {&row.name, &row.kind, &row.dtype, &row.phase, &row.dims}) {
    line += csv_field(*text) + ',';
  }
  line += fmt::format("{},", row.count);
  line += has_cost(row) ? csv_number(row.flop.value()) + ',' : ",";
  line += has_cost(row) ? csv_number(row.bytes.value()) + ',' : ",";
  line += csv_field(bound_or_empty(row));
  const std::string rest =
      csv_recorded(row.recorded) + csv_roofline(row) + csv_calls(row, report) + '\n';
  if (!row.time) return line + ",,,,,,," + rest;
  for (const Seconds time : {row.time->expected, row.time->low, row.time->high, row.parts.launch,
                             row.parts.compute, row.parts.memory, row.parts.power}) {
    line += fmt::format(",{:.6g}", time.value());
  }
  return line + rest;
}

Json parts_json(const TimeParts& parts) {
  return {{"launch", json_number(parts.launch.value())},
          {"compute", json_number(parts.compute.value())},
          {"memory", json_number(parts.memory.value())},
          {"power", json_number(parts.power.value())}};
}

Json kernels_of_run_json(const RecordedRun& run) {
  Json kernels = Json::array();
  for (const RecordedKernel& kernel : run.all_kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"count", kernel.count},
                       {"total_s", json_number(kernel.total.value())},
                       {"time_s", spread_json(spread_of(kernel.times, kernel.count))}});
  }
  return kernels;
}

Json recorded_json(const std::optional<RecordedRun>& run, const Report& report) {
  if (!run) return nullptr;
  Json blocks = nullptr, tensor_core = nullptr;
  if (run->blocks_per_sm) blocks = json_number(*run->blocks_per_sm);
  if (run->tensor_core) tensor_core = *run->tensor_core;
  const Spread spread = spread_of(run->times, run->calls);
  return {{"calls", run->calls},
          {"total_s", json_number(run->total.value())},
          {"share_of_busy", share_of_busy_json(run->total, report)},
          {"measured_s", json_number(spread.median.value())},
          {"p10_s", json_number(spread.p10.value())},
          {"p90_s", json_number(spread.p90.value())},
          {"stage", json_text_or_null(stage_text(run->stage))},
          {"kernels", json_number(run->kernels)},
          {"kernel", json_text_or_null(run->kernel)},
          {"tile", json_text_or_null(run->tile)},
          {"blocks_per_sm", blocks},
          {"tensor_core", tensor_core},
          {"attainable_s", run->attainable ? json_number(run->attainable->value()) : Json(nullptr)},
          {"kernel_family", json_text_or_null(run->family)},
          {"modelled_s", run->modelled ? json_number(run->modelled->value()) : Json(nullptr)},
          {"all_kernels", kernels_of_run_json(*run)}};
}

Json flop_per_byte_json(const std::optional<FlopPerByte>& ratio) {
  return ratio ? json_number(ratio->value()) : Json(nullptr);
}

Json row_json(const OpRow& row, const Report& report) {
  Json flop = nullptr, bytes = nullptr;
  if (has_cost(row)) {
    flop = json_number(row.flop.value());
    bytes = json_number(row.bytes.value());
  }
  return {{"name", row.name},
          {"kind", row.kind},
          {"dtype", row.dtype},
          {"phase", row.phase},
          {"dims", row.dims},
          {"count", row.count},
          {"flop", flop},
          {"bytes", bytes},
          {"flop_per_byte", flop_per_byte_json(intensity(row))},
          {"ridge_flop_per_byte", flop_per_byte_json(row.ridge)},
          {"bound", json_text_or_null(bound_or_empty(row))},
          {"time_s", json_range(row.time)},
          {"parts_s", row.time ? parts_json(row.parts) : Json(nullptr)},
          {"recorded", recorded_json(row.recorded, report)}};
}

// Math that the sustained clock limits rather than the cores says so.
std::string why_text(const OpRow& row) {
  const bool by_power = row.bound == "math" && row.parts.power > row.parts.compute;
  return by_power ? "math, power" : bound_or_empty(row);
}

std::string ratio_text(const std::optional<FlopPerByte>& ratio) {
  return ratio ? digits_text(ratio->value()) : "";
}

std::string row_share(const OpRow& row, const Report& report) {
  if (!row.time || report.total.expected.value() <= 0) return "";
  const double runs = static_cast<double>(row.count);
  return share_text(row.time->expected * runs / report.total.expected);
}

std::vector<std::string> row_cells(const OpRow& row, const Report& report) {
  return {printable(row.name),
          row.kind,
          row.dtype,
          row.phase,
          printable(row.dims),
          fmt::format("{}", row.count),
          has_cost(row) ? flop_text(row.flop) : "",
          has_cost(row) ? bytes_text(row.bytes) : "",
          ratio_text(intensity(row)),
          ratio_text(row.ridge),
          why_text(row),
          row.time ? time_text(row.time->expected) : "",
          row.time ? range_text(*row.time) : "",
          row_share(row, report)};
}

Seconds median_of(const RecordedRun& run) { return spread_of(run.times, run.calls).median; }

// What it reached of the rate that limits it, the one that the model says.
std::string reached_text(const OpRow& row, Seconds run) {
  if (!row.time || run <= Seconds()) return "";
  const Seconds possible = row.recorded->attainable.value_or(row.time->expected);
  // A run that beats the estimate is as fast as is known to be possible.
  return share_text(std::min(1.0, possible / run));
}

std::string rate_of(const OpRow& row, Seconds run) {
  if (run <= Seconds() || !has_cost(row)) return "";
  if (row.bound == "math") return rate_text(row.flop / run);
  return row.bytes.value() > 0 ? rate_text(row.bytes / run) : "";
}

std::vector<std::string> recorded_cells(const OpRow& row, const Report& report, bool with_stage) {
  const RecordedRun& run = *row.recorded;
  const Seconds median = median_of(run);
  std::vector<std::string> cells{printable(row.name), row.kind == "other" ? "" : row.dtype,
                                 row.phase};
  if (with_stage) cells.push_back(stage_text(run.stage));
  cells.push_back(printable(row.dims));
  for (std::string& cell : time_cells(run.calls, run.total, run.times, report)) {
    cells.push_back(std::move(cell));
  }
  for (std::string cell : {why_text(row), rate_of(row, median), reached_text(row, median), run.tile,
                           run.blocks_per_sm ? digits_text(*run.blocks_per_sm, 2) : "",
                           std::string(run.tensor_core ? (*run.tensor_core ? "yes" : "no") : ""),
                           printable(run.kernel)}) {
    cells.push_back(std::move(cell));
  }
  return cells;
}

// A kernel below its operator: in the columns of its times, its name in the last.
std::vector<std::string> kernel_cells(const RecordedKernel& kernel, const Report& report,
                                      std::size_t columns, std::size_t before_times) {
  std::vector<std::string> cells(before_times);
  cells.front() = "  " + std::string(name_of(kernel.kind));
  for (std::string& cell : time_cells(kernel.count, kernel.total, kernel.times, report)) {
    cells.push_back(std::move(cell));
  }
  cells.resize(columns);
  cells.back() = printable(kernel.name);
  return cells;
}

std::string recorded_table(const Report& report, const TextStyle& style, bool with_kernels) {
  const bool with_stage = std::ranges::any_of(report.ops, [](const OpRow& row) {
    return row.recorded && row.recorded->stage != ServingStage::none;
  });
  TextTable table{{{"operator", false, Cut::middle}, {"dtype"}, {"phase"}}, {}};
  if (with_stage) table.columns.push_back({"stage"});
  table.columns.push_back({"dims", false, Cut::end});
  const std::size_t before_times = table.columns.size();
  for (TableColumn& column : time_columns()) table.columns.push_back(std::move(column));
  for (const TableColumn& column : {TableColumn{"bound"},
                                    {"reached", true},
                                    {"of possible", true},
                                    {"tile"},
                                    {"blocks/SM", true},
                                    {"Tensor Cores"},
                                    {"kernel", false, Cut::end}}) {
    table.columns.push_back(column);
  }
  for (const OpRow& row : report.ops) {
    if (!row.recorded) continue;
    table.rows.push_back(recorded_cells(row, report, with_stage));
    if (!with_kernels) continue;
    for (const RecordedKernel& kernel : row.recorded->all_kernels) {
      table.rows.push_back(kernel_cells(kernel, report, table.columns.size(), before_times));
    }
  }
  return table_text(table, style.terminal ? style.width : 0);
}

// "Prefill takes 40 % of the GPU's busy time, decode 55 %."
std::string stages_text(const Report& report, const TextStyle& style) {
  std::map<ServingStage, Seconds> by_stage;
  for (const OpRow& row : report.ops) {
    if (row.recorded) by_stage[row.recorded->stage] += row.recorded->total;
  }
  std::vector<std::string> parts;
  for (const auto& [stage, time] : by_stage) {
    if (stage != ServingStage::none) {
      parts.push_back(fmt::format("{} {}", stage_text(stage), share_of_busy_text(time, report)));
    }
  }
  if (parts.empty()) return "";
  return wrapped("Of the time in which the GPU works: " + join(parts, ", ") + ".", style.width);
}

std::string trace_text(const Report& report, const TextStyle& style, const OpsTable& options) {
  const TraceSummary& trace = report.traces.front();
  if (options.rows == OpsRows::module) return places_table(trace.modules, "module", report, style);
  if (options.rows == OpsRows::annotation) {
    return places_table(trace.annotations, "annotation", report, style);
  }
  if (options.rows == OpsRows::kernel) return kernels_table(report, style);
  std::string text = recorded_table(report, style, options.with_kernels);
  const std::string copies = copies_text(trace, report, style);
  if (!copies.empty()) text += '\n' + copies;
  const std::string launches = stages_text(report, style) + queue_text(trace, style);
  return launches.empty() ? text : text + '\n' + launches;
}

std::string predicted_table(const Report& report, const TextStyle& style) {
  TextTable table{{{"name", false, Cut::middle},
                   {"kind"},
                   {"dtype"},
                   {"phase"},
                   {"dims", false, Cut::end},
                   {"count", true},
                   {"work/run", true},
                   {"traffic/run", true},
                   {"flop/byte", true},
                   {"ridge", true},
                   {"bound"},
                   {"time/run", true},
                   {"90 % within", true},
                   {"share", true}},
                  {}};
  for (const OpRow& row : report.ops) table.rows.push_back(row_cells(row, report));
  return table_text(table, style.terminal ? style.width : 0);
}

}  // namespace

std::string render_ops_text(const Report& report, const TextStyle& style, const OpsTable& table) {
  const std::string rows =
      report.traces.empty() ? predicted_table(report, style) : trace_text(report, style, table);
  return rows + '\n' + header_text(report, style) + basis_text(report, style);
}

std::string render_ops_csv(const Report& report, OpsRows rows) {
  if (rows == OpsRows::kernel) return kernels_csv(report);
  if (rows != OpsRows::op && !report.traces.empty()) {
    const TraceSummary& trace = report.traces.front();
    return places_csv(rows == OpsRows::module ? trace.modules : trace.annotations, report);
  }
  std::string text(kCsvHeader);
  for (const OpRow& row : report.ops) text += csv_row(row, report);
  return text;
}

std::string render_ops_json(const Report& report) {
  Json rows = Json::array();
  for (const OpRow& row : report.ops) rows.push_back(row_json(row, report));
  return dump_json({{"schema", kOpsSchema},
                    {"inputs", report.inputs},
                    {"gpu", {{"id", report.device.id}, {"name", report.device.name}}},
                    {"skipped", report.skipped},
                    {"notes", report.notes},
                    {"ops", rows},
                    {"trace", trace_tables_json(report)}});
}

}  // namespace rooftile
