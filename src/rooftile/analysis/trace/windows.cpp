#include "rooftile/analysis/trace/windows.h"

#include <algorithm>

namespace rooftile::trace {

std::vector<Window> united(std::vector<Window> windows) {
  std::ranges::sort(windows, {}, &Window::start);
  std::vector<Window> merged;
  for (const Window& window : windows) {
    if (window.end <= window.start) continue;
    if (!merged.empty() && window.start <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, window.end);
    } else {
      merged.push_back(window);
    }
  }
  return merged;
}

std::vector<Window> without(const std::vector<Window>& windows, const std::vector<Window>& holes) {
  std::vector<Window> rest;
  std::size_t hole = 0;
  for (Window window : windows) {
    while (hole < holes.size() && holes[hole].end <= window.start) ++hole;
    for (std::size_t i = hole; i < holes.size() && holes[i].start < window.end; ++i) {
      if (holes[i].start > window.start) rest.push_back({window.start, holes[i].start});
      window.start = std::max(window.start, holes[i].end);
    }
    if (window.end > window.start) rest.push_back(window);
  }
  return rest;
}

std::vector<Window> common(const std::vector<Window>& a, const std::vector<Window>& b) {
  return without(a, without(a, b));
}

Nanoseconds length_within(const std::vector<Window>& windows, const Window& bounds) {
  Nanoseconds sum = 0;
  for (const Window& window : windows) {
    const Nanoseconds length =
        std::min(window.end, bounds.end) - std::max(window.start, bounds.start);
    if (length > 0) sum += length;
  }
  return sum;
}

}  // namespace rooftile::trace
