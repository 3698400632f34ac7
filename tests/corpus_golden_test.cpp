// What the readers make of the small files in tests/inputs/models and of the fuzz targets' corpora:
// tests/golden/readers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

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
                         {"configs_training", "fuzz/corpus/hf_config", Mode::training},
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

std::string read_as_text(const fs::path& file, Mode mode) {
  ReadOptions options;
  options.mode = mode;
  const Result<Workload> workload = read(file.string(), options);
  if (!workload) return to_string(workload.error()) + "\n";
  if (workload->traces.empty()) {
    std::string text = to_text(*workload);
    for (const auto& [name, count] : workload->skipped) {
      text += fmt::format("# skipped: {} x {}\n", count, name);
    }
    for (const std::string& note : workload->notes) text += "# " + note + "\n";
    return text;
  }
  const Report report = check(*workload, find_device("h100_sxm").value());
  return render_text(report, {.verbose = true});
}

class Corpus : public testing::TestWithParam<Group> {};

TEST_P(Corpus, IsReadAsBefore) {
  for (const fs::path& file : files_in(kTests / GetParam().folder)) {
    SCOPED_TRACE(file);
    expect_golden(kTests / "golden/readers" / GetParam().name / (file.filename().string() + ".txt"),
                  without_folder(read_as_text(file, GetParam().mode)));
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Corpus, testing::ValuesIn(kGroups),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace rooftile
