// The report for machines. The contract is docs/formats/report.schema.json.
#include <algorithm>

#include "rooftile/reports/json_values.h"
#include "rooftile/reports/report_format.h"
#include "rooftile/reports/trace_words.h"
#include "rooftile/reports/words.h"
#include "rooftile/workload/trace_names.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kReportSchema = "rooftile-report/2";

Json location_json(const Finding& finding) {
  const Provenance& location = finding.location;
  Json line = nullptr, cell = nullptr;
  if (location.line > 0) line = location.line;
  if (finding.spot.cell > 0) cell = finding.spot.cell;
  return {{"file", json_text_or_null(location.file)},
          {"cell", cell},
          {"line", line},
          {"node", json_text_or_null(location.node)},
          {"module", json_text_or_null(location.module)}};
}

Json facts_json(const Finding& finding) {
  Json facts = Json::array();
  for (const Evidence& evidence : finding.evidence) {
    facts.push_back({{"kind", to_string(evidence.kind)},
                     {"text", json_text_or_null(evidence.text)},
                     {"source", json_text_or_null(evidence.source)}});
  }
  return facts;
}

Json finding_json(const Finding& finding) {
  return {{"rule", finding.rule},
          {"level", to_string(finding.level)},
          {"message", finding.message},
          {"location", location_json(finding)},
          {"count", finding.count},
          {"saving_s", json_range(finding.saving)},
          {"fix", json_fix(finding.fix)},
          {"evidence", evidence_lines(finding)},
          {"facts", facts_json(finding)},
          {"operations", finding.ops},
          {"covered_by", json_text_or_null(finding.covered_by)},
          {"fingerprint", json_text_or_null(finding.fingerprint)}};
}

Json gpu_json(const DeviceSummary& device) {
  if (device.name.empty()) return nullptr;
  return {{"id", device.id}, {"name", device.name}, {"calibrated", device.calibrated}};
}

Json coverage_json(const Coverage& coverage) {
  return {{"operations", json_number(coverage.ops)},
          {"operations_with_time", json_number(coverage.ops_with_time)},
          {"skipped", json_number(coverage.skipped)}};
}

Json kinds_json(const std::vector<KindShare>& kinds) {
  Json list = Json::array();
  for (const KindShare& kind : kinds) {
    list.push_back({{"kind", kind.kind},
                    {"runs", json_number(kind.runs)},
                    {"time_s", json_number(kind.time.value())},
                    {"share", json_number(kind.share)}});
  }
  return list;
}

Json options_json(const Report& report) {
  Json options = Json::object();
  for (const auto& [name, value] : report.options) options[name] = value;
  return options;
}

// A total of a few operations is unknown.
Json total_json(const Report& report) {
  if (!is_sufficient(report.coverage)) return nullptr;
  return json_range(report.total);
}

Json memory_change_json(const MemoryChange& change) {
  const auto count = [](std::int64_t number) { return number > 0 ? Json(number) : Json(nullptr); };
  return {{"change", change.kind},
          {"amount", count(change.amount)},
          {"batch", count(change.batch)},
          {"with_checkpointing", std::ranges::count(change.with, "checkpointing") > 0},
          {"with", change.with},
          {"bytes_per_gpu", json_number(change.per_gpu.value())},
          {"fit", change.fit},
          {"cost_s", json_range(change.cost)}};
}

// Null where nothing is known of what the GPU holds: scripts and traces.
Json memory_json(const MemorySummary& memory) {
  if (memory.verdict.empty()) return nullptr;
  Json largest = nullptr, tight = nullptr, changes = Json::array();
  if (memory.largest_batch) largest = *memory.largest_batch;
  if (memory.largest_tight_batch) tight = *memory.largest_tight_batch;
  for (const MemoryChange& change : memory.changes) changes.push_back(memory_change_json(change));
  return {{"weights_bytes", json_number(memory.weights.value())},
          {"gradients_bytes", json_number(memory.gradients.expected.value())},
          {"optimizer_bytes", json_number(memory.optimizer.expected.value())},
          {"activations_bytes", json_number(memory.activations.expected.value())},
          {"kv_cache_bytes", json_number(memory.kv_cache.expected.value())},
          {"recurrent_state_bytes", json_number(memory.recurrent_state.expected.value())},
          {"workspace_bytes", json_number(memory.workspace.expected.value())},
          {"total_bytes", bytes_json(memory.total)},
          {"capacity_bytes", json_number(memory.capacity.value())},
          {"usable_bytes", json_number(memory.usable.value())},
          {"verdict", memory.verdict},
          {"largest_batch", largest},
          {"largest_tight_batch", tight},
          {"changes", changes}};
}

Json bounds_json(const BoundShares& shares) {
  return {{"math", json_number(shares.math)},
          {"memory", json_number(shares.memory)},
          {"latency", json_number(shares.latency)},
          {"other", json_number(shares.other)}};
}

Json timeline_json(const TimeBreakdown& time) {
  Json causes = Json::object();
  for (const auto& [cause, idle] : time.idle_by_cause) {
    causes[std::string(name_of(cause))] = json_number(idle.value());
  }
  return {{"span_s", json_number(time.span.value())},
          {"gpu_busy_s", json_number(time.gpu_busy.value())},
          {"compute_s", json_number(time.compute.value())},
          {"communication_s", json_number(time.communication.value())},
          {"exposed_communication_s", json_number(time.exposed_communication.value())},
          {"awaited_communication_s", json_number(time.awaited_communication.value())},
          {"rank_waiting_s", json_number(time.rank_waiting.value())},
          {"communication_beside_allocation_s",
           json_number(time.communication_beside_allocation.value())},
          {"stretched_s", json_number(time.stretched.value())},
          {"copy_s", json_number(time.copy.value())},
          {"exposed_copy_s", json_number(time.exposed_copy.value())},
          {"exposed_fill_s", json_number(time.exposed_fill.value())},
          {"exposed_migration_s", json_number(time.exposed_migration.value())},
          {"idle_s", json_number(time.idle.value())},
          {"idle_by_cause", causes}};
}

Json kernels_json(const TraceSummary& trace) {
  const double sum = trace.kernel_time.value();
  return {{"count", trace.kernels},
          {"sum_s", json_number(sum)},
          {"leftover_count", trace.leftover_kernels},
          {"leftover_s", json_number(trace.leftover_time.value())},
          {"unclassified_share", json_number(sum > 0 ? trace.unclassified_time.value() / sum : 0)}};
}

Json apart_json(const std::optional<StepApart>& step) {
  if (!step) return nullptr;
  return {{"duration_s", json_number(step->duration.value())},
          {"cut", step->is_cut},
          {"part", name_of(step->part)},
          {"beyond_median_s", json_number(step->beyond.value())}};
}

Json host_work_json(const TraceSummary& trace) {
  Json rows = Json::array();
  for (const HostWorkUse& use : trace.host_work) {
    Json line = nullptr;
    if (use.source.line > 0) line = use.source.line;
    rows.push_back({{"cause", name_of(use.cause)},
                    {"name", json_text_or_null(use.name)},
                    {"file", json_text_or_null(use.source.file)},
                    {"line", line},
                    {"count", use.count},
                    {"time_s", json_number(use.time.value())},
                    {"exposed_s", json_number(use.exposed.value())}});
  }
  return rows;
}

Json path_json(const CriticalPath& path) {
  Json parts = Json::array(), steps = Json::array();
  for (const PathPart& part : path.parts) {
    Json line = nullptr;
    if (part.source.line > 0) line = part.source.line;
    parts.push_back({{"kind", name_of(part.kind)},
                     {"name", json_text_or_null(part.name)},
                     {"file", json_text_or_null(part.source.file)},
                     {"line", line},
                     {"count", part.count},
                     {"time_s", json_number(part.time.value())}});
  }
  for (const PathStep& step : path.steps) {
    Json shares = Json::object();
    for (const PathShare& share : step.shares) {
      shares[std::string(name_of(share.kind))] = json_number(share.time.value());
    }
    steps.push_back(std::move(shares));
  }
  return {{"parts", parts}, {"steps", steps}};
}

Json steps_json(const TraceSummary& trace) {
  const Steps& steps = trace.steps;
  Json mean = nullptr, middle = nullptr, work = Json::array();
  for (const ServingStage one : steps.work) work.push_back(name_of(one));
  if (!steps.durations.empty()) {
    middle = json_number(median(steps.durations).value());
    Seconds sum;
    for (const Seconds step : steps.durations) sum += step;
    mean = json_number(sum.value() / static_cast<double>(steps.durations.size()));
  }
  Json durations = Json::array(), limits = Json::array(), slow = Json::array();
  for (const Seconds step : steps.durations) durations.push_back(json_number(step.value()));
  for (const StepLimit& limit : steps.limits) {
    limits.push_back({{"part", name_of(limit.part)}, {"time_s", json_number(limit.time.value())}});
  }
  for (const SlowStep& step : steps.slow) {
    slow.push_back({{"step", step.step},
                    {"part", name_of(step.part)},
                    {"beyond_median_s", json_number(step.beyond.value())}});
  }
  return {{"count", steps.durations.size()},
          {"found_by", json_text_or_null(std::string(step_source_words(steps.source)))},
          {"mean_s", mean},
          {"median_s", middle},
          {"timeline", timeline_json(trace.time)},
          {"durations_s", durations},
          {"work", work},
          {"first_apart", apart_json(steps.first_apart)},
          {"last_apart", apart_json(steps.last_apart)},
          {"limits", limits},
          {"slow", slow},
          {"host_work", host_work_json(trace)},
          {"critical_path", path_json(trace.path)}};
}

Json rank_json(const TraceSummary& trace) {
  Json rank = nullptr;
  if (trace.rank) rank = *trace.rank;
  return {{"files", trace.files},
          {"rank", rank},
          {"timeline", timeline_json(trace.whole)},
          {"kernels", kernels_json(trace)},
          {"steps", steps_json(trace)}};
}

// The first rank's numbers stand at the top, where those of a single recording are looked for.
void add_traces(const TraceList& traces, Json& json) {
  if (traces.empty()) return;
  Json ranks = Json::array();
  for (const TraceSummary& trace : traces) ranks.push_back(rank_json(trace));
  for (const char* key : {"timeline", "kernels", "steps"}) json[key] = ranks.front()[key];
  json["ranks"] = std::move(ranks);
}

template <class T>
Json number_or_null(const std::optional<T>& value) {
  return value ? json_number(value->value()) : Json(nullptr);
}

Json collectives_json(const std::vector<CollectiveRow>& rows) {
  Json list = Json::array();
  for (const CollectiveRow& row : rows) {
    Json ranks = nullptr, share = nullptr;
    if (row.ranks > 0) ranks = row.ranks;
    if (row.link_share) share = json_number(*row.link_share);
    list.push_back({{"kind", row.kind},
                    {"bytes", number_or_null(row.bytes)},
                    {"ranks", ranks},
                    {"runs", json_number(row.per_pass)},
                    {"median_s", json_number(row.median.value())},
                    {"fastest_s", json_number(row.fastest.value())},
                    {"time_s", json_number(row.time.value())},
                    {"exposed_s", json_number(row.exposed.value())},
                    {"waiting_s", json_number(row.waiting.value())},
                    {"algorithm_bytes_per_s", number_or_null(row.algorithm_bandwidth)},
                    {"bus_bytes_per_s", number_or_null(row.bus_bandwidth)},
                    {"link", json_text_or_null(row.link)},
                    {"link_share", share},
                    {"skew_s", number_or_null(row.skew)}});
  }
  return list;
}

Json scripts_json(const SourceSummary& scripts) {
  return {{"files", scripts.files},       {"passed_over", scripts.passed_over},
          {"lines", scripts.lines},       {"with_errors", scripts.with_errors},
          {"programs", scripts.programs}, {"training_programs", scripts.training}};
}

Json set_aside_json(const SetAside& set_aside) {
  return {{"allowed", set_aside.allowed},
          {"known", set_aside.known},
          {"unused_comments", set_aside.unused_comments}};
}

Json findings_json(const Report& report) {
  Json list = Json::array();
  for (const Finding& finding : report.findings) list.push_back(finding_json(finding));
  return list;
}

}  // namespace

std::string render_json(const Report& report) {
  Json json = {{"schema", kReportSchema},
               {"inputs", report.inputs},
               {"gpu", gpu_json(report.device)},
               {"mode", mode_name(report.mode)},
               {"options", options_json(report)},
               {"coverage", coverage_json(report.coverage)},
               {"skipped", report.skipped},
               {"notes", report.notes},
               {"verdict", to_string(verdict_of(report))},
               {"not_judged_because", json_text_or_null(report.not_judged_because)},
               {"total_s", total_json(report)}};
  if (report.budget) json["budget_s"] = json_number(report.budget->value());
  json["flop"] = json_number(report.flop.value());
  json["bytes"] = json_number(report.bytes.value());
  json["parameters"] = json_number(report.parameters);
  json["launches"] = json_number(report.launches);
  json["host_s"] = json_range(report.host);
  json["memory"] = memory_json(report.memory);
  json["bound_share"] = bounds_json(report.bound_share);
  json["tensor_core_share"] = json_number(report.tensor_core_share);
  json["tensor_cores_wait_for"] = {{"memory", json_number(report.tensor_cores_wait_for.memory)},
                                   {"latency", json_number(report.tensor_cores_wait_for.latency)}};
  json["kinds"] = kinds_json(report.kinds);
  if (report.scripts) json["scripts"] = scripts_json(*report.scripts);
  json["set_aside"] = set_aside_json(report.set_aside);
  add_traces(report.traces, json);
  if (!report.traces.empty()) json["collectives"] = collectives_json(report.collectives);
  json["findings"] = findings_json(report);
  return dump_json(json);
}

extern const ReportFormat json_format{
    "json", [](const Report& report, const TextStyle&) { return render_json(report); }};

}  // namespace rooftile
