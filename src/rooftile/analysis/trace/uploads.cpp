#include "rooftile/analysis/trace/uploads.h"

#include <algorithm>

#include "rooftile/analysis/trace/gain.h"

namespace rooftile {
namespace {

Upload& upload_at(std::vector<Upload>& all, const TraceSite& site) {
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const Upload& upload) { return upload.site == site; });
  if (known != all.end()) return *known;
  Upload& upload = all.emplace_back();
  upload.site = site;
  return upload;
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
  const double part = window_part(trace);
  std::vector<Upload> all;
  for (const CopyUse& copy : trace.copies) {
    if (copy.shape.kind != CopyKind::host_to_device) continue;
    Upload& upload = upload_at(all, copy.site);
    upload.pageable = upload.pageable || copy.shape.pageable;
    upload.count += copy.count;
    upload.bytes += Bytes(part * static_cast<double>(copy.shape.bytes));
    upload.time += part * copy.time;
    upload.exposed += part * copy.exposed;
  }
  for (const SyncUse& sync : trace.syncs) {
    if (!waits_for_upload(trace, sync)) continue;
    Upload& upload = upload_at(all, sync.site);
    upload.idle += sync.exposed;
    upload.blocked += sync.blocked;
  }
  return all;
}

}  // namespace rooftile
