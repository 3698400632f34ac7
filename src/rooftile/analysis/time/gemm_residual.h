// What measurements of single shapes say beyond the kernel model: the library's choices. Small
// regression trees, one set per fitted GPU and precision, from data/residuals/*.json.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/analysis/time/gemm_time.h"
#include "rooftile/base/result.h"

namespace rooftile {

// Inputs of the trees, in the order of their indices. A file names those that it knows: the first
// ones of this list.
constexpr std::array<std::string_view, 20> kResidualFeatures = {"log2_m",
                                                                "log2_n",
                                                                "log2_k",
                                                                "log2_compute_share",
                                                                "log2_memory_share",
                                                                "log2_power_share",
                                                                "log2_us",
                                                                "log2_tile_rows",
                                                                "log2_tile_cols",
                                                                "log2_split",
                                                                "log2_waves",
                                                                "wave_fill",
                                                                "choice_spread",
                                                                "row_fill",
                                                                "column_fill",
                                                                "log2_operand_bytes",
                                                                "log2_batch",
                                                                "log2_blocks",
                                                                "n_alignment",
                                                                "k_alignment"};
using ResidualFeatures = std::array<float, kResidualFeatures.size()>;

// Of the products alone or with the kernels that `parts` adds before them.
ResidualFeatures residual_features(const GemmWork& work, const GemmParts& parts, int sms);

// A node of a tree in preorder: its left child follows, leaves have no feature.
struct ResidualNode {
  float value = 0;  // threshold, or ln(measured / predicted) of a leaf
  std::int16_t feature = -1;
  std::int16_t right = 0;  // distance to the right child
};

// Sizes that were measured.
struct ResidualSupport {
  double low = 1, high = 1;
};

struct ResidualModel {
  std::string gpu;                      // device id it was fitted on
  std::vector<std::string> applies_to;  // device ids
  std::string product;                  // "bf16", "fp8_quantized", "fp32_linear", "fp32_bmm"
  std::string origin;
  ResidualSupport m, n, k, batch;
  // Of the kernel model's time on the fitted GPU, microseconds: shorter kernels hid in the host's
  // time where single launches were measured.
  ResidualSupport us{0, std::numeric_limits<double>::infinity()};
  double limit = 0;  // of the logarithm
  std::vector<ResidualNode> nodes;
  std::vector<std::uint32_t> roots;
  Intervals intervals;

  // Factor on the predicted time; 1 beyond the support, where it fades over half an octave.
  double factor(const ResidualFeatures& features, const GemmWork& work) const;
  bool supports(const GemmWork& work, double us) const;

 private:
  double octaves_beyond(const GemmWork& work, double us) const;
};

// An error names the key.
Result<ResidualModel> read_residual(std::string_view name, std::string_view text);

// The one for products of a kind on a device, parsed once and only if it names the device; null
// where there is none.
std::shared_ptr<const ResidualModel> residual_for(std::string_view device_id,
                                                  std::string_view product);

}  // namespace rooftile
