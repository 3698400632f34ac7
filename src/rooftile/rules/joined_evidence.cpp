#include "rooftile/rules/joined_evidence.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "rooftile/rules/rule.h"

namespace rooftile {
namespace {

bool is_in_script(const Finding& finding) { return finding.spot.line > 0; }

// A place in a program, which traces with stacks name too.
bool is_at_line(const Finding& finding) {
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

// The script's finding at the same line; without one, the only one there is, unless the trace knows
// that the time passes at another line.
Finding* place_for(const Rule& rule, const Finding& trace, const std::vector<Finding*>& scripts) {
  const auto same = std::ranges::find_if(
      scripts, [&](const Finding* script) { return is_same_place(*script, trace); });
  if (same != scripts.end()) return *same;
  if (is_at_line(trace) && !rule.costs_elsewhere) return nullptr;
  return scripts.size() == 1 ? scripts.front() : nullptr;
}

void add_cost(const Finding& trace, Finding& script) {
  script.evidence.push_back(Evidence::measured(trace.message));
  script.evidence.insert(script.evidence.end(), trace.evidence.begin(), trace.evidence.end());
  script.level = std::max(script.level, trace.level);
  if (!trace.saving) return;
  script.saving = script.saving ? *script.saving + *trace.saving : trace.saving;
}

void note_no_cost(Finding& script) {
  if (script.level == Level::error || script.saving) return;
  script.level = Level::info;
  script.evidence.push_back(Evidence::found("the trace shows no cost of it worth a change"));
}

bool looks_at_traces(const Rule& rule, bool on_known_gpu) {
  return rule.in_any_trace != nullptr || (rule.in_traces != nullptr && on_known_gpu);
}

void join_rule(const Rule& rule, bool on_known_gpu, std::vector<Finding>& findings,
               std::set<const Finding*>& told) {
  std::vector<Finding*> scripts, traces;
  for (Finding& finding : findings) {
    if (finding.rule == rule.id) (is_in_script(finding) ? scripts : traces).push_back(&finding);
  }
  for (const Finding* trace : traces) {
    Finding* script = place_for(rule, *trace, scripts);
    if (script == nullptr) continue;
    add_cost(*trace, *script);
    told.insert(trace);
  }
  if (!traces.empty() || !looks_at_traces(rule, on_known_gpu)) return;
  for (Finding* script : scripts) note_no_cost(*script);
}

std::set<const Rule*> rules_of(const std::vector<Finding>& findings) {
  std::set<const Rule*> rules;
  for (const Finding& finding : findings) {
    if (const Rule* rule = find_rule(finding.rule)) rules.insert(rule);
  }
  return rules;
}

auto rank_of(const Finding& finding) {
  const int group = finding.level == Level::error ? 0 : finding.level == Level::info ? 2 : 1;
  const Seconds saved = finding.saving ? finding.saving->expected : Seconds(0);
  return std::tuple(group, -saved.value());
}

}  // namespace

std::vector<Finding> join_evidence(std::vector<Finding> findings, bool on_known_gpu) {
  std::set<const Finding*> told;
  for (const Rule* rule : rules_of(findings)) join_rule(*rule, on_known_gpu, findings, told);
  std::vector<Finding> joined;
  for (Finding& finding : findings) {
    if (!told.contains(&finding)) joined.push_back(std::move(finding));
  }
  std::stable_sort(joined.begin(), joined.end(),
                   [](const Finding& a, const Finding& b) { return rank_of(a) < rank_of(b); });
  return joined;
}

}  // namespace rooftile
