// Rendered reports against the files in tests/golden.
#include "tests/support/golden.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "rooftile/base/text.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/sample_report.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(ROOFTILE_ROOT) / "tests" / "golden";

struct Rendering {
  const char* file;
  std::string text;
};

std::vector<Rendering> renderings(const Report& report) {
  return {{"report.txt", render_text(report)},
          {"report_verbose.txt", render_text(report, {.verbose = true, .width = 80})},
          {"report.json", render_json(report)},
          {"report.sarif", render_sarif(report)},
          {"report.md", render_markdown(report)},
          {"ops.txt", render_ops_text(report)},
          {"ops.csv", render_ops_csv(report)},
          {"ops.json", render_ops_json(report)}};
}

struct GoldenCase {
  const char* folder;
  Report (*report)();
};

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.folder; }

class Golden : public testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, Renderings) {
  for (const Rendering& rendering : renderings(GetParam().report())) {
    expect_golden(kGoldens / GetParam().folder / rendering.file, rendering.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Reports, Golden,
                         testing::Values(GoldenCase{"training_step", sample_report},
                                         GoldenCase{"nothing_to_change", sample_clean_report},
                                         GoldenCase{"unknown_time", sample_unknown_report},
                                         GoldenCase{"hostile_names", sample_hostile_report}),
                         [](const auto& test) { return std::string(test.param.folder); });

// The folder of the program; tools/mutate names that of a changed one.
std::string program_folder() {
  const char* other = std::getenv("ROOFTILE_BINARY");
  return fs::path(other != nullptr ? other : ROOFTILE_BINARY).parent_path().string();
}

// Both outputs of a shell command run in the folder of the goldens, and its exit code.
std::string run_shell(const std::string& command) {
  const std::string words = "cd '" + (kGoldens / "runs").string() + "' && PATH='" +
                            program_folder() + "':$PATH; (" + command + ") 2>&1";
  FILE* pipe = popen(words.c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  std::string output;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, got);
  }
  const int status = pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return code == 0 ? output : output + "[exit " + std::to_string(code) + "]\n";
}

// A transcript is a list of "$ command" lines, each followed by what the command prints.
std::string replayed(const std::string& transcript) {
  std::string text;
  for (const std::string_view line : split(transcript, '\n')) {
    if (!line.starts_with("$ ")) continue;
    if (!text.empty()) text += '\n';
    text += std::string(line) + '\n' + run_shell(std::string(line.substr(2)));
  }
  return text;
}

TEST(GoldenRuns, Transcripts) {
  int transcripts = 0;
  for (const auto& entry : fs::directory_iterator(kGoldens / "runs")) {
    if (entry.path().extension() != ".transcript") continue;
    ++transcripts;
    expect_golden(entry.path(), replayed(file_text(entry.path())));
  }
  EXPECT_GE(transcripts, 2);
}

}  // namespace
}  // namespace rooftile
