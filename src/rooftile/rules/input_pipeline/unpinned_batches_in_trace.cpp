#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/uploads.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace input_pipeline_unpinned_batches_in_trace {

// What a copy at the rate of the link would still save.
Seconds certain_saving(const Upload& upload, const Device& device) {
  if (!device.pcie_bandwidth || upload.time <= Seconds(0)) return Seconds(0);
  const Seconds fast = upload.bytes / *device.pcie_bandwidth;
  const double saved = std::max(0.0, 1 - fast / upload.time);
  return saved * upload.exposed;
}

// The operator that made most of what is copied there; empty where it came from elsewhere.
std::string maker_of(const TraceSummary& trace, const Upload& upload) {
  const CopyUse* largest = nullptr;
  for (const CopyUse& copy : trace.copies) {
    if (copy.shape.kind != CopyKind::host_to_device || !(copy.site == upload.site)) continue;
    if (largest == nullptr || copy.time > largest->time) largest = &copy;
  }
  return largest == nullptr ? "" : largest->maker;
}

Fix propose(const TraceSummary& trace, const Upload& upload) {
  if (!uses_torch(trace)) {
    return {
        "Allocate the host's memory with cudaMallocHost, or register it with cudaHostRegister, and "
        "copy with cudaMemcpyAsync on a stream",
        Exactness::bit_exact};
  }
  const std::string maker = maker_of(trace, upload);
  if (maker == "aten::lift_fresh") {
    return {
        "Make the tensor once before the loop, or from values that are on the GPU already: "
        "torch.tensor(list) copies in every step",
        Exactness::bit_exact};
  }
  if (!maker.empty()) {
    const bool draws = maker.find("rand") != std::string::npos || maker == "aten::normal_";
    return {fmt::format("Make the tensor on the GPU: torch.{}(..., device=\"cuda\"){}",
                        maker == "aten::normal_" ? "randn" : maker.substr(6),
                        draws ? "" : ", or once before the loop"),
            draws ? Exactness::changes_training : Exactness::bit_exact};
  }
  // Where no loader was recorded, the program may make the tensors itself.
  if (trace.loaders.empty()) {
    return {
        "Make the tensors on the GPU (device=\"cuda\") where the data allows it, else copy from "
        "pinned memory (pin_memory) with .to(device, non_blocking=True)",
        Exactness::bit_exact};
  }
  return {
      "Pin the batches (DataLoader(pin_memory=True)) and copy with .to(device, "
      "non_blocking=True)",
      Exactness::bit_exact};
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const Upload& upload) {
  const Seconds cost = upload.exposed + upload.idle;
  const Seconds alone = certain_saving(upload, input.device());
  Finding finding = about_site(
      trace, upload.site,
      fmt::format("{} from pageable host memory: the GPU does not compute for {} because of them",
                  count_text(trace, upload.count, "copy"), cost_text(trace, cost)),
      propose(trace, upload),
      capped_by_work(trace,
                     gain_of_idle_time(trace, Remedy::asynchronous_copies, upload.idle) +
                         Range<Seconds>{alone, 0.5 * (alone + upload.exposed), upload.exposed}));
  finding.count = upload.count;
  finding.evidence = {Evidence::measured(fmt::format(
      "{} in {} ({}); the GPU copies alone for {} and idles for {} while the host waits",
      traffic_text(upload.bytes), time_text(upload.time),
      rate_text(upload.time > Seconds(0) ? upload.bytes / upload.time : BytesPerSecond(0)),
      time_text(upload.exposed), time_text(upload.idle)))};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, [&](const TraceSummary& trace) {
    std::vector<TraceCase> cases;
    for (const Upload& upload : uploads(trace)) {
      if (!upload.pageable || !is_visible(trace, upload.exposed + upload.idle)) continue;
      cases.push_back({upload.site.op + place_text(upload.site), describe(input, trace, upload)});
    }
    return cases;
  });
}

}  // namespace input_pipeline_unpinned_batches_in_trace

}  // namespace rooftile
