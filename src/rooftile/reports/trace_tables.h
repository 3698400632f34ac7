// Tables of a trace beside that of its operators: modules, ranges, kernels, copies, launches.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/reports/reports.h"

namespace rooftile {

// Share of the time in which the GPU works; empty where it never does.
std::optional<double> share_of_busy(Seconds time, const Report& report);
std::string share_of_busy_text(Seconds time, const Report& report);
nlohmann::ordered_json share_of_busy_json(Seconds time, const Report& report);
// {"p10": …, "median": …, "p90": …}
nlohmann::ordered_json spread_json(const Spread& spread);
// "prefill"; empty for none.
std::string stage_text(ServingStage stage);

// Calls, their sum, its share, the median and the spread: cells of a row, and their columns.
std::vector<std::string> time_cells(std::int64_t calls, Seconds total, const TimeSample& times,
                                    const Report& report);
std::vector<TableColumn> time_columns();

// The table by module, annotation or kernel.
std::string places_table(const std::vector<PlaceUse>& places, const std::string& what,
                         const Report& report, const TextStyle& style);
std::string kernels_table(const Report& report, const TextStyle& style);
std::string places_csv(const std::vector<PlaceUse>& places, const Report& report);
std::string kernels_csv(const Report& report);

// Copies and launches, in words; empty where there are none.
std::string copies_text(const TraceSummary& trace, const Report& report, const TextStyle& style);
std::string queue_text(const TraceSummary& trace, const TextStyle& style);

// What the JSON form says of a trace beyond its operators; null of a model.
nlohmann::ordered_json trace_tables_json(const Report& report);

}  // namespace rooftile
