#include "rooftile/analysis/time/convolution_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace rooftile {
namespace {

constexpr std::array<int, 12> kConvolutionSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128};
constexpr double kConvolutionMinPartOfK = 64;  // a shorter part of a split sum takes as long
constexpr double kConvolutionStepOfK = 32;
constexpr double kWorkspaceBytes = 8;  // fp32, written and read

double fourth_power(double x) {
  const double square = x * x;
  return square * square;
}

// What the splits of one tile share.
struct ConvolutionTileTerms {
  Tile tile;
  double tiles;  // blocks without a split
  double per_k;  // seconds of a block for each element of k
  double overhead;
  bool latency;
};

ConvolutionTileTerms tile_terms(Tile tile, const ConvolutionProduct& product,
                                const ConvolutionKernelConstants& c, const Device& device) {
  const double a = tile.rows, b = tile.cols;
  const double sm_rate = product.rate.value() / std::max(device.sms, 1);
  const double edges = (1 + c.tile_edge_elements / a) * (1 + c.tile_edge_elements / b);
  const double math = 2 * a * b / (c.in_core_efficiency * sm_rate) * edges;
  const double slower = clock_ratio(c, device);
  const double latency = c.latency_per_k.value() * slower;
  return {tile, product.batch * std::ceil(product.m / a) * std::ceil(product.n / b),
          overlapped(math, latency), c.overhead.value() * slower * a * b / 16384, latency > math};
}

// Writes the parts of a split sum and adds them.
double split_time(const ConvolutionProduct& product, int split, const ConvolutionKernelConstants& c,
                  const Device& device) {
  if (split == 1) return 0;
  const double bytes = kWorkspaceBytes * product.batch * product.m * product.n * split;
  return c.split_launch.value() + c.workspace_share * bytes / device.dram_bandwidth.value();
}

}  // namespace

double wave_count(double blocks, double sharpness, const Device& device) {
  const double waves = blocks / std::max(device.sms, 1);
  return sharpness * std::ceil(waves) + (1 - sharpness) * std::max(1.0, waves);
}

double overlapped(double a, double b) { return std::pow(fourth_power(a) + fourth_power(b), 0.25); }

double clock_ratio(const ConvolutionKernelConstants& constants, const Device& device) {
  return device.boost_clock.value() > 0 ? constants.reference_clock / device.boost_clock : 1.0;
}

ConvolutionKernel fastest_kernel(const ConvolutionProduct& product,
                                 const ConvolutionKernelConstants& constants,
                                 const Device& device) {
  ConvolutionKernel best;
  best.compute = std::numeric_limits<double>::infinity();
  for (const Tile tile : constants.tiles) {
    const ConvolutionTileTerms terms = tile_terms(tile, product, constants, device);
    for (const int split : kConvolutionSplits) {
      if (split > 1 && !product.may_split) break;
      const double waves = wave_count(terms.tiles * split, constants.wave_sharpness, device);
      const double part_of_k =
          std::max(kConvolutionStepOfK * std::ceil(product.k / split / kConvolutionStepOfK),
                   split > 1 ? kConvolutionMinPartOfK : 0);
      const double compute = waves * (part_of_k * terms.per_k + terms.overhead) +
                             split_time(product, split, constants, device);
      if (compute < best.compute) best = {terms.tile, split, waves, compute, terms.latency};
    }
  }
  return best;
}

}  // namespace rooftile
