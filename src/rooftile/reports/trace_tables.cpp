#include "rooftile/reports/trace_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "rooftile/reports/json_values.h"
#include "rooftile/workload/trace_names.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

std::string csv_share(Seconds time, const Report& report) {
  const std::optional<double> share = share_of_busy(time, report);
  return share ? fmt::format("{:.4g}", *share) : "";
}

// ---- copies

std::string_view direction_words(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_device:
      return "host to GPU";
    case CopyKind::device_to_host:
      return "GPU to host";
    case CopyKind::device_to_device:
      return "on the GPU";
    case CopyKind::peer_to_peer:
      return "GPU to GPU";
    case CopyKind::host_to_host:
      return "on the host";
    case CopyKind::migration_to_device:
      return "migrations to the GPU";
    case CopyKind::migration_to_host:
      return "migrations to the host";
    case CopyKind::unknown:
      return "unknown";
  }
  return "unknown";
}

bool crosses_host(CopyKind kind) {
  return kind == CopyKind::host_to_device || kind == CopyKind::device_to_host || is_migration(kind);
}

// A copy on the GPU reads and writes: half the memory's bandwidth is its limit.
std::optional<BytesPerSecond> limit_of_copy(CopyKind kind, const LinkRates& links) {
  if (crosses_host(kind)) return links.host;
  if (kind == CopyKind::peer_to_peer) return links.peer;
  if (kind == CopyKind::device_to_device && links.memory) return *links.memory * 0.5;
  return std::nullopt;
}

// "64 KiB and more", "below 64 KiB".
std::string size_words(const TransferUse& use) {
  constexpr double kSmallest = 65536;  // of the second class
  if (use.at_least.value() < kSmallest) return "below 64 KiB";
  return "from " + bytes_text(use.at_least);
}

std::vector<std::string> copy_cells(const TransferUse& use, const Report& report) {
  const std::optional<BytesPerSecond> limit = limit_of_copy(use.kind, report.links);
  return {std::string(direction_words(use.kind)),
          crosses_host(use.kind) ? (use.pageable ? "pageable" : "pinned") : "",
          size_words(use),
          fmt::format("{}", use.count),
          bytes_text(use.bytes),
          time_text(use.time),
          rate_text(use.median),
          fmt::format("{}–{}", rate_text(use.p10), rate_text(use.p90)),
          limit ? share_text(use.median.value() / limit->value()) : "",
          limit ? rate_text(*limit) : ""};
}

Json copy_json(const TransferUse& use, const Report& report) {
  const std::optional<BytesPerSecond> limit = limit_of_copy(use.kind, report.links);
  return {{"kind", name_of(use.kind)},
          {"pageable", use.pageable},
          {"at_least_bytes", json_number(use.at_least.value())},
          {"count", use.count},
          {"bytes", json_number(use.bytes.value())},
          {"time_s", json_number(use.time.value())},
          {"bytes_per_s",
           {{"p10", json_number(use.p10.value())},
            {"median", json_number(use.median.value())},
            {"p90", json_number(use.p90.value())}}},
          {"limit_bytes_per_s", limit ? json_number(limit->value()) : Json(nullptr)}};
}

// ---- launches

// "▁▂█": each value against the largest; a space where there is none.
std::string sparkline(const std::vector<std::optional<double>>& values) {
  constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = 0;
  for (const auto& value : values) most = std::max(most, value.value_or(0));
  std::string line;
  for (const auto& value : values) {
    if (!value) {
      line += ' ';
      continue;
    }
    const double part = most > 0 ? *value / most : 0;
    line += kBlocks.at(std::min<std::size_t>(7, static_cast<std::size_t>(part * 8)));
  }
  return line;
}

Json optional_json(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

Json bin_json(const LaunchQueue::Bin& bin) {
  return {{"launches", bin.launches},
          {"delay_s", bin.delay ? json_number(bin.delay->value()) : Json(nullptr)},
          {"depth", optional_json(bin.depth)},
          {"kernels", bin.kernels},
          {"below_5us", bin.below_5us},
          {"below_10us", bin.below_10us}};
}

Json queue_json(const TraceSummary& trace) {
  if (!trace.queue) return nullptr;
  const LaunchQueue& queue = *trace.queue;
  Json bins = Json::array();
  for (const LaunchQueue::Bin& bin : queue.bins) bins.push_back(bin_json(bin));
  return {{"launches", queue.launches},
          {"delay_s", spread_json(queue.delay)},
          {"depth",
           {{"p10", json_number(queue.depth_p10)},
            {"median", json_number(queue.depth_median)},
            {"p90", json_number(queue.depth_p90)}}},
          {"kernels", queue.kernels},
          {"below_5us", {{"count", queue.below_5us}, {"time_s", queue.time_below_5us.value()}}},
          {"below_10us", {{"count", queue.below_10us}, {"time_s", queue.time_below_10us.value()}}},
          {"bin_s", json_number(trace.whole.span.value() /
                                static_cast<double>(std::max<std::size_t>(1, queue.bins.size())))},
          {"bins", bins}};
}

// ---- modules, ranges and kernels

Json place_json(const PlaceUse& place, const Report& report) {
  const bool has_calls = place.calls.has_value();
  return {{"name", place.name},
          {"calls", has_calls ? Json(*place.calls) : Json(nullptr)},
          {"kernels", place.kernels},
          {"gpu_time_s", json_number(place.gpu_time.value())},
          {"backward_time_s", json_number(place.backward_time.value())},
          {"busy_s", json_number(place.busy.value())},
          {"share_of_busy", share_of_busy_json(place.busy, report)},
          {"call_s", has_calls ? spread_json(spread_of(place.times, *place.calls)) : Json(nullptr)},
          {"host_time_s", has_calls ? json_number(place.host_time.value()) : Json(nullptr)}};
}

Json places_json(const std::vector<PlaceUse>& places, const Report& report) {
  Json rows = Json::array();
  for (const PlaceUse& place : places) rows.push_back(place_json(place, report));
  return rows;
}

Json kernels_json(const Report& report) {
  Json rows = Json::array();
  for (const RecordedKernel& kernel : report.kernels) {
    rows.push_back({{"name", kernel.name},
                    {"class", name_of(kernel.kind)},
                    {"op", json_text_or_null(kernel.op)},
                    {"count", kernel.count},
                    {"total_s", json_number(kernel.total.value())},
                    {"share_of_busy", share_of_busy_json(kernel.total, report)},
                    {"time_s", spread_json(spread_of(kernel.times, kernel.count))}});
  }
  return rows;
}

// Empty where one run says it all.
std::string middle_runs_text(const Spread& spread, std::int64_t runs) {
  return runs > 1 ? range_text({spread.p10, spread.median, spread.p90}) : "";
}

std::vector<std::string> place_cells(const PlaceUse& place, const Report& report) {
  const Spread spread = spread_of(place.times, place.calls.value_or(0));
  return {printable(place.name),
          place.calls ? fmt::format("{}", *place.calls) : "",
          time_text(place.gpu_time),
          share_of_busy_text(place.busy, report),
          place.backward_time > Seconds() ? time_text(place.backward_time) : "",
          fmt::format("{}", place.kernels),
          place.calls ? time_text(spread.median) : "",
          middle_runs_text(spread, place.calls.value_or(0)),
          place.calls ? time_text(place.host_time) : ""};
}

}  // namespace

std::optional<double> share_of_busy(Seconds time, const Report& report) {
  if (report.traces.empty()) return std::nullopt;
  const Seconds busy = report.traces.front().whole.gpu_busy;
  return busy > Seconds() ? std::optional(time / busy) : std::nullopt;
}

std::string share_of_busy_text(Seconds time, const Report& report) {
  const std::optional<double> share = share_of_busy(time, report);
  return share ? share_text(*share) : "";
}

Json share_of_busy_json(Seconds time, const Report& report) {
  const std::optional<double> share = share_of_busy(time, report);
  return share ? json_number(*share) : Json(nullptr);
}

Json spread_json(const Spread& spread) {
  return {{"p10", json_number(spread.p10.value())},
          {"median", json_number(spread.median.value())},
          {"p90", json_number(spread.p90.value())}};
}

std::string stage_text(ServingStage stage) {
  return stage == ServingStage::none ? "" : std::string(name_of(stage));
}

std::vector<std::string> time_cells(std::int64_t calls, Seconds total, const TimeSample& times,
                                    const Report& report) {
  const Spread spread = spread_of(times, calls);
  return {fmt::format("{}", calls), time_text(total), share_of_busy_text(total, report),
          time_text(spread.median), middle_runs_text(spread, calls)};
}

std::vector<TableColumn> time_columns() {
  return {{"calls", true}, {"total", true}, {"of busy", true}, {"median", true}, {"p10–p90", true}};
}

std::string places_table(const std::vector<PlaceUse>& places, const std::string& what,
                         const Report& report, const TextStyle& style) {
  TextTable table{{{what, false, Cut::middle},
                   {"calls", true},
                   {"GPU time", true},
                   {"of busy", true},
                   {"backward", true},
                   {"kernels", true},
                   {"median", true},
                   {"p10–p90", true},
                   {"host time", true}},
                  {}};
  for (const PlaceUse& place : places) table.rows.push_back(place_cells(place, report));
  return table_text(table, style.terminal ? style.width : 0);
}

std::string kernels_table(const Report& report, const TextStyle& style) {
  TextTable table{{{"kernel", false, Cut::end}}, {}};
  for (TableColumn& column : time_columns()) table.columns.push_back(std::move(column));
  table.columns.push_back({"class"});
  table.columns.push_back({"operator", false, Cut::middle});
  for (const RecordedKernel& kernel : report.kernels) {
    std::vector<std::string> cells = time_cells(kernel.count, kernel.total, kernel.times, report);
    cells.insert(cells.begin(), printable(kernel.name));
    cells.emplace_back(name_of(kernel.kind));
    cells.push_back(printable(kernel.op));
    table.rows.push_back(std::move(cells));
  }
  return table_text(table, style.terminal ? style.width : 0);
}

std::string places_csv(const std::vector<PlaceUse>& places, const Report& report) {
  std::string text =
      "name,calls,kernels,gpu_time_s,backward_time_s,busy_s,share_of_busy,median_s,p10_s,p90_s,"
      "host_time_s\n";
  for (const PlaceUse& place : places) {
    text += fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{}", csv_field(place.name),
                        place.calls ? fmt::format("{}", *place.calls) : "", place.kernels,
                        place.gpu_time.value(), place.backward_time.value(), place.busy.value(),
                        csv_share(place.busy, report));
    if (!place.calls) {
      text += ",,,,\n";
      continue;
    }
    const Spread spread = spread_of(place.times, *place.calls);
    text += fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g}\n", spread.median.value(), spread.p10.value(),
                        spread.p90.value(), place.host_time.value());
  }
  return text;
}

std::string kernels_csv(const Report& report) {
  std::string text = "name,class,op,count,total_s,share_of_busy,median_s,p10_s,p90_s\n";
  for (const RecordedKernel& kernel : report.kernels) {
    const Spread spread = spread_of(kernel.times, kernel.count);
    text += fmt::format("{},{},{},{},{:.6g},{},{:.6g},{:.6g},{:.6g}\n", csv_field(kernel.name),
                        name_of(kernel.kind), csv_field(kernel.op), kernel.count,
                        kernel.total.value(), csv_share(kernel.total, report),
                        spread.median.value(), spread.p10.value(), spread.p90.value());
  }
  return text;
}

std::string copies_text(const TraceSummary& trace, const Report& report, const TextStyle& style) {
  if (trace.transfers.empty()) return "";
  TextTable table{{{"copies"},
                   {""},
                   {"size"},
                   {"count", true},
                   {"bytes", true},
                   {"total", true},
                   {"median rate", true},
                   {"p10–p90", true},
                   {"of limit", true},
                   {"limit", true}},
                  {}};
  for (const TransferUse& use : trace.transfers) table.rows.push_back(copy_cells(use, report));
  return table_text(table, style.terminal ? style.width : 0);
}

std::string queue_text(const TraceSummary& trace, const TextStyle& style) {
  if (!trace.queue) return "";
  const LaunchQueue& queue = *trace.queue;
  const auto share = [&](auto part, auto whole) {
    return whole > decltype(whole){} ? share_text(static_cast<double>(part) / whole) : "0 %";
  };
  const double kernels = static_cast<double>(queue.kernels);
  std::string text = wrapped(
      fmt::format("Launches: {}. In the median the GPU begins {} after the call has returned, in "
                  "nine of ten within {}. Launched and waiting then: {:.0f} ({:.0f}–{:.0f}).",
                  queue.launches, time_text(queue.delay.median), time_text(queue.delay.p90),
                  queue.depth_median, queue.depth_p10, queue.depth_p90),
      style.width);
  if (queue.kernels > 0) {
    text += wrapped(
        fmt::format("Short kernels: {} of {} below 5 µs ({} of the kernel time), {} below 10 µs "
                    "({}).",
                    share(queue.below_5us, kernels), queue.kernels,
                    share(queue.time_below_5us.value(), trace.kernel_time.value()),
                    share(queue.below_10us, kernels),
                    share(queue.time_below_10us.value(), trace.kernel_time.value())),
        style.width);
  }
  std::vector<std::optional<double>> depths;
  for (const LaunchQueue::Bin& bin : queue.bins) depths.push_back(bin.depth);
  double most = 0;
  for (const auto& depth : depths) most = std::max(most, depth.value_or(0));
  return text + fmt::format("Waiting over time: {} (up to {:.0f})\n", sparkline(depths), most);
}

Json trace_tables_json(const Report& report) {
  if (report.traces.empty()) return nullptr;
  const TraceSummary& trace = report.traces.front();
  Json copies = Json::array();
  for (const TransferUse& use : trace.transfers) copies.push_back(copy_json(use, report));
  return {{"span_s", json_number(trace.whole.span.value())},
          {"busy_s", json_number(trace.whole.gpu_busy.value())},
          {"modules", places_json(trace.modules, report)},
          {"annotations", places_json(trace.annotations, report)},
          {"kernels", kernels_json(report)},
          {"copies", copies},
          {"queue", queue_json(trace)}};
}

}  // namespace rooftile
