// rooftile explain: the documentation of one rule.
#include <fmt/format.h>

#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const ExplainCommand& command, const TextStyle& style) {
  const auto rule = pick_rule(command.rule);
  if (!rule) return tl::unexpected(rule.error());
  const std::string title =
      fmt::format("# {} ({})\n\n{}.\n\n", (*rule)->id, to_string((*rule)->level), (*rule)->summary);
  return Outcome{render_doc(title + std::string((*rule)->doc), style)};
}

}  // namespace rooftile
