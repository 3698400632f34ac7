#include "rooftile/pipeline/diff_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// Times of the same kernel differ by some percent from run to run (clocks, neighbours on the bus);
// smaller changes are not listed, nor those without effect on the span.
constexpr double kRunToRun = 0.05, kLeastShareOfSpan = 0.0005;
// Runs of a step are a quotient where the recording holds parts of steps.
constexpr double kSameRuns = 0.02;

// Name, direction and extents; the types come apart, so that a change of precision stays one row.
using OpKey = std::tuple<std::string, Phase, std::string>;

struct OpTotals {
  double runs = 0;
  Seconds kernels, host;
  std::string types;
  std::map<std::string, Seconds> by_kernel;
};

struct KernelTotals {
  double runs = 0;
  Seconds time;
};

struct SideTotals {
  std::map<OpKey, OpTotals> ops;
  std::map<std::string, KernelTotals> kernels;
};

std::string extents_text(const OpArguments& arguments) {
  std::vector<std::string> tensors;
  for (const auto& dims : arguments.dims) {
    if (!dims.empty()) tensors.push_back(fmt::format("{}", fmt::join(dims, "×")));
  }
  return join(tensors, ", ");
}

// The type of the first tensor, as PyTorch names it without its namespace.
std::string type_text(const OpArguments& arguments) {
  for (std::size_t i = 0; i < std::min(arguments.dims.size(), arguments.types.size()); ++i) {
    std::string_view type = arguments.types[i];
    if (arguments.dims[i].empty() || type.empty()) continue;
    if (type.starts_with("c10::")) type.remove_prefix(5);
    return std::string(type);
  }
  return {};
}

void add_kernel(const KernelUse& kernel, double weight, SideTotals& side) {
  KernelTotals& totals = side.kernels[kernel.name];
  totals.runs += weight * static_cast<double>(kernel.count);
  totals.time += kernel.time * weight;
}

SideTotals totals_of(const TraceSide& side) {
  SideTotals totals;
  for (const auto& [summary, of_window, weight] : side) {
    for (const OpUse& use : summary->ops) {
      OpTotals& op = totals.ops[{use.name, use.phase, extents_text(use.arguments)}];
      op.runs += weight * static_cast<double>(use.count);
      op.kernels += use.kernel_time * weight;
      op.host += use.host_time * weight;
      if (op.types.empty()) op.types = type_text(use.arguments);
      for (const KernelUse& kernel : use.kernels) {
        op.by_kernel[kernel.name] += kernel.time * weight;
        add_kernel(kernel, weight, totals);
      }
    }
    for (const KernelUse& kernel : summary->orphans) add_kernel(kernel, weight, totals);
  }
  return totals;
}

bool runs_differ(double before, double after) {
  return std::abs(before - after) > kSameRuns * std::max(before, after);
}

bool is_changed(const ChangedTime& time, const ChangedCount& runs, Seconds span) {
  const double change = std::abs(time.change().value());
  const double larger = std::max(time.before.value(), time.after.value());
  return change > kLeastShareOfSpan * span.value() &&
         (runs_differ(runs.before, runs.after) || change > kRunToRun * larger);
}

std::string largest_kernel(const OpTotals* op) {
  if (op == nullptr || op->by_kernel.empty()) return {};
  return std::max_element(op->by_kernel.begin(), op->by_kernel.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::string_view phase_word(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::dgrad:
    case Phase::wgrad:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
  }
  return "forward";
}

using KeyPair = std::pair<const OpKey*, const OpKey*>;  // null = the side lacks it

// Equal keys; then the only one left of a name and direction on each side, whose shapes changed.
std::vector<KeyPair> pair_ops(const SideTotals& before, const SideTotals& after) {
  using Name = std::pair<std::string, Phase>;
  std::vector<KeyPair> pairs;
  std::map<Name, std::pair<std::vector<const OpKey*>, std::vector<const OpKey*>>> left;
  const auto name_of_key = [](const OpKey& key) {
    return Name{std::get<0>(key), std::get<1>(key)};
  };
  for (const auto& [key, op] : before.ops) {
    const auto same = after.ops.find(key);
    if (same != after.ops.end()) pairs.emplace_back(&key, &same->first);
    if (same == after.ops.end()) left[name_of_key(key)].first.push_back(&key);
  }
  for (const auto& [key, op] : after.ops) {
    if (!before.ops.contains(key)) left[name_of_key(key)].second.push_back(&key);
  }
  for (const auto& [name, keys] : left) {
    const auto& [old_keys, new_keys] = keys;
    if (old_keys.size() == 1 && new_keys.size() == 1) {
      pairs.emplace_back(old_keys[0], new_keys[0]);
      continue;
    }
    for (const OpKey* key : old_keys) pairs.emplace_back(key, nullptr);
    for (const OpKey* key : new_keys) pairs.emplace_back(nullptr, key);
  }
  return pairs;
}

const OpTotals* op_at(const SideTotals& side, const OpKey* key) {
  return key == nullptr ? nullptr : &side.ops.at(*key);
}

std::string shapes_text(const OpKey* key, const OpTotals* op) {
  if (key == nullptr) return {};
  const std::string& extents = std::get<2>(*key);
  return extents.empty() || op->types.empty() ? extents : extents + " " + op->types;
}

TraceDiffOp op_row_of(const KeyPair& pair, const OpTotals* old_op, const OpTotals* new_op) {
  const OpKey& key = pair.second != nullptr ? *pair.second : *pair.first;
  const OpTotals nothing;
  const OpTotals& was = old_op != nullptr ? *old_op : nothing;
  const OpTotals& is = new_op != nullptr ? *new_op : nothing;
  return {std::get<0>(key),
          std::string(phase_word(std::get<1>(key))),
          shapes_text(pair.first, old_op),
          shapes_text(pair.second, new_op),
          {was.runs, is.runs},
          {was.kernels, is.kernels},
          {was.host, is.host},
          largest_kernel(old_op),
          largest_kernel(new_op)};
}

// Names of one side's kernels of an operator that the other side never runs, the largest first.
std::vector<std::string> own_kernels(const OpTotals& op, const SideTotals& other) {
  std::vector<std::pair<Seconds, std::string>> own;
  for (const auto& [name, time] : op.by_kernel) {
    if (!other.kernels.contains(name)) own.emplace_back(time, name);
  }
  std::ranges::sort(own, std::greater<>());
  std::vector<std::string> names;
  for (auto& [time, name] : own) names.push_back(std::move(name));
  return names;
}

struct Replacement {
  std::string kernel, op;
};

// Old name -> the name that took its place under the same operator.
std::map<std::string, Replacement> replaced_kernels(const std::vector<KeyPair>& pairs,
                                                    const SideTotals& before,
                                                    const SideTotals& after) {
  std::map<std::string, Replacement> replaced;
  std::map<std::string, bool> taken;
  for (const auto& [old_key, new_key] : pairs) {
    if (old_key == nullptr || new_key == nullptr) continue;
    const auto gone = own_kernels(before.ops.at(*old_key), after);
    const auto fresh = own_kernels(after.ops.at(*new_key), before);
    for (std::size_t i = 0; i < std::min(gone.size(), fresh.size()); ++i) {
      if (replaced.contains(gone[i]) || taken.contains(fresh[i])) continue;
      replaced[gone[i]] = {fresh[i], std::get<0>(*old_key)};
      taken[fresh[i]] = true;
    }
  }
  return replaced;
}

std::vector<TraceDiffKernel> pair_kernels(const SideTotals& before, const SideTotals& after,
                                          const std::map<std::string, Replacement>& replaced) {
  std::vector<TraceDiffKernel> rows;
  std::map<std::string, bool> used;
  const auto row = [&](const std::string& was, const std::string& is, const std::string& op) {
    const auto old_kernel = before.kernels.find(was), new_kernel = after.kernels.find(is);
    const KernelTotals old_totals =
        old_kernel == before.kernels.end() ? KernelTotals{} : old_kernel->second;
    const KernelTotals new_totals =
        new_kernel == after.kernels.end() ? KernelTotals{} : new_kernel->second;
    rows.push_back(
        {was, is, op, {old_totals.runs, new_totals.runs}, {old_totals.time, new_totals.time}});
    used[is] = true;
  };
  for (const auto& [name, totals] : before.kernels) {
    const auto other = replaced.find(name);
    if (after.kernels.contains(name)) {
      row(name, name, "");
    } else if (other != replaced.end()) {
      row(name, other->second.kernel, other->second.op);
    } else {
      row(name, "", "");
    }
  }
  for (const auto& [name, totals] : after.kernels) {
    if (!used.contains(name)) row("", name, "");
  }
  return rows;
}

template <class Row, class Time>
void sort_by_change(std::vector<Row>& rows, const Time& time) {
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    return std::abs(time(a).change().value()) > std::abs(time(b).change().value());
  });
}

}  // namespace

void add_changed_rows(const TraceSide& before, const TraceSide& after, TraceDiff& diff) {
  const SideTotals old_side = totals_of(before), new_side = totals_of(after);
  const Seconds span = std::max(diff.span.before, diff.span.after);
  const std::vector<KeyPair> pairs = pair_ops(old_side, new_side);
  for (const KeyPair& pair : pairs) {
    TraceDiffOp row = op_row_of(pair, op_at(old_side, pair.first), op_at(new_side, pair.second));
    if (is_changed(row.kernels, row.runs, span)) {
      diff.ops.push_back(std::move(row));
    } else {
      diff.same_ops += 1;
    }
  }
  for (TraceDiffKernel& row :
       pair_kernels(old_side, new_side, replaced_kernels(pairs, old_side, new_side))) {
    if (is_changed(row.time, row.runs, span)) {
      diff.kernels.push_back(std::move(row));
    } else {
      diff.same_kernels += 1;
    }
  }
  sort_by_change(diff.ops, [](const TraceDiffOp& row) { return row.kernels; });
  sort_by_change(diff.kernels, [](const TraceDiffKernel& row) { return row.time; });
}

double common_kernel_ratio(const TraceSide& before, const TraceSide& after) {
  const SideTotals old_side = totals_of(before), new_side = totals_of(after);
  std::vector<std::pair<double, double>> ratios;  // ratio, weight
  double all = 0;
  for (const auto& [name, was] : old_side.kernels) {
    const auto is = new_side.kernels.find(name);
    if (is == new_side.kernels.end() || runs_differ(was.runs, is->second.runs)) continue;
    if (was.time <= Seconds()) continue;
    ratios.emplace_back(is->second.time / was.time, was.time.value());
    all += was.time.value();
  }
  std::ranges::sort(ratios);
  double sum = 0;
  for (const auto& [ratio, weight] : ratios) {
    sum += weight;
    if (sum >= all / 2) return ratio;
  }
  return 1;
}

}  // namespace rooftile
