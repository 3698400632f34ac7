#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/workload/rebatch.h"

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
Run the proposed batch. Where the batch is not known, as in lines of text: change the number of
tokens per step (batch times sequence) to the value below or above, where the last wave is full.

## How the saving is estimated
The time model predicts the whole network at the batches whose tokens come nearest to full waves, or
without a batch all layers with that many tokens, forward and gradients. The saving is at equal
work: time per sample or token times today's number, and no more than the time in which SMs have no
tile today, by the tile expected or a larger one that fills the GPU at least once. Gains below 5 % are
not reported.

## When not to
- Another batch size is another training run: learning rate and schedule may have to follow.
- Rows that are no whole number for each sample of the batch, as object queries or the positions of
  a feature map, cannot be chosen.
- Where a much larger batch saves more, `sizing/batch-leaves-throughput` names that instead; a
  larger batch is proposed here only if it beats twice today's.
- On Hopper and later GPUs kernels spread the last wave over all SMs (stream-K, persistent kernels),
  so the effect is small and the advice is only "possible".
- Above about six waves the effect is below 12 %; memory-bound layers do not show it.
- Forward and gradient GEMMs have different grids: what counts is the sum.

## Evidence
- NVIDIA Matrix Multiplication Background User's Guide, "Wave Quantization": A100, 2304 x N x 4096:
  from N = 1536 to 1600 throughput falls by 45 %, from 3072 to 3136 by 29 %.
- ML Engineering book (S. Bekman), tile and wave quantization: 109 blocks on 108 SMs are two waves.
)md";

constexpr double kMaxWaves = 6;  // above it the tail is below 12 % of the time
constexpr double kMinWaveEfficiency = 0.85;
constexpr double kMinGain = threshold::kBeyondModelError;  // below it the model's own error decides
constexpr std::size_t kMostAsked = 4;                      // layers whose full waves are tried
constexpr double kMaxChange = 2.0;                         // of the number of tokens, up or down

bool is_layer(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && gemm->batch == 1;
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

// Libraries also take larger tiles than the one expected, if there are enough for a wave: the grid
// of such tiles that leaves most SMs idle.
TileGrid worst_grid(const RuleInput& input, std::size_t op) {
  const OpAnalysis& analysis = input.analysis.ops[op];
  TileGrid worst = *analysis.time->grid;
  if (analysis.products.size() != 1) return worst;
  const MatrixProduct& product = analysis.products.front();
  const int area = worst.tile.rows * worst.tile.cols, sms = input.device().sms;
  for (const Tile& tile : candidate_tiles()) {
    const TileGrid grid =
        tile_grid(to_double(product.m), to_double(product.n), to_double(product.batch), tile, sms);
    const bool usable = tile.rows * tile.cols >= area && grid.tiles >= sms;
    if (usable && grid.wave_efficiency < worst.wave_efficiency) worst = grid;
  }
  return worst;
}

// Of all runs of an operation, the time in which SMs have no tile: no other number of tokens saves
// more by its waves.
Seconds most_idle(const RuleInput& input, std::size_t op) {
  const std::optional<TimeEstimate>& time = input.analysis.ops[op].time;
  if (!time || !time->grid) return Seconds();
  const double idle = 1 - worst_grid(input, op).wave_efficiency;
  return time->time.expected * (idle * to_double(input.workload.ops[op].count));
}

struct Option {
  std::int64_t tokens = 0;
  Range<Seconds> saving{};
  double gain = 0;         // share of the time per token
  std::int64_t batch = 0;  // that makes these tokens; 0 where it is not known
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

// Another number of tokens for all layers that have `now` of them.
class TokenOptions {
 public:
  TokenOptions(const RuleInput& input, const std::vector<LayerGroup>& groups)
      : input_(input), groups_(groups) {
    for (const LayerGroup& group : groups) {
      total_ += time_of(input, group).value_or(Seconds(0));
      for (const std::size_t op : group.ops) most_ += most_idle(input, op);
    }
  }

  std::optional<Option> at(std::int64_t tokens) const {
    const auto predicted = saving_at(input_, groups_, tokens);
    if (!predicted || total_ <= Seconds(0)) return std::nullopt;
    const Range<Seconds> saving = capped(*predicted, most_);
    return Option{tokens, saving, saving.expected / total_, 0};
  }

 private:
  const RuleInput& input_;
  const std::vector<LayerGroup>& groups_;
  Seconds total_, most_;  // time now; of it, without a tile
};

// Another batch for the whole network: the tokens of whole samples only.
class BatchOptions {
 public:
  explicit BatchOptions(const RuleInput& input)
      : input_(input), now_(batch_point(input.workload, input.model)) {
    for (std::size_t op = 0; op < input.workload.ops.size(); ++op) {
      most_ += most_idle(input, op);
    }
  }

  // The batch with at most so many tokens, of `now` today; empty where they are no samples'.
  std::optional<Option> at(std::int64_t tokens, std::int64_t now) {
    if (now % now_.batch != 0) return std::nullopt;
    const std::int64_t each = now / now_.batch, batch = tokens / each;
    if (batch < 1 || batch == now_.batch || now_.sum.time.expected <= Seconds(0)) {
      return std::nullopt;
    }
    const auto [entry, is_new] = known_.try_emplace(batch);
    if (is_new) entry->second = predict(batch);
    if (!entry->second) return std::nullopt;
    Option option = *entry->second;
    option.tokens = batch * each;
    // More samples nearly always take less time each: waves must do better than just doubling.
    if (batch > now_.batch && option.gain < gain_of_doubled_batch() + kMinGain) return std::nullopt;
    return option;
  }

 private:
  double gain_of_doubled_batch() {
    const auto [entry, is_new] = known_.try_emplace(2 * now_.batch);
    if (is_new) entry->second = predict(2 * now_.batch);
    return entry->second ? entry->second->gain : 0;
  }

  std::optional<Option> predict(std::int64_t batch) const {
    const std::optional<Workload> other = at_batch(input_.workload, batch);
    if (!other) return std::nullopt;
    const BatchPoint then = batch_point(*other, input_.model);
    if (then.memory.fit() == Fit::does_not_fit) return std::nullopt;
    const double samples = to_double(now_.batch) / to_double(batch);
    const Range<Seconds> saving = capped(estimate_saving(now_.sum, then.sum * samples), most_);
    return Option{0, saving, saving.expected / now_.sum.time.expected, batch};
  }

  const RuleInput& input_;
  BatchPoint now_;
  Seconds most_;  // in which SMs have no tile
  std::map<std::int64_t, std::optional<Option>> known_;
};

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

// `batches` is null where the batch is not known.
Neighbours best_neighbours(const RuleInput& input, const std::vector<LayerGroup>& groups,
                           const std::vector<LayerGroup>& partial, BatchOptions* batches) {
  const TokenOptions counts(input, groups);
  Neighbours best;
  for (const LayerGroup& group : std::span(partial).first(std::min(partial.size(), kMostAsked))) {
    const Gemm& gemm = gemm_of(input, group);
    for (const std::int64_t tokens :
         full_wave_counts(*forward_grid(input, group), gemm, input.device().sms)) {
      const auto option = batches != nullptr ? batches->at(tokens, gemm.m) : counts.at(tokens);
      if (!option) continue;
      keep_better(option->tokens < gemm.m ? best.lower : best.upper, *option, gemm.m);
    }
  }
  return best;
}

// By the tile that is expected, or by the one that explains what is saved.
std::string describe(const RuleInput& input, const std::vector<LayerGroup>& partial, double gain) {
  TileGrid grid = *forward_grid(input, partial.front());
  if (gain > 1 - grid.wave_efficiency) grid = worst_grid(input, partial.front().ops.front());
  const bool spreads_waves = input.device().compute_capability >= 90;
  return fmt::format(
      "{}{} tokens make {:.0f} tiles of {}x{} on {} SMs: {:.0f} waves, the last one {} full",
      spreads_waves ? "possible: " : "", gemm_of(input, partial.front()).m, grid.tiles,
      grid.tile.rows, grid.tile.cols, input.device().sms, grid.waves,
      share_text(grid.last_wave_fill));
}

std::string option_text(const Option& option) {
  return fmt::format("{} ({} time per {})", option.batch > 0 ? option.batch : option.tokens,
                     change_text(-option.gain), option.batch > 0 ? "sample" : "token");
}

Fix propose(const RuleInput& input, const Neighbours& best) {
  std::string counts;
  if (best.lower && best.lower->gain > 0) counts = option_text(*best.lower);
  if (best.upper && best.upper->gain > 0) {
    counts += (counts.empty() ? "" : " or ") + option_text(*best.upper);
  }
  const bool training = input.workload.mode == Mode::training;
  const bool known = input.workload.batch.has_value();
  return {known ? fmt::format("Run batch {}", counts)
                : fmt::format("Run {} tokens at a time (batch × sequence)", counts),
          training ? Exactness::changes_training : Exactness::exact_arithmetic};
}

// Of the time per sample; 0 where no much larger batch saves more.
double gain_of_better_batch(const RuleInput& input) {
  if (input.curve == nullptr) return 0;
  const auto better = find_better_batch(*input.curve);
  return better ? better->saving.expected / input.curve->points.front().sum.time.expected : 0;
}

std::optional<Finding> judge(const RuleInput& input, const std::vector<LayerGroup>& groups,
                             BatchOptions* batches) {
  std::vector<LayerGroup> partial;
  for (const LayerGroup& group : groups) {
    if (has_partial_wave(input, group)) partial.push_back(group);
  }
  if (partial.empty()) return std::nullopt;
  std::stable_sort(partial.begin(), partial.end(), [](const LayerGroup& a, const LayerGroup& b) {
    return a.time_share > b.time_share;
  });
  const Neighbours best = best_neighbours(input, groups, partial, batches);
  std::optional<Option> chosen = best.lower;
  if (best.upper) keep_better(chosen, *best.upper, gemm_of(input, groups.front()).m);
  if (!chosen || chosen->gain < std::max(kMinGain, gain_of_better_batch(input))) {
    return std::nullopt;
  }
  Finding finding = finding_at_groups(input, partial, describe(input, partial, chosen->gain),
                                      propose(input, best), chosen->saving);
  finding.evidence = {Evidence::published(
      "a partial last wave costs 22 to 45 % of the throughput on an A100",
      "NVIDIA Matrix Multiplication Background User's Guide, Wave Quantization")};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  // A trace shows the real grids: gemm/idle-last-wave judges them.
  if (!input.workload.traces.empty()) return {};
  std::optional<BatchOptions> batches;
  if (input.workload.batch) batches.emplace(input);
  std::map<std::int64_t, std::vector<LayerGroup>> by_tokens;
  for (LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_layer)) {
    const std::int64_t tokens = gemm_of(input, group).m;
    by_tokens[tokens].push_back(std::move(group));
  }
  std::vector<Finding> findings;
  for (const auto& [tokens, groups] : by_tokens) {
    double share = 0;
    for (const LayerGroup& group : groups) share += group.time_share;
    if (share < threshold::kReported) continue;
    if (std::optional<Finding> finding = judge(input, groups, batches ? &*batches : nullptr)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_partial_last_wave_rule

extern const Rule gemm_partial_last_wave{.id = "gemm/partial-last-wave",
                                         .level = Level::advice,
                                         .cause = Cause::tile_shape,
                                         .summary = "Last wave of thread blocks is nearly empty",
                                         .doc = gemm_partial_last_wave_rule::kDoc,
                                         .in_ops = gemm_partial_last_wave_rule::check};

}  // namespace rooftile
