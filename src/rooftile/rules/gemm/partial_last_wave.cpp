#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace gemm_partial_last_wave_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Layers whose thread blocks fill the GPU a few times and then once more for a small rest. All layers
with the same number of tokens are judged together, because that number is what can be changed.

## Why it costs time
Each streaming multiprocessor (SM) computes one tile of the output at a time. On 108 SMs, 126 tiles
take two rounds, called waves, as long as 216 tiles would.

## How to fix
Change the number of tokens per step (batch size times sequence length) to the proposed value below
or above, where the last wave is full.

## How the saving is estimated
The time model predicts all layers with that many tokens, forward and gradients, at both counts. The
saving is at equal work: time per token times today's tokens. It speaks only above 5 %.

## When not to
- Another batch size is another training run: learning rate and schedule may have to follow.
- On Hopper and later GPUs kernels spread the last wave over all SMs (stream-K, persistent kernels),
  so the effect is small and the advice is only "possible".
- Above about six waves the effect is below 12 %; memory-bound layers do not show it.
- Forward and gradient products have different grids: what counts is the sum.

## Evidence
- NVIDIA Matrix Multiplication Background User's Guide, "Wave Quantization": A100, 2304 x N x 4096:
  from N = 1536 to 1600 throughput falls by 45 %, from 3072 to 3136 by 29 %.
- ML Engineering book (S. Bekman), tile and wave quantization: 109 blocks on 108 SMs are two waves.
)md";

constexpr double kMaxWaves = 6;  // above it the tail is below 12 % of the time
constexpr double kMinWaveEfficiency = 0.85;
constexpr double kMinGain = 0.05;      // below it the model's own error decides
constexpr std::size_t kMostAsked = 4;  // layers whose full waves are tried
constexpr double kMaxChange = 2.0;     // of the number of tokens, up or down

bool is_layer(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->batch == 1 && gemm->m > 1;
}

const Gemm& gemm_of(const RuleInput& input, const LayerGroup& group) {
  return std::get<Gemm>(input.workload.ops[group.ops.front()].body);
}

// The grid of the forward pass: its rows are the tokens.
const TileGrid* forward_grid(const RuleInput& input, const LayerGroup& group) {
  const std::size_t first = group.ops.front();
  const std::optional<TimeEstimate>& time = input.analysis.ops[first].time;
  const bool known = input.workload.ops[first].phase == Phase::forward && time && time->grid;
  return known ? &*time->grid : nullptr;
}

bool has_partial_wave(const RuleInput& input, const LayerGroup& group) {
  const TileGrid* grid = forward_grid(input, group);
  return grid != nullptr && grid->waves > 1 && grid->waves <= kMaxWaves &&
         grid->last_wave_fill < 0.5 && grid->wave_efficiency < kMinWaveEfficiency &&
         is_math_bound(input, group);
}

struct Option {
  std::int64_t tokens = 0;
  Range<Seconds> saving{};
  double gain = 0;  // share of the time per token
};

std::optional<Range<Seconds>> saving_at(const RuleInput& input,
                                        const std::vector<LayerGroup>& groups,
                                        std::int64_t tokens) {
  Range<Seconds> total{};
  for (const LayerGroup& group : groups) {
    const std::int64_t now = gemm_of(input, group).m;
    const auto saving = saving_at_equal_work(
        input, group,
        [&](const Op& op) {
          Op changed = op;
          changed.body = with_size(std::get<Gemm>(op.body), GemmDim::m, tokens);
          return changed;
        },
        static_cast<double>(tokens) / static_cast<double>(now));
    if (!saving) return std::nullopt;
    total += *saving;
  }
  return total;
}

// Token counts that fill whole waves of the layer's tiles.
std::vector<std::int64_t> full_wave_counts(const TileGrid& grid, const Gemm& gemm, int sms) {
  const double columns = std::ceil(static_cast<double>(gemm.n) / grid.tile.cols);
  std::vector<std::int64_t> counts;
  for (const double waves : {grid.waves - 1, grid.waves, grid.waves + 1}) {
    const double rows = std::floor(waves * sms / columns);
    const auto tokens = static_cast<std::int64_t>(rows) * grid.tile.rows;
    const double change = static_cast<double>(tokens) / static_cast<double>(gemm.m);
    if (change >= 1 / kMaxChange && change <= kMaxChange && tokens != gemm.m) {
      counts.push_back(tokens);
    }
  }
  return counts;
}

struct Neighbours {
  std::optional<Option> lower, upper;
};

// A count twice as large has to gain this much more to be proposed instead of a near one.
constexpr double kDistancePenalty = 0.1;

double worth(const Option& option, std::int64_t now) {
  const double change = static_cast<double>(option.tokens) / static_cast<double>(now) - 1;
  return option.gain - kDistancePenalty * std::abs(change);
}

void keep_better(std::optional<Option>& best, const Option& option, std::int64_t now) {
  if (!best || worth(option, now) > worth(*best, now)) best = option;
}

Neighbours best_neighbours(const RuleInput& input, const std::vector<LayerGroup>& groups,
                           const std::vector<LayerGroup>& partial) {
  Seconds total;
  for (const LayerGroup& group : groups) total += time_of(input, group).value_or(Seconds(0));
  Neighbours best;
  for (const LayerGroup& group : std::span(partial).first(std::min(partial.size(), kMostAsked))) {
    const Gemm& gemm = gemm_of(input, group);
    for (const std::int64_t tokens :
         full_wave_counts(*forward_grid(input, group), gemm, input.device().sms)) {
      const auto saving = saving_at(input, groups, tokens);
      if (!saving || total <= Seconds(0)) continue;
      const Option option{tokens, *saving, saving->expected / total};
      keep_better(tokens < gemm.m ? best.lower : best.upper, option, gemm.m);
    }
  }
  return best;
}

std::string describe(const RuleInput& input, const std::vector<LayerGroup>& partial) {
  const TileGrid& grid = *forward_grid(input, partial.front());
  const bool spreads_waves = input.device().compute_capability >= 90;
  return fmt::format(
      "{}{} tokens make {:.0f} tiles of {}x{} on {} SMs: {:.0f} waves, the last one {:.0f} % full",
      spreads_waves ? "possible: " : "", gemm_of(input, partial.front()).m, grid.tiles,
      grid.tile.rows, grid.tile.cols, input.device().sms, grid.waves, 100 * grid.last_wave_fill);
}

std::string option_text(const Option& option) {
  return fmt::format("{} ({} time per token)", option.tokens, percent_text(-option.gain));
}

Fix propose(const RuleInput& input, const Neighbours& best) {
  std::string counts;
  if (best.lower && best.lower->gain > 0) counts = option_text(*best.lower);
  if (best.upper && best.upper->gain > 0) {
    counts += (counts.empty() ? "" : " or ") + option_text(*best.upper);
  }
  const bool training = input.workload.mode == Mode::training;
  return {fmt::format("Run {} tokens at a time (batch × sequence)", counts),
          training ? Exactness::changes_training : Exactness::exact_arithmetic};
}

std::optional<Finding> judge(const RuleInput& input, const std::vector<LayerGroup>& groups) {
  std::vector<LayerGroup> partial;
  for (const LayerGroup& group : groups) {
    if (has_partial_wave(input, group)) partial.push_back(group);
  }
  if (partial.empty()) return std::nullopt;
  std::stable_sort(partial.begin(), partial.end(), [](const LayerGroup& a, const LayerGroup& b) {
    return a.time_share > b.time_share;
  });
  const Neighbours best = best_neighbours(input, groups, partial);
  std::optional<Option> chosen = best.lower;
  if (best.upper) keep_better(chosen, *best.upper, gemm_of(input, groups.front()).m);
  if (!chosen || chosen->gain < kMinGain) return std::nullopt;
  Finding finding = finding_at_groups(input, partial, describe(input, partial),
                                      propose(input, best), chosen->saving);
  finding.evidence = {
      "a partial last wave costs 22 to 45 % of the throughput on an A100: NVIDIA Matrix "
      "Multiplication Background User's Guide, Wave Quantization"};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows the real grids: gemm/idle-last-wave judges them.
  if (!input.workload.traces.empty()) return {};
  std::map<std::int64_t, std::vector<LayerGroup>> by_tokens;
  for (LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_layer)) {
    const std::int64_t tokens = gemm_of(input, group).m;
    by_tokens[tokens].push_back(std::move(group));
  }
  std::vector<Finding> findings;
  for (const auto& [tokens, groups] : by_tokens) {
    double share = 0;
    for (const LayerGroup& group : groups) share += group.time_share;
    if (share < kMinTimeShare) continue;
    if (std::optional<Finding> finding = judge(input, groups)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_partial_last_wave_rule

extern const Rule gemm_partial_last_wave{
    .id = "gemm/partial-last-wave",
    .level = Level::advice,
    .cause = Cause::tile_shape,
    .summary = "The last wave of thread blocks is nearly empty",
    .doc = gemm_partial_last_wave_rule::kDoc,
    .check = gemm_partial_last_wave_rule::check};

}  // namespace rooftile
