// Pairs the operations of two workloads and lets the time model judge each pair.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "rooftile/pipeline/op_row.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

struct Side {
  const Workload& workload;
  Analysis analysis;
  std::vector<std::optional<std::size_t>> partner;  // index on the other side

  Side(const Workload& given, const TimeModel& model)
      : workload(given), analysis(analyse(given, model)), partner(given.ops.size()) {}

  const Op& op(std::size_t i) const { return workload.ops[i]; }
  double runs(std::size_t i) const { return static_cast<double>(op(i).count); }
};

// Pairs what has the same key on both sides, in order; `unique` only where it stands for one
// operation each.
template <class Key>
void pair_by(const Key& key, bool unique, Side& before, Side& after) {
  std::map<decltype(key(Op{})), std::vector<std::size_t>> waiting, candidates;
  for (std::size_t i = 0; i < before.partner.size(); ++i) {
    if (!before.partner[i]) waiting[key(before.op(i))].push_back(i);
  }
  for (std::size_t j = 0; j < after.partner.size(); ++j) {
    if (!after.partner[j]) candidates[key(after.op(j))].push_back(j);
  }
  for (const auto& [name, mine] : waiting) {
    const auto theirs = candidates.find(name);
    if (theirs == candidates.end()) continue;
    if (unique && (mine.size() != 1 || theirs->second.size() != 1)) continue;
    for (std::size_t n = 0; n < std::min(mine.size(), theirs->second.size()); ++n) {
      before.partner[mine[n]] = theirs->second[n];
      after.partner[theirs->second[n]] = mine[n];
    }
  }
}

// "model.layers.{0-11}.mlp" and "model.layers.{0-23}.mlp" are the same layers of two models.
std::string without_layer_numbers(const std::string& name) {
  const std::size_t open = name.find('{'), close = name.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return name;
  return name.substr(0, open + 1) + name.substr(close);
}

// The same layer under its name; then equal layers under other names, as other exporters give; a
// single operation left over on each side is the one that was changed.
void pair_operations(Side& before, Side& after) {
  const auto name = [](const Op& op) { return std::tuple(op.name, op.phase, op.body.index()); };
  const auto layer = [](const Op& op) {
    return std::tuple(without_layer_numbers(op.name), op.phase, op.body.index());
  };
  const auto shape = [](const Op& op) { return std::pair(op.phase, shape_bytes(op)); };
  const auto kind = [](const Op& op) { return std::pair(op.phase, op.body.index()); };
  pair_by(name, true, before, after);
  pair_by(layer, true, before, after);
  pair_by(shape, false, before, after);
  pair_by(kind, true, before, after);
}

// A count that differs is a difference in time of the runs that come or go.
Range<Seconds> saving_of_pair(const Side& before, std::size_t i, const Side& after, std::size_t j) {
  const auto& old_time = before.analysis.ops[i].time;
  const auto& new_time = after.analysis.ops[j].time;
  if (!old_time || !new_time) return {};
  const double common = std::min(before.runs(i), after.runs(j));
  return estimate_saving(*old_time, *new_time) * common +
         old_time->time * (before.runs(i) - common) + -(new_time->time * (after.runs(j) - common));
}

OpRow row_at(const Side& side, std::size_t i) { return op_row(side.op(i), side.analysis.ops[i]); }

bool is_same(const Side& before, std::size_t i, const Side& after, std::size_t j) {
  const Op &a = before.op(i), &b = after.op(j);
  return a.count == b.count && a.phase == b.phase && shape_bytes(a) == shape_bytes(b);
}

void add_pairs(const Side& before, const Side& after, Comparison& comparison) {
  for (std::size_t i = 0; i < before.partner.size(); ++i) {
    const auto j = before.partner[i];
    if (j && is_same(before, i, after, *j)) {
      comparison.unchanged += 1;
    } else if (j) {
      comparison.changed.push_back(
          {row_at(before, i), row_at(after, *j), saving_of_pair(before, i, after, *j)});
    } else {
      const auto& time = before.analysis.ops[i].time;
      comparison.changed.push_back(
          {row_at(before, i), std::nullopt, time ? time->time * before.runs(i) : Range<Seconds>{}});
    }
  }
  for (std::size_t j = 0; j < after.partner.size(); ++j) {
    if (after.partner[j]) continue;
    const auto& time = after.analysis.ops[j].time;
    comparison.changed.push_back(
        {std::nullopt, row_at(after, j), time ? -(time->time * after.runs(j)) : Range<Seconds>{}});
  }
}

ComparedSide side_of(const Report& report) {
  return {report.inputs, report.total, report.flop, report.bytes, report.coverage};
}

}  // namespace

Comparison compare(const Workload& before, const Workload& after, const Device& device) {
  const TimeModel model(device);
  Side old_side(before, model), new_side(after, model);
  pair_operations(old_side, new_side);
  const Report old_report = check(before, device, {}), new_report = check(after, device, {});
  Comparison comparison;
  comparison.device = new_report.device;
  comparison.before = side_of(old_report);
  comparison.after = side_of(new_report);
  comparison.notes = old_report.notes;
  for (const std::string& note : new_report.notes) {
    if (std::ranges::find(comparison.notes, note) == comparison.notes.end()) {
      comparison.notes.push_back(note);
    }
  }
  add_pairs(old_side, new_side, comparison);
  for (const ComparedOp& op : comparison.changed) comparison.saving += op.saving;
  std::ranges::stable_sort(comparison.changed, [](const ComparedOp& a, const ComparedOp& b) {
    return std::abs(a.saving.expected.value()) > std::abs(b.saving.expected.value());
  });
  return comparison;
}

}  // namespace rooftile
