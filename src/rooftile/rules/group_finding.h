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

// Notes in the finding what the operations of the group become.
void note_changes(const RuleInput& input, const LayerGroup& group, const Change& change,
                  Finding& finding);

// Time saved at equal work when each operation is changed and then does `more` times as much:
// doubling the tokens of a layer halves how often it runs.
std::optional<Range<Seconds>> saving_at_equal_work(const RuleInput& input, const LayerGroup& group,
                                                   const Change& change, double more);

// "forward out; dgrad dout, dx": the operands of each phase that are not 16-byte aligned.
std::string misaligned_operands_text(const RuleInput& input, const LayerGroup& group);
// The smallest alignment of any operand in any phase, in bytes, at most 16.
double worst_alignment(const RuleInput& input, const LayerGroup& group);

// Makes a finding advice unless it is expected to save a tenth of its operations' time.
void soften_unless_clear(const RuleInput& input, Finding& finding);

// Whether a change that aligns rows is worth proposing: the group is math-bound, or, where it waits
// for memory, the model still expects a tenth of its time from it. Unaligned kernels read fewer
// bytes at a time and reach the ridge much earlier, so that neither of the two is the whole story.
bool pays_to_align(const RuleInput& input, const LayerGroup& group, const Change& align);

// True when there is a saving and it is expected to be a loss or nothing.
bool is_pointless(const std::optional<Range<Seconds>>& saving);

// "+0.09 %", "-22 %", "+310 %": two digits below one, else none.
std::string percent_text(double fraction);

}  // namespace rooftile
