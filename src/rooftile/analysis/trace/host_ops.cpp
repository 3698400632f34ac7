// The operators of a recording without a GPU.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/op_table.h"
#include "rooftile/analysis/trace/owners.h"
#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kMostHostRows = 4096;

// Operators to list: the outermost with a neutral form, in order of threads and time.
std::vector<std::uint32_t> listed_ops(const Timeline& timeline, const Links& links,
                                      Owners& owners) {
  std::vector<bool> inside(timeline.ops.time.size());  // in a listed operator, or one itself
  std::vector<std::uint32_t> listed;
  for (const std::uint32_t op : links.op_order.rows) {
    const std::uint32_t parent = links.op_parent[op];
    inside[op] = parent != kNone && inside[parent];
    if (inside[op] || timeline.ops.kind[op] != HostKind::op) continue;
    if (links.kind_of_op(timeline, op) != RangeKind::operation) continue;
    if (owners.neutral(op).size() != 1) continue;
    inside[op] = true;
    listed.push_back(op);
  }
  return listed;
}

}  // namespace

std::vector<OpUse> tabulate_host_ops(const Timeline& timeline, const Links& links,
                                     PythonSites& sites) {
  Owners owners(timeline, links);
  const std::vector<std::uint32_t> listed = listed_ops(timeline, links, owners);
  std::vector<SiteQuery> queries;
  for (const std::uint32_t op : listed) {
    queries.push_back({timeline.ops.thread[op], timeline.ops.time.start(op), op});
  }
  const std::vector<SiteRef> places = sites.at(queries);
  using Key = std::tuple<std::uint32_t, std::uint32_t, bool, SiteRef>;
  std::map<Key, std::size_t> index;
  std::vector<OpUse> uses;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const std::uint32_t op = listed[i];
    const bool backward = is_backward(timeline, links, op);
    const Key key{timeline.ops.name[op], timeline.ops.arguments[op], backward, places[i]};
    if (uses.size() == kMostHostRows && !index.contains(key)) continue;
    const auto [at, is_new] = index.try_emplace(key, uses.size());
    if (is_new) {
      OpUse& use = uses.emplace_back();
      use.name = timeline.strings[timeline.ops.name[op]];
      use.arguments = timeline.arguments[timeline.ops.arguments[op]];
      use.phase = backward ? Phase::dgrad : Phase::forward;
      use.site = {use.name, sites.module_path(places[i]), sites.source(places[i])};
      use.op = owners.neutral(op).front();
      use.op->source = use.site.source;
      use.op->source.module = use.site.module;
    }
    OpUse& use = uses[at->second];
    use.op->count = ++use.count;
    use.host_time += to_seconds(timeline.ops.time.duration(op));
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const OpUse& a, const OpUse& b) { return a.host_time > b.host_time; });
  return uses;
}

}  // namespace rooftile::trace
