// The built-in devices and how they are found by name.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "rooftile/base/embedded.h"
#include "rooftile/base/text.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/hardware/device_json.h"
#include "rooftile/hardware/device_names.h"
#include "rooftile/hardware/mig.h"

namespace rooftile {
namespace {

std::optional<EmbeddedFile> file_of_id(std::string_view id) {
  for (const EmbeddedFile& file : embedded_devices()) {
    if (file.name == id) return file;
  }
  return std::nullopt;
}

// The devices by the keys of their ids and names, the first one where several have the same.
const std::map<std::string, EmbeddedFile>& files_by_key() {
  static const std::map<std::string, EmbeddedFile> files = [] {
    std::map<std::string, EmbeddedFile> made;
    for (const EmbeddedFile& file : embedded_devices()) {
      made.try_emplace(device_key(file.name), file);
      for (const std::string& name : device_names(file.text)) {
        made.try_emplace(device_key(name), file);
      }
    }
    return made;
  }();
  return files;
}

// Ids of the devices with a name near the key, nearest first.
std::vector<std::string> near_ids(std::string_view key) {
  std::vector<std::string> keys;
  keys.reserve(files_by_key().size());
  for (const auto& [name, file] : files_by_key()) keys.push_back(name);
  std::vector<std::string> found;
  for (const std::string& name : nearest(key, keys)) {
    const std::string id(files_by_key().at(name).name);
    if (std::find(found.begin(), found.end(), id) == found.end()) found.push_back(id);
  }
  return found;
}

Error unknown_gpu(std::string_view name, std::string_view key) {
  if (const auto maker = other_maker(key)) {
    return {fmt::format("{} is made by {}: only NVIDIA GPUs are modelled", rooftile::quoted(name),
                        *maker),
            ""};
  }
  const std::vector<std::string> near = key.size() < 2 ? std::vector<std::string>{} : near_ids(key);
  const std::string hint =
      near.empty() ? "`rooftile gpus` lists the known ones, --gpu-file takes the numbers of another"
                   : "did you mean " + join(near, " or ") + "?";
  return {fmt::format("unknown GPU {}, {}", rooftile::quoted(name), hint), ""};
}

Result<Device> find_whole(std::string_view name) {
  const std::string key = device_key(name);
  const auto file = files_by_key().find(key);
  if (file == files_by_key().end()) return tl::unexpected(unknown_gpu(name, key));
  return parse_device(file->second.text, file->second.name);
}

struct SliceName {
  std::string_view gpu, profile;
};

bool is_separator(char c) { return c == ' ' || c == '_' || c == '-'; }

// "h100:1g.10gb", "h100_mig_1g_10gb", or "NVIDIA H100 80GB HBM3 MIG 1g.10gb" as the driver names a
// slice.
std::optional<SliceName> slice_name(std::string_view name) {
  if (const std::size_t at = name.find(':'); at != std::string_view::npos) {
    return SliceName{name.substr(0, at), name.substr(at + 1)};
  }
  constexpr std::string_view kMig = "mig";
  const std::string text = lower(name);
  for (std::size_t at = text.find(kMig); at != std::string::npos; at = text.find(kMig, at + 1)) {
    const std::size_t end = at + kMig.size();
    if (at == 0 || !is_separator(text[at - 1])) continue;
    if (end == text.size()) return SliceName{name.substr(0, at - 1), ""};
    if (is_separator(text[end])) return SliceName{name.substr(0, at - 1), name.substr(end + 1)};
  }
  return std::nullopt;
}

std::size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

// "a100" means the part of 80 GB, but 1g.5gb is a profile of that of 40 GB: of all GPUs whose ids
// begin with the name, the one with the profile that is most like the one meant.
std::optional<Device> slice_of_sibling(const SliceName& name, const Device& meant) {
  const std::string key = device_key(name.gpu);
  std::optional<Device> best;
  for (const Device& device : built_in_devices()) {
    const bool is_nearer =
        !best || common_start(device.id, meant.id) > common_start(best->id, meant.id);
    if (key == device_key(meant.id) || !device_key(device.id).starts_with(key) || !is_nearer) {
      continue;
    }
    if (Result<Device> slice = mig_slice(device, name.profile)) best = std::move(*slice);
  }
  return best;
}

Result<Device> find_slice(const SliceName& name) {
  Result<Device> device = find_whole(name.gpu);
  if (!device) return device;
  Result<Device> slice = mig_slice(*device, name.profile);
  if (slice) return slice;
  if (auto sibling = slice_of_sibling(name, *device)) return std::move(*sibling);
  return slice;
}

void collect(const DeviceJson& value, const std::string& path,
             std::vector<SourcedNumber>& numbers) {
  if (value.is_object() && value.contains("value") && value.contains("source")) {
    numbers.push_back({path, value["source"].get<std::string>(), value["value"].get<double>()});
    return;
  }
  if (!value.is_object()) return;
  for (const auto& entry : value.items()) {
    collect(entry.value(), path.empty() ? entry.key() : path + "." + entry.key(), numbers);
  }
}

}  // namespace

const std::vector<Device>& built_in_devices() {
  static const std::vector<Device> all = [] {
    std::vector<Device> devices;
    for (const EmbeddedFile& file : embedded_devices()) {
      if (Result<Device> device = parse_device(file.text, file.name)) {
        devices.push_back(std::move(*device));
      }
    }
    std::sort(devices.begin(), devices.end(),
              [](const Device& a, const Device& b) { return a.id < b.id; });
    return devices;
  }();
  return all;
}

std::vector<SourcedNumber> device_sources(std::string_view id) {
  std::vector<SourcedNumber> numbers;
  const std::optional<EmbeddedFile> file = file_of_id(id);
  if (!file) return numbers;
  if (const Result<DeviceJson> root = parse_device_json(file->text, id)) {
    collect(*root, "", numbers);
  }
  return numbers;
}

Result<Device> find_device(std::string_view name) {
  const std::optional<SliceName> slice = slice_name(name);
  return slice ? find_slice(*slice) : find_whole(name);
}

}  // namespace rooftile
