#include "rooftile/tuner/calibrated_section.h"

#include <array>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {
namespace {

// Widths of the priors: how far constants of GPUs that were fitted with thousands of shapes differ
// from each other. Latencies and per-block costs differ most between generations; the share of the
// DRAM bandwidth that a stream reaches differs least.
constexpr std::array<TunedConstant, 15> kTensorCoreConstants{{
    {"/launch_s", 0.3, 2e-7, 1e-4},
    {"/latency_per_k_s", 0.75, 1e-10, 1e-6, Pace::sm_clock, true},
    {"/prologue_s", 1.0, 1e-9, 1e-4, Pace::sm_clock, true},
    {"/epilogue_of_128x128_s", 0.3, 1e-8, 1e-3, Pace::sm_clock, true},
    {"/in_core_efficiency", 0.22, 0.05, 4, Pace::sm_clock},
    {"/tile_edge_elements", 1.2, 0.1, 200},
    {"/operand_port_bytes_per_s", 0.5, 1e9, 1e13, Pace::sm_clock},
    {"/sustained_efficiency", 0.22, 0.05, 2, Pace::power},
    {"/sustained_decline", 0.5, 1e-3, 0.2},
    {"/dram_efficiency", 0.1, 0.1, 1, Pace::memory_clock},
    {"/dram_latency_s", 0.3, 1e-9, 1e-4},
    {"/wave_sharpness", 1, 0.01, 1},
    {"/split_launch_s", 0.3, 1e-8, 1e-4},
    {"/l2_speedup", 0.3, 1, 20},
    {"/l2_share", 0.3, 0.01, 10},
}};

constexpr std::array<TunedConstant, 12> kCudaCoreConstants{{
    {"/launch_s", 0.3, 2e-7, 1e-4},
    {"/prologue_s", 0.75, 1e-9, 1e-4, Pace::sm_clock, true},
    {"/epilogue_of_128x128_s", 0.3, 1e-8, 1e-3, Pace::sm_clock, true},
    {"/math_efficiency", 0.1, 0.05, 2, Pace::sm_clock},
    {"/exposed_latency", 0.5, 1e-3, 4},
    {"/operand_port_bytes_per_s", 0.3, 1e9, 1e13, Pace::sm_clock},
    {"/dram_efficiency", 0.15, 0.1, 1, Pace::memory_clock},
    {"/slab_efficiency", 0.15, 0.05, 1, Pace::memory_clock},
    {"/l2_share", 0.3, 0.01, 10},
    {"/split_launch_s", 0.3, 1e-8, 1e-3},
    {"/energy_per_flop_j", 0.2, 1e-13, 1e-9, Pace::power, true},
    {"/power_response_s", 0.5, 1e-6, 1},
}};

constexpr std::array<TunedConstant, 11> kStreamConstants{{
    {"/launch_s", 0.3, 2e-7, 1e-4},
    {"/dram_efficiency", 0.15, 0.05, 1, Pace::memory_clock},
    {"/norm/efficiency", 0.2, 0.05, 1, Pace::memory_clock},
    {"/norm/row_s", 0.5, 1e-9, 1e-4, Pace::sm_clock, true},
    {"/softmax/efficiency", 0.2, 0.05, 1, Pace::memory_clock},
    {"/softmax/row_s", 0.5, 1e-9, 1e-4, Pace::sm_clock, true},
    {"/gather_efficiency", 0.3, 0.05, 1, Pace::memory_clock},
    {"/transpose_efficiency", 0.3, 0.05, 1, Pace::memory_clock},
    {"/cast_row_s", 0.5, 1e-9, 1e-4, Pace::sm_clock, true},
    {"/l2_speedup", 0.3, 1, 20},
    {"/l2_share", 0.3, 0.01, 10},
}};

constexpr std::array<CalibratedSection, 4> kSections{{
    {"tensor_gemm", kTensorCoreConstants, 0.12, 0.4, true},
    {"fp8_gemm", kTensorCoreConstants, 0.12, 0.4, true},
    {"cuda_gemm", kCudaCoreConstants, 0.12, 0.4, false},
    {"stream", kStreamConstants, 0.06, 1, false},
}};

// Kinds that are one kernel of known traffic.
bool is_stream(const Body& body) {
  return std::holds_alternative<Elementwise>(body) || std::holds_alternative<Normalization>(body) ||
         std::holds_alternative<Softmax>(body) || std::holds_alternative<Reduction>(body) ||
         std::holds_alternative<Embedding>(body) || std::holds_alternative<Cast>(body) ||
         std::holds_alternative<LayoutConversion>(body);
}

// Whether nothing but the section's own constants sets the time: not the alignment factors.
bool is_plain(const MatrixProduct& product, const MathUnit& unit) {
  if (!unit.tensor_cores) return true;
  const bool fitted = is_16_bit_float(unit.dtype) || unit.dtype == Dtype::fp8;
  return fitted && unit.dtype == product.math && alignment_of(product).full();
}

}  // namespace

std::span<const CalibratedSection> calibrated_sections() { return kSections; }

const CalibratedSection* section_of(const Op& op, const Device& device) {
  if (op.phase == Phase::forward && is_stream(op.body)) return &kSections[3];
  if (!std::holds_alternative<Gemm>(op.body)) return nullptr;
  const std::vector<MatrixProduct> products = matrix_products(op);
  if (products.size() != 1) return nullptr;
  const MathUnit unit = math_unit(device, products.front().math);
  if (!is_plain(products.front(), unit)) return nullptr;
  if (!unit.tensor_cores) return &kSections[2];
  return unit.dtype == Dtype::fp8 ? &kSections[1] : &kSections[0];
}

}  // namespace rooftile
