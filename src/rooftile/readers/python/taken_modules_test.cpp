// What a script loads or names by a text, and functions that it keeps in a table.
#include <gtest/gtest.h>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

SourceFacts facts_of_all(const Files& files) {
  Result<SourceFacts> facts = read_python_texts(files);
  EXPECT_TRUE(facts.has_value());
  return std::move(*facts);
}

bool imports(const SourceFacts& facts, std::string_view from, std::string_view to) {
  for (const auto& file : facts.files) {
    if (file->path != from) continue;
    for (const File* one : file->imported) {
      if (one->path == to) return true;
    }
  }
  return false;
}

constexpr const char* kNet =
    "from torch import nn\nclass Net(nn.Module):\n  def forward(self, x):\n    return x\n";

// Whether main.py, which loads a module by the expression, imports nets/a.py.
bool loads(const std::string& expression) {
  const std::string text =
      "import imp, importlib, os, torch\ndef make(cfg):\n  return " + expression;
  return imports(facts_of_all({{"main.py", text + "\n"}, {"nets/a.py", kNet}}), "main.py",
                 "nets/a.py");
}

TEST(TakenModules, FollowsWhatIsTakenAtOnce) {
  EXPECT_TRUE(loads("imp.load_source(cfg.name, cfg.path).Net()"));
  EXPECT_TRUE(loads("importlib.import_module(cfg.name).Net()"));
  EXPECT_TRUE(loads("getattr(importlib.import_module(cfg.name), 'Net')()"));
  EXPECT_TRUE(loads("importlib.import_module('.'.join(['nets', cfg.name])).Net()"));
  EXPECT_TRUE(loads("imp.load_source('x', os.path.join('nets', cfg.name + '.py')).Net()"));
}

TEST(TakenModules, TakesTheOnlyPlainClassOfTheName) {
  const Files files{{"main.py",
                     "import imp\ndef make(cfg):\n"
                     "  return imp.load_source(cfg.name, cfg.path).Renderer()\n"},
                    {"a.py", "import torch\nclass Renderer:\n  pass\n"},
                    {"b.py", "import torch\nclass Other:\n  pass\n"}};
  EXPECT_TRUE(imports(facts_of_all(files), "main.py", "a.py"));
  EXPECT_FALSE(imports(facts_of_all(files), "main.py", "b.py"));
  Files several = files;
  several[2].second = several[1].second;
  EXPECT_FALSE(imports(facts_of_all(several), "main.py", "a.py"));
}

TEST(TakenModules, FollowsTheNameOfAClassInAText) {
  const Files files{
      {"train.py", "import torch\nmake(name='losses.own.OwnLoss', other='losses.own')\n"},
      {"losses/own.py", "import torch\nclass OwnLoss:\n  pass\n"},
      {"losses/more.py", "import torch\nclass OtherLoss:\n  pass\n"}};
  EXPECT_TRUE(imports(facts_of_all(files), "train.py", "losses/own.py"));
  EXPECT_FALSE(imports(facts_of_all(files), "train.py", "losses/more.py"));
}

TEST(TakenModules, FollowsTheTargetsOfAConfiguration) {
  PythonOptions options;
  options.contents["train.py"] =
      "import hydra\nimport torch\n@hydra.main(config_path='conf', config_name='c')\n"
      "def main(cfg):\n  net = hydra.utils.instantiate(cfg.agent)\n  net(torch.zeros(1))\nmain()\n";
  options.contents["conf/c.yaml"] = "agent:\n  _target_: models.Net\n";
  options.contents["models.py"] = kNet;
  const std::vector<std::string> paths{"train.py", "models.py"};
  const Result<SourceFacts> facts = read_python(paths, options);
  ASSERT_TRUE(facts.has_value());
  EXPECT_TRUE(imports(*facts, "train.py", "models.py"));
  for (const Call* call : facts->method_calls("instantiate")) {
    ASSERT_NE(call->expr->type->class_def, nullptr);
    EXPECT_EQ(call->expr->type->class_def->name, "Net");
  }
}

TEST(TakenModules, TakesTheFileThatDefinesWhatIsImported) {
  const auto target = [](const std::string& beside) {
    const SourceFacts facts =
        facts_of_all({{"main.py", "import torch\nfrom pkg import trainer\n"},
                      {"utils.py", "import torch\ndef read(x):\n  return x\n"},
                      {"pkg/utils.py", beside},
                      {"pkg/trainer.py", "import torch\nfrom utils import read\nread(1)\n"}});
    const auto calls = facts.method_calls("read");
    return calls.size() == 1 && calls[0]->target != nullptr ? calls[0]->target->file->path : "";
  };
  EXPECT_EQ(target("import torch\ndef other(x):\n  return x\n"), "utils.py");
  EXPECT_EQ(target("import torch\ndef read(x):\n  return x\n"), "pkg/utils.py");
}

TEST(HookCalls, RunsTheFunctionUnderTheKey) {
  const SourceFacts facts = facts_of_all(
      {{"train.py",
        "import torch\nclass Engine:\n  def hook(self, name, state):\n    self.hooks[name](state)\n"
        "  def train(self):\n    self.hook('on_update', 1)\n"
        "def update(state):\n  pass\ndef test(state):\n  pass\n"
        "engine = Engine()\nengine.hooks['on_update'] = update\nengine.hooks['on_test'] = "
        "test\n"}});
  for (const FunctionDef* def : facts.files.front()->functions) {
    if (def->name == "update") EXPECT_EQ(def->callers.size(), 1U);
    if (def->name == "test") EXPECT_TRUE(def->callers.empty());
  }
}

}  // namespace
}  // namespace rooftile::source
