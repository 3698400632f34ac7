// rooftile compare: two workloads, models or single operations side by side.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const CompareCommand& command, const TextStyle& style) {
  const auto device = pick_device(command.input);
  if (!device) return tl::unexpected(device.error());
  const auto before = read(command.input.files.front(), command.input.read);
  if (!before) return tl::unexpected(before.error());
  const auto after = read(command.input.files.back(), command.input.read);
  if (!after) return tl::unexpected(after.error());

  Comparison comparison = compare(*before, *after, *device);
  comparison.before.inputs = {command.input.files.front()};
  comparison.after.inputs = {command.input.files.back()};
  if (command.output.format == "json") return Outcome{render_comparison_json(comparison)};
  TextStyle shown = style;
  shown.verbose = command.output.verbose;
  return Outcome{render_comparison_text(comparison, shown)};
}

}  // namespace rooftile
