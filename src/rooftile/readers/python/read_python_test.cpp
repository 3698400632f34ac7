#include "rooftile/readers/python/read_python.h"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
      {"global at the top", "global t\nimport torch as t\nt.compile(1)\n", "torch.compile"},
      {"global in a class", "class C:\n  global t\n  import torch as t\nt.compile(1)\n",
       "torch.compile"},
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
      {"set where it is not", "k = {'m': 1}\nk.setdefault('n', 8)\nf(**k)\n", 8,
       Certainty::literal},
      {"set already", "k = {'n': 7}\nk.setdefault('n', 8)\nf(**k)\n", 7, Certainty::literal},
      {"given instead", "def g(**k):\n  k.setdefault('n', 8)\n  f(**k)\ng(n=7)\n", 7,
       Certainty::literal},
      {"updated beside others", "k = {'n': 7}\n'text'\nupdate(n=8)\no.update(n=9)\nf(**k)\n", 7,
       Certainty::literal},
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
        "f(**unknown())\n", "k = {}\nk.update(k)\nf(**k)\n",
        "def g(x):\n  if x:\n    if x > 1:\n      return {'n': 2}\n    return {'n': 3}\n"
        "  return {'n': 4}\nk = g(1)\nf(**k)\n",
        "def g(**k):\n  f(n=k['n'])\ng(n=3)\ng(n=4)\n",
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

TEST(ReadPython, FollowsSettingsThatALibraryReads) {
  const SourceFacts facts = facts_of(
      "import pyrallis\nclass Settings:\n  n: int = 3\n"
      "s = pyrallis.parse(args=[], config_class=Settings)\nf(n=s.n)\n");
  EXPECT_TRUE(facts.argument(only(facts.method_calls("f")), "n").is(3));
}

struct PlaceCase {
  const char* what;
  std::string text;  // sets `place`
  Residence residence;
};

void expect_places(std::span<const PlaceCase> cases) {
  for (const PlaceCase& each : cases) {
    const std::string text = "import torch\n" + each.text + "f(torch.zeros(8).to(place))\n";
    const SourceFacts facts = facts_of(text);
    const Call& call = only(facts.method_calls("f"));
    EXPECT_EQ(call.arguments[0].value->type->residence, each.residence) << each.what;
  }
}

// `args.gpu` where nobody gives it, by how the option is declared.
TEST(ReadPython, KnowsThatAGpuIsNotAskedFor) {
  const auto asking = [](const std::string& option, const std::string& condition) {
    return "p.add_argument('--gpu'" + option + ")\na = p.parse_args()\nplace = a.gpu if " +
           condition + " else 'cpu'\n";
  };
  const PlaceCase cases[] = {
      {"no default", asking("", "a.gpu is not None"), Residence::host},
      {"None", asking(", default=None", "a.gpu is not None"), Residence::host},
      {"the first", asking(", default=0", "a.gpu is not None"), Residence::gpu},
      {"a switch", asking(", action='store_true'", "a.gpu is not None"), Residence::gpu},
      {"and", asking("", "torch.cuda.is_available() and a.gpu is not None"), Residence::host},
      {"or", asking("", "torch.cuda.is_available() or a.gpu is not None"), Residence::gpu},
      {"the other way",
       "p.add_argument('--gpu')\na = p.parse_args()\nplace = 'cpu' if a.gpu is None else a.gpu\n",
       Residence::host},
      {"the other way, or",
       "p.add_argument('--gpu')\na = p.parse_args()\n"
       "place = 'cpu' if a.gpu is None or debug else a.gpu\n",
       Residence::host},
      {"declared twice", "p.add_argument('--gpu', default=0)\n" + asking("", "a.gpu is not None"),
       Residence::gpu},
  };
  expect_places(cases);
}

TEST(ReadPython, KnowsTheDeviceThatIsSetBesideTheOptions) {
  const auto choosing = [](const std::string& condition) {
    return "args = p.parse_args()\nif " + condition +
           ":\n  args.device = 'cuda'\nelse:\n  args.device = 'cpu'\nplace = other.device\n";
  };
  const PlaceCase cases[] = {
      {"available", choosing("torch.cuda.is_available()"), Residence::gpu},
      {"and", choosing("len(args.ids) > 0 and torch.cuda.is_available()"), Residence::gpu},
      {"or", choosing("args.fast or torch.cuda.is_available()"), Residence::unknown},
      {"another condition", choosing("args.fast and args.large"), Residence::unknown},
  };
  expect_places(cases);
}

TEST(ReadPython, KnowsASwitchThatAllFilesSetAlike) {
  const std::string asks = "place = 'cuda' if config.use_gpu else 'cpu'\n";
  const PlaceCase cases[] = {
      {"off", "config.use_gpu = False\n" + asks, Residence::host},
      {"off, None before", "config.use_gpu = None\nconfig.use_gpu = False\n" + asks,
       Residence::host},
      {"on", "config.use_gpu = True\n" + asks, Residence::gpu},
      {"never set", asks, Residence::gpu},
      {"one of both", "config.use_gpu = False\nother.use_gpu = True\n" + asks, Residence::gpu},
      {"open", "config.use_gpu = False\nother.use_gpu = load()\n" + asks, Residence::gpu},
  };
  expect_places(cases);
}

struct LoaderCase {
  const char* what;
  std::string body;  // of the class
  const char* call;
  bool is_loader;
};

// A class around the library's loader stands for it where it only hands on what it is given.
TEST(ReadPython, KnowsLoadersThatHandOnTheirOptions) {
  const std::string takes = "  def __init__(self, path, **options):\n";
  const std::string hands_on = "    super().__init__(read(path), **options)\n";
  const std::string all = "  def __init__(self, **options):\n    super().__init__(**options)\n";
  const std::string any = "  def __init__(self, *args, **kwargs):\n";
  const std::string hands_all_on = "    super().__init__(*args, **kwargs)\n";
  const LoaderCase cases[] = {
      {"nothing of its own", "  pass\n", "Own(data, batch_size=4)", true},
      {"named", takes + hands_on, "Own(path='a', batch_size=4)", true},
      {"the path at its place", takes + hands_on, "Own('a', batch_size=4)", true},
      {"two at their places", takes + hands_on, "Own('a', 4)", false},
      {"unpacked", takes + hands_on, "Own(*a, batch_size=4)", false},
      {"nothing given", takes + hands_on, "Own()", false},
      {"no parameter for the first", all, "Own(data, batch_size=4)", false},
      {"all named", all, "Own(dataset=data, batch_size=4)", true},
      {"options not handed on", takes + "    super().__init__(read(path))\n",
       "Own('a', batch_size=4)", false},
      {"options added", takes + "    options.update(extra())\n" + hands_on,
       "Own('a', batch_size=4)", false},
      {"options replaced", takes + "    options = extra(options)\n" + hands_on,
       "Own('a', batch_size=4)", false},
      {"pins", takes + "    super().__init__(read(path), pin_memory=True, **options)\n",
       "Own('a', batch_size=4)", false},
      {"all that there is", any + hands_all_on, "Own(data, batch_size=4)", true},
      {"all at their places", any + hands_all_on, "Own(data, 4)", true},
      {"a look at the workers", any + hands_all_on + "    print(self.num_workers)\n",
       "Own(data, batch_size=4)", false},
      {"a look at those given", any + hands_all_on + "    print(self.num_workers)\n",
       "Own(data, num_workers=0)", true},
      {"a look before", any + "    print(kwargs.get('num_workers'))\n" + hands_all_on,
       "Own(data, num_workers=0)", false},
      {"pins afterwards", any + hands_all_on + "    self.pin_memory = True\n",
       "Own(data, num_workers=0)", false},
      {"something first", any + "    self.seen = 0\n" + hands_all_on, "Own(data, 4)", true},
      {"sets an option", any + "    kwargs['shuffle'] = True\n" + hands_all_on, "Own(data, 4)",
       false},
      {"changes options", any + "    kwargs.setdefault('shuffle', True)\n" + hands_all_on,
       "Own(data, 4)", false},
      {"a data set first", "  def __init__(self, dataset, *args, **kwargs):\n" + hands_all_on,
       "Own(data, 4)", true},
      {"another thing first", "  def __init__(self, path, *args, **kwargs):\n" + hands_all_on,
       "Own(data, 4)", false},
      {"a size of its own", "  def __init__(self, dataset, size, **kwargs):\n" + hands_all_on,
       "Own(data, 4)", false},
      {"no options", "  def __init__(self, *args):\n    super().__init__(*args)\n", "Own(data, 4)",
       false},
      {"none at all", "  def __init__(self):\n    super().__init__(read())\n", "Own()", false},
  };
  for (const LoaderCase& each : cases) {
    const SourceFacts facts = facts_of(
        "from torch.utils.data import DataLoader\n"
        "class Own(DataLoader):\n" +
        each.body + each.call + "\n");
    const Call& call = only(facts.method_calls("Own"));
    EXPECT_EQ(call.name == "torch.utils.data.DataLoader", each.is_loader) << each.what;
  }
}

TEST(ReadPython, CountsArgumentsBehindThoseThatAPartialCallHas) {
  const SourceFacts facts = facts_of(
      "import functools\nfrom torch.utils.data import DataLoader\n"
      "make = functools.partial(DataLoader, data, drop_last=True)\nmake(64, True)\n");
  const Call& call = only(facts.method_calls("make"));
  const std::pair<const char*, const char*> places[] = {
      {"dataset", "data"}, {"batch_size", "64"}, {"shuffle", "True"}};
  for (int i = 0; i < 3; ++i) {
    const Argument* given = call.argument(places[i].first, i);
    ASSERT_NE(given, nullptr) << places[i].first;
    EXPECT_EQ(given->value->word(), places[i].second);
  }
}

TEST(ReadPython, KnowsStepsOfOptimizers) {
  const std::pair<const char*, bool> cases[] = {
      {"optimizer.step()", true},
      {"optimizers[0].step()", true},
      {"states['optimizer'].step()", true},
      {"optim.learner.step()", true},
      {"engine.step()", true},
      {"runner.optimizer_step()", true},
      {"optimizer_step(model)", true},
      {"loss_scaler(loss, rule)", true},
      {"learner.step()", false},
      {"optimizer_scheduler.step()", false},
      {"states['env'].step()", false},
      {"runner.other_step()", false},
      {"step()", false},
  };
  for (const auto& [step, is_one] : cases) {
    const SourceFacts facts = facts_of(
        "import torch\nmodel = torch.nn.Linear(8, 8).cuda()\nfor x in batches:\n"
        "  loss = model(x.cuda()).sum()\n  loss.backward()\n  " +
        std::string(step) + "\n");
    EXPECT_EQ(facts.loops(LoopRole::training_step).size(), is_one ? 1U : 0U) << step;
  }
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

// Each level is one expression: twice as many for each would never end.
TEST(ReadPython, ReadsDictionariesInDictionaries) {
  std::string dict = "{'n': 5}";
  for (int level = 0; level < 60; ++level) dict = "{**" + dict + "}";
  const SourceFacts facts = facts_of("k = " + dict + "\nf(**k)\n");
  EXPECT_EQ(facts.method_calls("f").size(), 1U);
  const SourceFacts shallow = facts_of("k = {**{**{'n': 5}}}\nf(**k)\n");
  EXPECT_TRUE(shallow.argument(only(shallow.method_calls("f")), "n").is(5));
}

TEST(ReadPython, SurvivesWhatIsNoPython3) {
  for (const char* text : {"print 'a', b\nimport torch\ntorch.compile(x)\n",
                           "def f(:\n  pass\nimport torch\ntorch.compile(x)\n",
                           "# \xE9\nimport torch\nx = '\xE9'\ntorch.compile(x)\n",
                           "\xEF\xBB\xBFimport torch\r\ntorch.compile(x)\r\n",
                           "import .a\nimport torch\ntorch.compile(x)\n",
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

// By what is written of the name; where that begins no package, what may train and nothing imports.
TEST(ReadPython, ImportsModulesByNamesThatArePutTogether) {
  const std::string network =
      "import torch\nclass Net(torch.nn.Module):\n  def forward(self, x):\n    return x\n";
  const std::string all = "lone models.a.net models.a.other models.b.net ";
  const std::string of_a = "models.a.loss models.a.net models.a.other ";
  const std::pair<const char*, std::string> cases[] = {
      {"'models.a.net'", "models.a.net "},
      {"'models.%s.net' % name", "models.a.net models.b.net "},
      {"'models.{}.net'.format(name)", "models.a.net models.b.net "},
      {"f'models.{name}.net'", "models.a.net models.b.net "},
      {"'models.' + name + '.net'", "models.a.net models.b.net "},
      {"'models.a.' + name", of_a},
      {"'models.a.%s' % name", of_a},
      {"'models.a.{}'.format(name)", of_a},
      {"f'models.a.{name}'", of_a},
      {"f'models.{\"a\"}.{name}'", of_a},
      {"'models.' + 'a' + '.' + name", of_a},
      {"'models.a.' * n", all},
      {"'models.a.'.join(name)", all},
      {"f'models.{a}.{b}'", all},
      {"'{}.net'.format(name)", all},
      {"'other.a.net'", all},
      {"'other.models.a.net'", "models.a.net "},
      {"'src.models.a.' + name", of_a},
      {"'models.a.%s_net' % name", all},
      {"'net' + name", all},
      {"name", all},
  };
  for (const auto& [name, expected] : cases) {
    const SourceFacts facts = facts_of_files(
        {{"train.py", "import importlib\nimport torch\nnets = importlib.import_module(" +
                          std::string(name) + ")\n"},
         {"lone.py", network},
         {"models/a/loss.py", "import torch\ndef loss(x):\n  return x.sum()\n"},
         {"models/a/net.py", network},
         {"models/a/other.py", network},
         {"models/b/net.py", network}});
    std::set<std::string> imported;
    for (const File* file : facts.files.front()->imported) imported.emplace(file->module);
    std::string found;
    for (const std::string& module : imported) found += module + " ";
    EXPECT_EQ(found, expected) << name;
  }
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

TEST(ReadPython, CountsWhatIsNestedTooDeeply) {
  const auto too_deep = [](const std::string& text) {
    return facts_of(text).files.front()->too_deep;
  };
  const auto blocks = [](std::size_t levels) {
    std::string text;
    for (std::size_t level = 0; level < levels; ++level)
      text += std::string(level, ' ') + "if x:\n";
    return text + std::string(levels, ' ') + "pass\n";
  };
  const auto lists = [](std::size_t levels) {
    return "x = " + std::string(levels, '[') + "1" + std::string(levels, ']') + "\n";
  };
  const auto branches = [](std::size_t levels) {
    std::string text = "if x:\n  pass\n";
    for (std::size_t level = 0; level < levels; ++level) text += "elif x:\n  pass\n";
    return text;
  };
  EXPECT_EQ(too_deep(blocks(119)), 0U);
  EXPECT_EQ(too_deep(blocks(120)), 2U) << "the condition and the block";
  EXPECT_EQ(too_deep(lists(118)), 0U);
  EXPECT_EQ(too_deep(lists(119)), 1U);
  EXPECT_EQ(too_deep(branches(118)), 0U);
  EXPECT_EQ(too_deep(branches(119)), 1U);
}

TEST(ReadPython, RecordsWhereSuppressionsStand) {
  const std::pair<const char*, const char*> cases[] = {
      {"# rooftile: allow a/b\nx = 1\n", "1 own a/b"},
      {"x = 1  # rooftile: allow a-1/b_2 -- it is small\n", "1 a-1/b_2 -- it is small"},
      {"x = 1\n  #  rooftile:allow a/b , c/*\n", "2 own a/b c/*"},
      {"## rooftile: allow *\n", "1 own *"},
      {"# rooftile: allow\n", "1 own !"},
      {"# rooftile: allow A/b\n", "1 own !"},
      {"# rooftile: allow a/b, c d\n", "1 own a/b !"},
      {"# rooftile: forbid a/b\n", "1 own !"},
      {"# rooftile: allow a/b -- \n", "1 own a/b"},
      {"# other: allow a/b\n", ""},
      {"# see rooftile: allow a/b\n", ""},
  };
  for (const auto& [text, expected] : cases) {
    std::string found;
    const SourceFacts facts = facts_of(text);
    for (const Suppression& each : facts.files.front()->suppressions) {
      found += std::to_string(each.line) + (each.own_line ? " own" : "");
      for (const std::string_view rule : each.rules) found += " " + std::string(rule);
      if (!each.reason.empty()) found += " -- " + std::string(each.reason);
      if (!each.problem.empty()) found += " !";
    }
    EXPECT_EQ(found, expected) << text;
  }
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
