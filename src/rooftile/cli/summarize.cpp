// rooftile summarize: recordings reduced to what checks of many ranks need.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {

Result<Outcome> run(const SummarizeCommand& command, const TextStyle&) {
  const auto recordings = read_recordings(command.files);
  if (!recordings) return tl::unexpected(recordings.error());
  std::string text;
  for (const TraceList& file : *recordings) {
    for (const TraceSummary& summary : file) text += write_trace_summary(summary);
  }
  return Outcome{std::move(text)};
}

}  // namespace rooftile
