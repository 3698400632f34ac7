// Changes of an input that mean nothing change nothing in what is found: other names, another order
// of what is independent, comments, blank lines, files in pieces.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "rooftile/readers/onnx/onnx_models.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/trace_summary_json.h"
#include "script_spec.h"
#include "tests/fuzz/script_mutator.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

// ---- scripts: those of the specs that are one file

struct ScriptCase {
  const Rule* rule;
  fs::path spec;
  std::string text;
};

std::vector<ScriptCase> script_cases() {
  std::vector<ScriptCase> cases;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(ROOFTILE_ROOT) / "tests/specs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string id =
        entry.path().parent_path().filename().string() + "/" + entry.path().stem().string();
    const auto rules = all_rules();
    const auto rule = std::ranges::find(rules, id, [](const Rule* each) { return each->id; });
    if (rule == rules.end()) continue;
    std::ifstream in(entry.path());
    bool inside = false, of_several = false;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("## ")) of_several = false;
      if (line.find("file=") != std::string::npos && line.starts_with("```")) of_several = true;
      if (inside && line == "```") {
        inside = false;
      } else if (inside) {
        cases.back().text += line + "\n";
      } else if (line == "```python" && !of_several) {
        inside = true;
        cases.push_back({*rule, entry.path(), ""});
      }
    }
  }
  std::ranges::sort(cases, {}, &ScriptCase::text);
  return cases;
}

// Every so many: all of them take a minute.
constexpr std::size_t kStride = 9;

struct Changed {
  std::string text;
  std::vector<std::int64_t> lines{0};  // of the old text, by line of the new one; 0: a new line
};

void add_line(Changed& changed, const std::string& line, std::int64_t number) {
  changed.text += line + "\n";
  changed.lines.push_back(number);
}

// Blank lines in front of statements, and comments above imports and at the end. A comment above
// other statements is a reason why something was done, which rules respect.
Changed with_comments(const std::string& text) {
  const auto parts = fuzzing::parts_of(text);
  std::set<std::size_t> starts;  // of lines that begin with a statement
  for (const auto& statement : parts->statements) {
    const auto indent = parts->indent(statement);
    if (indent) starts.insert(statement.begin - indent->size());
  }
  Changed changed;
  std::int64_t number = 0;
  bool after_comment = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (starts.contains(at) && !after_comment) add_line(changed, "", 0);
    if (line.starts_with("import ")) add_line(changed, "# what follows is needed below", 0);
    add_line(changed, line, ++number);
    after_comment = line.find('#') != std::string::npos;
    at = end + 1;
  }
  add_line(changed, "# the end", 0);
  return changed;
}

// Rules take some names for what they say: `action`, `losses`. So their words stay, and another one
// is added; of these not even that, because they count as a whole: `amp`, `took_step`, `num_gpus`.
bool is_hint(const std::string& name) {
  return std::ranges::any_of(std::array{"amp", "step", "gpu"}, [&](const char* word) {
    return name.find(word) != std::string::npos;
  });
}

// Whether a use of a name shows that it is no variable of a function: an attribute, a keyword, a
// parameter, a module …
bool is_of_others(const std::string& text, std::size_t begin, std::size_t end) {
  const std::size_t line = text.rfind('\n', begin) + 1;  // 0 in the first line
  const std::string before = " " + text.substr(line, begin - line);
  return begin == line || text[begin - 1] == '.' || text[end] == '=' ||
         std::ranges::any_of(
             std::array{" import ", " def ", " class ", " global ", " nonlocal ", " as ", " for ",
                        " lambda "},
             [&](const char* word) { return before.find(word) != std::string::npos; });
}

// Variables of functions: assigned as `name = …`, and nothing else.
Changed with_other_names(const std::string& text) {
  const auto parts = fuzzing::parts_of(text);
  std::map<std::string, bool> is_local;
  for (const auto& name : parts->names) {
    const std::string word = parts->of(name);
    if (text.substr(name.end, 3) == " = ") is_local.try_emplace(word, true);
  }
  for (const auto& name : parts->names) {
    const auto local = is_local.find(parts->of(name));
    if (local == is_local.end()) continue;
    if (is_hint(local->first) || is_of_others(text, name.begin, name.end)) local->second = false;
  }
  Changed changed;
  std::size_t copied = 0;
  for (const auto& name : parts->names) {
    const auto local = is_local.find(parts->of(name));
    if (local == is_local.end() || !local->second) continue;
    changed.text += text.substr(copied, name.end - copied) + "_renamed";
    copied = name.end;
  }
  changed.text += text.substr(copied);
  const auto lines = std::ranges::count(text, '\n');
  for (std::int64_t i = 1; i <= lines; ++i) changed.lines.push_back(i);
  return changed;
}

// Rule, line of the old text, level, and whether there are edits; those in train.py.
std::vector<std::string> found_in(const Rule& rule, const Changed& script,
                                  const std::vector<ScriptFile>& others = {}) {
  std::vector<ScriptFile> files{{"train.py", script.text}};
  files.insert(files.end(), others.begin(), others.end());
  std::vector<std::string> found;
  for (const Finding& finding : findings_in(rule, files, model_on("h100"))) {
    if (finding.location.file != "train.py") continue;
    const auto line = static_cast<std::size_t>(finding.location.line);
    found.push_back(fmt::format("{} line {} {} {}", finding.rule,
                                line < script.lines.size() ? script.lines[line] : -1,
                                to_string(finding.level), finding.fix.edits.size()));
  }
  std::ranges::sort(found);
  return found;
}

template <class Transform>
void expect_the_same(const Transform& transform) {
  const std::vector<ScriptCase> cases = script_cases();
  ASSERT_GT(cases.size(), 100U);
  int changed = 0;
  for (std::size_t i = 0; i < cases.size(); i += kStride) {
    const ScriptCase& one = cases[i];
    std::vector<ScriptFile> files{{"train.py", one.text}};
    take_marks(*one.rule, files);
    const std::string& text = files.front().text;
    Changed same{text, {}};
    same.lines.resize(static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1);
    std::iota(same.lines.begin(), same.lines.end(), 0);
    const Changed other = transform(text);
    changed += other.text == text ? 0 : 1;
    EXPECT_EQ(found_in(*one.rule, other), found_in(*one.rule, same)) << one.spec << "\n"
                                                                     << other.text;
  }
  EXPECT_GT(changed, 20);
}

TEST(Metamorphic, CommentsAndBlankLinesMeanNothing) { expect_the_same(with_comments); }

TEST(Metamorphic, NamesOfVariablesMeanNothing) { expect_the_same(with_other_names); }

// As information: what functions find that no program of a folder calls.
std::vector<std::string> as_information(std::vector<std::string> found) {
  for (std::string& each : found) {
    for (const std::string_view level : {" error ", " warning ", " advice "}) {
      const std::size_t at = each.find(level);
      if (at != std::string::npos) each.replace(at, level.size(), " info ");
    }
  }
  return found;
}

// Whether it runs itself and not only defines functions and classes.
bool is_entry(std::string_view text) {
  return text.find("__main__") != std::string_view::npos ||
         text.find("\nfor ") != std::string_view::npos;
}

// A program is its own files: another one in the same folder changes nothing.
TEST(Metamorphic, AnotherProgramOfTheFolderMeansNothing) {
  const std::vector<ScriptCase> cases = script_cases();
  for (std::size_t i = 0; i < cases.size(); i += kStride) {
    const ScriptCase& other = cases[(7 * i + 13) % cases.size()];
    std::vector<ScriptFile> files{{"train.py", cases[i].text}};
    std::vector<ScriptFile> others{{"zoo/elsewhere.py", other.text}};
    take_marks(*cases[i].rule, files);
    take_marks(*other.rule, others);
    Changed alone{files.front().text, {}};
    alone.lines.resize(static_cast<std::size_t>(std::ranges::count(alone.text, '\n')) + 1);
    std::iota(alone.lines.begin(), alone.lines.end(), 0);
    const auto found = found_in(*cases[i].rule, alone);
    const auto beside = found_in(*cases[i].rule, alone, others);
    EXPECT_TRUE(beside == found || (beside == as_information(found) && !is_entry(alone.text)))
        << cases[i].spec << "\n"
        << alone.text << "\nbeside\n"
        << others.front().text;
  }
}

// ---- models

onnx::ModelProto two_branches() {
  onnx::ModelProto model = model_of(R"((float16[4096,512] x, float16[4096,512] z) => (y, v) {
      h = MatMul(x, w1)
      a = Relu(h)
      y = MatMul(a, w2)
      g = MatMul(z, w3)
      v = Sigmoid(g)
  })");
  add_weight(model, "w1", {512, 1023}, onnx::TensorProto::FLOAT16);
  add_weight(model, "w2", {1023, 1024}, onnx::TensorProto::FLOAT16);
  add_weight(model, "w3", {512, 2048}, onnx::TensorProto::FLOAT16);
  return model;
}

// Operations and findings by what they say, without names.
std::vector<std::string> judged(const onnx::ModelProto& model) {
  const Result<Workload> workload = read_model(model);
  if (!workload) return {to_string(workload.error())};
  const Report report = check(*workload, *find_device("a100"));
  std::vector<std::string> said;
  for (const Finding& finding : report.findings) {
    std::string ops;
    for (const std::size_t op : finding.ops) ops += " " + dims_text(workload->ops.at(op).body);
    said.push_back(
        fmt::format("{} {} {} at{}", finding.rule, to_string(finding.level), finding.count, ops));
  }
  for (const Op& op : workload->ops) {
    said.push_back(std::string(kind_name(op.body)) + " " + dims_text(op.body));
  }
  std::ranges::sort(said);
  return said;
}

TEST(Metamorphic, NamesInAModelMeanNothing) {
  const onnx::ModelProto model = two_branches();
  onnx::ModelProto renamed = model;
  const auto rename = [](std::string& name) {
    if (!name.empty()) name = "other/" + name;
  };
  auto& graph = *renamed.mutable_graph();
  for (auto& node : *graph.mutable_node()) {
    rename(*node.mutable_name());
    for (std::string& name : *node.mutable_input()) rename(name);
    for (std::string& name : *node.mutable_output()) rename(name);
  }
  for (auto& weight : *graph.mutable_initializer()) rename(*weight.mutable_name());
  for (auto* const list : {graph.mutable_input(), graph.mutable_output()}) {
    for (auto& value : *list) rename(*value.mutable_name());
  }
  const std::vector<std::string> before = judged(model);
  EXPECT_GT(before.size(), 5U) << before.front();  // five operations, and at least one finding
  EXPECT_EQ(judged(renamed), before);
}

TEST(Metamorphic, TheOrderOfIndependentOperationsMeansNothing) {
  const onnx::ModelProto model = two_branches();
  const std::vector<std::string> before = judged(model);
  for (const std::array<int, 5>& order :
       {std::array{3, 4, 0, 1, 2}, std::array{0, 3, 1, 4, 2}, std::array{3, 0, 1, 2, 4}}) {
    onnx::ModelProto other = model;
    other.mutable_graph()->clear_node();
    for (const int i : order) *other.mutable_graph()->add_node() = model.graph().node(i);
    EXPECT_EQ(judged(other), before);
  }
}

// ---- traces

std::vector<std::string> trace_events() {
  std::vector<std::string> events;
  int id = 1;
  for (int step = 0; step < 6; ++step) {
    const int start = 1000 + step * 1000;
    events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 5, "tid": 5, "ts": {}, "dur": 950}})",
        step, start));
    for (int i = 0; i < 4; ++i, ++id) {
      const int at = start + 10 + i * 200;
      events.push_back(fmt::format(
          R"({{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": {}, "dur": 30, "args": {{"External id": {}, "Input Dims": [[512, 1023], [1023, 777]], "Input type": ["c10::Half", "c10::Half"]}}}})",
          at, id));
      events.push_back(fmt::format(
          R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": {}, "dur": 5, "args": {{"External id": {}, "correlation": {}}}}})",
          at + 10, id, id));
      events.push_back(fmt::format(
          R"({{"ph": "X", "cat": "kernel", "name": "sm80_xmma_gemm_f16", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"External id": {}, "device": 0, "context": 1, "stream": 7, "correlation": {}, "grid": [64, 1, 1], "block": [256, 1, 1]}}}})",
          at + 20, 100 + i, id, id));
    }
  }
  return events;
}

std::string trace_of(const std::vector<std::string>& events) {
  std::string text =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85018279936, "computeMajor": 8, "computeMinor": 0, "numSms": 108}], "record_shapes": 1, "traceEvents": [)";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ",\n") + events[i];
  return text + "]}";
}

// RFC 1952, with the data stored as it is (RFC 1951, section 3.2.4).
std::string gzip_member(std::string_view data) {
  const auto little = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8U * unsigned(i)));
    return text;
  };
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  std::string member("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  for (std::size_t at = 0; at < data.size() || at == 0; at += 65535) {
    const std::string_view block = data.substr(at, 65535);
    const auto size = static_cast<std::uint32_t>(block.size());
    member += at + 65535 >= data.size() ? '\1' : '\0';
    member += little(size, 2) + little(~size, 2) + std::string(block);
  }
  return member + little(~crc, 4) + little(static_cast<std::uint32_t>(data.size()), 4);
}

// All that the text report says of a trace's file.
std::string report_of(const std::string& bytes, const char* name) {
  const fs::path path = fs::path(testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << bytes;
  const auto workload = read(path.string(), {});
  fs::remove(path);
  if (!workload) return to_string(workload.error());
  std::string said;
  for (const TraceSummary& trace : workload->traces) {
    std::string written = write_trace_summary(trace);
    for (std::size_t at; (at = written.find(path.string())) != std::string::npos;) {
      written.replace(at, path.string().size(), "trace");
    }
    said += written;
  }
  for (const Finding& finding : check(*workload, *find_device("a100")).findings) {
    said += fmt::format("{} {}: {}\n", finding.rule, to_string(finding.level), finding.message);
  }
  return said;
}

TEST(Metamorphic, TheMembersOfAGzipFileMeanNothing) {
  const std::string text = trace_of(trace_events());
  const std::string plain = report_of(text, "meta_plain.json");
  EXPECT_NE(plain.find("\n"), std::string::npos) << plain;
  EXPECT_EQ(report_of(gzip_member(text), "meta_one.json.gz"), plain);
  for (const std::size_t piece : {1UL, 100UL, 4096UL}) {
    std::string members;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      members += gzip_member(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(report_of(members, "meta_many.json.gz"), plain) << piece;
  }
}

TEST(Metamorphic, TheOrderOfEventsMeansNothing) {
  std::vector<std::string> events = trace_events();
  const std::string before = report_of(trace_of(events), "meta_order.json");
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i) {
    std::ranges::shuffle(events, random);
    EXPECT_EQ(report_of(trace_of(events), "meta_order.json"), before);
  }
}

}  // namespace
}  // namespace rooftile
