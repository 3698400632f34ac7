// Any bytes give an error or a workload whose text form reads back to the same operations.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace {

void reads_back(std::string_view text, const rooftile::ReadOptions& options) {
  const auto workload = rooftile::parse_hf_config(text, "config.json", options);
  if (!workload) return;
  const auto again = rooftile::parse_workload(rooftile::to_text(*workload));
  if (!again || again->ops != workload->ops) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  rooftile::hf_config_reader.recognises("config.json", text.substr(0, 4096));
  reads_back(text, {});
  rooftile::ReadOptions decode;
  decode.mode = rooftile::Mode::decode;
  reads_back(text, decode);
  return 0;
}
