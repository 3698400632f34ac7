#include "rooftile/analysis/trace/launches.h"

#include <algorithm>
#include <tuple>

namespace rooftile::trace {

std::vector<Launched> kernels_by_launch(const Timeline& timeline, const Links& links,
                                        const Window& window) {
  std::vector<Launched> launched;
  for (std::uint32_t i = 0; i < timeline.gpu.time.size(); ++i) {
    const std::uint32_t call = links.gpu_call[i], op = links.gpu_op[i];
    if (op == kNone || !window.contains(timeline.gpu.time.start(i))) continue;
    launched.push_back(
        call != kNone ? Launched{timeline.calls.thread[call], timeline.calls.time.start(call), i}
                      : Launched{timeline.ops.thread[op], timeline.ops.time.start(op), i});
  }
  std::stable_sort(launched.begin(), launched.end(), [](const Launched& a, const Launched& b) {
    return std::tuple(a.thread, a.at) < std::tuple(b.thread, b.at);
  });
  return launched;
}

}  // namespace rooftile::trace
