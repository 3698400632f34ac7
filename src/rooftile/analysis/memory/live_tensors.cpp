#include "rooftile/analysis/memory/live_tensors.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rooftile {
namespace {

// For each forward operation, by index, the last one that reads what it writes.
std::vector<std::size_t> last_readers(const Workload& workload) {
  std::vector<std::size_t> last(workload.ops.size());
  std::unordered_map<std::string_view, std::size_t> writers;
  std::size_t before = 0;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.phase != Phase::forward) continue;
    last[i] = i;
    if (op.inputs.empty()) last[before] = i;
    for (const std::string& input : op.inputs) {
      if (const auto writer = writers.find(input); writer != writers.end()) {
        last[writer->second] = i;
      }
    }
    for (const std::string& output : op.outputs) writers[output] = i;
    before = i;
  }
  return last;
}

}  // namespace

Bytes peak_live_bytes(const Workload& workload, Bytes (*size)(const Op&)) {
  const std::vector<std::size_t> last = last_readers(workload);
  std::vector<std::vector<std::size_t>> freed(workload.ops.size());
  Bytes alive, peak;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (workload.ops[i].phase != Phase::forward) continue;
    freed[last[i]].push_back(i);
    alive += size(workload.ops[i]);
    peak = std::max(peak, alive);
    for (const std::size_t dead : freed[i]) alive -= size(workload.ops[dead]);
  }
  return peak;
}

}  // namespace rooftile
