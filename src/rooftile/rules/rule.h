// A rule: one condition, documented, with a detector for each kind of evidence that shows it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/batch_curve.h"
#include "rooftile/findings/finding.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/graph.h"
#include "rooftile/workload/source_facts.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct RuleInput {
  const Workload& workload;
  const Analysis& analysis;
  const TimeModel& model;
  const Graph& graph;  // of the workload
  // The workload and larger batches of it; null where they are not known.
  const BatchCurve* curve = nullptr;

  const Device& device() const { return model.device(); }
};

// Finds it in operations and traces on a known GPU.
using Detector = std::vector<Finding> (*)(const RuleInput&);

// Finds it in the traces of a job's ranks, which may be of any maker's GPU.
using AnyTraceDetector = std::vector<Finding> (*)(std::span<const TraceSummary> ranks);

// Finds it in training scripts. What depends on the GPU gets it, null where the user named none.
struct ScriptDetector {
  using OnFacts = std::vector<Finding> (*)(const source::SourceFacts&);
  using OnGpu = std::vector<Finding> (*)(const source::SourceFacts&, const Device* gpu);

  constexpr ScriptDetector() = default;
  template <class Find>
  constexpr ScriptDetector(Find find) {  // a function or a lambda of either form
    if constexpr (std::is_convertible_v<Find, OnFacts>) {
      on_facts = find;
    } else {
      on_gpu = find;
    }
  }
  std::vector<Finding> operator()(const source::SourceFacts& facts, const Device* gpu) const;

  OnFacts on_facts = nullptr;
  OnGpu on_gpu = nullptr;
};

// Findings of one cause on one operation exclude each other: the one that saves most is kept.
enum class Cause { none, alignment, tile_shape, precision, layout, fusion, launch, memory };

// What following a rule usually takes off a step, as the sources on its page report it. Where
// nothing says what a finding saves, the larger come first.
enum class Typical { unknown, tenth, half };

struct Rule {
  std::string_view id;              // area/what-is-wrong
  std::string_view former_id = {};  // still understood wherever people name rules
  Level level = Level::advice;      // of its findings unless they say otherwise
  // The same of findings in scripts and in traces, where it is not `level`.
  std::optional<Level> level_in_scripts = {}, level_in_traces = {};
  Cause cause = Cause::none;
  Typical typical = Typical::unknown;
  std::string_view summary;  // one line
  std::string_view doc;      // Markdown, the headings of kDocHeadings in order
  Detector in_ops = nullptr, in_traces = nullptr;
  AnyTraceDetector in_any_trace = nullptr;
  ScriptDetector in_scripts = {};
  // The line that causes it is not the one at which a trace shows the cost.
  bool costs_elsewhere = false;
  // Its findings make advice on sizes and memory of the same operations moot: they are to run in
  // another precision first.
  bool outranks_sizes = false;
  // A rule on scripts whose change is a part of this one's: at a place where both find something,
  // its findings are information.
  std::string_view covers = {};
  // Its change puts one operation in place of several: other advice on nothing but those, their
  // precision aside, is moot.
  bool replaces_operations = false;
};

inline constexpr std::string_view kDocHeadings[] = {
    "## What it finds", "## Why it costs time", "## How to fix", "## How the saving is estimated",
    "## When not to",   "## Evidence"};

// All rules, in the order of rule_list.inc.
std::span<const Rule* const> all_rules();
const Rule* find_rule(std::string_view id);  // also by the former id

// Whether a pattern (base/pattern.h) names the rule, by its id or its former one.
bool is_named(const Rule& rule, std::string_view pattern);
bool is_of_rule(const Finding& finding, std::string_view pattern);

// Runs the rules, fills in id and level, drops what saves too little, keeps one finding per cause
// and operation, merges equal findings of repeated layers, and ranks.
std::vector<Finding> run_rules(const RuleInput& input, std::span<const Rule* const> rules);

// The same without a GPU: of scripts, and of traces what is judged on any maker's GPU.
std::vector<Finding> run_rules(const Workload& workload, std::span<const Rule* const> rules);

// What the detectors of one rule find, as they are.
std::vector<Finding> detect(const Rule& rule, const RuleInput& input);

}  // namespace rooftile
