// What the threads that launch work do besides launching it: copies, and code of the program's own,
// in no call of the runtime and no operator that launches something. A cheaper launch shortens
// neither.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct HostPart {
  Nanoseconds start = 0, end = 0;
  IdleCause cause = IdleCause::host_work;  // or copy
};

class HostParts {
 public:
  HostParts(const Timeline& timeline, const Links& links);

  // Those of a thread in [start, end), in order. Own code counts from where it lasts longer than
  // what lies between two launches anyway.
  std::vector<HostPart> within(std::uint16_t thread, Nanoseconds start, Nanoseconds end) const;

 private:
  std::vector<std::vector<HostPart>> parts_;  // by thread; disjoint and in order
};

}  // namespace rooftile::trace
