// rooftile rules: the rules, in the order in which they run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rooftile/cli/commands.h"

namespace rooftile {
namespace {

std::string rules_json() {
  auto list = nlohmann::ordered_json::array();
  for (const Rule* rule : all_rules()) {
    nlohmann::ordered_json& shown = list.emplace_back();
    shown["id"] = rule->id;
    if (!rule->former_id.empty()) shown["former_id"] = rule->former_id;
    shown["level"] = to_string(rule->level);
    shown["summary"] = rule->summary;
    shown["doc"] = rule->doc;
  }
  const nlohmann::ordered_json json = {{"schema", "rooftile-rules/1"}, {"rules", std::move(list)}};
  return json.dump(2) + '\n';
}

}  // namespace

std::string rules_text(std::span<const Rule* const> rules, const TextStyle& style) {
  TextTable table{{{"rule"}, {"level"}, {"finds", false, Cut::end}}, {}};
  for (const Rule* rule : rules) {
    table.rows.push_back(
        {std::string(rule->id), std::string(to_string(rule->level)), std::string(rule->summary)});
  }
  return table_text(table, style.terminal ? style.width : 0);
}

Result<Outcome> run(const RulesCommand& command, const TextStyle& style) {
  return Outcome{command.output.format == "json" ? rules_json() : rules_text(all_rules(), style)};
}

}  // namespace rooftile
