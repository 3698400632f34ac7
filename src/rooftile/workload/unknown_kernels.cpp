#include "rooftile/workload/unknown_kernels.h"

#include <algorithm>

namespace rooftile {

UnknownKernels unknown_kernels(const TraceSummary& summary) {
  UnknownKernels unknown;
  const auto add = [&](const KernelUse& kernel) {
    unknown.all += kernel.time;
    const KernelClass kernel_class = kernel.facts.kernel_class;
    if (kernel.name == kWholeGraph) {
      unknown.graphs += kernel.time;
    } else if (kernel_class == KernelClass::other) {
      unknown.other += kernel.time;
    } else if (kernel_class == KernelClass::unknown) {
      unknown.own += kernel.time;
      const bool is_longer = unknown.longest == nullptr || kernel.time > unknown.longest->time;
      if (is_longer) unknown.longest = &kernel;
    }
  };
  for (const OpUse& use : summary.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(summary.orphans, add);
  return unknown;
}

}  // namespace rooftile
