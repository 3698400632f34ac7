// A rule: one condition, documented, checked against a workload on a GPU.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/batch_curve.h"
#include "rooftile/findings/finding.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/graph.h"
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

// Findings of one cause on one operation exclude each other: the one that saves most is kept.
enum class Cause { none, alignment, tile_shape, precision, layout, fusion, launch, memory };

struct Rule {
  std::string_view id;  // area/what-is-wrong
  Level level;          // of its findings unless they say otherwise
  Cause cause;
  std::string_view summary;  // one line
  std::string_view doc;      // Markdown, the headings of kDocHeadings in order
  std::vector<Finding> (*check)(const RuleInput&);
  // Its findings make advice on sizes and memory of the same operations moot: they are to run in
  // another precision first.
  bool outranks_sizes = false;
  // Its change puts one operation in place of several: other advice on nothing but those, their
  // precision aside, is moot.
  bool replaces_operations = false;
  // Judges how host, GPU and ranks wait for each other in a trace, which is the same on GPUs of
  // every maker, named or not.
  bool on_any_gpu = false;
};

inline constexpr std::string_view kDocHeadings[] = {
    "## What it finds", "## Why it costs time", "## How to fix", "## How the saving is estimated",
    "## When not to",   "## Evidence"};

// All rules, in the order of rule_list.inc.
std::span<const Rule* const> all_rules();
const Rule* find_rule(std::string_view id);

// Runs the rules, fills in id and level, drops what saves too little, keeps one finding per cause
// and operation, merges equal findings of repeated layers, and ranks.
std::vector<Finding> run_rules(const RuleInput& input, std::span<const Rule* const> rules);

}  // namespace rooftile
