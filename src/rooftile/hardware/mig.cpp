#include "rooftile/hardware/mig.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// "3g40gb" of "3g.40gb", "3g_40gb" and "3G.40GB+me": endings add or drop media engines and
// graphics; the SMs and memory stay the same.
std::string profile_key(std::string_view profile) {
  std::string key;
  for (const char c : lower(profile.substr(0, profile.find('+')))) {
    if (c != '.' && c != '_' && c != '-' && c != ' ') key += c;
  }
  const std::size_t size = key.find("gb");
  return size == std::string::npos ? key : key.substr(0, size + 2);
}

using Profile = std::pair<const std::string, MigProfile>;

// The profile, also by its slices alone ("3g") where only one has that many.
const Profile* find_profile(const Device& device, std::string_view profile) {
  const std::string wanted = profile_key(profile);
  const Profile* found = nullptr;
  int candidates = 0;
  for (const Profile& entry : device.mig_profiles) {
    const std::string key = profile_key(entry.first);
    if (key == wanted) return &entry;
    if (!wanted.ends_with('g') || !key.starts_with(wanted)) continue;
    found = &entry;
    ++candidates;
  }
  return candidates == 1 ? found : nullptr;
}

Error unknown_profile(const Device& device, std::string_view profile) {
  std::vector<std::string> names;
  for (const auto& [name, slice] : device.mig_profiles) names.push_back(name);
  const std::string expected =
      names.empty() ? "no MIG profile of this GPU is known" : "expected one of " + join(names, " ");
  return {
      fmt::format("{} has no MIG profile {}, {}", device.id, rooftile::quoted(profile), expected),
      ""};
}

void scale(std::map<Dtype, FlopPerSecond>& peaks, double share) {
  for (auto& [dtype, rate] : peaks) rate = rate * share;
}

// Its arithmetic with it.
void set_sms(int sms, Device& device) {
  const double share = static_cast<double>(sms) / device.sms;
  device.sms = sms;
  scale(device.tensor_core_peak, share);
  scale(device.cuda_core_peak, share);
}

}  // namespace

Device with_sms(const Device& device, int sms) {
  Device part = device;
  part.name = fmt::format("{} with {} SMs", device.name, sms);
  part.mig_profiles.clear();
  part.time_model.clear();
  const double share = static_cast<double>(sms) / device.sms;
  part.dram_bandwidth = device.dram_bandwidth * share;
  part.l2_size = device.l2_size * share;
  set_sms(sms, part);
  return part;
}

Result<Device> mig_slice(const Device& device, std::string_view profile) {
  const Profile* entry = find_profile(device, profile);
  if (entry == nullptr) return tl::unexpected(unknown_profile(device, profile));
  const auto& [name, part] = *entry;
  Device slice = device;
  slice.id = device.id + ":" + name;
  slice.name = device.name + " MIG " + name;
  slice.aliases.clear();
  slice.mig_profiles.clear();
  set_sms(part.sms, slice);
  slice.dram_size = device.dram_size * part.memory_share;
  slice.dram_bandwidth = device.dram_bandwidth * part.memory_share;
  slice.l2_size = device.l2_size * part.l2_share;
  // Slices share one power limit, and MIG mode switches NVLink off (MIG User Guide, "Deployment
  // Considerations").
  slice.power_limit.reset();
  slice.nvlink_bandwidth.reset();
  return slice;
}

}  // namespace rooftile
