#include "rooftile/pipeline/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "rooftile/analysis/batch_curve.h"
#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/base/text.h"
#include "rooftile/pipeline/model_folder.h"
#include "rooftile/pipeline/read_pieces.h"
#include "rooftile/readers/hf_config/editable.h"
#include "rooftile/rooftile.h"
#include "rooftile/tuner/shape_search.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostQuantized = 2000;  // candidates, in some seconds
constexpr std::size_t kMostBatches = 4;       // more are between these in every way

std::string_view name_of(ShapeSize size) { return kShapeSizeNames[static_cast<std::size_t>(size)]; }

Result<EditableConfig> open_config(const std::string& path) {
  std::error_code ignored;
  std::string file = path;
  if (std::filesystem::is_directory(path, ignored)) {
    const auto model = model_in_folder(path);
    if (!model) return tl::unexpected(model.error());
    if (*model) file = (*model)->file;
  }
  const Result<const Reader*> reader = find_reader(file);
  if (!reader) return tl::unexpected(reader.error());
  if ((*reader)->name == "hf_config" && file != "-") return EditableConfig::read(file);
  return fail("expected a Hugging Face config.json, whose sizes can be changed", path);
}

// The sizes of the config, and the batch: the one to keep where no other is given.
ModelShape present_shape(const TuneRequest& request, const EditableConfig& config) {
  ModelShape shape = config.shape();
  std::int64_t batch = 1;
  for (const auto& [name, value] : request.fixed) {
    if (name == name_of(ShapeSize::batch)) batch = value;
  }
  shape[ShapeSize::batch] = request.read.batch.value_or(batch);
  return shape;
}

std::optional<ShapeSize> size_named(const std::string& name, const EditableConfig& config) {
  if (name == name_of(ShapeSize::batch)) return ShapeSize::batch;
  for (const auto& [size, value] : config.shape()) {
    if (name == name_of(size) || name == config.key(size)) return size;
  }
  return std::nullopt;
}

Result<ModelShape> fixed_sizes(const TuneRequest& request, const EditableConfig& config) {
  ModelShape fixed;
  for (const auto& [name, value] : request.fixed) {
    const auto size = size_named(name, config);
    if (!size) {
      std::vector<std::string> names;
      for (const auto& [known, unused] : present_shape(request, config)) {
        names.emplace_back(name_of(known));
      }
      return fail(
          fmt::format("expected one of {}, found {}", join(names, ", "), rooftile::quoted(name)),
          "--fix");
    }
    fixed[*size] = value;
  }
  return fixed;
}

TunedShape shown(const ShapeCandidate& candidate, const ShapeCandidate& present) {
  TunedShape shape;
  for (const ShapeSize size : changed_sizes(present.shape, candidate.shape)) {
    shape.changes.push_back(
        {std::string(name_of(size)), present.shape.at(size), candidate.shape.at(size)});
  }
  shape.batch = candidate.shape.at(ShapeSize::batch);
  shape.time = candidate.time;
  shape.per_sample = candidate.per_sample;
  shape.saving = candidate.saving;
  shape.parameters = candidate.parameters;
  shape.memory = candidate.memory.total();
  shape.fit = to_string(candidate.memory.fit());
  shape.present_at_batch = candidate.present_at_batch;
  shape.sizes_certain = candidate.surely_less;
  // Times of one shape at two batches share their cause: large gains count as in a curve.
  shape.certain =
      shape.saving.low > Seconds() ||
      (shape.keeps_sizes() && candidate.per_sample <= present.per_sample * (1 - kLargeGain));
  return shape;
}

using Shapes = std::vector<TunedShape>;

Seconds most_saved(const Shapes& shapes) {
  Seconds most;
  for (const TunedShape& shape : shapes) most = std::max(most, shape.saving.expected);
  return most;
}

// With the fewest changes of those that save most of what the best saves.
std::optional<TunedShape> fewest_changes(const Shapes& shapes) {
  constexpr double kMost = 0.8;
  const Seconds least = most_saved(shapes) * kMost;
  std::optional<TunedShape> chosen;
  for (const TunedShape& shape : shapes) {
    if (shape.saving.expected < least) continue;
    const bool fewer = !chosen || shape.changes.size() < chosen->changes.size();
    const bool better = chosen && shape.changes.size() == chosen->changes.size() &&
                        shape.saving.expected > chosen->saving.expected;
    if (fewer || better) chosen = shape;
  }
  return chosen;
}

template <class Condition>
Shapes those(const Shapes& shapes, const Condition& condition) {
  Shapes found;
  std::ranges::copy_if(shapes, std::back_inserter(found), condition);
  return found;
}

// What leaves the model as it is comes first, padding before a batch: half of the gain is enough
// then.
std::optional<TunedShape> smallest_change(const Shapes& by_change, Seconds present) {
  constexpr double kMostWhenFree = 0.5;
  const auto is_worth_it = [&](const TunedShape& shape) {
    const double least = shape.is_padding()    ? kWorthPadding
                         : shape.keeps_model() ? kWorthBatch
                                               : kWorthTraining;
    return shape.certain && shape.saving.expected >= present * least;
  };
  const Shapes worth = those(by_change, is_worth_it);
  const Seconds enough = most_saved(worth) * kMostWhenFree;
  const auto is_free = [](const TunedShape& shape) { return shape.is_padding(); };
  const auto keeps = [](const TunedShape& shape) { return shape.keeps_model(); };
  for (const Shapes& free : {those(worth, is_free), those(worth, keeps)}) {
    if (!free.empty() && most_saved(free) >= enough) return fewest_changes(free);
  }
  return fewest_changes(worth);
}

// Of shapes that all fit: the same model at another batch, else the fewest changes; the fastest.
std::optional<TunedShape> smallest_that_fits(const Shapes& by_change) {
  const auto keeps = [](const TunedShape& shape) { return shape.keeps_model(); };
  const Shapes same = those(by_change, keeps);
  const Shapes& choice = same.empty() ? by_change : same;
  const auto cost = [](const TunedShape& shape) {
    return std::pair(shape.changes.size(), shape.per_sample);
  };
  const auto best = std::ranges::min_element(choice, {}, cost);
  return best == choice.end() ? std::nullopt : std::optional(*best);
}

class Tuner {
 public:
  Tuner(const TuneRequest& request, const EditableConfig& config, const Device& device)
      : request_(request), config_(config), model_(device) {}

  Result<Tuning> run() {
    auto fixed = fixed_sizes(request_, config_);
    if (!fixed) return tl::unexpected(fixed.error());
    ShapeSearch search;
    search.present = present_shape(request_, config_);
    const auto present = build(search.present);
    if (!present) return tl::unexpected(present.error());
    search.fixed = std::move(*fixed);
    if (!search.fixed.contains(ShapeSize::batch)) search.batches = batches(*present);
    search.parameters = request_.parameters;
    search.multiple = request_.multiple;
    search.progress = request_.progress;
    if (config_.is_quantized()) search.most = kMostQuantized;
    search.build = [this](const ModelShape& shape) { return build_if_valid(shape); };
    const auto found = search_shapes(search, model_);
    if (!found) return fail(found.error().message, request_.input);
    return described(*present, *found);
  }

 private:
  Result<Workload> build(const ModelShape& shape) const {
    Result<Workload> built = config_.build(shape, request_.read);
    if (!built) return built;
    built->batch = shape.at(ShapeSize::batch);
    return in_wanted_form(std::move(*built), request_.read);
  }

  std::optional<Workload> build_if_valid(const ModelShape& shape) const {
    Result<Workload> built = build(shape);
    return built ? std::optional(std::move(*built)) : std::nullopt;
  }

  std::optional<Workload> at_batch(std::int64_t batch) const {
    ModelShape shape = present_shape(request_, config_);
    shape[ShapeSize::batch] = batch;
    return build_if_valid(shape);
  }

  // For the present shape: doublings up to the best batch and to what fits; where it does not fit,
  // the largest batch that does.
  std::vector<std::int64_t> batches(const Workload& present) const {
    const MemoryEstimate memory = estimate_memory(present, model_.device());
    // No model of about as many parameters fits at any batch.
    if (memory.state() * (1 - request_.parameters) > memory.usable) return {};
    if (memory.fit() == Fit::does_not_fit) return {smaller_batch(*present.batch)};
    const BatchCurve curve =
        batch_curve(present, model_, [&](std::int64_t batch) { return at_batch(batch); });
    const std::size_t end = find_best_batch(curve).value_or(0) + 1;
    std::set<std::int64_t> found;  // spread evenly over the doublings
    for (std::size_t i = 0; i < kMostBatches; ++i) {
      found.insert(curve.points[(end - 1) * i / (kMostBatches - 1)].batch);
    }
    return {found.begin(), found.end()};
  }

  std::int64_t smaller_batch(std::int64_t too_large) const {
    for (const Fit worst : {Fit::fits, Fit::tight}) {
      const std::int64_t most = largest_good(0, too_large, [&](std::int64_t batch) {
        const std::optional<Workload> smaller = at_batch(batch);
        return smaller && estimate_memory(*smaller, model_.device()).fit() <= worst;
      });
      if (most > 0) return most;
    }
    return 1;
  }

  Tuning described(const Workload& present, const ShapeSearchResult& found) const {
    Tuning tuning;
    tuning.inputs = {request_.input};
    const Device& device = model_.device();
    tuning.device = {device.id, device.name, model_.calibrated(), std::nullopt, ""};
    tuning.mode = request_.read.mode;
    tuning.batch = found.present.shape.at(ShapeSize::batch);
    tuning.tolerance = request_.parameters;
    tuning.candidates = to_double(static_cast<std::int64_t>(found.candidates));
    tuning.too_large = to_double(static_cast<std::int64_t>(found.too_large));
    for (const auto& [size, value] : found.present.shape) {
      tuning.sizes.emplace_back(name_of(size), value);
    }
    const auto as_shown = [&](const ShapeCandidate& one) { return shown(one, found.present); };
    tuning.present = as_shown(found.present);
    tuning.usable = found.present.memory.usable;
    for (const ShapeCandidate& one : found.front) {
      if (one.per_sample < found.present.per_sample) tuning.front.push_back(as_shown(one));
    }
    if (found.better) tuning.better = as_shown(*found.better);
    Shapes by_change;
    for (const ShapeCandidate& one : found.by_change) by_change.push_back(as_shown(one));
    const auto padded = std::ranges::find_if(by_change, &TunedShape::is_padding);
    if (padded != by_change.end()) tuning.padded = *padded;
    if (!found.nothing_fits) add_smallest(by_change, tuning);
    tuning.notes = present.notes;
    std::ranges::copy(config_.notes(), std::back_inserter(tuning.notes));
    add_present(present, found.present.memory, tuning);
    return tuning;
  }

  static void add_smallest(const Shapes& by_change, Tuning& tuning) {
    if (tuning.present.fit == "does_not_fit") {
      tuning.smallest = smallest_that_fits(by_change);
      return;
    }
    const Seconds present = tuning.present.time;
    tuning.smallest = smallest_change(by_change, present);
    const auto same_batch = [](const TunedShape& shape) { return !shape.changes_size("batch"); };
    if (tuning.smallest && !same_batch(*tuning.smallest)) {
      tuning.smallest_at_batch = smallest_change(those(by_change, same_batch), present);
    }
    for (const TunedShape& shape : by_change) {
      if (!shape.keeps_sizes() || shape.per_sample >= tuning.present.per_sample) continue;
      tuning.same_sizes = shape;
      if (shape.certain && shape.saving.expected >= present * kWorthBatch) {
        tuning.larger_batch = shape.batch;
      }
    }
  }

  // What comes before sizes: another precision, and room for the model.
  void add_present(const Workload& present, const MemoryEstimate& memory, Tuning& tuning) const {
    const Analysis analysis = analyse(present, model_);
    std::vector<const Rule*> precision;
    for (const Rule* rule : all_rules()) {
      if (rule->id.starts_with("precision/") && rule->level >= Level::advice) {
        precision.push_back(rule);
      }
    }
    tuning.first = run_rules({present, analysis, model_, Graph(present)}, precision);
    std::erase_if(tuning.first, [](const Finding& f) { return f.level == Level::info; });
    if (memory.fit() == Fit::does_not_fit) {
      tuning.makes_it_fit =
          fit_text(changes_that_fit(present, analysis, model_, memory), analysis.total.expected);
    }
  }

  const TuneRequest& request_;
  const EditableConfig& config_;
  TimeModel model_;
};

}  // namespace

Result<Tuning> tune(const TuneRequest& request, const Device& device) {
  const Result<EditableConfig> config = open_config(request.input);
  if (!config) return tl::unexpected(config.error());
  return Tuner(request, *config, device).run();
}

}  // namespace rooftile
