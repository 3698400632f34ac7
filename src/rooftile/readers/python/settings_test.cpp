#include "rooftile/readers/python/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/refused.h"
#include "rooftile/script/reach/unused.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

constexpr const char* kNetworks = R"py(
import torch
from torch import nn

registry = {}


@register()
class Small(nn.Module):
    pass


@register()
class Large(nn.Module):
    pass


class Other(nn.Module):
    pass
)py";

constexpr const char* kTraining = R"py(
import torch
import networks

model = getattr(networks, load_settings()["model"])().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
)py";

// The classes that no program makes.
std::string unused_classes(const TemporaryFolder& folder) {
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  if (!facts) return facts.error().message;
  std::string all;
  for (const auto& file : facts->files) {
    for (const ClassDef* def : file->classes) {
      if (is_unused(*facts, *def)) all += std::string(def->name) + " ";
    }
  }
  return all;
}

TEST(Settings, SayWhichClassesAreMade) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "configs/models");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  EXPECT_EQ(unused_classes(folder), "");
  folder.write("configs/data.json", R"({"model": "small", "classes": 10})");
  EXPECT_EQ(unused_classes(folder), "") << "no class is named";
  folder.write("configs/models/large.yml", "model: {name: Large, width: 64}\n");
  EXPECT_EQ(unused_classes(folder), "Small Other ");
}

TEST(Settings, AreLookedForSixFoldersDeep) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / ".hidden");
  std::filesystem::create_directories(folder / "1/2/3/4/5/6/7");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  const std::string large = "model: {name: Large, width: 64}\n";
  folder.write(".hidden/large.yml", large);
  folder.write("1/2/3/4/5/6/7/large.yml", large);
  EXPECT_EQ(unused_classes(folder), "");
  folder.write("1/2/3/4/5/6/large.yml", large);
  EXPECT_EQ(unused_classes(folder), "Small Other ");
}

TEST(Settings, MayHaveCommentsInJson) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  for (const char* json :
       {"{\"model\": \"Large\"} // Small\n", "// Small\n{\"note\": \"// Large\"}\n",
        "{\"note\": \"\\\"// Large\"} // \"Small\n"}) {
    folder.write("model.json", json);
    EXPECT_EQ(unused_classes(folder), "Small Other ") << json;
  }
}

TEST(Settings, BehindLinksAreNotOfTheProject) {
  TemporaryFolder folder, other;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "configs");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  const std::string large = "model: {name: Large, width: 64}\n";
  std::filesystem::create_symlink(other.write("large.yml", large), folder / "configs/linked.yml");
  EXPECT_EQ(unused_classes(folder), "");
  folder.write("configs/large.yml", large);
  EXPECT_EQ(unused_classes(folder), "Small Other ");
}

TEST(Settings, SayHowLargeIsWhatTheyMake) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "configs");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  folder.write("configs/large.yaml",
               "model:\n  target: networks.Large\n  params:\n    width: 224\n"
               "    widths: [1, 4, 2]\n    name: \"8\"\nother:\n  width: 512\n");
  folder.write("configs/small.yaml",
               "net:\n  class_path: networks.Small\n  init_args:\n    depth: 3\n"
               "    inner:\n      width: 7\n    sides: {a: 9, b1: 9}\nsecond:\n  type: Small\n  "
               "depth: 2\n  ratio: 0.5\n");
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  ASSERT_TRUE(facts);
  const auto& sizes = facts->store().kept<NamedInSettings>().sizes;
  ASSERT_TRUE(sizes.contains("Large"));
  const std::map<std::string, std::int64_t, std::less<>> expected{{"width", 224}, {"widths", 4}};
  EXPECT_EQ(sizes.at("Large"), expected);
  ASSERT_TRUE(sizes.contains("Small"));
  const std::map<std::string, std::int64_t, std::less<>> small{{"depth", 3}};
  EXPECT_EQ(sizes.at("Small"), small);
}

// Values of the settings files that a document or a script names.
TEST(Settings, SayWhichRunsAreDocumented) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "configs");
  folder.write(".git/HEAD", "");
  folder.write("networks.py", kNetworks);
  folder.write("train.py", kTraining);
  folder.write("configs/base.yaml", "model: {name: Wide, width: 64, kind: x}\n");
  folder.write("configs/old.json", R"({"model": "narrow"})");
  const std::string path = folder.path().string();
  const auto texts = [&] {
    const auto facts = read_python({&path, 1});
    const auto& found = facts->store().kept<NamedInSettings>().texts;
    return std::set<std::string>(found.begin(), found.end());
  };
  EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "narrow", "wide"})) << "none is named";
  folder.write("README.md", "python train.py --config configs/base.yaml");
  EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "wide"}));
  folder.write("README.md", "python train.py --config configs/<model>.yaml");
  EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "narrow", "wide"})) << "one of the folder";
  folder.write("other/last.yaml", "model: deep\n");
  for (const char* name : {"<model>", "[model]", "{model}", "$MODEL", "*"}) {
    folder.write("README.md", "--config configs/" + std::string(name));
    EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "narrow", "wide"})) << name;
  }
  for (const char* name : {"", "model", " <model>", "/<model>"}) {
    folder.write("README.md", "--config configs/" + std::string(name));
    EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "deep", "narrow", "wide"})) << name;
  }
  std::filesystem::remove(folder / "README.md");
  for (const char* name : {"a.md", "docs/a.rst", "run.sh", "Makefile"}) {
    folder.write(name, "train.py --config configs/base.yaml");
    EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "wide"})) << name;
    std::filesystem::remove(folder / name);
  }
  folder.write("notes.txt", "train.py --config configs/base.yaml");
  EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "deep", "narrow", "wide"}));
  folder.write("train.py", "# configs/base.yaml" + std::string(kTraining));
  EXPECT_EQ(texts(), (std::set<std::string>{"Wide", "wide"})) << "by the script";
}

// What the only settings file holds that a script names.
TEST(Settings, AreTheDefaultsOfTheScriptThatNamesThem) {
  TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  folder.write("configs/base.yaml", "model: {name: Wide}\nrate: 0.5\n");
  folder.write("configs/other.yaml", "model: {name: Other}\n");
  const auto defaults = [&](const std::string& code) {
    const std::string path = folder.write("train.py", code + kTraining);
    const auto facts = read_python({&path, 1});
    std::string all;
    for (const auto& [entry, values] : facts->store().kept<DefaultSettings>().by_entry) {
      for (const auto& [key, value] : values) all += key + "=" + value + " ";
    }
    return all;
  };
  const std::string base = "model.name=Wide rate=0.5 ";
  EXPECT_EQ(defaults("x = load('configs/base.yaml')"), base);
  EXPECT_EQ(defaults("def g(path='configs/base.yaml'):\n  pass\n"), base);
  EXPECT_EQ(defaults("x = load('configs/base.yaml') or load('configs/base.yaml')"), base);
  EXPECT_EQ(defaults("x = load('configs/base.yaml') or load('configs/other.yaml')"), "");
  EXPECT_EQ(defaults("x = load('configs/missing.yaml')"), "");
  EXPECT_EQ(defaults("x = load('.git/HEAD')"), "");
  EXPECT_EQ(defaults(""), "");
}

TEST(Settings, AModuleThatThePackageLacksIsMissed) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "modules");
  folder.write("modules/networks.py", kNetworks);
  folder.write("modules/losses.py", "");
  folder.write("train.py", std::string("from modules.networks import Small\n"
                                       "from modules.background import Predictor\n") +
                               kTraining);
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->store().kept<LackingModules>().files.size(), 1U);
  folder.write("modules/background.pyx", "");
  const auto complete = read_python({&path, 1});
  ASSERT_TRUE(complete);
  EXPECT_TRUE(complete->store().kept<LackingModules>().files.empty());
}

TEST(Settings, WhatABuildMakesIsNotMissed) {
  TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  folder.write("modules/networks.py", kNetworks);
  folder.write("modules/losses.py", "");
  const std::string path = folder.path().string();
  const std::pair<const char*, bool> cases[] = {
      {"modules.background", false},      {"modules.background.Predictor", true},
      {"modules._C.run", false},          {"modules.names_pb2.Name", false},
      {"modules.version.text", false},    {"modules.CUDA.run", false},
      {"modules.networks.Small", false},  {"other.background.Predictor", false},
      {"modules.networks_2.Small", true},
  };
  for (const auto& [name, is_missed] : cases) {
    const std::string full = name;
    const std::size_t dot = full.rfind('.');
    folder.write("train.py", "from modules.networks import Small\nfrom " + full.substr(0, dot) +
                                 " import " + full.substr(dot + 1) + "\n" + kTraining);
    const auto facts = read_python({&path, 1});
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->store().kept<LackingModules>().files.size(), is_missed ? 1U : 0U) << name;
  }
}

// In a package with a module `gym` of its own, `import gym.core` is of the library.
TEST(Settings, AModuleOfALibraryIsNotMissed) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "own/gym");
  folder.write("own/__init__.py", "");
  folder.write("own/gym/__init__.py", "");
  folder.write("own/gym/networks.py", kNetworks);
  folder.write("own/train.py", std::string("from gym.core import Env\n"
                                           "from own.gym.networks import Small\n") +
                                   kTraining);
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  ASSERT_TRUE(facts);
  EXPECT_TRUE(facts->store().kept<LackingModules>().files.empty());
}

}  // namespace
}  // namespace rooftile::source
