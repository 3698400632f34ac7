// Several operations that one cause concerns, and what replacing them saves.
#pragma once

#include <functional>
#include <optional>

#include "rooftile/analysis/layer_groups.h"
#include "rooftile/rules/rule.h"

namespace rooftile {

// The operations as one group, whatever their shapes.
LayerGroup group_of(const RuleInput& input, std::vector<std::size_t> ops);
// All operations that `wanted` accepts, by index, as one group.
LayerGroup select(const RuleInput& input, const std::function<bool(std::size_t)>& wanted);

// The operations and the gradients of the same layers: equal name, place and dims.
LayerGroup with_gradients(const RuleInput& input, std::vector<std::size_t> forward);

bool matters(const LayerGroup& group);

// Time of all runs, summed; operations the model knows nothing of count as 0.
TimeEstimate total_time(const RuleInput& input, const LayerGroup& group);

// Time saved when all runs of the group together take `after`.
Range<Seconds> saving_of_replacing(const RuleInput& input, const LayerGroup& group,
                                   const TimeEstimate& after);

// True for an estimate that expects a gain worth mentioning.
bool is_gain(const RuleInput& input, const std::optional<Range<Seconds>>& saving);

}  // namespace rooftile
