#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/reports/reports.h"
#include "rooftile/reports/sample_report.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Report report_of(const Finding& finding) {
  Report report = sample_report();
  report.findings = {finding};
  return report;
}

TEST(GithubReport, IsALineForEachFinding) {
  const std::string text = render_github(sample_report());
  EXPECT_THAT(text, StartsWith("::warning file=gpt.txt,line=3,title=rooftile "
                               "gemm/unaligned-row-stride::lm_head: Rows of the 50257 logits"));
  EXPECT_THAT(text, HasSubstr("+0.09 %25 parameters; slice the logits.%0Asaves "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::ssize(sample_report().findings));
}

TEST(GithubReport, LevelsAreThoseThatGitHubHas) {
  Finding finding = sample_stride_finding();
  finding.level = Level::error;
  EXPECT_THAT(render_github(report_of(finding)), StartsWith("::error "));
  finding.level = Level::advice;
  EXPECT_THAT(render_github(report_of(finding)), StartsWith("::notice "));
}

TEST(GithubReport, TextOfAModelIssuesNoCommand) {
  Finding finding = sample_stride_finding();
  finding.location.file = "a,b:c\n.txt";
  finding.location.node = "x\n::error::forged";
  const std::string text = render_github(report_of(finding));
  EXPECT_THAT(text, HasSubstr("file=a%2Cb%3Ac%0A.txt,line=3,"));
  EXPECT_THAT(text, HasSubstr("::x%0A::error::forged: "));
  EXPECT_THAT(text, Not(HasSubstr("\n::error")));
}

TEST(GithubReport, PlacesThatAreNoFileAreLeftOut) {
  Finding finding = sample_stride_finding();
  finding.location.file = "-";
  EXPECT_THAT(render_github(report_of(finding)), StartsWith("::warning title=rooftile gemm/"));
  finding.location.file = "notes.ipynb";
  finding.spot = {.line = 4, .column = 0};
  EXPECT_THAT(render_github(report_of(finding)), StartsWith("::warning file=notes.ipynb,title="));
}

TEST(GithubReport, SaysWhenNothingWasFound) {
  Report report = sample_report();
  report.findings.clear();
  const std::string text = render_github(report);
  EXPECT_THAT(text, Not(HasSubstr("::")));
  EXPECT_GT(text.size(), 2U);
}

}  // namespace
}  // namespace rooftile
