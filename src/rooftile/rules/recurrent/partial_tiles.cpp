// The last hidden units of a recurrent layer, whose gates begin another column of tiles.
#include <fmt/format.h>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace recurrent_partial_tiles_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A math-bound recurrent layer on cuDNN's standard algorithm whose hidden size is aligned but not a
multiple of 64, and whose last units take at least one and a half times as much of the time as of the
work. Information.

## Why it costs time
Each step multiplies the hidden state by the weights of all gates at once: 4 * 520 = 2080 columns for an
LSTM. They are computed in tiles of 64, 128 or 256 columns, and the last tile costs as much as a full
one. The hidden size is also the inner dimension of that GEMM, so it counts twice.

## How to fix
For the next model choose the multiple of 64 below or above.

## How the saving is estimated
The time model runs on the layer at both multiples of 64, in every phase the workload has. The saving
is at equal width: time per hidden unit times the present size. It is reported when the units above the
lower multiple take at least one and a half times their share of the flop, so what counts is the waste
and not the smaller layer. (The recurrent weights grow with the square of the size.)

## When not to
- A trained model: dropping units changes it, and zero padding adds no useful work.
- Wide layers usually waste little: 8 units above a multiple of 64 are 1.5 % of 520 and 0.4 % of 2056.
- Persistent algorithms have other tiles; `recurrent/one-change-from-persistent` covers the way there.
- Layers below a batch of about 128 or a hidden size of 256 wait for memory or launches.

## Evidence
- NVIDIA, Recurrent Layers User's Guide, checklist for the standard implementation: minibatch and hidden
  sizes divisible by at least 64, ideally 256, for tiling efficiency.
- NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization".
)md";

constexpr std::int64_t kTileSide = 64;
// Share of the time over share of the flop, from which on it is waste: above the error of a
// difference between neighbouring sizes.
constexpr double kMinTimePerWork = 1.5;

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

// What the units above the multiple of 64 below take of the layer.
struct Rest {
  std::int64_t units = 0;
  double time = 0, flop = 0;  // shares
};

std::optional<Rest> rest_of(const RuleInput& input, const LayerGroup& layer) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const std::int64_t hidden = std::get<Recurrent>(op.body).hidden;
  const std::int64_t fewer = hidden / kTileSide * kTileSide;
  const auto saving =
      saving_if_all(input, layer, [&](const Op& one) { return with_hidden(one, fewer); });
  if (!saving) return std::nullopt;
  return Rest{hidden - fewer, saving->expected / total_time(input, layer).time.expected,
              1 - count_cost(with_hidden(op, fewer)).flop / count_cost(op).flop};
}

Finding waste_at(const RuleInput& input, const LayerGroup& layer,
                 const std::vector<WidthOption>& options, const Rest& rest) {
  const std::int64_t hidden =
      std::get<Recurrent>(input.workload.ops[layer.ops.front()].body).hidden;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("Hidden size {} is not a multiple of {}: the last {} units are {} of the "
                  "work and take {} of the time.",
                  hidden, kTileSide, rest.units, share_text(rest.flop), share_text(rest.time)),
      {fmt::format("In the next model choose hidden size {} instead of {}.",
                   width_options_text(options, total_time(input, layer).time.expected), hidden),
       Exactness::changes_training},
      best_saving(options));
  finding.evidence = {
      Evidence::published("Hidden sizes divisible by at least 64 for tiling efficiency",
                          "NVIDIA Recurrent Layers User's Guide, checklist")};
  return finding;
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
    const auto rest = rest_of(input, layer);
    if (!rest || rest->time < kMinTimePerWork * rest->flop) continue;
    const auto options = tile_edges(input, layer, hidden, kTileSide, with_hidden);
    if (options.empty() || !is_gain(input, best_saving(options))) continue;
    findings.push_back(waste_at(input, layer, options, *rest));
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
    .in_ops = recurrent_partial_tiles_rule::check};

}  // namespace rooftile
