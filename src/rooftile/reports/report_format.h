// The forms that `rooftile check` writes a report in: one file each, listed in report_list.inc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rooftile/reports/reports.h"

namespace rooftile {

struct ReportFormat {
  std::string_view name;  // --format NAME
  std::string (*render)(const Report& report, const TextStyle& style);
  // Says itself how much information it hides; others get only what is shown.
  bool counts_hidden = false;
};

// In the order in which help shows them; the first is used where none is named.
std::span<const ReportFormat* const> report_formats();
const ReportFormat& report_format(std::string_view name);  // the first where no other has the name

}  // namespace rooftile
