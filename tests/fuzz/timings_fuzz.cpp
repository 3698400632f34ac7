// Any bytes are an error or operations with a time, whose text form reads back to the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/timings_reader.h"
#include "rooftile/workload/workload_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto workload = rooftile::parse_timings(bytes, "-");
  if (!workload) return 0;
  for (const rooftile::Op& op : workload->ops) {
    if (!op.measured || !(*op.measured > rooftile::Seconds(0))) std::abort();
    const auto again = rooftile::parse_workload(rooftile::to_text(op));
    if (!again || again->ops.size() != 1 || again->ops[0].body != op.body) std::abort();
  }
  return 0;
}
