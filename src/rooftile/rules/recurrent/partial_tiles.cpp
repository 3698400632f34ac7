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
The time model runs on the layer with its hidden size rounded down to a multiple of 64, in every phase
the workload has. It is reported when the share of time saved is at least twice the share of units
removed: what counts is the waste and not the smaller layer.

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
// Time saved over units removed, both as shares; as conv/channels-not-multiple-of-64 has it.
constexpr double kMinGainPerUnit = 2;

Op with_hidden(Op op, std::int64_t hidden) {
  std::get<Recurrent>(op.body).hidden = hidden;
  return op;
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

Finding waste_at(const RuleInput& input, const LayerGroup& layer, std::int64_t fewer,
                 const Range<Seconds>& saving, double saved_share) {
  const std::size_t first = layer.ops.front();
  const auto& rnn = std::get<Recurrent>(input.workload.ops[first].body);
  const std::int64_t removed = rnn.hidden - fewer;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("The last {} of {} hidden units are {:.1f} % of the layer and cost {:.1f} % of "
                  "its time: the gates do not fill their last tiles.",
                  removed, rnn.hidden,
                  100.0 * static_cast<double>(removed) / static_cast<double>(rnn.hidden),
                  100 * saved_share),
      {fmt::format("In the next model choose hidden size {} or {}.", fewer, fewer + kTileSide),
       Exactness::changes_training},
      saving);
  finding.evidence = {
      "Hidden sizes divisible by at least 64 for tiling efficiency (NVIDIA Recurrent Layers User's "
      "Guide, checklist)."};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_candidate(input, op); };
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, wanted)) {
    const std::size_t first = layer.ops.front();
    const auto& rnn = std::get<Recurrent>(input.workload.ops[first].body);
    const OpAnalysis& analysis = input.analysis.ops[first];
    if (!matters(layer) || !has_math_bound_steps(input, analysis)) continue;
    if (rnn.hidden % alignment_elements(analysis.products.front().math) != 0) continue;
    const std::int64_t fewer = rnn.hidden / kTileSide * kTileSide;
    const auto saving =
        saving_if_all(input, layer, [&](const Op& op) { return with_hidden(op, fewer); });
    if (!is_gain(input, saving)) continue;
    const double saved = saving->expected / total_time(input, layer).time.expected;
    const double removed = 1 - static_cast<double>(fewer) / static_cast<double>(rnn.hidden);
    if (saved < kMinGainPerUnit * removed) continue;
    findings.push_back(waste_at(input, layer, fewer, *saving, saved));
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
