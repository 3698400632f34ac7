#include "rooftile/readers/python/source_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

TEST(SourceFiles, HaveTheNamesOfTheirModules) {
  const std::pair<const char*, const char*> cases[] = {
      {"net.py", "net"},           {"package/models/net.py", "package.models.net"},
      {"./net.py", "net"},         {"../models/net.py", "models.net"},
      {"v1.5/net.py", "v1_5.net"}, {"models/__init__.py", "models"},
      {"__init__.py", "__init__"}, {"a.b.py", "a.b"},
  };
  for (const auto& [path, module] : cases) EXPECT_EQ(module_name(path), module) << path;
}

TEST(SourceFiles, AreFoundOnce) {
  TemporaryFolder folder;
  const std::string path = folder.write("train.py", "import torch\n");
  folder.write("net.py", "import torch\n");
  const std::vector<std::string> paths{path, folder.path().string(), path};
  const auto found = find_candidates(paths, {});
  ASSERT_TRUE(found.has_value());
  std::vector<std::string> modules;
  for (const Candidate& each : *found) modules.push_back(each.module);
  EXPECT_EQ(modules, (std::vector<std::string>{"net", "train"}));
  EXPECT_FALSE(found->front().named);
  EXPECT_TRUE(found->back().named);
}

// A package counts from the folder that it lies in.
TEST(SourceFiles, OfAPackageAreNamedWithIt) {
  TemporaryFolder folder;
  fs::create_directories(folder / "own/models");
  folder.write("own/__init__.py", "");
  folder.write("own/models/__init__.py", "");
  const std::string net = folder.write("own/models/net.py", "");
  const std::string loss = folder.write("own/loss.py", "");
  const auto module_of = [](const std::vector<std::string>& paths) {
    return find_candidates(paths, {}).value().back().module;
  };
  EXPECT_EQ(module_of({net}), "own.models.net");
  EXPECT_EQ(module_of({loss, net}), "own.models.net");
  fs::remove(folder / "own/__init__.py");
  EXPECT_EQ(module_of({net}), "models.net");
  EXPECT_EQ(module_of({loss, net}), "models.net");
}

std::vector<std::string> left(const TemporaryFolder& folder, const std::string& exclude) {
  PythonOptions options;
  options.exclude = exclude;
  options.exclude_root = folder.path().string();
  const std::string path = folder.path().string();
  std::vector<std::string> modules;
  const auto found = find_candidates({&path, 1}, options);
  if (!found) return {found.error().message};
  for (const Candidate& each : *found) modules.push_back(each.module);
  return modules;
}

TEST(SourceFiles, MayBeLeftOut) {
  using Names = std::vector<std::string>;
  TemporaryFolder folder;
  fs::create_directories(folder / "old/deep");
  folder.write("train.py", "");
  folder.write("old/train.py", "");
  folder.write("old/deep/net.py", "");
  EXPECT_EQ(left(folder, ""), (Names{"old.deep.net", "old.train", "train"}));
  EXPECT_EQ(left(folder, "old/"), (Names{"train"}));
  EXPECT_EQ(left(folder, "deep/"), (Names{"old.train", "train"}));
  EXPECT_EQ(left(folder, "train.py"), (Names{"old.deep.net"}));
  EXPECT_EQ(left(folder, "/train.py"), (Names{"old.deep.net", "old.train"}));
}

TEST(SourceFiles, ProjectsReachUpToTheirRoot) {
  TemporaryFolder root;
  const fs::path at = fs::weakly_canonical(root.path());
  const fs::path deep = at / "1/2/3/4/5/6/7/8";
  fs::create_directories(deep);
  const auto count = [&](int levels) {
    fs::path folder = deep;
    for (int level = 8; level > levels; --level) folder = folder.parent_path();
    return project_folders(folder).size();
  };
  EXPECT_EQ(count(3), 1U) << "no project";
  root.write("LICENSE", "");
  EXPECT_EQ(count(4), 5U);
  EXPECT_EQ(count(5), 1U) << "too far for an archive";
  fs::create_directories(at / ".git");
  EXPECT_EQ(count(5), 6U);
  EXPECT_EQ(count(7), 8U);
  EXPECT_EQ(count(8), 1U) << "too far for a repository";
  EXPECT_EQ(project_folders(at / "1/2").back(), at);
}

TEST(SourceFiles, LieInFoldersBelowThem) {
  TemporaryFolder root;
  const fs::path at = fs::weakly_canonical(root.path());
  EXPECT_TRUE(lies_in(at, at / "a.py"));
  EXPECT_TRUE(lies_in(at, at / "b/../a.py"));
  EXPECT_FALSE(lies_in(at / "b", at / "a.py"));
  EXPECT_FALSE(lies_in(at / "b", at / "b/../a.py"));
}

TEST(SourceFiles, AThreadReadsEight) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  EXPECT_EQ(threads_for(0), 1U);
  EXPECT_EQ(threads_for(7), 1U);
  EXPECT_EQ(threads_for(8), std::min<std::size_t>(cores, 2));
  EXPECT_EQ(threads_for(15), std::min<std::size_t>(cores, 2));
  EXPECT_EQ(threads_for(100'000), std::min<std::size_t>(cores, 32));
}

}  // namespace
}  // namespace rooftile::source
