#include "rooftile/analysis/time/section_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rooftile {

using nlohmann::json;

namespace {

constexpr unsigned kLongestTile = 4096;

}  // namespace

void SectionReader::report(const std::string& message) {
  if (!error_) error_ = Error{message, where_};
}

const json* SectionReader::member(const char* key) {
  asked_.insert(key);
  if (failed()) return nullptr;
  const auto found = json_.find(key);
  if (found == json_.end()) {
    report(fmt::format("found no \"{}\", expected it", key));
    return nullptr;
  }
  return &*found;
}

const json* SectionReader::optional_member(const char* key) {
  asked_.insert(key);
  return json_.contains(key) ? member(key) : nullptr;
}

void SectionReader::number(const char* key, double& value, double low, double high) {
  const json* found = member(key);
  if (!found) return;
  if (!found->is_number()) return report(fmt::format("\"{}\": expected a number", key));
  const double read = found->get<double>();
  if (read < low || read > high) {
    return report(fmt::format("\"{}\": found {}, expected {} to {}", key, read, low, high));
  }
  value = read;
}

void SectionReader::size(const char* key, int& value, int low) {
  double read = low;
  number(key, read, low, kLongestTile);
  value = static_cast<int>(read);
}

void SectionReader::flag(const char* key, bool& value) {
  const json* found = member(key);
  if (!found) return;
  if (!found->is_boolean()) return report(fmt::format("\"{}\": expected true or false", key));
  value = found->get<bool>();
}

void SectionReader::text(const char* key, std::string& value) {
  const json* found = member(key);
  if (!found) return;
  if (!found->is_string() || found->get<std::string>().empty()) {
    return report(fmt::format("\"{}\": expected a text", key));
  }
  value = found->get<std::string>();
}

void SectionReader::optional_texts(const char* key, std::vector<std::string>& values) {
  const json* found = optional_member(key);
  if (!found) return;
  const auto is_text = [](const json& value) { return value.is_string(); };
  if (!found->is_array() || !std::ranges::all_of(*found, is_text)) {
    return report(fmt::format("\"{}\": expected a list of texts", key));
  }
  values = found->get<std::vector<std::string>>();
}

void SectionReader::interval(const char* key, Interval& value) {
  const json* found = member(key);
  if (!found) return;
  const bool pair =
      found->is_array() && found->size() == 2 && (*found)[0].is_number() && (*found)[1].is_number();
  if (!pair) return report(fmt::format("\"{}\": expected [low, high]", key));
  value = {(*found)[0].get<double>(), (*found)[1].get<double>()};
  if (!(value.low > 0 && value.low <= 1 && value.high >= 1)) {
    report(fmt::format("\"{}\": expected 0 < low <= 1 <= high", key));
  }
}

void SectionReader::intervals(const char* key, Intervals& value) {
  const json* found = member(key);
  if (!found) return;
  SectionReader inner(*found, fmt::format("{}, {}", where_, key));
  inner.interval("latency", value.latency);
  inner.interval("memory", value.memory);
  inner.interval("math", value.math);
  if (const auto error = inner.finish(); error && !error_) error_ = error;
}

std::optional<Error> SectionReader::finish() {
  if (failed()) return error_;
  for (const auto& [key, unused] : json_.items()) {
    if (!asked_.contains(key)) report(fmt::format("found unknown key \"{}\"", key));
  }
  return error_;
}

namespace {

// [rows, columns] or [rows, columns, cluster rows].
std::optional<GemmTile> read_tile(const json& entry) {
  if (!entry.is_array() || entry.size() < 2 || entry.size() > 3) return std::nullopt;
  for (const json& size : entry) {
    if (!size.is_number_unsigned()) return std::nullopt;
    if (const auto whole = size.get<unsigned>(); whole == 0 || whole > kLongestTile) {
      return std::nullopt;
    }
  }
  const int rows = entry[0].get<int>();
  return GemmTile{{rows, entry[1].get<int>()}, entry.size() == 3 ? entry[2].get<int>() : rows};
}

void read_tiles(SectionReader& reader, GemmTiles& tiles) {
  const json* found = reader.member("tiles");
  if (!found) return;
  if (!found->is_array() || found->empty()) return reader.report("\"tiles\": expected a list");
  if (found->size() > kMostGemmTiles) {
    return reader.report(
        fmt::format("\"tiles\": found {}, expected at most {}", found->size(), kMostGemmTiles));
  }
  for (const json& entry : *found) {
    const auto tile = read_tile(entry);
    if (!tile) return reader.report("\"tiles\": expected [rows, columns] or [rows, columns, pair]");
    tiles.add(*tile);
  }
}

void read_quantize(SectionReader& reader, QuantizeConstants& quantize) {
  const json* found = reader.member("quantize");
  if (!found) return;
  SectionReader inner(*found, fmt::format("{}, quantize", reader.where()));
  inner.quantity("launch_s", quantize.launch);
  inner.quantity("row_s", quantize.row);
  inner.quantity("element_s", quantize.element);
  inner.share("dram_efficiency", quantize.dram_efficiency);
  if (const auto error = inner.finish()) reader.report(error->message);
}

void read_tile_rule(const json& entry, SectionReader& parent, std::vector<TileRule>& rules) {
  constexpr double kAny = 1e18;
  SectionReader reader(entry, fmt::format("{}, tile_rules", parent.where()));
  TileRule rule{0, kAny, kAny, 0, {}, 1};
  if (reader.optional_member("m_at_least")) reader.number("m_at_least", rule.min_m);
  if (reader.optional_member("m_at_most")) reader.number("m_at_most", rule.max_m);
  if (reader.optional_member("n_at_most")) reader.number("n_at_most", rule.max_n);
  if (reader.optional_member("k_at_least")) reader.number("k_at_least", rule.min_k);
  if (reader.optional_member("efficiency")) reader.factor("efficiency", rule.efficiency);
  const json* entry_tile = reader.member("tile");
  const auto tile = entry_tile ? read_tile(*entry_tile) : std::nullopt;
  if (!tile) reader.report("\"tile\": expected [rows, columns] or [rows, columns, pair]");
  if (const auto error = reader.finish()) return parent.report(error->message);
  rule.tile.add(*tile);
  rules.push_back(rule);
}

void read_tile_rules(SectionReader& reader, std::vector<TileRule>& rules) {
  const json* found = reader.member("tile_rules");
  if (!found) return;
  if (!found->is_array()) return reader.report("\"tile_rules\": expected a list");
  for (const json& entry : *found) read_tile_rule(entry, reader, rules);
  constexpr const char* kConditions[] = {"m_at_least", "m_at_most", "n_at_most", "k_at_least"};
  const bool complete = !found->empty() && std::ranges::none_of(kConditions, [&](const char* key) {
    return found->back().contains(key);
  });
  if (!complete) reader.report("\"tile_rules\": the last rule must hold for all");
}

void read_cuda_core_tile(const json& entry, SectionReader& parent, const char* key,
                         std::vector<CudaCoreTile>& tiles) {
  SectionReader reader(entry, fmt::format("{}, {}", parent.where(), key));
  CudaCoreTile tile;
  reader.size("rows", tile.tile.rows);
  reader.size("cols", tile.tile.cols);
  reader.size("slices", tile.slices);
  reader.factor("efficiency", tile.efficiency);
  reader.extra("reluctance", tile.reluctance);
  if (const auto error = reader.finish()) parent.report(error->message);
  tiles.push_back(tile);
}

void read_cuda_core_tiles(SectionReader& reader, const char* key,
                          std::vector<CudaCoreTile>& tiles) {
  const json* found = reader.member(key);
  if (!found) return;
  if (!found->is_array() || found->empty()) {
    return reader.report(fmt::format("\"{}\": expected a list", key));
  }
  for (const json& entry : *found) read_cuda_core_tile(entry, reader, key, tiles);
}

void read_alignment_row(const json& entry, const std::string& where, SectionReader& parent,
                        std::vector<AlignmentRow>& rows) {
  AlignmentRow row;
  SectionReader reader(entry, where);
  reader.number("operand_bytes_at_least", row.operand_bytes, 0, 32);
  reader.number("out_bytes_at_least", row.out_bytes, 0, 32);
  reader.share("factor", row.factor.expected);
  reader.number("low", row.factor.low, 0.01, row.factor.expected);
  reader.number("high", row.factor.high, row.factor.expected, 1);
  if (const auto error = reader.finish()) parent.report(error->message);
  rows.push_back(row);
}

void read_alignment_rows(SectionReader& reader, const char* key, std::vector<AlignmentRow>& rows) {
  const json* found = reader.member(key);
  if (!found) return;
  if (!found->is_array()) return reader.report(fmt::format("\"{}\": expected a list", key));
  for (const json& entry : *found) {
    read_alignment_row(entry, fmt::format("{}, {}", reader.where(), key), reader, rows);
  }
  const bool complete =
      !rows.empty() && rows.back().operand_bytes <= 0 && rows.back().out_bytes <= 0;
  if (!complete) reader.report(fmt::format("\"{}\": the last row must hold for all", key));
}

void read_rows(SectionReader& reader, const char* key, RowConstants& rows) {
  const json* found = reader.member(key);
  if (!found) return;
  SectionReader inner(*found, fmt::format("{}, {}", reader.where(), key));
  inner.share("efficiency", rows.efficiency);
  inner.quantity("row_s", rows.row);
  if (inner.optional_member("latency_s")) inner.quantity("latency_s", rows.latency);
  inner.extra("reread", rows.reread);
  if (const auto error = inner.finish()) reader.report(error->message);
}

void read_link(SectionReader& reader, const char* key, LinkConstants& link) {
  const json* found = reader.member(key);
  if (!found) return;
  SectionReader inner(*found, fmt::format("{}, {}", reader.where(), key));
  inner.quantity("latency_s", link.latency);
  inner.share("efficiency", link.efficiency);
  inner.quantity("bandwidth_bytes_per_s", link.bandwidth);
  if (const auto error = inner.finish()) reader.report(error->message);
}

}  // namespace

void read_constants(SectionReader& reader, GemmConstants& constants) {
  reader.quantity("launch_s", constants.launch);
  reader.quantity("latency_per_k_s", constants.latency_per_k);
  reader.quantity("prologue_s", constants.prologue);
  reader.quantity("epilogue_of_128x128_s", constants.epilogue);
  reader.factor("in_core_efficiency", constants.in_core_efficiency);
  reader.extra("tile_edge_elements", constants.tile_edge_elements);
  reader.quantity("operand_port_bytes_per_s", constants.operand_port);
  reader.factor("sustained_efficiency", constants.sustained_efficiency);
  reader.part("sustained_decline", constants.sustained_decline);
  reader.share("dram_efficiency", constants.dram_efficiency);
  reader.quantity("dram_latency_s", constants.dram_latency);
  reader.part("wave_sharpness", constants.wave_sharpness);
  reader.quantity("split_launch_s", constants.split_launch);
  reader.multiple("l2_speedup", constants.l2_speedup);
  reader.factor("l2_share", constants.l2_share);
  reader.multiple("operand_sets", constants.operand_sets);
  reader.quantity("reference_boost_clock_hz", constants.reference_clock);
  reader.number("reference_watts_per_flop_per_s", constants.reference_watts_per_flop_rate, 1e-15,
                1);
  reader.count("reference_flop_per_clock_and_sm", constants.reference_flop_per_clock);
  reader.flag("reference_inline_ecc", constants.reference_inline_ecc);
  reader.intervals("measured_over_predicted", constants.intervals);
  if (reader.optional_member("quantize")) read_quantize(reader, constants.quantize);
  if (reader.optional_member("tile_rules")) return read_tile_rules(reader, constants.tile_rules);
  read_tiles(reader, constants.tiles);
}

void read_constants(SectionReader& reader, CudaCoreConstants& constants) {
  reader.quantity("launch_s", constants.launch);
  reader.quantity("prologue_s", constants.prologue);
  reader.quantity("epilogue_of_128x128_s", constants.epilogue);
  reader.factor("math_efficiency", constants.math_efficiency);
  reader.extra("exposed_latency", constants.exposed_latency);
  reader.count("elements_to_fill_sm", constants.elements_to_fill_sm);
  reader.multiple("blocks_side_by_side", constants.blocks_side_by_side);
  reader.quantity("operand_port_bytes_per_s", constants.operand_port);
  reader.share("dram_efficiency", constants.dram_efficiency);
  reader.factor("l2_share", constants.l2_share);
  reader.exponent("overlap_exponent", constants.overlap_exponent);
  reader.quantity("split_launch_s", constants.split_launch);
  reader.part("energy_per_flop_j", constants.energy_per_flop);
  reader.quantity("power_response_s", constants.power_response);
  reader.extra("long_row_slowdown", constants.long_row_slowdown);
  reader.count("long_row_elements", constants.long_row_elements);
  reader.share("slab_efficiency", constants.slab_efficiency);
  reader.quantity("reference_boost_clock_hz", constants.reference_clock);
  reader.count("flop_per_clock_and_sm", constants.flop_per_clock);
  reader.intervals("measured_over_predicted", constants.intervals);
  reader.intervals("batched_measured_over_predicted", constants.batched_intervals);
  read_cuda_core_tiles(reader, "tiles", constants.tiles);
  read_cuda_core_tiles(reader, "batched_tiles", constants.batched_tiles);
}

void read_constants(SectionReader& reader, AlignmentConstants& constants) {
  read_alignment_rows(reader, "sixteen_bit", constants.sixteen_bit);
  read_alignment_rows(reader, "tf32", constants.tf32);
  read_alignment_rows(reader, "eight_bit", constants.eight_bit);
}

namespace {

using NamedWalk = std::pair<const char*, WalkConstants StreamConstants::*>;

constexpr std::array<NamedWalk, 14> kWalks{{
    {"converting", &StreamConstants::converting},
    {"strided", &StreamConstants::strided},
    {"transposed", &StreamConstants::transposed},
    {"reordered", &StreamConstants::reordered},
    {"gathered", &StreamConstants::gathered},
    {"concatenated", &StreamConstants::concatenated},
    {"scanned", &StreamConstants::scanned},
    {"sorted", &StreamConstants::sorted},
    {"row_sums", &StreamConstants::row_sums},
    {"column_sums", &StreamConstants::column_sums},
    {"short_sums", &StreamConstants::short_sums},
    {"whole_sums", &StreamConstants::whole_sums},
    {"unaligned_softmax", &StreamConstants::unaligned_softmax},
    {"short_softmax", &StreamConstants::short_softmax},
}};

void read_walks(SectionReader& reader, StreamConstants& constants) {
  const nlohmann::json* const walks = reader.member("walks");
  if (walks == nullptr) return;
  SectionReader all(*walks, reader.where() + ", walks");
  for (const auto& [name, walk] : kWalks) {
    const nlohmann::json* const found = all.member(name);
    if (found == nullptr) break;
    SectionReader inner(*found, all.where() + ", " + name);
    inner.number("elements_per_clock", (constants.*walk).elements_per_clock, 0.001, 1000);
    inner.quantity("latency_s", (constants.*walk).latency);
    inner.interval("measured_over_predicted", (constants.*walk).interval);
    if (const auto error = inner.finish()) all.report(error->message);
  }
  if (const auto error = all.finish()) reader.report(error->message);
}

}  // namespace

void read_constants(SectionReader& reader, StreamConstants& constants) {
  reader.quantity("launch_s", constants.launch);
  reader.share("dram_efficiency", constants.dram_efficiency);
  reader.share("gather_efficiency", constants.gather_efficiency);
  reader.share("transpose_efficiency", constants.transpose_efficiency);
  reader.multiple("l2_speedup", constants.l2_speedup);
  reader.factor("l2_share", constants.l2_share);
  reader.exponent("l2_sharpness", constants.l2_sharpness);
  reader.intervals("norm_measured_over_predicted", constants.norm_intervals);
  reader.intervals("softmax_measured_over_predicted", constants.softmax_intervals);
  reader.intervals("assumed_measured_over_predicted", constants.assumed_intervals);
  read_rows(reader, "norm", constants.norm);
  read_rows(reader, "softmax", constants.softmax);
  reader.share("short_softmax_efficiency", constants.short_softmax_efficiency);
  reader.count("rows_in_flight", constants.rows_in_flight);
  reader.quantity("cast_row_s", constants.cast_row);
  reader.multiple("sm_bytes_per_clock", constants.sm_bytes_per_clock);
  read_walks(reader, constants);
  reader.intervals("measured_over_predicted", constants.intervals);
}

void read_constants(SectionReader& reader, RecurrentConstants& constants) {
  reader.quantity("step_s", constants.step);
  reader.quantity("persistent_step_s", constants.persistent_step);
  reader.quantity("small_step_s", constants.small_step);
  reader.share("persistent_math_efficiency", constants.persistent_math_efficiency);
  reader.interval("step_measured_over_predicted", constants.step_interval);
  reader.interval("measured_over_predicted", constants.interval);
}

void read_constants(SectionReader& reader, CollectiveConstants& constants) {
  read_link(reader, "nvlink", constants.nvlink);
  read_link(reader, "pcie", constants.pcie);
  read_link(reader, "network", constants.network);
  reader.interval("measured_over_predicted", constants.interval);
}

}  // namespace rooftile
