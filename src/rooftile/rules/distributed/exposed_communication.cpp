#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
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
Where most of that time is waiting for ranks that come later, in the trace of one rank, the finding says so.

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
Waiting: compare the traces of all ranks, and even out their work; of experts, the tokens of each rank. Where the
collectives end a steady while after this rank has launched them, and it launches ahead, the others began late and
launch at the same pace: evening out wins that while, once a step, and the rest is the pace of launching.

## How the saving is estimated
From a trace. High: the exposed time in which computation waits, less the waiting for other ranks, and of an
exchange that other work can hide no more than the GPU computes. Waiting is what a run takes beyond the
fastest run of its kind and group that moves as much or more, or beyond 100 µs and the message at 1 GB/s, within a
machine beyond 40 µs and a tenth of its NVLink; with the traces of several ranks also what it takes beyond the shortest among the ranks. Exchanges of experts wait
beyond the fastest tenth, and where they are shorter the more this rank did before, beyond nearly the fastest. The low end is 0: what can
overlap depends on the program. Half is assumed likely, and no more than a replay of the recording saves
without collectives. Of gradients that are reduced one by
one the idle time between one collective and the next counts too, all of it. For waiting and from a script
alone nothing is estimated.

## When not to
- Some of it has no work to hide behind, such as the last bucket of the gradients.
- A trace of a few steps may contain the first step, in which NCCL connects: waiting in one or two runs
  alone is not reported.
- A collective that ends before the host has launched what follows costs nothing: not counted.
- DataParallel, which has no such exchange.
- Scripts: a count of micro-batches that is 1 by default, or of which no value is known: information.
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
  std::ranges::sort(uses, std::greater{}, &CollectiveUse::awaited);
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
    traffic.awaited += std::max(Seconds(), use.awaited - use.waiting);
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

// Whether much of the backward pass has gone by when the first of its buckets is reduced.
bool is_first_bucket_late(const GradientReductions& gradients) {
  return gradients.reductions >= kFewestBuckets * gradients.passes &&
         gradients.before_first > kLate * gradients.backward;
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
  if (is_first_bucket_late(trace.gradients)) {
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
  return fp32 > 0.5 * all;
}

// GeForce cards lack the access to each other's memory that a one-shot all-reduce needs.
bool reads_other_gpus(const TraceSummary& trace) {
  return !trace.device || !contains(trace.device->name, "GeForce");
}

// Too large for a kernel in which each rank reads all of the others' data: some hundred kilobytes
// are in reach of it (TensorRT-LLM and vLLM stop at 8 MiB).
bool are_large(const Traffic& traffic) {
  constexpr Bytes kLarge(8.0 * 1024 * 1024);
  return traffic.bytes > kLarge * static_cast<double>(traffic.sized);
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

bool is_named_in(const TraceSummary& trace, std::initializer_list<std::string_view> words) {
  const auto is_one = [&](std::string_view name) { return contains_any(lower(name), words); };
  const auto is_of = [&](const OpUse& use) {
    return is_one(use.name) || is_one(use.site.module) || is_one(use.site.source.file) ||
           std::ranges::any_of(use.kernels, is_one, &KernelUse::name);
  };
  return std::ranges::any_of(trace.ops, is_of) ||
         std::ranges::any_of(trace.orphans, is_one, &KernelUse::name) ||
         std::ranges::any_of(trace.modules, is_one, &PlaceUse::name) ||
         std::ranges::any_of(trace.annotations, is_one, &PlaceUse::name);
}

bool has_experts(const TraceSummary& trace) {
  return is_named_in(trace, {"moe", "expert", "deep_ep", "dpsk::ep", "grouped_gemm"});
}

bool shards_layers(const TraceSummary& trace) {
  return is_named_in(trace, {"fsdp", "fullysharded", "fully_shard", "deepspeed", "zero3"});
}

// More ranks than the machine has GPUs, where the recording lists several.
bool spans_nodes(const TraceSummary& trace) {
  return trace.listed_devices > 1 && trace.world_size.value_or(0) > trace.listed_devices;
}

// TorchRec's TrainPipelineSparseDist names its parts so.
bool pipelines_embeddings(const TraceSummary& trace) {
  return std::ranges::any_of(trace.annotations, [](const PlaceUse& range) {
    return contains(range.name, "wait_sparse_data_dist");
  });
}

// Its codecs of quantized communication, "## encoder fp16 None ##".
bool sends_embeddings_in_16_bits(const TraceSummary& trace) {
  return std::ranges::any_of(trace.annotations, [](const PlaceUse& range) {
    return contains_any(lower(range.name), {"encoder fp16", "encoder bf16"});
  });
}

Fix propose_for_embeddings(const TraceSummary& trace) {
  const std::string_view bits = sends_embeddings_in_16_bits(trace) ? "8 bits" : "16 or 8 bits";
  if (pipelines_embeddings(trace)) {
    return {fmt::format("Send embeddings and their gradients in {}; the exchange of the next "
                        "batch's indices is beside the computation already",
                        bits),
            Exactness::changes_numerics};
  }
  return {fmt::format("Where it does not do so yet: exchange the next batch's embeddings while the "
                      "dense layers compute (TorchRec's TrainPipelineSparseDist), and send them in "
                      "{}",
                      bits),
          Exactness::changes_numerics};
}

Fix propose_for_all_to_all(const TraceSummary& trace) {
  if (looks_up_embeddings(trace)) return propose_for_embeddings(trace);
  if (!has_experts(trace)) {
    return {
        "Let other work run beside the exchange: another micro-batch, or the parts of this one "
        "that "
        "have arrived",
        Exactness::exact_arithmetic};
  }
  return {
      spans_nodes(trace)
          ? "Hide dispatch and combine behind other work (a second micro-batch, shared experts), "
            "and keep expert-parallel groups within a node"
          : "Hide dispatch and combine behind other work (a second micro-batch, shared experts)",
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
  if (looks_up_embeddings(trace)) return propose_for_embeddings(trace);
  return {
      "Between stages of a pipeline: more micro-batches per step; in an all-to-all of experts or "
      "tables: other work meanwhile. The trace does not say which it is",
      Exactness::exact_arithmetic};
}

// Weights or the optimizer's states in parts, one on each rank.
Fix propose_for_shards(const TraceSummary& trace, const Traffic& traffic) {
  if (shards_layers(trace)) {
    return {"Prefetch the next layer's weights while this one computes (FSDP prefetch settings)",
            Exactness::exact_arithmetic};
  }
  if (traffic.place == Place::after_backward) {
    return {
        "Start each reduce-scatter during the backward pass, when its gradient is ready, and "
        "gather "
        "updated weights beside the rest of the optimizer or the next forward pass",
        Exactness::exact_arithmetic};
  }
  return {
      "Start each reduce-scatter when its gradient is ready, and each all-gather before its result "
      "is needed, on a stream beside the computation",
      Exactness::exact_arithmetic};
}

// What other work hides is no longer than that work.
bool needs_other_work(const Traffic& traffic) {
  return traffic.kind == CollectiveKind::all_to_all ||
         traffic.kind == CollectiveKind::point_to_point;
}

Fix propose(const TraceSummary& trace, const Traffic& traffic) {
  switch (traffic.kind.value_or(CollectiveKind::all_reduce)) {
    case CollectiveKind::all_to_all:
      return propose_for_all_to_all(trace);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      if (!trains(trace)) return propose_for_tensor_parallel(trace, traffic);
      return propose_for_shards(trace, traffic);
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

// What a replay of the recording saves where collectives take no time. Where no wait of the host
// was recorded, its time in them looks like work, and the replay tells nothing.
std::optional<Seconds> saved_without(const TraceSummary& trace) {
  if (trace.syncs.empty()) return std::nullopt;
  for (const Prediction& prediction : trace.predictions) {
    if (prediction.remedy == Remedy::hidden_communication) return prediction.saved.expected;
  }
  return std::nullopt;
}

// What one or two runs wait is how this recording went; more of them are how the program runs.
bool is_recurring(const TraceSummary& trace) {
  std::vector<Seconds> waits;
  Seconds all;
  for (const CollectiveUse& use : trace.collectives) {
    if (use.waiting <= Seconds() || use.runs.empty()) continue;
    const Seconds transfer = (use.time - use.waiting) / static_cast<double>(use.count);
    for (const Seconds run : use.runs) {
      waits.push_back(std::max(Seconds(), run - transfer));
      all += waits.back();
    }
  }
  std::ranges::sort(waits, std::greater{});
  constexpr std::size_t kFew = 2;
  Seconds few;
  for (std::size_t i = 0; i < std::min(kFew, waits.size()); ++i) few += waits[i];
  return few < threshold::kMost * all || all - few > threshold::kWorthADay * trace.time.span;
}

// The collective in which most is waited.
const CollectiveUse* longest_awaited(const TraceSummary& trace) {
  const auto found = std::ranges::max_element(trace.collectives, {}, &CollectiveUse::waiting);
  return found == trace.collectives.end() || found->runs.empty() ? nullptr : &*found;
}

Fix propose_for_waiting(const TraceSummary& trace, const CollectiveUse* use) {
  if (trace.steady_lateness) {
    return {
        "Find what makes the late ranks begin late, as their loader; no more can be won by evening "
        "out. The rest is the pace at which the hosts launch: torch.compile, fewer and larger FSDP "
        "units or buckets",
        Exactness::exact_arithmetic};
  }
  if (use != nullptr && kind_of(*use) == CollectiveKind::all_to_all && has_experts(trace)) {
    return {
        "Give each rank's experts as much to do: as many tokens per rank, popular experts spread "
        "or replicated (expert-parallel load balancing). Overlap does not shorten this",
        Exactness::not_applicable};
  }
  return {
      "Record all ranks and compare them (rooftile check with one trace of each): even out their "
      "work, or find what holds the late ones up. Overlap does not shorten this",
      Exactness::not_applicable};
}

// What the late ranks can win by beginning earlier, where they keep pace with this one.
std::optional<Range<Seconds>> gain_of_lateness(const TraceSummary& trace, Seconds waiting) {
  if (!trace.steady_lateness) return std::nullopt;
  const Seconds most = std::min(waiting, *trace.steady_lateness * window_steps(trace));
  return Range<Seconds>{Seconds(), 0.5 * most, most};
}

// Other ranks come later than this one: no overlap mends that.
std::vector<TraceCase> judge_waiting(const TraceSummary& trace, Seconds waiting) {
  if (waiting < kMinShare * trace.time.span || !is_recurring(trace)) return {};
  const CollectiveUse* use = longest_awaited(trace);
  const std::string late =
      trace.steady_lateness ? fmt::format(", by a steady {}, so that they launch at the same pace",
                                          time_text(*trace.steady_lateness))
                            : "";
  Finding finding = about_trace(
      trace,
      fmt::format("this rank waits {} in collectives for ranks that come later{}: {}",
                  cost_text(trace, waiting), late,
                  use == nullptr ? ""
                                 : fmt::format("{} takes {} at best and up to {}", name_of(*use),
                                               time_text(std::ranges::min(use->runs)),
                                               time_text(std::ranges::max(use->runs)))),
      propose_for_waiting(trace, use), gain_of_lateness(trace, waiting));
  finding.own_level = Level::advice;
  finding.evidence = largest(trace);
  return {{"waiting", std::move(finding)}};
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
    const Seconds awaited = trace.time.awaited_communication;
    const Seconds among_ranks = mean_waiting(ranks, trace);
    const Seconds waiting =
        std::min(awaited, std::max(trace.time.awaited_rank_waiting, among_ranks));
    const Seconds transfer = awaited - waiting;
    // Other rules compare the ranks where there are several.
    const bool is_alone = among_ranks <= Seconds();
    if (is_alone && (trace.overlaps_exchanges || (waiting > transfer && is_recurring(trace)))) {
      return judge_waiting(trace, waiting);
    }
    const bool is_waiting_much = is_alone && waiting > threshold::kWorthADay * trace.time.span;
    std::vector<TraceCase> cases =
        is_waiting_much ? judge_waiting(trace, waiting) : std::vector<TraceCase>{};
    const Traffic traffic = main_traffic(trace);
    const Seconds most =
        needs_other_work(traffic) ? std::min(transfer, trace.time.compute) : transfer;
    const Seconds likely = std::min(0.5 * most, saved_without(trace).value_or(most));
    // Collectives one after another, each launched when the last is done, cost the time between
    // too.
    const Fix fix = propose(trace, traffic);
    const Seconds between = is_bucketing(fix) ? trace.between_collectives : Seconds();
    const Seconds loop = between > Seconds() ? trace.time.exposed_communication : transfer;
    if (most + between < kMinShare * trace.time.span) return cases;
    Range<Seconds> gain{Seconds(0), likely, most};
    if (between > Seconds()) {
      gain.expected = 0.5 * transfer + between;
      gain.high = loop + between;
    }
    Finding finding = about_trace(
        trace,
        fmt::format("computation waits {} for communication ({} of all communication){}",
                    cost_text(trace, transfer), share_text(transfer / trace.time.communication),
                    waiting > Seconds(0) ? fmt::format(", beside {} for ranks that come later",
                                                       time_text(per_step(trace, waiting)))
                                         : ""),
        fix, gain);
    tell_loop(trace, between, loop, finding);
    finding.evidence = largest(trace);
    if (const GradientReductions& gradients = trace.gradients; is_first_bucket_late(gradients)) {
      finding.evidence.push_back(Evidence::measured(
          fmt::format("the first of {} gradient reductions begins when {} of the backward pass "
                      "have gone by: the buckets are not in the order in which gradients come",
                      gradients.reductions / gradients.passes,
                      share_text(gradients.before_first / gradients.backward))));
    }
    if (const Seconds free = trace.time.exposed_communication - awaited; free > Seconds(0)) {
      finding.evidence.push_back(Evidence::found(
          fmt::format("{} more of it is exposed, but the host had launched nothing that waited for "
                      "it: not counted",
                      cost_text(trace, free))));
    }
    cases.push_back({"", std::move(finding)});
    return cases;
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
