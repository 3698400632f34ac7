// Lines of the user's code and modules, from the frames of a recording with Python stacks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/nesting.h"
#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

enum class FrameKind : std::uint8_t {
  unknown,
  module,    // nn.Module: Linear_0
  internal,  // of Python itself, of torch, built in
  library,   // of another package
  user,
};

FrameKind frame_kind(std::string_view name);

// "train.py(88): train_step" -> file and line; empty for other texts.
Provenance source_of_frame(std::string_view name);

// What surrounds a point of time on a thread.
struct SiteRef {
  std::uint32_t module = 0;  // index of a path of modules; 0 = none
  std::uint32_t frame = 0;   // StringTable id of the innermost line of the user's code, else of a
                             // library's; 0 = none

  auto operator<=>(const SiteRef&) const = default;
};

struct SiteQuery {
  std::uint16_t thread = 0;
  Nanoseconds at = 0;
};

class PythonSites {
 public:
  explicit PythonSites(const Timeline& timeline);

  // One answer for each query, in their order.
  std::vector<SiteRef> at(const std::vector<SiteQuery>& queries);
  // Modules from outside to inside, joined by dots; the outermost is left out where there are more.
  std::string module_path(SiteRef site) const;
  Provenance source(SiteRef site) const;

 private:
  struct Frame;
  Frame inside(const Frame& outer, std::uint32_t row);

  const Timeline& timeline_;
  std::vector<FrameKind> kinds_;  // by name
  ThreadRows order_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> paths_{{0, 0}};  // (outer path, name)
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> path_ids_;
};

}  // namespace rooftile::trace
