#include "rooftile/readers/python/hydra.h"

#include <gtest/gtest.h>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

constexpr const char* kScript = R"py(
import hydra
import torch

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    use(cfg.batch, cfg.data.workers, cfg.model.width, cfg.opt.lr, cfg.data.name, cfg.amp, cfg.twice,
        cfg.data.root, cfg.net.depth)

main()
)py";

// The values of the call of use(), as text.
std::vector<std::string> values(std::map<std::string, std::string> files) {
  files["p/train.py"] = kScript;
  const std::string path = "p/train.py";
  const auto facts = read_python({&path, 1}, {"", "", files});
  if (!facts) return {facts.error().message};
  EXPECT_EQ(facts->files.size(), 1U);
  std::vector<std::string> all;
  for (const Call* call : facts->method_calls("use")) {
    for (const Argument& argument : call->arguments) {
      const Value value = facts->value(argument.value);
      if (value.known()) EXPECT_EQ(value.certainty, Certainty::configurable);
      const Statement* from = value.found == nullptr ? nullptr : value.found->statement;
      const std::string place =
          from == nullptr ? ""
                          : "@" + from->file->path.substr(from->file->path.rfind('/') + 1) + ":" +
                                std::to_string(from->file->place(from->range.begin).line);
      switch (value.kind) {
        case ValueKind::integer:
          all.push_back(std::to_string(value.integer) + place);
          break;
        case ValueKind::text:
          all.push_back(std::string(value.text) + place);
          break;
        case ValueKind::boolean:
          all.push_back(value.boolean ? "True" + place : "False" + place);
          break;
        case ValueKind::real:
          all.push_back(std::to_string(value.real) + place);
          break;
        default:
          all.push_back("?");
      }
    }
  }
  return all;
}

using Texts = std::vector<std::string>;

TEST(Hydra, ConfigurationsGiveDefaults) {
  EXPECT_EQ(
      values({{"p/conf/config.yaml",
               "defaults:\n"
               "  - data: images\n"
               "  - override /opt@opt: adam\n"
               "  - _self_\n"
               "batch: 64\n"
               "amp: false\n"
               "model: {width: 513, depth: 3}\n"
               "net:\n"
               "  depth: ${model.depth}\n"},
              {"p/conf/data/images.yaml", "workers: 0\nname: 'a b'\nroot: \"x\\ty\"\n"},
              {"p/conf/opt/adam.yaml", "# @package opt\n\nlr: 3e-4\n"}}),
      (Texts{"64@config.yaml:5", "0@images.yaml:1", "513@config.yaml:7", "0.000300@adam.yaml:3",
             "a b@images.yaml:2", "False@config.yaml:6", "?", "?", "?"}));
}

TEST(Hydra, WhatIsSetTwiceIsUnknown) {
  const auto found = values({{"p/conf/config.yaml", "defaults: [data: a]\ntwice: 1\nbatch: 2\n"},
                             {"p/conf/data/a.yaml", "# @package _global_\ntwice: 2\n"}});
  EXPECT_EQ(found.at(0), "2@config.yaml:3");
  EXPECT_EQ(found.at(6), "?");
}

TEST(Hydra, FilesThatAreMissingOrNoYamlArePassedOver) {
  EXPECT_EQ(values({}).at(0), "?");
  EXPECT_EQ(values({{"p/conf/config.yaml", "batch: [\n"}}).at(0), "?");
  // A list of defaults that names itself.
  EXPECT_EQ(values({{"p/conf/config.yaml", "defaults: [config]\nbatch: 2\n"}}).at(0),
            "2@config.yaml:2");
}

// A group that begins at the root keeps its name, wherever its list is.
TEST(Hydra, GroupsOfTheRootKeepTheirPackage) {
  const auto found = values({{"p/conf/config.yaml", "defaults:\n  - data: images\nbatch: 2\n"},
                             {"p/conf/data/images.yaml", "defaults:\n  - /opt: adam\nworkers: 3\n"},
                             {"p/conf/opt/adam.yaml", "lr: 0.5\n"}});
  EXPECT_EQ(found.at(1), "3@images.yaml:3");
  EXPECT_EQ(found.at(3), "0.500000@adam.yaml:1");
}

constexpr const char* kMaker = R"py(
import hydra
import torch

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    hydra.utils.instantiate(cfg.agent).update(1)

main()
)py";

// The file of the class of which an object is made, by the `_target_` that the configuration gives;
// empty where it is left open.
std::string maker_of(const std::string& target, const std::vector<std::string>& definers) {
  std::map<std::string, std::string> files{
      {"p/train.py", kMaker}, {"p/conf/config.yaml", "agent:\n  _target_: " + target + "\n"}};
  std::vector<std::string> paths{"p/train.py"};
  for (const std::string& path : definers) {
    files[path] = "import torch\nclass Agent:\n  def update(self, x):\n    return x\n";
    paths.push_back(path);
  }
  const auto facts = read_python(paths, {"", "", files});
  if (!facts) return facts.error().message;
  const std::vector<const Call*>& makes = facts->method_calls("instantiate");
  if (makes.size() != 1) return "several";
  const ClassDef* made = makes.front()->expr->type->class_def;
  return made == nullptr ? "" : made->file->path;
}

TEST(Hydra, TargetsNameClassesFromAnyPackageOn) {
  const std::string path = "p/vip/models/net.py";
  for (const char* target : {"vip.models.net.Agent", "vip.Agent", "models.Agent", "net.Agent"}) {
    EXPECT_EQ(maker_of(target, {path}), path) << target;
  }
  for (const char* target : {"Agent", "other.Agent", "ip.Agent", "vip.Other"}) {
    EXPECT_EQ(maker_of(target, {path}), "") << target;
  }
  const std::string other = "p/vip/other.py";
  EXPECT_EQ(maker_of("vip.Agent", {path, other}), "") << "either of two";
  EXPECT_EQ(maker_of("models.Agent", {path, other}), path);
}

}  // namespace
}  // namespace rooftile::source
