// testing::TempDir() is a new folder for each run of the tests, so that runs beside each other do
// not write into each other's files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace rooftile {
namespace {

class OwnTemporaryFolder : public testing::Environment {
 public:
  void SetUp() override {
    std::string folder = std::filesystem::temp_directory_path() / "rooftile_tests_XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ::setenv("TEST_TMPDIR", (folder + "/").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("TEST_TMPDIR");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

[[maybe_unused]] const testing::Environment* const own_folder =
    testing::AddGlobalTestEnvironment(new OwnTemporaryFolder);

}  // namespace
}  // namespace rooftile
