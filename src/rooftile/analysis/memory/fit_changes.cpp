#include "rooftile/analysis/memory/fit_changes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "rooftile/analysis/memory/spreading.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/workload/precision.h"

namespace rooftile {
namespace {

constexpr std::int64_t kMostGpus = 256;  // beyond, other ways of spreading come first

// Bytes that Adam's two states take for a parameter in blocks of 8 bits, with an fp32 scale for 256
// values. Source: Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (ICLR 2022), and
// the block size of bitsandbytes.
constexpr double kEightBitAdam = 2 * (1 + 4.0 / 256);
constexpr double kFp32Adam = 2 * 4;

// On one GPU and without changing its batch; the cheapest to try first.
constexpr std::array<FitBy, 4> kTrainingChanges{FitBy::chunked_loss, FitBy::checkpointing,
                                                FitBy::autocast, FitBy::eight_bit_states};
constexpr std::array<FitBy, 4> kInferenceChanges{FitBy::half_precision, FitBy::eight_bit_cache,
                                                 FitBy::eight_bits, FitBy::four_bits};
constexpr std::size_t kMostOfOneSize = 3;  // sets of as many changes; more are more of the same

using Set = std::vector<FitBy>;

bool holds(const Set& set, FitBy by) { return std::ranges::count(set, by) > 0; }

// Of a weight; empty of other changes.
std::optional<double> weight_bits(FitBy by) {
  switch (by) {
    case FitBy::half_precision:
      return 16;
    case FitBy::eight_bits:
      return 8;
    case FitBy::four_bits:
      return 4;
    default:
      return std::nullopt;
  }
}

// Sets of so many of the changes, in their order; weights have one width.
std::vector<Set> sets_of(std::size_t size, const Set& changes) {
  std::vector<Set> sets;
  for (unsigned bits = 0; bits < 1U << changes.size(); ++bits) {
    Set set;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if ((bits >> i & 1U) != 0) set.push_back(changes[i]);
    }
    const auto widths =
        std::ranges::count_if(set, [](FitBy by) { return weight_bits(by).has_value(); });
    if (set.size() == size && widths <= 1) sets.push_back(std::move(set));
  }
  return sets;
}

class Search {
 public:
  Search(const Workload& workload, const Analysis& analysis, const TimeModel& model,
         const MemoryEstimate& memory)
      : workload_(workload), analysis_(analysis), model_(model), memory_(memory) {}

  std::vector<FitChange> run() {
    if (memory_.fit() != Fit::does_not_fit) return {};
    try_smaller_batch({});
    const bool is_too_long = found_.empty();
    if (is_too_long && !is_training()) try_shorter_input();
    const Set possible = possible_changes();
    for (std::size_t size = 1; size <= possible.size() && !found_on_one_; ++size) {
      try_sets(size, possible);
    }
    for (std::size_t size = 1; size <= possible.size() && found_.empty(); ++size) {
      for (const Set& set : sets_of(size, possible)) try_smaller_batch(set);
      keep_largest_batches();
    }
    spread_over_gpus(possible);
    // Shorter sequences train another model: what keeps them comes first.
    if (is_too_long && is_training()) try_shorter_input();
    return std::move(found_);
  }

 private:
  bool is_training() const { return workload_.mode == Mode::training; }

  // What stays whatever the batch, and what grows with it, after a set of changes; the cache is
  // part of the latter.
  struct Needs {
    Bytes state, growing, cache;
  };

  Needs needs_after(const Set& set) const {
    Needs needs{memory_.state(), memory_.growing(), memory_.kv_cache.expected};
    if (set.empty()) return needs;
    for (const FitBy by : set) {
      const auto bits = weight_bits(by);
      if (bits) needs.state -= memory_.weights * (1 - *bits / bits_now());
    }
    if (holds(set, FitBy::eight_bit_cache)) {
      needs.cache = memory_.kv_cache.expected * (8 / cache_bits());
      needs.growing -= memory_.kv_cache.expected - needs.cache;
    }
    if (holds(set, FitBy::eight_bit_states)) {
      needs.state -= Bytes(count_parameters(workload_) * (kFp32Adam - kEightBitAdam));
    }
    const bool in_16_bits = holds(set, FitBy::autocast);
    if (in_16_bits) needs.state += storage(count_parameters(workload_), Dtype::fp16);
    const Keeping keeping{holds(set, FitBy::checkpointing), holds(set, FitBy::chunked_loss)};
    const auto kept = kept_activations(in_16_bits ? in_half() : workload_, keeping);
    if (kept && memory_.activations.expected > Bytes()) {
      needs.growing = needs.growing * (*kept / memory_.activations.expected);
    }
    return needs;
  }

  Workload in_half() const {
    Workload half = workload_;
    for (Op& op : half.ops) run_in(Dtype::fp16, op);
    return half;
  }

  // Bits a weight has on average.
  double bits_now() const {
    const double parameters = count_parameters(workload_);
    return parameters > 0 ? 8 * memory_.weights.value() / parameters : 0;
  }

  // Bits a key or value has; 0 without a cache.
  double cache_bits() const {
    if (memory_.kv_cache.expected <= Bytes()) return 0;
    for (const Op& op : workload_.ops) {
      const auto* attention = std::get_if<Attention>(&op.body);
      if (attention != nullptr && op.phase == Phase::forward) {
        return 8 * storage(1, op.dtypes.weight).value();
      }
    }
    return 0;
  }

  Set possible_changes() const {
    Set possible;
    const auto add_if_less = [&](FitBy by) {
      if (!is_possible(by)) return;
      const Needs needs = needs_after({by});
      const bool less = needs.state + needs.growing < memory_.state() + memory_.growing();
      if (less) possible.push_back(by);
    };
    if (is_training()) std::ranges::for_each(kTrainingChanges, add_if_less);
    if (!is_training()) std::ranges::for_each(kInferenceChanges, add_if_less);
    return possible;
  }

  bool is_possible(FitBy by) const {
    // Weights that are stored in about as few bits already stay.
    if (const auto bits = weight_bits(by)) return bits_now() >= 1.5 * *bits;
    switch (by) {
      case FitBy::eight_bit_cache:
        return cache_bits() > 8;
      case FitBy::chunked_loss:
        return kept_activations(workload_, {false, true}).has_value();
      case FitBy::checkpointing:
        return kept_activations(workload_, {true, false}).has_value();
      case FitBy::autocast:
        return weight_dtype() == Dtype::fp32 && model_.device().has_tensor_cores(Dtype::fp16);
      default:
        return uses_adam() &&
               memory_.optimizer.expected.value() >= kFp32Adam * count_parameters(workload_);
    }
  }

  bool uses_adam() const {
    return std::ranges::any_of(workload_.ops, [](const Op& op) {
      const auto* step = std::get_if<OptimizerStep>(&op.body);
      return step != nullptr &&
             (step->fn == OptimizerKind::adam || step->fn == OptimizerKind::adamw);
    });
  }

  double samples() const { return to_double(workload_.batch.value_or(1)); }

  // Fewer samples beside what stays on each GPU; 0 where none fit.
  std::int64_t smaller_batch(Bytes constant, Bytes growing, Fit worst) const {
    const double fitting = samples() * memory_.share_that_fits(constant, growing, worst);
    return static_cast<std::int64_t>(std::min(std::floor(fitting), samples() - 1));
  }

  // Beside a set of other changes: the most samples that leave room, else some that are tight.
  void try_smaller_batch(const Set& with) {
    const Needs needs = needs_after(with);
    const Bytes constant = needs.state + memory_.library;
    for (const Fit worst : {Fit::fits, Fit::tight}) {
      const std::int64_t batch = smaller_batch(constant, needs.growing, worst);
      if (batch < 1) continue;
      Set by{FitBy::smaller_batch};
      by.insert(by.end(), with.begin(), with.end());
      add({.by = by,
           .batch = batch,
           .per_gpu = constant + needs.growing * (to_double(batch) / samples()),
           .cost = cost_of(with)});
      return;
    }
  }

  // Whether all layers see the positions that the workload counts: the two sides of a translation
  // have lengths of their own.
  bool length_is_of_all_layers() const {
    return std::ranges::all_of(workload_.ops, [&](const Op& op) {
      const auto* attention = std::get_if<Attention>(&op.body);
      if (attention == nullptr || op.phase != Phase::forward) return true;
      const bool decode = workload_.mode == Mode::decode;
      return (decode ? attention->kv_len : attention->query_len) >= *workload_.sequence;
    });
  }

  // What grows with the samples grows at least as fast with their length, but for recurrent states.
  void try_shorter_input() {
    if (!workload_.sequence || !length_is_of_all_layers()) return;
    const Bytes state = memory_.recurrent_state.expected;
    const Bytes constant = memory_.state() + memory_.library + state;
    const Bytes growing = memory_.growing() - state;
    const double share = memory_.share_that_fits(constant, growing, Fit::fits);
    const double length = std::floor(to_double(*workload_.sequence) * share);
    // A network trained on a small part of its length is not the one that was wanted.
    constexpr double kLeastTrained = 0.25;
    const double least = is_training() ? to_double(*workload_.sequence) * kLeastTrained : 1;
    if (length < least) return;
    add({.by = {FitBy::shorter_input},
         .length = static_cast<std::int64_t>(length),
         .per_gpu = constant + growing * (length / to_double(*workload_.sequence))});
  }

  void keep_largest_batches() {
    std::ranges::stable_sort(
        found_, [](const FitChange& a, const FitChange& b) { return a.batch > b.batch; });
    if (found_.size() > kMostOfOneSize) found_.resize(kMostOfOneSize);
  }

  void try_sets(std::size_t size, const Set& possible) {
    std::size_t shown = 0;
    for (const Set& set : sets_of(size, possible)) {
      const Needs needs = needs_after(set);
      const Bytes each = needs.state + memory_.library + needs.growing;
      if (each > memory_.usable || shown == kMostOfOneSize) continue;
      add({.by = set, .per_gpu = each, .cost = cost_of(set)});
      found_on_one_ = true;
      ++shown;
    }
  }

  void add(FitChange change) {
    change.fit = memory_.fit_of(change.per_gpu);
    found_.push_back(std::move(change));
  }

  // Forward operations once more, all of their runs.
  template <class Condition>
  Range<Seconds> forward_time(const Condition& is_meant) const {
    Range<Seconds> sum{};
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const Op& op = workload_.ops[i];
      const auto time = known_time(analysis_.ops[i]);
      if (time && op.phase == Phase::forward && is_meant(i)) sum += *time * to_double(op.count);
    }
    return sum;
  }

  // Checkpointed layers compute their forward pass again, a chunked loss at most its logits.
  std::optional<Range<Seconds>> cost_of(const Set& set) const {
    Range<Seconds> cost{};
    bool known = false;
    if (holds(set, FitBy::checkpointing)) {
      cost += forward_time([&](std::size_t i) { return workload_.ops[i].count > 1; });
      known = true;
    }
    const auto head = logits_layer(workload_);
    if (head && holds(set, FitBy::chunked_loss)) {
      cost += forward_time([&](std::size_t i) { return i >= *head; });
      cost.low = Seconds();
      known = true;
    }
    return known ? std::optional(cost) : std::nullopt;
  }

  Dtype weight_dtype() const {
    for (const Op& op : workload_.ops) {
      if (is_matrix_op(op)) return op.dtypes.weight;
    }
    return Dtype::fp32;
  }

  FitBy spreading() const { return is_training() ? FitBy::sharding : FitBy::tensor_parallel; }

  // On each of the GPUs; every process has the workspace of its libraries.
  Needs on_each(const Needs& needs, std::int64_t gpus) const {
    const double share = 1 / to_double(gpus);
    // Sharded states leave each GPU the activations of its own batch.
    if (is_training()) {
      return {needs.state * share + memory_.library, needs.growing, needs.cache};
    }
    // Nodes hold groups of layers, and what one layer computes lives on the GPUs of its node.
    const std::int64_t node = std::min(gpus, kMostLinkedGpus);
    const Bytes cache = needs.cache * (share_of_cache(workload_, node) * to_double(node) * share);
    const Bytes states = memory_.recurrent_state.expected;
    const Bytes live = (needs.growing - needs.cache - states) * (1 / to_double(node));
    return {needs.state * share + memory_.library, live + states * share + cache, cache};
  }

  bool can_spread_over(std::int64_t gpus) const {
    return is_training() || divides_heads(workload_, std::min(gpus, kMostLinkedGpus));
  }

  // Samples that GPUs hold together, for each of them: what a way of spreading costs.
  double samples_per_gpu(const FitChange& change) const {
    const double batch = change.batch > 0 ? to_double(change.batch) : samples();
    return batch / to_double(change.gpus);
  }

  std::optional<Range<Seconds>> spread_cost(const FitChange& change) const {
    if (change.gpus > kMostLinkedGpus || change.batch > 0) return std::nullopt;
    auto cost = is_training() ? sharding_transfers(workload_, model_, change.gpus)
                              : tensor_parallel_sums(workload_, model_, change.gpus);
    const auto more = cost_of(change.by);
    if (cost && more) *cost += *more;
    return cost;
  }

  // Empty where that many are too few.
  std::optional<FitChange> spread_over(std::int64_t gpus, const Set& with) const {
    if (!can_spread_over(gpus)) return std::nullopt;
    const Needs each = on_each(needs_after(with), gpus);
    FitChange change{.by = {spreading()}, .gpus = gpus, .per_gpu = each.state + each.growing};
    change.by.insert(change.by.end(), with.begin(), with.end());
    if (holds(with, FitBy::smaller_batch)) {
      change.batch = smaller_batch(each.state, each.growing, Fit::fits);
      if (change.batch < 1) return std::nullopt;
      change.per_gpu = each.state + each.growing * (to_double(change.batch) / samples());
    } else if (memory_.fit_of(change.per_gpu) != Fit::fits) {
      return std::nullopt;
    }
    change.cost = spread_cost(change);
    if (!is_training()) change.pass_share = 1 / to_double(gpus);
    return change;
  }

  // With the most samples for each GPU: the fewest GPUs, where the batch stays.
  std::optional<FitChange> spread(const Set& with) const {
    std::optional<FitChange> best;
    for (std::int64_t gpus = 2; gpus <= kMostGpus; gpus *= 2) {
      auto change = spread_over(gpus, with);
      if (!change) continue;
      if (!best || samples_per_gpu(*change) > samples_per_gpu(*best)) best = std::move(change);
    }
    return best;
  }

  // Needs no other GPU, nor would one leave more room where it is tight.
  bool fits_on_one(const Set& set) const {
    const Needs needs = needs_after(set);
    const Bytes constant = needs.state + memory_.library;
    if (holds(set, FitBy::smaller_batch)) {
      return smaller_batch(constant, needs.growing, Fit::fits) > 0;
    }
    return memory_.fit_of(constant + needs.growing) == Fit::fits;
  }

  // The fewest GPUs first; of ways with as many changes that take as many, the first.
  std::vector<FitChange> ways_to_spread(std::size_t size, const Set& possible) const {
    std::vector<FitChange> ways;
    for (const Set& set : sets_of(size, possible)) {
      if (fits_on_one(set)) continue;
      auto change = spread(set);
      if (!change) continue;
      const double samples = samples_per_gpu(*change);
      const bool is_known = std::ranges::any_of(
          ways, [&](const FitChange& way) { return samples_per_gpu(way) == samples; });
      if (!is_known) ways.push_back(*std::move(change));
    }
    std::ranges::stable_sort(ways, [&](const FitChange& a, const FitChange& b) {
      return samples_per_gpu(a) > samples_per_gpu(b);
    });
    return ways;
  }

  // Weights and cache fit one GPU, which is what GPUs share: one input is too long.
  bool needs_only_activations() const {
    const Bytes held = memory_.state() + memory_.kv_cache.expected +
                       memory_.recurrent_state.expected + memory_.library;
    return held <= memory_.usable && !found_.empty();
  }

  // More GPUs do not shrink what each keeps for its own batch, nor a latent cache, so other changes
  // come first where nothing fits without them, or where they save half of the GPUs.
  void spread_over_gpus(Set possible) {
    if (!is_training() && needs_only_activations()) return;
    possible.insert(possible.begin(), FitBy::smaller_batch);
    double best = 0;
    for (std::size_t size = 0; size <= possible.size(); ++size) {
      double most = best;
      std::size_t shown = 0;
      for (FitChange& way : ways_to_spread(size, possible)) {
        const double samples = samples_per_gpu(way);
        if (samples < 2 * best || shown == kMostOfOneSize) break;
        most = std::max(most, samples);
        add(std::move(way));
        ++shown;
      }
      best = most;
    }
    try_expert_parallel();
  }

  // The fewest GPUs that hold the experts beside all else, unless fewer share every layer.
  void try_expert_parallel() {
    if (is_training()) return;
    const Needs needs = needs_after({});
    const auto plain = spread({});
    const std::int64_t most = plain ? plain->gpus : kMostGpus;
    for (std::int64_t gpus = 2; gpus <= most; gpus *= 2) {
      const auto placed = place_experts(workload_, model_, gpus);
      if (!placed) return;
      const double left = 1 - placed->expert_share * (1 - 1 / to_double(gpus));
      const double largest_part = std::ceil(samples() / to_double(gpus)) / samples();
      const Bytes each = needs.state * left + memory_.library + needs.growing * largest_part;
      if (memory_.fit_of(each) != Fit::fits) continue;
      FitChange change{.by = {FitBy::expert_parallel}, .gpus = gpus, .per_gpu = each};
      change.pass_share = placed->pass_share;
      if (gpus <= kMostLinkedGpus) change.cost = placed->transfers;
      return add(std::move(change));
    }
  }

  const Workload& workload_;
  const Analysis& analysis_;
  const TimeModel& model_;
  const MemoryEstimate& memory_;
  std::vector<FitChange> found_;
  bool found_on_one_ = false;  // something that keeps the batch, on one GPU
};

}  // namespace

std::string_view to_string(FitBy by) {
  switch (by) {
    case FitBy::shorter_input:
      return "shorter_input";
    case FitBy::smaller_batch:
      return "smaller_batch";
    case FitBy::chunked_loss:
      return "chunked_loss";
    case FitBy::checkpointing:
      return "checkpointing";
    case FitBy::autocast:
      return "autocast";
    case FitBy::eight_bit_states:
      return "eight_bit_states";
    case FitBy::half_precision:
      return "half_precision";
    case FitBy::eight_bit_cache:
      return "eight_bit_cache";
    case FitBy::eight_bits:
      return "eight_bits";
    case FitBy::four_bits:
      return "four_bits";
    case FitBy::sharding:
      return "sharding";
    case FitBy::tensor_parallel:
      return "tensor_parallel";
    case FitBy::expert_parallel:
      break;
  }
  return "expert_parallel";
}

bool FitChange::uses(FitBy one) const { return holds(by, one); }

std::vector<FitChange> changes_that_fit(const Workload& workload, const Analysis& analysis,
                                        const TimeModel& model, const MemoryEstimate& memory) {
  return Search(workload, analysis, model, memory).run();
}

}  // namespace rooftile
