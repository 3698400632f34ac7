// rooftile ops: the operations of a network with their work, traffic and time.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const OpsCommand& command, const TextStyle& style) {
  const auto device = pick_device(command.input);
  if (!device) return tl::unexpected(device.error());
  const auto workload = read_inputs(command.input, &*device);
  if (!workload) return tl::unexpected(workload.error());

  const Report report = list_operations(*workload, *device);
  if (command.output.format == "csv") return Outcome{render_ops_csv(report)};
  if (command.output.format == "json") return Outcome{render_ops_json(report)};
  return Outcome{render_ops_text(report, style)};
}

}  // namespace rooftile
