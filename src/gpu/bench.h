// What measuring asks of a GPU. The real one is behind open_gpu(); tests bring their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/base/units.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile::gpu {

// The state of the board, as NVML reports it; empty where it does not say.
struct Conditions {
  std::optional<Hertz> sm_clock, memory_clock;
  std::optional<Watts> power;
  std::optional<double> temperature_celsius;
  // Bits of nvmlClocksEventReasons; 0 while nothing slows the clocks.
  std::uint64_t throttle_reasons = 0;

  bool operator==(const Conditions&) const = default;
};

// How the operands of repeated runs follow each other.
struct Rotation {
  // Sets of operands used in turn. 0: as many as exceed the L2 cache, so that every run is cold.
  int sets = 0;
};

// An operation with its operands in memory, ready to run again and again.
class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  // Replays a batch of runs and returns the mean time of one.
  virtual Result<Seconds> run() = 0;
  // What the library chose: kernel names, tile, split, stages; for people.
  virtual std::string kernel() const = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  // The built-in description where the GPU is known, else what the driver tells.
  virtual const Device& device() const = 0;
  // Driver and library versions, one a line.
  virtual std::string versions() const = 0;
  virtual Conditions conditions() = 0;
  // An error says what of the operation cannot be measured.
  virtual Result<std::unique_ptr<PreparedOp>> prepare(const Op& op, const Rotation& rotation) = 0;
};

// The first GPU that CUDA_VISIBLE_DEVICES shows. Everything of CUDA is loaded here; an error is one
// line that says what is missing.
Result<std::unique_ptr<Gpu>> open_gpu();

}  // namespace rooftile::gpu
