// Any bytes give an error or a workload whose text form reads back to the same operations.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  rooftile::hf_config_reader.recognises("config.json", text.substr(0, 4096));
  const auto workload = rooftile::parse_hf_config(text, "config.json", {});
  if (!workload) return 0;
  const auto again = rooftile::parse_workload(rooftile::to_text(*workload));
  if (!again || again->ops != workload->ops) std::abort();
  return 0;
}
