#include "rooftile/tuner/calibration_start.h"

#include <algorithm>

#include "rooftile/analysis/time/cuda_core_gemm.h"
#include "rooftile/analysis/time/gemm_residual.h"
#include "rooftile/analysis/time/gemm_time.h"
#include "rooftile/analysis/time/section_text.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

// The donor's constants as they hold on this device, which is their reference from now on.
void move_to(const Device& device, const GemmConstants& scaled, Json& section) {
  section["latency_per_k_s"] = scaled.latency_per_k.value();
  section["operand_port_bytes_per_s"] = scaled.operand_port.value();
  section["in_core_efficiency"] = scaled.in_core_efficiency;
  section["sustained_efficiency"] = scaled.sustained_efficiency;
  section["dram_efficiency"] = scaled.dram_efficiency;
  section["reference_boost_clock_hz"] = device.boost_clock.value();
  section["tile_edge_elements"] = scaled.tile_edge_elements;
  if (const auto rate = flop_per_clock_and_sm(device)) {
    section["reference_flop_per_clock_and_sm"] = *rate;
  }
  section["reference_inline_ecc"] = device.dram_ecc_share.value_or(0) > 0;
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  if (device.power_limit && peak != device.tensor_core_peak.end()) {
    section["reference_watts_per_flop_per_s"] = device.power_limit->value() / peak->second.value();
  }
}

void move_to(const Device& device, const CudaCoreConstants& scaled, Json& section) {
  section["prologue_s"] = scaled.prologue.value();
  section["epilogue_of_128x128_s"] = scaled.epilogue.value();
  section["operand_port_bytes_per_s"] = scaled.operand_port.value();
  section["reference_boost_clock_hz"] = device.boost_clock.value();
}

const char* residual_product(std::string_view key) {
  if (key == "tensor_gemm") return "bf16";
  return key == "fp8_gemm" ? "fp8_quantized" : "fp32_linear";
}

Json json_of(const Intervals& intervals) {
  const auto pair = [](const Interval& interval) {
    return Json::array({interval.low, interval.high});
  };
  return {{"latency", pair(intervals.latency)},
          {"memory", pair(intervals.memory)},
          {"math", pair(intervals.math)}};
}

// The id by which learned corrections know the device: its own, or that of an earlier calibration;
// empty where the device does without.
std::string learned_id(const Device& device, const std::string& key) {
  const Json file = Json::parse(device.time_model, nullptr, false);
  if (!file.is_object()) return device.id;
  if (file.contains("residual") && file["residual"] == false) return "";
  const Json::json_pointer known("/" + key + "/residual_of");
  const bool told = file.contains(known) && file[known].is_string();
  return told ? file[known].get<std::string>() : device.id;
}

}  // namespace

void keep_residual(const Device& device, const std::string& key, CalibrationStart& start) {
  if (!start.own || key == "stream") return;
  const std::string id = learned_id(device, key);
  const auto model = residual_for(id, residual_product(key));
  if (!model) return;
  start.section["residual_of"] = id;
  if (model->gpu == id) start.residual_intervals = json_of(model->intervals);
}

Result<CalibrationStart> start_from(const Device& device, std::string_view key,
                                    const std::string& donor) {
  const Result<SectionText> text = section_text(donor, key);
  if (!text) return tl::unexpected(text.error());
  const Result<Calibration> calibration = read_calibration(donor);
  if (!calibration) return tl::unexpected(calibration.error());
  const bool own = donors_for(device, key) == std::vector{donor};
  CalibrationStart start{Json::parse(text->json), text->donor, own, {}};
  start.section.erase("fitted_on");
  const auto scaled = [&](const auto& section) {
    return scale_constants(section.constants, device);
  };
  if (key == "tensor_gemm") move_to(device, scaled(calibration->tensor_gemm), start.section);
  if (key == "fp8_gemm") move_to(device, scaled(calibration->fp8_gemm), start.section);
  if (key == "cuda_gemm") move_to(device, scaled(calibration->cuda_gemm), start.section);
  return start;
}

std::vector<std::string> donors_for(const Device& device, std::string_view key) {
  Device plain = device;
  plain.time_model.clear();
  const auto calibration = calibration_for(plain);
  if (!calibration) return {};
  const std::string& own = (*calibration)->name;
  const auto text = section_text(own, key);
  if (text && text->own) return {own};
  std::vector<std::string> donors;
  if (text) donors.push_back(text->donor);
  for (const std::string& name : calibration_names()) {
    const auto other = section_text(name, key);
    if (other && other->own && std::ranges::find(donors, name) == donors.end())
      donors.push_back(name);
  }
  return donors;
}

}  // namespace rooftile
