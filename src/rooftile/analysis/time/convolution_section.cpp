// The section `convolution` of a calibration file.
#include "rooftile/analysis/time/section_reader.h"

namespace rooftile {
namespace {

void read_tiles(SectionReader& reader, std::vector<Tile>& tiles) {
  const nlohmann::json* found = reader.member("tiles");
  if (!found) return;
  if (!found->is_array() || found->empty()) return reader.report("\"tiles\": expected a list");
  for (const nlohmann::json& entry : *found) {
    const auto is_size = [](const nlohmann::json& size) {
      return size.is_number_unsigned() && size.get<unsigned>() > 0 && size.get<unsigned>() <= 4096;
    };
    if (!entry.is_array() || entry.size() != 2 || !is_size(entry[0]) || !is_size(entry[1])) {
      return reader.report("\"tiles\": expected [rows, columns]");
    }
    tiles.push_back({entry[0].get<int>(), entry[1].get<int>()});
  }
}

void read_kernel(SectionReader& reader, ConvolutionKernelConstants& kernel) {
  reader.quantity("launch_s", kernel.launch);
  reader.quantity("latency_per_k_s", kernel.latency_per_k);
  reader.quantity("overhead_of_128x128_s", kernel.overhead);
  reader.factor("in_core_efficiency", kernel.in_core_efficiency);
  reader.extra("tile_edge_elements", kernel.tile_edge_elements);
  reader.part("wave_sharpness", kernel.wave_sharpness);
  reader.share("dram_efficiency", kernel.dram_efficiency);
  reader.quantity("split_launch_s", kernel.split_launch);
  reader.extra("split_workspace_share", kernel.workspace_share);
  reader.share("strided_efficiency", kernel.strided_efficiency);
  reader.quantity("reference_boost_clock_hz", kernel.reference_clock);
  read_tiles(reader, kernel.tiles);
}

// Calls read(inner reader) for the object under `key`.
template <class Read>
void read_object(SectionReader& reader, const char* key, const Read& read) {
  const nlohmann::json* found = reader.member(key);
  if (!found) return;
  SectionReader inner(*found, fmt::format("{}, {}", reader.where(), key));
  read(inner);
  if (const auto error = inner.finish()) reader.report(error->message);
}

void read_tensor(SectionReader& reader, TensorConvolutionConstants& tensor) {
  read_kernel(reader, tensor.kernel);
  reader.quantity("dgrad_launch_s", tensor.dgrad_launch);
}

void read_winograd(SectionReader& reader, WinogradConstants& winograd) {
  reader.factor("fused_efficiency", winograd.fused_efficiency);
  reader.quantity("fused_block_overhead_s", winograd.fused_overhead);
  reader.factor("efficiency", winograd.efficiency);
  reader.factor("transform_traffic", winograd.transform_traffic);
  reader.factor("filter_transform_traffic", winograd.filter_transform_traffic);
}

}  // namespace

void read_constants(SectionReader& reader, ConvolutionConstants& constants) {
  reader.factor("math_efficiency", constants.math_efficiency);
  read_object(reader, "tensor_kernel",
              [&](SectionReader& inner) { read_tensor(inner, constants.tensor); });
  read_object(reader, "cuda_kernel",
              [&](SectionReader& inner) { read_kernel(inner, constants.cuda); });
  read_object(reader, "winograd",
              [&](SectionReader& inner) { read_winograd(inner, constants.winograd); });
  reader.share("depthwise_efficiency", constants.depthwise_efficiency);
  reader.share("depthwise_math_efficiency", constants.depthwise_math_efficiency);
  reader.intervals("measured_over_predicted", constants.intervals);
  reader.intervals("fp32_measured_over_predicted", constants.fp32_intervals);
  reader.intervals("fp32_other_measured_over_predicted", constants.fp32_other_intervals);
  reader.interval("depthwise_measured_over_predicted", constants.depthwise_interval);
}

}  // namespace rooftile
