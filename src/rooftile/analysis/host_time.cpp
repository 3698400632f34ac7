#include "rooftile/analysis/host_time.h"

namespace rooftile {
namespace {

// Python, dispatcher and driver for one operation. The ends: launches of captured C++ loops and
// PyTorch operators under autograd and autocast; NeuSight's public tables of single eager
// operations have a floor of 6 to 24 us inside networks.
constexpr Range<Seconds> kHostPerOperation{Seconds(4e-6), Seconds(8e-6), Seconds(20e-6)};

}  // namespace

HostEstimate estimate_host(const Workload& workload) {
  HostEstimate host;
  for (const Op& op : workload.ops) host.launches += to_double(op.count);
  host.time = kHostPerOperation * host.launches;
  return host;
}

bool waits_for_launches(Mode mode) { return mode != Mode::decode; }

bool is_launch_bound(const HostEstimate& host, Seconds kernels) {
  constexpr double kProgram = 20;  // operations; fewer are a part of something else
  return host.launches >= kProgram && host.time.expected > kernels;
}

}  // namespace rooftile
