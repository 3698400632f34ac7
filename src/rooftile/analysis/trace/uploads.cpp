#include "rooftile/analysis/trace/uploads.h"

#include <algorithm>

#include "rooftile/analysis/trace/gain.h"

namespace rooftile {
namespace {

Upload& upload_at(std::vector<Upload>& all, const TraceSite& site, bool pageable) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const Upload& upload) {
    return upload.site == site && upload.pageable == pageable;
  });
  if (known != all.end()) return *known;
  Upload& upload = all.emplace_back();
  upload.site = site;
  upload.pageable = pageable;
  return upload;
}

void share_out(const SyncUse& sync, std::vector<Upload>& all) {
  Seconds time;
  std::vector<Upload*> here;
  for (Upload& upload : all) {
    if (!(upload.site == sync.site)) continue;
    here.push_back(&upload);
    time += upload.time;
  }
  for (Upload* upload : here) {
    const double share =
        time > Seconds() ? upload->time / time : 1 / static_cast<double>(here.size());
    upload->idle += share * sync.exposed;
    upload->blocked += share * sync.blocked;
  }
}

}  // namespace

bool waits_for_upload(const TraceSummary& trace, const SyncUse& sync) {
  // A wait outside any operator is a user's own and has no place to tell it by.
  if (sync.site.op.empty()) return false;
  bool uploads = false;
  for (const CopyUse& copy : trace.copies) {
    if (!(copy.site == sync.site)) continue;
    if (copy.shape.kind == CopyKind::device_to_host) return false;
    uploads = uploads || copy.shape.kind == CopyKind::host_to_device;
  }
  return uploads;
}

std::vector<Upload> uploads(const TraceSummary& trace) {
  std::vector<Upload> all;
  for (const CopyUse& copy : trace.copies) {
    if (copy.shape.kind != CopyKind::host_to_device) continue;
    Upload& upload = upload_at(all, copy.site, copy.shape.pageable);
    upload.count += copy.count;
    upload.bytes += Bytes(static_cast<double>(copy.shape.bytes));
    upload.time += copy.time;
    upload.exposed += copy.exposed;
    upload.in_line += copy.in_line;
  }
  for (const SyncUse& sync : trace.syncs) {
    if (waits_for_upload(trace, sync)) share_out(sync, all);
  }
  return all;
}

}  // namespace rooftile
