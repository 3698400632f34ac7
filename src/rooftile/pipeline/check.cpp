#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "rooftile/analysis/batch_curve.h"
#include "rooftile/analysis/bound_share.h"
#include "rooftile/analysis/coverage.h"
#include "rooftile/analysis/host_time.h"
#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/analysis/op_math.h"
#include "rooftile/analysis/trace/as_run.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/findings/fingerprint.h"
#include "rooftile/pipeline/collective_table.h"
#include "rooftile/pipeline/not_judged.h"
#include "rooftile/pipeline/op_row.h"
#include "rooftile/pipeline/recorded.h"
#include "rooftile/pipeline/suppressions.h"
#include "rooftile/rooftile.h"
#include "rooftile/rules/joined_evidence.h"
#include "rooftile/workload/op_fields.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

bool is_cudnn_layer(const Op& op) {
  return std::holds_alternative<Convolution>(op.body) || std::holds_alternative<Recurrent>(op.body);
}

// Says so where the model multiplies in another precision than the operation states.
void note_tf32(const Workload& workload, const Device& device, Report& report) {
  const bool differs = std::ranges::any_of(workload.ops, [&](const Op& op) {
    return is_cudnn_layer(op) && cudnn_math(device, op.dtypes.input) != op.dtypes.input;
  });
  if (differs) {
    report.notes.emplace_back(
        "fp32 convolutions and recurrent layers are timed in TF32, PyTorch's default on this GPU");
  }
}

// The dtype in which most of the flop run: fp32 for bf16 on a GPU without it.
std::optional<Dtype> main_dtype(const Workload& workload, const Analysis& analysis,
                                const Device& device) {
  std::map<Dtype, Flop> by_dtype;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (!analysis.ops[i].products.empty()) {
      by_dtype[math_unit(device, workload.ops[i]).dtype] +=
          static_cast<double>(workload.ops[i].count) * analysis.ops[i].cost.flop;
    }
  }
  const auto most =
      std::max_element(by_dtype.begin(), by_dtype.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == by_dtype.end() ? std::nullopt : std::optional(most->first);
}

DeviceSummary summary_of(const Device& device, const TimeModel& model, const Workload& workload,
                         const Analysis& analysis) {
  DeviceSummary summary{device.id, device.name, model.calibrated(), std::nullopt, ""};
  if (const std::optional<Dtype> dtype = main_dtype(workload, analysis, device)) {
    summary.calibrated = model.calibrated(*dtype);
    summary.peak = device.peak(*dtype);
    summary.peak_dtype = to_string(*dtype);
  }
  return summary;
}

std::vector<RuleSummary> rules_of(const std::vector<Finding>& findings) {
  std::vector<RuleSummary> summaries;
  for (const Finding& finding : findings) {
    const bool known = std::any_of(summaries.begin(), summaries.end(),
                                   [&](const auto& summary) { return summary.id == finding.rule; });
    const Rule* rule = known ? nullptr : find_rule(finding.rule);
    if (rule == nullptr) continue;
    summaries.push_back(
        {std::string(rule->id), std::string(rule->summary), std::string(rule->doc), rule->level});
  }
  return summaries;
}

std::vector<KindShare> kind_shares(const Workload& workload, const Analysis& analysis) {
  std::map<std::string, KindShare> by_kind;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    KindShare& share = by_kind[std::string(kind_name(op.body))];
    const double runs = static_cast<double>(op.count);
    share.runs += runs;
    if (const auto time = known_time(analysis.ops[i])) share.time += runs * time->expected;
    share.share += analysis.ops[i].time_share;
  }
  return sorted_shares(by_kind);
}

void add_totals(const Workload& workload, const Analysis& analysis, Report& report) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const double runs = static_cast<double>(workload.ops[i].count);
    report.flop += runs * analysis.ops[i].cost.flop;
    report.bytes += runs * analysis.ops[i].cost.bytes;
  }
  const KnownRuns known = known_runs(workload, analysis);
  report.coverage.ops = known.all;
  report.coverage.ops_with_time = known.with_time;
  for (const auto& [name, count] : workload.skipped) {
    report.coverage.skipped += static_cast<double>(count);
  }
  report.total = analysis.total;
  report.kinds = workload.traces.empty() ? kind_shares(workload, analysis)
                                         : kernel_shares(workload.traces.front());
}

void add_host(const Workload& workload, Report& report) {
  const HostEstimate host = estimate_host(workload);
  report.launches = host.launches;
  report.host = host.time;
  report.launch_bound = is_sufficient(report.coverage) && waits_for_launches(workload.mode) &&
                        is_launch_bound(host, report.total.expected);
}

void add_memory(const Workload& workload, const Analysis& analysis, const TimeModel& model,
                Report& report) {
  if (workload.ops.empty()) return;
  const MemoryEstimate memory = estimate_memory(workload, model.device());
  // What could not be read may take any amount: then only "does not fit" is certain.
  if (!is_sufficient(report.coverage) && memory.fit() != Fit::does_not_fit) return;
  MemorySummary& summary = report.memory;
  summary.weights = memory.weights;
  summary.gradients = memory.gradients;
  summary.optimizer = memory.optimizer;
  summary.activations = memory.activations;
  summary.kv_cache = memory.kv_cache;
  summary.recurrent_state = memory.recurrent_state;
  summary.workspace = memory.workspace;
  summary.total = memory.total();
  summary.capacity = model.device().dram_size;
  summary.usable = memory.usable;
  summary.shared_with_cpu = model.device().dram_cpu_share.has_value();
  summary.verdict = to_string(memory.fit());
  const auto largest = largest_batch(workload, memory, Fit::fits);
  // Beyond, it is not memory that ends the batch.
  if (largest && *largest <= most_in_use(workload.mode)) {
    summary.largest_batch = largest;
    summary.largest_tight_batch = largest_batch(workload, memory, Fit::tight);
  }
  for (const FitChange& change : changes_that_fit(workload, analysis, model, memory)) {
    MemoryChange& shown = summary.changes.emplace_back();
    shown.kind = to_string(change.by.front());
    shown.amount = change.gpus > 1 ? change.gpus : std::max(change.batch, change.length);
    shown.batch = change.batch;
    for (std::size_t i = 1; i < change.by.size(); ++i) {
      shown.with.emplace_back(to_string(change.by[i]));
    }
    shown.per_gpu = change.per_gpu;
    shown.fit = to_string(change.fit);
    shown.cost = change.cost;
  }
}

void add_bounds(const Workload& workload, const Analysis& analysis, const Device& device,
                Report& report) {
  const BoundShare share = bound_share(workload, analysis, device);
  report.bound_share = {share.math, share.memory, share.latency, share.other};
  const TensorCoreShare tensor_cores = tensor_core_share(workload, analysis, device);
  report.tensor_core_share = tensor_cores.all;
  report.tensor_cores_wait_for = {tensor_cores.memory, tensor_cores.latency};
}

// The rate may then lie above the peak.
void note_winograd(const Workload& workload, const Analysis& analysis, Report& report) {
  constexpr double kVisible = 0.05;  // of the time
  double share = 0;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const auto& time = analysis.ops[i].time;
    if (time && time->winograd) share += analysis.ops[i].time_share;
  }
  if (share < kVisible) return;
  report.notes.emplace_back(
      "Winograd convolutions multiply less than the FLOP counted here, so a rate can be above the "
      "peak");
}

// A prefill that generates computes the last position of each sequence. Scoring and training need
// them all.
void note_logits(const Workload& workload, const Analysis& analysis, const TimeModel& model,
                 Report& report) {
  const std::optional<std::size_t> layer = logits_layer(workload);
  if (!layer || workload.mode != Mode::inference || !workload.generates()) return;
  Op all = workload.ops[*layer];
  auto& gemm = std::get<Gemm>(all.body);
  const std::int64_t sequences = gemm.m;
  if (workload.batch != sequences || workload.sequence.value_or(1) == 1) return;
  gemm.m *= *workload.sequence;
  const auto &last_time = analysis.ops[*layer].time, all_time = model.estimate(all);
  if (!last_time || !all_time) return;
  const double more = to_double(gemm.m - sequences) * to_double(gemm.n);
  report.notes.push_back(fmt::format(
      "the output layer computes the last position only, as generation does; at all positions, as "
      "for scoring, it takes {} longer and {} more memory",
      time_text(all_time->time.expected - last_time->time.expected),
      bytes_text(storage(more, all.dtypes.output))));
}

// All of a report but its findings and rows.
Report summary(const Workload& workload, const Device& device, const TimeModel& model,
               const Analysis& analysis) {
  Report report;
  report.inputs = workload.sources;
  report.device = summary_of(device, model, workload, analysis);
  report.mode = workload.mode;
  report.traces = workload.traces;
  report.scripts = script_summary(workload);
  report.skipped = workload.skipped;
  report.notes = workload.notes;
  note_tf32(workload, device, report);
  report.parameters = count_parameters(workload);
  add_totals(workload, analysis, report);
  report.collectives = collective_rows(workload, &model.device());
  add_host(workload, report);
  add_memory(workload, analysis, model, report);
  add_bounds(workload, analysis, device, report);
  note_winograd(workload, analysis, report);
  note_logits(workload, analysis, model, report);
  report.not_judged_because = not_judged_because(workload, report);
  return report;
}

// Fingerprints first: they count equal lines, also the allowed ones.
void finish(const Workload& workload, std::span<const Rule* const> rules, Report& report) {
  add_fingerprints(report.findings);
  if (workload.source) set_aside_allowed(*workload.source, rules, report);
  report.rules = rules_of(report.findings);
}

}  // namespace

Report check(const Workload& workload, std::span<const Rule* const> rules) {
  Report report;
  report.inputs = workload.sources;
  report.mode = workload.mode;
  report.traces = workload.traces;
  report.skipped = workload.skipped;
  report.notes = workload.notes;
  report.scripts = script_summary(workload);
  if (!workload.traces.empty()) {
    describe_recording(workload, report);
    report.collectives = collective_rows(workload, nullptr);
    report.not_judged_because = no_advice_because(workload.traces.front());
  } else {
    report.not_judged_because = not_judged_because(workload, report);
  }
  report.findings = run_rules(workload, rules);
  if (workload.source && !workload.traces.empty()) {
    report.findings = join_evidence(std::move(report.findings), false);
  }
  finish(workload, rules, report);
  return report;
}

Report check(const Workload& workload, const Device& device, std::span<const Rule* const> rules,
             const BatchCurve* curve) {
  const TimeModel model = step_model(workload, TimeModel(device));
  const Analysis analysis = analyse(workload, model);
  Report report = summary(workload, device, model, analysis);
  report.findings = run_rules({workload, analysis, model, Graph(workload), curve}, rules);
  if (workload.source && !workload.traces.empty()) {
    report.findings = join_evidence(std::move(report.findings), true);
  }
  finish(workload, rules, report);
  return report;
}

OpRow op_row(const Op& op, const OpAnalysis& analysis) {
  OpRow row;
  row.name = op.name;
  row.kind = kind_name(op.body);
  row.dtype = to_string(op.dtypes.input);
  row.phase = kPhaseNames[static_cast<std::size_t>(op.phase)];
  row.dims = dims_text(op.body);
  row.count = op.count;
  row.flop = analysis.cost.flop;
  row.bytes = analysis.cost.bytes;
  row.bound = to_string(analysis.time ? analysis.time->bound : Bound::unknown);
  if (analysis.time) {
    row.time = analysis.time->time;
    row.parts = {analysis.time->launch, analysis.time->compute, analysis.time->memory,
                 analysis.time->power};
  }
  return row;
}

namespace {

void add_pace_notes(const RunTimes& runs, Report& report) {
  if (runs.clock != 1) {
    report.notes.push_back(
        fmt::format("the kernels that do not wait for memory took {:.1f} times as long as at the "
                    "usual clock: predictions are for a clock of {} of that",
                    1 / runs.clock, share_text(runs.clock)));
  }
  constexpr double kVisible = 1.2;
  const double launch = runs.launch / runs.clock;
  if (launch >= kVisible || launch <= 1 / kVisible) {
    report.notes.push_back(
        fmt::format("the shortest kernels took {:.1f} times as long as elsewhere: predictions of "
                    "short kernels are for that",
                    launch));
  }
}

}  // namespace

Report list_operations(const Workload& workload, const Device& device) {
  const TimeModel model(device);
  Analysis analysis = analyse(workload, model);
  Report report = summary(workload, device, model, analysis);
  const RunTimes runs = times_as_run(workload, model);
  add_pace_notes(runs, report);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const bool has_run = i < runs.ops.size() && runs.ops[i].time;
    const std::optional<TimeEstimate> by_shape = analysis.ops[i].time;
    if (has_run) analysis.ops[i].time = runs.ops[i].time;
    OpRow row = op_row(workload.ops[i], analysis.ops[i]);
    row.bound = to_string(limit_of(workload.ops[i], analysis.ops[i], device));
    row.ridge = ridge(device, workload.ops[i]);
    row.recorded = recorded_run(workload, i, device);
    if (has_run && row.recorded) {
      if (by_shape) row.recorded->attainable = by_shape->time.expected;
      row.recorded->family = runs.ops[i].family;
      row.recorded->modelled = runs.ops[i].modelled;
    }
    show_arguments(workload, i, row);
    report.ops.push_back(std::move(row));
  }
  if (!workload.traces.empty()) report.ops = merged_rows(std::move(report.ops));
  learn_from_each_other(report.ops);
  report.kernels = recorded_kernels(workload);
  report.links = {device.pcie_bandwidth,
                  device.nvlink_bandwidth ? device.nvlink_bandwidth : device.pcie_bandwidth,
                  device.dram_bandwidth};
  return report;
}

}  // namespace rooftile
