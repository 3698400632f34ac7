#include "rooftile/rules/replacement.h"

#include <utility>

#include "rooftile/rules/gate.h"

namespace rooftile {

LayerGroup group_of(const RuleInput& input, std::vector<std::size_t> ops) {
  LayerGroup group{.ops = std::move(ops)};
  for (const std::size_t op : group.ops) group.time_share += input.analysis.ops[op].time_share;
  return group;
}

LayerGroup select(const RuleInput& input, const std::function<bool(std::size_t)>& wanted) {
  std::vector<std::size_t> ops;
  for (std::size_t op = 0; op < input.workload.ops.size(); ++op) {
    if (wanted(op)) ops.push_back(op);
  }
  return group_of(input, std::move(ops));
}

bool matters(const LayerGroup& group) { return group.time_share >= kMinTimeShare; }

TimeEstimate total_time(const RuleInput& input, const LayerGroup& group) {
  TimeEstimate total;
  for (const std::size_t op : group.ops) {
    const std::optional<TimeEstimate>& time = input.analysis.ops[op].time;
    if (!time) continue;
    const double runs = static_cast<double>(input.workload.ops[op].count);
    total.time += time->time * runs;
    total.launch += time->launch * runs;
    total.compute += time->compute * runs;
    total.memory += time->memory * runs;
  }
  return total;
}

Range<Seconds> saving_of_replacing(const RuleInput& input, const LayerGroup& group,
                                   const TimeEstimate& after) {
  return estimate_saving(total_time(input, group), after);
}

bool is_gain(const std::optional<Range<Seconds>>& saving) {
  return saving && saving->expected > Seconds(0);
}

}  // namespace rooftile
