// Shapes near a model's own: a table to read, CSV and JSON.
#include <fmt/format.h>

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

// "vocabulary 50257 → 50304, layers 12 → 11".
std::string changes_text(const TunedShape& shape) {
  std::vector<std::string> changes;
  for (const TunedSize& size : shape.changes) {
    changes.push_back(fmt::format("{} {} → {}", size.name, size.from, size.to));
  }
  return changes.empty() ? "as it is" : join(changes, ", ");
}

std::string parameters_text(const TunedShape& shape, const Tuning& tuning) {
  const double change = shape.parameters / tuning.present.parameters - 1;
  return fmt::format("{} ({:+.1f} %)", count_text(shape.parameters), 100 * change);
}

std::string saved_share(const TunedShape& shape, const Tuning& tuning) {
  return share_text(shape.saving.expected / tuning.present.time);
}

std::string saving_cell(const TunedShape& shape, const Tuning& tuning) {
  if (shape.changes.empty()) return "";
  return saved_share(shape, tuning) + (shape.is_certain() ? "" : " ?");
}

std::vector<std::string> shape_row(const TunedShape& shape, const Tuning& tuning) {
  return {changes_text(shape),
          time_text(shape.time),
          saving_cell(shape, tuning),
          parameters_text(shape, tuning),
          bytes_text(shape.memory.expected),
          std::string(fit_words(shape.fit))};
}

// The present shape, what is worth doing first, and the front.
std::vector<const TunedShape*> shown_shapes(const Tuning& tuning) {
  std::vector<const TunedShape*> shapes{&tuning.present};
  if (tuning.smallest) shapes.push_back(&*tuning.smallest);
  for (const TunedShape& shape : tuning.front) {
    if (shapes.size() > kShownShapes) break;
    const bool known = tuning.smallest && changes_text(shape) == changes_text(*tuning.smallest);
    if (!known) shapes.push_back(&shape);
  }
  return shapes;
}

std::string shapes_text(const Tuning& tuning, const TextStyle& style) {
  TextTable table{{{"shape", false, Cut::end},
                   {"time", true},
                   {"saves", true},
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

std::string smallest_text(const Tuning& tuning) {
  const TunedShape& shape = *tuning.smallest;
  std::string text = fmt::format(
      "Smallest change with most of the gain: {} saves {} of {}, likely {}.", changes_text(shape),
      range_text(shape.saving), time_text(tuning.present.time), saved_share(shape, tuning));
  text += shape.is_padding()
              ? " Padding the vocabulary changes no result: the new rows are never looked up, and "
                "their logits are cut off."
              : " It is another model: train it before you trust its accuracy.";
  return text;
}

std::string tuning_verdict(const Tuning& tuning) {
  switch (verdict_of(tuning)) {
    case TuningVerdict::faster:
      return smallest_text(tuning);
    case TuningVerdict::within_error:
      return fmt::format(
          "Within the model's error: the fastest shape that is no smaller, {}, is "
          "expected to save {}, but the range includes none.",
          changes_text(*tuning.better), saved_share(*tuning.better, tuning));
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

// How far the present shape is from the front.
std::string distance_text(const Tuning& tuning) {
  if (verdict_of(tuning) != TuningVerdict::faster || !tuning.better) return "";
  if (tuning.better->changes.empty()) return "";
  return fmt::format(
      "Distance to the front: {} of the time at no fewer parameters and no more "
      "memory{} ({}).",
      saved_share(*tuning.better, tuning),
      tuning.better->is_certain() ? "" : ", within the model's error",
      changes_text(*tuning.better));
}

std::string batch_text(const Tuning& tuning) {
  if (!tuning.larger_batch) return "";
  return fmt::format(
      "Batch {} instead of {} saves {} of the time per sample: rooftile sweep shows "
      "the curve.",
      *tuning.larger_batch, tuning.batch, share_text(tuning.gain_of_batch));
}

std::string basis_text(const Tuning& tuning) {
  return fmt::format(
      "{} other shapes with {} ± {} parameters were timed. A gain with ? is within the model's "
      "error. "
      "Other widths, heads and depths make another model, which has to be trained to know its "
      "accuracy; only padding the vocabulary is free.",
      count_text(tuning.candidates), count_text(tuning.present.parameters),
      share_text(tuning.tolerance));
}

Json shape_json(const TunedShape& shape) {
  Json changes = Json::array();
  for (const TunedSize& size : shape.changes) {
    changes.push_back({{"size", size.name}, {"from", size.from}, {"to", size.to}});
  }
  return {{"changes", changes},
          {"time_s", json_number(shape.time.value())},
          {"saving_s", json_range(shape.saving)},
          {"certain", shape.is_certain()},
          {"parameters", json_number(shape.parameters)},
          {"memory_bytes", bytes_json(shape.memory)},
          {"fit", shape.fit}};
}

Json shape_or_null(const std::optional<TunedShape>& shape) {
  if (!shape) return nullptr;
  return shape_json(*shape);
}

std::string_view tuning_verdict_id(const Tuning& tuning) {
  switch (verdict_of(tuning)) {
    case TuningVerdict::faster:
      return "faster";
    case TuningVerdict::within_error:
      return "within_error";
    case TuningVerdict::alone:
      return "alone";
    case TuningVerdict::on_front:
      break;
  }
  return "on_front";
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
       {shape.time.value(), shape.saving.expected.value(), shape.saving.low.value(),
        shape.saving.high.value(), shape.parameters, shape.memory.expected.value()}) {
    cells.push_back(csv_number(value));
  }
  cells.push_back(shape.fit);
  return join(cells, ",") + '\n';
}

}  // namespace

std::string render_tuning_text(const Tuning& tuning, const TextStyle& style) {
  std::string text = tuning_title(tuning) + shapes_text(tuning, style) + '\n';
  for (const std::string& line :
       {tuning_verdict(tuning), distance_text(tuning), batch_text(tuning), basis_text(tuning)}) {
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
  text += "time_s,saving_s,saving_low_s,saving_high_s,parameters,memory_bytes,fit\n";
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
       {"sizes", sizes},
       {"verdict", tuning_verdict_id(tuning)},
       {"present", shape_json(tuning.present)},
       {"smallest", shape_or_null(tuning.smallest)},
       {"better", shape_or_null(tuning.better)},
       {"front", front},
       {"larger_batch", tuning.larger_batch ? Json(*tuning.larger_batch) : Json(nullptr)},
       {"notes", tuning.notes}});
}

}  // namespace rooftile
