// Findings about groups of equal layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/analysis/layer_groups.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/rule.h"

namespace rooftile {

using Change = std::function<Op(const Op&)>;

// Time saved over all runs of the group when each of its operations is changed; empty where the
// model knows nothing.
std::optional<Range<Seconds>> saving_if_all(const RuleInput& input, const LayerGroup& group,
                                            const Change& change);

// Time of all runs of the group; empty where the model knows nothing.
std::optional<Seconds> time_of(const RuleInput& input, const LayerGroup& group);

// True when any product of the group, in any phase, is math-bound.
bool is_math_bound(const RuleInput& input, const LayerGroup& group);

// One finding for several groups: located at the first operation, counting layers. `saving` is the
// total; it is left empty where unknown.
Finding finding_at_groups(const RuleInput& input, const std::vector<LayerGroup>& groups,
                          std::string message, Fix fix, std::optional<Range<Seconds>> saving);

// A saving that may be nothing is advice, one that is sure keeps the rule's own level.
void soften_unless_sure(Finding& finding);

// True when there is a saving and it is expected to be a loss or nothing.
bool is_pointless(const std::optional<Range<Seconds>>& saving);

// "+0.09 %", "-22 %", "+310 %": two digits below one, else none.
std::string percent_text(double fraction);

}  // namespace rooftile
