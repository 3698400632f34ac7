// Any bytes give an error or a device whose numbers are in range.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/hardware/device_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const rooftile::Result<rooftile::Device> device = rooftile::parse_device(text, "fuzz.json");
  if (device && (device->sms < 1 || !(device->dram_bandwidth.value() > 0.0) ||
                 !device->ridge(rooftile::Dtype::fp32))) {
    std::abort();
  }
  if (!device && device.error().message.empty()) std::abort();
  // The same bytes as a name on the command line.
  if (size < 256) {
    const rooftile::Result<rooftile::Device> found = rooftile::find_device(text);
    if (!found && found.error().message.empty()) std::abort();
  }
  return 0;
}
