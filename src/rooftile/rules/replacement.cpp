#include "rooftile/rules/replacement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "rooftile/rules/gate.h"

namespace rooftile {
namespace {

// Orders the operations of a workload so that those of one layer are neighbours.
struct ByLayer {
  const std::vector<Op>& ops;

  auto key(std::size_t op) const {
    const Op& o = ops[op];
    return std::tuple(o.body.index(), std::string_view(o.name), std::string_view(o.source.node),
                      o.source.line);
  }
  bool operator()(std::size_t a, std::size_t b) const { return key(a) < key(b); }
};

}  // namespace

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

LayerGroup with_gradients(const RuleInput& input, std::vector<std::size_t> forward) {
  const std::vector<Op>& ops = input.workload.ops;
  const ByLayer by_layer{ops};
  std::vector<std::size_t> all = forward;
  std::sort(forward.begin(), forward.end(), by_layer);
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op].phase != Phase::dgrad && ops[op].phase != Phase::wgrad) continue;
    const auto layer = std::lower_bound(forward.begin(), forward.end(), op, by_layer);
    if (layer != forward.end() && !by_layer(op, *layer) && ops[op].body == ops[*layer].body) {
      all.push_back(op);
    }
  }
  std::sort(all.begin(), all.end());
  return group_of(input, std::move(all));
}

bool matters(const LayerGroup& group) { return group.time_share >= threshold::kReported; }

TimeEstimate total_time(const RuleInput& input, const LayerGroup& group) {
  TimeEstimate total;
  for (const std::size_t op : group.ops) {
    const std::optional<TimeEstimate>& time = input.analysis.ops[op].time;
    if (time) total = total + *time * static_cast<double>(input.workload.ops[op].count);
  }
  return total;
}

Range<Seconds> saving_of_replacing(const RuleInput& input, const LayerGroup& group,
                                   const TimeEstimate& after) {
  return estimate_saving(total_time(input, group), after);
}

bool is_gain(const RuleInput& input, const std::optional<Range<Seconds>>& saving) {
  return saving && saving->expected > Seconds(0) &&
         saving->expected >= threshold::kSavingReported * pass_time(input);
}

}  // namespace rooftile
