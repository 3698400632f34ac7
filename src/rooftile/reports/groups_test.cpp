#include "rooftile/reports/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rooftile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Finding finding_at_line(std::int64_t line, std::string message, std::string fix) {
  Finding finding;
  finding.rule = "input_pipeline/loader-stall";
  finding.level = Level::advice;
  finding.message = std::move(message);
  finding.location = {"train.py", line, "", ""};
  finding.fix.text = std::move(fix);
  finding.spot = {line, 1, "loader = make(" + std::to_string(line) + ")", 0};
  return finding;
}

TEST(FindingGroups, OneFixInOneFileIsOne) {
  const std::vector<Finding> findings = {
      finding_at_line(40, "slow", "Set it"), finding_at_line(12, "other", "Change it"),
      finding_at_line(44, "slow", "Set it"), finding_at_line(31, "slow", "Set it")};
  const auto groups = grouped(findings, Level::advice);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].front()->location.line, 40);
  EXPECT_EQ(count_of(groups[0]), 3);
  EXPECT_THAT(other_places(groups[0]), ElementsAre("Also at lines 31, 44."));
  EXPECT_THAT(other_places(groups[1]), IsEmpty());
}

TEST(FindingGroups, PlacesThatDifferShowTheirCode) {
  const std::vector<Finding> findings = {finding_at_line(3, "a", "Set it"),
                                         finding_at_line(9, "b", "Set it")};
  const auto groups = grouped(findings, Level::info);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_THAT(other_places(groups[0]), ElementsAre("Also at line 9: loader = make(9)"));
}

TEST(FindingGroups, OtherFilesLevelsAndSavingsStandAlone) {
  Finding other_file = finding_at_line(3, "a", "Set it");
  other_file.location.file = "eval.py";
  Finding other_level = finding_at_line(4, "a", "Set it");
  other_level.level = Level::warning;
  Finding with_saving = finding_at_line(5, "a", "Set it");
  with_saving.saving = {Seconds(0.1), Seconds(0.2), Seconds(0.3)};
  const std::vector<Finding> findings = {finding_at_line(2, "a", "Set it"), other_file, other_level,
                                         with_saving};
  EXPECT_EQ(grouped(findings, Level::info).size(), 4U);
}

// One block for all that a step waits for, each with its own fix; what costs little is left out of
// it.
TEST(FindingGroups, WaitsOfOneStepAreOne) {
  Finding read = finding_at_line(70, "`loss.item()` waits", "Add it up");
  read.rule = "launch/sync-every-step";
  Finding mask = finding_at_line(12, "`x[mask]` waits", "Keep the size fixed");
  mask.location.file = "./model.py";
  mask.rule = "launch/mask-indexing";
  mask.level = Level::info;
  Finding later = finding_at_line(71, "`float(x)` waits", "Add it up");
  later.rule = read.rule;
  Finding elsewhere = later;
  read.step = mask.step = later.step = "./train.py:59";
  elsewhere.step = "eval.py:3";
  const std::vector<Finding> findings = {read, later, elsewhere, mask};
  EXPECT_EQ(grouped(findings, Level::advice)[0].size(), 2U);
  const auto groups = grouped(findings, Level::info);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_TRUE(is_step_of_waits(groups[0]));
  EXPECT_FALSE(is_step_of_waits(groups[1]));
  EXPECT_THAT(
      other_places(groups[0]),
      ElementsAre(
          "2 more waits for the GPU in each step of the loop at train.py:59; each empties "
          "the launch queue, so mend them together:",
          "- train.py:71: `float(x)` waits",
          "- model.py:12: `x[mask]` waits (launch/mask-indexing). Fix: Keep the size fixed"));
}

TEST(FindingGroups, ManyPlacesAreCounted) {
  std::vector<Finding> findings;
  for (int line = 1; line <= 20; ++line) findings.push_back(finding_at_line(line, "a", "Set it"));
  EXPECT_THAT(other_places(grouped(findings, Level::info)[0]),
              ElementsAre("Also at lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, and 7 more."));
}

TEST(FindingGroups, NothingBelowTheLevel) {
  EXPECT_THAT(grouped({finding_at_line(2, "a", "Set it")}, Level::warning), IsEmpty());
}

}  // namespace
}  // namespace rooftile
