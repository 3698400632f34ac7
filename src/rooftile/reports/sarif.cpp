// SARIF 2.1.0 (OASIS), for code-scanning views: one run, one result per finding.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "rooftile/base/path.h"
#include "rooftile/base/version.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSarifSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
constexpr std::string_view kFingerprint = "rooftile/v1";

// Code scanning shows a result only under a path relative to the repository.
std::string uri_of(const std::string& given) { return path_uri(given == "-" ? "stdin" : given); }

// A notebook's lines are those of a cell, which its file does not know.
Json region_json(const Finding& finding) {
  const bool is_notebook = finding.spot.line > 0 && finding.spot.column == 0;
  const std::int64_t line = is_notebook ? 1 : std::max<std::int64_t>(1, finding.location.line);
  Json region = {{"startLine", line}};
  if (finding.spot.column > 0) region["startColumn"] = finding.spot.column;
  return region;
}

Json location_json(const Finding& finding, const Report& report) {
  const Provenance& at = finding.location;
  const std::string file = !at.file.empty()         ? at.file
                           : !report.inputs.empty() ? report.inputs.front()
                                                    : "unknown";
  Json json;
  json["physicalLocation"] = {{"artifactLocation", {{"uri", uri_of(file)}}},
                              {"region", region_json(finding)}};
  if (!at.node.empty() || !at.module.empty()) {
    Json logical = {{"name", at.node.empty() ? at.module : at.node}, {"kind", "element"}};
    if (!at.module.empty()) logical["fullyQualifiedName"] = at.module;
    json["logicalLocations"] = Json::array({logical});
  }
  return json;
}

std::string message_text(const Finding& finding, const Report& report) {
  std::string text = finding.message;
  if (!finding.fix.text.empty()) text += " Fix: " + finding.fix.text;
  if (finding.saving) text += fmt::format(" ({})", saving_text(finding, report));
  return text;
}

Json properties_json(const Finding& finding) {
  return {{"level", to_string(finding.level)},
          {"count", finding.count},
          {"saving_s", json_range(finding.saving)},
          {"fix", json_fix(finding.fix)},
          {"evidence", evidence_lines(finding)}};
}

// All edits of a fix belong together; regions count bytes, as edits do.
Json fixes_json(const Fix& fix) {
  std::map<std::string, Json> replacements;
  for (const TextEdit& edit : fix.edits) {
    Json replacement = {
        {"deletedRegion", {{"byteOffset", edit.begin}, {"byteLength", edit.end - edit.begin}}}};
    if (!edit.replacement.empty()) replacement["insertedContent"] = {{"text", edit.replacement}};
    replacements.try_emplace(edit.file, Json::array()).first->second.push_back(replacement);
  }
  Json changes = Json::array();
  for (auto& [file, list] : replacements) {
    changes.push_back(
        {{"artifactLocation", {{"uri", uri_of(file)}}}, {"replacements", std::move(list)}});
  }
  const std::string_view warning =
      fix.safe ? "" : " (may change what the program computes: look before you accept)";
  return Json::array({{{"description", {{"text", fmt::format("{}{}", fix.text, warning)}}},
                       {"artifactChanges", std::move(changes)}}});
}

Json result_json(const Finding& finding, const Report& report) {
  Json json = {{"ruleId", finding.rule}};
  const auto rule = std::find_if(report.rules.begin(), report.rules.end(),
                                 [&](const RuleSummary& r) { return r.id == finding.rule; });
  if (rule != report.rules.end()) json["ruleIndex"] = rule - report.rules.begin();
  json["level"] = severity_word(finding.level, "note");
  json["message"] = {{"text", message_text(finding, report)}};
  json["locations"] = Json::array({location_json(finding, report)});
  // GitHub reads no other name than the first.
  json["partialFingerprints"] = {{"primaryLocationLineHash", finding.fingerprint},
                                 {kFingerprint, finding.fingerprint}};
  if (!finding.fix.edits.empty()) json["fixes"] = fixes_json(finding.fix);
  json["properties"] = properties_json(finding);
  return json;
}

Json rule_json(const RuleSummary& rule) {
  return {{"id", rule.id},
          {"name", rule.id},
          {"shortDescription", {{"text", rule.summary}}},
          {"fullDescription", {{"text", rule.summary}}},
          {"help", {{"text", render_doc(rule.doc, {.width = 0})}, {"markdown", rule.doc}}},
          {"defaultConfiguration", {{"level", severity_word(rule.level, "note")}}},
          {"properties",
           {{"tags", Json::array({"performance"})},
            {"precision", "high"},
            {"problem.severity", severity_word(rule.level, "recommendation")}}}};
}

Json tool_json(const Report& report) {
  Json rules = Json::array();
  for (const RuleSummary& rule : report.rules) rules.push_back(rule_json(rule));
  return {{"driver",
           {{"name", "rooftile"}, {"semanticVersion", kVersion}, {"rules", std::move(rules)}}}};
}

// What was left out and assumed, as notifications of a run that went well.
Json invocation_json(const Report& report) {
  Json notes = Json::array();
  const auto add = [&](const std::string& text) {
    notes.push_back({{"level", "note"}, {"message", {{"text", text}}}});
  };
  const std::string skipped = skipped_text(report);
  if (!skipped.empty()) add("Left out: " + skipped);
  for (const std::string& note : report.notes) add(note);
  return {{"executionSuccessful", true}, {"toolExecutionNotifications", std::move(notes)}};
}

}  // namespace

std::string render_sarif(const Report& report) {
  Json results = Json::array();
  for (const Finding& finding : report.findings) {
    results.push_back(result_json(finding, report));
  }
  const Json run = {{"tool", tool_json(report)},
                    {"invocations", Json::array({invocation_json(report)})},
                    {"columnKind", "unicodeCodePoints"},
                    {"results", std::move(results)},
                    {"properties",
                     {{"gpu", report.device.id},
                      {"mode", mode_name(report.mode)},
                      {"verdict", to_string(verdict_of(report))},
                      {"total_s", json_range(report.total)}}}};
  return dump_json({{"$schema", kSarifSchema}, {"version", "2.1.0"}, {"runs", Json::array({run})}});
}

extern const ReportFormat sarif_format{
    "sarif", [](const Report& report, const TextStyle&) { return render_sarif(report); }};

}  // namespace rooftile
