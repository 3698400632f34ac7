#include "rooftile/analysis/layer_groups.h"

#include <unordered_map>

namespace rooftile {
std::vector<LayerGroup> group_equal_layers(const Workload& workload, const Analysis& analysis,
                                           const std::function<bool(const Op&)>& wanted) {
  std::vector<LayerGroup> groups;
  std::unordered_map<std::size_t, std::size_t> index;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (!wanted(workload.ops[i])) continue;
    const auto [found, is_new] = index.try_emplace(analysis.ops[i].layer, groups.size());
    if (is_new) groups.emplace_back();
    LayerGroup& group = groups[found->second];
    group.ops.push_back(i);
    group.time_share += analysis.ops[i].time_share;
  }
  return groups;
}

double count_runs(const Workload& workload, const LayerGroup& group, Phase phase) {
  double runs = 0;
  for (const std::size_t i : group.ops) {
    if (workload.ops[i].phase == phase) runs += static_cast<double>(workload.ops[i].count);
  }
  return runs;
}

}  // namespace rooftile
