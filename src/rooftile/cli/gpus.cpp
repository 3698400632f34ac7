// rooftile gpus: the GPUs that are built in, with the numbers the analysis uses.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"

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
          {"sources", sources_json(device.id)}};
}

std::string gpus_json() {
  Json list = Json::array();
  for (const Device& device : built_in_devices()) list.push_back(device_json(device));
  const Json json = {{"schema", "rooftile-gpus/1"}, {"gpus", std::move(list)}};
  return json.dump(2) + '\n';
}

std::string tera_text(const std::optional<FlopPerSecond>& rate) {
  return rate ? digits_text(rate->value() / 1e12) : "";
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
  const auto ridge = device.ridge(Dtype::fp16);
  return {device.id,
          device.name,
          fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10),
          fmt::format("{}", device.sms),
          tera_text(device.peak(Dtype::fp16)),
          tera_text(device.peak(Dtype::fp32)),
          digits_text(device.dram_bandwidth.value() / 1e9, 4),
          digits_text(device.dram_size.value() / 1073741824.0),
          ridge ? digits_text(ridge->value()) : "",
          friendly_aliases(device)};
}

std::string gpus_text(const TextStyle& style) {
  TextTable table{{{"gpu"},
                   {"product", false, Cut::end},
                   {"cc", true},
                   {"SMs", true},
                   {"fp16 TFLOP/s", true},
                   {"fp32", true},
                   {"GB/s", true},
                   {"GiB", true},
                   {"ridge", true},
                   {"also", false, Cut::end}},
                  {}};
  for (const Device& device : built_in_devices()) table.rows.push_back(device_row(device));
  return table_text(table, style.terminal ? style.width : 0);
}

}  // namespace

Result<Outcome> run(const GpusCommand& command, const TextStyle& style) {
  return Outcome{command.output.format == "json" ? gpus_json() : gpus_text(style)};
}

}  // namespace rooftile
