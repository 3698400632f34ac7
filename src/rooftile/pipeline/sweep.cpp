#include "rooftile/pipeline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/rebatch.h"

namespace rooftile {
namespace {

SweepRow row_of(const BatchPoint& point) {
  SweepRow row;
  row.batch = point.batch;
  row.time = point.time;
  row.launch = point.host.time;
  row.launch_bound = point.waits_for_host();
  row.memory = point.memory.total();
  row.fit = to_string(point.memory.fit());
  row.bound = {point.bound.math, point.bound.memory, point.bound.latency, point.bound.other};
  row.coverage.ops = point.runs.all;
  row.coverage.ops_with_time = point.runs.with_time;
  return row;
}

std::string first_input(const SweepRequest& request) {
  return request.inputs.empty() ? "" : request.inputs.front();
}

// Without a batch: the one that the input itself states.
Result<Workload> read_once(const SweepRequest& request, std::optional<std::int64_t> sequence,
                           std::optional<std::int64_t> batch) {
  ReadOptions options = request.read;
  options.batch = batch;
  if (sequence) (options.mode == Mode::decode ? options.past : options.seq) = sequence;
  Result<Workload> workload = read_all(request.inputs, options);
  if (!workload) return workload;
  if (!workload->traces.empty() || workload->source) {
    return fail("a trace or a script has the batch it ran with: expected a model or a workload",
                first_input(request));
  }
  return workload;
}

Result<Workload> scaled_to(const Workload& workload, std::int64_t batch) {
  std::optional<Workload> scaled = at_batch(workload, batch);
  if (!scaled) return fail(fmt::format("batch {} makes sizes too large", batch), "--batch");
  return std::move(*scaled);
}

bool follows_batch(const Workload& workload) {
  return std::ranges::count(workload.unused_options, "--batch") == 0;
}

// Reads at one sequence length, each batch once.
class Readings {
 public:
  Readings(const SweepRequest& request, std::optional<std::int64_t> sequence,
           const TimeModel& model)
      : request_(request), sequence_(sequence), model_(model) {}

  // As read at that batch; scaled where the input states its own.
  Result<Workload> workload(std::int64_t batch) {
    if (own_) return scaled_to(*own_, batch);
    Result<Workload> read = read_once(request_, sequence_, batch);
    if (!read || follows_batch(*read)) return read;
    if (!read->batch) return unknown_batch();
    Result<Workload> own = read_once(request_, sequence_, std::nullopt);
    if (!own) return own;
    own_ = std::move(*own);
    return scaled_to(*own_, batch);
  }

  Result<BatchPoint> point(std::int64_t batch) {
    Result<Workload> read = workload(batch);
    if (!read) return tl::unexpected(read.error());
    read->batch = batch;
    notes_ = read->notes;
    mode_ = read->mode;
    sources_ = read->sources;
    if (own_) {
      notes_.push_back(fmt::format("the input states batch {}: other batches are scaled from it",
                                   own_->batch.value_or(1)));
    }
    BatchPoint point = batch_point(*read, model_);
    fits_[batch] = point.memory.fit();
    return point;
  }

  // The largest batch between two rows that still fits so well; the lower one does.
  std::int64_t largest(std::int64_t low, std::int64_t high, Fit worst) {
    return largest_good(low, high, [&](std::int64_t batch) { return fit(batch) <= worst; });
  }

  // Empty where it fits as it is.
  std::string makes_it_fit(const BatchPoint& point) {
    Result<Workload> read = workload(point.batch);
    if (!read || point.memory.fit() != Fit::does_not_fit) return "";
    read->batch = point.batch;
    const Analysis analysis = analyse(*read, model_);
    return fit_text(changes_that_fit(*read, analysis, model_, point.memory),
                    analysis.total.expected);
  }

  // Of the last point. A capture states its mode itself, and may be of a model that has no file.
  const std::vector<std::string>& notes() const { return notes_; }
  Mode mode() const { return mode_; }
  const std::vector<std::string>& sources() const { return sources_; }

 private:
  Result<Workload> unknown_batch() const {
    return fail(
        "--batch changes nothing in this input; text states its batch in a first line "
        "\"workload batch=8\"",
        first_input(request_));
  }

  Fit fit(std::int64_t batch) {
    const auto known = fits_.find(batch);
    if (known != fits_.end()) return known->second;
    const Result<Workload> read = workload(batch);
    const Fit found = read ? estimate_memory(*read, model_.device()).fit() : Fit::does_not_fit;
    fits_[batch] = found;
    return found;
  }

  const SweepRequest& request_;
  std::optional<std::int64_t> sequence_;
  const TimeModel& model_;
  std::optional<Workload> own_;  // of an input that the batch does not change
  std::map<std::int64_t, Fit> fits_;
  std::vector<std::string> notes_, sources_;
  Mode mode_ = Mode::inference;
};

std::optional<std::int64_t> find_largest(const BatchCurve& curve, Fit worst, Readings& readings) {
  std::optional<std::int64_t> low;
  for (const BatchPoint& point : curve.points) {
    if (point.memory.fit() > worst) {
      return low ? std::optional(readings.largest(*low, point.batch, worst)) : std::nullopt;
    }
    low = point.batch;
  }
  return low;
}

void add_marks(const BatchCurve& curve, Readings& readings, SweepCurve& result) {
  const auto batch_at = [&](std::optional<std::size_t> i) {
    return i ? std::optional(curve.points[*i].batch) : std::nullopt;
  };
  result.best = batch_at(find_best_batch(curve));
  result.knee = batch_at(find_knee(curve));
  result.kernel_knee = batch_at(find_knee(without_launches(curve)));
  result.launches = curve.points.front().host.launches;
  result.math_bound_from = batch_at(find_ridge_crossing(curve));
  if (curve.points.size() > 1) {
    result.gain_at_end = gain_of_doubling(curve, curve.points.size() - 2);
  }
  const BatchPoint& first = curve.points.front();
  const double samples = to_double(first.batch);
  result.constant = first.memory.state() + first.memory.library;
  result.each_sample = first.memory.growing() / samples;
  result.each_cache = first.memory.kv_cache.expected / samples;
  result.each_state = first.memory.recurrent_state.expected / samples;
  result.largest = find_largest(curve, Fit::fits, readings);
  result.largest_tight = find_largest(curve, Fit::tight, readings);
}

void add_notes(const std::vector<std::string>& notes, Sweep& result) {
  for (const std::string& note : notes) {
    if (std::ranges::find(result.notes, note) == result.notes.end()) result.notes.push_back(note);
  }
}

class Sweeper {
 public:
  Sweeper(const SweepRequest& request, const Device& device) : request_(request), model_(device) {
    const std::size_t lengths = std::max<std::size_t>(1, request.sequences.size());
    total_ = request.batches.size() * lengths;
  }

  Result<Sweep> run() {
    Sweep result;
    std::vector<std::optional<std::int64_t>> lengths(request_.sequences.begin(),
                                                     request_.sequences.end());
    if (lengths.empty()) lengths.emplace_back();
    for (const std::optional<std::int64_t>& length : lengths) {
      const Result<void> added = add_curve(length, result);
      if (!added) return tl::unexpected(added.error());
    }
    return result;
  }

 private:
  Result<void> add_curve(std::optional<std::int64_t> length, Sweep& result) {
    Readings readings(request_, length, model_);
    BatchCurve curve;
    for (const std::int64_t batch : request_.batches) {
      Result<BatchPoint> point = readings.point(batch);
      if (!point) return tl::unexpected(point.error());
      curve.points.push_back(*point);
      if (request_.progress) request_.progress(++done_, total_);
    }
    result.mode = curve.mode = readings.mode();
    result.inputs = readings.sources().empty() ? request_.inputs : readings.sources();
    const Result<void> added = add_largest(readings, curve);
    if (!added) return added;
    SweepCurve& shown = result.curves.emplace_back();
    shown.sequence = length;
    result.usable = curve.points.front().memory.usable;
    for (const BatchPoint& point : curve.points) shown.rows.push_back(row_of(point));
    add_marks(curve, readings, shown);
    add_beyond(readings, curve, shown);
    shown.makes_it_fit = readings.makes_it_fit(curve.points.front());
    add_notes(readings.notes(), result);
    return {};
  }

  // Where memory ends the curve: the largest batch that fits, between two rows.
  static Result<void> add_largest(Readings& readings, BatchCurve& curve) {
    const auto full = std::ranges::find_if(
        curve.points, [](const BatchPoint& point) { return point.memory.fit() != Fit::fits; });
    if (full == curve.points.begin() || full == curve.points.end()) return {};
    const std::int64_t low = std::prev(full)->batch;
    const std::int64_t most = readings.largest(low, full->batch, Fit::fits);
    if (most == low) return {};
    Result<BatchPoint> point = readings.point(most);
    if (!point) return tl::unexpected(point.error());
    curve.points.insert(full, *point);
    return {};
  }

  // The end of the range is no limit of the GPU: from there on as check() looks for a batch.
  void add_beyond(Readings& readings, const BatchCurve& curve, SweepCurve& shown) const {
    const BatchPoint& last = curve.points.back();
    if (shown.best != last.batch || last.memory.fit() != Fit::fits || !last.is_known()) return;
    Result<Workload> own = readings.workload(last.batch);
    if (!own) return;
    own->batch = last.batch;
    const BatchCurve beyond =
        batch_curve(*own, model_, [&](std::int64_t batch) -> std::optional<Workload> {
          Result<Workload> read = readings.workload(batch);
          return read ? std::optional(std::move(*read)) : std::nullopt;
        });
    const std::optional<std::size_t> best = find_best_batch(beyond);
    if (!best || *best == 0) return;
    shown.best_beyond = beyond.points[*best].batch;
    shown.gain_beyond = last.per_sample() / beyond.points[*best].per_sample();
  }

  const SweepRequest& request_;
  TimeModel model_;
  std::uint64_t done_ = 0, total_ = 0;
};

// Whether most of the time scales with the batch: a curve over what does not grow would promise
// samples for nothing.
bool grows_with_batch(const Workload& workload, const TimeModel& model) {
  constexpr double kMost = 0.9;
  const std::optional<Workload> doubled = at_batch(workload, 2 * *workload.batch);
  if (!doubled) return false;
  const Analysis analysis = analyse(workload, model);
  double grows = 0;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const bool is_step = std::holds_alternative<OptimizerStep>(workload.ops[i].body) ||
                         std::holds_alternative<Collective>(workload.ops[i].body);
    const bool same = workload.ops[i].body == doubled->ops[i].body;
    if (is_step || !same) grows += analysis.ops[i].time_share;
  }
  return grows >= kMost;
}

// Of several files only the sum would be known.
bool is_config(const Workload& workload, std::span<const std::string> inputs) {
  if (inputs.size() != 1 || inputs.front() == "-" || workload.sources.size() != 1) return false;
  const Result<const Reader*> reader = find_reader(workload.sources.front());  // in a folder
  return reader && (*reader)->name == "hf_config";
}

}  // namespace

Result<Sweep> sweep(const SweepRequest& request, const Device& device) {
  if (std::ranges::count(request.inputs, "-") > 0) {
    return fail("the input is read once for each batch: expected a file", "standard input");
  }
  Result<Sweep> result = Sweeper(request, device).run();
  if (!result) return result;
  result->device = {device.id, device.name, TimeModel(device).calibrated(), std::nullopt, ""};
  return result;
}

BatchCurve curve_of(const Workload& workload, std::span<const std::string> inputs,
                    const ReadOptions& options, const Device& device) {
  if (!workload.batch || !workload.traces.empty() || workload.ops.empty()) return {};
  const bool again = is_config(workload, inputs);
  const TimeModel model(device);
  if (!again && !grows_with_batch(workload, model)) return {};
  return batch_curve(workload, model, [&](std::int64_t batch) -> std::optional<Workload> {
    if (!again) return at_batch(workload, batch);
    ReadOptions larger = options;
    larger.batch = batch;
    larger.progress = nullptr;
    Result<Workload> read_again = read_all(inputs, larger);
    if (!read_again) return std::nullopt;
    return std::move(*read_again);
  });
}

}  // namespace rooftile
