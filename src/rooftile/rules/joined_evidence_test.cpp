#include "rooftile/rules/joined_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rooftile {
namespace {

using testing::Contains;
using testing::HasSubstr;

Finding finding(const char* rule, const char* file, std::int64_t line, Level level) {
  Finding finding;
  finding.rule = rule;
  finding.location.file = file;
  finding.location.line = line;
  finding.level = level;
  finding.message = "m";
  return finding;
}

Finding recorded(const char* rule, const char* file, std::int64_t line, double ms) {
  Finding result = finding(rule, file, line, Level::warning);
  result.saving = Range<Seconds>{milliseconds(ms), milliseconds(ms), milliseconds(ms)};
  return result;
}

TEST(JoinEvidence, TheScriptTellsWhatTheRecordingMeasured) {
  const auto joined =
      join_evidence({finding("input_pipeline/no-workers", "train.py", 20, Level::advice),
                     recorded("input_pipeline/loader-stall", "trace.json", 0, 59)});
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].location.line, 20);
  EXPECT_EQ(joined[0].level, Level::warning);
  EXPECT_EQ(joined[0].saving->expected, milliseconds(59));
  EXPECT_THAT(joined[0].evidence, Contains(HasSubstr("recorded: ")));
}

TEST(JoinEvidence, ByLineWhereTheRecordingHasLines) {
  const auto joined =
      join_evidence({finding("launch/sync-every-step", "src/train.py", 88, Level::advice),
                     finding("launch/sync-every-step", "src/train.py", 90, Level::advice),
                     recorded("launch/sync-in-step", "/home/me/run/src/train.py", 90, 3),
                     recorded("launch/sync-in-step", "/home/me/run/src/train.py", 95, 1)});
  ASSERT_EQ(joined.size(), 3U);
  EXPECT_EQ(joined[0].location.line, 90);
  EXPECT_EQ(joined[0].rule, "launch/sync-every-step");
  EXPECT_EQ(joined[1].location.line, 95);  // the script's rule did not find this one
  EXPECT_FALSE(joined[2].saving);
}

TEST(JoinEvidence, OneRuleThatSpeaksOfBothIsOneFinding) {
  Finding script = finding("attention/unfused", "model.py", 12, Level::advice);
  script.spot.line = 12;
  const auto joined = join_evidence({script, recorded("attention/unfused", "trace.json", 0, 5),
                                     recorded("attention/unfused", "other.py", 30, 7)});
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].location.line, 30);
  EXPECT_EQ(joined[1].location.line, 12);
  EXPECT_EQ(joined[1].saving->expected, milliseconds(5));
}

TEST(JoinEvidence, NoCostRecordedIsInformationButErrorsStay) {
  const auto joined =
      join_evidence({finding("input_pipeline/no-workers", "train.py", 20, Level::advice),
                     finding("precision/amp-off", "train.py", 9, Level::error)});
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].rule, "precision/amp-off");
  EXPECT_EQ(joined[0].level, Level::error);
  EXPECT_EQ(joined[1].level, Level::info);
}

}  // namespace
}  // namespace rooftile
