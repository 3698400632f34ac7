#include "rooftile/analysis/host_time.h"

namespace rooftile {
namespace {

// Python, dispatcher and driver for one operation. The low end: launches of captured C++ loops.
// NeuSight's public tables of single eager operations have a floor of 6 to 24 us inside networks;
// expected is the middle of these.
constexpr Range<Seconds> kHostPerOperation{Seconds(4e-6), Seconds(12e-6), Seconds(24e-6)};

// Of a decode step, whose operations eager code runs in several kernels each: norms, rotary
// embeddings, the update of the cache. The high end: gpt-fast (PyTorch, 2023) begins with 25.5
// tokens/s for Llama-2-7B on an A100, 39 ms for about 390 operations. The others are assumed.
constexpr Range<Seconds> kHostPerStepOperation{Seconds(20e-6), Seconds(60e-6), Seconds(100e-6)};

}  // namespace

HostEstimate estimate_host(const Workload& workload) {
  HostEstimate host;
  for (const Op& op : workload.ops) host.launches += to_double(op.count);
  const bool step = workload.mode == Mode::decode;
  host.time = (step ? kHostPerStepOperation : kHostPerOperation) * host.launches;
  return host;
}

bool waits_for_launches(Mode mode) { return mode != Mode::decode; }

bool is_launch_bound(const HostEstimate& host, Seconds kernels) {
  constexpr double kProgram = 20;  // operations; fewer are a part of something else
  return host.launches >= kProgram && host.time.expected > kernels;
}

}  // namespace rooftile
