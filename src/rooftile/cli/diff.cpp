// rooftile diff: what changed between two recordings.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

Result<TraceList> read_recording(const std::string& path) {
  InputOptions input;
  input.files = {path};
  auto workload = read_inputs(input);
  if (!workload) return tl::unexpected(workload.error());
  if (workload->traces.empty()) {
    return fail("expected a recording of a run; for models there is `rooftile compare`", path);
  }
  return workload->traces;
}

}  // namespace

Result<Outcome> run(const DiffCommand& command, const TextStyle& style) {
  const auto before = read_recording(command.before);
  if (!before) return tl::unexpected(before.error());
  const auto after = read_recording(command.after);
  if (!after) return tl::unexpected(after.error());
  const TraceDiff diff =
      diff_traces({before->begin(), before->size()}, {after->begin(), after->size()});
  if (command.output.format == "json") return Outcome{render_trace_diff_json(diff)};
  TextStyle shown = style;
  shown.verbose = command.output.verbose;
  return Outcome{render_trace_diff_text(diff, shown)};
}

}  // namespace rooftile
