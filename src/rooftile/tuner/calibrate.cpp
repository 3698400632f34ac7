#include "rooftile/tuner/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/tuner/calibrated_section.h"
#include "rooftile/tuner/calibration_start.h"
#include "rooftile/tuner/map_fit.h"
#include "rooftile/tuner/pace_search.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;
using Start = CalibrationStart;

// How much wider than the donor's the intervals are, in log, after a short calibration; more where
// the points scatter more than those of the donor.
constexpr double kWidening = 1.2, kMostWidening = 3;
// Half a sum of squares by which another generation's constants must fit better than those of the
// generation that the calibration files name as the nearest. Fits within a few times that count
// too: their errors differ, and a mean of all is nearer to the truth than the best of them.
constexpr double kClearlyBetter = 4, kLeastWeight = 0.05;
// From here on the fit's own errors say how wide the intervals are.
constexpr std::size_t kPointsForOwnIntervals = 200, kPointsForOwnRegime = 30;

// The worst fit to sound points leaves 11 % (fp32 products on P4, single launches).
constexpr double kLargestMedian = 0.5;

// Smaller differences, in log, are the constants' own and no lower clock.
constexpr double kLeastPace = 0.15;

constexpr const char* kIntervals = "measured_over_predicted";

// Points of one section on one device.
class Family {
 public:
  Family(const Device& device, const char* key, std::vector<const Op*> ops)
      : device_(device), key_(key), ops_(std::move(ops)) {}

  std::size_t size() const { return ops_.size(); }
  const char* key() const { return key_; }

  // With the section, or with what the device brings for null.
  std::optional<TimeModel> model(const Json& section) const {
    Device changed = device_;
    if (!section.is_null()) changed.time_model = Json{{key_, section}}.dump();
    auto made = TimeModel::create(changed);
    if (!made) return std::nullopt;
    return std::move(*made);
  }

  // ln(predicted / measured) of each point; far off for constants the model refuses.
  std::vector<double> log_errors(const Json& section) const {
    constexpr double kRefused = 20;
    std::vector<double> errors(ops_.size(), kRefused);
    const std::optional<TimeModel> with = model(section);
    for (std::size_t i = 0; with && i < ops_.size(); ++i) {
      const auto estimate = with->estimate(*ops_[i]);
      if (estimate) errors[i] = std::log(estimate->time.expected / *ops_[i]->measured);
    }
    return errors;
  }

  std::vector<Bound> bounds(const Json& section) const {
    std::vector<Bound> bounds(ops_.size(), Bound::unknown);
    const std::optional<TimeModel> with = model(section);
    for (std::size_t i = 0; with && i < ops_.size(); ++i) {
      const auto estimate = with->estimate(*ops_[i]);
      if (estimate) bounds[i] = estimate->bound;
    }
    return bounds;
  }

 private:
  const Device& device_;
  const char* key_;
  std::vector<const Op*> ops_;
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

FitError error_of(const std::vector<double>& log_errors) {
  std::vector<double> errors;
  FitError error;
  for (const double e : log_errors) {
    errors.push_back(std::abs(std::expm1(e)));
    error.mean += errors.back() / static_cast<double>(log_errors.size());
  }
  error.median = quantile(errors, 0.5);
  error.p90 = quantile(errors, 0.9);
  return error;
}

struct Fitted {
  Start start;
  Paces paces;
  FitSolution solution;
  Json section;
};

// 0 where the section has no such number: what is 0 stays out of a fit on log scale.
double value_at(const Json& section, const TunedConstant& constant) {
  const Json::json_pointer pointer(constant.pointer);
  if (!section.contains(pointer) || !section.at(pointer).is_number()) return 0;
  return section.at(pointer).get<double>();
}

Json with_values(Json section, std::span<const TunedConstant> constants,
                 std::span<const double> values) {
  std::size_t i = 0;
  for (const TunedConstant& constant : constants) {
    if (value_at(section, constant) > 0)
      section[Json::json_pointer(constant.pointer)] = values[i++];
  }
  return section;
}

Json at_paces(Json section, std::span<const TunedConstant> constants, const Paces& paces) {
  for (const TunedConstant& constant : constants) {
    const double value = value_at(section, constant), factor = paces.of(constant.pace);
    if (value <= 0 || factor == 1) continue;
    section[Json::json_pointer(constant.pointer)] =
        std::clamp(constant.is_time ? value / factor : value * factor, constant.low, constant.high);
  }
  return section;
}

// What the fit made of the factors it started from: the mean of the constants that follow each.
Paces fitted_paces(const Json& donor, const Json& fitted, std::span<const TunedConstant> constants,
                   const Paces& started_from) {
  Paces paces;
  for (const Pace pace : {Pace::sm_clock, Pace::memory_clock, Pace::power}) {
    if (started_from.of(pace) == 1) continue;
    double sum = 0, weights = 0;
    for (const TunedConstant& constant : constants) {
      const double before = value_at(donor, constant), after = value_at(fitted, constant);
      if (constant.pace != pace || before <= 0 || after <= 0) continue;
      const double weight = 1 / (constant.prior_sd * constant.prior_sd);
      sum += weight * std::log(constant.is_time ? before / after : after / before);
      weights += weight;
    }
    const double log = sum / weights;
    if (log <= -kLeastPace) paces.set(pace, std::exp(log));
  }
  return paces;
}

Fitted fit_from(const Family& family, const CalibratedSection& kind, Start start) {
  const Json donor = start.section;
  const Paces paces = find_paces([&](const Paces& tried) {
    const Json section = at_paces(start.section, kind.constants, tried);
    return robust_cost(family.log_errors(section), kind.noise);
  });
  start.section = at_paces(std::move(start.section), kind.constants, paces);
  FitProblem problem;
  problem.noise = kind.noise;
  const double tightness = start.own ? kind.same_generation_prior : 1;
  for (const TunedConstant& constant : kind.constants) {
    const double value = value_at(start.section, constant);
    if (value <= 0) continue;
    problem.parameters.push_back({std::clamp(value, constant.low, constant.high),
                                  tightness * constant.prior_sd, constant.low, constant.high});
  }
  problem.log_errors = [&](std::span<const double> values) {
    return family.log_errors(with_values(start.section, kind.constants, values));
  };
  FitSolution solution = fit_posterior(problem);
  Json section = with_values(start.section, kind.constants, solution.values);
  const Paces fitted = fitted_paces(donor, section, kind.constants, paces);
  return {std::move(start), fitted, std::move(solution), std::move(section)};
}

Json widened(const Json& interval, double widening) {
  return Json::array({std::pow(interval.at(0).get<double>(), widening),
                      std::pow(interval.at(1).get<double>(), widening)});
}

// 5 % and 95 % quantiles of measured over predicted, around 1.
Json own_interval(const std::vector<double>& log_errors) {
  std::vector<double> measured_over_predicted;
  for (const double e : log_errors) measured_over_predicted.push_back(-e);
  const double low = quantile(measured_over_predicted, 0.05);
  const double high = quantile(measured_over_predicted, 0.95);
  return Json::array(
      {std::exp(kWidening * std::min(low, 0.0)), std::exp(kWidening * std::max(high, 0.0))});
}

Bound regime_of(std::string_view name) {
  if (name == "latency") return Bound::latency;
  return name == "memory" ? Bound::memory : Bound::math;
}

// The factor on the logarithms of the section's intervals at which they hold 90 % of the points.
double scatter(const std::vector<double>& errors, const std::vector<Bound>& bounds,
               const Json& intervals) {
  std::vector<double> factors;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    for (const auto& [name, interval] : intervals.items()) {
      const bool other = bounds[i] == Bound::latency || bounds[i] == Bound::memory
                             ? bounds[i] != regime_of(name)
                             : name != "math";
      if (other) continue;
      // Predicted too high: measured over predicted lies below 1.
      const double end = interval.at(errors[i] > 0 ? 0 : 1).get<double>();
      factors.push_back(std::abs(errors[i]) / std::max(std::abs(std::log(end)), 1e-3));
    }
  }
  return factors.empty() ? 1 : quantile(std::move(factors), 0.9);
}

void set_intervals(const Family& family, const Json& residual_intervals, Json& section) {
  const std::vector<double> errors = family.log_errors(section);
  const std::vector<Bound> bounds = family.bounds(section);
  const auto widening_of = [&](const Json& intervals) {
    return std::clamp(scatter(errors, bounds, intervals), kWidening, kMostWidening);
  };
  if (!residual_intervals.is_null()) section["residual_widening"] = widening_of(residual_intervals);
  const double widening = widening_of(section[kIntervals]);
  for (auto& [name, interval] : section[kIntervals].items()) {
    std::vector<double> of_regime;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (bounds[i] == regime_of(name)) of_regime.push_back(errors[i]);
    }
    const bool enough = errors.size() >= kPointsForOwnIntervals;
    if (!enough) {
      interval = widened(interval, widening);
    } else {
      interval = own_interval(of_regime.size() >= kPointsForOwnRegime ? of_regime : errors);
    }
  }
  // Those of kernels that need not be among the points: norm_measured_over_predicted.
  for (auto& [key, others] : section.items()) {
    if (key == kIntervals || !key.ends_with(kIntervals) || !others.is_object()) continue;
    for (auto& interval : others) interval = widened(interval, widening);
  }
}

// Four significant digits: more mean nothing, and files stay readable.
void round_numbers(Json& value) {
  if (value.is_number_float()) {
    value = std::stod(fmt::format("{:.4g}", value.get<double>()));
  } else if (value.is_structured()) {
    for (auto& inner : value) round_numbers(inner);
  }
}

// The first is the best.
Result<std::vector<Fitted>> fits_of(const Device& device, const Family& family,
                                    const CalibratedSection& kind,
                                    const CalibrationOptions& options) {
  const std::vector<std::string> donors =
      options.donors.empty() ? donors_for(device, family.key()) : options.donors;
  std::vector<Fitted> fits;
  std::size_t best = 0;
  for (const std::string& donor : donors) {
    Result<Start> start = start_from(device, family.key(), donor);
    if (!start) return tl::unexpected(start.error());
    if (options.donors.empty()) keep_residual(device, family.key(), *start);
    fits.push_back(fit_from(family, kind, std::move(*start)));
    // The first one stays unless another is clearly better; the others are equals.
    const double margin = best == 0 ? kClearlyBetter : 0;
    if (fits.back().solution.cost + margin < fits[best].solution.cost) best = fits.size() - 1;
  }
  if (fits.empty())
    return fail(fmt::format("found no calibration with a section \"{}\"", family.key()));
  std::swap(fits.front(), fits[best]);
  return fits;
}

// Points that no constants explain are no times of this GPU: another unit, another meaning.
std::optional<Error> misfit(const Family& family, const FittedSection& fitted) {
  if (fitted.after.median <= kLargestMedian) return std::nullopt;
  const double ratio = std::exp(-quantile(family.log_errors(Json()), 0.5));
  return Error{fmt::format("found {} points at {:.2g} times what was predicted (median), half of "
                           "them more than {:.0f} % off even after the fit; expected times of one "
                           "call on this GPU, in the unit that their column names",
                           family.size(), ratio, 100 * fitted.after.median),
               family.key()};
}

// What the device keeps of further fits: their constants with a weight.
Json alternatives_of(std::span<const Fitted> fits) {
  Json alternatives = Json::array();
  for (const Fitted& fitted : fits.subspan(1)) {
    const double behind = fitted.solution.cost - fits.front().solution.cost;
    const double weight = std::min(std::exp(-behind / kClearlyBetter), 1.0);
    if (weight < kLeastWeight) continue;
    Json entry{{"weight", weight}};
    for (const auto& [key, value] : fitted.section.items()) {
      if (key != "origin") entry[key] = value;
    }
    alternatives.push_back(std::move(entry));
  }
  return alternatives;
}

Result<FittedSection> fit_section(const Device& device, const Family& family,
                                  const CalibratedSection& kind, const CalibrationOptions& options,
                                  Json& time_model) {
  Result<std::vector<Fitted>> fits = fits_of(device, family, kind, options);
  if (!fits) return tl::unexpected(fits.error());
  const Fitted* fitted = &fits->front();
  Json section = fitted->section;
  if (kind.averages_donors) {
    Json alternatives = alternatives_of(*fits);
    if (!alternatives.empty()) section["alternatives"] = std::move(alternatives);
  }
  round_numbers(section);
  section["origin"] = fmt::format("fitted to {} points on {}; start and priors: {}; {}",
                                  family.size(), device.name, fitted->start.donor, options.origin);
  set_intervals(family, fitted->start.residual_intervals, section);
  round_numbers(section);
  FittedSection told{family.key(),
                     fitted->start.donor,
                     family.size(),
                     error_of(family.log_errors(Json())),
                     error_of(family.log_errors(section)),
                     fitted->start.own ? fitted->paces : Paces()};
  if (const std::optional<Error> error = misfit(family, told)) return tl::unexpected(*error);
  time_model[family.key()] = std::move(section);
  return told;
}

// For kernels that none of the sections describes. Products tell the SMs' clock, streams that of
// the memory; products do where there are no streams.
std::optional<Json> pace_of(std::span<const FittedSection> sections) {
  const auto is_stream = [](const FittedSection& section) { return section.key == "stream"; };
  const auto products = std::ranges::find_if_not(sections, is_stream);
  const auto streams = std::ranges::find_if(sections, is_stream);
  if (products == sections.end()) return std::nullopt;
  const FittedSection& memory = streams == sections.end() ? *products : *streams;
  return Json{{"sm_clock", products->paces.of(Pace::sm_clock)},
              {"memory_clock", memory.paces.of(Pace::memory_clock)}};
}

}  // namespace

Result<CalibrationResult> calibrate(const Device& device, std::span<const Op> points,
                                    const CalibrationOptions& options) {
  CalibrationResult result;
  Json time_model = Json::parse(device.time_model, nullptr, false);
  if (!time_model.is_object()) time_model = Json::object();
  result.unused = points.size();
  for (const CalibratedSection& section : calibrated_sections()) {
    std::vector<const Op*> ops;
    for (const Op& op : points) {
      const bool usable = op.measured && *op.measured > Seconds(0);
      if (usable && section_of(op, device) == &section) ops.push_back(&op);
    }
    if (ops.size() < kMinCalibrationPoints) continue;
    result.unused -= ops.size();
    const Family family(device, section.key, std::move(ops));
    auto fitted = fit_section(device, family, section, options, time_model);
    if (!fitted) return tl::unexpected(fitted.error());
    result.sections.push_back(std::move(*fitted));
  }
  if (result.sections.empty()) {
    return fail(
        fmt::format("found no {} measured points of one kind, expected aligned 16-bit or "
                    "fp32 products, or memory-bound operations",
                    kMinCalibrationPoints));
  }
  if (std::optional<Json> pace = pace_of(result.sections)) {
    round_numbers(*pace);
    time_model["pace"] = std::move(*pace);
  }
  result.time_model = time_model.dump(2);
  return result;
}

}  // namespace rooftile
