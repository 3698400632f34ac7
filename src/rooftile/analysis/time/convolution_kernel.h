// The kernels of convolutions: output tiles in waves over the SMs.
#pragma once

#include "rooftile/analysis/time/calibration.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

// A product as a kernel sees it: `batch` times out[m,n], each a sum over k.
struct ConvolutionProduct {
  double m = 1, n = 1, k = 1, batch = 1;
  FlopPerSecond rate;      // peak of the unit, less what alignment or strides take
  bool may_split = false;  // the sum may be split over blocks
};

struct ConvolutionKernel {
  Tile tile;
  int split_k = 1;
  double waves = 0;
  double compute = 0;              // seconds, without the launch and DRAM
  bool waits_for_latency = false;  // the steps along k are the longest part
};

// The tile and split that take the least time.
ConvolutionKernel fastest_kernel(const ConvolutionProduct& product,
                                 const ConvolutionKernelConstants& constants, const Device& device);

// Waves of equal blocks, rounded up as far as `sharpness` says.
double wave_count(double blocks, double sharpness, const Device& device);

// Parts that overlap: the longest counts, the others little.
double overlapped(double a, double b);

// What latencies are multiplied with on this GPU.
double clock_ratio(const ConvolutionKernelConstants& constants, const Device& device);

}  // namespace rooftile
