// Where a calibration starts: the constants of a GPU that was fitted, moved to this one, and the
// learned corrections that hold there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

struct CalibrationStart {
  nlohmann::ordered_json
      section;  // scaled to the device, with the learned corrections that hold there
  std::string donor;
  bool own = false;                           // fitted on the device's generation
  nlohmann::ordered_json residual_intervals;  // null without corrections of this GPU
};

// Where the device's generation was fitted, its constants; else those of every one that was, the
// one that the generation borrows first.
std::vector<std::string> donors_for(const Device& device, std::string_view key);

// Section `key` of calibration `donor`, scaled to the device. An error names an unknown donor.
Result<CalibrationStart> start_from(const Device& device, std::string_view key,
                                    const std::string& donor);

// What the generation's kernels are corrected by stays in force; where it was learned on this very
// GPU, so do its intervals.
void keep_residual(const Device& device, const std::string& key, CalibrationStart& start);

}  // namespace rooftile
