#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {

namespace distributed_exposed_communication_in_source {
std::vector<Finding> find(const source::SourceFacts& facts);
}

namespace distributed_exposed_communication_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a trace: collectives that run while nothing computes and hold computation up, for a visible share of
the step: the next kernels were launched already, or the host waited for the GPU before it launched them.

In a script: a program with `DistributedDataParallel` or `accelerator.prepare` that runs backward on each
micro-batch while the optimizer steps only after several, without `no_sync` or its relatives.

## Why it costs time
A collective beside computation is nearly free. Alone it adds to the step, and so does the waiting
for other ranks, which a collective's run time includes. Every backward exchanges all gradients between the
GPUs, though only the last one before the step needs to: of n exchanges n - 1 are wasted.

## How to fix
Data-parallel training: `with model.no_sync():` around forward and backward of all micro-batches but the last,
with accelerate `with accelerator.accumulate(model):`; larger buckets on fast links, smaller ones when the
last bucket comes late, gradients reduced in bf16. Where the first
reduction begins late in the backward pass, the buckets wait for a gradient that comes last: define
modules in the order in which the forward pass uses them, and leave out `find_unused_parameters`, with
which DDP keeps the order of definition. Sharded
training: prefetch the next layer's weights. Tensor-parallel GEMMs cannot hide their all-reduce in the
same way: use fewer ranks per group, sequence parallelism, or kernels that overlap the two. All-to-all of
experts or embedding tables: work on another batch meanwhile. Gradients that are reduced one by one: in
buckets. The finding names the remedy for the kind of collective that is exposed longest.

## How the saving is estimated
From a trace. High: the exposed time in which computation waits, less what several traces show to be waiting
for other ranks, which other rules report. The low end is 0: what can overlap depends on the program. Half is
assumed likely, but of small messages that take long only what they would take over a slow link (1 GB/s),
and no more than a replay of the recording saves without collectives. Of gradients that are reduced one by
one the idle time between one collective and the next counts too, all of it. From a script alone nothing is
estimated.

## When not to
- Some of it has no work to hide behind, such as the last bucket of the gradients.
- A trace of a few steps may contain the first step, in which NCCL connects: of four runs or more, what
  a few take ten times as long as the others is not counted.
- A collective that ends before the host has launched what follows costs nothing: not counted.
- DataParallel, which has no such exchange.
- Scripts: a count of micro-batches that is 1 by default: information.
- FSDP: `no_sync` keeps full gradients, which needs memory.

## Evidence
- PyTorch Performance Tuning Guide, "Distributed optimizations".
- PyTorch documentation, `DistributedDataParallel.no_sync`.
- PyTorch DDP note, "Internal Design": buckets are reduced while the backward pass goes on, in the
  order of the buckets' indices; the reverse of the order of `model.parameters()` should be about the
  order in which gradients come.
- PyTorch Performance Tuning Guide, "Match the order of layers in constructors and during the
  execution if using DistributedDataParallel(find_unused_parameters=True)".
)md";

constexpr double kMinShare = threshold::kShowsInARun;
constexpr std::size_t kMostTold = 3;
// Of the backward pass. In order, three buckets of equal size begin at a third.
constexpr double kLate = 0.6;
constexpr std::int64_t kFewestBuckets = 3;
constexpr double kMostElementBytes = 4;

Seconds mean_waiting(std::span<const TraceSummary> ranks, const TraceSummary& trace) {
  const std::vector<Seconds> waits = waits_of_ranks(ranks);
  const auto rank = static_cast<std::size_t>(&trace - ranks.data());
  return waits.empty() ? Seconds(0) : waits[rank];
}

std::string name_of(const CollectiveUse& use) {
  return use.shape.name.empty() ? short_kernel_name(use.kernel) : use.shape.name;
}

std::vector<Evidence> largest(const TraceSummary& trace) {
  std::vector<const CollectiveUse*> uses;
  for (const CollectiveUse& use : trace.collectives) uses.push_back(&use);
  std::sort(uses.begin(), uses.end(),
            [](const CollectiveUse* a, const CollectiveUse* b) { return a->awaited > b->awaited; });
  std::vector<Evidence> lines;
  const double part = window_part(trace);
  for (const CollectiveUse* use : uses) {
    if (lines.size() == kMostTold || use->awaited <= Seconds(0)) break;
    lines.push_back(Evidence::measured(
        fmt::format("{} {}: {} waited for, {} exposed of {}", name_of(*use),
                    count_text(trace, window_count(trace, use->count), "run"),
                    cost_text(trace, use->awaited * part), cost_text(trace, use->exposed * part),
                    time_text(per_step(trace, use->time * part)))));
  }
  return lines;
}

enum class Place { forward, backward, after_backward };

bool is_named(const CollectiveUse& use) {
  CollectiveUse without_kernel;
  without_kernel.shape = use.shape;
  return kind_of(without_kernel).has_value();
}

// Kernels of vLLM, TensorRT-LLM, FlashInfer and PyTorch's symmetric memory.
bool is_oneshot(const CollectiveUse& use) {
  return contains_any(lower(use.kernel),
                      {"cross_device_reduce_1stage", "oneshot", "one_shot", "lamport", "multimem"});
}

// The collectives of one kind in one part of the step.
struct Traffic {
  std::optional<CollectiveKind> kind;
  Place place = Place::forward;
  std::int64_t count = 0;  // of the whole trace
  Seconds awaited;
  Bytes bytes;  // of those whose size is recorded
  std::int64_t sized = 0;
  std::vector<Seconds> runs;
  bool is_named = true;    // by what asked for it; else the kernel's name is all there is
  bool is_oneshot = true;  // each by one kernel that reads the other ranks' memory
  bool has_oneshot = false;
};

constexpr double kTensorParallel = 0.25;  // of the runs, in the forward pass

Place place_of(const CollectiveUse& use) {
  if (forward_share(use) > kTensorParallel) return Place::forward;
  return use.in_backward >= use.after_backward ? Place::backward : Place::after_backward;
}

// Of all kinds the one that computation waits longest for.
Traffic main_traffic(const TraceSummary& trace) {
  std::map<std::pair<std::optional<CollectiveKind>, Place>, Traffic> all;
  for (const CollectiveUse& use : trace.collectives) {
    Traffic& traffic = all[{kind_of(use), place_of(use)}];
    traffic.kind = kind_of(use);
    traffic.place = place_of(use);
    traffic.count += use.count;
    traffic.awaited += use.awaited;
    traffic.is_named = traffic.is_named && is_named(use);
    traffic.is_oneshot = traffic.is_oneshot && is_oneshot(use);
    traffic.has_oneshot = traffic.has_oneshot || is_oneshot(use);
    traffic.runs.insert(traffic.runs.end(), use.runs.begin(), use.runs.end());
    const std::optional<Bytes> bytes = message_bytes(use);
    if (!bytes) continue;
    traffic.bytes += *bytes * static_cast<double>(use.count);
    traffic.sized += use.count;
  }
  Traffic main;
  for (const auto& [key, traffic] : all) {
    if (traffic.awaited > main.awaited) main = traffic;
  }
  return main;
}

bool looks_up_embeddings(const TraceSummary& trace) {
  const auto is_table = [](const KernelUse& kernel) {
    return contains_any(kernel.name, {"split_embedding", "pooled_emb", "embedding_bag"});
  };
  return std::ranges::any_of(trace.orphans, is_table) ||
         std::ranges::any_of(trace.ops, [&](const OpUse& use) {
           return std::ranges::any_of(use.kernels, is_table);
         });
}

// The part of the backward pass that has gone by when the first of its buckets is reduced.
double wait_for_first_bucket(const GradientReductions& gradients) {
  const bool tells = gradients.passes > 0 && gradients.backward > Seconds(0) &&
                     gradients.reductions >= kFewestBuckets * gradients.passes;
  return tells ? gradients.before_first / gradients.backward : 0;
}

constexpr Bytes kBucket(25 * 1024 * 1024);  // DistributedDataParallel's bucket_cap_mb

// Without sizes: most runs are shorter than a bucket takes over the fastest link there is, the
// 900 GB/s in one direction of NVLink 5.
std::optional<Fix> propose_buckets_by_time(const TraceSummary& trace, const Traffic& traffic) {
  constexpr BytesPerSecond kFastestLink(9e11);
  constexpr double kMany = 32;  // a step; buckets of 25 MiB are so many from 210 M parameters on
  const double each = static_cast<double>(traffic.count) / recorded_steps(trace);
  std::vector<Seconds> runs = traffic.runs;
  if (each < kMany || runs.empty()) return std::nullopt;
  const Seconds usual = median(std::move(runs));
  if (usual >= kBucket / kFastestLink) return std::nullopt;
  return Fix{fmt::format("Reduce the gradients in buckets, during the backward pass: {:.0f} "
                         "all-reduces per step, half of them below {}, are one for each parameter "
                         "(DistributedDataParallel, or one flat buffer)",
                         each, time_text(usual)),
             Exactness::exact_arithmetic};
}

// Far more reductions than buckets of DDP's usual size would make.
std::optional<Fix> propose_buckets(const TraceSummary& trace, const Traffic& traffic) {
  constexpr double kFarMore = 4, kFirstAndLast = 2;
  if (traffic.sized < traffic.count) return propose_buckets_by_time(trace, traffic);
  const double steps = recorded_steps(trace);
  const double buckets = traffic.bytes / kBucket / steps + kFirstAndLast;
  const double each = static_cast<double>(traffic.count) / steps;
  if (each < kFarMore * buckets) return std::nullopt;
  return Fix{fmt::format("Reduce the gradients in buckets, during the backward pass: {:.0f} "
                         "all-reduces per step of {} on average would be about {:.0f} of 25 "
                         "MiB (DistributedDataParallel, or one flat buffer)",
                         each, bytes_text(traffic.bytes / static_cast<double>(traffic.count)),
                         std::ceil(buckets)),
             Exactness::exact_arithmetic};
}

bool is_bucketing(const Fix& fix) {
  return fix.text.starts_with("Reduce the gradients in buckets");
}

Fix propose_for_gradients(const TraceSummary& trace, const Traffic& traffic) {
  if (auto fix = propose_buckets(trace, traffic)) return *std::move(fix);
  if (traffic.place == Place::after_backward) {
    return {
        "Start the reductions during the backward pass, as DistributedDataParallel does, instead "
        "of after it",
        Exactness::exact_arithmetic};
  }
  if (wait_for_first_bucket(trace.gradients) > kLate) {
    return {
        "Let the first bucket be ready early: define modules in the order in which the forward "
        "pass uses them, without find_unused_parameters",
        Exactness::exact_arithmetic};
  }
  return {
      "Let the reduction overlap the backward pass (bucket_cap_mb); where gradients are "
      "accumulated, reduce them once per optimizer step (no_sync())",
      Exactness::exact_arithmetic};
}

bool is_backward(const OpUse& use) { return use.phase != Phase::forward; }

// Of fp32 on CUDA cores: neither TF32 nor autocast, so that activations are sent in fp32 too.
bool multiplies_in_fp32(const TraceSummary& trace) {
  Seconds all, fp32;
  const auto add = [&](const KernelUse& kernel) {
    if (kernel.facts.kernel_class != KernelClass::gemm) return;
    all += kernel.time;
    const bool on_cuda_cores = kernel.facts.tensor_core == false;
    if (on_cuda_cores && kernel.facts.dtype == Dtype::fp32) fp32 += kernel.time;
  };
  for (const OpUse& use : trace.ops) std::ranges::for_each(use.kernels, add);
  std::ranges::for_each(trace.orphans, add);
  return all > Seconds() && fp32 > 0.5 * all;
}

// GeForce cards lack the access to each other's memory that a one-shot all-reduce needs.
bool reads_other_gpus(const TraceSummary& trace) {
  return !trace.device || !contains(trace.device->name, "GeForce");
}

// Too large for a kernel in which each rank reads all of the others' data: some hundred kilobytes
// are in reach of it (TensorRT-LLM and vLLM stop at 8 MiB).
bool are_large(const Traffic& traffic) {
  constexpr Bytes kLarge(8.0 * 1024 * 1024);
  return traffic.sized > 0 && traffic.bytes / static_cast<double>(traffic.sized) > kLarge;
}

Fix propose_for_tensor_parallel(const TraceSummary& trace, const Traffic& traffic) {
  if (trains(trace)) {
    return {
        "Use fewer tensor-parallel ranks, sequence parallelism, or GEMMs that overlap their "
        "all-reduce (Megatron-LM's --tp-comm-overlap, PyTorch's async tensor parallelism)",
        Exactness::exact_arithmetic};
  }
  if (traffic.is_oneshot) {
    return {
        "Use fewer tensor-parallel ranks, or fuse the all-reduce with the normalization that "
        "follows; it is a single kernel already",
        Exactness::exact_arithmetic};
  }
  if (multiplies_in_fp32(trace)) {
    return {
        "Run the model in 16 bits, which halves what is sent (torch_dtype=torch.bfloat16); then "
        "fewer tensor-parallel ranks",
        Exactness::changes_numerics};
  }
  if (are_large(traffic)) {
    return {
        "Use fewer tensor-parallel ranks, or hide the all-reduce of one half of the batch behind "
        "the layers of the other",
        Exactness::exact_arithmetic};
  }
  if (traffic.has_oneshot) {
    return {
        "Use fewer tensor-parallel ranks, or fuse the all-reduce with the normalization that "
        "follows; small ones are a single kernel already",
        Exactness::exact_arithmetic};
  }
  if (!reads_other_gpus(trace)) {
    return {"Use fewer tensor-parallel ranks, or replicate small layers",
            Exactness::exact_arithmetic};
  }
  return {
      is_served(trace)
          ? "Use fewer tensor-parallel ranks, or the engine's one-shot all-reduce, alone or fused "
            "with the normalization that follows"
          : "Use fewer tensor-parallel ranks, or a one-shot all-reduce for small messages "
            "(torch.ops.symm_mem.one_shot_all_reduce), or replicate small layers",
      Exactness::exact_arithmetic};
}

Fix propose_for_all_to_all(const TraceSummary& trace) {
  if (looks_up_embeddings(trace)) {
    return {
        "Where it does not do so yet: exchange the next batch's embeddings while the dense layers "
        "compute (TorchRec's TrainPipelineSparseDist), and send them in 16 or 8 bits",
        Exactness::changes_numerics};
  }
  return {
      "Hide dispatch and combine behind other work (a second micro-batch, shared experts), and "
      "keep expert-parallel groups within a node",
      Exactness::exact_arithmetic};
}

// An all-reduce in the forward pass joins the parts of a layer, one behind it sums gradients.
Fix propose_for_all_reduce(const TraceSummary& trace, const Traffic& traffic) {
  if (!trains(trace) && trace.ops.empty()) {
    return {
        "Gradients: once per accumulated step (no_sync()), in buckets, during the backward pass; "
        "parts of layers: fewer tensor-parallel ranks",
        Exactness::exact_arithmetic};
  }
  const bool knows_place = std::ranges::any_of(trace.ops, is_backward);
  if (!trains(trace) || (knows_place && traffic.place == Place::forward)) {
    return propose_for_tensor_parallel(trace, traffic);
  }
  return propose_for_gradients(trace, traffic);
}

// NCCL's kernel of sends and receives runs all-to-alls too.
Fix propose_for_send_and_receive(const TraceSummary& trace) {
  if (looks_up_embeddings(trace)) return propose_for_all_to_all(trace);
  return {
      "Between stages of a pipeline: more micro-batches per step; in an all-to-all of experts or "
      "tables: other work meanwhile. The trace does not say which it is",
      Exactness::exact_arithmetic};
}

Fix propose(const TraceSummary& trace) {
  const Traffic traffic = main_traffic(trace);
  switch (traffic.kind.value_or(CollectiveKind::all_reduce)) {
    case CollectiveKind::all_to_all:
      return propose_for_all_to_all(trace);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      if (!trains(trace)) return propose_for_tensor_parallel(trace, traffic);
      return {
          "Prefetch the next layer's weights while this one computes (FSDP prefetch settings), "
          "and shard within the fast links",
          Exactness::exact_arithmetic};
    case CollectiveKind::point_to_point:
      if (!traffic.is_named) return propose_for_send_and_receive(trace);
      return {
          "Shorten the pipeline's bubbles: more micro-batches per step, or an interleaved schedule",
          Exactness::exact_arithmetic};
    case CollectiveKind::broadcast:
      return {
          "Broadcast less often: DistributedDataParallel(broadcast_buffers=False) where ranks may "
          "differ in their buffers",
          Exactness::changes_training};
    default:
      return propose_for_all_reduce(trace, traffic);
  }
}

// Generous times of the messages alone, over slow links; empty where a size is not recorded.
std::optional<Seconds> plausible_transfer(const TraceSummary& trace) {
  constexpr Seconds kSlowestStart = microseconds(100);
  constexpr BytesPerSecond kSlowLink(1e9);
  Seconds time;
  for (const CollectiveUse& use : trace.collectives) {
    const std::int64_t elements = std::max(use.shape.in_elements, use.shape.out_elements);
    if (elements <= 0) return std::nullopt;
    const Bytes bytes(kMostElementBytes * static_cast<double>(elements));
    time += (kSlowestStart + bytes / kSlowLink) * static_cast<double>(use.count);
  }
  return time * window_part(trace);
}

// What a replay of the recording saves where collectives take no time. Where no wait of the host
// was recorded, its time in them looks like work, and the replay tells nothing.
std::optional<Seconds> saved_without(const TraceSummary& trace) {
  if (trace.syncs.empty()) return std::nullopt;
  for (const Prediction& prediction : trace.predictions) {
    if (prediction.remedy == Remedy::hidden_communication) return prediction.saved.expected;
  }
  return std::nullopt;
}

// Runs of one collective that take many times as long as the others: NCCL connects, or another
// rank is still loading. What they take beyond the others is no part of a steady pass.
struct LongRuns {
  Seconds beyond, longest;
  std::int64_t count = 0;
};

LongRuns runs_unlike_others(const TraceSummary& trace) {
  constexpr std::int64_t kFewest = 4;
  constexpr double kTimes = 10;
  constexpr Seconds kLong = milliseconds(10);
  LongRuns found;
  for (const CollectiveUse& use : trace.collectives) {
    if (std::ssize(use.runs) < kFewest) continue;
    const Seconds usual = median(use.runs);
    LongRuns of_use;
    for (const Seconds run : use.runs) {
      if (run < kTimes * usual || run < kLong) continue;
      of_use.beyond += run - usual;
      of_use.longest = std::max(of_use.longest, run);
      ++of_use.count;
    }
    if (kFewest * of_use.count > std::ssize(use.runs)) continue;  // how the program runs
    found.beyond += std::min(of_use.beyond, use.awaited);
    found.longest = std::max(found.longest, of_use.longest);
    found.count += of_use.count;
  }
  found.beyond = found.beyond * window_part(trace);
  return found;
}

// `between` of idle time between the collectives, `loop` in them.
void tell_loop(const TraceSummary& trace, Seconds between, Seconds loop, Finding& finding) {
  if (between <= Seconds()) return;
  finding.message += fmt::format(
      "; between one collective and the next the GPU idles {}, and with the time in them the loop "
      "over "
      "the parameters takes {}",
      cost_text(trace, between), cost_text(trace, loop + between));
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, [&](const TraceSummary& trace) -> std::vector<TraceCase> {
    const LongRuns apart = runs_unlike_others(trace);
    const Seconds awaited = std::max(Seconds(), trace.time.awaited_communication - apart.beyond);
    const Seconds waiting = std::min(awaited, mean_waiting(ranks, trace));
    const Seconds transfer = awaited - waiting;
    const Seconds plausible = std::min(transfer, plausible_transfer(trace).value_or(transfer));
    const Seconds likely = std::min(0.5 * plausible, saved_without(trace).value_or(transfer));
    const bool mostly_waits = plausible < 0.5 * transfer;
    // Collectives one after another, each launched when the last is done, cost the time between
    // too.
    const Fix fix = propose(trace);
    const Seconds between = is_bucketing(fix) ? trace.between_collectives : Seconds();
    const Seconds loop = between > Seconds() ? trace.time.exposed_communication : transfer;
    if (transfer + between < kMinShare * trace.time.span) return {};
    Range<Seconds> gain{Seconds(0), likely, transfer};
    if (between > Seconds()) {
      gain.expected = 0.5 * transfer + between;
      gain.high = loop + between;
    }
    Finding finding = about_trace(
        trace,
        fmt::format("computation waits {} for communication ({} of all communication){}{}",
                    cost_text(trace, transfer), share_text(transfer / trace.time.communication),
                    waiting > Seconds(0) ? fmt::format(", beside {} for ranks that come later",
                                                       time_text(per_step(trace, waiting)))
                                         : "",
                    mostly_waits ? "; the messages are small, so most of it is waiting for ranks "
                                   "that come later"
                                 : ""),
        fix, gain);
    tell_loop(trace, between, loop, finding);
    if (apart.count > 0 && apart.beyond > Seconds()) {
      finding.message += fmt::format(
          "; {} not counted: {} up to {}, far longer than the others (NCCL connects, or another "
          "rank comes late)",
          time_text(per_step(trace, apart.beyond)),
          apart.count == 1 ? "one run takes" : fmt::format("{} runs take", apart.count),
          time_text(apart.longest));
    }
    finding.evidence = largest(trace);
    if (const double late = wait_for_first_bucket(trace.gradients); late > kLate) {
      const GradientReductions& gradients = trace.gradients;
      finding.evidence.push_back(Evidence::measured(
          fmt::format("the first of {} gradient reductions begins when {} of the backward pass "
                      "have gone by: the buckets are not in the order in which gradients come",
                      gradients.reductions / gradients.passes, share_text(late))));
    }
    if (const Seconds free = trace.time.exposed_communication - awaited; free > Seconds(0)) {
      finding.evidence.push_back(Evidence::found(
          fmt::format("{} more of it is exposed, but the host had launched nothing that waited for "
                      "it: not counted",
                      cost_text(trace, free))));
    }
    return {{"", std::move(finding)}};
  });
}

}  // namespace distributed_exposed_communication_rule

extern const Rule distributed_exposed_communication{
    .id = "distributed/exposed-communication",
    .former_id = "distributed/synced-every-micro-step",
    .level = Level::warning,
    .cause = Cause::none,
    .typical = Typical::tenth,
    .summary = "Communication is exposed: computation waits for it",
    .doc = distributed_exposed_communication_rule::kDoc,
    .in_any_trace = distributed_exposed_communication_rule::check,
    .in_scripts = distributed_exposed_communication_in_source::find,
    .costs_elsewhere = true};

}  // namespace rooftile
