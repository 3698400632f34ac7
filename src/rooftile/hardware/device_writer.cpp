// The writing half of the device file.
#include <fmt/format.h>

#include <optional>

#include "rooftile/hardware/device_file.h"
#include "rooftile/hardware/device_json.h"

namespace rooftile {
namespace {

// Whole numbers without exponent, so that bytes and clocks read well.
DeviceJson number(double value) {
  constexpr double kExact = 9e15;  // whole doubles below this are exact integers
  const bool whole = value > -kExact && value < kExact &&
                     static_cast<double>(static_cast<std::int64_t>(value)) == value;
  return whole ? DeviceJson(static_cast<std::int64_t>(value)) : DeviceJson(value);
}

template <class Q>
void put(DeviceJson& json, const char* key, const std::optional<Q>& quantity) {
  if (quantity) json[key] = number(quantity->value());
}

void put_peaks(DeviceJson& json, const char* key, const std::map<Dtype, FlopPerSecond>& peaks) {
  if (peaks.empty()) return;
  DeviceJson rates = DeviceJson::object();
  for (const auto& [dtype, rate] : peaks)
    rates[std::string(to_string(dtype))] = number(rate.value());
  json[key] = std::move(rates);
}

void put_mig_profiles(DeviceJson& json, const std::map<std::string, MigProfile>& profiles) {
  for (const auto& [name, slice] : profiles) {
    json["mig_profiles"][name] = {{"sms", slice.sms},
                                  {"memory_share", number(slice.memory_share)},
                                  {"l2_share", number(slice.l2_share)}};
  }
}

}  // namespace

std::string device_file_text(const Device& device) {
  DeviceJson json;
  json["name"] = device.name;
  if (!device.aliases.empty()) json["aliases"] = device.aliases;
  json["architecture"] = device.architecture;
  json["compute_capability"] =
      fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10);
  json["sms"] = device.sms;
  json["boost_clock_hz"] = number(device.boost_clock.value());
  put(json, "cuda_core_clock_hz", device.cuda_core_clock);
  put_peaks(json, "tensor_core_flop_per_s", device.tensor_core_peak);
  put_peaks(json, "cuda_core_flop_per_s", device.cuda_core_peak);
  json["dram_bandwidth_bytes_per_s"] = number(device.dram_bandwidth.value());
  json["dram_size_bytes"] = number(device.dram_size.value());
  json["l2_size_bytes"] = number(device.l2_size.value());
  put(json, "shared_memory_per_sm_bytes", device.shared_memory_per_sm);
  if (device.dram_ecc_share) json["dram_ecc_share"] = number(*device.dram_ecc_share);
  if (device.dram_cpu_share) json["dram_cpu_share"] = number(*device.dram_cpu_share);
  put(json, "power_limit_w", device.power_limit);
  put(json, "nvlink_bandwidth_bytes_per_s", device.nvlink_bandwidth);
  put(json, "pcie_bandwidth_bytes_per_s", device.pcie_bandwidth);
  put_mig_profiles(json, device.mig_profiles);
  if (!device.time_model.empty()) {
    json["time_model"] = DeviceJson::parse(device.time_model, nullptr, false);
  }
  return json.dump(2, ' ', false, DeviceJson::error_handler_t::replace) + '\n';
}

}  // namespace rooftile
