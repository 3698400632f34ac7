#include "rooftile/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "rooftile/base/text.h"
#include "rooftile/model_folder.h"
#include "rooftile/read_pieces.h"
#include "rooftile/readers/hf_config/editable.h"
#include "rooftile/rooftile.h"
#include "rooftile/tuner/shape_search.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostQuantized = 2000;  // candidates, in some seconds

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

std::optional<ShapeSize> size_named(const std::string& name, const EditableConfig& config) {
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
      for (const auto& [known, unused] : config.shape()) names.emplace_back(name_of(known));
      return fail(
          fmt::format("expected one of {}, found {}", join(names, ", "), rooftile::quoted(name)),
          "--fix");
    }
    fixed[*size] = value;
  }
  return fixed;
}

TunedShape shown(const ShapeCandidate& candidate, const ModelShape& present) {
  TunedShape shape;
  for (const ShapeSize size : changed_sizes(present, candidate.shape)) {
    shape.changes.push_back(
        {std::string(name_of(size)), present.at(size), candidate.shape.at(size)});
  }
  shape.time = candidate.time;
  shape.saving = candidate.saving;
  shape.parameters = candidate.parameters;
  shape.memory = candidate.memory.total();
  shape.fit = to_string(candidate.memory.fit());
  return shape;
}

// The fewest changes with most of the certain gain; padding first, because it is free: half of the
// gain is enough then.
std::optional<TunedShape> smallest_change(const std::vector<TunedShape>& by_change,
                                          const TunedShape& present) {
  constexpr double kMost = 0.8, kMostWhenFree = 0.5;
  const auto is_worth_it = [&](const TunedShape& shape) {
    const double least = shape.is_padding() ? kWorthPadding : kWorthTraining;
    return shape.is_certain() && shape.saving.expected >= present.time * least;
  };
  Seconds best;
  for (const TunedShape& shape : by_change) {
    if (is_worth_it(shape)) best = std::max(best, shape.saving.expected);
  }
  for (const TunedShape& shape : by_change) {
    const bool enough = shape.saving.expected >= best * kMostWhenFree;
    if (shape.is_padding() && is_worth_it(shape) && enough) return shape;
  }
  const TunedShape* chosen = nullptr;
  for (const TunedShape& shape : by_change) {
    if (!is_worth_it(shape) || shape.saving.expected < best * kMost) continue;
    if (chosen != nullptr && shape.changes.size() > chosen->changes.size()) break;
    const bool better = chosen == nullptr || shape.is_padding() ||
                        (!chosen->is_padding() && shape.saving.expected > chosen->saving.expected);
    if (better) chosen = &shape;
  }
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

class Tuner {
 public:
  Tuner(const TuneRequest& request, const EditableConfig& config, const Device& device)
      : request_(request), config_(config), model_(device) {}

  Result<Tuning> run() {
    auto fixed = fixed_sizes(request_, config_);
    if (!fixed) return tl::unexpected(fixed.error());
    const auto present = build(config_.shape(), request_.read);
    if (!present) return tl::unexpected(present.error());
    ShapeSearch search;
    search.present = config_.shape();
    search.fixed = std::move(*fixed);
    search.parameters = request_.parameters;
    search.multiple = request_.multiple;
    search.progress = request_.progress;
    if (config_.is_quantized()) search.most = kMostQuantized;
    search.build = [this](const ModelShape& shape) -> std::optional<Workload> {
      Result<Workload> built = build(shape, request_.read);
      if (!built) return std::nullopt;
      return std::move(*built);
    };
    const auto found = search_shapes(search, model_);
    if (!found) return fail(found.error().message, request_.input);
    return described(*present, *found);
  }

 private:
  Result<Workload> build(const ModelShape& shape, const ReadOptions& options) const {
    Result<Workload> built = config_.build(shape, options);
    if (!built) return built;
    return in_wanted_form(std::move(*built), options);
  }

  Tuning described(const Workload& present, const ShapeSearchResult& found) const {
    Tuning tuning;
    tuning.inputs = {request_.input};
    const Device& device = model_.device();
    tuning.device = {device.id, device.name, model_.calibrated(), std::nullopt, ""};
    tuning.mode = request_.read.mode;
    tuning.batch = request_.read.batch.value_or(1);
    tuning.tolerance = request_.parameters;
    tuning.candidates = to_double(static_cast<std::int64_t>(found.candidates));
    for (const auto& [size, value] : config_.shape()) {
      tuning.sizes.emplace_back(name_of(size), value);
    }
    const auto as_shown = [&](const ShapeCandidate& one) { return shown(one, config_.shape()); };
    tuning.present = as_shown(found.present);
    tuning.usable = found.present.memory.usable;
    for (const ShapeCandidate& one : found.front) {
      if (one.time < found.present.time) tuning.front.push_back(as_shown(one));
    }
    if (found.better) tuning.better = as_shown(*found.better);
    std::vector<TunedShape> by_change;
    for (const ShapeCandidate& one : found.by_change) by_change.push_back(as_shown(one));
    tuning.smallest = smallest_change(by_change, tuning.present);
    tuning.notes = present.notes;
    std::ranges::copy(config_.notes(), std::back_inserter(tuning.notes));
    add_batch(present, tuning);
    return tuning;
  }

  void add_batch(const Workload& present, Tuning& tuning) const {
    Workload stated = present;
    stated.batch = tuning.batch;
    const BatchCurve curve =
        batch_curve(stated, model_, [&](std::int64_t batch) -> std::optional<Workload> {
          ReadOptions options = request_.read;
          options.batch = batch;
          Result<Workload> larger = build(config_.shape(), options);
          if (!larger) return std::nullopt;
          larger->batch = batch;
          return std::move(*larger);
        });
    const auto better = find_better_batch(curve);
    if (!better) return;
    tuning.larger_batch = curve.points[better->point].batch;
    tuning.gain_of_batch =
        1 - curve.points[better->point].per_sample() / curve.points.front().per_sample();
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
