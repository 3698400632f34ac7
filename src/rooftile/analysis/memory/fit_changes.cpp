#include "rooftile/analysis/memory/fit_changes.h"

#include <algorithm>
#include <array>
#include <cmath>

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
    const Set possible = possible_changes();
    for (std::size_t size = 1; size <= possible.size() && !found_on_one_; ++size) {
      try_sets(size, possible);
    }
    for (std::size_t size = 1; size <= possible.size() && found_.empty(); ++size) {
      for (const Set& set : sets_of(size, possible)) try_smaller_batch(set);
      keep_largest_batches();
    }
    spread_over_gpus(is_training() ? FitBy::sharding : FitBy::tensor_parallel);
    return std::move(found_);
  }

 private:
  bool is_training() const { return workload_.mode == Mode::training; }

  // What stays whatever the batch, and what grows with it, after a set of changes.
  struct Needs {
    Bytes state, growing;
  };

  Needs needs_after(const Set& set) const {
    Needs needs{memory_.state(), memory_.growing()};
    if (set.empty()) return needs;
    for (const FitBy by : set) {
      const auto bits = weight_bits(by);
      if (bits) needs.state -= memory_.weights * (1 - *bits / bits_now());
    }
    if (holds(set, FitBy::eight_bit_cache)) {
      needs.growing -= memory_.kv_cache.expected * (1 - 8 / cache_bits());
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

  // Fewer samples beside a set of other changes: the most that leave room, else one that is tight.
  void try_smaller_batch(const Set& with) {
    if (!workload_.batch || *workload_.batch <= 1) return;
    const Needs needs = needs_after(with);
    const Bytes constant = needs.state + memory_.library;
    const double now = to_double(*workload_.batch);
    for (const Fit worst : {Fit::fits, Fit::tight}) {
      const double samples = now * memory_.share_that_fits(constant, needs.growing, worst);
      const auto batch = static_cast<std::int64_t>(std::min(std::floor(samples), now - 1));
      if (batch < 1) continue;
      add({.by = FitBy::smaller_batch,
           .amount = batch,
           .with = with,
           .per_gpu = constant + needs.growing * (to_double(batch) / now),
           .cost = cost_of(with)});
      return;
    }
  }

  void keep_largest_batches() {
    std::ranges::stable_sort(
        found_, [](const FitChange& a, const FitChange& b) { return a.amount > b.amount; });
    if (found_.size() > kMostOfOneSize) found_.resize(kMostOfOneSize);
  }

  void try_sets(std::size_t size, const Set& possible) {
    std::size_t shown = 0;
    for (const Set& set : sets_of(size, possible)) {
      const Needs needs = needs_after(set);
      const Bytes each = needs.state + memory_.library + needs.growing;
      if (each > memory_.usable || shown == kMostOfOneSize) continue;
      add({.by = set.front(),
           .with = Set(set.begin() + 1, set.end()),
           .per_gpu = each,
           .cost = cost_of(set)});
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

  std::optional<Range<Seconds>> collective(CollectiveKind kind, double elements, Dtype dtype,
                                           std::int64_t gpus, double times) const {
    Op op;
    const Link link = model_.device().nvlink_bandwidth ? Link::nvlink : Link::pcie;
    op.body = Collective{kind, std::llround(std::min(elements, 9e15)), gpus, link};
    op.dtypes = Dtypes(dtype);
    const auto time = model_.estimate(op);
    return time ? std::optional(time->time * times) : std::nullopt;
  }

  Dtype weight_dtype() const {
    for (const Op& op : workload_.ops) {
      if (is_matrix_op(op)) return op.dtypes.weight;
    }
    return Dtype::fp32;
  }

  // Weights are gathered for the forward and again for the backward pass; gradients are reduced.
  std::optional<Range<Seconds>> sharding_cost(std::int64_t gpus) const {
    const double parameters = count_parameters(workload_);
    const auto gather = collective(CollectiveKind::all_gather, parameters, weight_dtype(), gpus, 2);
    const auto reduce =
        collective(CollectiveKind::reduce_scatter, parameters, weight_dtype(), gpus, 1);
    if (!gather || !reduce) return std::nullopt;
    return *gather + *reduce;
  }

  // Two sums over all GPUs a layer: behind the attention and behind the feed-forward block.
  std::optional<Range<Seconds>> tensor_parallel_cost(std::int64_t gpus) const {
    Range<Seconds> sum{};
    bool known = false;
    for (const Op& op : workload_.ops) {
      const auto* attention = std::get_if<Attention>(&op.body);
      if (attention == nullptr || op.phase != Phase::forward) continue;
      const double elements = to_double(attention->batch) * to_double(attention->query_len) *
                              to_double(attention->heads) * to_double(attention->value_dim);
      const auto time = collective(CollectiveKind::all_reduce, elements, op.dtypes.output, gpus,
                                   2 * to_double(op.count));
      if (!time) return std::nullopt;
      sum += *time;
      known = true;
    }
    return known ? std::optional(sum) : std::nullopt;
  }

  // Every process has the workspace of its libraries.
  Bytes on_each(FitBy by, std::int64_t gpus, Bytes growing) const {
    const double share = 1 / to_double(gpus);
    // Sharded states leave each GPU the activations of its own batch.
    if (by == FitBy::sharding) return memory_.state() * share + memory_.library + growing;
    // Keys and values are spread by heads, so every GPU holds all of a latent cache.
    const Bytes cache = memory_.kv_cache.expected;
    const double heads = to_double(std::min(gpus, fewest_cached_heads()));
    return (memory_.state() + growing - cache) * share + memory_.library + cache / heads;
  }

  std::int64_t fewest_cached_heads() const {
    std::int64_t fewest = kMostGpus;
    for (const Op& op : workload_.ops) {
      const auto* attention = std::get_if<Attention>(&op.body);
      if (attention != nullptr && op.phase == Phase::forward) {
        fewest = std::min(fewest, attention->kv_heads);
      }
    }
    return std::max<std::int64_t>(fewest, 1);
  }

  // The fewest GPUs that leave room.
  std::optional<FitChange> spread(FitBy by, const Set& with) const {
    const Bytes growing = needs_after(with).growing;
    for (std::int64_t gpus = 2; gpus <= kMostGpus; gpus *= 2) {
      const Bytes each = on_each(by, gpus, growing);
      if (memory_.fit_of(each) != Fit::fits) continue;
      auto cost = by == FitBy::sharding ? sharding_cost(gpus) : tensor_parallel_cost(gpus);
      const auto more = cost_of(with);
      if (cost && more) *cost += *more;
      return FitChange{.by = by, .amount = gpus, .with = with, .per_gpu = each, .cost = cost};
    }
    return std::nullopt;
  }

  // More GPUs do not shrink what each keeps for its own batch, so that is made smaller first where
  // it saves GPUs.
  void spread_over_gpus(FitBy by) {
    std::optional<FitChange> fewest = spread(by, {});
    const bool can_recompute = is_training() && is_possible(FitBy::checkpointing);
    const auto recomputed =
        can_recompute ? spread(by, {FitBy::checkpointing}) : std::optional<FitChange>();
    if (recomputed && (!fewest || 2 * recomputed->amount < fewest->amount)) fewest = recomputed;
    if (fewest) add(*fewest);
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
      break;
  }
  return "tensor_parallel";
}

bool FitChange::uses(FitBy other) const { return by == other || holds(with, other); }

std::vector<FitChange> changes_that_fit(const Workload& workload, const Analysis& analysis,
                                        const TimeModel& model, const MemoryEstimate& memory) {
  return Search(workload, analysis, model, memory).run();
}

}  // namespace rooftile
