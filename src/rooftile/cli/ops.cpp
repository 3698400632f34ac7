// rooftile ops: the operations of a network with their work, traffic and time.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const OpsCommand& command, const TextStyle& style) {
  const auto subject = read_subject(command.input);
  if (!subject) return tl::unexpected(subject.error());
  if (subject->workload.traces.empty() && subject->workload.ops.empty()) {
    return fail("scripts hold no operations: expected a model or a recording",
                command.input.files.front());
  }
  if (!subject->device) return fail(subject->workload.notes.back(), "--gpu");

  const Report report = list_operations(subject->workload, *subject->device);
  if (command.output.format == "csv") return Outcome{render_ops_csv(report)};
  if (command.output.format == "json") return Outcome{render_ops_json(report)};
  return Outcome{render_ops_text(report, style)};
}

}  // namespace rooftile
