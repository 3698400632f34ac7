// The time of one matrix product on Tensor Cores when the library is free to choose tile and
// split.
#pragma once

#include <optional>

#include "rooftile/analysis/tiles.h"
#include "rooftile/analysis/time/calibration.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {

// A product as a kernel sees it.
struct GemmWork {
  double m = 1, n = 1, k = 1, batch = 1;
  double element_bytes = 2;         // of the operands in shared memory
  double operand_bytes = 0;         // both operands, all products of the batch
  double out_bytes = 0;             // all products of the batch
  double throughput_factor = 1;     // what alignment leaves of the math rate
  FlopPerSecond peak;               // of the unit in use
  double sustained_efficiency = 1;  // of that peak, for as long as power allows
};

// Seconds throughout; the parts overlap.
struct GemmParts {
  GemmTile tile;  // of the likeliest kernel
  int split_k = 1;
  double waves = 0;
  double launch = 0, compute = 0, memory = 0, power = 0;
  double best = 0;                 // time of the likeliest kernel
  double total = 0;                // expected over the kernels that the library may choose
  bool waits_for_latency = false;  // the steps along k of one tile are the longest part
};

// The constants of a generation on one of its GPUs: latency goes with 1/clock, the port of an SM
// with the clock, the sustained rate with power per peak rate, the DRAM efficiency with ECC, the
// loss of small tiles with the rate of the Tensor Cores.
GemmConstants scale_constants(GemmConstants constants, const Device& device);

// Dense fp16 flop that an SM's Tensor Cores do in a clock; none where a number is missing.
std::optional<double> flop_per_clock_and_sm(const Device& device);

GemmWork gemm_work(const MatrixProduct& product, const MathUnit& unit,
                   const GemmConstants& constants);

GemmParts gemm_parts(const GemmWork& work, const GemmConstants& constants, const Device& device);
// Of the kernel with this tile, without a split.
GemmParts gemm_parts(const GemmWork& work, Tile tile, const GemmConstants& constants,
                     const Device& device);

}  // namespace rooftile
