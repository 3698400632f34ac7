// Shapes near a model's own: a table to read, CSV and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rooftile/base/text.h"
#include "rooftile/reports/json_values.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/words.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTuneSchema = "rooftile-tune/1";
constexpr std::size_t kShownShapes = 10;

std::string size_change(const TunedSize& size) {
  return fmt::format("{} {} → {}", size.name, size.from, size.to);
}

// "vocabulary 50257 → 50304, layers 12 → 11".
std::string changes_text(const TunedShape& shape) {
  std::vector<std::string> changes;
  for (const TunedSize& size : shape.changes) changes.push_back(size_change(size));
  return changes.empty() ? "as it is" : join(changes, ", ");
}

// Without the batch, which has a column.
std::string sizes_text(const TunedShape& shape) {
  if (shape.changes.empty()) return "as it is";
  std::vector<std::string> changes;
  for (const TunedSize& size : shape.changes) {
    if (size.name != "batch") changes.push_back(size_change(size));
  }
  return changes.empty() ? "same sizes" : join(changes, ", ");
}

std::string parameters_text(const TunedShape& shape, const Tuning& tuning) {
  const double change = shape.parameters / tuning.present.parameters - 1;
  return fmt::format("{} ({:+.1f} %)", count_text(shape.parameters), 100 * change);
}

std::string_view sample_name(const Tuning& tuning) {
  return tuning.mode == Mode::decode ? "token" : "sample";
}

std::string saved_share(const TunedShape& shape, const Tuning& tuning) {
  return share_text(shape.saving.expected / tuning.present.time);
}

// "-2.1": percent of the time now.
std::string signed_percent(Seconds saved, const Tuning& tuning) {
  return fmt::format("{:.2g}", 100 * (saved / tuning.present.time));
}

std::string saving_cell(const TunedShape& shape, const Tuning& tuning) {
  if (shape.changes.empty()) return "";
  constexpr double kVisible = 0.001;
  const double saved = shape.saving.expected / tuning.present.time;
  if (saved <= -kVisible) return signed_percent(shape.saving.expected, tuning) + " %";
  if (saved < kVisible) return "none";
  return saved_share(shape, tuning) + (shape.certain ? "" : " ?");
}

bool changes_sizes(const TunedShape& shape) {
  return !shape.changes.empty() && !shape.keeps_sizes();
}

std::string sizes_cell(const TunedShape& shape) {
  if (!changes_sizes(shape)) return "";
  constexpr double kVisible = 0.001;
  const double gain = shape.sizes_gain();
  if (gain > -kVisible && gain < kVisible) return "none";
  return share_text(gain) + (shape.sizes_certain ? "" : " ?");
}

std::vector<std::string> shape_row(const TunedShape& shape, const Tuning& tuning) {
  return {sizes_text(shape),
          std::to_string(shape.batch),
          time_text(shape.per_sample),
          saving_cell(shape, tuning),
          sizes_cell(shape),
          parameters_text(shape, tuning),
          bytes_text(shape.memory.expected),
          std::string(fit_words(shape.fit))};
}

// Nobody chooses between shapes that differ by less.
constexpr double kAbout = 0.03;

bool is_about(const TunedShape& a, const TunedShape& b) {
  return a.batch == b.batch && std::abs(a.per_sample / b.per_sample - 1) < kAbout &&
         std::abs(a.memory.expected / b.memory.expected - 1) < kAbout;
}

// The present shape, the same at another batch, what is worth doing first, and the front without
// what is about the same as a row before.
std::vector<const TunedShape*> shown_shapes(const Tuning& tuning) {
  std::vector<const TunedShape*> shapes{&tuning.present};
  const auto is_new = [&](const TunedShape& shape) {
    return std::ranges::none_of(shapes, [&](const TunedShape* shown) {
      return changes_text(*shown) == changes_text(shape);
    });
  };
  for (const auto* first :
       {&tuning.same_sizes, &tuning.padded, &tuning.smallest_at_batch, &tuning.smallest}) {
    if (*first && is_new(**first)) shapes.push_back(&**first);
  }
  for (const TunedShape& shape : tuning.front) {
    if (shapes.size() > kShownShapes) break;
    const bool is_other = std::ranges::none_of(
        shapes, [&](const TunedShape* shown) { return is_about(*shown, shape); });
    if (is_other && is_new(shape)) shapes.push_back(&shape);
  }
  return shapes;
}

bool shows_front(const Tuning& tuning) {
  return std::ranges::any_of(shown_shapes(tuning), [&](const TunedShape* shape) {
    return std::ranges::any_of(tuning.front, [&](const TunedShape& one) { return &one == shape; });
  });
}

std::string shapes_text(const Tuning& tuning, const TextStyle& style) {
  TextTable table{{{"shape", false, Cut::end},
                   {"batch", true},
                   {fmt::format("time/{}", sample_name(tuning)), true},
                   {"saves", true},
                   {"sizes alone", true},
                   {"parameters", true},
                   {"memory", true},
                   {"of " + bytes_text(tuning.usable)}},
                  {}};
  for (const TunedShape* shape : shown_shapes(tuning)) {
    table.rows.push_back(shape_row(*shape, tuning));
  }
  return table_text(table, style.terminal ? style.width : 0);
}

std::string tuning_title(const Tuning& tuning) {
  std::string line = fmt::format("{} on {}, {}", printable(tuning.inputs.front()),
                                 printable(tuning.device.name), mode_name(tuning.mode));
  for (const auto& [name, value] : tuning.options) {
    line += printable(fmt::format(", {} {}", name, value));
  }
  std::vector<std::string> sizes;
  for (const auto& [name, value] : tuning.sizes) sizes.push_back(fmt::format("{} {}", name, value));
  return line + '\n' + join(sizes, ", ") + "\n\n";
}

// What another batch does to training and to latency.
std::string batch_advice(const TunedShape& shape, const Tuning& tuning) {
  const bool grows = shape.batch > tuning.batch;
  if (tuning.mode == Mode::training) {
    return fmt::format(
        " The batch changes no accuracy only as long as every optimizer step sees as many samples "
        "as "
        "now: with {} gradient accumulation steps.",
        grows ? "so many fewer" : "so many more");
  }
  return fmt::format(" The batch changes results by rounding only; a pass takes {} instead of {}.",
                     time_text(shape.time), time_text(tuning.present.time));
}

std::string price_text(const TunedShape& shape, const Tuning& tuning) {
  std::string text;
  if (!shape.keeps_model()) text = " It is another model: train it before you trust its accuracy.";
  if (shape.keeps_model() && shape.changes_size("vocabulary")) {
    text =
        " Padding the vocabulary changes no result: the new rows are never looked up, and their "
        "logits are cut off.";
  }
  return shape.changes_size("batch") ? text + batch_advice(shape, tuning) : text;
}

std::string gain_text(const TunedShape& shape, const Tuning& tuning) {
  const double samples = 1 / to_double(tuning.batch);
  return fmt::format("{} saves {} of {} a {}, likely {}.", changes_text(shape),
                     range_text(shape.saving * samples), time_text(tuning.present.per_sample),
                     sample_name(tuning), saved_share(shape, tuning));
}

// Of a gain by sizes and batch together, what is left at an equal batch.
std::string alone_text(const TunedShape& shape) {
  if (!shape.changes_size("batch") || !changes_sizes(shape)) return "";
  if (shape.sizes_gain() <= 0) {
    return fmt::format(" At batch {} the present sizes are as fast.", shape.batch);
  }
  return fmt::format(" At batch {} these sizes save {} over the present ones.", shape.batch,
                     share_text(shape.sizes_gain()));
}

std::string smallest_text(const Tuning& tuning) {
  return "Smallest change with most of the gain: " + gain_text(*tuning.smallest, tuning) +
         alone_text(*tuning.smallest) + price_text(*tuning.smallest, tuning);
}

std::string too_large_text(const Tuning& tuning) {
  const TunedShape& shape = *tuning.smallest;
  return fmt::format(
      "Does not fit as it is: {} of {}. Smallest change that fits: {} ({}, {}), {} a {}.{} {}.",
      bytes_text(tuning.present.memory), bytes_text(tuning.usable), changes_text(shape),
      bytes_text(shape.memory.expected), fit_words(shape.fit), time_text(shape.per_sample),
      sample_name(tuning), price_text(shape, tuning), tuning.makes_it_fit);
}

std::string nothing_fits_text(const Tuning& tuning) {
  std::string text = fmt::format(
      "Nothing fits one GPU: {} of {} are needed, and none of {} other shapes fits. {}.",
      bytes_text(tuning.present.memory), bytes_text(tuning.usable), count_text(tuning.candidates),
      tuning.makes_it_fit);
  if (shows_front(tuning)) {
    text += fmt::format(
        " The table compares shapes by time per {} and parameters, as if one GPU held them.",
        sample_name(tuning));
  }
  return text;
}

// For readers who do not know the word.
std::string front_text(const Tuning& tuning) {
  if (tuning.front.empty()) return "";
  if (!shows_front(tuning)) {
    return fmt::format("No shape on the front differs by {} from those above.", share_text(kAbout));
  }
  const bool fits = verdict_of(tuning) != TuningVerdict::nothing_fits;
  return fmt::format(
      "The front: shapes that no other one timed beats in {} at once; to gain in one of them, one "
      "has to give way in another. \"sizes alone\" compares with the present sizes at the same "
      "batch.",
      fits ? fmt::format("time per {}, memory and number of parameters", sample_name(tuning))
           : fmt::format("time per {} and number of parameters", sample_name(tuning)));
}

std::string tuning_verdict(const Tuning& tuning) {
  switch (verdict_of(tuning)) {
    case TuningVerdict::nothing_fits:
      return nothing_fits_text(tuning);
    case TuningVerdict::too_large:
      return too_large_text(tuning);
    case TuningVerdict::faster:
      return smallest_text(tuning);
    case TuningVerdict::within_error:
      return fmt::format(
          "Within the model's error: the fastest shape that is no smaller, {}, is "
          "expected to save {}, and may as well save nothing: {} to {} %.",
          changes_text(*tuning.better), saved_share(*tuning.better, tuning),
          signed_percent(tuning.better->saving.low, tuning),
          signed_percent(tuning.better->saving.high, tuning));
    case TuningVerdict::alone:
      return fmt::format(
          "No verdict: no other shape of these sizes keeps within {} of the "
          "parameters; --parameters widens the search.",
          share_text(tuning.tolerance));
    case TuningVerdict::on_front:
      break;
  }
  return "Already on the front: no shape near this one, with as many parameters and as little "
         "memory, surely saves more than 5 %.";
}

std::string at_batch_text(const Tuning& tuning) {
  if (!tuning.smallest || !tuning.smallest->changes_size("batch")) return "";
  if (tuning.present.fit == "does_not_fit") return "";
  if (!tuning.smallest_at_batch) {
    return fmt::format("At batch {} no other sizes surely save enough.", tuning.batch);
  }
  return fmt::format("At batch {}: ", tuning.batch) + gain_text(*tuning.smallest_at_batch, tuning) +
         price_text(*tuning.smallest_at_batch, tuning);
}

// Sizes are judged in the precision that the model has, so another one comes before them.
std::string first_text(const Finding& finding, const Tuning& tuning) {
  std::string gain;
  if (finding.saving && tuning.present.time > Seconds()) {
    gain = fmt::format(" ({} of {}, likely {})", range_text(*finding.saving),
                       time_text(tuning.present.time),
                       share_text(finding.saving->expected / tuning.present.time));
  }
  return fmt::format(
      "First {}{}: {}. {}; then search again with --dtype, for all below is timed as the config "
      "states.",
      printable(finding.rule), gain, printable(finding.message), printable(finding.fix.text));
}

// How far the present shape is from the front.
std::string distance_text(const Tuning& tuning) {
  if (verdict_of(tuning) != TuningVerdict::faster || !tuning.better) return "";
  if (tuning.better->changes.empty()) return "";
  return fmt::format(
      "Distance to the front: {} of the time at no fewer parameters and no more "
      "memory{} ({}).{}",
      saved_share(*tuning.better, tuning),
      tuning.better->certain ? "" : ", within the model's error", changes_text(*tuning.better),
      alone_text(*tuning.better));
}

std::string basis_text(const Tuning& tuning) {
  std::string too_large;
  if (tuning.too_large > 0 && verdict_of(tuning) != TuningVerdict::nothing_fits) {
    too_large = fmt::format(", {} do not fit and are left out", count_text(tuning.too_large));
  }
  return fmt::format(
      "{} other shapes and batches with {} ± {} parameters were timed{}. A gain with ? is within "
      "the "
      "model's error. Other widths, heads and depths make another model, which has to be trained "
      "to "
      "know its accuracy; padding the vocabulary is free.",
      count_text(tuning.candidates), count_text(tuning.present.parameters),
      share_text(tuning.tolerance), too_large);
}

Json shape_json(const TunedShape& shape) {
  Json changes = Json::array();
  for (const TunedSize& size : shape.changes) {
    changes.push_back({{"size", size.name}, {"from", size.from}, {"to", size.to}});
  }
  return {{"changes", changes},
          {"batch", shape.batch},
          {"time_s", json_number(shape.time.value())},
          {"time_per_sample_s", json_number(shape.per_sample.value())},
          {"saving_s", json_range(shape.saving)},
          {"certain", shape.certain},
          {"parameters", json_number(shape.parameters)},
          {"memory_bytes", bytes_json(shape.memory)},
          {"fit", shape.fit}};
}

Json shape_or_null(const std::optional<TunedShape>& shape) {
  if (!shape) return nullptr;
  return shape_json(*shape);
}

Json first_json(const Tuning& tuning) {
  Json first = Json::array();
  for (const Finding& finding : tuning.first) {
    first.push_back({{"rule", finding.rule},
                     {"message", finding.message},
                     {"fix", finding.fix.text},
                     {"saving_s", json_range(finding.saving)}});
  }
  return first;
}

// All sizes of the shape, the present ones where it changes none.
std::string csv_shape(const TunedShape& shape, const Tuning& tuning) {
  std::vector<std::string> cells;
  for (const auto& [name, value] : tuning.sizes) {
    std::int64_t size = value;
    for (const TunedSize& change : shape.changes) {
      if (change.name == name) size = change.to;
    }
    cells.push_back(std::to_string(size));
  }
  for (const double value :
       {shape.time.value(), shape.per_sample.value(), shape.saving.expected.value(),
        shape.saving.low.value(), shape.saving.high.value(), shape.parameters,
        shape.memory.expected.value()}) {
    cells.push_back(csv_number(value));
  }
  cells.push_back(shape.fit);
  return join(cells, ",") + '\n';
}

}  // namespace

std::string render_tuning_text(const Tuning& tuning, const TextStyle& style) {
  std::string text = tuning_title(tuning);
  for (const Finding& finding : tuning.first) {
    text += wrapped(first_text(finding, tuning), style.width) + '\n';
  }
  text += shapes_text(tuning, style) + '\n';
  for (const std::string& line : {front_text(tuning), tuning_verdict(tuning), at_batch_text(tuning),
                                  distance_text(tuning), basis_text(tuning)}) {
    if (!line.empty()) text += wrapped(line, style.width);
  }
  for (const std::string& note : tuning.notes) {
    text += wrapped("Note: " + printable(note), style.width);
  }
  return text;
}

std::string render_tuning_csv(const Tuning& tuning) {
  std::string text;
  for (const auto& [name, value] : tuning.sizes) text += name + ',';
  text +=
      "time_s,time_per_sample_s,saving_s,saving_low_s,saving_high_s,parameters,memory_bytes,fit\n";
  text += csv_shape(tuning.present, tuning);
  for (const TunedShape& shape : tuning.front) text += csv_shape(shape, tuning);
  return text;
}

std::string render_tuning_json(const Tuning& tuning) {
  Json sizes = Json::object(), front = Json::array();
  for (const auto& [name, value] : tuning.sizes) sizes[name] = value;
  for (const TunedShape& shape : tuning.front) front.push_back(shape_json(shape));
  return dump_json(
      {{"schema", kTuneSchema},
       {"inputs", tuning.inputs},
       {"gpu", {{"id", tuning.device.id}, {"name", tuning.device.name}}},
       {"mode", mode_name(tuning.mode)},
       {"batch", tuning.batch},
       {"usable_bytes", json_number(tuning.usable.value())},
       {"parameters_share", tuning.tolerance},
       {"candidates", json_number(tuning.candidates)},
       {"too_large", json_number(tuning.too_large)},
       {"sizes", sizes},
       {"first", first_json(tuning)},
       {"verdict", to_string(verdict_of(tuning))},
       {"present", shape_json(tuning.present)},
       {"smallest", shape_or_null(tuning.smallest)},
       {"smallest_at_batch", shape_or_null(tuning.smallest_at_batch)},
       {"makes_it_fit", tuning.makes_it_fit.empty() ? Json(nullptr) : Json(tuning.makes_it_fit)},
       {"better", shape_or_null(tuning.better)},
       {"padded", shape_or_null(tuning.padded)},
       {"front", front},
       {"larger_batch", tuning.larger_batch ? Json(*tuning.larger_batch) : Json(nullptr)},
       {"notes", tuning.notes}});
}

}  // namespace rooftile
