// rooftile explain: the documentation of one rule, or what the rules of an area find.
#include <fmt/format.h>

#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const ExplainCommand& command, const TextStyle& style) {
  const auto rules = rules_named(command.rule);
  if (!rules) return tl::unexpected(rules.error());
  if (rules->size() > 1) return Outcome{rules_text(*rules, style)};
  const Rule& rule = *rules->front();
  const std::string former =
      rule.former_id.empty() ? "" : fmt::format(" Also known as {}.", rule.former_id);
  const std::string title =
      fmt::format("# {} ({})\n\n{}.{}\n\n", rule.id, to_string(rule.level), rule.summary, former);
  return Outcome{render_doc(title + std::string(rule.doc), style)};
}

}  // namespace rooftile
