#include "rooftile/rules/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "rooftile/analysis/source/weight.h"
#include "rooftile/analysis/trace/benchmarks.h"
#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/pattern.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/trace_finding.h"
#include "rooftile/script/library/library.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Each rule is defined in its own file and listed, because a linker drops objects of a static
// library that only register themselves.
#define RULE(name) extern const Rule name;
#include "rooftile/rules/rule_list.inc"
#undef RULE

namespace {

struct Judged {
  const Rule* rule;
  Finding finding;
};

// Errors and plain information are reported whatever they save.
bool is_worth_reporting(const Finding& finding, Seconds pass) {
  if (finding.level == Level::error || finding.level == Level::info || !finding.saving) return true;
  return finding.saving->expected >= threshold::kSavingReported * pass;
}

// A saving that may be nothing and is likely small.
bool is_doubtful(const Finding& finding, Seconds pass) {
  return finding.saving && finding.saving->low <= Seconds(0) &&
         finding.saving->expected < threshold::kUnsureReported * pass;
}

// Rules of traces tell what they measured themselves, and save what was measured.
bool speaks_of_kernels(const Finding& finding) {
  return std::ranges::any_of(finding.evidence, [](const Evidence& evidence) {
    return evidence.kind == EvidenceKind::measured;
  });
}

void add_kernel_evidence(const RuleInput& input, Finding& finding) {
  const std::optional<Evidence> evidence = kernel_evidence(input, finding.ops.front());
  if (evidence) finding.evidence.insert(finding.evidence.begin(), *evidence);
}

// A warning says that time is lost for sure; a saving that may be nothing is advice.
Level level_of(const Finding& finding, const Rule& rule) {
  const Level level = finding.own_level.value_or(rule.level);
  const bool unsure = finding.saving && finding.saving->low <= Seconds(0);
  return unsure && level == Level::warning ? Level::advice : level;
}

// What rules on shapes save is the model's; where their operations were recorded, it is scaled to
// the time they really took. Operations that already beat the model's range promise nothing.
void scale_to_measured(const RuleInput& input, Finding& finding) {
  if (!finding.saving) return;
  Range<Seconds> modelled{};
  Seconds measured;
  for (const std::size_t i : finding.ops) {
    const OpAnalysis& op = input.analysis.ops[i];
    if (!op.measured || !op.time) continue;
    const double runs = static_cast<double>(input.workload.ops[i].count);
    modelled += op.time->time * runs;
    measured += op.measured_in_pass.value_or(*op.measured * runs);
  }
  if (measured <= Seconds(0)) return;
  const TraceSummary& trace = input.workload.traces.front();
  const double steps = window_steps(trace);
  const Range<Seconds> saved = *finding.saving * (steps * (measured / modelled.expected));
  finding.saving = gain_of_kernel_time(trace, saved) * (1 / steps);
  if (measured < modelled.low) finding.saving->low = std::min(finding.saving->low, Seconds(0));
}

const source::File* file_of(const source::SourceFacts& facts, const Finding& finding) {
  const auto file = std::ranges::find(facts.files, finding.location.file, &source::File::path);
  return finding.spot.line <= 0 || file == facts.files.end() ? nullptr : file->get();
}

bool is_in_code_that_runs(const source::SourceFacts& facts, const Finding& finding) {
  const source::File* file = file_of(facts, finding);
  return file == nullptr ||
         source::is_reached(facts, *file, static_cast<std::size_t>(finding.spot.line));
}

// Loading and copying take their time whatever the network, and warnings are about more than time.
source::Cost cost_of(const Rule& rule) {
  const bool is_of_step = rule.level == Level::advice && !rule.id.starts_with("input_pipeline/");
  return is_of_step ? source::Cost::of_step : source::Cost::of_run;
}

void lower_if_little(const Rule& rule, const source::SourceFacts& facts, Finding& finding) {
  const source::File* file = file_of(facts, finding);
  if (file == nullptr || rule.level == Level::error) return;
  const std::string_view reason = source::reason_for_little(
      facts, *file, static_cast<std::size_t>(finding.spot.line), cost_of(rule));
  if (reason.empty()) return;
  finding.own_level = Level::info;
  finding.evidence.push_back(Evidence::found(std::string(reason)));
}

// Where the project says that it runs on a PyTorch that lacks what the fix uses, it says so and
// changes nothing.
void name_version(const source::SourceFacts& facts, Fix& fix) {
  source::TorchVersion needed = script::torch_needed_by(fix.text);
  for (const TextEdit& edit : fix.edits) {
    needed = std::max(needed, script::torch_needed_by(edit.replacement));
  }
  if (!facts.runs_before(needed)) return;
  fix.text += fmt::format("; needs PyTorch {}.{}, the project names {}.{}", needed.major,
                          needed.minor, facts.least_torch->major, facts.least_torch->minor);
  fix.edits.clear();
  fix.safe = false;
}

void append(std::vector<Finding>&& more, std::vector<Finding>& findings) {
  std::ranges::move(more, std::back_inserter(findings));
}

bool is_in_notebook(const Finding& finding) { return finding.location.file.ends_with(".ipynb"); }

// What a notebook has word for word as a script does is a copy of it.
void leave_copies_out(std::vector<Finding>& findings) {
  std::set<std::string> in_scripts;
  for (const Finding& each : findings) {
    if (!is_in_notebook(each)) in_scripts.insert(each.message);
  }
  std::erase_if(findings, [&](const Finding& each) {
    return is_in_notebook(each) && in_scripts.contains(each.message);
  });
}

// What two programs have at one place counts once; what no program runs, unless it is
// asked to, costs nothing.
void detect_in_scripts(const Rule& rule, const source::SourceFacts& facts, const Device* gpu,
                       std::vector<Finding>& findings) {
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::string>> seen;
  std::vector<Finding> found;
  for (Finding& finding : rule.in_scripts(facts, gpu)) {
    const SourceSpot& spot = finding.spot;
    if (!seen.emplace(finding.location.file, spot.line, spot.column, finding.message).second) {
      continue;
    }
    if (!is_in_code_that_runs(facts, finding)) continue;
    name_version(facts, finding.fix);
    if (rule.level_in_scripts && !finding.own_level) finding.own_level = rule.level_in_scripts;
    lower_if_little(rule, facts, finding);
    found.push_back(std::move(finding));
  }
  leave_copies_out(found);
  append(std::move(found), findings);
}

void append_of_traces(const Rule& rule, std::vector<Finding>&& more,
                      std::vector<Finding>& findings) {
  for (Finding& finding : more) {
    if (!finding.own_level) finding.own_level = rule.level_in_traces;
  }
  append(std::move(more), findings);
}

// What needs no GPU.
void detect_on_any_gpu(const Rule& rule, const Workload& workload, const Device* gpu,
                       std::vector<Finding>& findings) {
  if (rule.in_any_trace != nullptr) {
    append_of_traces(rule, rule.in_any_trace(workload.traces), findings);
  }
  if (workload.source) detect_in_scripts(rule, *workload.source, gpu, findings);
}

void keep(const Rule& rule, Finding&& finding, Seconds pass, std::vector<Judged>& all) {
  finding.level = level_of(finding, rule);
  if (!is_worth_reporting(finding, pass)) return;
  if (finding.level != Level::error && is_doubtful(finding, pass)) finding.level = Level::info;
  all.push_back({&rule, std::move(finding)});
}

std::vector<Judged> judge(const RuleInput& input, std::span<const Rule* const> rules) {
  std::vector<Judged> all;
  const Seconds pass = pass_time(input);
  for (const Rule* rule : rules) {
    for (Finding& finding : detect(*rule, input)) {
      finding.rule = rule->id;
      if (!finding.ops.empty() && !input.workload.traces.empty() && !speaks_of_kernels(finding)) {
        scale_to_measured(input, finding);
        add_kernel_evidence(input, finding);
      }
      keep(*rule, std::move(finding), pass, all);
    }
  }
  return all;
}

std::vector<Judged> judge_without_gpu(const Workload& workload,
                                      std::span<const Rule* const> rules) {
  std::vector<Judged> all;
  const Seconds pass = pass_time(workload.traces);
  for (const Rule* rule : rules) {
    std::vector<Finding> findings;
    detect_on_any_gpu(*rule, workload, nullptr, findings);
    for (Finding& finding : findings) {
      finding.rule = rule->id;
      keep(*rule, std::move(finding), pass, all);
    }
  }
  return all;
}

bool is_about_sizes(const Rule& rule) {
  return rule.cause == Cause::alignment || rule.cause == Cause::tile_shape ||
         rule.cause == Cause::memory || rule.cause == Cause::precision;
}

void drop_outranked(std::vector<Judged>& all) {
  std::set<std::size_t> outranked;
  for (const Judged& judged : all) {
    if (!judged.rule->outranks_sizes) continue;
    outranked.insert(judged.finding.ops.begin(), judged.finding.ops.end());
  }
  std::erase_if(all, [&](const Judged& judged) {
    return !judged.rule->outranks_sizes && is_about_sizes(*judged.rule) &&
           std::ranges::any_of(judged.finding.ops,
                               [&](std::size_t op) { return outranked.contains(op); });
  });
}

void drop_replaced(std::vector<Judged>& all) {
  std::set<std::size_t> replaced;
  for (const Judged& judged : all) {
    if (!judged.rule->replaces_operations || judged.finding.level == Level::info) continue;
    replaced.insert(judged.finding.ops.begin(), judged.finding.ops.end());
  }
  std::erase_if(all, [&](const Judged& judged) {
    return !judged.rule->replaces_operations && judged.rule->cause != Cause::precision &&
           !judged.finding.ops.empty() &&
           std::ranges::all_of(judged.finding.ops, [&](auto op) { return replaced.contains(op); });
  });
}

// One change, one finding: what another finding at the same place includes is information.
void demote_covered(std::vector<Judged>& all) {
  using Place = std::tuple<std::string_view, std::string, std::int64_t, std::int64_t>;
  const auto place = [](std::string_view rule, const Finding& finding) {
    return Place(rule, finding.location.file, finding.spot.line, finding.spot.column);
  };
  std::map<Place, std::string_view> covered;
  for (const Judged& judged : all) {
    const bool is_shown = judged.finding.spot.line > 0 && judged.finding.level != Level::info;
    if (!is_shown || judged.rule->covers.empty()) continue;
    covered.emplace(place(judged.rule->covers, judged.finding), judged.rule->id);
  }
  for (Judged& judged : all) {
    const auto found = covered.find(place(judged.rule->id, judged.finding));
    if (found == covered.end()) continue;
    judged.finding.level = Level::info;
    judged.finding.covered_by = found->second;
  }
}

// Of findings of one cause on the same operation only the one that saves most stays; information
// yields to advice.
void drop_overlapping(std::vector<Judged>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Judged& a, const Judged& b) {
    const bool a_info = a.finding.level == Level::info, b_info = b.finding.level == Level::info;
    return std::tuple(a_info, expected_saving(b.finding)) <
           std::tuple(b_info, expected_saving(a.finding));
  });
  std::map<std::pair<Cause, std::size_t>, const Rule*> taken;
  std::erase_if(all, [&](const Judged& judged) {
    if (judged.rule->cause == Cause::none) return false;
    for (const std::size_t op : judged.finding.ops) {
      const auto [owner, is_new] = taken.emplace(std::pair(judged.rule->cause, op), judged.rule);
      if (!is_new && owner->second != judged.rule) return true;
    }
    return false;
  });
}

// Repeated layers: the same rule says the same of operations of the same shape.
void merge_repeats(std::vector<Judged>& all, const Workload& workload) {
  using Key = std::tuple<const Rule*, std::string, Body, Phase>;
  std::vector<std::pair<Key, std::size_t>> seen;
  std::vector<Judged> merged;
  for (Judged& judged : all) {
    if (judged.finding.ops.empty()) {
      merged.push_back(std::move(judged));
      continue;
    }
    const Op& op = workload.ops[judged.finding.ops.front()];
    Key key{judged.rule, judged.finding.fix.text, op.body, op.phase};
    const auto same = std::find_if(seen.begin(), seen.end(),
                                   [&](const auto& entry) { return entry.first == key; });
    if (same == seen.end()) {
      seen.emplace_back(std::move(key), merged.size());
      merged.push_back(std::move(judged));
      continue;
    }
    Finding& first = merged[same->second].finding;
    first.count += judged.finding.count;
    if (first.saving && judged.finding.saving) *first.saving += *judged.finding.saving;
    first.ops.insert(first.ops.end(), judged.finding.ops.begin(), judged.finding.ops.end());
    first.changes.insert(first.changes.end(), judged.finding.changes.begin(),
                         judged.finding.changes.end());
  }
  all = std::move(merged);
}

// Of what is found in traces: first calls and benchmarks are no program, a GPU that something else
// uses measures none, and what waits for something else to be mended is for later.
void lower_what_a_run_cannot_gain(std::vector<Judged>& all, std::span<const TraceSummary> traces) {
  if (traces.empty()) return;
  const bool is_no_program = std::ranges::all_of(traces, [](const TraceSummary& trace) {
    return is_mostly_set_up(trace) || is_mostly_unexplained(trace) || is_single_user_step(trace) ||
           runs_once(trace) || !toy_because(trace).empty();
  });
  for (Judged& judged : all) {
    Finding& finding = judged.finding;
    if (finding.spot.line > 0 || finding.level == Level::error) continue;
    if (is_no_program) finding.level = Level::info;
    put_off(traces.front(), finding);
  }
}

// What was recorded has to save more than steps vary to be advice; below it is information.
void tell_small_savings_apart(std::vector<Judged>& all, std::span<const TraceSummary> traces) {
  constexpr double kLeast = 0.02;  // of a step; assumed
  const Seconds pass = pass_time(traces);
  for (Judged& judged : all) {
    Finding& finding = judged.finding;
    const bool is_small = finding.saving && finding.saving->expected < kLeast * pass;
    if (is_small && finding.level != Level::error) finding.level = Level::info;
  }
}

std::vector<Finding> rank(std::vector<Judged> all) {
  std::stable_sort(all.begin(), all.end(), [](const Judged& a, const Judged& b) {
    const auto group = [](const Finding& f) {
      return f.level == Level::error ? 0 : f.level == Level::info ? 2 : 1;
    };
    const auto place = [](const Judged& judged) {
      return std::tuple(-static_cast<int>(judged.finding.level),
                        -static_cast<int>(judged.rule->typical));
    };
    const Seconds a_saves = expected_saving(a.finding), b_saves = expected_saving(b.finding);
    return std::tuple(group(a.finding), b_saves, place(a)) <
           std::tuple(group(b.finding), a_saves, place(b));
  });
  std::vector<Finding> findings;
  for (Judged& judged : all) findings.push_back(std::move(judged.finding));
  return findings;
}

}  // namespace

std::vector<Finding> ScriptDetector::operator()(const source::SourceFacts& facts,
                                                const Device* gpu) const {
  if (on_facts != nullptr) return on_facts(facts);
  return on_gpu != nullptr ? on_gpu(facts, gpu) : std::vector<Finding>{};
}

std::vector<Finding> detect(const Rule& rule, const RuleInput& input) {
  std::vector<Finding> findings;
  if (rule.in_ops != nullptr) append(rule.in_ops(input), findings);
  if (rule.in_traces != nullptr) append_of_traces(rule, rule.in_traces(input), findings);
  detect_on_any_gpu(rule, input.workload, &input.device(), findings);
  return findings;
}

std::span<const Rule* const> all_rules() {
  static constexpr auto kRules = std::to_array<const Rule*>({
#define RULE(name) &name,
#include "rooftile/rules/rule_list.inc"
#undef RULE
  });
  return kRules;
}

const Rule* find_rule(std::string_view id) {
  for (const Rule* rule : all_rules()) {
    if (rule->id == id || (!id.empty() && rule->former_id == id)) return rule;
  }
  return nullptr;
}

bool is_named(const Rule& rule, std::string_view pattern) {
  return matches_pattern(pattern, rule.id) ||
         (!rule.former_id.empty() && matches_pattern(pattern, rule.former_id));
}

bool is_of_rule(const Finding& finding, std::string_view pattern) {
  const Rule* rule = find_rule(finding.rule);
  return rule != nullptr ? is_named(*rule, pattern) : matches_pattern(pattern, finding.rule);
}

std::vector<Finding> run_rules(const RuleInput& input, std::span<const Rule* const> rules) {
  std::vector<Judged> all = judge(input, rules);
  demote_covered(all);
  drop_outranked(all);
  drop_replaced(all);
  drop_overlapping(all);
  merge_repeats(all, input.workload);
  lower_what_a_run_cannot_gain(all, input.workload.traces);
  tell_small_savings_apart(all, input.workload.traces);
  return rank(std::move(all));
}

std::vector<Finding> run_rules(const Workload& workload, std::span<const Rule* const> rules) {
  std::vector<Judged> all = judge_without_gpu(workload, rules);
  demote_covered(all);
  lower_what_a_run_cannot_gain(all, workload.traces);
  tell_small_savings_apart(all, workload.traces);
  return rank(std::move(all));
}

}  // namespace rooftile
