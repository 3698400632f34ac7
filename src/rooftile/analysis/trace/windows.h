// Sets of time: disjoint windows in order.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"

namespace rooftile::trace {

// Of any windows.
std::vector<Window> united(std::vector<Window> windows);

// Of two sets: what is in the first and not in the second; what is in both.
std::vector<Window> without(const std::vector<Window>& windows, const std::vector<Window>& holes);
std::vector<Window> common(const std::vector<Window>& a, const std::vector<Window>& b);

// How much of `bounds` a set covers.
Nanoseconds length_within(const std::vector<Window>& windows, const Window& bounds);

}  // namespace rooftile::trace
