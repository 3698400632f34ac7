// Runs the Markdown specs of the rules: tests/specs/<area>/<rule>.md, one case per fenced workload
// or trace (tests/support/timeline_text.h; a line "---" starts the next rank's) or script.
// A line ending in "# finding: <rule-id>" must get a finding of that rule; every other line must
// get none. A mark on a line of its own stands for a finding about the workload as a whole. A
// finding about a trace belongs to the marked lines that name its operator, range or call, or the
// place of its source. Scripts are fenced as python, for an H100 unless the fence names a device;
// "python file=model.py" adds a file to the script of the same heading. What the findings of a spec
// say is in tests/golden/findings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/base/text.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"
#include "script_spec.h"
#include "tests/support/golden.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = ROOFTILE_ROOT;

// One fenced workload of a spec.
struct SpecCase {
  std::string rule;     // id, from the file's path
  std::string heading;  // the "## " above it
  fs::path file;
  int line = 0;  // of the fence's first line
  bool is_trace = false;
  std::string info;  // what follows "workload" or "trace": device=h100_sxm mode=training
  std::string text;
  std::vector<ScriptFile> scripts;  // in place of a workload's text
};

// Lines are counted from 1 within the fence; 0 is the workload as a whole.
struct Marks {
  std::set<std::int64_t> fires;
  int silent_ops = 0;
};

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string rule_of(const fs::path& spec) {
  return spec.parent_path().filename().string() + "/" + spec.stem().string();
}

// The rest of the word that begins with `key`; empty where there is none.
std::string word_after(std::string_view key, const std::string& info) {
  std::istringstream in(info);
  for (std::string word; in >> word;) {
    if (word.starts_with(key)) return word.substr(key.size());
  }
  return "";
}

// Adds the file to the script of the heading; a second one of the same name starts another case.
void add_script(std::vector<SpecCase>& cases, SpecCase next) {
  const std::string name = word_after("file=", next.info);
  ScriptFile file{name.empty() ? "train.py" : name, ""};
  const bool joins = !cases.empty() && cases.back().heading == next.heading &&
                     !cases.back().scripts.empty() && !has_file(cases.back().scripts, file.name);
  if (!joins) cases.push_back(std::move(next));
  cases.back().scripts.push_back(std::move(file));
}

std::vector<SpecCase> cases_of(const fs::path& spec) {
  std::vector<SpecCase> cases;
  std::istringstream in(read_text(spec));
  std::string heading;
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      auto& scripts = cases.back().scripts;
      (scripts.empty() ? cases.back().text : scripts.back().text) += line + "\n";
    } else if (line.starts_with("## ")) {
      heading = line.substr(3);
    } else if (line.starts_with("```workload") || line.starts_with("```trace")) {
      inside = true;
      const bool is_trace = line.starts_with("```trace");
      const std::string info = line.substr(is_trace ? 8 : 11);
      cases.push_back({rule_of(spec), heading, spec, number, is_trace, info, "", {}});
    } else if (line.starts_with("```python")) {
      inside = true;
      add_script(cases, {rule_of(spec), heading, spec, number, false, line.substr(9), "", {}});
    }
  }
  return cases;
}

std::vector<fs::path> spec_files() {
  std::vector<fs::path> files;
  if (!fs::exists(kRoot / "tests/specs")) return files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests/specs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string trimmed(const std::string& text) { return std::string(trim(text)); }

// Complains about a mark that names another rule, which would otherwise never be checked.
Marks marks_of(const SpecCase& spec) {
  if (!spec.scripts.empty()) return {};
  constexpr std::string_view kMark = "# finding:";
  Marks marks;
  std::istringstream in(spec.text);
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto mark = line.find(kMark);
    const std::string op = trimmed(line.substr(0, line.find('#')));
    if (mark == std::string::npos) {
      marks.silent_ops += op.empty() ? 0 : 1;
      continue;
    }
    EXPECT_EQ(trimmed(line.substr(mark + kMark.size())), spec.rule)
        << "marks name the spec's own rule, in line " << number << " of the fence";
    marks.fires.insert(op.empty() ? 0 : number);
  }
  return marks;
}

struct FenceOptions {
  std::string device;
  bool training = false;
};

FenceOptions options_of(const SpecCase& spec) {
  FenceOptions options;
  std::istringstream in(spec.info);
  for (std::string word; in >> word;) {
    if (word.starts_with("device=")) {
      options.device = word.substr(7);
    } else if (word == "mode=training") {
      options.training = true;
    } else {
      ADD_FAILURE() << "unknown option '" << word << "': expected device=ID or mode=training";
    }
  }
  return options;
}

std::int64_t line_of(const Finding& finding, const Workload& workload) {
  return finding.ops.empty() ? finding.location.line
                             : workload.ops.at(finding.ops.front()).source.line;
}

// Lines that name what the finding is about; 0 when none does.
std::set<std::int64_t> lines_about(const Finding& finding, const std::string& text) {
  const Provenance& at = finding.location;
  const std::string source = at.file + "(" + std::to_string(at.line) + ")";
  std::set<std::int64_t> lines;
  std::istringstream in(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string event = line.substr(0, line.find(" # "));
    const bool names_it = !at.node.empty() && event.find(at.node) != std::string::npos;
    if (names_it || (at.line > 0 && event.find(source) != std::string::npos)) lines.insert(number);
  }
  if (lines.empty()) lines.insert(0);
  return lines;
}

// The runner merges equal findings of several lines and drops what is not worth a line; a rule's
// own finding counts when all its operations are part of one that was kept.
bool is_kept(const Finding& finding, const std::vector<Finding>& kept) {
  return std::any_of(kept.begin(), kept.end(), [&](const Finding& candidate) {
    if (finding.ops.empty()) return candidate.message == finding.message;
    return std::all_of(finding.ops.begin(), finding.ops.end(), [&](std::size_t op) {
      return std::count(candidate.ops.begin(), candidate.ops.end(), op) > 0;
    });
  });
}

std::vector<Finding> kept_findings(const RuleInput& input, const Rule& rule) {
  const Rule* const only[] = {&rule};
  const std::vector<Finding> kept = run_rules(input, only);
  std::vector<Finding> findings = detect(rule, input);
  std::erase_if(findings, [&](const Finding& finding) { return !is_kept(finding, kept); });
  return findings;
}

// The findings of a spec's workload or trace, and what they are about.
struct Judged {
  Workload workload;
  std::vector<Finding> findings;
};

Judged judge_workload(const SpecCase& spec, const Rule& rule, const Device& device) {
  Result<Workload> workload = parse_workload(spec.text, spec.file.filename().string());
  if (!workload) {
    ADD_FAILURE() << to_string(workload.error());
    return {};
  }
  *workload = options_of(spec).training ? derive_training(*std::move(workload))
                                        : derive_inference(*std::move(workload));
  const TimeModel model(device);
  const Analysis analysis = analyse(*workload, model);
  const BatchCurve curve = curve_of(*workload, {}, {}, device);
  auto findings = kept_findings({*workload, analysis, model, Graph(*workload), &curve}, rule);
  return {*std::move(workload), std::move(findings)};
}

void run_workload(const SpecCase& spec, const Rule& rule, const Device& device) {
  const Judged judged = judge_workload(spec, rule, device);
  std::map<std::int64_t, std::string> found;
  for (const Finding& finding : judged.findings) {
    found[line_of(finding, judged.workload)] += finding.message + "\n";
  }
  const Marks marks = marks_of(spec);
  for (const std::int64_t line : marks.fires) {
    EXPECT_TRUE(found.contains(line)) << "line " << line << " of the fence should get a finding";
  }
  for (const auto& [line, message] : found) {
    EXPECT_TRUE(marks.fires.contains(line))
        << "line " << line << " of the fence should stay silent, but: " << message;
  }
}

Result<Workload> read_traces(const std::string& text) {
  std::vector<TraceSummary> summaries;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n---\n"), rest.size());
    const Result<Timeline> timeline = parse_timeline(rest.substr(0, end));
    if (!timeline) return tl::unexpected(timeline.error());
    summaries.push_back(summarize(*timeline));
    rest.remove_prefix(std::min(end + 5, rest.size()));
  }
  return measured_workload(std::move(summaries));
}

Judged judge_trace(const SpecCase& spec, const Rule& rule, const Device& device) {
  Result<Workload> workload = read_traces(spec.text);
  if (!workload) {
    ADD_FAILURE() << to_string(workload.error());
    return {};
  }
  const TimeModel model(device);
  const Analysis analysis = analyse(*workload, model);
  auto findings = kept_findings({*workload, analysis, model, Graph(*workload)}, rule);
  return {*std::move(workload), std::move(findings)};
}

void run_trace(const SpecCase& spec, const Rule& rule, const Device& device) {
  const Marks marks = marks_of(spec);
  std::set<std::int64_t> found;
  for (const Finding& finding : judge_trace(spec, rule, device).findings) {
    const std::set<std::int64_t> lines = lines_about(finding, spec.text);
    found.insert(lines.begin(), lines.end());
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                            [&](std::int64_t line) { return marks.fires.contains(line); }))
        << "no line asks for: " << finding.message << " at '" << finding.location.node << "'";
  }
  for (const std::int64_t line : marks.fires) {
    EXPECT_TRUE(found.contains(line)) << "line " << line << " of the fence should get a finding";
  }
}

void run_case(const SpecCase& spec) {
  SCOPED_TRACE(spec.file.string() + ":" + std::to_string(spec.line));
  const Rule* rule = find_rule(spec.rule);
  ASSERT_NE(rule, nullptr) << "no rule " << spec.rule;
  if (!spec.scripts.empty()) {
    const std::string gpu = word_after("device=", spec.info);
    return run_script_case(*rule, spec.scripts, gpu.empty() ? "h100_sxm" : gpu);
  }
  const Result<Device> device = find_device(options_of(spec).device);
  ASSERT_TRUE(device) << to_string(device.error());
  spec.is_trace ? run_trace(spec, *rule, *device) : run_workload(spec, *rule, *device);
}

class SpecTest : public testing::Test {
 public:
  explicit SpecTest(SpecCase spec) : spec_(std::move(spec)) {}
  void TestBody() override { run_case(spec_); }

 private:
  SpecCase spec_;
};

Device device_of(const SpecCase& spec) {
  const std::string gpu =
      spec.scripts.empty() ? options_of(spec).device : word_after("device=", spec.info);
  return find_device(gpu.empty() ? "h100_sxm" : gpu).value();
}

std::vector<Finding> findings_of(const SpecCase& spec, const Rule& rule) {
  const Device device = device_of(spec);
  if (spec.is_trace) return judge_trace(spec, rule, device).findings;
  if (spec.scripts.empty()) return judge_workload(spec, rule, device).findings;
  std::vector<ScriptFile> files = spec.scripts;
  take_marks(rule, files);
  return findings_in(rule, files, device);
}

// Times have two digits: constants of the time model change more often than rules. Facts that stand
// in the text already are left out.
std::string said(const Finding& finding, const std::string& before) {
  std::string text = fmt::format("{} ({})\n", finding.message, to_string(finding.level));
  if (finding.own_level) text += fmt::format("  own level: {}\n", to_string(*finding.own_level));
  if (finding.count != 1) text += fmt::format("  count: {}\n", finding.count);
  if (finding.saving) {
    text += fmt::format("  saves: {:.2g}, {:.2g} to {:.2g} us\n",
                        finding.saving->expected.value() * 1e6, finding.saving->low.value() * 1e6,
                        finding.saving->high.value() * 1e6);
  }
  text += fmt::format("  fix: {} ({})\n", finding.fix.text, to_string(finding.fix.exactness));
  for (const TextEdit& edit : finding.fix.edits) {
    text += fmt::format("  {}edit: '{}'\n", finding.fix.safe ? "safe " : "", edit.replacement);
  }
  for (const Evidence& evidence : finding.evidence) {
    const std::string fact = to_string(evidence);
    if (before.find(fact) == std::string::npos) text += "  " + fact + "\n";
  }
  return text;
}

// What a rule says in all cases of its spec.
class SaidTest : public testing::Test {
 public:
  explicit SaidTest(fs::path spec) : spec_(std::move(spec)) {}
  void TestBody() override {
    std::string text;
    for (const SpecCase& spec : cases_of(spec_)) {
      const Rule* rule = find_rule(spec.rule);
      ASSERT_NE(rule, nullptr) << "no rule " << spec.rule;
      const std::vector<Finding> findings = findings_of(spec, *rule);
      if (!findings.empty()) text += "## " + spec.heading + "\n";
      for (const Finding& finding : findings) text += said(finding, text);
    }
    expect_golden(kRoot / "tests/golden/findings" / (rule_of(spec_) + ".txt"), text);
  }

 private:
  fs::path spec_;
};

// A summary without what is empty or zero.
std::string brief(const TraceSummary& summary) {
  std::string text;
  std::istringstream in(write_trace_summary(summary));
  for (std::string line; std::getline(in, line);) {
    const std::size_t end = line.find_last_not_of(" ,");
    const std::string_view said = std::string_view(line).substr(0, end + 1);
    const auto ends = [&](std::string_view word) { return said.ends_with(word); };
    if (ends(": null") || ends(": 0") || ends(": 0.0") || ends(": []") || ends(": {}") ||
        ends(": \"\"") || ends(": false")) {
      continue;
    }
    text += line + "\n";
  }
  return text;
}

// What traces are reduced to, in the traces of a spec.
class SummaryTest : public testing::Test {
 public:
  explicit SummaryTest(fs::path spec) : spec_(std::move(spec)) {}
  void TestBody() override {
    std::string text;
    for (const SpecCase& spec : cases_of(spec_)) {
      if (!spec.is_trace) continue;
      const Result<Workload> workload = read_traces(spec.text);
      ASSERT_TRUE(workload) << to_string(workload.error());
      text += "## " + spec.heading + "\n";
      for (const TraceSummary& trace : workload->traces) text += brief(trace);
    }
    expect_golden(kRoot / "tests/golden/traces" / (rule_of(spec_) + ".txt"), text);
  }

 private:
  fs::path spec_;
};

bool has_traces(const fs::path& spec) {
  return read_text(spec).find("```trace") != std::string::npos;
}

// '-' and ':' have a meaning in --gtest_filter.
std::string test_name(std::string text) {
  const auto is_special = [](unsigned char c) { return std::isalnum(c) == 0 && c != '/'; };
  std::replace_if(text.begin(), text.end(), is_special, '_');
  return text;
}

bool register_specs() {
  for (const fs::path& file : spec_files()) {
    testing::RegisterTest("Said", test_name(rule_of(file)).c_str(), nullptr, nullptr, file.c_str(),
                          1, [file]() -> SaidTest* { return new SaidTest(file); });
    if (has_traces(file)) {
      testing::RegisterTest("Summaries", test_name(rule_of(file)).c_str(), nullptr, nullptr,
                            file.c_str(), 1,
                            [file]() -> SummaryTest* { return new SummaryTest(file); });
    }
    int number = 0;
    for (const SpecCase& spec : cases_of(file)) {
      const std::string name = std::to_string(++number) + "_" + test_name(spec.heading);
      testing::RegisterTest(test_name(spec.rule).c_str(), name.c_str(), nullptr, nullptr,
                            file.c_str(), spec.line,
                            [spec]() -> SpecTest* { return new SpecTest(spec); });
    }
  }
  return true;
}
const bool kRegistered = register_specs();

TEST(Specs, EverySpecHasARuleAFiringAndASilentLine) {
  for (const fs::path& file : spec_files()) {
    SCOPED_TRACE(file);
    EXPECT_NE(find_rule(rule_of(file)), nullptr) << "no rule " << rule_of(file);
    std::size_t fires = 0;
    int silent = 0;
    for (const SpecCase& spec : cases_of(file)) {
      const Marks marks = marks_of(spec);
      fires += marks.fires.size();
      silent += marks.silent_ops;
      const std::size_t marked = count_marks(spec.scripts);
      fires += marked;
      silent += !spec.scripts.empty() && marked == 0 ? 1 : 0;
    }
    EXPECT_GT(fires, 0u);
    EXPECT_GT(silent, 0);
  }
}

TEST(Specs, EveryRuleHasASpecAndAFileOfItsName) {
  for (const Rule* rule : all_rules()) {
    const std::string id(rule->id);
    std::string source = id;
    std::replace(source.begin(), source.end(), '-', '_');
    EXPECT_TRUE(fs::exists(kRoot / "tests/specs" / (id + ".md"))) << id;
    EXPECT_TRUE(fs::exists(kRoot / "src/rooftile/rules" / (source + ".cpp"))) << id;
  }
}

TEST(Rules, IdsAreUnique) {
  std::set<std::string_view> ids;
  for (const Rule* rule : all_rules()) EXPECT_TRUE(ids.insert(rule->id).second) << rule->id;
  for (const Rule* rule : all_rules()) {
    if (rule->former_id.empty()) continue;
    EXPECT_TRUE(ids.insert(rule->former_id).second) << rule->former_id;
  }
  EXPECT_FALSE(ids.empty());
}

TEST(Rules, DocumentationHasItsHeadingsInOrder) {
  for (const Rule* rule : all_rules()) {
    std::vector<std::string> headings;
    std::istringstream in{std::string(rule->doc)};
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("## ")) headings.push_back(line);
    }
    const std::vector<std::string> expected(std::begin(kDocHeadings), std::end(kDocHeadings));
    EXPECT_EQ(headings, expected) << rule->id;
  }
}

}  // namespace
}  // namespace rooftile
