#include "rooftile/pipeline/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "rooftile/base/path.h"
#include "rooftile/base/text.h"
#include "rooftile/findings/fingerprint.h"
#include "rooftile/rules/rule.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBaselineSchema = "rooftile-baseline/1";

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<Baseline> parse_baseline(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail("is no baseline: expected a JSON object; --write-baseline makes one");
  }
  const std::string schema = text_of(json, "schema");
  if (schema != kBaselineSchema) {
    return fail(fmt::format("expected schema {}, found {}", kBaselineSchema,
                            schema.empty() ? "none" : rooftile::quoted(schema)));
  }
  const auto findings = json.find("findings");
  if (findings == json.end() || !findings->is_array()) return fail("has no list 'findings'");
  Baseline baseline;
  for (const Json& finding : *findings) {
    std::string fingerprint = finding.is_object() ? text_of(finding, "fingerprint") : "";
    if (fingerprint.empty()) {
      return fail(fmt::format("finding {} has no fingerprint", baseline.fingerprints.size() + 1));
    }
    baseline.fingerprints.insert(std::move(fingerprint));
  }
  return baseline;
}

// Sorted by place, so that a changed baseline gives a short difference.
std::string render_baseline(const Report& report) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : report.findings) findings.push_back(&finding);
  std::ranges::stable_sort(findings, [](const Finding* a, const Finding* b) {
    return std::tie(a->location.file, a->rule, a->fingerprint) <
           std::tie(b->location.file, b->rule, b->fingerprint);
  });
  Json list = Json::array();
  for (const Finding* finding : findings) {
    list.push_back({{"fingerprint", finding->fingerprint},
                    {"rule", finding->rule},
                    {"file", normal_path(finding->location.file)},
                    {"code", finding->spot.code}});
  }
  const Json json = {{"schema", kBaselineSchema}, {"findings", std::move(list)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

namespace {

bool is_known(const Baseline& baseline, const Finding& finding) {
  if (baseline.fingerprints.contains(finding.fingerprint)) return true;
  const Rule* rule = find_rule(finding.rule);
  return rule != nullptr && !rule->former_id.empty() &&
         baseline.fingerprints.contains(fingerprint_as(finding, rule->former_id));
}

}  // namespace

void set_aside_known(const Baseline& baseline, Report& report) {
  std::erase_if(report.findings, [&](const Finding& finding) {
    const bool known = is_known(baseline, finding);
    if (known && finding.level != Level::info) ++report.set_aside.known;
    return known;
  });
}

}  // namespace rooftile
