#include "rooftile/reports/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostRows = 8;

std::vector<std::string> cells_of(const CollectiveRow& row, bool has_skew) {
  std::vector<std::string> cells{
      row.kind,
      row.bytes ? bytes_text(*row.bytes) : "",
      row.ranks > 0 ? fmt::format("{}", row.ranks) : "",
      count_text(row.per_pass),
      time_text(row.fastest),
      time_text(row.median),
      time_text(row.time),
      row.waiting > Seconds() ? time_text(row.waiting) : "",
      time_text(row.exposed),
      row.bus_bandwidth ? rate_text(*row.bus_bandwidth) : "",
      row.link_share ? share_text(*row.link_share) + " " + row.link : ""};
  if (has_skew) cells.push_back(row.skew ? time_text(*row.skew) : "");
  return cells;
}

}  // namespace

TextTable collectives_table(const Report& report) {
  const bool has_skew =
      std::ranges::any_of(report.collectives, [](const auto& row) { return row.skew.has_value(); });
  TextTable table{{{"collective"},
                   {"size", true},
                   {"ranks", true},
                   {"runs", true},
                   {"fastest", true},
                   {"median", true},
                   {"time", true},
                   {"waiting", true},
                   {"exposed", true},
                   {"busbw", true},
                   {"of link", true}},
                  {}};
  if (has_skew) table.columns.push_back({"skew", true});
  CollectiveRow rest;
  rest.kind = "the rest";
  for (const CollectiveRow& row : report.collectives) {
    if (table.rows.size() < kMostRows) {
      table.rows.push_back(cells_of(row, has_skew));
      continue;
    }
    rest.per_pass += row.per_pass;
    rest.time += row.time;
    rest.exposed += row.exposed;
    rest.waiting += row.waiting;
  }
  if (report.collectives.size() > kMostRows) {
    table.rows.push_back(cells_of(rest, has_skew));
    table.rows.back()[4].clear();  // neither fastest nor median of different collectives
    table.rows.back()[5].clear();
  }
  return table;
}

}  // namespace rooftile
