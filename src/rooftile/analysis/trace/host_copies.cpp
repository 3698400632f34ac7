#include "rooftile/analysis/trace/host_copies.h"

#include <algorithm>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

HostCopy& copy_at(std::vector<HostCopy>& all, const TraceSite& site, bool pageable) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const HostCopy& copy) {
    return copy.site == site && copy.pageable == pageable;
  });
  if (known != all.end()) return *known;
  HostCopy& copy = all.emplace_back();
  copy.site = site;
  copy.pageable = pageable;
  return copy;
}

void share_out(const SyncUse& sync, std::vector<HostCopy>& all) {
  Seconds time;
  std::vector<HostCopy*> here;
  for (HostCopy& upload : all) {
    if (!(upload.site == sync.site)) continue;
    here.push_back(&upload);
    time += upload.time;
  }
  for (HostCopy* upload : here) {
    const double share =
        time > Seconds() ? upload->time / time : 1 / static_cast<double>(here.size());
    upload->idle += share * sync.exposed;
    upload->blocked += share * sync.blocked;
  }
}

std::vector<HostCopy> copies_of(const TraceSummary& trace, CopyKind direction) {
  std::vector<HostCopy> all;
  for (const CopyUse& use : trace.copies) {
    if (use.shape.kind != direction) continue;
    HostCopy& copy = copy_at(all, use.site, use.shape.pageable);
    copy.count += use.count;
    copy.bytes += Bytes(static_cast<double>(use.shape.bytes));
    copy.time += use.time;
    copy.exposed += use.exposed;
    copy.in_line += use.in_line;
  }
  return all;
}

}  // namespace

CopyDirections directions_at(const TraceSummary& trace, const TraceSite& site) {
  CopyDirections sum;
  for (const CopyUse& copy : trace.copies) {
    if (!(copy.site == site)) continue;
    if (copy.shape.kind == CopyKind::device_to_host) sum.down += copy.count;
    if (copy.shape.kind == CopyKind::host_to_device) sum.up += copy.count;
  }
  return sum;
}

bool waits_for_upload(const TraceSummary& trace, const SyncUse& sync) {
  // A wait outside any operator is a user's own and has no place to tell it by, but for a copy,
  // whose direction most copies there tell.
  constexpr std::int64_t kMost = 10;
  if (sync.site.op.empty() && !contains(sync.call, "Memcpy")) return false;
  const auto [up, down] = directions_at(trace, sync.site);
  return sync.site.op.empty() ? up > kMost * down : up > 0 && down == 0;
}

std::vector<HostCopy> uploads(const TraceSummary& trace) {
  std::vector<HostCopy> all = copies_of(trace, CopyKind::host_to_device);
  for (const SyncUse& sync : trace.syncs) {
    if (waits_for_upload(trace, sync)) share_out(sync, all);
  }
  return all;
}

std::vector<HostCopy> downloads(const TraceSummary& trace) {
  std::vector<HostCopy> all = copies_of(trace, CopyKind::device_to_host);
  for (HostCopy& copy : all) copy.is_upload = false;
  return all;
}

}  // namespace rooftile
