#include "rooftile/reports/report_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace rooftile {
namespace {

TEST(ReportFormats, EachHasALineInTheDocumentation) {
  std::ifstream file(ROOFTILE_ROOT "/docs/formats/report.md");
  std::stringstream page;
  page << file.rdbuf();
  ASSERT_FALSE(page.str().empty());
  for (const ReportFormat* format : report_formats()) {
    const std::string row = "| `" + std::string(format->name) + "` |";
    EXPECT_NE(page.str().find(row), std::string::npos) << format->name;
  }
}

TEST(ReportFormats, AreFoundByName) {
  for (const ReportFormat* format : report_formats()) {
    EXPECT_EQ(&report_format(format->name), format);
    EXPECT_FALSE(format->render(Report{}, {}).empty() && format->name != "github") << format->name;
  }
  EXPECT_EQ(report_format("").name, "text");
}

}  // namespace
}  // namespace rooftile
