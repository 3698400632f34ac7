// The last hidden units of a recurrent layer, whose gates begin another column of tiles.
#include <fmt/format.h>

#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace recurrent_partial_tiles_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A math-bound recurrent layer on cuDNN's standard algorithm whose hidden size is aligned but not a
multiple of 64, and whose last units cost at least twice their share of the time. Information.

## Why it costs time
Each step multiplies the hidden state by the weights of all gates at once: 4 * 520 = 2080 columns for an
LSTM. They are computed in tiles of 64, 128 or 256 columns, and the last tile costs as much as a full
one. The hidden size is also the inner dimension of that GEMM, so it counts twice.

## How to fix
For the next model choose the multiple of 64 below or above.

## How the saving is estimated
The time model runs on the layer at both multiples of 64, in every phase the workload has. The saving
is at equal work: time per hidden unit times the present size. It is reported when the units above the
lower multiple take at least twice their share of the time, so what counts is the waste and not the
smaller layer.

## When not to
- A trained model: dropping units changes it, and zero padding adds no useful work.
- Wide layers waste little: 8 units above a multiple of 64 are 1.5 % of 520 and 0.4 % of 2056.
- Persistent algorithms have other tiles; `recurrent/one-change-from-persistent` covers the way there.
- Layers below a batch of about 128 or a hidden size of 256 wait for memory or launches.

## Evidence
- NVIDIA, Recurrent Layers User's Guide, checklist for the standard implementation: minibatch and hidden
  sizes divisible by at least 64, ideally 256, for tiling efficiency.
- NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization".
)md";

constexpr std::int64_t kTileSide = 64;
// Share of the time over share of the units, from which on it is waste.
constexpr double kMinTimePerUnit = 2;

Op with_hidden(const Op& op, std::int64_t hidden) {
  Op changed = op;
  std::get<Recurrent>(changed.body).hidden = hidden;
  return changed;
}

bool is_standard(const RuleInput& input, const Op& op) {
  const auto& rnn = std::get<Recurrent>(op.body);
  return cudnn_rnn_algorithm(rnn, op.dtypes.input, input.device()) == RnnChoice{};
}

bool is_candidate(const RuleInput& input, const Op& op) {
  const auto* rnn = std::get_if<Recurrent>(&op.body);
  return rnn != nullptr && rnn->hidden > kTileSide && rnn->hidden % kTileSide != 0 &&
         rnn->seq > 1 && is_standard(input, op) &&
         is_standard(input, with_hidden(op, rnn->hidden / kTileSide * kTileSide));
}

// The GEMM of each step decides: that over all steps is wide enough in any case.
bool has_math_bound_steps(const RuleInput& input, const OpAnalysis& analysis) {
  for (const MatrixProduct& product : analysis.products) {
    if (product.part != "recurrent") continue;
    return input.device().has_tensor_cores(product.math) && is_math_bound(input, product);
  }
  return false;
}

Finding waste_at(const RuleInput& input, const LayerGroup& layer,
                 const std::vector<WidthOption>& options, double rest_share) {
  const std::int64_t hidden =
      std::get<Recurrent>(input.workload.ops[layer.ops.front()].body).hidden;
  const std::int64_t rest = hidden % kTileSide;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("Hidden size {} is not a multiple of {}: the last {} units are {:.1f} % of the "
                  "layer and take {:.1f} % of its time.",
                  hidden, kTileSide, rest,
                  100.0 * static_cast<double>(rest) / static_cast<double>(hidden),
                  100 * rest_share),
      {fmt::format("In the next model choose hidden size {} instead of {}.",
                   width_options_text(options, total_time(input, layer).time.expected), hidden),
       Exactness::changes_training},
      best_saving(options));
  finding.evidence = {
      "Hidden sizes divisible by at least 64 for tiling efficiency (NVIDIA Recurrent Layers User's "
      "Guide, checklist)."};
  return finding;
}

// Share of the layer's time that the units above the multiple of 64 below take.
double share_of_rest(const RuleInput& input, const LayerGroup& layer, std::int64_t fewer) {
  const auto saving =
      saving_if_all(input, layer, [&](const Op& op) { return with_hidden(op, fewer); });
  return saving ? saving->expected / total_time(input, layer).time.expected : 0;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_candidate(input, op); };
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, wanted)) {
    const std::size_t first = layer.ops.front();
    const std::int64_t hidden = std::get<Recurrent>(input.workload.ops[first].body).hidden;
    const OpAnalysis& analysis = input.analysis.ops[first];
    if (!matters(layer) || !has_math_bound_steps(input, analysis)) continue;
    if (hidden % alignment_elements(analysis.products.front().math) != 0) continue;
    const std::int64_t rest = hidden % kTileSide;
    const double unit_share = static_cast<double>(rest) / static_cast<double>(hidden);
    const double rest_share = share_of_rest(input, layer, hidden - rest);
    if (rest_share < kMinTimePerUnit * unit_share) continue;
    const auto options = tile_edges(input, layer, hidden, kTileSide, with_hidden);
    if (options.empty() || !is_gain(input, best_saving(options))) continue;
    findings.push_back(waste_at(input, layer, options, rest_share));
  }
  return findings;
}

}  // namespace recurrent_partial_tiles_rule

extern const Rule recurrent_partial_tiles{
    .id = "recurrent/partial-tiles",
    .level = Level::info,
    .cause = Cause::tile_shape,
    .summary = "A hidden size that is not a multiple of 64 leaves tiles partly empty",
    .doc = recurrent_partial_tiles_rule::kDoc,
    .check = recurrent_partial_tiles_rule::check};

}  // namespace rooftile
