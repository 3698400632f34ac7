#include "rooftile/rules/group_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// Source: PyTorch Inductor pads a product only when it is then 1.1 times as fast.
constexpr double kClearShare = 0.1;

constexpr Phase kPhases[] = {Phase::forward, Phase::dgrad, Phase::wgrad};

// Any operation of the phase stands for the others: they have the same dims and dtypes.
std::optional<std::size_t> first_of_phase(const RuleInput& input, const LayerGroup& group,
                                          Phase phase) {
  for (const std::size_t i : group.ops) {
    if (input.workload.ops[i].phase == phase) return i;
  }
  return std::nullopt;
}

// The gradients of a layer do not add to the count.
std::int64_t count_layers(const RuleInput& input, const std::vector<std::size_t>& ops) {
  std::int64_t forward = 0, all = 0;
  for (const std::size_t i : ops) {
    const Op& op = input.workload.ops[i];
    all += op.count;
    if (op.phase == Phase::forward) forward += op.count;
  }
  return forward > 0 ? forward : all;
}

}  // namespace

std::optional<Range<Seconds>> saving_if_all(const RuleInput& input, const LayerGroup& group,
                                            const Change& change) {
  Range<Seconds> total{};
  for (const Phase phase : kPhases) {
    const std::optional<std::size_t> first = first_of_phase(input, group, phase);
    if (!first) continue;
    const Op& op = input.workload.ops[*first];
    const std::optional<Range<Seconds>> saving = saving_if(input, *first, change(op));
    if (!saving) return std::nullopt;
    const double runs = count_runs(input.workload, group, phase);
    total += *saving * (runs / static_cast<double>(op.count));
  }
  return total;
}

void note_changes(const RuleInput& input, const LayerGroup& group, const Change& change,
                  Finding& finding) {
  for (const std::size_t op : group.ops) {
    finding.changes.push_back({op, change(input.workload.ops[op])});
  }
}

std::optional<Range<Seconds>> saving_at_equal_work(const RuleInput& input, const LayerGroup& group,
                                                   const Change& change, double more) {
  Range<Seconds> total{};
  for (const Phase phase : kPhases) {
    const std::optional<std::size_t> first = first_of_phase(input, group, phase);
    if (!first) continue;
    const std::optional<TimeEstimate>& before = input.analysis.ops[*first].time;
    const std::optional<TimeEstimate> after =
        input.model.estimate(change(input.workload.ops[*first]));
    if (!before || !after) return std::nullopt;
    total +=
        estimate_saving(*before, *after * (1 / more)) * count_runs(input.workload, group, phase);
  }
  return total;
}

Seconds idle_in_waves(const TimeEstimate& time) {
  return time.grid ? time.time.expected * (1 - time.grid->wave_efficiency) : Seconds();
}

Range<Seconds> capped(const Range<Seconds>& saving, Seconds most) {
  return {std::min(saving.low, most), std::min(saving.expected, most), std::min(saving.high, most)};
}

namespace {

// Of all runs of the group: the time of SMs without a tile and of tiles beyond the output. Empty
// where no kernel has tiles.
std::optional<Seconds> lost_to_tiles(const RuleInput& input, const LayerGroup& group) {
  std::optional<Seconds> lost;
  for (const std::size_t op : group.ops) {
    const std::optional<TimeEstimate>& time = input.analysis.ops[op].time;
    if (time && time->grid) {
      const double unused = 1 - time->grid->efficiency();
      lost = lost.value_or(Seconds()) +
             time->time.expected * (unused * to_double(input.workload.ops[op].count));
    }
  }
  return lost;
}

}  // namespace

std::vector<WidthOption> tile_edges(const RuleInput& input, const LayerGroup& group,
                                    std::int64_t width, std::int64_t step,
                                    const std::function<Op(const Op&, std::int64_t)>& change) {
  std::vector<WidthOption> options;
  const std::optional<Seconds> most = lost_to_tiles(input, group);
  const std::int64_t above = round_up(width, step);
  for (const std::int64_t to : {above - step, above}) {
    if (to < step || to == width) continue;
    const auto saving = saving_at_equal_work(
        input, group, [&](const Op& op) { return change(op, to); },
        static_cast<double>(to) / static_cast<double>(width));
    if (!saving || saving->expected <= Seconds(0)) continue;
    options.push_back({to, most ? capped(*saving, *most) : *saving});
  }
  return options;
}

std::string width_options_text(const std::vector<WidthOption>& options, Seconds total) {
  std::string text;
  for (const WidthOption& option : options) {
    text += fmt::format("{}{} ({}{})", text.empty() ? "" : " or ", option.width,
                        change_text(-(option.saving.expected / total)),
                        text.empty() ? " time per unit of width" : "");
  }
  return text;
}

Range<Seconds> best_saving(const std::vector<WidthOption>& options) {
  return std::ranges::max(options, {},
                          [](const WidthOption& option) { return option.saving.expected; })
      .saving;
}

std::string misaligned_operands_text(const RuleInput& input, const LayerGroup& group) {
  static constexpr std::string_view kNames[] = {"forward", "dgrad", "wgrad"};
  std::vector<std::string> parts;
  for (const Phase phase : kPhases) {
    const std::optional<std::size_t> first = first_of_phase(input, group, phase);
    if (!first) continue;
    std::vector<std::string> roles;
    for (const MatrixProduct& product : input.analysis.ops[*first].products) {
      for (const MatrixOperand* operand : {&product.a, &product.b, &product.out}) {
        if (aligned_bytes(*operand) < 16) roles.emplace_back(operand->role);
      }
    }
    if (roles.empty()) continue;
    parts.push_back(
        fmt::format("{} {}", kNames[static_cast<std::size_t>(phase)], join(roles, ", ")));
  }
  return join(parts, "; ");
}

double worst_alignment(const RuleInput& input, const LayerGroup& group) {
  double worst = 16;
  for (const std::size_t i : group.ops) {
    for (const MatrixProduct& product : input.analysis.ops[i].products) {
      worst = std::min(worst, alignment_of(product).worst());
    }
  }
  return worst;
}

std::optional<Seconds> time_of(const RuleInput& input, const LayerGroup& group) {
  Seconds total;
  for (const std::size_t i : group.ops) {
    const std::optional<TimeEstimate>& time = input.analysis.ops[i].time;
    if (!time) return std::nullopt;
    total += time->time.expected * static_cast<double>(input.workload.ops[i].count);
  }
  return total;
}

bool is_math_bound(const RuleInput& input, const LayerGroup& group) {
  return std::any_of(group.ops.begin(), group.ops.end(), [&](std::size_t i) {
    const std::vector<MatrixProduct>& products = input.analysis.ops[i].products;
    return std::any_of(products.begin(), products.end(),
                       [&](const MatrixProduct& product) { return is_math_bound(input, product); });
  });
}

Finding finding_at_groups(const RuleInput& input, const std::vector<LayerGroup>& groups,
                          std::string message, Fix fix, std::optional<Range<Seconds>> saving) {
  std::vector<std::size_t> ops;
  for (const LayerGroup& group : groups) ops.insert(ops.end(), group.ops.begin(), group.ops.end());
  std::sort(ops.begin(), ops.end());
  Finding finding = finding_at(input, ops.front(), std::move(message), std::move(fix));
  finding.count = count_layers(input, ops);
  finding.saving = saving;
  finding.ops = std::move(ops);
  return finding;
}

bool pays_to_align(const RuleInput& input, const LayerGroup& group, const Change& align) {
  if (is_math_bound(input, group)) return true;
  const auto saving = saving_if_all(input, group, align);
  const std::optional<Seconds> time = time_of(input, group);
  return saving && time && saving->expected >= kClearShare * *time;
}

void soften_unless_clear(const RuleInput& input, Finding& finding) {
  Seconds time;
  for (const std::size_t i : finding.ops) {
    const std::optional<TimeEstimate>& estimate = input.analysis.ops[i].time;
    if (!estimate) continue;
    time += estimate->time.expected * static_cast<double>(input.workload.ops[i].count);
  }
  if (!finding.saving || finding.saving->expected < kClearShare * time) {
    finding.own_level = Level::advice;
  }
}

bool is_pointless(const std::optional<Range<Seconds>>& saving) {
  return saving && saving->expected <= Seconds(0);
}

std::string memory_floor_text(Bytes bytes, const Device& device) {
  return fmt::format("{} at {} take at least {}", traffic_text(bytes),
                     rate_text(device.dram_bandwidth), time_text(bytes / device.dram_bandwidth));
}

}  // namespace rooftile
