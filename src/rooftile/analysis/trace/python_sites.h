// Lines of the user's code and modules, from the frames of a recording with Python stacks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/nesting.h"
#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

enum class FrameKind : std::uint8_t {
  unknown,
  module,    // nn.Module: Linear_0
  internal,  // of Python itself, of torch, built in
  library,   // of another package
  user,
};

FrameKind frame_kind(std::string_view name);

// "train.py(88): train_step" -> file and line; empty for other texts. Of several frames, separated
// by ';' and innermost first, the first of the user's code, else the first of a library.
Provenance source_of_frames(std::string_view frames);

// What surrounds a point of time on a thread.
struct SiteRef {
  std::uint32_t module = 0;  // index of a path of modules; 0 = none
  std::uint32_t frame = 0;   // StringTable id of the innermost line of the user's code, else of a
                             // library's, or of a stack that contains it; 0 = none

  auto operator<=>(const SiteRef&) const = default;
};

struct SiteQuery {
  std::uint16_t thread = 0;
  Nanoseconds at = 0;
  std::uint32_t op = kNone;  // the innermost operator there, asked where no frames were recorded
};

class PythonSites {
 public:
  PythonSites(const Timeline& timeline, const Links& links);

  // One answer for each query, in their order.
  std::vector<SiteRef> at(const std::vector<SiteQuery>& queries);
  // Where each of these operators or ranges was called, itself as the operator.
  std::vector<TraceSite> sites_of(const std::vector<std::uint32_t>& ops);
  // Modules from outside to inside, joined by dots; the outermost is left out where there are more.
  std::string module_path(SiteRef site) const;
  Provenance source(SiteRef site) const;

 private:
  struct Frame;
  Frame inside(const Frame& outer, std::uint32_t row);
  std::uint32_t path_of(std::uint32_t outer, std::uint32_t name);
  // By the stack and module that old recordings keep with their operators.
  SiteRef site_of_op(std::uint32_t op);

  const Timeline& timeline_;
  const Links& links_;
  std::vector<FrameKind> kinds_;  // by name
  ThreadRows order_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> paths_{{0, 0}};  // (outer path, name)
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> path_ids_;
  std::map<std::uint32_t, std::uint32_t> stack_ids_;  // stack -> the first with the same line
  std::map<std::pair<std::string, std::int64_t>, std::uint32_t> first_stacks_;
};

}  // namespace rooftile::trace
