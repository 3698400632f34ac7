// SARIF 2.1.0 (OASIS), for code-scanning views: one run, one result per finding.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "rooftile/base/version.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSarifSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
constexpr std::string_view kFingerprint = "rooftile/v1";

std::string_view sarif_level(Level level) {
  switch (level) {
    case Level::error:
      return "error";
    case Level::warning:
      return "warning";
    case Level::advice:
    case Level::info:
      break;
  }
  return "note";
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

// RFC 3986: relative paths as they are, absolute ones as file URIs, other bytes percent-encoded.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path == "-" ? "stdin" : path) {
    uri += is_unreserved(c) ? std::string(1, c)
                            : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

std::string fnv1a_hex(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

// Rule and operation, without numbers: a finding keeps its fingerprint when the batch changes or a
// line moves. `repeats` counts earlier findings with the same words.
std::string fingerprint(const Finding& finding, std::map<std::string, int>& repeats) {
  const Provenance& at = finding.location;
  const std::string key = fmt::format("{}\n{}\n{}\n{}", finding.rule, at.file, at.module, at.node);
  return fmt::format("{}:{}", fnv1a_hex(key), ++repeats[key]);
}

Json location_json(const Finding& finding, const Report& report) {
  const Provenance& at = finding.location;
  const std::string file = !at.file.empty()         ? at.file
                           : !report.inputs.empty() ? report.inputs.front()
                                                    : "unknown";
  Json json;
  json["physicalLocation"] = {{"artifactLocation", {{"uri", uri_of(file)}}},
                              {"region", {{"startLine", std::max<std::int64_t>(1, at.line)}}}};
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
          {"evidence", finding.evidence}};
}

Json result_json(const Finding& finding, const Report& report,
                 std::map<std::string, int>& repeats) {
  Json json = {{"ruleId", finding.rule}};
  const auto rule = std::find_if(report.rules.begin(), report.rules.end(),
                                 [&](const RuleSummary& r) { return r.id == finding.rule; });
  if (rule != report.rules.end()) json["ruleIndex"] = rule - report.rules.begin();
  json["level"] = sarif_level(finding.level);
  json["message"] = {{"text", message_text(finding, report)}};
  json["locations"] = Json::array({location_json(finding, report)});
  json["partialFingerprints"] = {{kFingerprint, fingerprint(finding, repeats)}};
  json["properties"] = properties_json(finding);
  return json;
}

Json rule_json(const RuleSummary& rule) {
  return {{"id", rule.id},
          {"shortDescription", {{"text", rule.summary}}},
          {"help", {{"text", render_doc(rule.doc, {.width = 0})}, {"markdown", rule.doc}}},
          {"defaultConfiguration", {{"level", sarif_level(rule.level)}}},
          {"properties", {{"tags", Json::array({"performance"})}}}};
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
  std::map<std::string, int> repeats;
  for (const Finding& finding : report.findings) {
    results.push_back(result_json(finding, report, repeats));
  }
  const Json run = {{"tool", tool_json(report)},
                    {"invocations", Json::array({invocation_json(report)})},
                    {"results", std::move(results)},
                    {"properties",
                     {{"gpu", report.device.id},
                      {"mode", mode_name(report.mode)},
                      {"total_s", json_range(report.total)}}}};
  return dump_json({{"$schema", kSarifSchema}, {"version", "2.1.0"}, {"runs", Json::array({run})}});
}

}  // namespace rooftile
