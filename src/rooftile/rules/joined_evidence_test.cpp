#include "rooftile/rules/joined_evidence.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

// At a line of a script.
Finding finding(const char* rule, const char* file, std::int64_t line, Level level) {
  Finding finding;
  finding.rule = rule;
  finding.location.file = file;
  finding.location.line = line;
  finding.spot.line = line;
  finding.level = level;
  finding.message = "m";
  return finding;
}

Finding recorded(const char* rule, const char* file, std::int64_t line, double ms) {
  Finding result = finding(rule, file, line, Level::warning);
  result.spot = {};
  result.saving = Range<Seconds>{milliseconds(ms), milliseconds(ms), milliseconds(ms)};
  return result;
}

TEST(JoinEvidence, TheScriptTellsWhatTheRecordingMeasured) {
  const auto joined =
      join_evidence({finding("input_pipeline/loader-stall", "train.py", 20, Level::advice),
                     recorded("input_pipeline/loader-stall", "trace.json", 0, 59)},
                    true);
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].location.line, 20);
  EXPECT_EQ(joined[0].level, Level::warning);
  EXPECT_EQ(joined[0].saving->expected, milliseconds(59));
  EXPECT_EQ(joined[0].evidence, std::vector{Evidence::measured("m")});
}

TEST(JoinEvidence, ByLineWhereTheRecordingHasLines) {
  const auto joined =
      join_evidence({finding("launch/sync-every-step", "src/train.py", 88, Level::advice),
                     finding("launch/sync-every-step", "src/train.py", 90, Level::advice),
                     recorded("launch/sync-every-step", "/home/me/run/src/train.py", 90, 3),
                     recorded("launch/sync-every-step", "/home/me/run/src/train.py", 95, 1)},
                    true);
  ASSERT_EQ(joined.size(), 3U);
  EXPECT_EQ(joined[0].location.line, 90);
  EXPECT_EQ(joined[1].location.line, 95);  // not found in the script
  EXPECT_FALSE(joined[2].saving);
}

TEST(JoinEvidence, AtOtherLinesOnlyWhereTheCostShowsElsewhere) {
  // The loader is made at line 20 and waited for at line 44; a read costs time where it stands.
  const auto loader =
      join_evidence({finding("input_pipeline/loader-stall", "train.py", 20, Level::advice),
                     recorded("input_pipeline/loader-stall", "train.py", 44, 59)},
                    true);
  ASSERT_EQ(loader.size(), 1U);
  EXPECT_EQ(loader[0].location.line, 20);
  const auto read = join_evidence({finding("launch/sync-every-step", "train.py", 20, Level::advice),
                                   recorded("launch/sync-every-step", "train.py", 44, 59)},
                                  true);
  EXPECT_EQ(read.size(), 2U);
}

TEST(JoinEvidence, FindingsOfOperationsJoinToo) {
  const auto joined = join_evidence({finding("attention/unfused", "model.py", 12, Level::advice),
                                     recorded("attention/unfused", "trace.json", 0, 5),
                                     recorded("attention/unfused", "other.py", 30, 7)},
                                    true);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].location.line, 30);
  EXPECT_EQ(joined[1].location.line, 12);
  EXPECT_EQ(joined[1].saving->expected, milliseconds(5));
}

TEST(JoinEvidence, NoCostRecordedIsInformationButErrorsStay) {
  const auto joined =
      join_evidence({finding("input_pipeline/loader-stall", "train.py", 20, Level::advice),
                     finding("precision/amp-off", "train.py", 9, Level::error)},
                    true);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].rule, "precision/amp-off");
  EXPECT_EQ(joined[0].level, Level::error);
  EXPECT_EQ(joined[1].level, Level::info);
}

TEST(JoinEvidence, SilenceOfADetectorThatDidNotRunMeansNothing) {
  // precision/amp-off reads traces of known GPUs only, training_loop/frozen-layers-tracked none.
  const std::vector<Finding> findings = {
      finding("precision/amp-off", "train.py", 9, Level::advice),
      finding("training_loop/frozen-layers-tracked", "train.py", 12, Level::advice)};
  for (const Finding& kept : join_evidence(findings, false)) EXPECT_EQ(kept.level, Level::advice);
  EXPECT_EQ(join_evidence(findings, true)[1].level, Level::info);
  EXPECT_EQ(join_evidence(findings, true)[0].rule, "training_loop/frozen-layers-tracked");
}

}  // namespace
}  // namespace rooftile
