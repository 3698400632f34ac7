// The attention section of a calibration file.
#include <algorithm>

#include "rooftile/analysis/time/section_reader.h"

namespace rooftile {

using nlohmann::json;

namespace {

void read_attention_style(SectionReader& reader, AttentionStyle& style) {
  std::string name;
  reader.text("style", name);
  if (name == "flash_attention_3") {
    style = AttentionStyle::flash_3;
  } else if (name == "flash_attention_2") {
    style = AttentionStyle::flash_2;
  } else {
    reader.report("\"style\": expected flash_attention_2 or flash_attention_3");
  }
}

AttentionKernel read_attention_kernel(const json& entry, const std::string& where,
                                      SectionReader& parent) {
  AttentionKernel kernel;
  SectionReader reader(entry, where);
  reader.size("head_dim", kernel.head_dim);
  reader.size("rows", kernel.rows);
  reader.size("keys", kernel.keys);
  reader.size("local_keys", kernel.local_keys);
  reader.size("few_rows", kernel.few_rows, 0);
  reader.size("few_keys", kernel.few_keys, std::min(kernel.few_rows, 1));
  reader.factor("block_cost", kernel.block_cost);
  reader.quantity("tile_fixed_s", kernel.tile_fixed);
  reader.quantity("local_tile_fixed_s", kernel.local_tile_fixed);
  reader.quantity("few_tile_fixed_s", kernel.few_tile_fixed);
  reader.quantity("few_prefill_fixed_s", kernel.few_prefill_fixed);
  reader.quantity("sequence_s", kernel.sequence);
  reader.quantity("sequence_pair_s", kernel.sequence_pair);
  reader.quantity("late_sequence_s", kernel.late_sequence);
  if (const auto error = reader.finish()) parent.report(error->message);
  return kernel;
}

void read_attention_kernels(SectionReader& reader, const char* key,
                            std::vector<AttentionKernel>& kernels, bool may_be_empty) {
  const json* found = reader.member(key);
  if (!found) return;
  if (!found->is_array() || (found->empty() && !may_be_empty)) {
    return reader.report(fmt::format("\"{}\": expected a list", key));
  }
  for (const json& entry : *found) {
    const auto kernel =
        read_attention_kernel(entry, fmt::format("{}, {}", reader.where(), key), reader);
    if (!kernels.empty() && kernel.head_dim <= kernels.back().head_dim) {
      reader.report(fmt::format("\"{}\": expected growing head_dim", key));
    }
    kernels.push_back(kernel);
  }
}

}  // namespace

void read_constants(SectionReader& reader, AttentionConstants& constants) {
  read_attention_style(reader, constants.style);
  read_attention_kernels(reader, "kernels", constants.kernels, false);
  read_attention_kernels(reader, "narrow_kernels", constants.narrow_kernels, true);
  reader.quantity("launch_s", constants.launch);
  reader.quantity("narrow_launch_s", constants.narrow_launch);
  reader.quantity("start_s", constants.start);
  reader.quantity("cache_write_s", constants.cache_write);
  reader.quantity("narrow_element_s", constants.narrow_element);
  reader.multiple("narrow_cache_write", constants.narrow_cache_write);
  reader.share("cache_write_efficiency", constants.cache_write_efficiency);
  reader.share("query_load_gain", constants.query_load_gain);
  reader.factor("math_efficiency", constants.math_efficiency);
  reader.factor("narrow_math_efficiency", constants.narrow_math_efficiency);
  reader.multiple("exponentials_per_clock", constants.exponentials_per_clock);
  reader.multiple("port_bytes_per_clock", constants.port_bytes_per_clock);
  reader.multiple("port_against_dram", constants.port_against_dram);
  reader.multiple("alone", constants.alone);
  reader.extra("wave_sharpness", constants.wave_sharpness);
  reader.factor("query_bandwidth", constants.query_bandwidth);
  reader.share("dram_efficiency", constants.dram_efficiency);
  reader.multiple("l2_speedup", constants.l2_speedup);
  reader.factor("l2_share", constants.l2_share);
  reader.multiple("decode_l2_speedup", constants.decode_l2_speedup);
  reader.factor("decode_l2_share", constants.decode_l2_share);
  reader.exponent("overlap_exponent", constants.overlap_exponent);
  reader.quantity("dram_latency_s", constants.dram_latency);
  reader.quantity("combine_s", constants.combine);
  reader.quantity("combine_per_split_s", constants.combine_per_split);
  reader.quantity("combine_block_s", constants.combine_block);
  reader.quantity("copy_s", constants.copy);
  reader.quantity("strided_copies_s", constants.strided_copies);
  reader.factor("copy_efficiency", constants.copy_efficiency);
  reader.quantity("reference_boost_clock_hz", constants.reference_clock);
  reader.multiple("backward_flop", constants.backward_flop);
  reader.factor("backward_efficiency", constants.backward_efficiency);
  reader.intervals("prefill_measured_over_predicted", constants.prefill_intervals);
  reader.intervals("decode_measured_over_predicted", constants.decode_intervals);
}

}  // namespace rooftile
