// Runs of pointwise operations and normalisations, each with its own trip to memory.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "rooftile/analysis/batchnorm.h"
#include "rooftile/analysis/decomposed.h"
#include "rooftile/analysis/fusion.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/triton.h"

namespace rooftile {

// unfused_pointwise_in_source.cpp
std::vector<Finding> unfused_pointwise_functions(const source::SourceFacts& facts);

namespace memory_bound_unfused_pointwise_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Runs of elementwise operations, casts, softmaxes and normalisations that pass values to each other, and
normalisations of fewer than 256 values such as those of queries and keys, when together they take more
than 15 per cent of the time; from 5 per cent on it is information. One finding for the network.

In training scripts: a function or module of at least four pointwise operations and nothing else, such
as a GELU written out, that runs in a forward and is not compiled.

## Why it costs time
Each of these operations reads its input from memory and writes its result back, for a few operations
per element. Their time is that of the traffic, and no size makes them faster. In one kernel the values
in between stay in registers. PyTorch's kernels of normalisations start a block for each row: short rows
take as long as ones several times their length.

## How to fix
`torch.compile` fuses such runs, including those of the backward pass. Without it: fused modules from
libraries, or in-place activations where autograd allows them.

## How the saving is estimated
The traffic of each run before and after fusing: a value that only members of the run read is neither
written nor read. The time shrinks in proportion, in the backward pass too. Short rows count as if a
block took several of them, as compiled kernels do. The gradient of a bias is summed up where a pointwise
operation makes it, and is not read again. Values that the backward pass needs are taken to be
recomputed, as Inductor does with cheap operations; where they are kept, the saving is smaller. Saved
launches are not counted.

## When not to
- A model that runs compiled already has fused kernels. Only what the graph lists is seen. Scripts:
  not reported under `torch.compile`, `torch.jit.script` or `trace`.
- ONNX files that PyTorch did not export, and those that are quantized or optimised, are run by a
  runtime, which fuses as it loads: not reported. Of PyTorch's exports, calls that the exporter wrote
  out count as the one kernel that they are.
- Decode steps of configs are those of a serving engine, which has fused kernels: not reported.
- GPUs before Volta: what torch.compile makes does not run there.
- Networks dominated by large GEMMs gain little: published steps of an 8-billion-parameter
  model ran at 0.93 to 0.98 of eager speed when compiled.
- Compiling takes tens of seconds to minutes, which short jobs do not earn back.
- Statistics over the batch (BatchNorm in training) need their whole input first. Only what follows
  them fuses.
- Fused dropout draws other random numbers.

## Evidence
- NVIDIA, Memory-Limited Layers User's Guide: time of these layers is proportional to the bytes moved.
- PyTorch Performance Tuning Guide, "Fuse operations", with a GELU of five operations as its example.
- PyTorch Inductor, triton_heuristics.py: persistent reductions of fewer than 256 elements may take 8, 32
  or 128 rows a block, up to 4,096 elements.
- sitar-lab/NeuSight, fp32 layer norms of 264 values on A100 PCIe 40 GB: 6,580 rows take 71 us, 14,076
  take 101; that is 3.9 ns a row, whose 2,112 bytes take 1.4 ns.
- PyTorch Inductor, ir.py, should_realize_on_reuse: on a GPU each reader computes a pointwise value of up
  to 4 reads again, such as the activation that squeeze-and-excitation averages and scales.
- huggingface/pytorch-image-models, results/: ConvNeXt-Base classifies 22 % (RTX 4090, PyTorch 2.4) to 30 %
  (RTX 5090, 2.9) faster when compiled, in fp16 autocast, whose casts fuse too.
- S. Bekman, Machine Learning Engineering Open Book, performance chapter: pointwise operations are where
  compiling wins.
)md";

constexpr double kMinShare = threshold::kWorthCompiling;
// Less is worth knowing where something else makes one compile.
constexpr double kMinToKnow = threshold::kBeyondModelError;

// PyTorch Inductor's persistent reductions: rows of fewer elements share a block of up to so many.
constexpr std::int64_t kShortRow = 256, kElementsOfBlock = 4096;

bool has_short_rows(const Op& op) {
  const auto* norm = std::get_if<Normalization>(&op.body);
  return norm != nullptr && (norm->fn == NormKind::layer || norm->fn == NormKind::rms) &&
         norm->cols > 0 && norm->cols < kShortRow;
}

// As a compiled kernel takes it: as many rows a block as fit.
Op with_shared_blocks(const Op& op) {
  Op shared = op;
  auto& norm = std::get<Normalization>(shared.body);
  const std::int64_t together = std::min(norm.rows, kElementsOfBlock / norm.cols);
  norm.rows = (norm.rows + together - 1) / together;
  norm.cols *= together;
  return shared;
}

struct Runs {
  LayerGroup group;  // all operations and their gradients
  std::size_t operations = 0, longest = 0;
  std::size_t first = 0;       // operation of the run that fusing relieves most
  std::int64_t short_row = 0;  // of a norm among them; 0 where there is none
  double kept_traffic = 1;     // bytes after fusing over bytes before
};

// What other rules advise on: spelled-out norms, and BatchNorm that folds away.
std::vector<bool> covered_elsewhere(const RuleInput& input, const Graph& graph) {
  std::vector<bool> covered(input.workload.ops.size());
  for (const Decomposed& pattern : find_decomposed(input.workload, graph)) {
    for (const std::size_t op : pattern.ops) covered[op] = true;
  }
  if (input.workload.mode == Mode::training) return covered;
  for (std::size_t op = 0; op < covered.size(); ++op) {
    if (folds_into_layer(input.workload, graph, op)) covered[op] = true;
  }
  return covered;
}

bool has_bias(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  const auto* conv = std::get_if<Convolution>(&op.body);
  return (gemm != nullptr && gemm->bias) || (conv != nullptr && conv->bias);
}

// Sums over the rows of gradients that come from a pointwise operation: its compiled kernel adds
// them up as it writes them.
std::vector<std::size_t> sums_behind_pointwise(const RuleInput& input) {
  const std::vector<Op>& ops = input.workload.ops;
  std::unordered_set<std::string_view> layers;
  std::vector<std::size_t> sums;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (ops[op].phase == Phase::forward && has_bias(ops[op])) {
      const auto reader = input.graph.sole_consumer(op);
      if (reader && std::holds_alternative<Elementwise>(ops[*reader].body)) {
        layers.insert(ops[op].name);
      }
    } else if (ops[op].phase == Phase::wgrad && layers.contains(ops[op].name) &&
               std::holds_alternative<Reduction>(ops[op].body)) {
      sums.push_back(op);
    }
  }
  return sums;
}

Runs collect_runs(const RuleInput& input) {
  const Graph& graph = input.graph;
  const std::vector<bool> excluded = covered_elsewhere(input, graph);
  Runs runs;
  std::vector<std::size_t> ops, alone;
  Bytes before, after, most;
  for (const FusibleRun& run : find_fusible_runs(input.workload, graph, excluded)) {
    const double count = static_cast<double>(input.workload.ops[run.ops.front()].count);
    before += run.before * count;
    after += run.after * count;
    runs.longest = std::max(runs.longest, run.ops.size());
    const Bytes relieved = (run.before - run.after) * count;
    if (relieved > most) runs.first = run.ops.front();
    most = std::max(most, relieved);
    ops.insert(ops.end(), run.ops.begin(), run.ops.end());
  }
  std::sort(ops.begin(), ops.end());
  for (std::size_t op = 0; op < excluded.size(); ++op) {
    const Op& norm = input.workload.ops[op];
    if (excluded[op] || norm.phase != Phase::forward || !has_short_rows(norm)) continue;
    runs.short_row = std::get<Normalization>(norm.body).cols;
    if (std::binary_search(ops.begin(), ops.end(), op)) continue;
    const Bytes bytes = input.analysis.ops[op].cost.bytes * static_cast<double>(norm.count);
    before += bytes;
    after += bytes;
    alone.push_back(op);
  }
  ops.insert(ops.end(), alone.begin(), alone.end());
  runs.operations = ops.size();
  if (ops.empty()) return runs;
  std::sort(ops.begin(), ops.end());
  if (most <= Bytes(0)) runs.first = ops.front();
  runs.group = with_gradients(input, std::move(ops));
  for (const std::size_t sum : sums_behind_pointwise(input)) {
    before += input.analysis.ops[sum].cost.bytes * to_double(input.workload.ops[sum].count);
    runs.group.time_share += input.analysis.ops[sum].time_share;
    runs.group.ops.push_back(sum);
  }
  runs.kept_traffic = after / before;
  return runs;
}

// All runs of the group in compiled kernels, before their traffic shrinks.
TimeEstimate compiled_time(const RuleInput& input, const LayerGroup& group) {
  TimeEstimate total;
  for (const std::size_t i : group.ops) {
    const Op& op = input.workload.ops[i];
    std::optional<TimeEstimate> time = input.analysis.ops[i].time;
    if (has_short_rows(op)) {
      const auto shared = input.model.estimate(with_shared_blocks(op));
      if (shared && time && shared->time.expected < time->time.expected) time = shared;
    }
    if (time) total = total + *time * static_cast<double>(op.count);
  }
  return total;
}

std::string message_of(const Runs& runs) {
  const std::string share = fmt::format("{} of the time", share_text(runs.group.time_share));
  if (runs.longest < 2) {
    return fmt::format(
        "Norms of {} values take {}: PyTorch starts a block for each row, a compiled "
        "kernel for several.",
        runs.short_row, share);
  }
  std::string text = fmt::format(
      "Unfused chains of up to {} pointwise ops and norms take {}, each with a memory round trip; "
      "fused they move {} of the bytes.",
      runs.longest, share, share_text(runs.kept_traffic));
  if (runs.short_row > 0) {
    text += fmt::format(
        " Norms of {} values start a block for each row; a compiled kernel takes several.",
        runs.short_row);
  }
  return text;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  // A runtime fuses them as it loads, and so does an engine.
  if (input.workload.graph == GraphKind::runtime || input.workload.mode == Mode::decode) return {};
  if (!runs_triton(input.device())) return {};
  const Runs runs = collect_runs(input);
  if (runs.group.time_share < kMinToKnow) return {};
  const TimeEstimate before = total_time(input, runs.group);
  const auto saving = estimate_saving(before, compiled_time(input, runs.group) * runs.kept_traffic);
  if (!is_gain(input, saving)) return {};
  Finding finding = finding_at_groups(
      input, {runs.group}, message_of(runs),
      {"Compile the model (torch.compile), or use fused modules; compiled or optimised graphs "
       "already do.",
       Exactness::exact_arithmetic},
      saving);
  if (runs.group.time_share < kMinShare) finding.own_level = Level::info;
  const Op& first = input.workload.ops[runs.first];
  finding.location = first.source;
  if (finding.location.node.empty()) finding.location.node = first.name;
  finding.evidence = {
      Evidence::published("Time of these operations follows their bytes",
                          "NVIDIA Memory-Limited Layers User's Guide"),
      Evidence::estimated("Bytes counted from the values that pass between the operations.")};
  return {finding};
}

}  // namespace memory_bound_unfused_pointwise_rule

extern const Rule memory_bound_unfused_pointwise{
    .id = "memory_bound/unfused-pointwise",
    .level = Level::advice,
    .cause = Cause::fusion,
    .summary = "Unfused pointwise ops: one memory round trip each",
    .doc = memory_bound_unfused_pointwise_rule::kDoc,
    .in_ops = memory_bound_unfused_pointwise_rule::check_operations,
    .in_scripts = unfused_pointwise_functions};

}  // namespace rooftile
