#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rooftile/reports/reports.h"
#include "rooftile/reports/sample_report.h"

namespace rooftile {
namespace {

using nlohmann::json;

TEST(JsonReport, HoldsTheContract) {
  const json report = json::parse(render_json(sample_report()));
  EXPECT_EQ(report["schema"], "rooftile-report/2");
  EXPECT_EQ(report["inputs"], json::array({"gpt.txt"}));
  EXPECT_EQ(report["gpu"]["id"], "h100_sxm");
  EXPECT_EQ(report["skipped"], (json{{"Loop", 1}, {"NonZero", 2}}));
  EXPECT_DOUBLE_EQ(report["total_s"]["expected"], 0.01);
  EXPECT_EQ(report["verdict"], "findings");
  EXPECT_TRUE(report["not_judged_because"].is_null());
  EXPECT_EQ(report["memory"]["verdict"], "fits");
  EXPECT_DOUBLE_EQ(report["memory"]["optimizer_bytes"], 1.5e9);
  EXPECT_DOUBLE_EQ(report["memory"]["total_bytes"]["high"], 7.75e9);
  EXPECT_DOUBLE_EQ(report["bound_share"]["math"], 0.7);
  const json& finding = report["findings"][0];
  EXPECT_EQ(finding["rule"], "gemm/unaligned-row-stride");
  EXPECT_EQ(finding["level"], "warning");
  EXPECT_EQ(finding["location"]["line"], 3);
  EXPECT_EQ(finding["location"]["node"], "lm_head");
  EXPECT_DOUBLE_EQ(finding["saving_s"]["high"], 0.00149);
  EXPECT_EQ(finding["fix"]["exactness"], "exact_arithmetic");
  EXPECT_EQ(finding["evidence"].size(), 2u);
  EXPECT_TRUE(report["findings"][2]["saving_s"].is_null());
}

TEST(JsonReport, UnknownIsNull) {
  const json report = json::parse(render_json(sample_unknown_report()));
  EXPECT_TRUE(report["total_s"].is_null());
  EXPECT_EQ(report["skipped"], json::object());
  EXPECT_EQ(report["findings"], json::array());
}

TEST(JsonReport, WholeNumbersHaveNoExponent) {
  EXPECT_THAT(render_json(sample_report()), testing::HasSubstr("\"flop\": 3500000000000,"));
}

TEST(JsonReport, AnyBytesGiveJson) {
  EXPECT_FALSE(json::parse(render_json(sample_hostile_report()), nullptr, false).is_discarded());
  EXPECT_FALSE(json::parse(render_sarif(sample_hostile_report()), nullptr, false).is_discarded());
}

// Required properties: SARIF 2.1.0, sections 3.13 (log), 3.14 (run), 3.27 (result).
TEST(SarifReport, HoldsTheRequiredProperties) {
  const json log = json::parse(render_sarif(sample_report()));
  EXPECT_EQ(log["version"], "2.1.0");
  const json& run = log["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["name"], "rooftile");
  ASSERT_EQ(run["results"].size(), 3u);
  for (const json& result : run["results"]) {
    const std::size_t rule = result["ruleIndex"];
    EXPECT_EQ(run["tool"]["driver"]["rules"][rule]["id"], result["ruleId"]);
    EXPECT_FALSE(result["message"]["text"].get<std::string>().empty());
    EXPECT_GE(result["locations"][0]["physicalLocation"]["region"]["startLine"], 1);
  }
  EXPECT_EQ(run["results"][0]["level"], "warning");
  EXPECT_EQ(run["results"][1]["level"], "note");
  EXPECT_EQ(run["results"][1]["properties"]["level"], "advice");
}

std::string first_fingerprint(Report report) {
  add_fingerprints(report.findings);
  return json::parse(render_sarif(report))["runs"][0]["results"][0]["partialFingerprints"].dump();
}

TEST(SarifReport, FingerprintsIgnoreNumbersAndLines) {
  Report changed = sample_report();
  changed.findings[0].location.line = 17;
  changed.findings[0].message = "Rows of the 50258 logits take 100516 bytes.";
  changed.findings[0].saving = std::nullopt;
  EXPECT_EQ(first_fingerprint(sample_report()), first_fingerprint(changed));
  changed.findings[0].location.node = "other";
  EXPECT_NE(first_fingerprint(sample_report()), first_fingerprint(changed));
}

TEST(SarifReport, TwoFindingsAtOnePlaceStayApart) {
  Report report = sample_report();
  report.findings[1] = report.findings[0];
  add_fingerprints(report.findings);
  const json results = json::parse(render_sarif(report))["runs"][0]["results"];
  EXPECT_NE(results[0]["partialFingerprints"], results[1]["partialFingerprints"]);
}

// SARIF 2.1.0, 3.55 (fix), 3.57 (replacement); byte offsets as in TextEdit.
TEST(SarifReport, FixesHoldTheEdits) {
  Report report = sample_report();
  report.findings[0].fix.edits = {{"train.py", 3, 3, "pin_memory=True"}, {"train.py", 9, 12, ""}};
  const json result = json::parse(render_sarif(report))["runs"][0]["results"][0];
  ASSERT_EQ(result["fixes"].size(), 1u);
  const json& changes = result["fixes"][0]["artifactChanges"];
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0]["artifactLocation"]["uri"], "train.py");
  EXPECT_EQ(changes[0]["replacements"], json::parse(R"([
    {"deletedRegion": {"byteOffset": 3, "byteLength": 0},
     "insertedContent": {"text": "pin_memory=True"}},
    {"deletedRegion": {"byteOffset": 9, "byteLength": 3}}])"));
}

// RFC 3986.
TEST(SarifReport, PathsAreUris) {
  const auto uri_of_file = [](const std::string& file) {
    Report report = sample_report();
    report.findings[0].location.file = file;
    const json log = json::parse(render_sarif(report));
    const json& location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    return location["artifactLocation"]["uri"].get<std::string>();
  };
  EXPECT_EQ(uri_of_file("models/a b%.onnx"), "models/a%20b%25.onnx");
  EXPECT_EQ(uri_of_file("/tmp/µ.onnx"), "file:///tmp/%C2%B5.onnx");
  EXPECT_EQ(uri_of_file("-"), "stdin");
  EXPECT_EQ(uri_of_file("a:b.txt"), "a%3Ab.txt");
}

}  // namespace
}  // namespace rooftile
