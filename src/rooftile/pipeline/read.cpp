// From files to one workload: models, recordings and scripts joined.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/base/text.h"
#include "rooftile/pipeline/model_folder.h"
#include "rooftile/pipeline/read_pieces.h"
#include "rooftile/readers/reader.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {
namespace {

// Values of different files must not meet by name: a rule would see an edge that is not there.
void rename_values(Workload& workload, std::size_t file) {
  const std::string prefix = fmt::format("{}#", file);
  for (Op& op : workload.ops) {
    for (std::string& value : op.inputs) value.insert(0, prefix);
    for (std::string& value : op.outputs) value.insert(0, prefix);
  }
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void add_if_known(std::optional<double>& to, const std::optional<double>& from) {
  if (from) to = to.value_or(0) + *from;
}

void append(Workload& to, Workload&& from) {
  if (to.sources.empty() && to.ops.empty()) return void(to = std::move(from));
  const double parameters = count_parameters(to) + count_parameters(from);
  constexpr double kLargest = 9e18;
  to.parameters = static_cast<std::int64_t>(std::min(parameters, kLargest));
  if (to.batch != from.batch) to.batch.reset();
  if (to.sequence != from.sequence) to.sequence.reset();
  add_if_known(to.kv_cache_bytes, from.kv_cache_bytes);
  add_if_known(to.recurrent_state_bytes, from.recurrent_state_bytes);
  to.weight_bytes.reset();  // of one input only
  to.pass_memory.reset();
  append(to.ops, std::move(from.ops));
  append(to.sources, std::move(from.sources));
  append(to.notes, std::move(from.notes));
  to.graph = std::max(to.graph, from.graph);  // what is least known of one holds for the whole
  for (const auto& [name, count] : from.skipped) to.skipped[name] += count;
}

// "a.py, b.py and 3 more"
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  const auto shown = std::min(names.size(), kShown);
  std::string text =
      join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown)}, ", ");
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// What of the scripts was not read, or not in full, by name.
void note_unread(const source::SourceFacts& facts, Workload& workload) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const source::SkippedFile& file : facts.skipped) {
    ++workload.skipped[file.reason];
    by_reason[file.reason].push_back(file.path);
  }
  for (const auto& [reason, paths] : by_reason) {
    workload.notes.push_back(fmt::format("not read ({}): {}", reason, names_text(paths)));
  }
  std::vector<std::string> broken;
  for (const auto& file : facts.files) {
    if (!file->has_errors) continue;
    broken.push_back(fmt::format("{}:{}", file->path, file->place(file->first_error).line));
  }
  if (broken.empty()) return;
  workload.notes.push_back(fmt::format(
      "syntax errors, what stands around them is not understood: {}", names_text(broken)));
}

Result<void> add_scripts(const std::vector<std::string>& paths, const ReadOptions& options,
                         Workload& workload) {
  Result<source::SourceFacts> facts = script_reader(paths.front())->read_together(paths, options);
  if (!facts) return tl::unexpected(facts.error());
  if (facts->files.empty() && facts->not_relevant.empty() && facts->skipped.empty()) {
    return fail("found neither Python files nor a model (config.json, model_index.json, ONNX)",
                join(paths, ", "));
  }
  note_unread(*facts, workload);
  workload.sources.insert(workload.sources.end(), paths.begin(), paths.end());
  workload.source = std::make_shared<const source::SourceFacts>(std::move(*facts));
  return {};
}

// A path as it is read: a folder may stand for the model in it.
struct Source {
  std::string path;
  bool is_script = false;
  std::string note = {};
};

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string other_models_note(const std::string& folder, const ModelFolder& model) {
  if (model.others.empty()) return "";
  return fmt::format("of {} only {} is read, not {}", folder,
                     std::filesystem::relative(model.file, folder).string(),
                     join(model.others, ", "));
}

// A folder with a model and Python files is scripts if they train: repositories of models bring
// the code of their layers, which does not.
Result<Source> source_of(const std::string& path, const ReadOptions& options) {
  if (!is_folder(path)) return Source{path, is_script(path)};
  const auto model = model_in_folder(path);
  if (model && !*model) return Source{path, true};
  const auto facts = script_reader(path)->read_together({&path, 1}, options);
  const bool has_scripts = facts && !facts->files.empty();
  const bool trains = has_scripts && !source::training_programs(*facts).empty();
  if (!model && trains) return Source{path, true};
  if (!model) return tl::unexpected(model.error());
  const std::string name = base_name((*model)->file);
  if (trains) {
    return Source{path, true,
                  fmt::format("{} holds training scripts, which are read; {} is not", path, name)};
  }
  if (!has_scripts) return Source{(*model)->file, false, other_models_note(path, **model)};
  return Source{
      (*model)->file, false,
      fmt::format("{} is read as a model, by its {}: its Python files train nothing", path, name)};
}

// The same where scripts are no input.
Result<std::string> model_path(const std::string& path) {
  if (!is_folder(path)) return path;
  const auto model = model_in_folder(path);
  if (!model) return tl::unexpected(model.error());
  if (*model) return (*model)->file;
  return fail("a folder without a model: expected config.json, model_index.json or an ONNX file",
              path);
}

Workload workload_of(Piece piece) {
  return piece.traces.empty() ? std::move(piece.model) : measured_workload(std::move(piece.traces));
}

// Flags that had no effect on any input; a note on those that the formats do not take, where the
// readers have not written one. A name that no input can have is an error.
Result<void> report_unused(const std::vector<OptionUse>& uses, Workload& workload) {
  workload.unused_options.clear();
  std::vector<std::string> foreign;
  for (const std::string& flag : uses.front().unused) {
    const auto is_unused = [&](const OptionUse& use) { return is_one_of(flag, use.unused); };
    if (!std::all_of(uses.begin(), uses.end(), is_unused)) continue;
    workload.unused_options.push_back(flag);
    const std::string_view word = std::string_view(flag).substr(0, flag.find(' '));
    const auto takes = [&](const OptionUse& use) { return contains(use.takes, word); };
    if (std::none_of(uses.begin(), uses.end(), takes)) foreign.push_back(flag);
  }
  if (foreign.empty()) return {};
  const std::string_view taken = uses.front().takes;
  const std::string message =
      fmt::format("{} {} no effect: the input takes {}", join(foreign, ", "),
                  foreign.size() == 1 ? "has" : "have", taken.empty() ? "no such option" : taken);
  const auto is_name = [](const std::string& flag) { return contains(flag, " "); };
  if (std::any_of(foreign.begin(), foreign.end(), is_name)) return fail(message);
  workload.notes.push_back(message);
  return {};
}

}  // namespace

bool is_script(const std::string& path) { return script_reader(path) != nullptr; }

Result<std::vector<Workload>> read_each(std::span<const std::string> paths,
                                        const ReadOptions& options) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    const Result<std::string> file = model_path(path);
    if (!file) return tl::unexpected(file.error());
    files.push_back(*file);
  }
  Result<std::vector<Piece>> pieces = read_pieces(files, options);
  if (!pieces) return tl::unexpected(pieces.error());
  std::vector<Workload> workloads;
  for (Piece& piece : *pieces) {
    const OptionUse use = piece.options;
    workloads.push_back(workload_of(std::move(piece)));
    const Result<void> reported = report_unused({use}, workloads.back());
    if (!reported) return tl::unexpected(reported.error());
  }
  return workloads;
}

Result<Workload> read(const std::string& path, const ReadOptions& options) {
  return read_each({&path, 1}, options).map([](std::vector<Workload> workloads) {
    return std::move(workloads.front());
  });
}

Result<Workload> read_all(std::span<const std::string> paths, const ReadOptions& options) {
  std::vector<std::string> scripts, others, notes;
  for (const std::string& path : paths) {
    const Result<Source> source = source_of(path, options);
    if (!source) return tl::unexpected(source.error());
    (source->is_script ? scripts : others).push_back(source->path);
    if (!source->note.empty()) notes.push_back(source->note);
  }
  Result<std::vector<Piece>> pieces = read_pieces(others, options);
  if (!pieces) return tl::unexpected(pieces.error());
  Workload models;
  std::vector<TraceSummary> traces;
  std::vector<OptionUse> uses;
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    Piece& piece = (*pieces)[i];
    uses.push_back(std::move(piece.options));
    if (!piece.traces.empty()) {
      append(traces, std::move(piece.traces));
      continue;
    }
    if (i > 0) rename_values(piece.model, i);
    append(models, std::move(piece.model));
  }
  Workload whole = traces.empty()       ? std::move(models)
                   : models.ops.empty() ? measured_workload(std::move(traces))
                                        : join_model(measured_workload(std::move(traces)), models);
  whole.notes.insert(whole.notes.begin(), notes.begin(), notes.end());
  if (uses.empty()) uses.push_back({{}, given_flags(options)});  // scripts alone
  const Result<void> reported = report_unused(uses, whole);
  if (!reported) return tl::unexpected(reported.error());
  if (scripts.empty()) return whole;
  const Result<void> read_scripts = add_scripts(scripts, options, whole);
  if (!read_scripts) return tl::unexpected(read_scripts.error());
  return whole;
}

}  // namespace rooftile
