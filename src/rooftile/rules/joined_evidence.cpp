#include "rooftile/rules/joined_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace rooftile {
namespace {

// The rule on source and the rule on recordings that find the same cause.
struct SameCause {
  std::string_view in_script, in_trace;
};

constexpr SameCause kSameCauses[] = {
    {"conv/nchw-on-tensor-cores", "conv/converted-layouts"},
    {"distributed/synced-every-micro-step", "distributed/exposed-communication"},
    {"gpu_memory/cache-emptied-in-loop", "gpu_memory/allocator-churn"},
    {"input_pipeline/no-workers", "input_pipeline/loader-stall"},
    {"input_pipeline/unpinned-batches", "input_pipeline/pageable-copy"},
    {"launch/sync-every-step", "launch/sync-in-step"},
    {"optimizer/one-kernel-per-tensor", "optimizer/single-tensor"},
    {"precision/amp-off", "precision/autocast-off"},
    {"precision/tf32-off", "precision/fp32-on-cuda-cores"},
    {"training_loop/zeroed-gradients", "training_loop/zero-grad-fills"}};

bool is_in_script(const Finding& finding) {
  const std::string& file = finding.location.file;
  return finding.location.line > 0 && (file.ends_with(".py") || file.ends_with(".ipynb"));
}

// Recordings hold paths of the machine that ran the program, often shortened.
bool is_same_file(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == '/');
}

bool is_same_place(const Finding& script, const Finding& trace) {
  return script.location.line == trace.location.line &&
         is_same_file(script.location.file, trace.location.file);
}

std::vector<Finding*> of_rule(std::vector<Finding>& findings, std::string_view rule,
                              bool in_script) {
  std::vector<Finding*> found;
  for (Finding& finding : findings) {
    const bool wanted = finding.rule == rule && (!in_script || is_in_script(finding));
    if (wanted) found.push_back(&finding);
  }
  return found;
}

// The script's finding at the same line; without one, the only one there is.
Finding* place_for(const Finding& trace, const std::vector<Finding*>& scripts) {
  const auto same = std::find_if(scripts.begin(), scripts.end(), [&](const Finding* script) {
    return is_same_place(*script, trace);
  });
  if (same != scripts.end()) return *same;
  return scripts.size() == 1 ? scripts.front() : nullptr;
}

void add_cost(const Finding& trace, Finding& script) {
  script.evidence.push_back("recorded: " + trace.message);
  script.evidence.insert(script.evidence.end(), trace.evidence.begin(), trace.evidence.end());
  script.level = std::max(script.level, trace.level);
  if (!trace.saving) return;
  script.saving = script.saving ? *script.saving + *trace.saving : trace.saving;
}

void note_no_cost(Finding& script) {
  if (script.level == Level::error || script.saving) return;
  script.level = Level::info;
  script.evidence.emplace_back("the trace shows no cost of it worth a change");
}

void join_cause(const SameCause& cause, std::vector<Finding>& findings,
                std::vector<const Finding*>& told) {
  const std::vector<Finding*> scripts = of_rule(findings, cause.in_script, true);
  const std::vector<Finding*> traces = of_rule(findings, cause.in_trace, false);
  for (const Finding* trace : traces) {
    Finding* script = place_for(*trace, scripts);
    if (script == nullptr) continue;
    add_cost(*trace, *script);
    told.push_back(trace);
  }
  if (!traces.empty()) return;
  for (Finding* script : scripts) note_no_cost(*script);
}

bool is_of_rule(const Finding& finding, std::string_view rule, bool in_script) {
  return finding.rule == rule && (finding.spot.line > 0) == in_script;
}

// A rule that judges scripts and recordings: what it measured at the script's line, or at no line
// where the script has only one, is the script's finding.
void join_rule(std::string_view rule, std::vector<Finding>& findings,
               std::vector<const Finding*>& told) {
  std::vector<Finding*> scripts;
  for (Finding& finding : findings) {
    if (is_of_rule(finding, rule, true)) scripts.push_back(&finding);
  }
  if (scripts.empty()) return;
  for (const Finding& trace : findings) {
    if (!is_of_rule(trace, rule, false)) continue;
    Finding* script = place_for(trace, scripts);
    if (script == nullptr) continue;
    if (trace.location.line > 0 && is_in_script(trace) && !is_same_place(*script, trace)) continue;
    add_cost(trace, *script);
    told.push_back(&trace);
  }
}

std::set<std::string> rules_of(const std::vector<Finding>& findings) {
  std::set<std::string> rules;
  for (const Finding& finding : findings) rules.insert(finding.rule);
  return rules;
}

auto rank_of(const Finding& finding) {
  const int group = finding.level == Level::error ? 0 : finding.level == Level::info ? 2 : 1;
  const Seconds saved = finding.saving ? finding.saving->expected : Seconds(0);
  return std::tuple(group, -saved.value());
}

}  // namespace

std::vector<Finding> join_evidence(std::vector<Finding> findings) {
  std::vector<const Finding*> told;
  for (const SameCause& cause : kSameCauses) join_cause(cause, findings, told);
  for (const std::string& rule : rules_of(findings)) join_rule(rule, findings, told);
  std::vector<Finding> joined;
  for (Finding& finding : findings) {
    if (std::find(told.begin(), told.end(), &finding) == told.end()) {
      joined.push_back(std::move(finding));
    }
  }
  std::stable_sort(joined.begin(), joined.end(),
                   [](const Finding& a, const Finding& b) { return rank_of(a) < rank_of(b); });
  return joined;
}

}  // namespace rooftile
