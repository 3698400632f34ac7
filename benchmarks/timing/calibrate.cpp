// Calibrates a GPU from measured points, starting from named generations: what the benchmark of
// short calibrations calls.
//
//   rooftile_calibrate GPU POINTS [DONOR ...]
//
// POINTS is any input with measured times (text form with measured_s, CSV of timings). Prints the
// sections as JSON; errors go to standard error with exit code 2.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "rooftile/rooftile.h"

int main(int count, char** arguments) {
  using namespace rooftile;
  if (count < 3) {
    fmt::print(stderr, "usage: rooftile_calibrate GPU POINTS [DONOR ...]\n");
    return 2;
  }
  const std::string gpu = arguments[1];
  const auto device = gpu.ends_with(".json") ? read_device_file(gpu) : find_device(gpu);
  const auto points = read(arguments[2], {});
  if (!device || !points) {
    fmt::print(stderr, "{}\n", to_string(device ? points.error() : device.error()));
    return 2;
  }
  CalibrationOptions options;
  options.donors.assign(arguments + 3, arguments + count);
  const auto result = calibrate(*device, points->ops, options);
  if (!result) {
    fmt::print(stderr, "{}\n", to_string(result.error()));
    return 2;
  }
  for (const FittedSection& section : result->sections) {
    fmt::print(stderr, "{} from {}: {} points, {:.1f} -> {:.1f} %\n", section.key, section.donor,
               section.points, 100 * section.before.mean, 100 * section.after.mean);
  }
  fmt::print("{}\n", result->time_model);
  return 0;
}
