// Any bytes are an error or a workload whose text form reads back to the same workload; the same
// for the compact form, which need not be canonical.
#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/workload/workload_bytes.h"
#include "rooftile/workload/workload_text.h"

namespace {

// The text form leaves out comments and blank lines, so the lines move.
rooftile::Workload without_lines(rooftile::Workload workload) {
  for (rooftile::Op& op : workload.ops) op.source.line = 0;
  return workload;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)rooftile::workload_from_bytes(bytes);
  const auto workload = rooftile::parse_workload(bytes);
  if (!workload) return 0;
  const std::string text = rooftile::to_text(*workload);
  const auto again = rooftile::parse_workload(text);
  if (!again) {
    fmt::print(stderr, "{}\nof:\n{}", rooftile::to_string(again.error()), text);
    std::abort();
  }
  if (without_lines(*again) != without_lines(*workload)) {
    fmt::print(stderr, "not the same:\n{}then:\n{}", text, rooftile::to_text(*again));
    std::abort();
  }
  const auto handed = rooftile::workload_from_bytes(rooftile::to_bytes(*workload));
  if (!handed || *handed != *workload) {
    fmt::print(stderr, "not the same as bytes:\n{}", text);
    std::abort();
  }
  return 0;
}
