// What the readers make of the fuzz targets' corpora, and of a small config of each kind of model:
// tests/golden/readers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Sizes under the names that most configs have; a reader takes those of its kind. Heads,
// feed-forward widths and the rest differ, so that one in place of another shows.
constexpr std::string_view kSizes = R"(, "hidden_size": 256, "num_hidden_layers": 2,
  "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 704, "vocab_size": 1000,
  "max_position_embeddings": 96, "d_model": 256, "num_layers": 2, "num_heads": 8, "d_ff": 704,
  "d_kv": 48, "d_inner": 704, "encoder_layers": 2, "decoder_layers": 3, "n_layers": 2, "n_heads": 8,
  "encoder_attention_heads": 8, "decoder_attention_heads": 4, "encoder_ffn_dim": 704,
  "decoder_ffn_dim": 576, "n_embd": 256, "n_layer": 2, "n_head": 8, "n_positions": 96,
  "state_size": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "num_experts": 6,
  "moe_intermediate_size": 160, "n_routed_experts": 6, "n_shared_experts": 1, "q_lora_rank": 72,
  "kv_lora_rank": 40, "qk_nope_head_dim": 24, "qk_rope_head_dim": 16, "v_head_dim": 32,
  "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 24,
  "linear_value_head_dim": 32, "attention_window": 32)";
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
  return parse_hf_config(fmt::format(R"({{"model_type": "{}"{}{}}})", type, heads, sizes),
                         "config.json", options);
}

// The operations of a config, one a line, or its error. Some kinds have sizes for each of their
// stages: theirs are those of the class.
std::vector<std::string> lines_of(std::string_view type, std::string_view head, Mode mode) {
  Result<Workload> workload = read_kind(type, head, kSizes, mode);
  if (!workload) workload = read_kind(type, head, "", mode);
  if (!workload) return {workload.error().message};
  return lines_of(*workload);
}

// The model itself, then what heads, training and decoding add to it.
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

// Words in quotes of the source file that describes a kind of model: the keys that it reads are
// among them.
std::vector<std::string> words_beside(const std::string& type) {
  for (const fs::path& file :
       files_in(fs::path(ROOFTILE_ROOT) / "src/rooftile/readers/hf_config")) {
    if (!file.filename().string().starts_with("family_")) continue;
    const std::string text = file_text(file);
    if (text.find(fmt::format("{{\"{}\",", type)) == std::string::npos) continue;
    static const std::regex kWord("\"([a-z][a-z0-9_]*)\"");
    std::set<std::string> words;
    for (std::sregex_iterator at(text.begin(), text.end(), kWord), end; at != end; ++at) {
      words.insert((*at)[1]);
    }
    for (const std::string& known : hf::known_model_types()) words.erase(known);
    return {words.begin(), words.end()};
  }
  ADD_FAILURE() << "no family describes " << type;
  return {};
}

class ChangedConfig {
 public:
  explicit ChangedConfig(std::string type) : type_(std::move(type)), plain_(lines({})) {
    if (!is_error(plain_)) return;
    sizes_ = "";  // as above, of the class
    plain_ = lines({});
  }

  // What each of the keys changes.
  std::string effects(std::span<const std::string> keys) {
    if (keys.empty() || !changes(keys)) return "";
    if (keys.size() == 1) return effects_of(keys.front());
    const std::size_t half = keys.size() / 2;
    return effects(keys.first(half)) + effects(keys.subspan(half));
  }

 private:
  std::vector<std::string> lines(std::string_view more) const {
    // The last one of two values of a key counts.
    const std::string config = fmt::format("{}{}", sizes_, more);
    const Result<Workload> workload = read_kind(type_, "", config, Mode::inference);
    if (!workload) return {"error: " + workload.error().message};
    return lines_of(*workload);
  }

  bool changes(std::span<const std::string> keys) const {
    for (const char* value : {"24", "false"}) {
      std::string more;
      for (const std::string& key : keys) more += fmt::format(", \"{}\": {}", key, value);
      if (lines(more) != plain_) return true;
    }
    return false;
  }

  static bool is_error(const std::vector<std::string>& lines) {
    return lines.front().starts_with("error: ");
  }

  // A flag, else a size, else a list or a word.
  std::string effects_of(const std::string& key) const {
    std::string text;
    if (add_effect(key, "true", text)) {
      add_effect(key, "false", text);
    } else if (!add_effect(key, "24", text) && !add_effect(key, "[2, 4]", text)) {
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
    added.resize(std::min<std::size_t>(added.size(), 4));
    for (const std::string& line : added) text += "  " + line + "\n";
    return !is_error(changed);
  }

  std::string type_;
  std::string_view sizes_ = kSizes;
  std::vector<std::string> plain_;
};

// One kind of each family.
TEST(Configs, EachKeyChangesWhatItDidBefore) {
  std::set<hf::Family> seen;
  for (const std::string& type : hf::known_model_types()) {
    if (!seen.insert(*hf::find_family(type)).second) continue;
    const std::vector<std::string> keys = words_beside(type);
    expect_golden(kTests / "golden/readers/keys" / (type + ".txt"),
                  ChangedConfig(type).effects(keys));
  }
}

}  // namespace
}  // namespace rooftile
