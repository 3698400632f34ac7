// Recurrent layers that miss cuDNN's persistent algorithm by one setting.
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace recurrent_one_change_from_persistent_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A recurrent layer for which PyTorch selects cuDNN's standard algorithm, although one change of its
settings would make it select a persistent one: batch size, input size, hidden size, both widths to the
next multiples of 128, fp16 for bf16, or separate modules for stacked layers or directions.

## Why it costs time
The standard algorithm runs a GEMM for each time step and loads the recurrent weights again.
The persistent ones keep the weights in registers or shared memory over all steps.

PyTorch's condition for the static persistent algorithm: fp16, not packed, no projection, one layer, one
direction, hidden size a multiple of 128 and at most 1024, input size a multiple of 128. Then on Volta:
batch a multiple of 16 but not 80 or 112, or 8, with at least 40 steps for batch 128, 20 for 96, 10 for
32. On Turing never. On Ampere and newer with at least 98 SMs (not compute capability 8.6): LSTM with a
batch that is a multiple of 8 up to 128; tanh and ReLU cells the same, except batch 96 and more with
hidden 896 and more; GRU never. A second persistent algorithm for small layers takes every precision but
fp64 up to hidden size 192 (LSTM, GRU) or 384 (RNN).

## How to fix
Make the change that the finding names. It is the one that saves most; changes that keep the model
exactly as it is come first. A wider layer keeps a trained model: zero weights and biases hold the added
units of LSTM, GRU, tanh and ReLU cells at zero, and the layer before pads its output.

## How the saving is estimated
The time model runs on the changed layer, in every phase the workload has, with PyTorch's choice of
algorithm. Another batch is compared per sample.

## When not to
- The condition is PyTorch's, and it changes with versions of PyTorch and cuDNN. Measure.
- Layers that need several changes, such as another batch and another width, are not reported.
- Separate modules for stacked layers need the dropout between layers added again.
- fp16 in place of bf16 needs loss scaling.

## Evidence
- PyTorch, aten/src/ATen/native/cudnn/RNN.cpp: `get_algo`, `use_persist_common_heuristics`,
  `use_persist_device_heuristics`.
- NVIDIA, Recurrent Layers User's Guide, "Persistence".
)md";

bool is_standard_recurrent(const RuleInput& input, const Op& op) {
  const auto* rnn = std::get_if<Recurrent>(&op.body);
  return rnn != nullptr && rnn->seq > 1 &&
         cudnn_rnn_algorithm(*rnn, op.dtypes.input, input.device()).forward ==
             RnnAlgorithm::standard;
}

// One way to the persistent algorithm. The layer becomes `runs` modules like `layer`, and the
// first of them may read another width.
struct Proposal {
  Recurrent layer;
  Dtype dtype;
  std::string text;
  Exactness exactness;
  double runs = 1;     // modules in place of one
  double samples = 1;  // present batch, or a hidden size that shrinks, over the proposed one
};

bool becomes_persistent(const RuleInput& input, const Proposal& proposal) {
  return cudnn_rnn_algorithm(proposal.layer, proposal.dtype, input.device()).forward !=
         RnnAlgorithm::standard;
}

class Proposals {
 public:
  Proposals(const RuleInput& input, const Op& op)
      : input_(input), rnn_(std::get<Recurrent>(op.body)), dtype_(op.dtypes.input) {
    split_layers();
    split_directions();
    pad_input();
    change_hidden();
    pad_both_widths();
    change_batch();
    change_dtype();
  }

  const std::vector<Proposal>& all() const { return all_; }

 private:
  // A proposal that changes nothing, or is not enough, leaves the standard algorithm.
  void add_if_persistent(Proposal proposal) {
    if (becomes_persistent(input_, proposal)) all_.push_back(std::move(proposal));
  }

  Proposal proposal(const Recurrent& layer, std::string text, Exactness exactness) const {
    return {layer, dtype_, std::move(text), exactness};
  }

  void split_layers() {
    Recurrent one = rnn_;
    one.layers = 1;
    Proposal split = proposal(one,
                              fmt::format("Use {} modules of one layer each in place of one with "
                                          "num_layers={}; add dropout between them again.",
                                          rnn_.layers, rnn_.layers),
                              Exactness::exact_arithmetic);
    split.runs = static_cast<double>(rnn_.layers);
    add_if_persistent(std::move(split));
  }

  void split_directions() {
    Recurrent one = rnn_;
    one.directions = 1;
    Proposal split =
        proposal(one, "Use two one-directional modules, the second on the reversed sequence.",
                 Exactness::exact_arithmetic);
    split.runs = 2;
    add_if_persistent(std::move(split));
  }

  void pad_input() {
    Recurrent padded = rnn_;
    padded.input = round_up(rnn_.input, kWidthStep);
    if (padded.input > rnn_.input * 3 / 2) return;
    add_if_persistent(proposal(
        padded,
        fmt::format("Pad the input from {} to {} features with zeros.", rnn_.input, padded.input),
        Exactness::exact_arithmetic));
  }

  // The nearest hidden sizes that the static and the small algorithm take.
  void change_hidden() {
    for (const std::int64_t hidden :
         {round_up(rnn_.hidden, kWidthStep), rnn_.hidden / kWidthStep * kWidthStep,
          std::int64_t{192}, std::int64_t{384}}) {
      const bool is_near = 8 * std::abs(hidden - rnn_.hidden) <= rnn_.hidden;
      if (!is_near) continue;
      Recurrent changed = rnn_;
      changed.hidden = hidden;
      const bool padded = hidden > rnn_.hidden;
      Proposal other =
          proposal(changed,
                   fmt::format("Use hidden size {} instead of {} ({}).", hidden, rnn_.hidden,
                               padded ? "zero weights keep trained layers as they are"
                                      : "the saving is per unit of width"),
                   padded ? Exactness::exact_arithmetic : Exactness::changes_training);
      // A smaller layer does less; that is no saving.
      other.samples = std::max(1.0, to_double(rnn_.hidden) / to_double(hidden));
      add_if_persistent(std::move(other));
    }
  }

  // Input and hidden size to their next multiples, at most half as large again: one change of a
  // model that has one width, as most have.
  void pad_both_widths() {
    Recurrent padded = rnn_;
    padded.input = round_up(rnn_.input, kWidthStep);
    padded.hidden = round_up(rnn_.hidden, kWidthStep);
    const bool is_near = 2 * padded.input <= 3 * rnn_.input && 2 * padded.hidden <= 3 * rnn_.hidden;
    if (!is_near || padded.input == rnn_.input || padded.hidden == rnn_.hidden) return;
    const std::string widths =
        rnn_.input == rnn_.hidden
            ? fmt::format("input and hidden size {} instead of {}", padded.hidden, rnn_.hidden)
            : fmt::format("input size {} instead of {} and hidden size {} instead of {}",
                          padded.input, rnn_.input, padded.hidden, rnn_.hidden);
    add_if_persistent(proposal(
        padded, fmt::format("Use {} (zero weights keep trained layers as they are).", widths),
        Exactness::exact_arithmetic));
  }

  // The nearest batch, larger first, at most half as large again.
  void change_batch() {
    const std::int64_t reach = std::min<std::int64_t>(rnn_.batch / 2, kMaxBatch);
    for (std::int64_t distance = 1; distance <= reach; ++distance) {
      for (const std::int64_t batch : {rnn_.batch + distance, rnn_.batch - distance}) {
        Recurrent changed = rnn_;
        changed.batch = batch;
        Proposal other =
            proposal(changed, fmt::format("Use batch {} instead of {}.", batch, rnn_.batch),
                     input_.workload.mode == Mode::training ? Exactness::changes_training
                                                            : Exactness::exact_arithmetic);
        other.samples = static_cast<double>(rnn_.batch) / static_cast<double>(batch);
        if (!becomes_persistent(input_, other)) continue;
        all_.push_back(std::move(other));
        return;
      }
    }
  }

  void change_dtype() {
    if (dtype_ != Dtype::bf16) return;
    Proposal half = proposal(rnn_, "Run this layer in fp16 instead of bf16, with loss scaling.",
                             Exactness::changes_numerics);
    half.dtype = Dtype::fp16;
    add_if_persistent(std::move(half));
  }

  static constexpr std::int64_t kWidthStep = 128;
  static constexpr std::int64_t kMaxBatch = 128;

  const RuleInput& input_;
  const Recurrent& rnn_;
  Dtype dtype_;
  std::vector<Proposal> all_;
};

// Later modules of a stack read the hidden state of the one before.
std::optional<TimeEstimate> time_of_proposal(const RuleInput& input, const Op& op,
                                             const Proposal& proposal) {
  Op changed = op;
  changed.body = proposal.layer;
  changed.dtypes = proposal.dtype == op.dtypes.input ? op.dtypes : Dtypes(proposal.dtype);
  const auto first = input.model.estimate(changed);
  if (!first) return std::nullopt;
  const bool stacked = std::get<Recurrent>(op.body).layers > 1;
  if (stacked) std::get<Recurrent>(changed.body).input = proposal.layer.hidden;
  const auto later = input.model.estimate(changed);
  if (!later) return std::nullopt;
  return (*first + *later * (proposal.runs - 1)) * proposal.samples;
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const LayerGroup& layer,
                                        const Proposal& proposal) {
  Range<Seconds> sum{};
  for (const std::size_t op : layer.ops) {
    const auto after = time_of_proposal(input, input.workload.ops[op], proposal);
    const auto& before = input.analysis.ops[op].time;
    if (!before || !after) return std::nullopt;
    sum += estimate_saving(*before, *after) * static_cast<double>(input.workload.ops[op].count);
  }
  return sum;
}

struct Best {
  const Proposal* proposal = nullptr;
  Range<Seconds> saving{};
};

bool keeps_model(const Proposal& proposal) {
  return proposal.exactness == Exactness::exact_arithmetic;
}

Best best_proposal(const RuleInput& input, const LayerGroup& layer, const Proposals& proposals) {
  Best best;
  for (const Proposal& proposal : proposals.all()) {
    const auto saving = saving_of(input, layer, proposal);
    if (!is_gain(input, saving)) continue;
    const bool is_better = best.proposal == nullptr ||
                           std::pair(keeps_model(proposal), saving->expected) >
                               std::pair(keeps_model(*best.proposal), best.saving.expected);
    if (is_better) best = {&proposal, *saving};
  }
  return best;
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_standard_recurrent(input, op); };
  for (const LayerGroup& layer : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (!matters(layer)) continue;
    const Op& op = input.workload.ops[layer.ops.front()];
    const Proposals proposals(input, op);
    const Best best = best_proposal(input, layer, proposals);
    if (best.proposal == nullptr) continue;
    const auto& rnn = std::get<Recurrent>(op.body);
    Finding finding = finding_at_groups(
        input, {layer},
        fmt::format("PyTorch runs this layer (batch {}, input {}, hidden {}, {}) with cuDNN's "
                    "standard algorithm; one change lets it use a persistent one.",
                    rnn.batch, rnn.input, rnn.hidden, to_string(op.dtypes.input)),
        {best.proposal->text, best.proposal->exactness}, best.saving);
    finding.evidence = {
        Evidence::published("the condition with cuDNN 8.2.1 or newer",
                            "PyTorch, aten/src/ATen/native/cudnn/RNN.cpp, get_algo")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace recurrent_one_change_from_persistent_rule

extern const Rule recurrent_one_change_from_persistent{
    .id = "recurrent/one-change-from-persistent",
    .level = Level::advice,
    .cause = Cause::launch,
    .summary = "One setting keeps a recurrent layer from cuDNN's persistent algorithm",
    .doc = recurrent_one_change_from_persistent_rule::kDoc,
    .in_ops = recurrent_one_change_from_persistent_rule::check};

}  // namespace rooftile
