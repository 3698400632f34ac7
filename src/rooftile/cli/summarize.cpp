// rooftile summarize: a recording reduced to what checks of many ranks need.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const SummarizeCommand& command, const TextStyle&) {
  InputOptions input;
  input.files = {command.file};
  const auto workload = read_inputs(input);
  if (!workload) return tl::unexpected(workload.error());
  if (workload->traces.empty()) return fail("expected a recording of a run", command.file);
  return Outcome{write_trace_summary(workload->traces.front())};
}

}  // namespace rooftile
