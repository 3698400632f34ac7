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

// Time of one run in which SMs have no tile: the most that full waves save. 0 where the kernel has
// no tiles.
Seconds idle_in_waves(const TimeEstimate& time);

// Neither its expected value nor its ends are above `most`.
Range<Seconds> capped(const Range<Seconds>& saving, Seconds most);

// A width at the edge of a tile, and what it saves at equal work: time per unit of width times the
// present width.
struct WidthOption {
  std::int64_t width = 0;
  Range<Seconds> saving{};
};

// The multiples of `step` below and above `width` that are expected to save time, no more than
// full tiles and waves do. `change` gives the operation at another width.
std::vector<WidthOption> tile_edges(const RuleInput& input, const LayerGroup& group,
                                    std::int64_t width, std::int64_t step,
                                    const std::function<Op(const Op&, std::int64_t)>& change);
// "192 (-3.2 % time per unit of width) or 256 (-21 %)".
std::string width_options_text(const std::vector<WidthOption>& options, Seconds total);
// The saving of the better one; not of an empty list.
Range<Seconds> best_saving(const std::vector<WidthOption>& options);

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

// "13.4 GB at 2.04 TB/s take at least 6.58 ms": evidence for what waits for memory.
std::string memory_floor_text(Bytes bytes, const Device& device);

}  // namespace rooftile
