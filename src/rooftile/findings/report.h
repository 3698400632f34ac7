// What a check found, complete: a renderer needs nothing else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct DeviceSummary {
  std::string id, name;
  bool calibrated = false;  // the time model was fitted on this GPU
  // Dense peak for the dtype in which most of the flop run; empty where the GPU has none.
  std::optional<FlopPerSecond> peak;
  std::string peak_dtype;
};

// What a report says about a rule that fired.
struct RuleSummary {
  std::string id, summary, doc;  // doc is Markdown
  Level level = Level::info;
};

// What a kernel's time consists of. Compute runs at the rate of the cores; power is the least time
// at the rate that clocks and power sustain.
struct TimeParts {
  Seconds launch, compute, memory, power;
};

// Kernels of one name over the whole trace: all, or those under an operation.
struct RecordedKernel {
  std::string name;
  KernelClass kind = KernelClass::unknown;
  std::string op;  // the operator that starts most of their time; empty where none is known
  std::int64_t count = 0;
  Seconds total;
  TimeSample times;
};

// What a GPU's links and memory carry, where that is published.
struct LinkRates {
  std::optional<BytesPerSecond> host, peer;  // one direction
  std::optional<BytesPerSecond> memory;      // reads and writes together
};

// An operation as it was recorded. A call's time is the sum over its kernels.
struct RecordedRun {
  std::int64_t calls = 0;  // in the whole trace
  Seconds total;           // of those
  TimeSample times;        // of those
  ServingStage stage = ServingStage::none;
  double kernels = 0;                       // that one call starts
  std::vector<RecordedKernel> all_kernels;  // largest total first
  // The kernel that takes most of it; texts are empty where its name does not tell.
  std::string kernel, tile;  // "256x128x64"
  std::optional<bool> tensor_core;
  std::optional<double> blocks_per_sm;  // of its grid: waves, where one block fits an SM
  // What the shape alone allows: the kernels that the library is expected to choose, at the usual
  // clock. The row's time is that of the kernels that ran.
  std::optional<Seconds> attainable = {};
  // Kernels that the time model misjudges alike, and its time before what profiles say of them.
  std::string family = {};
  std::optional<Seconds> modelled = {};
};

// One operation as the table of `rooftile ops` shows it.
struct OpRow {
  std::string name, kind, dtype, phase, dims, bound;
  std::int64_t count = 1;
  Flop flop;                           // of one run
  Bytes bytes;                         // of one run
  std::optional<Range<Seconds>> time;  // of one run
  // What the expected time consists of; they overlap, so they do not add up. 0 without a time.
  TimeParts parts = {};
  std::optional<RecordedRun> recorded = {};
  // Flop per byte from which on it is math-bound in the precision that runs on the GPU.
  std::optional<FlopPerByte> ridge = {};
};

// Time per kind of operation, largest first.
struct KindShare {
  std::string kind;
  double runs = 0;
  Seconds time;
  double share = 0;
};

// Collectives of one kind, size and group in a trace. Bandwidths are those of nccl-tests.
struct CollectiveRow {
  std::string kind;            // "all-reduce"
  std::optional<Bytes> bytes;  // of the message; empty where not recorded
  std::int64_t ranks = 0;      // of the group; 0 = not recorded
  double per_pass = 0;         // runs
  Seconds median, fastest;     // of a run
  Seconds time, exposed;       // per pass; while nothing computes
  Seconds waiting;             // of `time`: for ranks that come later
  // Of the fastest run; empty for small messages, whose time hardly depends on their size.
  std::optional<BytesPerSecond> algorithm_bandwidth, bus_bandwidth;
  std::string link;                  // of the GPU: NVLink or PCIe; empty where not known
  std::optional<double> link_share;  // bus bandwidth over the link's rate in one direction
  std::optional<Seconds> skew;       // median: longest less shortest run among the ranks
};

struct Coverage {
  double ops = 0, ops_with_time = 0;  // runs, those that a reader had to leave out included
  double skipped = 0;                 // records left out, see Report::skipped
};

// A change that makes the network fit into the GPU's memory.
struct MemoryChange {
  std::string kind;  // smaller_batch checkpointing half_precision … : report.schema.json
  // Samples of a smaller batch, positions of a shorter input, GPUs of a spread network; else 0.
  std::int64_t amount = 0;
  std::int64_t batch = 0;              // of a smaller batch, beside GPUs as well; else 0
  std::vector<std::string> with;       // kinds that it takes besides
  Bytes per_gpu;                       // expected, on each GPU
  std::string fit;                     // fits, tight
  std::optional<Range<Seconds>> cost;  // time that it adds to a pass, nothing overlapped
};

// What the GPU's memory holds, in bytes; docs/time_model.md says what is counted.
struct MemorySummary {
  Bytes weights;
  Range<Bytes> gradients, optimizer, activations, kv_cache, recurrent_state, workspace, total;
  Bytes capacity, usable;  // of the GPU; by one process
  bool shared_with_cpu = false;
  std::string verdict;  // fits, tight, does_not_fit; empty where there are no operations
  // That fits with a tenth to spare, and that fits at all.
  std::optional<std::int64_t> largest_batch, largest_tight_batch;
  std::vector<MemoryChange> changes;  // that make it fit
};

// Shares of the time by what it waits for.
struct BoundShares {
  double math = 0, memory = 0, latency = 0, other = 0;
};

struct TensorCoreWaits {
  double memory = 0, latency = 0;
};

// findings: something to change. no_change_worth_making: all was judged, nothing is worth it.
// not_judged: too little is known to say either.
enum class CheckVerdict { findings, no_change_worth_making, not_judged };
std::string_view to_string(CheckVerdict verdict);

// Whether enough operations have a time for totals and silence to mean something.
inline constexpr double kEnoughCoverage = 0.9;  // of the operations
constexpr bool is_sufficient(const Coverage& coverage) {
  return coverage.ops > 0 && coverage.ops_with_time >= kEnoughCoverage * coverage.ops;
}

// The scripts that were read.
struct SourceSummary {
  std::int64_t files = 0;                   // that can matter
  std::int64_t passed_over = 0;             // files without a word of training
  std::int64_t lines = 0;                   // of the files that can matter
  std::int64_t programs = 0, training = 0;  // entry points; those that train on a GPU
  std::int64_t with_errors = 0;             // files with syntax errors
};

// Findings that are not told because the user said so.
struct SetAside {
  std::int64_t allowed = 0;  // by comments in the scripts
  std::int64_t known = 0;    // from the baseline
  // Comments that allow what is not found there: "train.py:12: precision/amp-off".
  std::vector<std::string> unused_comments;
};

struct Report {
  std::vector<std::string> inputs;
  DeviceSummary device;
  Mode mode = Mode::inference;
  // What the user fixed, as flag and value: {"batch", "32"}. Filled in by the caller of check().
  std::vector<std::pair<std::string, std::string>> options;
  // What reads the same input again, "model.onnx --gpu h100 --batch 32", for a command to run next;
  // from the caller too.
  std::string arguments;
  std::optional<Seconds> budget;  // the expected time may not exceed it; from the caller too
  Coverage coverage;
  std::map<std::string, std::int64_t> skipped;
  std::vector<std::string> notes;
  Range<Seconds> total;
  Flop flop;
  Bytes bytes;
  double parameters = 0;
  // Operations to start, and what the host needs for it without compilation and CUDA graphs.
  double launches = 0;
  Range<Seconds> host;
  bool launch_bound =
      false;  // the host takes longer than the GPU, and nothing replays the launches
  MemorySummary memory;
  BoundShares bound_share;
  // Shares of the time: in operations on Tensor Cores, and of that in those that wait for memory or
  // for their own latency.
  double tensor_core_share = 0;
  TensorCoreWaits tensor_cores_wait_for;
  std::vector<KindShare> kinds;
  std::vector<CollectiveRow> collectives;  // of traces, largest time first
  std::vector<Finding> findings;           // ranked: errors first, then by expected saving
  std::vector<RuleSummary> rules;          // of the findings, in their order, each once
  std::vector<OpRow> ops;                  // input order; of list_operations() only
  std::vector<RecordedKernel> kernels;     // of a trace, likewise; largest total first
  LinkRates links;
  TraceList traces;  // recordings judged, one per rank
  std::optional<SourceSummary> scripts;
  SetAside set_aside;
  // Why nothing can be said of the input as a whole; empty where it was judged.
  std::string not_judged_because;
};

// By the findings above level info and by what could be judged.
CheckVerdict verdict_of(const Report& report);

}  // namespace rooftile
