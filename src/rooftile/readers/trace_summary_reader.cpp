// Recordings that `rooftile summarize` reduced.
#include "rooftile/base/file.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/trace_summary_json.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxSummaryBytes = std::size_t{256} << 20U;

bool recognises_summary(std::string_view, std::string_view head) { return is_trace_summary(head); }

Result<Workload> read_summary(const std::string& path, const ReadOptions&) {
  const Result<std::string> text = read_file(path, kMaxSummaryBytes);
  if (!text) return tl::unexpected(text.error());
  Result<std::vector<TraceSummary>> summaries = parse_trace_summaries(*text, path);
  if (!summaries) return tl::unexpected(summaries.error());
  Workload workload;
  workload.traces = TraceList(std::move(*summaries));
  return workload;
}

}  // namespace

extern const Reader trace_summary_reader{.name = "trace_summary",
                                         .recognises = recognises_summary,
                                         .read = read_summary,
                                         .reads_beside_others = true,
                                         .instead_of_decode = {}};

}  // namespace rooftile
