// Devices come from data/devices/*.json (built into the library) or from a user's own file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

// One number of a device file with the place it was published.
struct SourcedNumber {
  std::string key, source;
  double value = 0.0;
};

inline constexpr std::size_t kMaxDeviceFileBytes = std::size_t{1} << 20;

// Reads the text of a device file (docs/formats/device.md); `where` names it in errors, and its
// file name without extension becomes the id.
Result<Device> parse_device(std::string_view json, std::string_view where);
Result<Device> read_device_file(const std::string& path);

// The text of a device file; reads back to an equal device, but for the id, which is the file name.
std::string device_file_text(const Device& device);

// All built-in devices, by id.
const std::vector<Device>& built_in_devices();
// Each number of a built-in device with its source, in file order; empty for an unknown id.
std::vector<SourcedNumber> device_sources(std::string_view id);

// By id, alias or product name, in any case and with spaces, '-' or '_' ("NVIDIA A100-SXM4-80GB"),
// and MIG slices of those that have them ("a100_sxm_80gb:3g.40gb"). An unknown name lists the
// nearest ones.
Result<Device> find_device(std::string_view name);

// The first GPU of this machine that CUDA_VISIBLE_DEVICES shows, through NVML, loaded at run time.
Result<Device> detect_device();

}  // namespace rooftile
