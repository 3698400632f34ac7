// Which nearby multiple to round a width up to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "rooftile/base/units.h"

namespace rooftile {

// Time saved when the width is raised to this size; empty when the model knows nothing.
using SavingAt = std::function<std::optional<Range<Seconds>>(std::int64_t)>;

// The multiple of `step` above `width` that saves most, among the next multiples of step, 16, 32,
// 64, 128 and 256. A multiple of 64 is preferred where it enlarges the width by at most 1 %: it
// makes 128-byte rows and even tiles. Another one must save 1 % more to be chosen.
std::int64_t choose_padded_width(std::int64_t width, std::int64_t step, const SavingAt& saving_at);

}  // namespace rooftile
