// One rank's trace, reduced: everything the rules and reports read, small whatever the trace's
// size. Summaries of ranks merge; a rule sees nothing of a trace but this.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/workload/kernel_facts.h"
#include "rooftile/workload/op.h"
#include "rooftile/workload/time_sample.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// Why the GPU had nothing to do, by what the host did meanwhile.
enum class IdleCause {
  launch,              // the host prepared and launched work more slowly than the GPU ran it
  synchronization,     // the host waited for the GPU before it launched more
  data_loading,        // the host waited for the next batch
  communication_wait,  // the host waited for other ranks
  allocator,           // cudaMalloc, cudaFree
  copy,                // a blocking copy between host and device
  host_work,           // the host did something else: it launched nothing for a millisecond or more
  module_loading,      // CUDA's start-up, modules and graphs being loaded or compiled
  between_kernels,     // work was queued: the GPU's own pause, or the wait for another GPU
  unrecorded_work,     // work was queued and started far too late: the trace lacks what ran
  restart,             // … and the host had waited for the GPU before: it began anew
  start_up,            // of the program and CUDA, before the first work on the GPU
  outside,             // before the first and after the last work of the host
  profiler,            // the recorder's own work
  asleep,     // the host's thread was off the CPU outside of CUDA: input, a clock, a thread
  migration,  // pages of managed memory were on their way, or the host touched them
  unknown,    // the trace does not say, as without host events
};

// Unions of intervals over all streams of one GPU. busy + idle = span, and busy = compute +
// exposed_communication + exposed_copy; the causes add up to idle.
struct TimeBreakdown {
  Seconds span;      // from the first to the last event of the analysed window
  Seconds gpu_busy;  // at least one stream works
  Seconds compute;   // a kernel that is not communication
  Seconds communication, exposed_communication;  // exposed: while nothing computes
  Seconds awaited_communication;  // of the exposed: while computation waits that could go on
  // Of the exposed: waiting for ranks that come later, and of that while computation waits.
  Seconds rank_waiting, awaited_rank_waiting;
  // Of the exposed: while this rank's host allocates GPU memory and has launched nothing beside.
  Seconds communication_beside_allocation;
  // Of compute: what few kernels take beyond many times the median of the same work. Something else
  // held them up.
  Seconds stretched;
  Seconds copy, exposed_copy;  // copies and fills; exposed: while nothing computes or communicates
  // Of the exposed: fills while nothing is copied, and migrations of managed memory while nothing
  // else is.
  Seconds exposed_fill, exposed_migration;
  Seconds idle;
  std::map<IdleCause, Seconds> idle_by_cause;

  bool operator==(const TimeBreakdown&) const = default;
};

// Where in the program something happens; as much as the trace says.
struct TraceSite {
  std::string op;      // innermost operator: aten::item
  std::string module;  // "BertLayer_3.attention", from nn.Module frames; empty = not recorded
  Provenance source;   // innermost line of the user's own code

  bool operator==(const TraceSite&) const = default;
};

// Name of the row that stands for kernels and operators beyond those listed.
inline constexpr std::string_view kOtherKernels = "other";

// Name of the row that stands for a CUDA graph recorded as a whole.
inline constexpr std::string_view kWholeGraph = "CUDA graph";

// What a step of a serving engine does, by its label in the trace.
enum class ServingStage : std::uint8_t { none, prefill, decode, mixed };

// Kernels of one name and launch shape.
struct KernelUse {
  std::string name;
  ServingStage stage = ServingStage::none;  // of kernels without an operator
  KernelFacts facts;
  LaunchShape launch;
  std::int64_t count = 0;
  Seconds time;      // sum
  TimeSample times;  // of the launches

  bool operator==(const KernelUse&) const = default;
};

// An operator at one shape and place with all kernels that it started itself, its children's
// included up to the next operator that is listed on its own.
struct OpUse {
  std::string name;  // aten::addmm
  OpArguments arguments;
  Phase phase = Phase::forward;
  ServingStage stage = ServingStage::none;
  TraceSite site;
  std::int64_t count = 0;          // of calls
  Seconds host_time;               // sum, on the host
  Seconds kernel_time;             // sum over its kernels
  TimeSample times;                // of the calls: each the sum over its kernels
  std::vector<KernelUse> kernels;  // largest first
  std::optional<Op> op;            // its neutral form, where its arguments tell one

  bool operator==(const OpUse&) const = default;
};

// Kernels that something else on the GPU held up: many times longer than the same work elsewhere.
struct StretchedRuns {
  std::int64_t count = 0;
  std::string kernel;      // the one that lost most
  Seconds longest, usual;  // of that one

  bool operator==(const StretchedRuns&) const = default;
};

// A blocking call of the host, or a copy that blocks, at one place.
struct SyncUse {
  std::string call;  // cudaStreamSynchronize, cudaMemcpyAsync …
  TraceSite site;
  std::int64_t count = 0;
  Seconds blocked;  // the host's waiting
  Seconds exposed;  // GPU idle time that follows from it: what removal would give back

  bool operator==(const SyncUse&) const = default;
};

struct CopyUse {
  CopyShape shape;  // `bytes` summed
  TraceSite site;
  std::int64_t count = 0;
  Seconds time, exposed;  // on the GPU; while nothing computes
  Seconds blocked;        // the host's waiting
  Seconds in_line;        // of the exposed: on a stream that also computes
  std::string maker;      // operator of the host that made the tensor just before: aten::ones

  bool operator==(const CopyUse&) const = default;
};

// Copies of one direction and size class, wherever they are started. Rates are bytes by time on the
// GPU, quantiles over the copies.
struct TransferUse {
  CopyKind kind = CopyKind::unknown;
  bool pageable = false;
  Bytes at_least;  // the class reaches to the next one's; docs/traces.md
  std::int64_t count = 0;
  Bytes bytes;   // sum
  Seconds time;  // sum
  BytesPerSecond p10, median, p90;

  bool operator==(const TransferUse&) const = default;
};

// What was started on the GPU inside a module or range, that of its operators' backward pass
// included; a module or range around another contains its times.
struct PlaceUse {
  std::string name;                   // "BertLayer_3.attention"; the range's text
  std::optional<std::int64_t> calls;  // empty where the trace names the module but not its calls
  Seconds host_time;                  // sum over the calls; of nested ranges of one name the outer
  std::int64_t kernels = 0;           // with copies and fills
  Seconds gpu_time;                   // sum over those
  Seconds backward_time;              // of that: of backward passes
  Seconds busy;                       // union of those: overlapping kernels count once
  TimeSample times;                   // of the calls: each the sum over its kernels

  bool operator==(const PlaceUse&) const = default;
};

// How far the host is ahead of the GPU, and how short the kernels are. Of the busiest GPU.
struct LaunchQueue {
  struct Bin {                                   // of equal length, in order
    std::int64_t launches = 0;                   // that returned in it
    std::optional<Seconds> delay;                // median of those
    std::optional<double> depth;                 // mean over those
    std::int64_t kernels = 0;                    // that began in it
    std::int64_t below_5us = 0, below_10us = 0;  // of those

    bool operator==(const Bin&) const = default;
  };
  static constexpr std::size_t kMostBins = 60;

  std::int64_t launches = 0;
  Spread delay;  // from the end of the launch call to the start on the GPU
  // What had been launched and had not begun when a launch call returned, its own work included.
  double depth_p10 = 0, depth_median = 0, depth_p90 = 0;
  std::int64_t kernels = 0;
  std::int64_t below_5us = 0, below_10us = 0;  // of those
  Seconds time_below_5us, time_below_10us;     // sum over those
  std::vector<Bin> bins;                       // from the trace's start to its end

  bool operator==(const LaunchQueue&) const = default;
};

struct CollectiveUse {
  CollectiveShape shape;
  std::string kernel;  // the kernel's name
  std::int64_t count = 0;
  Seconds time, exposed;
  Seconds awaited;                // of the exposed: while computation waits that could go on
  Seconds waiting;                // of `time`: for ranks that come later
  std::int64_t misaligned = 0;    // of `count`: messages whose bytes are not a multiple of 16
  std::int64_t back_to_back = 0;  // of `count`: behind another one, with no computation between
  // Of `count`: launched by autograd, and on a program's thread between the backward pass and the
  // next forward one.
  std::int64_t in_backward = 0, after_backward = 0;
  std::vector<Seconds> runs;  // duration of each, in order, at most kMostRuns: compares ranks
  static constexpr std::size_t kMostRuns = 4096;

  bool operator==(const CollectiveUse&) const = default;
};

struct LoaderUse {
  std::string name;         // enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
  bool in_process = false;  // no worker processes
  std::int64_t count = 0;
  // Without steps the first call, which may start the workers, is in the count alone.
  Seconds waiting;  // of the host
  Seconds exposed;  // GPU idle time that follows from it
  // From one batch to the next while batches come late: from the first that did to the last. 0
  // where fewer than two did.
  Seconds interval;
  TraceSite site;  // of the first call

  bool operator==(const LoaderUse&) const = default;
};

// What the host did instead of launching, while the GPU idled; all stretches of one name.
struct HostWorkUse {
  IdleCause cause = IdleCause::host_work;  // or module_loading
  bool is_first = false;                   // all of them before the recording's first launch
  std::string name;   // the function, range, operator or runtime call around it; empty = unknown
  Provenance source;  // the line of a Python function
  std::int64_t count = 0;
  Seconds time;               // of the host
  Seconds exposed;            // GPU idle time that follows from it
  Seconds shortest, longest;  // of the stretches

  bool is_operator() const { return name.find("::") != std::string::npos; }
  bool operator==(const HostWorkUse&) const = default;
};

struct AllocatorUse {
  std::int64_t mallocs = 0, frees = 0;  // cudaMalloc and cudaFree in the steady state
  std::int64_t from_pool = 0;           // of the mallocs: cudaMallocAsync
  Seconds blocked, exposed;
  std::optional<Bytes> peak_allocated, peak_reserved;

  bool operator==(const AllocatorUse&) const = default;
};

// The range of PyTorch in which DistributedDataParallel copies a gradient out of its bucket.
inline constexpr std::string_view kCopiesOutOfBucket =
    "torch.distributed.ddp.reducer::copy_bucket_to_grad";

// A range of the training loop that PyTorch names, with all that was launched in it:
// Optimizer.step#SGD.step, Optimizer.zero_grad#SGD.zero_grad.
struct RangeUse {
  std::string name;
  std::int64_t count = 0;
  Seconds host_time;
  std::int64_t kernels = 0;  // and fills
  Seconds kernel_time;       // sum over those
  Seconds idle;              // of the GPU, while the host was in the range
  TraceSite site;            // of the first call

  bool operator==(const RangeUse&) const = default;
};

// Kernels that a compiler could fuse (elementwise, normalisation, softmax, reduction, cast; of
// PyTorch), in runs: one behind the other on a stream with no other kernel between.
struct PointwiseUse {
  std::int64_t kernels = 0, runs = 0;
  Seconds time;           // sum over kernels
  Seconds compiled_time;  // of that: written by a compiler, as by Triton

  bool operator==(const PointwiseUse&) const = default;
};

// Reductions of gradients, as data-parallel training does them in buckets, against the backward
// passes that they should run beside.
struct GradientReductions {
  std::int64_t passes = 0;      // backward passes with two reductions or more
  std::int64_t reductions = 0;  // in those
  Seconds backward;             // of those, from a pass's first computation to its last
  Seconds before_first;         // of that: until the first reduction began
  Seconds after;                // from the last computation to the end of the last reduction

  bool operator==(const GradientReductions&) const = default;
};

// Attention that ran as single operators, at one shape: a GEMM, a softmax over its rows and a GEMM
// with the result. Backward kernels are found by the sequence numbers of these operators.
struct AttentionUse {
  std::optional<Op> op;  // Attention, batches among its heads; empty where shapes are not recorded
  TraceSite site;        // of the first
  std::vector<std::string> between;  // operators on the scores but the softmax: aten::masked_fill
  std::int64_t count = 0, backward_count = 0;
  Seconds gemm_time, softmax_time, other_time;  // forward: the GEMMs, the softmax, what is between
  Seconds backward_time;
  Seconds narrow_time;  // of GEMMs, both ways, by kernels that load fewer than 16 bytes at a time

  bool operator==(const AttentionUse&) const = default;
};

// The bias of convolutions that a batch normalisation follows, which subtracts it again.
struct ConvBiasUse {
  TraceSite site;  // of the first
  std::int64_t count = 0;
  Seconds added, gradient;  // kernels that add it, and that reduce its gradient

  bool operator==(const ConvBiasUse&) const = default;
};

// Casts of fp32 weights and biases that autocast makes inside a layer's operator.
struct WeightCasts {
  TraceSite site;  // of the first
  std::int64_t count = 0;
  Seconds time, host_time;  // of the kernels; of the operators on the host

  bool operator==(const WeightCasts&) const = default;
};

// Operators of the forward pass that run again within the backward pass: activation checkpointing.
struct RecomputeUse {
  std::int64_t kernels = 0;
  Seconds time;  // sum over those

  bool operator==(const RecomputeUse&) const = default;
};

// How steps were told apart.
enum class StepSource {
  none,
  profiler_step,  // ProfilerStep#5
  user_range,     // ranges that the user named "step 5", "iteration 5"
  engine,         // ranges that a serving engine names: "execute_context_…", "step[DECODE bs=32]"
  optimizer,      // from the end of one Optimizer.step to the end of the next
  data_loader,    // from one __next__ of the loader to the next
  repetition      // of the kernels' names
};

// The parts of a step that add up to its time; those of idle time in the order of IdleCause.
enum class StepPart : std::uint8_t {
  compute,
  exposed_communication,
  exposed_copy,
  idle_launch,
  idle_synchronization,
  idle_data_loading,
  idle_communication_wait,
  idle_allocator,
  idle_copy,
  idle_host_work,
  idle_module_loading,
  idle_between_kernels,
  idle_unrecorded_work,
  idle_restart,
  idle_start_up,
  idle_outside,
  idle_profiler,
  idle_asleep,
  idle_migration,
  idle_unknown
};

constexpr StepPart part_of(IdleCause cause) {
  return static_cast<StepPart>(static_cast<std::size_t>(StepPart::idle_launch) +
                               static_cast<std::size_t>(cause));
}

// What limits a step: its largest part, the first of equal ones.
struct StepLimit {
  StepPart part = StepPart::idle_unknown;
  Seconds time;

  bool operator==(const StepLimit&) const = default;
};

// A step at least 1.2 times as long as the median one, and the part of it that is longest beyond
// the median of that part.
struct SlowStep {
  std::int64_t step = 0;  // index into Steps::durations
  StepPart part = StepPart::idle_unknown;
  Seconds beyond;  // the median

  bool operator==(const SlowStep&) const = default;
};

// Steps at the start or the end that take much longer than the others (a warm-up, or the end of the
// profiler), or of which the recording lacks most work. They are no part of the window.
struct StepApart {
  Seconds duration;  // of all of them
  std::int64_t steps = 1;
  bool is_cut = false;                     // their work is not all there
  StepPart part = StepPart::idle_unknown;  // longest beyond the median of that part
  Seconds beyond;                          // the median

  bool operator==(const StepApart&) const = default;
};

struct Steps {
  StepSource source = StepSource::none;
  // Complete steps in order. A step ends when the host has left it and the GPU has done what was
  // launched so far; the next one begins there. They add up to the window's span.
  std::vector<Seconds> durations;
  std::vector<ServingStage> work;  // of each step of a serving engine; empty for others
  std::int64_t rounds = 0;  // that a mark of the recording holds, where steps are those; else 0
  Seconds silent_head;      // left out before the first one: its mark was on, and nothing recorded
  std::optional<StepApart> first_apart, last_apart;
  std::vector<StepLimit> limits;  // of each step; empty without work on a GPU
  std::vector<SlowStep> slow;     // in order, of three or more steps

  bool operator==(const Steps&) const = default;
};

// What a piece of a step's critical path is.
enum class PathKind : std::uint8_t {
  compute,
  communication,
  copy,
  launch,              // a launch call, until its work begins
  host,                // Python code and operators between launches, waits that waited for nothing
  data_loading,        // for the next batch
  communication_wait,  // for other ranks, on the host
  allocator,
  module_loading,
  pause,       // between an activity and the one that waited for it
  unrecorded,  // work was with the GPU and started late: the trace lacks what ran
  profiler,    // the recorder's own work
  asleep,      // the host's thread was off the CPU outside of CUDA
  unknown
};

// Pieces of one kind at one place, of all steps.
struct PathPart {
  PathKind kind = PathKind::unknown;
  std::string name;   // kernel, copy, call, operator or range; empty where unknown
  Provenance source;  // of the host's work, the line of the user's code
  std::int64_t count = 0;
  Seconds time;

  bool operator==(const PathPart&) const = default;
};

struct PathShare {
  PathKind kind = PathKind::unknown;
  Seconds time;

  bool operator==(const PathShare&) const = default;
};

struct PathStep {
  std::vector<PathShare> shares;  // by kind; they add up to the step

  bool operator==(const PathStep&) const = default;
};

// The chain of what each step of the window waited for, from its end back to its start. Shortening
// what is not on it shortens no step.
struct CriticalPath {
  std::vector<PathPart> parts;  // largest first, at most 64
  std::vector<PathStep> steps;  // one for everything where there are no steps

  bool operator==(const CriticalPath&) const = default;
};

// A change of the program, tried on the recording: the host's calls and the GPU's activities run
// again in their order, with what they waited for, without one cause.
enum class Remedy {
  ideal_loader,          // the next batch is always there, but for the time to hand it over
  no_synchronization,    // the host never waits for the GPU, except in copies from the host
  batched_launches,      // as CUDA graphs: operators cost the host nothing
  no_allocation,         // cudaMalloc and cudaFree are never called
  asynchronous_copies,   // copies from the host do not hold it up
  hidden_communication,  // collectives cost the GPU nothing
  fused_optimizer        // launching the optimizer's kernels costs the host a tenth
};

// What a remedy saves. Low: the idle time that is certainly its cause's. High: all the time that
// its cause took.
struct Prediction {
  Remedy remedy = Remedy::ideal_loader;
  Range<Seconds> saved;                // of the window's span
  Range<Seconds> saved_per_step = {};  // once the GPU is at work: the first of three or more steps,
                                       // which finds it idle, does not count

  bool operator==(const Prediction&) const = default;
};

// Outermost ranges of one name with kernels, none of them in the window.
struct UnjudgedRange {
  std::string name;
  std::int64_t kernels = 0;
  Seconds kernel_time;  // sum over those

  bool operator==(const UnjudgedRange&) const = default;
};

struct TraceSummary {
  std::vector<std::string> files;
  std::string format;
  std::optional<TraceDevice> device;  // the busiest GPU
  std::int64_t other_devices = 0;     // GPUs of the recording that `time` and `whole` leave out
  std::int64_t listed_devices = 0;    // GPUs of the machine that the recording lists
  std::optional<std::int64_t> rank, world_size;
  bool has_shapes = false, has_stacks = false, has_memory = false, is_foreign = false;

  TimeBreakdown whole;                   // of the recording, from its first start to its last end
  TimeBreakdown time;                    // of the window: the complete steps, else everything
  Seconds before;                        // the window, in the recording
  std::vector<HostWorkUse> before_work;  // what the host did for most of that, longest first
  Steps steps;                           // in the window

  // Of the whole recording.
  std::int64_t kernels = 0;
  Seconds kernel_time;           // sum over kernels
  Seconds kernel_time_in_steps;  // of that: in the window
  Seconds unclassified_time;     // of that: names the grammar does not know
  // Launched before the recording began: counted above, and in no table and no step.
  std::int64_t leftover_kernels = 0;
  Seconds leftover_time;
  // Launches of kernels, and how many of them, the last ones, have no kernel in the recording.
  std::int64_t kernel_launches = 0, lost_launches = 0;

  // Of the window's host part.
  std::int64_t launches = 0;
  Seconds launch_time;  // host time of launch calls on the launching threads
  Seconds host_busy;    // a thread that launches is in operators or calls and does not wait
  std::int64_t graph_launches = 0;  // cudaGraphLaunch calls

  // Of the window; false in summaries of earlier versions, where they are of the whole recording.
  bool has_tables_of_window = false;
  std::vector<OpUse> ops;                // with kernels; largest kernel time first
  std::vector<KernelUse> orphans;        // kernels no operator is known for
  std::vector<AttentionUse> attentions;  // that are not fused; largest time first
  ConvBiasUse conv_bias;
  RecomputeUse recomputed;
  WeightCasts weight_casts;

  // Of the whole recording.
  StretchedRuns stretched;  // of the busiest GPU
  Seconds time_slice;       // after which the GPU turns to another process and back; 0 = not seen
  std::vector<TransferUse> transfers;  // of the busiest GPU, by direction and size
  std::vector<CollectiveUse> collectives;
  std::vector<PlaceUse> modules, annotations;  // largest GPU time first
  std::vector<UnjudgedRange> unjudged;         // largest kernel time first
  std::optional<LaunchQueue> queue;            // empty without launches
  bool launches_block = false;  // each launch call returns after its kernel has ended
  // From the launch of a collective in which this rank waits for others to its end, where that is
  // steady and the launches run ahead: the others come that much later and launch at this rank's
  // pace.
  std::optional<Seconds> steady_lateness;
  // On the host, of a call of aten::view or aten::as_strided, which compute nothing: the shorter of
  // their medians. 0 with few calls of one of them.
  Seconds lightest_operator;
  // Of the window's host part.
  std::vector<CopyUse> copies;
  std::vector<SyncUse> syncs;
  std::vector<LoaderUse> loaders;
  AllocatorUse allocator;
  std::vector<HostWorkUse> host_work;  // largest exposed time first
  std::vector<RangeUse> ranges;
  PointwiseUse pointwise;
  GradientReductions gradients;
  Seconds between_collectives;  // idle time between collectives with no computation between
  // Whether experts' tokens travel while the GPU computes for others: in halves, or of two batches.
  bool overlaps_exchanges = false;
  CriticalPath path;  // empty without work on a GPU or without calls

  // Empty where the replay of the unchanged recording misses its span by more than a tenth.
  std::vector<Prediction> predictions;
  std::optional<Seconds> replayed_span;  // of the window, by the unchanged replay
  // Of a second of kernel time saved, the part that shortens the window; 0 where the host limits.
  std::optional<double> kernel_time_share;
  // The same of the time in which the GPU only copies.
  std::optional<double> copy_time_share;

  std::map<std::string, std::int64_t> skipped;

  bool operator==(const TraceSummary&) const = default;
};

// Steps in the window, at least 1: divides what is counted in the window.
double window_steps(const TraceSummary& summary);

// Steps in the whole recording by kernel time, at least 1: divides what is counted in all of it. A
// whole number where it is within a hundredth of one.
double recorded_steps(const TraceSummary& summary);

// Divides what the tables of the window count: its steps; of summaries of earlier versions, whose
// tables are of the whole recording, the steps in that.
double table_steps(const TraceSummary& summary);

// Kernels in the tables of operators and kernels.
std::int64_t kernels_in_tables(const TraceSummary& summary);

// Whether operators of a framework or the kernels of layers show that a network runs.
bool shows_network(const TraceSummary& summary);

// Whether one step was recorded that the program or its engine marks and no profiler warmed up for:
// it shows no steady state.
bool is_single_user_step(const TraceSummary& summary);

// Whether the GPU had much work in its queue as the recording began, and waits for the host now:
// recording slows the host.
bool falls_behind(const TraceSummary& summary);

// Whether the recording shows nothing of a GPU: no launch, no work, no copy.
bool is_of_host_alone(const TraceSummary& summary);

// Wall time of one pass: the mean of the steps; the whole window where there are none.
Seconds pass_time(const TraceSummary& summary);

// The middle one, of an even number the mean of the two in the middle. Of at least one.
Seconds median(std::vector<Seconds> values);

}  // namespace rooftile
