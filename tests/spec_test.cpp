// Runs the Markdown specs of the rules: tests/specs/<area>/<rule>.md, one case per fenced workload
// or trace (tests/support/timeline_text.h; a line "---" starts the next rank's) or script.
// A line ending in "# finding: <rule-id>" must get a finding of that rule; every other line must
// get none. A mark on a line of its own stands for a finding about the workload as a whole. A
// finding about a trace belongs to the marked lines that name its operator, range or call, or the
// place of its source. Scripts are fenced as python, for an H100 unless the fence names a device;
// "python file=model.py" adds a file to the script of the same heading. What the findings of a spec
// say is in tests/golden/findings.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "rooftile/base/text.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"
#include "spec_cases.h"

namespace rooftile {
namespace {

// Lines are counted from 1 within the fence; 0 is the workload as a whole.
struct Marks {
  std::set<std::int64_t> fires;
  int silent_ops = 0;
};

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

// The findings of a spec's workload or trace, and what they are about.
struct Judged {
  Workload workload;
  std::vector<Finding> findings;
};

Judged judge_workload(const SpecCase& spec, const Rule& rule, const TimeModel& model) {
  Result<Workload> workload = parse_workload(spec.text, spec.file.filename().string());
  if (!workload) {
    ADD_FAILURE() << to_string(workload.error());
    return {};
  }
  *workload = options_of(spec).training ? derive_training(*std::move(workload))
                                        : derive_inference(*std::move(workload));
  const Analysis analysis = analyse(*workload, model);
  const BatchCurve curve = curve_of(*workload, {}, {}, model.device());
  auto findings = kept_findings({*workload, analysis, model, Graph(*workload), &curve}, rule);
  return {*std::move(workload), std::move(findings)};
}

void run_workload(const SpecCase& spec, const Rule& rule, const TimeModel& model) {
  const Judged judged = judge_workload(spec, rule, model);
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

Judged judge_trace(const SpecCase& spec, const Rule& rule, const TimeModel& model) {
  Result<Workload> workload = read_traces(spec.text);
  if (!workload) {
    ADD_FAILURE() << to_string(workload.error());
    return {};
  }
  const Analysis analysis = analyse(*workload, model);
  auto findings = kept_findings({*workload, analysis, model, Graph(*workload)}, rule);
  return {*std::move(workload), std::move(findings)};
}

void run_trace(const SpecCase& spec, const Rule& rule, const TimeModel& model) {
  const Marks marks = marks_of(spec);
  std::set<std::int64_t> found;
  for (const Finding& finding : judge_trace(spec, rule, model).findings) {
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
  const TimeModel& model = model_on(device->id);
  spec.is_trace ? run_trace(spec, *rule, model) : run_workload(spec, *rule, model);
}

class SpecTest : public testing::Test {
 public:
  explicit SpecTest(SpecCase spec) : spec_(std::move(spec)) {}
  void TestBody() override { run_case(spec_); }

 private:
  SpecCase spec_;
};

bool register_specs() {
  for (const fs::path& file : spec_files()) {
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
