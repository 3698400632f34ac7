// What the rules say of the cases of each spec, and what their findings stand on, in folders of
// tests/golden: `findings` has what the spec's own rule says, `all_rules` what all of them do,
// `facts` the facts of scripts, `queries` what analysis/source concludes from them, `traces` the
// summaries of traces, `operations` work, time and memory. In all but `findings` and `traces`, a
// line that was the same in an earlier case of the spec is not repeated. `stands_on` says which
// lines and words of a script decide what is found, and `estimates` how long the operations in
// tests/inputs/operations.txt take.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rooftile/analysis/memory/memory.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_text.h"
#include "spec_cases.h"
#include "tests/support/conclusions.h"
#include "tests/support/facts_text.h"
#include "tests/support/golden.h"
#include "tests/support/queries_text.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

// Lines of one golden, each written where it comes first.
class Lines {
 public:
  void add(const std::string& line) {
    if (seen_.insert(line).second) text_ += line + "\n";
  }
  void add_always(const std::string& line) { text_ += line + "\n"; }
  void title(const std::string& heading) { text_ += "## " + heading + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::set<std::string> seen_;
  std::string text_;
};

// Where all findings are, and what is new of what they say.
void add_findings(const std::vector<Finding>& findings, Lines& said) {
  std::map<std::string, std::vector<std::string>> places;
  for (const Finding& finding : findings) {
    places[finding.rule].push_back(fmt::format(
        "{}:{}", finding.location.node.empty() ? finding.location.file : finding.location.node,
        finding.location.line));
  }
  std::string all;
  for (const auto& [rule, where] : places)
    all += fmt::format("  {} {}", rule, fmt::join(where, " "));
  said.add_always(all.empty() ? "  nothing" : all);
  for (const Finding& finding : findings) {
    std::string line =
        fmt::format("{} {}: {}", to_string(finding.level), finding.rule, finding.message);
    if (finding.saving) {
      line +=
          fmt::format(" [{:.4g} {:.4g} {:.4g} us]", finding.saving->low.value() * 1e6,
                      finding.saving->expected.value() * 1e6, finding.saving->high.value() * 1e6);
    }
    said.add(line);
  }
}

std::string digits(const Range<Seconds>& time) {
  return fmt::format("{:.5g} ({:.5g} to {:.5g})", time.expected.value() * 1e6,
                     time.low.value() * 1e6, time.high.value() * 1e6);
}

std::string digits(const Range<Bytes>& bytes) {
  return fmt::format("{:.6g} ({:.6g} to {:.6g})", bytes.expected.value(), bytes.low.value(),
                     bytes.high.value());
}

std::string product_text(const MatrixProduct& one) {
  const auto operand = [](const MatrixOperand& of) {
    return fmt::format("{} {} {} of {}+{}", of.role, of.contiguous_dim, of.contiguous, of.leading,
                       of.offset);
  };
  return fmt::format("  {}{}x{}x{} batch {} times {} density {:.4g}: {}; {}; {}", one.part, one.m,
                     one.n, one.k, one.batch, one.repeats, one.density, operand(one.a),
                     operand(one.b), operand(one.out));
}

std::string time_text(const TimeEstimate& time) {
  std::string text = fmt::format(
      "  {} us, {}: launch {:.5g} compute {:.5g} memory {:.5g} power {:.5g} floor {:.5g}",
      digits(time.time), to_string(time.bound), time.launch.value() * 1e6,
      time.compute.value() * 1e6, time.memory.value() * 1e6, time.power.value() * 1e6,
      time.floor.value() * 1e6);
  if (time.grid) {
    text += fmt::format(" tile {}x{} waves {:.4g} last {:.3g}", time.grid->tile.rows,
                        time.grid->tile.cols, time.grid->waves, time.grid->last_wave_fill);
  }
  if (time.split_k != 1) text += fmt::format(" split {}", time.split_k);
  if (time.own_effects.expected != 1) text += fmt::format(" own {:.5g}", time.own_effects.expected);
  if (time.learned != 1) text += fmt::format(" learned {:.5g}", time.learned);
  if (time.winograd) text += " Winograd";
  if (time.conversions.expected.value() > 0) text += " conversions " + digits(time.conversions);
  return text;
}

void add_operations(const Workload& workload, const Analysis& analysis, Lines& lines) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const OpAnalysis& op = analysis.ops[i];
    const std::string code = to_text(workload.ops[i]);
    std::string text =
        fmt::format("{}\n  {:.6g} flop, {:.6g} bytes", trim(code.substr(0, code.find(" line="))),
                    op.cost.flop.value(), op.cost.bytes.value());
    for (const MatrixProduct& product : op.products) text += "\n" + product_text(product);
    if (op.time) text += "\n" + time_text(*op.time);
    lines.add(text);
  }
  lines.add("total " + digits(analysis.total));
}

// Operations of a trace as they ran.
void add_table(const Workload& workload, const Device& device, Lines& lines) {
  const std::string table = render_ops_csv(list_operations(workload, device));
  for (const std::string_view line : split(table, '\n')) lines.add(std::string(line));
}

void add_memory(const Workload& workload, const Device& device, Lines& lines) {
  const MemoryEstimate memory = estimate_memory(workload, device);
  lines.add(fmt::format(
      "memory {}: weights {:.6g}, gradients {}, optimizer {}, activations {}, cache {}, "
      "state {}, workspace {}",
      to_string(memory.fit()), memory.weights.value(), digits(memory.gradients),
      digits(memory.optimizer), digits(memory.activations), digits(memory.kv_cache),
      digits(memory.recurrent_state), digits(memory.workspace)));
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

// The goldens of one spec.
class SaidTest : public testing::Test {
 public:
  explicit SaidTest(fs::path spec) : spec_(std::move(spec)) {}

  void TestBody() override {
    for (const SpecCase& spec : cases_of(spec_)) {
      const Result<Workload> workload = read_case(spec);
      ASSERT_TRUE(workload) << to_string(workload.error());
      add(spec, *workload);
    }
    const std::string name = rule_of(spec_) + ".txt";
    expect_golden(kRoot / "tests/golden/findings" / name, own_);
    for (const auto& [folder, lines] : {std::pair<const char*, const Lines&>("all_rules", all_),
                                        {"facts", facts_},
                                        {"queries", queries_},
                                        {"operations", operations_}}) {
      if (!lines.text().empty())
        expect_golden(kRoot / "tests/golden" / folder / name, lines.text());
    }
    if (!traces_.empty()) expect_golden(kRoot / "tests/golden/traces" / name, traces_);
  }

 private:
  void add(const SpecCase& spec, const Workload& workload) {
    const TimeModel& model = model_of(spec);
    const Device& device = model.device();
    const Analysis analysis = analyse(workload, model);
    const bool is_plain = !workload.ops.empty() && !spec.is_trace;
    const BatchCurve curve = is_plain ? curve_of(workload, {}, {}, device) : BatchCurve();
    const Graph graph(workload);
    const RuleInput input{workload, analysis, model, graph, is_plain ? &curve : nullptr};
    add_own(spec, input);
    all_.title(spec.heading);
    add_findings(run_rules(input, all_rules()), all_);
    if (workload.source != nullptr) {
      facts_.title(spec.heading);
      for (const std::string& line : facts_lines(*workload.source)) facts_.add(line);
      queries_.title(spec.heading);
      for (const std::string& line : query_lines(*workload.source)) queries_.add(line);
    }
    if (is_plain) {
      operations_.title(spec.heading);
      add_operations(workload, analysis, operations_);
      add_memory(workload, device, operations_);
    }
    if (spec.is_trace) {
      traces_ += "## " + spec.heading + "\n";
      operations_.title(spec.heading);
      add_table(workload, device, operations_);
    }
    for (const TraceSummary& trace : workload.traces) {
      for (const std::string& line : summary_lines(trace)) traces_ += line + "\n";
    }
  }

  void add_own(const SpecCase& spec, const RuleInput& input) {
    const Rule* const rule = find_rule(spec.rule);
    const std::vector<Finding> findings = input.workload.source != nullptr
                                              ? run_rules(input, {&rule, 1})
                                              : kept_findings(input, *rule);
    if (!findings.empty()) own_ += "## " + spec.heading + "\n";
    for (const Finding& finding : findings) own_ += said(finding, own_);
  }

  fs::path spec_;
  std::string own_, traces_;
  Lines all_, facts_, queries_, operations_;
};

// A script with one of its lines left out, or with another word in it, and what was changed.
struct Variant {
  std::string change, text;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Another word in its place; empty where there is none.
std::string other_word(const std::string& word) {
  if (word == "True") return "False";
  if (word == "False" || word == "None") return "True";
  if (!word.empty() && std::all_of(word.begin(), word.end(), ::isdigit)) {
    return word == "0" ? "1" : word == "1" ? "7" : "0";
  }
  return "";
}

std::vector<Variant> variants_of(const std::string& text) {
  std::vector<Variant> variants;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string line(trim(std::string_view(text).substr(begin, end - begin)));
    std::string cut = text;
    cut.erase(begin, end - begin - 1);  // the lines below keep their numbers
    if (!line.empty()) variants.push_back({fmt::format("without '{}'", line), cut});
    for (std::size_t at = begin; at < end;) {
      std::size_t last = at;
      while (last < end && is_word(text[last])) ++last;
      const std::string word = text.substr(at, last - at), other = other_word(word);
      if (!other.empty()) {
        std::string changed = text;
        changed.replace(at, word.size(), other);
        variants.push_back({fmt::format("{} for {} in '{}'", other, word, line), changed});
      }
      at = last + 1;
    }
    begin = end;
  }
  return variants;
}

// Numbers of a workload or a trace, one larger and twice as large; of many, so many in all.
constexpr std::size_t kMostNumbers = 12;

std::vector<Variant> variants_of_numbers(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> numbers;
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0 || is_word(text[at - 1])) continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    numbers.emplace_back(at, end - at);
    at = end;
  }
  std::vector<Variant> variants;
  const std::size_t step = numbers.size() / kMostNumbers + 1;
  for (std::size_t i = 0; i < numbers.size(); i += step) {
    const auto [at, size] = numbers[i];
    const std::int64_t number = std::stoll(text.substr(at, size));
    const std::size_t begin = text.rfind('\n', at) + 1;
    const std::string line = text.substr(begin, text.find_first_of(" \n", at) - begin);
    for (const std::int64_t other : {number + 1, 2 * number}) {
      std::string changed = text;
      changed.replace(at, size, std::to_string(other));
      variants.push_back({fmt::format("{} for {} in '{}'", other, number, line), changed});
    }
  }
  return variants;
}

// What a rule's findings stand on in a case of its spec: changes of single lines, words and numbers
// after which it finds something else.
class StandsOnTest : public testing::Test {
 public:
  explicit StandsOnTest(std::vector<SpecCase> cases) : cases_(std::move(cases)) {}

  void TestBody() override {
    std::string text;
    for (const SpecCase& spec : cases_) text += text_of(spec, *find_rule(spec.rule));
    const std::string name = rule_of(cases_.front().file) + ".txt";
    expect_golden(kRoot / "tests/golden/stands_on" / name, text);
  }

 private:
  static std::string text_of(SpecCase spec, const Rule& rule) {
    take_marks(rule, spec.scripts);
    std::string& changed = spec.scripts.empty() ? spec.text : spec.scripts.front().text;
    const TimeModel& model = model_of(spec);
    const std::string original = changed, before = found(spec, rule, model);
    std::string text = fmt::format("## {}\n{}", spec.heading, before);
    for (const Variant& variant :
         spec.scripts.empty() ? variants_of_numbers(original) : variants_of(original)) {
      changed = variant.text;
      const std::string after = found(spec, rule, model);
      if (after != before) text += fmt::format("{}:\n{}", variant.change, after);
    }
    return text;
  }

  // What the rule says; of numbers that change, where.
  static std::string found(const SpecCase& spec, const Rule& rule, const TimeModel& model) {
    const Result<Workload> workload = read_case(spec);
    if (!workload) return "  cannot be read\n";
    for (const auto& file : workload->source != nullptr
                                ? std::span(workload->source->files)
                                : std::span<const std::unique_ptr<source::File>>()) {
      if (file->has_errors) return "  is no script\n";
    }
    const Analysis analysis = analyse(*workload, model);
    const Rule* const only[] = {&rule};
    std::string text;
    for (const Finding& finding : run_rules({*workload, analysis, model, Graph(*workload)}, only)) {
      const Provenance& at = finding.location;
      text += fmt::format(
          "  {}: {}\n", to_string(finding.level),
          spec.scripts.empty() ? fmt::format("{} {}", at.node, at.line) : finding.message);
    }
    return text.empty() ? "  nothing\n" : text;
  }

  std::vector<SpecCase> cases_;
};

// Of scripts, workloads and traces the first case with a mark.
std::vector<SpecCase> marked_cases(const fs::path& spec) {
  std::vector<SpecCase> scripts, workloads, traces;
  for (const SpecCase& one : cases_of(spec)) {
    const bool is_marked = one.scripts.empty() ? one.text.find(kScriptMark) != std::string::npos
                                               : count_marks(one.scripts) > 0;
    if (!is_marked) continue;
    (!one.scripts.empty() ? scripts : one.is_trace ? traces : workloads).push_back(one);
  }
  std::vector<SpecCase> chosen;
  for (const auto& of_kind : {scripts, workloads, traces}) {
    if (!of_kind.empty()) chosen.push_back(of_kind.front());
  }
  return chosen;
}

bool register_said() {
  for (const fs::path& file : spec_files()) {
    testing::RegisterTest("Said", test_name(rule_of(file)).c_str(), nullptr, nullptr, file.c_str(),
                          1, [file]() -> SaidTest* { return new SaidTest(file); });
    const std::vector<SpecCase> marked = marked_cases(file);
    testing::RegisterTest("StandsOn", test_name(rule_of(file)).c_str(), nullptr, nullptr,
                          file.c_str(), 1,
                          [marked]() -> StandsOnTest* { return new StandsOnTest(marked); });
  }
  return true;
}
const bool kRegistered = register_said();

// Writes the files of a text in which "==== path" begins each.
void write_files(const std::string& text, const TemporaryFolder& folder) {
  std::string path, content;
  const auto write = [&] {
    if (path.empty()) return;
    fs::create_directories(fs::path(folder / path).parent_path());
    folder.write(path, content);
  };
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("==== ")) {
      write();
      path = line.substr(5);
      content.clear();
    } else {
      content += std::string(line) + "\n";
    }
  }
  write();
}

// A folder with packages, documented commands, configurations, a notebook, tests and broken files.
TEST(Project, IsReadAsBefore) {
  TemporaryFolder folder;
  fs::create_directories(folder / ".git");
  write_files(read_text(kRoot / "tests/inputs/project.txt"), folder);
  const std::string path = folder.path().string();
  Result<SourceFacts> facts = read_python({&path, 1});
  ASSERT_TRUE(facts) << to_string(facts.error());
  Lines lines;
  for (const std::string& line : facts_lines(*facts)) lines.add_always(line);
  for (const source::SkippedFile& file : facts->skipped) {
    lines.add(fmt::format("skipped {}: {}", file.path, file.reason));
  }
  for (const std::string& file : facts->not_relevant) lines.add("not relevant " + file);
  if (facts->least_torch) {
    lines.add(fmt::format("PyTorch {}.{}", facts->least_torch->major, facts->least_torch->minor));
  }
  for (const std::string& line : query_lines(*facts)) lines.add_always(line);
  Workload workload;
  workload.source = std::make_shared<const SourceFacts>(*std::move(facts));
  const TimeModel& model = model_on("h100_sxm");
  const Analysis analysis = analyse(workload, model);
  add_findings(run_rules({workload, analysis, model, Graph(workload)}, all_rules()), lines);
  std::string text = lines.text();
  for (std::size_t at; (at = text.find(path + "/")) != std::string::npos;) {
    text.erase(at, path.size() + 1);
  }
  expect_golden(kRoot / "tests/golden/project.txt", text);
}

// Times of operations of all kinds on a GPU of each generation.
class Estimates : public testing::TestWithParam<const char*> {};

TEST_P(Estimates, OfEachKindAreAsBefore) {
  const Device device = find_device(GetParam()).value();
  const TimeModel model(device);
  const Result<Workload> workload =
      parse_workload(read_text(kRoot / "tests/inputs/operations.txt"), "operations.txt");
  ASSERT_TRUE(workload) << to_string(workload.error());
  std::string text;
  for (const Op& op : workload->ops) {
    const std::optional<TimeEstimate> time = model.estimate(op);
    text += fmt::format("{} {}\n{}\n", kind_name(op.body), op.name,
                        time ? time_text(*time) : "  no time");
  }
  expect_golden(kRoot / "tests/golden/estimates" / fmt::format("{}.txt", GetParam()), text);
}

INSTANTIATE_TEST_SUITE_P(Devices, Estimates,
                         testing::Values("p100_sxm2", "p4", "v100_sxm2", "t4", "a100_sxm_80gb",
                                         "rtx_3090", "l40s", "h100_sxm", "b200", "rtx_5090",
                                         "jetson_agx_orin_64gb"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace rooftile
