// What the readers make of the fuzz targets' corpora, and of a small config of each kind of model:
// tests/golden/readers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/families.h"
#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/reports/reports.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_text.h"
#include "tests/support/golden.h"
#include "tests/support/model_configs.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
const fs::path kTests = fs::path(ROOFTILE_ROOT) / "tests";

struct Group {
  const char* name;    // of the golden folder
  const char* folder;  // below tests
  Mode mode;
};

const Group kGroups[] = {{"configs", "fuzz/corpus/hf_config", Mode::inference},
                         {"onnx", "fuzz/corpus/onnx", Mode::inference},
                         {"pt2", "fuzz/corpus/pt2", Mode::inference},
                         {"text", "fuzz/corpus/workload_text", Mode::training},
                         {"kineto", "fuzz/corpus/kineto", Mode::inference},
                         {"capture", "fuzz/corpus/capture", Mode::inference},
                         {"nsys", "fuzz/corpus/nsys", Mode::inference}};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The folder of this checkout is left out.
std::string without_folder(std::string text) {
  const std::string folder = kTests.string() + "/";
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;) {
    text.erase(at, folder.size());
  }
  return text;
}

// The operations of a workload, one a line, and its notes. The lines of the text form end in where
// an operation is written, which repeats its name.
std::vector<std::string> lines_of(const Workload& workload) {
  std::vector<std::string> lines;
  const std::string text = to_text(workload);
  for (const std::string_view line : split(text, '\n')) {
    lines.emplace_back(line.substr(0, line.find(" line=0")));
  }
  for (const auto& [name, count] : workload.skipped) {
    lines.push_back(fmt::format("# skipped: {} x {}", count, name));
  }
  for (const std::string& note : workload.notes) lines.push_back("# " + note);
  return lines;
}

std::string read_as_text(const fs::path& file, Mode mode) {
  ReadOptions options;
  options.mode = mode;
  const Result<Workload> workload = read(file.string(), options);
  if (!workload) return to_string(workload.error()) + "\n";
  if (workload->traces.empty()) return join(lines_of(*workload), "\n") + "\n";
  Report report = check(*workload, find_device("h100_sxm").value());
  report.inputs = {file.filename().string()};
  for (Finding& finding : report.findings) {
    finding.location.file = fs::path(finding.location.file).filename();
  }
  return render_text(report, {.verbose = true});
}

class CorpusFiles : public testing::TestWithParam<Group> {};

TEST_P(CorpusFiles, IsReadAsBefore) {
  for (const fs::path& file : files_in(kTests / GetParam().folder)) {
    SCOPED_TRACE(file);
    expect_golden(kTests / "golden/readers" / GetParam().name / (file.filename().string() + ".txt"),
                  without_folder(read_as_text(file, GetParam().mode)));
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, CorpusFiles, testing::ValuesIn(kGroups),
                         [](const auto& test) { return std::string(test.param.name); });

constexpr std::string_view kHeads[] = {"CausalLM",
                                       "LMHeadModel",
                                       "MaskedLM",
                                       "PreTraining",
                                       "Classification",
                                       "SequenceClassification",
                                       "TokenClassification",
                                       "MultipleChoice",
                                       "QuestionAnswering",
                                       "ImageClassification",
                                       "ImageClassificationWithTeacher",
                                       "ObjectDetection",
                                       "SemanticSegmentation",
                                       "ConditionalGeneration",
                                       "CTC",
                                       "WithProjection"};

Result<Workload> read_kind(std::string_view type, std::string_view head, std::string_view sizes,
                           Mode mode) {
  const std::string heads =
      head.empty() ? "" : fmt::format(R"(, "architectures": ["AnyFor{}"])", head);
  ReadOptions options;
  options.mode = mode;
  options.batch = 3;
  return parse_hf_config(fmt::format(R"({{"model_type": "{}"{}{}}})", type, sizes, heads),
                         "config.json", options);
}

// The operations of a config, one a line, or its error. Some kinds have sizes for each of their
// stages: theirs are those of the class.
std::vector<std::string> lines_of(std::string_view type, std::string_view head, Mode mode) {
  Result<Workload> workload = read_kind(type, head, sizes_of(type), mode);
  if (!workload) workload = read_kind(type, head, "", mode);
  if (!workload) return {workload.error().message};
  return lines_of(*workload);
}

const std::string kSevenLayers = R"(, "num_hidden_layers": 7, "num_layers": 7, "n_layer": 7)";

// The model itself, then what heads, decoding and more layers add to it.
std::string variants_of(const std::string& type) {
  const std::vector<std::string> plain = lines_of(type, "", Mode::inference);
  std::string text = join(plain, "\n") + "\n";
  const std::set<std::string> known(plain.begin(), plain.end());
  std::map<std::string, std::string_view> seen;
  const auto add = [&](std::string_view title, const std::vector<std::string>& lines) {
    std::string added;
    for (const std::string& line : lines) {
      if (!known.contains(line)) added += line + "\n";
    }
    if (added.empty()) return;
    const auto [same, is_new] = seen.emplace(added, title);
    text += fmt::format("## {}\n{}", title, is_new ? added : fmt::format("as {}\n", same->second));
  };
  for (const std::string_view head : kHeads) add(head, lines_of(type, head, Mode::inference));
  add("decode", lines_of(type, "CausalLM", Mode::decode));
  // Where each fourth or sixth layer is another one.
  const Result<Workload> deep = read_kind(type, "", sizes_of(type) + kSevenLayers, Mode::inference);
  if (deep && lines_of(*deep).size() != plain.size()) add("seven layers", lines_of(*deep));
  return text;
}

TEST(Configs, EachKindOfModelIsReadAsBefore) {
  std::map<std::string, std::string> seen;
  std::string same;
  for (const std::string& type : hf::known_model_types()) {
    const std::string text = variants_of(type);
    const auto [first, is_new] = seen.emplace(text, type);
    if (is_new) {
      expect_golden(kTests / "golden/readers/kinds" / (type + ".txt"), text);
    } else {
      same += fmt::format("{}: as {}\n", type, first->second);
    }
  }
  expect_golden(kTests / "golden/readers/kinds" / "same.txt", same);
}

// Without the lines of the model in its usual form; the decode step, where it has one, without
// those of the pass over all positions.
std::string text_of_form(const ConfigForm& form) {
  static const std::regex kSpaces("\\s+");
  const std::string members(form.members), sizes = sizes_of(form.type) + ", " + members;
  std::string text = fmt::format("## {}\n", std::regex_replace(members, kSpaces, std::string(" ")));
  std::vector<std::string> known = lines_of(form.type, "", Mode::inference);
  for (const Mode mode : {Mode::inference, Mode::decode}) {
    const Result<Workload> workload = read_kind(form.type, "", sizes, mode);
    if (!workload) {
      text += mode == Mode::inference ? workload.error().message + "\n" : "";
      continue;
    }
    if (mode == Mode::decode) text += "# decode\n";
    const std::vector<std::string> lines = lines_of(*workload);
    for (const std::string& line : lines) {
      if (std::find(known.begin(), known.end(), line) == known.end()) text += line + "\n";
    }
    known = lines;
  }
  return text;
}

TEST(Configs, FormsAreReadAsBefore) {
  std::map<std::string, std::string> texts;
  for (const ConfigForm& form : config_forms()) {
    texts[std::string(form.type)] += text_of_form(form);
  }
  for (const auto& [type, text] : texts) {
    expect_golden(kTests / "golden/readers/forms" / (type + ".txt"), text);
  }
}

// Keys that the source file reads which describes a kind of model: flags, and words in quotes that
// may be others.
struct KeysOfFamily {
  std::vector<std::string> flags, others;
};

KeysOfFamily keys_beside(const std::string& type) {
  for (const fs::path& file :
       files_in(fs::path(ROOFTILE_ROOT) / "src/rooftile/readers/hf_config")) {
    if (!file.filename().string().starts_with("family_")) continue;
    const std::string text = file_text(file);
    if (text.find(fmt::format("{{\"{}\",", type)) == std::string::npos) continue;
    static const std::regex kWord("(flag\\()?\"([a-z][a-z0-9_]*)\"");
    std::set<std::string> flags, others;
    for (std::sregex_iterator at(text.begin(), text.end(), kWord), end; at != end; ++at) {
      ((*at)[1].matched ? flags : others).insert((*at)[2]);
    }
    for (const std::string& known : hf::known_model_types()) others.erase(known);
    for (const std::string& flag : flags) others.erase(flag);
    return {{flags.begin(), flags.end()}, {others.begin(), others.end()}};
  }
  ADD_FAILURE() << "no family describes " << type;
  return {};
}

class ChangedConfig {
 public:
  explicit ChangedConfig(const std::string& type)
      : type_(type), sizes_(sizes_of(type)), plain_(lines({})) {
    if (!is_error(plain_)) return;
    sizes_.clear();  // as above, those of the class
    plain_ = lines({});
  }

  std::string effects(const KeysOfFamily& keys) const {
    std::string text;
    for (const std::string& flag : keys.flags) {
      add_effect(flag, "true", text);
      add_effect(flag, "false", text);
    }
    return text + effects_of_some(keys.others);
  }

 private:
  std::vector<std::string> lines(std::string_view more) const {
    // The last one of two values of a key counts.
    const std::string config = fmt::format("{}{}", sizes_, more);
    const Result<Workload> workload = read_kind(type_, "", config, Mode::inference);
    if (!workload) return {"error: " + workload.error().message};
    return lines_of(*workload);
  }

  // Few of the words are keys: halves without any are left at once.
  std::string effects_of_some(std::span<const std::string> keys) const {
    std::string more;
    for (const std::string& key : keys) more += fmt::format(", \"{}\": 24", key);
    if (keys.empty() || lines(more) == plain_) return "";
    if (keys.size() == 1) return effects_of(keys.front());
    const std::size_t half = keys.size() / 2;
    return effects_of_some(keys.first(half)) + effects_of_some(keys.subspan(half));
  }

  static bool is_error(const std::vector<std::string>& lines) {
    return lines.front().starts_with("error: ");
  }

  // A size, the least and the largest one; else a list or a word.
  std::string effects_of(const std::string& key) const {
    std::string text;
    if (add_effect(key, "24", text)) {
      add_effect(key, "1", text);
      add_effect(key, "33554432", text);
    } else if (!add_effect(key, "1", text) && !add_effect(key, "[2, 4]", text)) {
      add_effect(key, "\"gelu\"", text);
    }
    return text;
  }

  // Whether the value may stand there.
  bool add_effect(const std::string& key, std::string_view value, std::string& text) const {
    const std::vector<std::string> changed = lines(fmt::format(", \"{}\": {}", key, value));
    if (changed == plain_) return true;
    std::vector<std::string> added;
    for (const std::string& line : changed) {
      if (std::find(plain_.begin(), plain_.end(), line) == plain_.end()) added.push_back(line);
    }
    text +=
        fmt::format("{} {}: {} lines, {} of them new\n", key, value, changed.size(), added.size());
    const bool is_usual = value == "true" || value == "false" || value == "24";
    added.resize(std::min<std::size_t>(added.size(), is_usual ? 12 : 4));
    for (const std::string& line : added) text += "  " + line + "\n";
    return !is_error(changed);
  }

  std::string type_, sizes_;
  std::vector<std::string> plain_;
};

// One kind of each family.
TEST(Configs, EachKeyChangesWhatItDidBefore) {
  std::set<hf::Family> seen;
  for (const std::string& type : hf::known_model_types()) {
    if (!seen.insert(*hf::find_family(type)).second) continue;
    expect_golden(kTests / "golden/readers/keys" / (type + ".txt"),
                  ChangedConfig(type).effects(keys_beside(type)));
  }
}

std::string digits(const Range<Bytes>& bytes) {
  return fmt::format("{:.5g} ({:.5g} to {:.5g})", bytes.expected.value(), bytes.low.value(),
                     bytes.high.value());
}

std::string digits(const Range<Seconds>& time) {
  return fmt::format("{:.5g} ({:.5g} to {:.5g}) us", time.expected.value() * 1e6,
                     time.low.value() * 1e6, time.high.value() * 1e6);
}

std::string change_text(const MemoryChange& change) {
  std::string text = fmt::format("  {} {}", change.kind, change.amount);
  if (change.batch > 0) text += fmt::format(" batch {}", change.batch);
  for (const std::string& also : change.with) text += " with " + also;
  text += fmt::format(": {:.5g} bytes, {}", change.per_gpu.value(), change.fit);
  return change.cost ? text + ", costs " + digits(*change.cost) : text;
}

// Times, memory, what makes it fit, and findings.
std::string judged_text(const Report& report) {
  const MemorySummary& memory = report.memory;
  std::string text = fmt::format(
      "time {}, host {}, {:.0f} launches\n{:.6g} flop, {:.6g} bytes, {:.6g} parameters\n",
      digits(report.total), digits(report.host), report.launches, report.flop.value(),
      report.bytes.value(), report.parameters);
  text += fmt::format("bound by math {:.4g} memory {:.4g} latency {:.4g}, Tensor Cores {:.4g}\n",
                      report.bound_share.math, report.bound_share.memory,
                      report.bound_share.latency, report.tensor_core_share);
  text += fmt::format(
      "memory {}: {} of {:.5g}\n  weights {:.5g}\n  gradients {}\n  optimizer {}\n"
      "  activations {}\n  cache {}\n  state {}\n  workspace {}\n",
      memory.verdict, digits(memory.total), memory.usable.value(), memory.weights.value(),
      digits(memory.gradients), digits(memory.optimizer), digits(memory.activations),
      digits(memory.kv_cache), digits(memory.recurrent_state), digits(memory.workspace));
  text += fmt::format("largest batch {}, tight {}\n", memory.largest_batch.value_or(-1),
                      memory.largest_tight_batch.value_or(-1));
  for (const MemoryChange& change : memory.changes) text += change_text(change) + "\n";
  for (const Finding& finding : report.findings) {
    text += fmt::format("{} {}: {}\n", to_string(finding.level), finding.rule, finding.message);
  }
  return text;
}

struct NetworkRun {
  const char *gpu, *name;
  Mode mode;
  std::int64_t batch;
};

// A large and a small GPU, so that some of each network fits and some does not.
const NetworkRun kRuns[] = {{"a100_sxm_80gb", "training", Mode::training, 16},
                            {"t4", "inference", Mode::inference, 16},
                            {"h100_sxm", "decode", Mode::decode, 64}};

TEST(Configs, AreJudgedAsBefore) {
  for (const fs::path& file : files_in(kTests / "fuzz/corpus/hf_config")) {
    std::string text;
    for (const NetworkRun& run : kRuns) {
      ReadOptions options;
      options.mode = run.mode;
      options.batch = run.batch;
      const Result<Workload> workload = read(file.string(), options);
      if (!workload) continue;
      const Device device = find_device(run.gpu).value();
      const bool has_curve = run.mode == Mode::inference;  // of larger batches, which take time
      const BatchCurve curve = has_curve
                                   ? curve_of(*workload, std::array{file.string()}, options, device)
                                   : BatchCurve();
      text += fmt::format("## {}, {}, batch {}\n", run.gpu, run.name, run.batch);
      text += judged_text(check(*workload, device, all_rules(), has_curve ? &curve : nullptr));
    }
    if (!text.empty()) {
      expect_golden(kTests / "golden/networks" / (file.stem().string() + ".txt"), text);
    }
  }
}

}  // namespace
}  // namespace rooftile
