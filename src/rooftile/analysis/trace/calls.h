// What runtime calls and ranges do, by their names: CUDA's runtime and driver, and HIP's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/workload/timeline.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

enum class CallKind : std::uint8_t {
  other,
  launch,        // starts one kernel
  graph_launch,  // starts a whole CUDA graph
  copy,          // asynchronous copy or fill; may block all the same
  blocking_copy,
  event_wait,   // waits for one event
  stream_wait,  // waits for one stream
  device_wait,  // waits for everything
  allocation,
  release,   // cudaFree and the like, which wait for the device
  load,      // modules and libraries of kernels; NVRTC; graphs made ready to launch
  start_up,  // CUDA's own, once in a program
};

CallKind call_kind(std::string_view name);

// Starts work on the GPU.
constexpr bool is_launch(CallKind kind) {
  return kind == CallKind::launch || kind == CallKind::graph_launch || kind == CallKind::copy ||
         kind == CallKind::blocking_copy;
}

constexpr bool is_wait(CallKind kind) {
  return kind == CallKind::event_wait || kind == CallKind::stream_wait ||
         kind == CallKind::device_wait;
}

enum class RangeKind : std::uint8_t {
  other,
  step,            // ProfilerStep#5
  user_step,       // "iteration 7", as users name their own ranges
  engine_step,     // of a serving engine: "execute_context_1(128)_generation_4(4)"
  optimizer_step,  // Optimizer.step#SGD.step
  loader,          // the wait for the next batch
  rank_wait,       // a barrier on the host, gloo's collectives
  autograd,        // autograd::engine::…, AddmmBackward0
  compilation,     // a compiler makes kernels, or a library is built
  operation,       // an operator with a namespace: aten::addmm
};

RangeKind range_kind(std::string_view name);

// Ranges and Python frames in which kernels are compiled: torch.compile, Triton, NVRTC, extensions.
bool names_a_compiler(std::string_view name);

// The kind of each distinct text that a table names, found once; `Kind` is one of the above.
template <class Kind, class Classify>
std::vector<Kind> kinds_of(const StringTable& strings, const Column<std::uint32_t>& names,
                           Classify classify) {
  std::vector<Kind> kinds(strings.size());
  std::vector<bool> known(strings.size());
  for (std::size_t row = 0; row < names.size(); ++row) {
    const std::uint32_t name = names[row];
    if (known[name]) continue;
    known[name] = true;
    kinds[name] = classify(strings[name]);
  }
  return kinds;
}

}  // namespace rooftile::trace
