// A part of a GPU as a device of its own: a slice of Multi-Instance GPU, a chip with fewer SMs.
#pragma once

#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

// The slice with this profile: "3g.40gb", also "3g_40gb", "1g.10gb+me", and "3g" where that is one
// profile only. The error for an unknown profile lists the real ones.
Result<Device> mig_slice(const Device& device, std::string_view profile);

// The same chip with another number of SMs, as sold under one name: peaks, bandwidth and L2 by the
// share of SMs, and constants measured on the whole left out.
Device with_sms(const Device& device, int sms);

}  // namespace rooftile
