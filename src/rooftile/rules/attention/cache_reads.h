// Attention that reads a cache of keys and values, shared by the rules about decode steps.
#pragma once

#include <functional>
#include <vector>

#include "rooftile/rules/group_finding.h"

namespace rooftile {

// Fused attention of few queries against a cache, outside of training, that `wanted` accepts.
struct CacheReads {
  std::vector<LayerGroup> groups;
  double time_share = 0;  // of the whole
  Bytes keys;             // keys and values read, all runs
};
CacheReads find_cache_reads(const RuleInput& input,
                            const std::function<bool(const Op&, const Attention&)>& wanted);

// Time saved when all of them are changed; empty where the model knows nothing.
std::optional<Range<Seconds>> saving_if_all(const RuleInput& input, const CacheReads& reads,
                                            const Change& change);

}  // namespace rooftile
