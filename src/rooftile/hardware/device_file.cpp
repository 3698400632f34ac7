// The keys of a device file and what each may hold.
#include "rooftile/hardware/device_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/hardware/device_json.h"

namespace rooftile {
namespace {

// Wide enough for any GPU, narrow enough to catch MHz, GB/s or TFLOPS written without scaling.
constexpr Limits kClock{1e8, 1e10};
constexpr Limits kPeak{1e9, 1e18};
constexpr Limits kLinkBandwidth{1e8, 1e14};
constexpr Limits kShare{1e-3, 1.0};

struct NumberField {
  std::string_view key;
  Limits limits;
  bool required;
  void (*store)(Device& device, double value);
};

constexpr std::array<NumberField, 12> kNumbers{{
    {"sms", {1, 4096, true}, true, [](Device& d, double v) { d.sms = static_cast<int>(v); }},
    {"boost_clock_hz", kClock, true, [](Device& d, double v) { d.boost_clock = Hertz(v); }},
    {"cuda_core_clock_hz", kClock, false,
     [](Device& d, double v) { d.cuda_core_clock = Hertz(v); }},
    {"dram_bandwidth_bytes_per_s",
     {1e9, 1e15},
     true,
     [](Device& d, double v) { d.dram_bandwidth = BytesPerSecond(v); }},
    {"dram_size_bytes", {1e8, 1e14}, true, [](Device& d, double v) { d.dram_size = Bytes(v); }},
    {"l2_size_bytes", {1e4, 1e11}, true, [](Device& d, double v) { d.l2_size = Bytes(v); }},
    {"shared_memory_per_sm_bytes",
     {1e3, 1e8},
     false,
     [](Device& d, double v) { d.shared_memory_per_sm = Bytes(v); }},
    {"dram_ecc_share", {0, 0.5}, false, [](Device& d, double v) { d.dram_ecc_share = v; }},
    {"dram_cpu_share", {0, 0.9}, false, [](Device& d, double v) { d.dram_cpu_share = v; }},
    {"power_limit_w", {1, 1e5}, false, [](Device& d, double v) { d.power_limit = Watts(v); }},
    {"nvlink_bandwidth_bytes_per_s", kLinkBandwidth, false,
     [](Device& d, double v) { d.nvlink_bandwidth = BytesPerSecond(v); }},
    {"pcie_bandwidth_bytes_per_s", kLinkBandwidth, false,
     [](Device& d, double v) { d.pcie_bandwidth = BytesPerSecond(v); }},
}};

constexpr std::array<std::string_view, 8> kTensorCoreDtypes = {"fp64", "tf32", "fp16", "bf16",
                                                               "fp8",  "fp4",  "int8", "int4"};
constexpr std::array<std::string_view, 6> kCudaCoreDtypes = {"fp64", "fp32",  "fp16",
                                                             "bf16", "int32", "int8"};
constexpr std::array<std::string_view, 9> kArchitectures = {
    "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "rubin"};
constexpr std::array<std::string_view, 3> kMigKeys = {"sms", "memory_share", "l2_share"};
constexpr std::array<std::string_view, 8> kOtherKeys = {"name",
                                                        "aliases",
                                                        "architecture",
                                                        "compute_capability",
                                                        "tensor_core_flop_per_s",
                                                        "cuda_core_flop_per_s",
                                                        "mig_profiles",
                                                        "time_model"};

Result<void> check_keys(const ObjectReader& file) {
  std::vector<std::string_view> keys(kOtherKeys.begin(), kOtherKeys.end());
  for (const NumberField& field : kNumbers) keys.push_back(field.key);
  return file.only(keys);
}

Result<void> read_numbers(const ObjectReader& file, Device& device) {
  for (const NumberField& field : kNumbers) {
    if (!field.required && !file.has(field.key)) continue;
    const Result<double> value = file.number(field.key, field.limits);
    if (!value) return tl::unexpected(value.error());
    field.store(device, *value);
  }
  return {};
}

// "9.0": a text, since 10.3 is not a quantity.
Result<int> read_compute_capability(const ObjectReader& file) {
  const Result<std::string> text = file.text("compute_capability");
  if (!text) return tl::unexpected(text.error());
  const std::vector<std::string_view> parts = split(*text, '.');
  const auto major = parse_integer(parts.front());
  const auto minor = parts.size() == 2 ? parse_integer(parts.back()) : std::nullopt;
  if (!major || !minor || *major < 1 || *major > 99 || *minor < 0 || *minor > 9) {
    return file.error("compute_capability",
                      "expected major.minor as in \"9.0\", found " + rooftile::quoted(*text));
  }
  return static_cast<int>(10 * *major + *minor);
}

Result<void> read_identity(const ObjectReader& file, Device& device) {
  const Result<std::string> name = file.text("name");
  if (!name) return tl::unexpected(name.error());
  const Result<std::string> architecture = file.text("architecture");
  if (!architecture) return tl::unexpected(architecture.error());
  if (std::find(kArchitectures.begin(), kArchitectures.end(), *architecture) ==
      kArchitectures.end()) {
    return file.error("architecture",
                      fmt::format("expected one of {}, found {}", fmt::join(kArchitectures, " "),
                                  rooftile::quoted(*architecture)));
  }
  const Result<int> capability = read_compute_capability(file);
  if (!capability) return tl::unexpected(capability.error());
  if (file.has("aliases")) {
    Result<std::vector<std::string>> aliases = file.texts("aliases");
    if (!aliases) return tl::unexpected(aliases.error());
    device.aliases = std::move(*aliases);
  }
  device.name = *name;
  device.architecture = *architecture;
  device.compute_capability = *capability;
  return {};
}

Result<std::map<Dtype, FlopPerSecond>> read_peaks(const ObjectReader& file, std::string_view key,
                                                  std::span<const std::string_view> dtypes) {
  std::map<Dtype, FlopPerSecond> peaks;
  if (!file.has(key)) return peaks;
  const Result<ObjectReader> object = file.object(key);
  if (!object) return tl::unexpected(object.error());
  if (auto known = object->only(dtypes); !known) return tl::unexpected(known.error());
  for (const std::string& dtype : object->keys()) {
    const Result<double> rate = object->number(dtype, kPeak);
    if (!rate) return tl::unexpected(rate.error());
    peaks[*parse_dtype(dtype)] = FlopPerSecond(*rate);
  }
  return peaks;
}

Result<void> read_all_peaks(const ObjectReader& file, Device& device) {
  auto tensor = read_peaks(file, "tensor_core_flop_per_s", kTensorCoreDtypes);
  if (!tensor) return tl::unexpected(tensor.error());
  auto cuda = read_peaks(file, "cuda_core_flop_per_s", kCudaCoreDtypes);
  if (!cuda) return tl::unexpected(cuda.error());
  if (!cuda->contains(Dtype::fp32)) return file.error("cuda_core_flop_per_s.fp32", "missing");
  device.tensor_core_peak = std::move(*tensor);
  device.cuda_core_peak = std::move(*cuda);
  return {};
}

Result<MigProfile> read_mig_profile(const ObjectReader& profiles, const std::string& name,
                                    int sms) {
  const Result<ObjectReader> object = profiles.object(name);
  if (!object) return tl::unexpected(object.error());
  if (auto known = object->only(kMigKeys); !known) {
    return tl::unexpected(known.error());
  }
  const auto slice_sms = object->number("sms", {1, static_cast<double>(sms), true});
  if (!slice_sms) return tl::unexpected(slice_sms.error());
  const auto memory = object->number("memory_share", kShare);
  if (!memory) return tl::unexpected(memory.error());
  const auto l2 = object->number("l2_share", kShare);
  if (!l2) return tl::unexpected(l2.error());
  return MigProfile{static_cast<int>(*slice_sms), *memory, *l2};
}

Result<void> read_mig_profiles(const ObjectReader& file, Device& device) {
  if (!file.has("mig_profiles")) return {};
  const Result<ObjectReader> profiles = file.object("mig_profiles");
  if (!profiles) return tl::unexpected(profiles.error());
  for (const std::string& name : profiles->keys()) {
    const Result<MigProfile> profile = read_mig_profile(*profiles, name, device.sms);
    if (!profile) return tl::unexpected(profile.error());
    device.mig_profiles[lower(name)] = *profile;
  }
  return {};
}

Result<void> check_plausible(const ObjectReader& file, const Device& device) {
  if (device.l2_size >= device.dram_size) {
    return file.error("l2_size_bytes", "expected less than dram_size_bytes");
  }
  return {};
}

// The constants themselves are checked by the time model, which knows them.
Result<void> read_time_model(const ObjectReader& file, Device& device) {
  if (!file.has("time_model")) return {};
  const auto model = file.object("time_model");
  if (!model) return tl::unexpected(model.error());
  device.time_model = model->dump();
  return {};
}

std::string file_stem(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (name.ends_with(".json")) name.remove_suffix(5);
  return std::string(name);
}

}  // namespace

Result<Device> parse_device(std::string_view json, std::string_view where) {
  const Result<DeviceJson> root = parse_device_json(json, where);
  if (!root) return tl::unexpected(root.error());
  const ObjectReader file(*root, "", where);
  Device device;
  device.id = file_stem(where);
  Result<void> step = check_keys(file);
  for (const auto read :
       {read_identity, read_numbers, read_all_peaks, read_mig_profiles, read_time_model}) {
    if (step) step = read(file, device);
  }
  if (step) step = check_plausible(file, device);
  if (!step) return tl::unexpected(step.error());
  return device;
}

Result<Device> read_device_file(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxDeviceFileBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_device(*text, path);
}

}  // namespace rooftile
