#include "rooftile/analysis/memory/fit_changes.h"

#include <algorithm>
#include <cmath>

namespace rooftile {
namespace {

constexpr std::int64_t kMostGpus = 1024;

class Search {
 public:
  Search(const Workload& workload, const Analysis& analysis, const TimeModel& model,
         const MemoryEstimate& memory)
      : workload_(workload), analysis_(analysis), model_(model), memory_(memory) {}

  std::vector<FitChange> run() {
    if (memory_.fit() == Fit::does_not_fit) {
      try_smaller_batch();
      if (is_training()) {
        try_checkpointing();
        spread_over_gpus(FitBy::sharding);
      } else {
        try_fewer_bits();
        spread_over_gpus(FitBy::tensor_parallel);
      }
    }
    return std::move(found_);
  }

 private:
  bool is_training() const { return workload_.mode == Mode::training; }
  Bytes total() const { return memory_.total().expected; }
  Bytes growing() const { return total() - memory_.state(); }

  void try_smaller_batch() {
    const auto most = largest_batch(workload_, memory_);
    if (!most || *most < 1) return;
    const double share = to_double(*most) / to_double(*workload_.batch);
    found_.push_back({FitBy::smaller_batch, *most, false, memory_.state() + growing() * share, {}});
  }

  // Of everything that grows with the batch.
  std::optional<Bytes> checkpointed() const {
    const auto kept = checkpointed_activations(workload_);
    if (!kept || *kept >= memory_.activations.expected) return std::nullopt;
    return growing() - memory_.activations.expected + *kept;
  }

  // The forward pass once more.
  Range<Seconds> forward_time() const {
    Range<Seconds> sum{};
    for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
      const auto time = known_time(analysis_.ops[i]);
      if (time && workload_.ops[i].phase == Phase::forward) {
        sum += *time * to_double(workload_.ops[i].count);
      }
    }
    return sum;
  }

  void try_checkpointing() {
    const auto kept = checkpointed();
    if (!kept || memory_.state() + *kept > memory_.usable) return;
    found_.push_back({FitBy::checkpointing, 0, true, memory_.state() + *kept, forward_time()});
  }

  // Bits a weight has on average.
  double weight_bits() const {
    const double parameters = count_parameters(workload_);
    return parameters > 0 ? 8 * memory_.weights.value() / parameters : 0;
  }

  void try_fewer_bits() {
    struct Choice {
      FitBy by;
      double bits;
    };
    for (const Choice& choice : {Choice{FitBy::half_precision, 16}, Choice{FitBy::eight_bits, 8},
                                 Choice{FitBy::four_bits, 4}}) {
      if (weight_bits() < 1.5 * choice.bits) continue;  // they are stored in no more already
      const Bytes saved = memory_.weights * (1 - choice.bits / weight_bits());
      if (total() - saved <= memory_.usable) {
        found_.push_back({choice.by, 0, false, total() - saved, {}});
      }
    }
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

  Bytes on_each(FitBy by, std::int64_t gpus, Bytes growing) const {
    const double share = 1 / to_double(gpus);
    // Sharded states leave each GPU the activations of its own batch.
    if (by == FitBy::sharding) return memory_.state() * share + growing;
    // Keys and values are spread by heads, so every GPU holds all of a latent cache.
    const Bytes cache = memory_.kv_cache.expected;
    const double heads = to_double(std::min(gpus, fewest_cached_heads()));
    return (memory_.state() + growing - cache) * share + cache / heads;
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

  bool spread(FitBy by, Bytes growing, bool with_checkpointing) {
    for (std::int64_t gpus = 2; gpus <= kMostGpus; gpus *= 2) {
      const Bytes each = on_each(by, gpus, growing);
      if (each > memory_.usable) continue;
      auto cost = by == FitBy::sharding ? sharding_cost(gpus) : tensor_parallel_cost(gpus);
      if (cost && with_checkpointing) *cost += forward_time();
      found_.push_back({by, gpus, with_checkpointing, each, cost});
      return true;
    }
    return false;
  }

  void spread_over_gpus(FitBy by) {
    if (spread(by, growing(), false) || !is_training()) return;
    if (const auto kept = checkpointed()) spread(by, *kept, true);
  }

  const Workload& workload_;
  const Analysis& analysis_;
  const TimeModel& model_;
  const MemoryEstimate& memory_;
  std::vector<FitChange> found_;
};

}  // namespace

std::string_view to_string(FitBy by) {
  switch (by) {
    case FitBy::smaller_batch:
      return "smaller_batch";
    case FitBy::checkpointing:
      return "checkpointing";
    case FitBy::half_precision:
      return "half_precision";
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

std::vector<FitChange> changes_that_fit(const Workload& workload, const Analysis& analysis,
                                        const TimeModel& model, const MemoryEstimate& memory) {
  return Search(workload, analysis, model, memory).run();
}

}  // namespace rooftile
