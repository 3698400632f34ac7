#include "rooftile/rules/attention/cache_reads.h"

#include <algorithm>

namespace rooftile {
namespace {

double keys_of(const Attention& a) {
  const double seen = a.window > 0 ? to_double(std::min(a.window, a.kv_len)) : to_double(a.kv_len);
  return to_double(a.batch) * to_double(a.kv_heads) * seen * to_double(key_width(a));
}

}  // namespace

CacheReads find_cache_reads(const RuleInput& input,
                            const std::function<bool(const Op&, const Attention&)>& wanted) {
  CacheReads reads;
  if (input.workload.mode == Mode::training) return reads;
  reads.groups = group_equal_layers(input.workload, input.analysis, [&](const Op& op) {
    const auto* attention = std::get_if<Attention>(&op.body);
    return attention != nullptr && attention->fused && op.phase == Phase::forward &&
           reads_cache(*attention) && wanted(op, *attention);
  });
  for (const LayerGroup& group : reads.groups) {
    const Op& op = input.workload.ops[group.ops.front()];
    reads.time_share += group.time_share;
    reads.keys += storage(keys_of(std::get<Attention>(op.body)), op.dtypes.weight) *
                  count_runs(input.workload, group, Phase::forward);
  }
  return reads;
}

std::optional<Range<Seconds>> saving_if_all(const RuleInput& input, const CacheReads& reads,
                                            const Change& change) {
  Range<Seconds> total{};
  for (const LayerGroup& group : reads.groups) {
    const auto saving = saving_if_all(input, group, change);
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

}  // namespace rooftile
