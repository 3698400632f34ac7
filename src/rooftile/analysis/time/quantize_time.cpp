#include "rooftile/analysis/time/quantize_time.h"

#include <algorithm>
#include <cmath>

namespace rooftile {

QuantizeParts quantize_parts(double rows, double cols, double in_bytes,
                             const QuantizeConstants& constants, const Device& device) {
  QuantizeParts parts;
  const double waves = std::max(1.0, rows / std::max(device.sms, 1));
  parts.launch = constants.launch.value();
  parts.compute = waves * (constants.row.value() + cols * constants.element.value());
  parts.memory =
      rows * cols * (in_bytes + 1) / (constants.dram_efficiency * device.dram_bandwidth.value());
  parts.total =
      parts.launch + std::pow(std::pow(parts.compute, 3) + std::pow(parts.memory, 3), 1.0 / 3);
  return parts;
}

}  // namespace rooftile
