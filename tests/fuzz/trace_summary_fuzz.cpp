// Any text gives an error or summaries whose file form reads back to itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/workload/trace_summary_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto summaries = rooftile::parse_trace_summaries(text, "fuzz.summary");
  if (!summaries) return 0;
  for (const rooftile::TraceSummary& summary : *summaries) {
    const std::string written = rooftile::write_trace_summary(summary);
    const auto again = rooftile::parse_trace_summary(written, "fuzz.summary");
    if (!again || rooftile::write_trace_summary(*again) != written) std::abort();
  }
  return 0;
}
