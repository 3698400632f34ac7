// Reports of real recordings, which are not in the repository: ROOFTILE_RECORDINGS names a folder
// that holds them (docs/traces.md says where they come from). Without it the cases are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

struct Recording {
  const char* name;                // of the golden file
  std::vector<const char*> files;  // ranks of one job
};

const Recording kRecordings[] = {
    {"resnet50_no_workers", {"kineto_resnet50_nw0_a.json.gz"}},
    {"resnet50_four_workers", {"kineto_resnet50_nw4_a.json.gz"}},
    {"megatron_two_ranks",
     {"megatron_tp2_rank0.pt.trace.json.gz", "megatron_tp2_rank1.pt.trace.json.gz"}},
    {"ddp_resnet", {"hta_nccl_parser_config__nccl_data.json.gz"}},
    {"vit_inference_h100", {"tracelens_h100__Falconsai_nsfw_image_detection__1016002.json.gz"}}};

class RecordedReports : public testing::TestWithParam<Recording> {};

// Paths differ from machine to machine.
void drop_folders(std::vector<std::string>& paths) {
  for (std::string& path : paths) path = fs::path(path).filename();
}

std::string report_of(const fs::path& folder, const Recording& recording) {
  std::vector<std::string> paths;
  for (const char* file : recording.files) paths.push_back(folder / file);
  const auto workload = read_all(paths, {});
  if (!workload) return to_string(workload.error());
  const auto device = recorded_device(*workload);
  if (!device) return to_string(device.error());
  Report report = check(*workload, *device);
  drop_folders(report.inputs);
  for (Finding& finding : report.findings) {
    finding.location.file = fs::path(finding.location.file).filename();
  }
  return render_text(report, {.verbose = true});
}

TEST_P(RecordedReports, AreAsTheirOwnerReadThem) {
  const char* folder = std::getenv("ROOFTILE_RECORDINGS");
  if (folder == nullptr) GTEST_SKIP() << "ROOFTILE_RECORDINGS is not set";
  for (const char* file : GetParam().files) {
    if (!fs::exists(fs::path(folder) / file)) GTEST_SKIP() << "no " << file;
  }
  const std::string report = report_of(folder, GetParam());
  const fs::path golden =
      fs::path(ROOFTILE_ROOT) / "tests/golden/recordings" / (std::string(GetParam().name) + ".txt");
  if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(golden) << report;
  std::ifstream file(golden);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(report, expected.str()) << golden;
}

INSTANTIATE_TEST_SUITE_P(Golden, RecordedReports, testing::ValuesIn(kRecordings),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace rooftile
