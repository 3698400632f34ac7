// rooftile diff: what changed between two recordings.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const DiffCommand& command, const TextStyle& style) {
  const auto sides =
      read_recordings({command.before, command.after}, "; for models there is `rooftile compare`");
  if (!sides) return tl::unexpected(sides.error());
  const TraceList &before = sides->front(), &after = sides->back();
  const TraceDiff diff =
      diff_traces({before.begin(), before.size()}, {after.begin(), after.size()});
  if (command.output.format == "json") return Outcome{render_trace_diff_json(diff)};
  TextStyle shown = style;
  shown.verbose = command.output.verbose;
  return Outcome{render_trace_diff_text(diff, shown)};
}

}  // namespace rooftile
