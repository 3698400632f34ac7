// How long a command may run and how much memory it may hold, unless the user says.
#pragma once

#include "rooftile/cli/command_line.h"

namespace rooftile {

// 10 s and 1 GiB, and more for files above 256 MiB by their size. Changing files reads them several
// times, and a search is work that was asked for: a minute. Measuring has a budget of its own.
RunLimits default_limits(const Command& command);

}  // namespace rooftile
