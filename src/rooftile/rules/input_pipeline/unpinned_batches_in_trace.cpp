#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "rooftile/analysis/trace/benchmarks.h"
#include "rooftile/analysis/trace/host_copies.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace input_pipeline_unpinned_batches_in_trace {

// Of the nominal rate, by copies from pinned memory: NVIDIA CUDA C++ Best Practices Guide, "Pinned
// Memory": about 12 GB/s where PCIe 3.0 x16 carries 16.
constexpr double kAttained = 0.75;

// Below, the start of a copy takes as long as its transfer at 10 to 25 GB/s: pinned memory does not
// shorten it.
constexpr Bytes kSmall(65536);

bool is_of_small_copies(const HostCopy& copy) {
  return copy.bytes < kSmall * static_cast<double>(copy.count);
}

// Of the time in which the GPU only copies, what copies at that part of the link's rate save.
Seconds faster_copies(const HostCopy& copy, const Device& device, double attained) {
  if (!device.pcie_bandwidth || copy.time <= Seconds(0)) return Seconds(0);
  const Seconds fast = copy.bytes / (attained * *device.pcie_bandwidth);
  return std::max(0.0, 1 - fast / copy.time) * copy.exposed;
}

// The work of the host that makes what is copied: as often, and for a visible time, with the GPU
// idle. It goes to the GPU, and the copy with it.
const HostWorkUse* work_that_makes(const TraceSummary& trace, const HostCopy& copy) {
  constexpr double kLeast = 0.05;  // of the window, as launch/host-busy-elsewhere asks
  if (!copy.is_upload || !trace.loaders.empty()) return nullptr;
  const auto found = std::ranges::find_if(trace.host_work, [&](const HostWorkUse& work) {
    return maker_of_tensors(work.name) && work.exposed >= kLeast * trace.time.span &&
           work.count > 2 && std::abs(work.count - copy.count) <= 1;
  });
  return found == trace.host_work.end() ? nullptr : &*found;
}

// As much goes to the GPU as comes back, in copies of as many bytes, again and again: the same
// arrays go round by round, in a program that copies by itself. Of a network the results are other
// data.
bool goes_round(const TraceSummary& trace) {
  if (uses_torch(trace)) return false;
  constexpr std::int64_t kFewest = 10;
  constexpr double kLeast = 1 << 20, kSame = 0.1;  // bytes of a copy; of the sum
  double up = 0, down = 0;
  std::int64_t ups = 0, downs = 0;
  for (const CopyUse& use : trace.copies) {
    const bool is_up = use.shape.kind == CopyKind::host_to_device;
    if (!is_up && use.shape.kind != CopyKind::device_to_host) continue;
    (is_up ? up : down) += static_cast<double>(use.shape.bytes);
    (is_up ? ups : downs) += use.count;
  }
  const double larger = std::max(up, down);
  return std::min(ups, downs) >= kFewest &&
         larger >= kLeast * static_cast<double>(std::max(ups, downs)) &&
         std::abs(up - down) <= kSame * larger &&
         10 * std::abs(ups - downs) <= std::max(ups, downs);
}

// Steps can copy while another computes. A single pass needs what it copies.
Range<Seconds> saving_of_copying(const TraceSummary& trace, const HostCopy& copy,
                                 const Device& device) {
  if (is_of_small_copies(copy)) return {Seconds(0), 0.5 * copy.exposed, copy.exposed};
  if (goes_round(trace)) return {0.5 * copy.exposed, 0.9 * copy.exposed, copy.exposed};
  const bool has_steps = trace.steps.durations.size() > 1;
  const Seconds low = faster_copies(copy, device, kAttained);
  const bool is_known = device.pcie_bandwidth.has_value();
  const Seconds high = has_steps || !is_known ? copy.exposed : faster_copies(copy, device, 1);
  const double share = trace.copy_time_share.value_or(1);
  return {share * low, share * 0.5 * (low + high), high};
}

// The operator that made most of what is copied there; empty where it came from elsewhere.
std::string maker_of(const TraceSummary& trace, const HostCopy& copy) {
  const CopyUse* largest = nullptr;
  for (const CopyUse& use : trace.copies) {
    if (use.shape.kind != CopyKind::host_to_device || !(use.site == copy.site)) continue;
    if (largest == nullptr || use.time > largest->time) largest = &use;
  }
  return largest == nullptr ? "" : largest->maker;
}

// What happens for each value: no copy at all, or one for all of them.
Fix propose_for_small(const TraceSummary& trace, const HostCopy& copy) {
  if (!copy.is_upload) {
    return {
        "Keep the values on the GPU, or read them together in one copy: a copy of so few bytes is "
        "all latency",
        Exactness::bit_exact};
  }
  if (const std::string maker = maker_of(trace, copy); !maker.empty()) {
    if (const auto fix = made_on_gpu(maker)) return *fix;
  }
  return {uses_torch(trace) && trace.format == "Kineto"
              ? "Make these tensors once before the loop or on the GPU, or copy them together in "
                "one: a "
                "copy of so few bytes is all latency"
              : "Copy them once or together, or pass small values as arguments of the kernel "
                "(__grid_constant__): a copy of so few bytes is all latency",
          Exactness::bit_exact};
}

// OpenMP's and OpenACC's kernels are named after the function and the line.
Fix keep_on_gpu(const TraceSummary& trace) {
  const auto any_named = [&](auto is_named) {
    return std::ranges::any_of(trace.orphans,
                               [&](const KernelUse& kernel) { return is_named(kernel.name); });
  };
  std::string how = "one copy before the loop and one after it, from memory of cudaMallocHost";
  if (any_named([](const std::string& name) { return name.starts_with("nvkernel_"); })) {
    how = "OpenMP: a target data region around the loop";
  } else if (any_named([](const std::string& name) { return name.ends_with("_gpu"); })) {
    how = "OpenACC: a data region around the loop";
  }
  return {fmt::format("As many bytes go to the GPU as come back, round by round: where they are "
                      "the same arrays, keep them there ({})",
                      how),
          Exactness::bit_exact};
}

Fix propose(const TraceSummary& trace, const HostCopy& copy) {
  if (!is_of_small_copies(copy) && goes_round(trace)) return keep_on_gpu(trace);
  if (is_of_small_copies(copy)) return propose_for_small(trace, copy);
  if (!uses_torch(trace)) {
    return {
        "Allocate the host's memory with cudaMallocHost, or register it with cudaHostRegister, and "
        "copy with cudaMemcpyAsync on a stream",
        Exactness::bit_exact};
  }
  if (!copy.is_upload) {
    return {
        "Copy less (reduce on the GPU first), and into pinned memory that is made once: "
        "host = torch.empty(shape, pin_memory=True); host.copy_(x, non_blocking=True), and wait "
        "for it before reading",
        Exactness::bit_exact};
  }
  const std::string maker = maker_of(trace, copy);
  if (maker == "aten::lift_fresh") {
    return {
        "Make the tensor once before the loop, or from values that are on the GPU already: "
        "torch.tensor(list) copies in every step",
        Exactness::bit_exact};
  }
  if (!maker.empty()) {
    if (const auto fix = made_on_gpu(maker)) return *fix;
    return {
        fmt::format("Make the tensor on the GPU: torch.{}(..., device=\"cuda\"), or once before "
                    "the loop",
                    maker.substr(6)),
        Exactness::bit_exact};
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

Finding describe(const RuleInput& input, const TraceSummary& trace, const HostCopy& copy) {
  Finding finding = about_site(
      trace, copy.site,
      fmt::format("{}{} {} pageable host memory: meanwhile the GPU does not compute, for {}",
                  count_text(trace, copy.count, "copy"),
                  is_of_small_copies(copy)
                      ? " of " + bytes_text(copy.bytes / static_cast<double>(copy.count))
                      : "",
                  copy.is_upload ? "from" : "to", cost_text(trace, copy.exposed + copy.idle)),
      propose(trace, copy),
      capped_by_work(trace, gain_of_idle_time(trace, Remedy::asynchronous_copies, copy.idle) +
                                saving_of_copying(trace, copy, input.device())));
  finding.count = copy.count;
  finding.evidence = {Evidence::measured(fmt::format(
      "{} in {} ({}); the GPU copies alone for {} and idles for {} while the host waits",
      traffic_text(copy.bytes), time_text(copy.time),
      rate_text(copy.time > Seconds(0) ? copy.bytes / copy.time : BytesPerSecond(0)),
      time_text(copy.exposed), time_text(copy.idle)))};
  if (const HostWorkUse* work = work_that_makes(trace, copy)) {
    finding.message += fmt::format("; goes away where {} makes them on the GPU", work->name);
    finding.own_level = Level::info;
  } else if (copy.is_upload && uses_torch(trace) && !benchmark_because(trace).empty()) {
    finding.message += "; the inputs of a benchmark cost no program anything";
    finding.own_level = Level::info;
  }
  return finding;
}

// To pin memory that is copied once takes as long as the copy.
bool is_copied_once(const TraceSummary& trace, const HostCopy& copy) {
  constexpr std::int64_t kFew = 10;
  return !uses_torch(trace) && trace.steps.durations.empty() && copy.count < kFew;
}

// A copy of a few bytes to the host is a wait for its result: launch/sync-every-step tells of it.
bool is_told_as_wait(const TraceSummary& trace, const HostCopy& copy) {
  return !copy.is_upload && is_of_small_copies(copy) &&
         std::ranges::any_of(trace.syncs, [&](const SyncUse& sync) {
           return sync.site == copy.site && contains(sync.call, "Memcpy") &&
                  is_visible(trace, sync.exposed);
         });
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  if (trace.kernels == 0) return cases;  // what they hold up was not recorded
  for (const auto& copies : {uploads(trace), downloads(trace)}) {
    for (const HostCopy& copy : copies) {
      if (!copy.pageable || !is_visible(trace, copy.exposed + copy.idle)) continue;
      if (is_copied_once(trace, copy) || is_told_as_wait(trace, copy)) continue;
      const std::string direction = copy.is_upload ? "from" : "to";
      cases.push_back(
          {copy.site.op + place_text(copy.site) + direction, describe(input, trace, copy)});
    }
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace input_pipeline_unpinned_batches_in_trace

}  // namespace rooftile
