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
std::vector<std::string> values(std::map<std::string, std::string> files,
                                const std::string& script = kScript) {
  files["p/train.py"] = script;
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

TEST(Hydra, ValuesAreReadAsYamlHasThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"yes", "True"},     {"On", "True"}, {"FALSE", "False"}, {"off", "False"}, {"'no'", "no"},
      {"1.5", "1.500000"}, {"17", "17"},   {"a b", "a b"},     {"\"17\"", "17"}, {"a$b", "?"},
      {"null", "?"},       {"~", "?"},     {"'a\"b'", "?"},    {"[1]", "?"},
  };
  for (const auto& [written, expected] : cases) {
    const std::string text = "amp: " + std::string(written) + "\n";
    const std::string place = std::string_view(expected) == "?" ? "" : "@config.yaml:1";
    EXPECT_EQ(values({{"p/conf/config.yaml", text}}).at(5), expected + place) << written;
  }
}

struct DefaultCase {
  const char* entry;
  const char* path;
  const char* text;
  std::size_t value;
  const char* expected;
};

TEST(Hydra, DefaultsSayWhereTheirValuesGo) {
  const char* workers = "workers: 9\n";
  const DefaultCase cases[] = {
      {"data: a.yml", "data/a.yml", workers, 1, "9@a.yml:1"},
      {"data: a", "data/a.yml", workers, 1, "?"},
      {"optional data: a", "data/a.yaml", workers, 1, "9@a.yaml:1"},
      {"data@other: a", "data/a.yaml", workers, 1, "?"},
      {"other@data: a", "other/a.yaml", workers, 1, "9@a.yaml:1"},
      {"data@_global_: a", "data/a.yaml", "batch: 7\n", 0, "7@a.yaml:1"},
      {"base", "base.yaml", "batch: 7\n", 0, "7@base.yaml:1"},
      {"_self_", "_self_.yaml", "batch: 7\n", 0, "?"},
      {"data: $a", "data/$a.yaml", workers, 1, "?"},
      {"data: ../base", "base.yaml", workers, 1, "?"},
      {"data: /a", "data/a.yaml", workers, 1, "?"},
      {"data/more: a", "data/more/a.yaml", workers, 1, "?"},
      {"data/more@data: a", "data/more/a.yaml", workers, 1, "9@a.yaml:1"},
      {"other: a", "other/a.yaml", "# @package data\nworkers: 9\n", 1, "9@a.yaml:2"},
      {"other: a", "other/a.yaml", "# note\n# @package data\nworkers: 9\n", 1, "9@a.yaml:3"},
      {"data: a", "data/a.yaml", "workers: 9\n# @package other\n", 1, "9@a.yaml:1"},
  };
  for (const DefaultCase& each : cases) {
    const std::string config = "defaults:\n  - " + std::string(each.entry) + "\n";
    const auto found =
        values({{"p/conf/config.yaml", config}, {"p/conf/" + std::string(each.path), each.text}});
    EXPECT_EQ(found.at(each.value), each.expected) << each.entry << "\n" << each.text;
  }
}

// Eight lists of defaults one after the other, and 64 files in all.
TEST(Hydra, ConfigurationsMayBeMany) {
  const auto chain = [](int length) {
    std::map<std::string, std::string> files{{"p/conf/config.yaml", "defaults: [c1]\n"}};
    for (int i = 1; i <= length; ++i) {
      files["p/conf/c" + std::to_string(i) + ".yaml"] =
          i == length ? "batch: 7\n" : "defaults: [c" + std::to_string(i + 1) + "]\n";
    }
    return values(files).at(0);
  };
  EXPECT_EQ(chain(8), "7@c8.yaml:1");
  EXPECT_EQ(chain(9), "?");
  const auto list = [](int length) {
    std::map<std::string, std::string> files;
    std::string config = "defaults:\n";
    for (int i = 1; i <= length; ++i) {
      config += "  - c" + std::to_string(i) + "\n";
      files["p/conf/c" + std::to_string(i) + ".yaml"] = i == length ? "batch: 7\n" : "other: 1\n";
    }
    files["p/conf/config.yaml"] = config;
    return values(files).at(0);
  };
  EXPECT_EQ(list(63), "7@c63.yaml:1");
  EXPECT_EQ(list(64), "?");
}

TEST(Hydra, DecoratorsNameTheConfiguration) {
  const std::pair<const char*, bool> cases[] = {
      {"hydra.main(config_path='conf', config_name='config.yaml')", true},
      {"hydra.main('conf', 'config')", true},
      {"hydra.main(config_path='conf/config.yaml')", true},
      {"hydra.main(config_path='conf')", false},
      {"hydra.main(config_name='conf/config')", true},
      {"hydra.main(config_path='/conf', config_name='config')", false},
      {"hydra.main(config_path='conf', config_name='/config')", false},
      {"hydra.other(config_path='conf', config_name='config')", false},
      {"hydra.main", false},
      {"main(config_path='conf', config_name='config')", true},
      {"hydra_main(config_path='conf', config_name='config')", true},
  };
  for (const auto& [decorator, is_read] : cases) {
    std::string script = kScript;
    script.replace(script.find("hydra.main("), script.find("\ndef") - script.find("hydra.main("),
                   decorator);
    EXPECT_EQ(values({{"p/conf/config.yaml", "batch: 7\n"}}, script).at(0),
              is_read ? "7@config.yaml:1" : "?")
        << decorator;
  }
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

TEST(Hydra, KeysThatAreNoNamesArePassedOver) {
  for (const char* text : {"{a-b: 1, batch: 7}\n", "{1: 2, batch: 7}\n", "{'': 1, batch: 7}\n",
                           "{a b: {c: 1}, batch: 7}\n"}) {
    EXPECT_EQ(values({{"p/conf/config.yaml", text}}).at(0), "7@config.yaml:1") << text;
  }
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
