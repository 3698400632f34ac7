#include "rooftile/reports/report_format.h"

#include <array>

namespace rooftile {

#define FORMAT(name) extern const ReportFormat name;
#include "rooftile/reports/report_list.inc"
#undef FORMAT

std::span<const ReportFormat* const> report_formats() {
  static constexpr auto kFormats = std::to_array<const ReportFormat*>({
#define FORMAT(name) &name,
#include "rooftile/reports/report_list.inc"
#undef FORMAT
  });
  return kFormats;
}

const ReportFormat& report_format(std::string_view name) {
  for (const ReportFormat* format : report_formats()) {
    if (format->name == name) return *format;
  }
  return *report_formats().front();
}

}  // namespace rooftile
