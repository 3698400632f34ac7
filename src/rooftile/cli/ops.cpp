// rooftile ops: the operations of a network with their work, traffic and time.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

Error nothing_to_list(const Workload& workload, const std::string& input) {
  if (workload.source) {
    return {"scripts hold no operations: expected a model or a recording", input};
  }
  std::string message = "found no operation of known shape";
  for (const std::string& note : workload.notes) message += "; " + note;
  return {message, input};
}

}  // namespace

Result<Outcome> run(const OpsCommand& command, const TextStyle& style) {
  const auto subject = read_subject(command.input);
  if (!subject) return tl::unexpected(subject.error());
  if (subject->workload.traces.empty() && subject->workload.ops.empty()) {
    return tl::unexpected(nothing_to_list(subject->workload, command.input.files.front()));
  }
  if (!subject->device) return fail(subject->workload.notes.back(), "--gpu");

  Report report = list_operations(subject->workload, *subject->device);
  report.options = command.input.shown;
  if (command.output.format == "csv") return Outcome{render_ops_csv(report)};
  if (command.output.format == "json") return Outcome{render_ops_json(report)};
  return Outcome{render_ops_text(report, style)};
}

}  // namespace rooftile
