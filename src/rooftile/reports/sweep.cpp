// A network over its batch: a table to read, CSV and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSweepSchema = "rooftile-sweep/1";
constexpr std::string_view kSweepCsvHeader =
    "sequence,batch,time_s,time_low_s,time_high_s,time_per_sample_s,samples_per_s,memory_bytes,"
    "memory_low_bytes,memory_high_bytes,usable_bytes,fit,math,memory,latency,other,operations,"
    "operations_with_time,launch_s,launch_low_s,launch_high_s\n";

// A decode step makes one token for each sample.
std::string_view sample_name(const Sweep& sweep) {
  return sweep.mode == Mode::decode ? "token" : "sample";
}

std::string_view length_name(const Sweep& sweep) {
  return sweep.mode == Mode::decode ? "past" : "seq";
}

std::string factor_text(double factor) { return digits_text(factor, 2) + "×"; }

// "memory 70 %, math 20 %": what takes a tenth or more, the largest first.
std::string bound_text(const SweepRow& row) {
  constexpr double kShown = 0.1;
  std::vector<std::pair<double, std::string_view>> parts{{row.bound.math, "math"},
                                                         {row.bound.memory, "memory"},
                                                         {row.bound.latency, "latency"},
                                                         {row.bound.other, "other"}};
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  if (row.launch_bound) words.emplace_back("launches");
  for (const auto& [share, name] : parts) {
    if (share >= kShown) words.push_back(fmt::format("{} {}", name, share_text(share)));
  }
  return join(words, ", ");
}

// "knee, run" where both are one.
std::string mark_text(const SweepRow& row, const SweepCurve& curve) {
  std::vector<std::string> marks;
  if (row.batch == curve.knee) marks.emplace_back("knee");
  if (row.batch == curve.best && curve.rows.size() > 1) marks.emplace_back("run");
  return join(marks, ", ");
}

std::vector<std::string> row_cells(const SweepRow& row, const SweepCurve& curve) {
  const bool known = row.coverage.ops_with_time > 0;
  return {std::to_string(row.batch),
          mark_text(row, curve),
          known ? time_text(row.time.expected) : "unknown",
          known ? range_text(row.time) : "",
          time_text(row.launch.expected),
          known ? time_text(row.per_sample()) : "",
          known ? count_text(row.samples_per_second()) : "",
          bytes_text(row.memory.expected),
          std::string(fit_words(row.fit)),
          bound_text(row)};
}

// All rows of all lengths.
std::string rows_text(const Sweep& sweep, const TextStyle& style) {
  const std::string sample(sample_name(sweep));
  TextTable table{{{"batch", true},
                   {""},
                   {"time", true},
                   {"90 % within", true},
                   {"to launch", true},
                   {"time/" + sample, true},
                   {sample + "s/s", true},
                   {"memory", true},
                   {"of " + bytes_text(sweep.usable)},
                   {"bound by", false, Cut::end}},
                  {}};
  const bool has_lengths = sweep.curves.front().sequence.has_value();
  if (has_lengths) {
    table.columns.insert(table.columns.begin(), {std::string(length_name(sweep)), true});
  }
  for (const SweepCurve& curve : sweep.curves) {
    for (const SweepRow& row : curve.rows) {
      std::vector<std::string> cells = row_cells(row, curve);
      if (has_lengths) cells.insert(cells.begin(), std::to_string(*curve.sequence));
      table.rows.push_back(std::move(cells));
    }
  }
  return table_text(table, style.terminal ? style.width : 0);
}

std::string knee_text(const Sweep& sweep, const SweepCurve& curve) {
  if (curve.rows.size() < 2) return "";
  if (curve.knee) {
    return fmt::format("Knee: batch {}; doubling it saves less than 10 % per {}.", *curve.knee,
                       sample_name(sweep));
  }
  return fmt::format("No knee up to batch {}: the last doubling still saves {} per {}.",
                     curve.rows.back().batch, share_text(curve.gain_at_end), sample_name(sweep));
}

// Engines start a decode step at once; scripts may not.
std::string replayed_text(const SweepCurve& curve) {
  const SweepRow* last = nullptr;
  for (const SweepRow& row : curve.rows) {
    if (row.launch.expected > row.time.expected) last = &row;
  }
  std::string text = fmt::format(
      "The times are those of an engine with CUDA graphs. In eager mode PyTorch's host code needs "
      "{} to launch the {} operations",
      range_text(curve.rows.front().launch), count_text(curve.launches));
  if (last != nullptr)
    text += fmt::format(", longer than the GPU runs up to batch {}", last->batch);
  return text + '.';
}

// Rows whose host is slower than their kernels, without compilation.
std::string launch_text(const Sweep& sweep, const SweepCurve& curve) {
  if (sweep.mode == Mode::decode) return replayed_text(curve);
  const SweepRow* last = nullptr;
  for (const SweepRow& row : curve.rows) {
    if (row.launch_bound) last = &row;
  }
  if (last == nullptr) return "";
  std::string text = fmt::format(
      "Launch-bound up to batch {}: without compilation PyTorch's host code needs {} to launch the "
      "{} "
      "operations of a pass.",
      last->batch, range_text(last->launch), count_text(curve.launches));
  if (curve.kernel_knee && curve.kernel_knee != curve.knee) {
    text += fmt::format(" With CUDA graphs or a runtime that fuses the knee is batch {}.",
                        *curve.kernel_knee);
  }
  return text;
}

std::string ridge_text(const SweepCurve& curve) {
  if (curve.math_bound_from) {
    return fmt::format("Most of the time is math-bound from batch {} on.", *curve.math_bound_from);
  }
  return "Most of the time is not math-bound at the end of the range.";
}

// " of KV cache" where that is nearly all of a sample's memory, ", 1.2 GiB of it KV cache".
std::string kept_text(Bytes kept, Bytes each, std::string_view name) {
  constexpr double kNearlyAll = 0.95;
  if (kept <= Bytes()) return "";
  if (kept >= each * kNearlyAll) return fmt::format(" of {}", name);
  return fmt::format(", {} of it {}", bytes_text(kept), name);
}

// What takes the memory: the part that no batch changes, and what each sample adds.
std::string needs_text(const Sweep& sweep, const SweepCurve& curve) {
  const bool training = sweep.mode == Mode::training;
  std::string cache = kept_text(curve.each_cache, curve.each_sample, "KV cache");
  cache += kept_text(curve.each_state, curve.each_sample, "recurrent state");
  return fmt::format(" {} take {} at any batch, each {} adds {}{}.",
                     training ? "Weights, gradients and optimizer" : "Weights",
                     bytes_text(curve.constant), sweep.mode == Mode::decode ? "sequence" : "sample",
                     bytes_text(curve.each_sample), cache);
}

std::string memory_text(const Sweep& sweep, const SweepCurve& curve) {
  const std::string memory = bytes_text(sweep.usable);
  if (!curve.largest_tight) return fmt::format("No batch of the range fits {}.", memory);
  if (curve.largest == curve.rows.back().batch) {
    return curve.rows.size() == 1 ? ""
                                  : fmt::format("All batches up to {} leave a tenth of {} free.",
                                                *curve.largest, memory);
  }
  return fmt::format("Of {} usable memory: {}", memory,
                     largest_batch_text(curve.largest, curve.largest_tight, false)) +
         needs_text(sweep, curve);
}

// Why not a larger one.
std::string limit_text(const Sweep& sweep, const SweepCurve& curve, const SweepRow& best) {
  if (best.fit == "tight") return "it is tight, and no batch leaves memory to spare";
  if (curve.best_beyond) {
    return fmt::format("beyond the range batch {} does {} as many", *curve.best_beyond,
                       factor_text(curve.gain_beyond));
  }
  if (best.batch == curve.largest && best.batch != curve.rows.back().batch) {
    return fmt::format("the largest that leaves a tenth of {} free", bytes_text(sweep.usable));
  }
  const SweepRow* most = &best;
  for (const SweepRow& row : curve.rows) {
    if (row.fit == "fits" && row.per_sample() < most->per_sample()) most = &row;
  }
  constexpr double kVisible = 0.95;
  if (most->per_sample() < best.per_sample() * kVisible) {
    return fmt::format("batch {} does {} as many, and a pass takes {} as long", most->batch,
                       factor_text(most->samples_per_second() / best.samples_per_second()),
                       factor_text(most->step() / best.step()));
  }
  return fmt::format("no larger one that fits saves more than 5 % per {}", sample_name(sweep));
}

std::string verdict_text(const Sweep& sweep, const SweepCurve& curve) {
  const SweepRow* best = best_row(curve);
  const SweepRow& first = curve.rows.front();
  if (best == nullptr) {
    return fmt::format("Batch {} does not fit. {}.", first.batch, curve.makes_it_fit);
  }
  if (!is_sufficient(best->coverage)) return "No verdict: too few operations have a time.";
  if (curve.rows.size() == 1) return "";
  if (best == &first) {
    return fmt::format("Run batch {}: {}.", best->batch, limit_text(sweep, curve, *best));
  }
  return fmt::format(
      "Run batch {}: {} the {}s per second of batch {}, a pass takes {} as long; {}.", best->batch,
      factor_text(best->samples_per_second() / first.samples_per_second()), sample_name(sweep),
      first.batch, factor_text(best->step() / first.step()), limit_text(sweep, curve, *best));
}

std::string curve_text(const Sweep& sweep, const SweepCurve& curve, const TextStyle& style) {
  std::string text;
  for (const std::string& line :
       {knee_text(sweep, curve), launch_text(sweep, curve), ridge_text(curve),
        memory_text(sweep, curve), verdict_text(sweep, curve)}) {
    if (!line.empty()) text += wrapped(line, style.width);
  }
  return text;
}

std::string batch_or(const std::optional<std::int64_t>& batch, std::string_view none) {
  return batch ? std::to_string(*batch) : std::string(none);
}

// One row for each length: what the lines below a single curve say.
std::string curves_table(const Sweep& sweep, const TextStyle& style) {
  TextTable table{{{std::string(length_name(sweep)), true},
                   {"knee", true},
                   {"math-bound from", true},
                   {"largest that fits", true},
                   {"run batch", true},
                   {fmt::format("{}s/s", sample_name(sweep)), true}},
                  {}};
  for (const SweepCurve& curve : sweep.curves) {
    const SweepRow* best = best_row(curve);
    const bool known = best != nullptr && is_sufficient(best->coverage);
    table.rows.push_back({std::to_string(*curve.sequence), batch_or(curve.knee, "none"),
                          batch_or(curve.math_bound_from, "none"), batch_or(curve.largest, "none"),
                          known ? std::to_string(best->batch) : "",
                          known ? count_text(best->samples_per_second()) : ""});
  }
  return table_text(table, style.terminal ? style.width : 0);
}

// How the time of one batch grows with the length.
std::string growth_text(const Sweep& sweep) {
  const SweepCurve &first = sweep.curves.front(), &last = sweep.curves.back();
  const SweepRow &shortest = first.rows.front(), &longest = last.rows.front();
  if (!is_sufficient(shortest.coverage) || !is_sufficient(longest.coverage)) {
    return "No verdict: too few operations have a time.";
  }
  return fmt::format("From {0} {1} to {2}, {3:.3g}× as long, the time per {4} grows {5}.",
                     length_name(sweep), *first.sequence, *last.sequence,
                     to_double(*last.sequence) / to_double(*first.sequence), sample_name(sweep),
                     factor_text(longest.per_sample() / shortest.per_sample()));
}

// Up to which length there is a batch that fits, and what makes the next one fit.
std::string lengths_text(const Sweep& sweep) {
  const std::string memory = bytes_text(sweep.usable);
  const std::int64_t batch = sweep.curves.front().rows.front().batch;
  const auto too_long = std::ranges::find_if(
      sweep.curves, [](const SweepCurve& curve) { return best_row(curve) == nullptr; });
  if (too_long == sweep.curves.end()) {
    return fmt::format("All lengths fit {} at batch {}.", memory, batch);
  }
  const std::string too_long_text = fmt::format("{} {}", length_name(sweep), *too_long->sequence);
  if (too_long == sweep.curves.begin()) {
    return fmt::format("Batch {} does not fit {} at {}. {}.", batch, memory, too_long_text,
                       too_long->makes_it_fit);
  }
  const SweepCurve& longest = *std::prev(too_long);
  return fmt::format("The longest that fits {} at batch {} is {} {}{}; {} does not fit. {}.",
                     memory, batch, length_name(sweep), *longest.sequence,
                     best_row(longest)->fit == "tight" ? " (tight)" : "", too_long_text,
                     too_long->makes_it_fit);
}

std::string summary_text(const Sweep& sweep, const TextStyle& style) {
  if (sweep.curves.size() == 1) return curve_text(sweep, sweep.curves.front(), style);
  const bool has_batches = std::ranges::any_of(
      sweep.curves, [](const SweepCurve& curve) { return curve.rows.size() > 1; });
  std::string text = has_batches ? curves_table(sweep, style) + '\n' +
                                       wrapped(
                                           "Knee: the batch whose doubling saves less than 10 "
                                           "%. Run: the one that fits with the most throughput "
                                           "over latency; in training the smallest that takes at "
                                           "most 5 % more time each than the best of the range.",
                                           style.width)
                                 : wrapped(growth_text(sweep), style.width);
  return text + wrapped(lengths_text(sweep), style.width);
}

std::string title(const Sweep& sweep) {
  std::vector<std::string> inputs;
  for (const std::string& input : sweep.inputs) inputs.push_back(printable(input));
  std::string line = fmt::format("{} on {}, {}", join(inputs, " + "), printable(sweep.device.name),
                                 mode_name(sweep.mode));
  for (const auto& [name, value] : sweep.options) {
    line += printable(fmt::format(", {} {}", name, value));
  }
  return line + "\n\n";
}

Json row_json(const SweepRow& row) {
  const bool known = row.coverage.ops_with_time > 0;
  return {{"batch", row.batch},
          {"time_s", known ? json_range(row.time) : Json(nullptr)},
          {"launch_s", json_range(row.launch)},
          {"launch_bound", row.launch_bound},
          {"time_per_sample_s", known ? json_number(row.per_sample().value()) : Json(nullptr)},
          {"memory_bytes", bytes_json(row.memory)},
          {"fit", row.fit},
          {"bound",
           {{"math", row.bound.math},
            {"memory", row.bound.memory},
            {"latency", row.bound.latency},
            {"other", row.bound.other}}},
          {"operations", json_number(row.coverage.ops)},
          {"operations_with_time", json_number(row.coverage.ops_with_time)}};
}

template <class T>
Json json_or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  return *value;
}

Json curve_json(const SweepCurve& curve) {
  Json rows = Json::array();
  for (const SweepRow& row : curve.rows) rows.push_back(row_json(row));
  return {{"sequence", json_or_null(curve.sequence)},
          {"rows", rows},
          {"knee", json_or_null(curve.knee)},
          {"knee_without_launches", json_or_null(curve.kernel_knee)},
          {"launches", json_number(curve.launches)},
          {"gain_of_last_doubling", curve.gain_at_end},
          {"math_bound_from", json_or_null(curve.math_bound_from)},
          {"largest_that_fits", json_or_null(curve.largest)},
          {"largest_tight", json_or_null(curve.largest_tight)},
          {"makes_it_fit", curve.makes_it_fit.empty() ? Json(nullptr) : Json(curve.makes_it_fit)},
          {"best", json_or_null(curve.best)},
          {"best_beyond", json_or_null(curve.best_beyond)}};
}

std::string csv_row(const Sweep& sweep, const SweepCurve& curve, const SweepRow& row) {
  std::vector<std::string> cells{curve.sequence ? std::to_string(*curve.sequence) : "",
                                 std::to_string(row.batch)};
  const bool known = row.coverage.ops_with_time > 0;
  for (const double value : {row.time.expected.value(), row.time.low.value(), row.time.high.value(),
                             row.per_sample().value(), row.samples_per_second()}) {
    cells.push_back(known ? csv_number(value) : "");
  }
  for (const Bytes size : {row.memory.expected, row.memory.low, row.memory.high, sweep.usable}) {
    cells.push_back(csv_number(size.value()));
  }
  cells.push_back(row.fit);
  for (const double value :
       {row.bound.math, row.bound.memory, row.bound.latency, row.bound.other, row.coverage.ops,
        row.coverage.ops_with_time, row.launch.expected.value(), row.launch.low.value(),
        row.launch.high.value()}) {
    cells.push_back(csv_number(value));
  }
  return join(cells, ",") + '\n';
}

}  // namespace

std::string render_sweep_text(const Sweep& sweep, const TextStyle& style) {
  std::string text = title(sweep);
  text += rows_text(sweep, style) + '\n' + summary_text(sweep, style);
  if (!sweep.device.calibrated) {
    text += wrapped("The time model was not fitted to this GPU: ranges are wide.", style.width);
  }
  for (const std::string& note : sweep.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

std::string render_sweep_csv(const Sweep& sweep) {
  std::string text(kSweepCsvHeader);
  for (const SweepCurve& curve : sweep.curves) {
    for (const SweepRow& row : curve.rows) text += csv_row(sweep, curve, row);
  }
  return text;
}

std::string render_sweep_json(const Sweep& sweep) {
  Json curves = Json::array();
  for (const SweepCurve& curve : sweep.curves) curves.push_back(curve_json(curve));
  return dump_json({{"schema", kSweepSchema},
                    {"inputs", sweep.inputs},
                    {"gpu", {{"id", sweep.device.id}, {"name", sweep.device.name}}},
                    {"mode", mode_name(sweep.mode)},
                    {"usable_bytes", json_number(sweep.usable.value())},
                    {"curves", curves},
                    {"notes", sweep.notes}});
}

}  // namespace rooftile
