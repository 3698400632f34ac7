#include "rooftile/pipeline/collective_table.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/mangled_name.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// The runs of one collective, as transfers, and how far apart ranks end up in them.
struct Runs {
  std::vector<Seconds> times, skews;
};

Runs runs_of(const CollectiveUse& use, const std::vector<SharedCollective>& shared) {
  const auto found = std::ranges::find(shared, &use, &SharedCollective::first);
  if (found == shared.end() || found->runs.size() < 2) return {use.runs, {}};
  Runs runs;
  for (std::size_t run = 0; run < use.runs.size(); ++run) {
    Seconds shortest = use.runs[run], longest = use.runs[run];
    for (const auto* rank : found->runs) {
      shortest = std::min(shortest, (*rank)[run]);
      longest = std::max(longest, (*rank)[run]);
    }
    runs.times.push_back(shortest);
    runs.skews.push_back(longest - shortest);
  }
  return runs;
}

struct Group {
  CollectiveRow row;
  Runs runs;
};

struct GpuLink {
  std::string name;
  BytesPerSecond rate;
};

// Cards have NVLink only where a bridge joins two of them.
std::optional<GpuLink> link_of(const Device& device) {
  const bool is_card = device.id.find("pcie") != std::string::npos;
  if (device.nvlink_bandwidth && !is_card) return GpuLink{"NVLink", *device.nvlink_bandwidth};
  if (device.pcie_bandwidth) return GpuLink{"PCIe", *device.pcie_bandwidth};
  return std::nullopt;
}

void set_rates(const Group& group, std::optional<CollectiveKind> kind,
               const std::optional<GpuLink>& link, CollectiveRow& row) {
  constexpr Bytes kSmall(256.0 * 1024);  // NCCL's time hardly depends on the size below
  constexpr double kMostBeyond = 1.5;
  row.median = median_run(group.runs.times).value_or(Seconds(0));
  row.skew = median_run(group.runs.skews);
  if (!group.runs.times.empty()) row.fastest = *std::ranges::min_element(group.runs.times);
  if (!row.bytes || *row.bytes < kSmall || row.fastest <= Seconds(0) || row.ranks < 2) return;
  // Where even the fastest run waited for other ranks, its time is not the link's.
  if (row.per_pass * row.fastest > kMostBeyond * (row.time - row.waiting)) return;
  row.algorithm_bandwidth = *row.bytes / row.fastest;
  row.bus_bandwidth = *row.algorithm_bandwidth * bus_factor(kind, row.ranks);
  if (!link) return;
  row.link = link->name;
  row.link_share = *row.bus_bandwidth / link->rate;
}

}  // namespace

std::vector<CollectiveRow> collective_rows(const Workload& workload, const Device* device) {
  if (workload.traces.empty()) return {};
  const TraceSummary& trace = workload.traces.front();
  const std::vector<SharedCollective> shared = shared_collectives(workload.traces);
  // Of unknown size only those of one kernel are alike; NCCL's are told by their kind.
  using Key = std::tuple<std::optional<CollectiveKind>, double, std::int64_t, std::string>;
  std::map<Key, Group> groups;
  for (const CollectiveUse& use : trace.collectives) {
    const std::optional<Bytes> bytes = message_bytes(use);
    const bool is_named = !bytes && !contains(lower(use.kernel), "nccl");
    const std::string kernel = is_named ? function_of_kernel(use.kernel) : "";
    Group& group = groups[{kind_of(use), bytes ? bytes->value() : 0, use.shape.group_size, kernel}];
    group.row.kind = kind_words(kind_of(use));
    if (is_named) group.row.kind += " (" + kernel + ")";
    group.row.bytes = bytes;
    group.row.ranks = use.shape.group_size;
    group.row.per_pass += static_cast<double>(use.count) / recorded_steps(trace);
    group.row.time += use.time * window_part(trace) * (1 / window_steps(trace));
    group.row.exposed += use.exposed * window_part(trace) * (1 / window_steps(trace));
    group.row.waiting += use.waiting * window_part(trace) * (1 / window_steps(trace));
    Runs runs = runs_of(use, shared);
    std::ranges::move(runs.times, std::back_inserter(group.runs.times));
    std::ranges::move(runs.skews, std::back_inserter(group.runs.skews));
  }
  std::optional<GpuLink> link;
  if (device != nullptr && is_recorded_on(trace, *device)) link = link_of(*device);
  std::vector<CollectiveRow> rows;
  for (auto& [key, group] : groups) {
    set_rates(group, std::get<0>(key), link, group.row);
    rows.push_back(std::move(group.row));
  }
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.time > b.time; });
  return rows;
}

}  // namespace rooftile
