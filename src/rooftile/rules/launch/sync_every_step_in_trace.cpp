#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/analysis/trace/host_copies.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_sync_every_step_in_trace {

struct Waits {
  const SyncUse* largest = nullptr;
  std::int64_t count = 0;
  Seconds blocked, exposed;
  bool is_print = false;  // of a tensor
};

std::string key_of(const SyncUse& sync) {
  return fmt::format("{}\n{}\n{}", sync.site.op, place_text(sync.site),
                     sync.site.op.empty() ? sync.call : "");
}

// Of a recording of a few passes: who times them waits after each.
bool is_between_passes(const TraceSummary& trace, const SyncUse& sync) {
  constexpr std::int64_t kFew = 10;
  return trace.steps.durations.empty() && sync.site.op.empty() && sync.count < kFew;
}

// Whether the wait is part of large copies with memory that is not pinned, which the rule on those
// tells of: a call copies and waits at once.
bool is_told_as_copy(const TraceSummary& trace, const SyncUse& sync) {
  constexpr double kLarge = 64 * 1024;  // bytes; below it the start takes as long as the transfer
  if (sync.call.find("Memcpy") == std::string::npos) return false;
  Seconds exposed;
  for (const CopyUse& copy : trace.copies) {
    const double bytes = static_cast<double>(copy.shape.bytes);
    const bool is_large = copy.shape.pageable && bytes > kLarge * static_cast<double>(copy.count);
    if (is_large && copy.site == sync.site) exposed += copy.exposed;
  }
  return exposed >= sync.exposed && is_visible(trace, exposed);
}

// Whether a tensor is written as text: torch selects its finite values and asks for each of them
// whether it is a whole number.
bool prints_tensor(const TraceSummary& trace) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(trace.ops, [&](const OpUse& use) { return use.name == name; });
  };
  const bool waits = std::ranges::any_of(
      trace.syncs, [](const SyncUse& sync) { return sync.site.op == "aten::nonzero"; });
  return waits && has("aten::ceil") && has("aten::abs") && has("aten::ne");
}

// One of the reads that writing a tensor as text takes.
bool may_print(const SyncUse& sync) {
  constexpr std::array<std::string_view, 5> kReads{"aten::nonzero", "aten::masked_select",
                                                   "aten::is_nonzero", "aten::item",
                                                   "aten::_local_scalar_dense"};
  return std::ranges::find(kReads, sync.site.op) != kReads.end();
}

std::map<std::string, Waits> waits_by_place(const TraceSummary& trace) {
  const bool prints = prints_tensor(trace);
  std::map<std::string, Waits> places;
  for (const SyncUse& sync : trace.syncs) {
    if (waits_for_upload(trace, sync)) continue;
    if (is_between_passes(trace, sync) || is_told_as_copy(trace, sync)) continue;
    const bool is_print = prints && may_print(sync);
    Waits& waits = places[is_print ? "print\n" + place_text(sync.site) : key_of(sync)];
    waits.is_print = is_print;
    if (waits.largest == nullptr || sync.exposed > waits.largest->exposed) waits.largest = &sync;
    // One read of a value is a copy and a wait: two calls of the runtime, one event.
    waits.count = std::max(waits.count, sync.count);
    waits.blocked += sync.blocked;
    waits.exposed += sync.exposed;
  }
  return places;
}

// An event that the host waits for after each kernel or two is there to time them.
bool times_each_launch(const TraceSummary& trace, const SyncUse& sync) {
  const std::int64_t kernels = table_count(trace, kernels_in_tables(trace));
  return 2 * sync.count >= kernels && sync.count <= kernels;
}

// What a program that calls CUDA itself, or leaves it to OpenMP, can do.
Fix propose_in_cuda(const TraceSummary& trace, const SyncUse& sync) {
  if (uses_openmp(trace)) {
    return {
        "Let OpenMP launch more at once: target nowait with depend clauses and one taskwait, or "
        "one target region around the repetitions",
        Exactness::bit_exact};
  }
  if (rounds_of(trace, sync)) {
    return {
        "Decide on the GPU: keep the loop in one kernel or in a conditional node of a CUDA graph, "
        "or read the result only every so many rounds",
        Exactness::exact_arithmetic};
  }
  if (sync.call.find("Memcpy") != std::string::npos) {
    return {
        "Copy with cudaMemcpyAsync between pinned memory and the GPU on a stream, and wait only "
        "where the data is needed",
        Exactness::bit_exact};
  }
  if (contains(sync.call, "EventSynchronize") && times_each_launch(trace, sync)) {
    return {
        "Time many launches at once: one event before the loop, one behind it, and one wait for "
        "that",
        Exactness::bit_exact};
  }
  return {
      "Wait only where the host reads a result, and for one event instead of the device; "
      "between streams, cudaStreamWaitEvent does not stop the host",
      Exactness::bit_exact};
}

Fix propose(const TraceSummary& trace, const SyncUse& sync) {
  if (!uses_torch(trace)) return propose_in_cuda(trace, sync);
  if (is_served(trace)) {
    return {
        "Let the engine prepare the next step while the GPU runs this one (vLLM with "
        "--async-scheduling, SGLang without --disable-overlap-schedule, TensorRT-LLM without "
        "disable_overlap_scheduler)",
        Exactness::bit_exact};
  }
  const std::string op = lower(sync.site.op);
  const auto has = [&](std::string_view part) { return op.find(part) != op.npos; };
  if (has("coalesce")) {
    return {
        "Coalesce the sparse tensor once (x = x.coalesce()), or make it CSR (x.to_sparse_csr()): "
        "else each product sorts it anew",
        Exactness::exact_arithmetic};
  }
  if (has("nonzero") || has("masked_select") || has("unique") || has("index")) {
    return {
        "Use a fixed size: torch.where or a multiplied mask instead of a result whose size the "
        "host has to learn",
        Exactness::exact_arithmetic};
  }
  if (has("item") || has("local_scalar_dense") || has("is_nonzero") || has("equal")) {
    return {"Keep the value on the device (accumulate there) and read it every so many steps",
            Exactness::bit_exact};
  }
  const bool exchanges = std::ranges::any_of(trace.collectives, [](const CollectiveUse& use) {
    return kind_of(use) == CollectiveKind::all_to_all;
  });
  if (exchanges && (has("copy") || has("to") || has("list"))) {
    return {
        "Where the host reads how much each rank sends (split sizes): keep the counts on the GPU, "
        "with buffers padded to a fixed size, or read them a layer ahead; other values less often",
        Exactness::exact_arithmetic};
  }
  const CopyDirections copies = directions_at(trace, sync.site);
  if (copies.up > copies.down) {
    return {
        "Make small tensors on the GPU (device=\"cuda\") or once before the loop, in place of "
        "one from Python values each time, and read values back together, once for many items",
        Exactness::bit_exact};
  }
  if (has("copy") || has("to")) {
    return {
        "Copy to the host less often, or with non_blocking=True into pinned memory and an "
        "event before the values are read",
        Exactness::bit_exact};
  }
  if (op.empty() && sync.call.find("Memcpy") != std::string::npos) {
    return {
        "Copy with cudaMemcpyAsync into page-locked memory and wait for an event before the "
        "values are read",
        Exactness::bit_exact};
  }
  if (op.empty()) {
    return {"Remove the explicit synchronisation outside of timing, or wait for one event",
            Exactness::bit_exact};
  }
  return {"Avoid the wait inside the step: keep the value on the device", Exactness::bit_exact};
}

// Once in each step that the program marks, outside of operators, and cheap: who times steps waits
// so.
bool may_be_for_timing(const TraceSummary& trace, const Waits& waits) {
  constexpr double kCheap = 0.05;  // of the window
  const std::string& call = waits.largest->call;
  const StepSource source = trace.steps.source;
  const bool is_marked = source == StepSource::profiler_step || source == StepSource::user_range;
  return is_marked && std::ssize(trace.steps.durations) >= waits.count &&
         waits.largest->site.op.empty() && contains(call, "Synchronize") &&
         waits.exposed < kCheap * trace.time.span;
}

// A program that is elsewhere for most of the time (other work, input, sleep) ends no earlier for a
// short wait less.
bool is_paced_elsewhere(const TraceSummary& trace, const Waits& waits) {
  constexpr double kMostly = 0.33, kShort = 0.05;  // of the window
  return !uses_torch(trace) && waits.exposed < kShort * trace.time.span &&
         idle_of(trace, {IdleCause::host_work, IdleCause::asleep}) > kMostly * trace.time.span;
}

// Where most of the copies at the place of a wait are to the GPU and some are not.
std::string direction_text(const TraceSummary& trace, const SyncUse& sync) {
  const CopyDirections copies = directions_at(trace, sync.site);
  if (copies.up <= copies.down) return "";
  return fmt::format(", mostly in copies to the GPU: {} of {}", copies.up, copies.up + copies.down);
}

Finding describe(const TraceSummary& trace, const Waits& waits) {
  const SyncUse& sync = *waits.largest;
  const std::string what = sync.site.op.empty() ? sync.call : sync.site.op;
  const std::string place = place_text(sync.site);
  const std::optional<double> between = rounds_of(trace, sync);
  const std::string often = between ? ", " + pace_text(*between) : "";
  Range<Seconds> gain = gain_of_idle_time(trace, Remedy::no_synchronization, waits.exposed);
  // What is launched round by round goes with the rounds.
  if (between) gain.high += idle_of(trace, {IdleCause::launch});
  const Fix fix = waits.is_print
                      ? Fix{"Print or log the tensor only every so many steps: writing it "
                            "as text reads it from the GPU several times",
                            Exactness::bit_exact}
                      : propose(trace, sync);
  Finding finding = about_site(
      trace, sync.site,
      fmt::format("{}{} makes the host wait for the GPU ({}{}), and the GPU then idles {}",
                  waits.is_print ? "writing a tensor as text, " + what : what,
                  place.empty() || place == what ? "" : " at " + place,
                  count_text(trace, waits.count, "time"), often + direction_text(trace, sync),
                  cost_text(trace, waits.exposed)),
      fix, gain);
  if (finding.location.node.empty()) finding.location.node = sync.call;
  finding.count = waits.count;
  if (may_be_for_timing(trace, waits) || is_paced_elsewhere(trace, waits))
    finding.own_level = Level::info;
  finding.evidence = {Evidence::measured(
      fmt::format("the host waits {} in {}; only the {} in which the GPU idles count",
                  time_text(waits.blocked), sync.call, time_text(waits.exposed)))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const auto& [key, waits] : waits_by_place(trace)) {
    if (!is_visible(trace, waits.exposed)) continue;
    add_if_visible(trace, key, describe(trace, waits), cases);
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace launch_sync_every_step_in_trace

}  // namespace rooftile
