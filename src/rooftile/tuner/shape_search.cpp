#include "rooftile/tuner/shape_search.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

// Each distinct operation once: neighbours share most of theirs.
class CachedTimes {
 public:
  explicit CachedTimes(const TimeModel& model) : model_(model) {}

  const std::optional<TimeEstimate>& of(const Op& op) {
    const auto [entry, is_new] =
        known_.try_emplace(shape_bytes(op) + static_cast<char>('0' + static_cast<int>(op.phase)));
    if (is_new) entry->second = model_.estimate(op);
    return entry->second;
  }

 private:
  const TimeModel& model_;
  std::unordered_map<std::string, std::optional<TimeEstimate>> known_;
};

std::int64_t batch_of(const ModelShape& shape) {
  const auto batch = shape.find(ShapeSize::batch);
  return batch == shape.end() ? 1 : batch->second;
}

bool fits(const ShapeCandidate& candidate) { return candidate.memory.fit() != Fit::does_not_fit; }

std::optional<ShapeCandidate> judge(const ModelShape& shape, const ShapeSearch& search,
                                    const Device& device, CachedTimes& times) {
  const std::optional<Workload> workload = search.build(shape);
  if (!workload) return std::nullopt;
  ShapeCandidate candidate;
  candidate.shape = shape;
  candidate.parameters = count_parameters(*workload);
  candidate.memory = estimate_memory(*workload, device);
  Seconds steps;  // of the optimizer
  for (const Op& op : workload->ops) {
    const std::optional<TimeEstimate>& time = times.of(op);
    if (!time) continue;
    const Seconds all = time->time.expected * to_double(op.count);
    candidate.time += all;
    if (op.phase == Phase::optimizer) steps += all;
  }
  candidate.per_sample = (candidate.time - steps) / to_double(batch_of(shape)) +
                         steps / to_double(batch_of(search.present));
  return candidate;
}

// All shapes on all cores, in their order; those that make no model are left out.
class ParallelJudging {
 public:
  ParallelJudging(const std::vector<ModelShape>& shapes, const ShapeSearch& search,
                  const TimeModel& model)
      : shapes_(shapes), search_(search), model_(model), judged_(shapes.size()) {}

  std::vector<ShapeCandidate> run() {
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
      try {
        helpers.emplace_back([this] { judge_some(); });
      } catch (const std::system_error&) {
        break;  // no more threads: those that there are judge all
      }
    }
    judge_some();
    for (std::thread& helper : helpers) helper.join();
    std::vector<ShapeCandidate> found;
    for (auto& candidate : judged_) {
      if (candidate) found.push_back(std::move(*candidate));
    }
    return found;
  }

 private:
  void judge_some() {
    constexpr std::size_t kAtOnce = 64;
    CachedTimes times(model_);
    while (true) {
      const std::size_t first = next_.fetch_add(kAtOnce);
      if (first >= shapes_.size()) return;
      const std::size_t end = std::min(first + kAtOnce, shapes_.size());
      for (std::size_t i = first; i < end; ++i) {
        judged_[i] = judge(shapes_[i], search_, model_.device(), times);
      }
      report(end - first);
    }
  }

  void report(std::size_t done) {
    if (!search_.progress) return;
    const std::lock_guard lock(mutex_);
    search_.progress(done_ += done, shapes_.size());
  }

  const std::vector<ModelShape>& shapes_;
  const ShapeSearch& search_;
  const TimeModel& model_;
  std::vector<std::optional<ShapeCandidate>> judged_;
  std::atomic<std::size_t> next_ = 0;
  std::uint64_t done_ = 0;
  std::mutex mutex_;
};

constexpr std::size_t kMostShown = 64;  // of the front; more are more of the same

// Differences that are none: nobody chooses a shape for them.
constexpr double kSameMemory = 0.01, kSameParameters = 0.01;

bool is_as_fast(const ShapeCandidate& a, const ShapeCandidate& b) {
  return a.per_sample <= b.per_sample && a.parameters >= b.parameters * (1 - kSameParameters);
}

bool is_as_good(const ShapeCandidate& a, const ShapeCandidate& b) {
  return is_as_fast(a, b) &&
         a.memory.total().expected <= b.memory.total().expected * (1 + kSameMemory);
}

// Sorted by time, so only those before can be better.
template <class AsGood>
std::vector<ShapeCandidate> front_of(const std::vector<ShapeCandidate>& candidates,
                                     const AsGood& as_good) {
  std::vector<ShapeCandidate> front;
  for (const ShapeCandidate& candidate : candidates) {
    const bool beaten = std::ranges::any_of(
        front, [&](const ShapeCandidate& other) { return as_good(other, candidate); });
    if (!beaten) front.push_back(candidate);
  }
  return front;
}

std::vector<ShapeCandidate> fastest_by_change(const std::vector<ShapeCandidate>& candidates,
                                              const ModelShape& present) {
  std::map<std::vector<ShapeSize>, const ShapeCandidate*> fastest;
  for (const ShapeCandidate& candidate : candidates) {
    fastest.try_emplace(changed_sizes(present, candidate.shape), &candidate);
  }
  std::vector<ShapeCandidate> found;
  for (const auto& [changed, candidate] : fastest) {
    if (!changed.empty()) found.push_back(*candidate);
  }
  std::ranges::stable_sort(found, [&](const ShapeCandidate& a, const ShapeCandidate& b) {
    return changed_sizes(present, a.shape).size() < changed_sizes(present, b.shape).size();
  });
  return found;
}

// All runs of the operations of one name and phase.
using Key = std::tuple<std::string, Phase, std::size_t>;

std::map<Key, TimeEstimate> times_by_name(const Workload& workload, const TimeModel& model,
                                          double passes = 1) {
  std::map<Key, TimeEstimate> times;
  for (const Op& op : workload.ops) {
    const std::optional<TimeEstimate> time = model.estimate(op);
    if (!time) continue;
    const double runs = op.phase == Phase::optimizer ? 1 : passes;
    const TimeEstimate all = *time * (to_double(op.count) * runs);
    const auto [entry, is_new] = times.try_emplace({op.name, op.phase, op.body.index()}, all);
    if (!is_new) entry->second = entry->second + all;
  }
  return times;
}

// What candidates save over the present shape, and over its sizes at their own batch.
class Savings {
 public:
  Savings(const ShapeSearch& search, const Workload& present, const TimeModel& model)
      : search_(search), present_(present), model_(model), times_(model) {}

  void add_to(ShapeCandidate& candidate) {
    const std::int64_t batch = batch_of(candidate.shape);
    const double samples = to_double(batch_of(search_.present)) / to_double(batch);
    const Workload after = *search_.build(candidate.shape);
    candidate.saving = saving_between(present_, after, model_, samples);
    const std::optional<AtBatch>& same = at(batch);
    if (!same) return;
    candidate.present_at_batch = same->per_sample;
    candidate.surely_less = saving_between(same->workload, after, model_).low > Seconds();
  }

 private:
  struct AtBatch {
    Workload workload;
    Seconds per_sample;
  };

  // The present sizes; empty where they make no model at that batch.
  const std::optional<AtBatch>& at(std::int64_t batch) {
    const auto [entry, is_new] = known_.try_emplace(batch);
    if (!is_new) return entry->second;
    ModelShape shape = search_.present;
    if (shape.contains(ShapeSize::batch)) shape[ShapeSize::batch] = batch;
    std::optional<Workload> workload = search_.build(shape);
    const auto judged = judge(shape, search_, model_.device(), times_);
    if (workload && judged) entry->second = AtBatch{std::move(*workload), judged->per_sample};
    return entry->second;
  }

  const ShapeSearch& search_;
  const Workload& present_;
  const TimeModel& model_;
  CachedTimes times_;
  std::map<std::int64_t, std::optional<AtBatch>> known_;
};

}  // namespace

std::vector<ShapeSize> changed_sizes(const ModelShape& from, const ModelShape& to) {
  std::vector<ShapeSize> changed;
  for (const auto& [size, value] : to) {
    const auto before = from.find(size);
    if (before == from.end() || before->second != value) changed.push_back(size);
  }
  return changed;
}

Range<Seconds> saving_between(const Workload& before, const Workload& after, const TimeModel& model,
                              double samples) {
  const std::map<Key, TimeEstimate> then = times_by_name(before, model),
                                    now = times_by_name(after, model, samples);
  Range<Seconds> saving{};
  for (const auto& [key, time] : then) {
    const auto same = now.find(key);
    saving += same == now.end() ? time.time : estimate_saving(time, same->second);
  }
  for (const auto& [key, time] : now) {
    if (then.contains(key)) continue;
    saving +=
        Range<Seconds>{time.time.high * -1.0, time.time.expected * -1.0, time.time.low * -1.0};
  }
  return saving;
}

Result<ShapeSearchResult> search_shapes(const ShapeSearch& search, const TimeModel& model) {
  const std::optional<Workload> present = search.build(search.present);
  if (!present) return fail("the model cannot be built at its own sizes");
  CachedTimes times(model);
  ShapeSearchResult result;
  result.present = *judge(search.present, search, model.device(), times);
  const std::vector<ModelShape> shapes = nearby_shapes(search);
  std::vector<ShapeCandidate> candidates = ParallelJudging(shapes, search, model).run();
  const auto is_other = [&](const ShapeCandidate& one) { return one.shape != search.present; };
  const auto count = [&] {
    return static_cast<std::size_t>(std::ranges::count_if(candidates, is_other));
  };
  result.candidates = count();
  result.nothing_fits = !fits(result.present) && std::ranges::none_of(candidates, fits);
  if (result.nothing_fits) {
    result.too_large = result.candidates;
  } else {
    std::erase_if(candidates, [](const ShapeCandidate& one) { return !fits(one); });
    result.too_large = result.candidates - count();
  }
  std::ranges::stable_sort(candidates, [](const ShapeCandidate& a, const ShapeCandidate& b) {
    return a.per_sample < b.per_sample;
  });
  result.front =
      result.nothing_fits ? front_of(candidates, is_as_fast) : front_of(candidates, is_as_good);
  if (result.front.size() > kMostShown) result.front.resize(kMostShown);
  const auto better = std::ranges::find_if(candidates, [&](const ShapeCandidate& candidate) {
    return is_as_good(candidate, result.present);
  });
  if (better != candidates.end()) result.better = *better;
  result.by_change = fastest_by_change(candidates, search.present);
  Savings savings(search, *present, model);
  const auto add_saving = [&](ShapeCandidate& candidate) { savings.add_to(candidate); };
  std::ranges::for_each(result.front, add_saving);
  std::ranges::for_each(result.by_change, add_saving);
  if (result.better) add_saving(*result.better);
  return result;
}

}  // namespace rooftile
