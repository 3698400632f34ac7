// rooftile gpus: the GPUs that are built in, or one of them with all its numbers and sources.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

Json rates_json(const std::map<Dtype, FlopPerSecond>& rates) {
  Json json = Json::object();
  for (const auto& [dtype, rate] : rates) json[std::string(to_string(dtype))] = rate.value();
  return json;
}

template <class Q>
Json optional_json(const std::optional<Q>& quantity) {
  if (!quantity) return nullptr;
  return quantity->value();
}

Json ridges_json(const Device& device) {
  Json json = Json::object();
  for (const DtypeInfo& entry : kDtypes) {
    const auto ridge = device.ridge(entry.dtype);
    if (ridge) json[std::string(entry.name)] = ridge->value();
  }
  return json;
}

Json calibrated_json(const Device& device) {
  Json list = Json::array();
  const TimeModel model(device);
  for (const DtypeInfo& entry : kDtypes) {
    if (device.peak(entry.dtype) && model.calibrated(entry.dtype)) list.push_back(entry.name);
  }
  return list;
}

Json slices_json(const Device& device) {
  Json list = Json::array();
  for (const auto& [name, profile] : device.mig_profiles) list.push_back(name);
  return list;
}

Json sources_json(const std::string& id) {
  Json list = Json::array();
  for (const SourcedNumber& number : device_sources(id)) {
    list.push_back({{"key", number.key}, {"value", number.value}, {"source", number.source}});
  }
  return list;
}

Json device_json(const Device& device) {
  return {{"id", device.id},
          {"name", device.name},
          {"aliases", device.aliases},
          {"architecture", device.architecture},
          {"compute_capability", device.compute_capability},
          {"sms", device.sms},
          {"boost_clock_hz", device.boost_clock.value()},
          {"tensor_core_flop_per_s", rates_json(device.tensor_core_peak)},
          {"cuda_core_flop_per_s", rates_json(device.cuda_core_peak)},
          {"dram_bandwidth_bytes_per_s", device.dram_bandwidth.value()},
          {"dram_size_bytes", device.dram_size.value()},
          {"l2_size_bytes", device.l2_size.value()},
          {"shared_memory_per_sm_bytes", optional_json(device.shared_memory_per_sm)},
          {"power_limit_w", optional_json(device.power_limit)},
          {"nvlink_bandwidth_bytes_per_s", optional_json(device.nvlink_bandwidth)},
          {"pcie_bandwidth_bytes_per_s", optional_json(device.pcie_bandwidth)},
          {"ridge_flop_per_byte", ridges_json(device)},
          {"calibrated", calibrated_json(device)},
          {"mig_profiles", slices_json(device)},
          {"sources", sources_json(device.id)}};
}

std::string gpus_json(const std::vector<Device>& devices) {
  Json list = Json::array();
  for (const Device& device : devices) list.push_back(device_json(device));
  const Json json = {{"schema", "rooftile-gpus/2"}, {"gpus", std::move(list)}};
  return json.dump(2) + '\n';
}

std::string tera_text(const std::optional<FlopPerSecond>& rate) {
  return rate ? digits_text(rate->value() / 1e12) : "";
}

// Where libraries fall back to FP32, the ridge of another dtype says nothing new.
std::string ridge_text(const Device& device, Dtype dtype) {
  const auto ridge = device.ridge(dtype);
  return ridge && device.has_tensor_cores(dtype) ? digits_text(ridge->value()) : "";
}

std::string capability_text(const Device& device) {
  return fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10);
}

// Aliases to type; the others are product names as drivers report them.
std::string friendly_aliases(const Device& device) {
  std::vector<std::string> aliases;
  for (const std::string& alias : device.aliases) {
    if (alias == lower(alias) && alias.find(' ') == std::string::npos) aliases.push_back(alias);
  }
  return join(aliases, ", ");
}

std::vector<std::string> device_row(const Device& device) {
  return {device.id,
          device.name,
          capability_text(device),
          fmt::format("{}", device.sms),
          tera_text(device.peak(Dtype::fp16)),
          tera_text(device.peak(Dtype::fp32)),
          digits_text(device.dram_bandwidth.value() / 1e9, 4),
          digits_text(device.dram_size.value() / 1073741824.0),
          digits_text(device.ridge(Dtype::fp16)->value()),
          ridge_text(device, Dtype::tf32),
          ridge_text(device, Dtype::fp8),
          friendly_aliases(device)};
}

std::string gpus_text(const std::vector<Device>& devices, const TextStyle& style) {
  TextTable table{{{"gpu"},
                   {"product", false, Cut::end},
                   {"cc", true},
                   {"SMs", true},
                   {"fp16 TFLOP/s", true},
                   {"fp32", true},
                   {"GB/s", true},
                   {"GiB", true},
                   {"ridge fp16", true},
                   {"tf32", true},
                   {"fp8", true},
                   {"also", false, Cut::end}},
                  {}};
  std::vector<std::string> sliced;
  for (const Device& device : devices) {
    table.rows.push_back(device_row(device));
    if (!device.mig_profiles.empty()) sliced.push_back(device.id);
  }
  constexpr std::string_view kNotes =
      "Rates are dense, with FP32 accumulation. The ridge is the arithmetic intensity (FLOP/byte) "
      "above which a GEMM is math-bound. `rooftile gpus NAME` shows all numbers of one "
      "GPU and their sources.";
  return table_text(table, style.terminal ? style.width : 0) + '\n' + wrapped(kNotes, style.width) +
         wrapped(fmt::format("MIG slices, as h100_mig_1g_10gb or h100:1g.10gb, of: {}.",
                             join(sliced, ", ")),
                 style.width);
}

// One GPU.

std::string clocks_text(const Device& device) {
  const std::string boost = digits_text(device.boost_clock.value() / 1e9, 4) + " GHz";
  if (!device.cuda_core_clock) return boost;
  return fmt::format("{} Tensor Cores, {} GHz CUDA cores", boost,
                     digits_text(device.cuda_core_clock->value() / 1e9, 4));
}

std::string_view unit_name(const Device& device, Dtype dtype) {
  if (device.has_tensor_cores(dtype)) return "Tensor Cores";
  return device.cuda_core_peak.contains(dtype) ? "CUDA cores" : "CUDA cores, as fp32";
}

TextTable rates_table(const Device& device) {
  TextTable table{{{"GEMM in"}, {"on"}, {"peak", true}, {"ridge FLOP/byte", true}, {"time model"}},
                  {}};
  const TimeModel model(device);
  for (const DtypeInfo& entry : kDtypes) {
    const auto peak = device.peak(entry.dtype);
    if (!peak || entry.dtype == Dtype::int32) continue;
    table.rows.push_back(
        {std::string(entry.name), std::string(unit_name(device, entry.dtype)), rate_text(*peak),
         digits_text(device.ridge(entry.dtype)->value()),
         model.calibrated(entry.dtype) ? "calibrated" : "from another generation"});
  }
  return table;
}

TextTable numbers_table(const Device& device) {
  TextTable table{{{"number"}, {"value"}}, {}};
  const auto add = [&](std::string name, std::string value) {
    table.rows.push_back({std::move(name), std::move(value)});
  };
  add("compute capability", fmt::format("{} ({})", capability_text(device), device.architecture));
  add("SMs", fmt::format("{}", device.sms));
  add("boost clock", clocks_text(device));
  add("memory", bytes_text(device.dram_size));
  add("memory bandwidth", rate_text(device.dram_bandwidth));
  add("L2 cache", bytes_text(device.l2_size));
  if (device.shared_memory_per_sm) {
    add("shared memory per SM", bytes_text(*device.shared_memory_per_sm));
  }
  if (device.dram_ecc_share) add("memory that ECC takes", share_text(*device.dram_ecc_share));
  if (device.dram_cpu_share) {
    add("shared with the CPU, which keeps", share_text(*device.dram_cpu_share));
  }
  if (device.power_limit) {
    add("power limit", fmt::format("{} W", digits_text(device.power_limit->value())));
  }
  if (device.nvlink_bandwidth) add("NVLink", rate_text(*device.nvlink_bandwidth) + " one way");
  if (device.pcie_bandwidth) add("PCIe", rate_text(*device.pcie_bandwidth) + " one way");
  return table;
}

// Sources repeat, so each is printed once with the numbers it holds for.
std::string sources_text(const Device& device, int width) {
  std::vector<std::pair<std::string, std::vector<std::string>>> keys_of_source;
  for (const SourcedNumber& number : device_sources(device.id)) {
    if (number.key.starts_with("mig_profiles.")) continue;
    const auto known =
        std::find_if(keys_of_source.begin(), keys_of_source.end(),
                     [&](const auto& entry) { return entry.first == number.source; });
    if (known != keys_of_source.end()) {
      known->second.push_back(number.key);
    } else {
      keys_of_source.push_back({number.source, {number.key}});
    }
  }
  std::string text;
  for (const auto& [source, keys] : keys_of_source) {
    text += wrapped(fmt::format("{}: {}", join(keys, ", "), source), width, 2);
  }
  return text;
}

// What the numbers of a slice come from, and the other names; then the numbers.
std::string heading_text(const Device& device, int width) {
  std::string text = fmt::format("{} ({})\n", device.name, device.id);
  if (!device.aliases.empty()) text += wrapped("also: " + join(device.aliases, ", "), width);
  if (const std::size_t at = device.id.find(':'); at != std::string::npos) {
    const std::string whole = device.id.substr(0, at);
    text += wrapped(fmt::format("A slice: SMs, memory, bandwidth and L2 cache by its profile, from "
                                "the numbers of {}; `rooftile gpus {}` shows their sources.",
                                whole, whole),
                    width);
  }
  return text + '\n';
}

std::string device_text(const Device& device, const TextStyle& style) {
  constexpr std::string_view kNotes =
      "Peaks are dense, with FP32 accumulation. The time model is calibrated where its constants "
      "were fitted to measurements of this GPU generation; elsewhere they come from another one, "
      "and predicted ranges are wide.";
  const int width = style.terminal ? style.width : 0;
  std::string text = heading_text(device, style.width) + table_text(numbers_table(device), width) +
                     '\n' + table_text(rates_table(device), width) + '\n' +
                     wrapped(kNotes, style.width);
  if (!device.mig_profiles.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, profile] : device.mig_profiles) names.push_back(name);
    text += wrapped(
        fmt::format("MIG slices, as {}:{}: {}.", device.id, names.front(), join(names, ", ")),
        style.width);
  }
  const std::string sources = sources_text(device, style.width);
  return sources.empty() ? text : text + "\nSources\n" + sources;
}

}  // namespace

Result<Outcome> run(const GpusCommand& command, const TextStyle& style) {
  const bool json = command.output.format == "json";
  if (command.name.empty()) {
    const std::vector<Device>& devices = built_in_devices();
    return Outcome{json ? gpus_json(devices) : gpus_text(devices, style)};
  }
  InputOptions named;
  named.gpu = command.name;
  const auto device = pick_device(named);
  if (!device) return tl::unexpected(device.error());
  return Outcome{json ? gpus_json({*device}) : device_text(*device, style)};
}

}  // namespace rooftile
