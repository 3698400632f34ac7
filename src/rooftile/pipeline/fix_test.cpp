// Fixes of whole scripts, and what comments, settings and baselines set aside.
#include "rooftile/pipeline/fix.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "rooftile/findings/fingerprint.h"
#include "rooftile/rooftile.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRule = "precision/deprecated-amp-api";

// Two lines with one finding each of kRule: 7 and 9.
const std::string kScript =
    "import torch\n"
    "from torch import nn\n"
    "from torch.cuda.amp import autocast\n"
    "\n"
    "model = nn.Linear(512, 512).cuda()\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "scaler = torch.cuda.amp.GradScaler(init_scale=1024)\n"
    "for x, y in loader:\n"
    "    with autocast(dtype=torch.float16):\n"
    "        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
    "    scaler.scale(loss).backward()\n"
    "    scaler.step(optimizer)\n"
    "    scaler.update()\n"
    "    optimizer.zero_grad()\n";

std::string with_line(const std::string& text, int number, const std::string& line) {
  std::istringstream in(text);
  std::string result;
  int at = 0;
  for (std::string old; std::getline(in, old);) result += (++at == number ? line : old) + "\n";
  return result;
}

std::vector<const Rule*> only(std::string_view id) { return {find_rule(id)}; }

FixOptions asking(std::vector<const Rule*> rules, bool with_unsafe = false) {
  FixOptions options;
  options.rules = std::move(rules);
  options.with_unsafe = with_unsafe;
  return options;
}

Report checked(const std::string& text, std::vector<const Rule*> rules = only(kRule)) {
  Workload workload;
  workload.source = std::make_shared<const SourceFacts>(read_python_text("train.py", text).value());
  return check(workload, rules);
}

std::vector<std::int64_t> lines_of(const Report& report) {
  std::vector<std::int64_t> lines;
  for (const Finding& finding : report.findings) lines.push_back(finding.location.line);
  std::ranges::sort(lines);
  return lines;
}

FixResult fixed(const std::string& text, FixOptions options = asking(only(kRule))) {
  options.read.contents["train.py"] = text;
  const std::string paths[] = {"train.py"};
  return fix_scripts(paths, options).value();
}

TEST(Fix, ReplacesOnlyWhatTheEditsName) {
  const FixResult result = fixed(kScript, asking(only(kRule), true));
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(result.files[0].before, kScript);
  const std::string expected =
      with_line(with_line(kScript, 7, "scaler = torch.amp.GradScaler(\"cuda\", init_scale=1024)"),
                9, "    with torch.autocast(\"cuda\", dtype=torch.float16):");
  EXPECT_EQ(result.files[0].after, expected);
  EXPECT_EQ(result.fixed.at(std::string(kRule)), 2);
  EXPECT_TRUE(checked(expected).findings.empty());
  EXPECT_TRUE(fixed(expected, asking(only(kRule), true)).files.empty());
}

// The same edits, whatever the line ends and bytes around them.
TEST(Fix, KeepsLineEndsMarksAndForeignBytes) {
  const std::string plain = fixed(kScript).files.at(0).after;
  const auto with_crlf = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
      text.replace(at, 1, "\r\n");
    }
    return text;
  };
  const std::string latin = "# caf\xE9 \xFF\n";
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(fixed(with_crlf(kScript)).files.at(0).after, with_crlf(plain));
  EXPECT_EQ(fixed(latin + kScript).files.at(0).after, latin + plain);
  EXPECT_EQ(fixed(mark + kScript).files.at(0).after, mark + plain);
  const std::string no_newline = kScript.substr(0, kScript.size() - 1);
  EXPECT_EQ(fixed(no_newline).files.at(0).after, plain.substr(0, plain.size() - 1));
}

TEST(Fix, LeavesFilesWithSyntaxErrors) {
  const FixResult result = fixed(kScript + "def broken(:\n");
  EXPECT_TRUE(result.files.empty());
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0], "train.py stays as it is: it has syntax errors");
}

Finding breaking_finding() {
  Finding finding;
  finding.message = "Something";
  finding.location = {"train.py", 1, "", ""};
  finding.fix = {"Break it", Exactness::bit_exact, {{"train.py", 0, 0, "def f(:\n"}}, true};
  return finding;
}

TEST(Fix, RefusesEditsThatBreakTheSyntax) {
  const Rule breaking{
      .id = "test/breaking", .level = Level::advice, .in_scripts = [](const source::SourceFacts&) {
        return std::vector<Finding>{breaking_finding()};
      }};
  const FixResult result = fixed(kScript, asking({&breaking}));
  EXPECT_TRUE(result.files.empty());
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0],
            "train.py stays as it is: it would have syntax errors after its fixes");
}

TEST(Fix, EndsWhenARuleNeverDoes) {
  const Rule endless{
      .id = "test/endless", .level = Level::advice, .in_scripts = [](const source::SourceFacts&) {
        Finding finding = breaking_finding();
        finding.fix.edits = {{"train.py", 0, 0, "# again\n"}};
        return std::vector<Finding>{finding};
      }};
  const FixResult result = fixed(kScript, asking({&endless}));
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0],
            "train.py stays as it is: it has fixes that bring forth others without end");
  EXPECT_TRUE(result.files.empty());
}

// What to do in place of a read depends on what the host does with the value.
TEST(Fix, AdviceOnAReadFollowsItsUse) {
  const auto advice_on = [](const std::string& read) {
    const std::string script =
        "import torch\n"
        "from torch import nn\n"
        "model = nn.Linear(512, 512).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in loader:\n"
        "    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n" +
        read;
    const Report report = checked(script, only("launch/sync-every-step"));
    EXPECT_EQ(report.findings.size(), 1U) << read;
    return report.findings.empty() ? std::string() : report.findings.front().fix.text;
  };
  EXPECT_TRUE(advice_on("    total += loss.item()\n").starts_with("Add loss.detach() up"));
  EXPECT_TRUE(advice_on("    seen.append(loss.cpu())\n").starts_with("Keep the tensors"));
  EXPECT_TRUE(advice_on("    rate = auc(loss.cpu())\n").starts_with("Compute it with tensors"));
  EXPECT_TRUE(advice_on("    weight = weights[loss.item()]\n").starts_with("Index with"));
  EXPECT_TRUE(advice_on("    if torch.isnan(loss):\n        break\n").starts_with("Check every"));
  EXPECT_TRUE(advice_on("    assert not torch.isnan(loss)\n").starts_with("Check every"));
  EXPECT_TRUE(advice_on("    if loss < best:\n        save(model)\n").starts_with("Decide on"));
  EXPECT_TRUE(advice_on("    rows = torch.zeros(int(loss) + 1)\n").starts_with("Take the number"));
  EXPECT_TRUE(advice_on("    scaled = y.cuda() * loss.item()\n").starts_with("Keep it a tensor"));
  EXPECT_TRUE(
      advice_on("    seen = loss.item()\n    print(seen)\n").starts_with("Add loss.detach"));
}

// An edit after which the same rule, or another, finds what only a person can change.
TEST(Fix, UndoesEditsThatBringANewFinding) {
  const Rule worse{.id = "test/worse",
                   .level = Level::advice,
                   .in_scripts = [](const source::SourceFacts& facts) {
                     const std::string& text = facts.files.front()->text;
                     Finding finding = breaking_finding();
                     finding.fix.edits.clear();
                     if (!text.starts_with("# once")) {
                       finding.fix.edits = {{"train.py", 0, 0, "# once\n"}};
                     }
                     return std::vector<Finding>{finding};
                   }};
  const FixResult result = fixed(kScript, asking({&worse}));
  EXPECT_TRUE(result.files.empty());
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0],
            "train.py stays as it is: it would have a new finding after its fixes, of test/worse");
}

Finding finding_with(std::vector<TextEdit> edits, std::int64_t line) {
  Finding finding = breaking_finding();
  finding.location.line = line;
  finding.message += std::to_string(line);  // findings that say the same are told as one
  finding.fix.edits = std::move(edits);
  return finding;
}

// A finding of another rule that appears after an edit, and has none itself, is no fault of the
// edit.
TEST(Fix, KeepsEditsAfterWhichAnotherRuleSaysMore) {
  const Rule first{
      .id = "test/first", .level = Level::info, .in_scripts = [](const source::SourceFacts& facts) {
        std::vector<Finding> findings;
        if (!facts.files.front()->text.starts_with("# ")) {
          findings.push_back(finding_with({{"train.py", 0, 0, "# one\n"}}, 1));
        }
        return findings;
      }};
  const Rule second{.id = "test/second",
                    .level = Level::info,
                    .in_scripts = [](const source::SourceFacts& facts) {
                      std::vector<Finding> findings;
                      const std::string& text = facts.files.front()->text;
                      if (text.starts_with("# ")) findings.push_back(finding_with({}, 2));
                      if (text.starts_with("# one")) {
                        findings.push_back(finding_with({{"train.py", 0, 0, "# two\n"}}, 1));
                      }
                      return findings;
                    }};
  const FixResult result = fixed(kScript, asking({&first, &second}));
  EXPECT_TRUE(result.problems.empty());
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(result.files[0].after, "# two\n# one\n" + kScript);
}

struct EditCase {
  const char* name;
  const char* rule;
  std::string before;
  std::string after;  // the same where a person has to do it
};

// What a machine would write has broken such scripts, or has said what is not so.
TEST(Fix, EditsOnlyWhatItKnows) {
  const std::string head =
      "import torch\n"
      "from torch import nn\n"
      "from torch.utils.data import DataLoader\n"
      "model = nn.Linear(512, 512).cuda()\n"
      "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n";
  const std::string tail =
      "    loss = nn.functional.mse_loss(model(x), y.cuda(non_blocking=True))\n"
      "    loss.backward()\n"
      "    optimizer.step()\n"
      "    optimizer.zero_grad()\n";
  const std::string pinned = "loader = DataLoader(data, 32, num_workers=4, pin_memory=True)\n";
  const std::string loop = "for x, y in loader:\n";
  const auto in_step = [&](const std::string& line) { return head + loop + line + tail; };
  const auto of_loader = [&](const std::string& settings) {
    return head + "loader = DataLoader(\n" + settings + ")\n" + loop + "    x = x.cuda()\n" + tail;
  };
  const EditCase cases[] = {
      {"to() of an unknown class takes no non_blocking", "input_pipeline/blocking-copy",
       head + pinned + loop + "    x = Box(x).to(\"cuda\")\n" + tail, ""},
      {"a tensor's does", "input_pipeline/blocking-copy",
       head + pinned + loop + "    x = x.to(\"cuda\")\n" + tail,
       head + pinned + loop + "    x = x.to(\"cuda\", non_blocking=True)\n" + tail},
      {"the device is a keyword behind the dtype", "input_pipeline/made-on-host-then-moved",
       in_step("    x = x.cuda() + torch.zeros(512).to(dtype=y.dtype, device=\"cuda\")\n"),
       in_step("    x = x.cuda() + torch.zeros(512, device=\"cuda\")"
               ".to(dtype=y.dtype, device=\"cuda\")\n")},
      {"the move that is left with nothing to do goes", "input_pipeline/made-on-host-then-moved",
       in_step("    x = x.cuda() + torch.zeros(512).to(\"cuda\")\n"),
       in_step("    x = x.cuda() + torch.zeros(512, device=\"cuda\")\n")},
      {"a name may stand for True already", "precision/tf32-off",
       "import torch\nfast = False\ntorch.backends.cuda.matmul.allow_tf32 = fast\n" +
           in_step("    x = x.cuda()\n"),
       ""},
      {"another literal may be what runs", "gemm/odd-vocabulary",
       "from torch import nn\nclass Net(nn.Module):\n"
       "    def __init__(self, vocab=50257):\n"
       "        super().__init__()\n"
       "        self.embedding = nn.Embedding(vocab, 512)\n"
       "settings = dict(vocab=50257)\n" +
           head + "model = Net().cuda()\n" + loop + "    x = x.cuda()\n" + tail,
       ""},
      {"PyTorch 2.0 refuses fused for weights that move later", "optimizer/unfused",
       "import torch\nfrom torch import nn\nmodel = nn.Linear(512, 512)\n"
       "optimizer = torch.optim.AdamW(model.parameters())\nmodel = torch.compile(model.cuda())\n" +
           loop + "    x = x.cuda()\n" + tail,
       ""},
      {"a comment stays with its argument", "input_pipeline/unpinned-batches",
       of_loader("    data,\n    num_workers=4  # two per GPU\n"),
       of_loader("    data,\n    num_workers=4,  # two per GPU\n    pin_memory=True\n")},
      {"a comment explains the old value", "input_pipeline/loader-stall",
       of_loader("    data,\n    num_workers=0,  # none on Windows\n    pin_memory=True,\n"), ""},
  };
  for (const EditCase& each : cases) {
    FixOptions options = asking(only(each.rule), true);
    const FixResult result = fixed(each.before, std::move(options));
    const std::string after = result.files.empty() ? each.before : result.files.front().after;
    EXPECT_EQ(after, each.after.empty() ? each.before : each.after) << each.name;
    EXPECT_FALSE(checked(each.before, only(each.rule)).findings.empty()) << each.name;
  }
}

// The new GradScaler needs PyTorch 2.3, so its edit is not safe.
TEST(Fix, UnsafeOnesOnlyWhenAskedFor) {
  const FixResult without = fixed(kScript);
  EXPECT_EQ(without.fixed.at(std::string(kRule)), 1);
  EXPECT_EQ(without.unsafe_left, 1);
  EXPECT_TRUE(fixed(without.files.at(0).after).files.empty());
  EXPECT_EQ(fixed(kScript, asking(only(kRule), true)).unsafe_left, 0);
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class FixFiles : public testing::Test {
 protected:
  FixFiles() { folder_.write("train.py", kScript); }

  FixResult plan(const fs::path& path) {
    const std::string paths[] = {path.string()};
    return fix_scripts(paths, asking(only(kRule))).value();
  }

  TemporaryFolder folder_;
  fs::path file_ = folder_ / "train.py";
};

TEST_F(FixFiles, KeepsModeAndLink) {
  fs::create_symlink("train.py", folder_ / "link.py");
  ::chmod(file_.c_str(), 0754);
  const FixResult result = plan(folder_ / "link.py");
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(bytes_of(file_), kScript) << "planning writes nothing";
  EXPECT_TRUE(write_fixed(result, folder_.string()).has_value());
  EXPECT_EQ(bytes_of(file_), fixed(kScript).files.at(0).after);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.py"));
  EXPECT_EQ(static_cast<unsigned>(fs::status(file_).permissions()), 0754u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(FixFiles, RefusesAFileThatChanged) {
  const FixResult result = plan(file_);
  std::ofstream(file_, std::ios::app) << "x = 1\n";
  const Result<void> written = write_fixed(result, folder_.string());
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message.find("has changed since it was read"), std::string::npos);
  EXPECT_EQ(bytes_of(file_), kScript + "x = 1\n");
}

TEST_F(FixFiles, ExcludedAndIgnoredOnesStay) {
  fs::create_directories(folder_ / "old");
  std::ofstream(folder_ / "old/other.py", std::ios::binary) << kScript;
  const std::string paths[] = {folder_.string()};
  FixOptions options = asking(only(kRule));
  EXPECT_EQ(fix_scripts(paths, options)->files.size(), 2u);
  options.read.exclude = "old/";
  options.read.exclude_root = folder_.string();
  EXPECT_EQ(fix_scripts(paths, options)->files.size(), 1u);
  toml_file::Settings settings;
  settings.folder = folder_.string();
  settings.path_ignores = {{"/train.py", {{"precision/*", 1}}}};
  options.filter = [&](Report& report) { ignore_by_path(settings, report); };
  EXPECT_TRUE(fix_scripts(paths, options)->files.empty());
}

struct AllowCase {
  const char* name;
  int line;
  const char* text;  // of the line, in the place of its own
  std::vector<std::int64_t> left;
  std::int64_t allowed;
};

TEST(Allowed, CommentsHoldForTheirStatement) {
  const std::string scaler = "scaler = torch.cuda.amp.GradScaler(init_scale=1024)";
  const std::string on_line = scaler + "  # rooftile: allow precision/deprecated-amp-api -- old";
  const std::string above = "# rooftile: allow precision/*\n" + scaler;
  const std::string inside =
      "scaler = torch.cuda.amp.GradScaler(\n    # rooftile: allow precision/*\n    init_scale=1)";
  const std::string behind =
      "scaler = torch.cuda.amp.GradScaler(\n    init_scale=1)  # rooftile: allow precision/*";
  const AllowCase cases[] = {
      {"on the line", 7, on_line.c_str(), {9}, 1},
      {"above", 7, above.c_str(), {10}, 1},
      {"inside of the statement", 7, inside.c_str(), {11}, 1},
      {"behind its last line", 7, behind.c_str(), {10}, 1},
      {"another rule",
       7,
       "scaler = torch.cuda.amp.GradScaler()  # rooftile: allow precision/tf32-off",
       {7, 9},
       0},
      {"the head of a block only",
       8,
       "for x, y in loader:  # rooftile: allow precision/*",
       {7, 9},
       0},
      {"of a with statement", 9, "    with autocast():  # rooftile: allow precision/*", {7}, 1}};
  for (const AllowCase& each : cases) {
    const Report report = checked(with_line(kScript, each.line, each.text));
    EXPECT_EQ(lines_of(report), each.left) << each.name;
    EXPECT_EQ(report.set_aside.allowed, each.allowed) << each.name;
  }
}

TEST(Allowed, SaysWhatIsWrongWithComments) {
  const Report report = checked(
      "# rooftile: allow precision/no-such-rule\n# rooftile: forbid x\n"
      "# rooftile: allow precision/deprecated-amp-api\nx = 1\n" +
      kScript);
  ASSERT_EQ(report.notes.size(), 2u);
  EXPECT_EQ(report.notes[0],
            "train.py:1: comment not understood: no rule 'precision/no-such-rule' to allow");
  EXPECT_TRUE(report.notes[1].starts_with("train.py:2: comment not understood: expected 'allow'"))
      << report.notes[1];
  EXPECT_EQ(report.set_aside.unused_comments,
            std::vector<std::string>{"train.py:3: precision/deprecated-amp-api"});
  EXPECT_EQ(report.findings.size(), 2u);
}

TEST(Baseline, SurvivesOtherLinesAndTellsNewOnes) {
  const Baseline baseline = parse_baseline(render_baseline(checked(kScript))).value();
  EXPECT_EQ(baseline.fingerprints.size(), 2u);
  Report shifted = checked("# a comment\n\n" + with_line(kScript, 9,
                                                         "    with  autocast( "
                                                         "dtype=torch.float16):"));
  set_aside_known(baseline, shifted);
  EXPECT_EQ(lines_of(shifted), std::vector<std::int64_t>{11}) << "the edited line is new";
  const std::string scaler = "scaler = torch.cuda.amp.GradScaler(init_scale=1024)";
  Report twice = checked(with_line(kScript, 7, scaler + "\n" + scaler));
  set_aside_known(baseline, twice);
  EXPECT_EQ(lines_of(twice), std::vector<std::int64_t>{8}) << "the second of two equal lines";
  Report spaced = checked(with_line(kScript, 9, "    with  autocast(dtype=torch.float16):"));
  set_aside_known(baseline, spaced);
  EXPECT_TRUE(spaced.findings.empty());
}

// A rule that had another name when the comment, the baseline or the settings were written.
TEST(FormerNames, HoldInCommentsBaselinesAndSettings) {
  const std::string text =
      "from torch.utils.data import DataLoader\nfrom torch import nn\nimport data, torch\n"
      "model = nn.Linear(8, 8).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
      "loader = DataLoader(data.Images('x'), batch_size=8)\n"
      "for x in loader:\n    model(x.cuda()).sum().backward()\n    optimizer.step()\n";
  const auto rules = only("input_pipeline/loader-stall");
  const Report report = checked(text, rules);
  ASSERT_EQ(lines_of(report), std::vector<std::int64_t>{6});
  const std::string loader = "loader = DataLoader(data.Images('x'), batch_size=8)";
  const Report allowed =
      checked(with_line(text, 6, loader + "  # rooftile: allow input_pipeline/no-workers"), rules);
  EXPECT_TRUE(allowed.findings.empty());
  EXPECT_TRUE(allowed.notes.empty());
  EXPECT_TRUE(allowed.set_aside.unused_comments.empty());

  Report old = report;
  old.findings[0].rule = "input_pipeline/no-workers";
  add_fingerprints(old.findings);
  EXPECT_NE(old.findings[0].fingerprint, report.findings[0].fingerprint);
  const Baseline baseline = parse_baseline(render_baseline(old)).value();
  Report known = report;
  set_aside_known(baseline, known);
  EXPECT_TRUE(known.findings.empty());

  toml_file::Settings settings;
  settings.folder = "/";
  settings.path_ignores = {{"*.py", {{"input_pipeline/no-workers", 1}}}};
  Report ignored = report;
  ignored.findings[0].location.file = "/train.py";
  ignore_by_path(settings, ignored);
  EXPECT_TRUE(ignored.findings.empty());
}

TEST(Baseline, RefusesOtherFiles) {
  for (const char* text : {"", "[]", "{}", R"({"schema": "rooftile-baseline/9", "findings": []})",
                           R"({"schema": "rooftile-baseline/1"})",
                           R"({"schema": "rooftile-baseline/1", "findings": [{"rule": "x"}]})"}) {
    EXPECT_FALSE(parse_baseline(text)) << text;
  }
}

// apex has no argument in common with PyTorch's own.
TEST(Fix, ApexIsLeftToAPerson) {
  const std::string script = with_line(with_line(kScript, 3, "from apex import amp"), 7,
                                       "model, optimizer = amp.initialize(model, optimizer)");
  const Report report = checked(with_line(script, 9, "    if True:"));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].location.line, 7);
  EXPECT_TRUE(report.findings[0].fix.edits.empty());
  EXPECT_NE(report.findings[0].fix.text.find("torch.autocast"), std::string::npos);
}

}  // namespace
}  // namespace rooftile
