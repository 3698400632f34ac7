#include "rooftile/readers/python/read_python.h"

#include <gtest/gtest.h>

#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_edits.h"

namespace rooftile::source {
namespace {

SourceFacts facts_of(std::string_view text) {
  Result<SourceFacts> facts = read_python_text("train.py", text);
  EXPECT_TRUE(facts.has_value());
  return std::move(*facts);
}

const Call& only(const std::vector<const Call*>& calls) {
  EXPECT_EQ(calls.size(), 1U);
  return *calls.at(0);
}

TEST(ReadPython, ImportsByTheFolderThatWasGiven) {
  PythonOptions options;
  options.contents["src/train.py"] = "import torch\nfrom src.utils import move\nmove(1)\n";
  options.contents["src/utils.py"] = "import torch\ndef move(x):\n  return x\n";
  const std::vector<std::string> paths{"src/train.py", "src/utils.py"};
  const Result<SourceFacts> facts = read_python(paths, options);
  ASSERT_TRUE(facts.has_value());
  EXPECT_NE(only(facts->method_calls("move")).target, nullptr);
}

struct NameCase {
  const char* what;
  const char* text;
  const char* full_name;
};

TEST(ReadPython, ResolvesNames) {
  const NameCase cases[] = {
      {"plain", "import torch\ntorch.nn.Linear(1, 2)\n", "torch.nn.Linear"},
      {"alias", "import torch.nn as nn\nnn.Linear(1, 2)\n", "torch.nn.Linear"},
      {"from", "from torch.nn import Linear as L\nL(1, 2)\n", "torch.nn.Linear"},
      {"private home", "from torch.nn.modules.linear import Linear\nLinear(1)\n",
       "torch.nn.Linear"},
      {"wildcard", "from torch.cuda.amp import *\nGradScaler()\n", "torch.cuda.amp.GradScaler"},
      {"variable", "import torch\nmake = torch.nn.Linear\nmake(1)\n", "torch.nn.Linear"},
      {"loader", "import torch\ntorch.utils.data.DataLoader(x)\n", "torch.utils.data.DataLoader"},
      {"in a function", "def f():\n  from torch import compile as c\n  c(1)\n", "torch.compile"},
      {"try", "try:\n  import torch as t\nexcept ImportError:\n  t = None\nt.compile(1)\n",
       "torch.compile"},
      {"builtin", "print(1)\n", "print"},
      {"behind an unknown wildcard", "from conf import *\ntorch.compile(x)\n", "torch.compile"},
      {"method", "import torch\nx = torch.zeros(1)\nx.item()\n", "torch.Tensor.item"},
  };
  for (const NameCase& each : cases) {
    EXPECT_EQ(facts_of(each.text).calls(each.full_name).size(), 1U) << each.what;
  }
}

struct ValueCase {
  const char* what;
  const char* text;
  std::int64_t value;
  Certainty certainty;
};

TEST(ReadPython, FollowsValues) {
  const ValueCase cases[] = {
      {"literal", "f(n=4)\n", 4, Certainty::literal},
      {"negative", "f(n=-4)\n", -4, Certainty::literal},
      {"constant", "N = 4\nf(n=N)\n", 4, Certainty::constant},
      {"arithmetic", "N = 4\nf(n=N * 2 + 1)\n", 9, Certainty::constant},
      {"argparse",
       "p.add_argument('--num-workers', default=3)\na = p.parse_args()\n"
       "f(n=a.num_workers)\n",
       3, Certainty::configurable},
      {"set_defaults",
       "p.add_argument('--n', default=3)\np.set_defaults(n=2)\na = p.parse_args()\nf(n=a.n)\n", 2,
       Certainty::configurable},
      {"default", "def g(n=5):\n  f(n=n)\n", 5, Certainty::configurable},
      {"callers", "def g(n):\n  f(n=n)\ng(6)\ng(n=6)\n", 6, Certainty::constant},
      {"named beside open options", "def g(n=5, **k):\n  f(n=n)\ng(n=6, **u())\n", 6,
       Certainty::constant},
      {"by super",
       "class A:\n  def g(self, n=5):\n    f(n=n)\nclass B(A):\n  def h(self):\n"
       "    super().g(6)\n",
       6, Certainty::constant},
      {"dictionary", "k = {'n': 7}\nf(**k)\n", 7, Certainty::literal},
      {"updated", "k = {}\nk.update({'n': 8})\nf(**k)\n", 8, Certainty::literal},
      {"condition", "ON = True\nf(n=1 if ON else 0)\n", 1, Certainty::literal},
      {"class attribute", "class C:\n  n = 3\nf(n=C.n)\n", 3, Certainty::constant},
      {"returned dictionary", "def g():\n  return {'n': 3}\nc = g()\nf(n=c['n'])\n", 3,
       Certainty::configurable},
      {"dictionary of attributes", "c = EasyDict({'n': 3})\nf(n=c.n)\n", 3,
       Certainty::configurable},
      {"kept keywords",
       "class C:\n  def __init__(self, **k):\n    self.__dict__.update(k)\nc = C(n=3)\nf(n=c.n)\n",
       3, Certainty::configurable},
      {"own keywords", "def g(**k):\n  f(n=k['n'])\ng(n=3)\n", 3, Certainty::configurable},
      {"base class",
       "class A:\n  def __init__(self, n):\n    f(n=n)\nclass B(A):\n  def __init__(self):\n"
       "    super().__init__(3)\n",
       3, Certainty::constant},
      {"dictionary of an object",
       "class B:\n  def __init__(self):\n    self.k = {'n': 3}\n    f(**self.k)\n", 3,
       Certainty::literal},
  };
  for (const ValueCase& each : cases) {
    const SourceFacts facts = facts_of(each.text);
    const Value value = facts.argument(only(facts.method_calls("f")), "n");
    EXPECT_TRUE(value.is(each.value)) << each.what;
    EXPECT_EQ(value.certainty, each.certainty) << each.what;
  }
}

TEST(ReadPython, LeavesOpenWhatIsOpen) {
  for (const char* text :
       {"f(n=g())\n", "for n in range(3):\n  f(n=n)\n", "n = 1\nwhile x():\n  f(n=n)\n  n = 2\n",
        "f(**unknown())\n", "def g(**k):\n  f(n=k['n'])\ng(n=3)\ng(n=4)\n",
        "class A:\n  def __init__(self, n):\n    f(n=n)\nclass B(A):\n"
        "  def __init__(self, *all):\n    super().__init__(*all)\n",
        "def g(x):\n  if x:\n    return {'n': 2}\n  return {'n': 3}\nc = g(1)\nf(n=c['n'])\n",
        "if x():\n  n = 1\nelse:\n  n = 2\nf(n=n)\n"}) {
    const SourceFacts facts = facts_of(text);
    EXPECT_TRUE(facts.argument(only(facts.method_calls("f")), "n").unknown()) << text;
  }
  const SourceFacts facts = facts_of("f(1)\n");
  EXPECT_TRUE(facts.argument(only(facts.method_calls("f")), "n", 1).absent());
}

constexpr std::string_view kTraining = R"(import torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7)
        self.bn = nn.BatchNorm2d(64)
        self.head = nn.Sequential(nn.Linear(64, 10), nn.ReLU())

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        return self.head(x)

def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(loss.item())

@torch.no_grad()
def evaluate(model, loader):
    for x, y in loader:
        model(x.cuda()).argmax(1).tolist()

if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net().to(device)
    loader = torch.utils.data.DataLoader(data)
    for epoch in range(3):
        train(model, loader, torch.optim.AdamW(model.parameters()))
        evaluate(model, loader)
)";

TEST(ReadPython, KnowsLoopsAndContexts) {
  const SourceFacts facts = facts_of(kTraining);
  ASSERT_EQ(facts.loops(LoopRole::training_step).size(), 1U);
  EXPECT_EQ(facts.loops(LoopRole::evaluation_step).size(), 1U);
  EXPECT_EQ(facts.loops(LoopRole::epoch).size(), 1U);
  const Loop& loop = *facts.loops(LoopRole::training_step)[0];
  EXPECT_TRUE(loop.on_gpu);
  EXPECT_EQ(loop.backward->name, "torch.Tensor.backward");
  ASSERT_NE(loop.loader, nullptr);
  EXPECT_TRUE(facts.argument(*loop.loader, "num_workers", 5).absent());

  const Call& item = only(facts.calls("torch.Tensor.item"));
  EXPECT_TRUE(item.receiver_type().on_gpu());
  EXPECT_FALSE(in_each_training_step(facts, item));
  ASSERT_EQ(ways_to(facts, item).size(), 1U);
  EXPECT_TRUE(in_each_training_step(facts, only(facts.calls("torch.optim.Optimizer.step"))));
  EXPECT_TRUE(without_gradients(facts, only(facts.calls("torch.Tensor.tolist"))));
  ASSERT_EQ(facts.programs.size(), 1U);
  EXPECT_TRUE(facts.programs[0].trains_on_gpu);
}

TEST(ReadPython, KnowsLayers) {
  const SourceFacts facts = facts_of(kTraining);
  ASSERT_EQ(facts.modules().size(), 1U);
  const ClassDef& net = *facts.modules()[0];
  ASSERT_NE(net.layer("head.0"), nullptr);
  EXPECT_EQ(net.layer("head.0")->made_by->name, "torch.nn.Linear");
  std::vector<std::string> uses;
  for (const LayerUse& use : net.forward) {
    uses.push_back(std::string(use.layer->attribute) + (use.consumes_previous ? "<" : ""));
  }
  EXPECT_EQ(uses, (std::vector<std::string>{"conv", "bn<", "head.0<", "head.1<"}));
}

TEST(ReadPython, SurvivesWhatIsNoPython3) {
  for (const char* text : {"print 'a', b\nimport torch\ntorch.compile(x)\n",
                           "def f(:\n  pass\nimport torch\ntorch.compile(x)\n",
                           "# \xE9\nimport torch\nx = '\xE9'\ntorch.compile(x)\n",
                           "\xEF\xBB\xBFimport torch\r\ntorch.compile(x)\r\n",
                           "import torch  # lines as of a Mac\rtorch.compile(x)\r"}) {
    EXPECT_EQ(facts_of(text).calls("torch.compile").size(), 1U) << text;
  }
  EXPECT_FALSE(read_python_text("a.py", std::string_view("a\0b", 3)).has_value());
}

TEST(ReadPython, ReadsNotebooks) {
  const auto facts = read_python_text("a.ipynb", R"json({"cells": [
      {"cell_type": "markdown", "source": ["text"]},
      {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"]},
      {"cell_type": "code", "source": "%%bash\nls"},
      {"cell_type": "code", "source": ["!pip install x \\\n", "    --upgrade\n",
       "torch.compile(x)"]}]})json");
  ASSERT_TRUE(facts.has_value());
  EXPECT_FALSE(facts->files.front()->has_errors);
  const Call& call = only(facts->calls("torch.compile"));
  EXPECT_EQ(call.file->place(call.expr->range.begin), (Place{3, 1, 4}));
}

SourceFacts facts_of_files(const std::vector<std::pair<std::string, std::string>>& files) {
  Result<SourceFacts> facts = read_python_texts(files);
  EXPECT_TRUE(facts.has_value());
  return std::move(*facts);
}

TEST(ReadPython, TakesEachNotebookForAProgram) {
  const std::string text =
      R"json({"cells": [{"cell_type": "code", "source": ["import torch\n", "x = 1"]}]})json";
  const SourceFacts facts = facts_of_files({{"a.ipynb", text}, {"b.ipynb", text}});
  ASSERT_EQ(facts.programs.size(), 2U);
  for (const Program& program : facts.programs) EXPECT_EQ(program.files.size(), 1U);
}

TEST(ReadPython, HandsOnWildcards) {
  const SourceFacts facts = facts_of_files({{"conf.py", "import torch as t\nfrom train import *\n"},
                                            {"data.py", "from conf import *\n"},
                                            {"train.py", "from data import *\nt.compile(x)\n"}});
  EXPECT_EQ(facts.calls("torch.compile").size(), 1U);
}

TEST(ReadPython, TakesAForwardOverLayersForNoEvaluation) {
  const SourceFacts facts = facts_of(R"(import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
def run_test(model, batches):
    for x in batches:
        with torch.no_grad():
            model(x)
run_test(Net(), batches)
)");
  const auto loops = facts.loops(LoopRole::evaluation_step);
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0]->function->name, "run_test");
}

TEST(ReadPython, FollowsTheClassThatATextNames) {
  const SourceFacts facts = facts_of(R"(import torch
class Plain(torch.nn.Module):
    def update(self, x):
        return x
def class_of(name):
    if name not in globals():
        raise NotImplementedError(name)
    return globals()[name]
method = class_of("Plain")(3)
method.update(4)
)");
  EXPECT_NE(only(facts.method_calls("update")).target, nullptr);
}

TEST(ReadPython, TakesAClosureForPartOfTheStep) {
  const SourceFacts facts = facts_of(R"(import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.LBFGS(model.parameters())
for x in batches:
    def closure():
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss
    optimizer.step(closure)
)");
  ASSERT_EQ(facts.loops(LoopRole::training_step).size(), 1U);
  EXPECT_TRUE(in_each_training_step(facts, only(facts.method_calls("zero_grad"))));
}

TEST(ReadPython, KnowsWeightsLoadedIn16Bits) {
  const SourceFacts facts = facts_of(
      "import torch\nfrom transformers import AutoModel\n"
      "f(AutoModel.from_pretrained('x', torch_dtype=torch.bfloat16))\n");
  const Call& call = only(facts.method_calls("f"));
  EXPECT_TRUE(call.arguments[0].value->type->bfloat16);
  EXPECT_FALSE(call.arguments[0].value->type->half);
}

TEST(ReadPython, RecordsSuppressions) {
  const SourceFacts facts = facts_of(
      "x = 1  # rooftile: allow precision/amp-off, compile/* -- small\n"
      "# rooftile: forbid x\n");
  ASSERT_EQ(facts.files[0]->suppressions.size(), 2U);
  const Suppression& good = facts.files[0]->suppressions[0];
  EXPECT_EQ(good.rules, (std::vector<std::string_view>{"precision/amp-off", "compile/*"}));
  EXPECT_EQ(good.reason, "small");
  EXPECT_FALSE(good.own_line);
  EXPECT_FALSE(facts.files[0]->suppressions[1].problem.empty());
}

TEST(SourceEdits, AddArguments) {
  const std::pair<const char*, const char*> cases[] = {
      {"f()\n", "f(n=1)\n"},
      {"f(a)\n", "f(a, n=1)\n"},
      {"f(a, )\n", "f(a, n=1, )\n"},
      {"f(\n    a,\n    b,  # last\n)\n", "f(\n    a,\n    b,  # last\n    n=1,\n)\n"},
  };
  for (const auto& [before, after] : cases) {
    const SourceFacts facts = facts_of(before);
    const auto edit = add_argument(only(facts.method_calls("f")), "n", "1");
    ASSERT_TRUE(edit.has_value()) << before;
    EXPECT_EQ(apply_edits(*facts.files[0], {*edit}).value(), after);
  }
}

}  // namespace
}  // namespace rooftile::source
