// Facts of small scripts, and what the queries make of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {
namespace {

SourceFacts facts_of(const std::string& text) {
  Result<SourceFacts> facts = read_python_text("train.py", text);
  EXPECT_TRUE(facts.has_value());
  return facts ? *std::move(facts) : SourceFacts();
}

std::string training_loop(const std::string& body) {
  return "import torch\n"
         "model = torch.nn.Linear(8, 8).cuda()\n"
         "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
         "for step, (x, y) in enumerate(loader):\n" +
         body;
}

// The calls of the loop by the name as written, in order.
std::vector<std::string> methods(const Iteration& iteration) {
  std::vector<std::string> names;
  for (const IteratedCall& one : iteration.calls) names.emplace_back(one.call->method);
  return names;
}

const IteratedCall& call_of(const Iteration& iteration, std::string_view method) {
  for (const IteratedCall& one : iteration.calls) {
    if (one.call->method == method) return one;
  }
  static const IteratedCall kNone;
  ADD_FAILURE() << "no call of " << method;
  return kNone;
}

const Iteration& only_iteration(const SourceFacts& facts) {
  const auto& iterations = training_iterations(facts);
  EXPECT_EQ(iterations.size(), 1u);
  static const Iteration kNone;
  return iterations.empty() ? kNone : iterations.front().get();
}

TEST(Iteration, RunsArgumentsFirstAndFollowsOwnFunctions) {
  const SourceFacts facts = facts_of(
      "def inner(x):\n"
      "    return first(x)\n" +
      training_loop("    loss = outer(inner(x))\n"
                    "    loss.backward()\n"
                    "    optimizer.step()\n"));
  const std::vector<std::string> expected{"inner", "first", "outer", "backward", "step"};
  EXPECT_EQ(methods(only_iteration(facts)), expected);
}

TEST(Iteration, FollowsFunctionsSoDeep) {
  std::string functions;
  for (int i = 0; i < 30; ++i) {
    functions +=
        "def f" + std::to_string(i) + "(x):\n    return f" + std::to_string(i + 1) + "(x)\n";
  }
  const SourceFacts facts =
      facts_of(functions + training_loop("    f0(x)\n    loss.backward()\n    optimizer.step()\n"));
  const std::vector<std::string> called = methods(only_iteration(facts));
  EXPECT_EQ(std::count(called.begin(), called.end(), "f24"), 1);
  EXPECT_EQ(std::count(called.begin(), called.end(), "f25"), 0);
}

TEST(Iteration, KeepsSoManyCallsAndNoMore) {
  constexpr int kLoops = 52, kLadders = 97, kSteps = 40;
  std::string text = "def work(x):\n";
  for (int i = 0; i < kLadders; ++i) {
    for (int step = 1; step <= kSteps; ++step) {
      const std::string indent(4 * static_cast<std::size_t>(step), ' ');
      text += indent + "if x:\n" + indent + "    f(x)\n";
    }
  }
  for (int i = 0; i < kLoops; ++i) {
    text += training_loop("    work(x).backward()\n    optimizer.step()\n");
  }
  const SourceFacts facts = facts_of(text);
  const auto& iterations = training_iterations(facts);
  ASSERT_EQ(iterations.size(), static_cast<std::size_t>(kLoops));
  EXPECT_GE(iterations.front().get().calls.size(), static_cast<std::size_t>(kLadders * kSteps));
  EXPECT_TRUE(iterations.back().get().calls.empty());
}

TEST(Iteration, BranchesOfOneConditionExcludeEachOther) {
  struct Case {
    const char* name;
    const char* body;
    bool excluded;
  };
  for (const Case& test : {
           Case{"one if", "    if amp:\n        a()\n    else:\n        b()\n", true},
           Case{"two ifs on one flag", "    if amp:\n        a()\n    if not amp:\n        b()\n",
                true},
           Case{"a flag and a test for None",
                "    if scaler is None:\n        a()\n    if scaler:\n        b()\n", true},
           Case{"elif", "    if amp:\n        a()\n    elif half:\n        b()\n", true},
           Case{"continue", "    if amp:\n        a()\n        continue\n    b()\n", true},
           Case{"two flags", "    if amp:\n        a()\n    if half:\n        b()\n", false},
           Case{"no else", "    if amp:\n        a()\n    b()\n", false},
           Case{"break", "    if amp:\n        a()\n        break\n    b()\n", true},
           Case{"raise", "    if amp:\n        a()\n        raise ValueError\n    b()\n", true},
           Case{"continue inside of another if",
                "    if half:\n        if amp:\n            a()\n            continue\n    b()\n",
                true},
           Case{
               "continue of a loop inside",
               "    for i in y:\n        if amp:\n            a()\n            continue\n    b()\n",
               false},
           Case{"the else leaves",
                "    if amp:\n        pass\n    else:\n        a()\n        continue\n    b()\n",
                true},
           Case{"what is above", "    b()\n    if amp:\n        a()\n        continue\n", false},
           Case{"two tests for None",
                "    if scaler is not None:\n        a()\n    if scaler is None:\n        b()\n",
                true},
           Case{"a test for None by ==",
                "    if scaler == None:\n        a()\n    if scaler:\n        b()\n", true},
           Case{"one test for None",
                "    if scaler is not None:\n        a()\n    if scaler:\n        b()\n", false},
           Case{
               "cases of a match",
               "    match y:\n        case 1:\n            a()\n        case 2:\n            b()\n",
               true},
           Case{"finally", "    try:\n        a()\n    finally:\n        b()\n", false},
       }) {
    SCOPED_TRACE(test.name);
    const SourceFacts facts = facts_of(
        training_loop(std::string(test.body) + "    loss.backward()\n    optimizer.step()\n"));
    const Iteration& iteration = only_iteration(facts);
    EXPECT_EQ(exclude_each_other(call_of(iteration, "a"), call_of(iteration, "b")), test.excluded);
  }
}

TEST(Iteration, KnowsAccumulationTests) {
  struct Case {
    const char* condition;
    bool accumulates;
  };
  for (const Case& test : {
           Case{"(step + 1) % 4 == 0", true},
           Case{"accelerator.sync_gradients", true},
           Case{"accumulate", true},
           Case{"every_fourth", true},
           Case{"amp", false},
           Case{"step == 10", false},
       }) {
    SCOPED_TRACE(test.condition);
    const SourceFacts facts =
        facts_of(training_loop("    every_fourth = step % 4 == 0\n"
                               "    loss.backward()\n"
                               "    if " +
                               std::string(test.condition) + ":\n        optimizer.step()\n"));
    const Iteration& iteration = only_iteration(facts);
    const auto extra = extra_conditions(call_of(iteration, "step"), call_of(iteration, "backward"));
    ASSERT_EQ(extra.size(), 1u);
    EXPECT_EQ(extra.front().condition, test.condition);
    EXPECT_EQ(is_accumulation_test(extra.front()), test.accumulates);
  }
}

TEST(ProgramQueries, MentionsWholeWordsOutsideComments) {
  const SourceFacts facts = facts_of(
      "import torch\n"
      "parser.add_argument('--no-amp')  # autocast\n"
      "sample = use_fp16\n");
  ASSERT_EQ(facts.files.size(), 1u);
  const File& file = *facts.files.front();
  EXPECT_TRUE(mentions(file, {"amp"}));
  EXPECT_TRUE(mentions(file, {"fp16"}));
  EXPECT_FALSE(mentions(file, {"autocast"}));
  EXPECT_FALSE(mentions(file, {"sam"}));
}

TEST(ProgramQueries, OptionsThatAreOffAreNotReachedByDefault) {
  const SourceFacts facts = facts_of(
      "import argparse\n"
      "import torch\n"
      "parser = argparse.ArgumentParser()\n"
      "parser.add_argument('--check', action='store_true')\n"
      "parser.add_argument('--fast', type=bool, default=True)\n"
      "args = parser.parse_args()\n"
      "if args.check:\n"
      "    torch.manual_seed(1)\n"
      "else:\n"
      "    torch.manual_seed(2)\n"
      "if not args.fast:\n"
      "    torch.manual_seed(3)\n"
      "if False:\n"
      "    torch.manual_seed(4)\n"
      "if something():\n"
      "    torch.manual_seed(5)\n");
  std::vector<bool> reached;
  for (const Call* call : facts.calls("torch.manual_seed")) {
    reached.push_back(is_reached_by_default(facts, *call));
  }
  EXPECT_EQ(reached, (std::vector<bool>{false, true, false, false, true}));
}

TEST(Autocast, ReadsEverySpelling) {
  struct Case {
    const char* manager;
    bool on_gpu;
    AutocastDtype dtype;
    bool is_off, may_be_off;
  };
  const auto fp16 = AutocastDtype::fp16, bf16 = AutocastDtype::bf16;
  for (const Case& test : {
           Case{"torch.autocast('cuda')", true, fp16, false, false},
           Case{"torch.autocast(device_type='cuda', dtype=torch.bfloat16)", true, bf16, false,
                false},
           Case{"torch.autocast('cpu')", false, bf16, false, false},
           Case{"torch.autocast('cuda', torch.float16, False)", true, fp16, true, false},
           Case{"torch.cuda.amp.autocast()", true, fp16, false, false},
           Case{"torch.cuda.amp.autocast(False)", true, fp16, true, false},
           Case{"torch.cuda.amp.autocast(enabled=unknown)", true, fp16, false, true},
           Case{"torch.amp.autocast('cuda', dtype=unknown)", true, AutocastDtype::unknown, false,
                false},
       }) {
    SCOPED_TRACE(test.manager);
    const SourceFacts facts =
        facts_of("import torch\nwith " + std::string(test.manager) + ":\n    pass\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = autocasts_in(facts, facts.programs.front());
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found.front().on_gpu, test.on_gpu);
    EXPECT_EQ(found.front().dtype, test.dtype);
    EXPECT_EQ(found.front().is_off, test.is_off);
    EXPECT_EQ(found.front().may_be_off, test.may_be_off);
  }
}

// Of the one around a forward; one that is not of PyTorch may be anything.
TEST(Autocast, IsFoundAroundAForward) {
  struct Case {
    const char* manager;
    bool is_off, may_be_off;
  };
  for (const Case& test : {
           Case{"torch.autocast('cuda')", false, false},
           Case{"torch.autocast('cuda', enabled=False)", true, false},
           Case{"tools.autocast()", false, true},
       }) {
    SCOPED_TRACE(test.manager);
    const SourceFacts facts = facts_of(training_loop("    with " + std::string(test.manager) +
                                                     ":\n"
                                                     "        loss = model(x).sum()\n"
                                                     "    loss.backward()\n"
                                                     "    optimizer.step()\n"));
    ASSERT_EQ(facts.method_calls("sum").size(), 1u);
    EXPECT_TRUE(any_way(facts, *facts.method_calls("sum").front(), [&](const Way& way) {
      const auto around = autocast_around(facts, way);
      return around && around->is_off == test.is_off && around->may_be_off == test.may_be_off;
    }));
  }
}

TEST(CompiledCode, IsSortedByTheBreaksInIt) {
  EXPECT_EQ(work_class(0), "just works");
  EXPECT_EQ(work_class(1), "little work");
  EXPECT_EQ(work_class(3), "little work");
  EXPECT_EQ(work_class(4), "slog");
}

TEST(ModelSize, FollowsParametersListsAndLoops) {
  struct Case {
    const char* name;
    const char* text;
    std::string expected;
  };
  for (const Case& test : {
           Case{"literal", "nn.Conv2d(64, 128, 3)\n", "Conv2d of 64 to 128 channels"},
           Case{"caller", "def block(a, b):\n    return nn.Conv2d(a, b * 2, 3)\nblock(64, 256)\n",
                "Conv2d of 64 to 512 channels"},
           Case{"list", "w = [64, 128]\nfor c in w:\n    nn.Conv2d(c, c, 3)\n",
                "Conv2d of 128 to 128 channels"},
           Case{"class as a parameter",
                "class Block(nn.Module):\n"
                "    def __init__(self, planes):\n"
                "        super().__init__()\n"
                "        self.conv = nn.Conv2d(planes, planes, 3)\n"
                "class Net(nn.Module):\n"
                "    def __init__(self, block):\n"
                "        super().__init__()\n"
                "        self.layer = self._make_layer(block, 512)\n"
                "    def _make_layer(self, block, planes):\n"
                "        return block(planes)\n"
                "Net(Block)\n",
                "Conv2d of 512 to 512 channels"},
           Case{"library", "import torchvision\ntorchvision.models.resnet18()\n",
                "torchvision.models.resnet18"},
           Case{"narrow", "nn.Conv2d(3, 128, 3)\nnn.Linear(4096, 10)\n", ""},
       }) {
    SCOPED_TRACE(test.name);
    const SourceFacts facts =
        facts_of("import torch\nfrom torch import nn\n" + std::string(test.text));
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = tensor_core_sized_layer(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "", test.expected);
  }
}

// A convolution from what the expression may be to 640 channels.
TEST(ModelSize, IsTheLargestThatAnExpressionMayBe) {
  struct Case {
    const char* expression;
    int expected;  // 0: not known
  };
  for (const Case& test : {
           Case{"a", 200},
           Case{"a // 3", 66},
           Case{"a / 2", 100},
           Case{"a // b", 200},  // the largest and the smallest need not meet
           Case{"2 ** (a // 30)", 64},
           Case{"a - 1", 200},
           Case{"a * 2", 400},
           Case{"a + 10", 210},
           Case{"a % 300", 0},
           Case{"a * b", 200},
           Case{"a + b", 200},
           Case{"3 * a", 600},
           Case{"int(a * 0.5)", 100},
           Case{"min(a, 2 ** 7)", 128},
           Case{"max(a, b)", 200},
           Case{"[b, a][0]", 200},
           Case{"len([1, 2, 3]) * 64", 192},
           Case{"{'wide': 96, 'narrow': 64}[a]", 96},
       }) {
    SCOPED_TRACE(test.expression);
    const SourceFacts facts = facts_of("import torch\nfrom torch import nn\ndef block(a, b):\n" +
                                       ("    return nn.Conv2d(" + std::string(test.expression)) +
                                       ", 640, 3)\nblock(200, 3)\nblock(150, 4)\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = tensor_core_sized_layer(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "",
              test.expected == 0
                  ? "Conv2d to 640 channels"
                  : "Conv2d of " + std::to_string(test.expected) + " to 640 channels");
  }
}

TEST(ModelSize, GoesThroughWhatLoopsGoThrough) {
  struct Case {
    const char* loop;
    const char* size;
    int expected;
  };
  for (const Case& test : {
           Case{"for c in [64, 80]:", "c", 80},
           Case{"for i in range(100):", "i", 99},
           Case{"for i in range(70, 90):", "i", 89},
           Case{"for i in range(4):", "64 * i", 192},
           Case{"for i in range(4):", "64 * 2 ** i", 512},
           Case{"for i in range(4):", "min(64 * 2 ** i, 256)", 256},
           Case{"for i, j in [(64, 70), (96, 90)]:", "i", 96},
           Case{"for c in [64] * 2 + [96]:", "c", 96},
           Case{"for c in 2 * [80]:", "c", 80},
       }) {
    SCOPED_TRACE(test.loop + (" " + std::string(test.size)));
    const SourceFacts facts =
        facts_of("import torch\nfrom torch import nn\n" + std::string(test.loop) +
                 "\n    nn.Conv2d(" + test.size + ", 640, 3)\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = tensor_core_sized_layer(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "",
              "Conv2d of " + std::to_string(test.expected) + " to 640 channels");
  }
}

TEST(ModelSize, LooksAtSoManyCallsOfAFunctionThatHandsItsArgumentsOn) {
  for (const int narrow : {63, 64}) {
    std::string text =
        "import torch\nfrom torch import nn\ndef conv(*args):\n    return nn.Conv2d(*args)\n";
    for (int i = 0; i < narrow; ++i) text += "conv(3, 4, 3)\n";
    const SourceFacts facts = facts_of(text + "conv(64, 96, 3)\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = tensor_core_sized_layer(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "", narrow < 64 ? "Conv2d of 64 to 96 channels" : "");
  }
}

TEST(ModelSize, CountsFromAWidthOn) {
  struct Case {
    const char* layers;
    std::string expected;
  };
  for (const Case& test : {
           Case{"nn.Conv2d(64, 64, 3)", "Conv2d of 64 to 64 channels"},
           Case{"nn.Conv2d(63, 64, 3)", ""},
           Case{"nn.Conv2d(64, 63, 3)", ""},
           Case{"nn.Conv2d(n, 128, 3)", "Conv2d to 128 channels"},
           Case{"nn.Conv2d(n, 127, 3)", ""},
           Case{"nn.Conv2d(128, n, 3)", ""},
           Case{"nn.Linear(512, 512)", "Linear of 512 to 512 features"},
           Case{"nn.Linear(511, 512)", ""},
           Case{"nn.Linear(512, 511)", ""},
           Case{"nn.Linear(n, 1024)", "Linear to 1024 features"},
           Case{"nn.Linear(n, 1023)", ""},
           Case{"nn.LSTM(10, 512)", "LSTM of 512 units"},
           Case{"nn.LSTM(512, 511)", ""},
           Case{"nn.MultiheadAttention(512, 8)", "MultiheadAttention of 512 features"},
           Case{"nn.MultiheadAttention(511, 7)", ""},
           Case{"nn.Transformer(d_model=512)", "Transformer of 512 features"},
           // Of one type the largest, what is known before what is not.
           Case{"nn.Linear(512, 512), nn.Linear(1024, 512)", "Linear of 1024 to 512 features"},
           Case{"nn.Linear(1024, 512), nn.Linear(512, 1024)", "Linear of 1024 to 512 features"},
           Case{"nn.Linear(n, 1024), nn.LSTM(9, 600)", "LSTM of 600 units"},
           Case{"nn.Linear(n, 1024), nn.Linear(n, 2048)", "Linear to 1024 features"},
           Case{"nn.Conv1d(64, 64, 3), nn.Linear(2048, 2048)", "Conv1d of 64 to 64 channels"},
       }) {
    SCOPED_TRACE(test.layers);
    const SourceFacts facts = facts_of("import torch\nfrom torch import nn\nnet = nn.Sequential(" +
                                       std::string(test.layers) + ")\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = tensor_core_sized_layer(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "", test.expected);
  }
}

TEST(LossScaling, EventsComeInOrderWithTheirObjects) {
  const SourceFacts facts =
      facts_of("import torch\nscaler = torch.amp.GradScaler('cuda')\n" +
               training_loop("    loss = model(x).sum()\n"
                             "    optimizer.zero_grad()\n"
                             "    scaler.scale(loss).backward()\n"
                             "    scaler.unscale_(optimizer)\n"
                             "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                             "    scaler.step(optimizer)\n"
                             "    scaler.update()\n"));
  const Iteration& iteration = only_iteration(facts);
  const auto events = scaling_events(facts, iteration);
  std::vector<ScalingKind> kinds;
  for (const ScalingEvent& event : events) kinds.push_back(event.kind);
  const std::vector<ScalingKind> expected{ScalingKind::zero_gradients, ScalingKind::scaled_backward,
                                          ScalingKind::unscale,        ScalingKind::clip,
                                          ScalingKind::scaler_step,    ScalingKind::scaler_update};
  ASSERT_EQ(kinds, expected);
  EXPECT_EQ(backward_before(events, 4), &events[1]);
  EXPECT_EQ(scaled_backward_before(events, 3), nullptr);  // unscaled on the way
  EXPECT_TRUE(may_be_same_optimizer(events[2], events[4], true));
}

// Values that are made on the host, each of eight uses of the one before, in branches.
TEST(HostMakers, AreSearchedAtMostSoFar) {
  std::string body = "    a0 = torch.zeros(3)\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "a" + std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    std::string parts = before;
    for (int use = 1; use < 8; ++use) parts += ", " + before;
    body += "    if step > 2:\n        " + name + " = torch.cat([" + parts + "])\n";
    body += "    else:\n        " + name + " = torch.stack([" + parts + "])\n";
  }
  body += "    a11.cuda()\n    model(x).sum().backward()\n    optimizer.step()\n";
  const SourceFacts facts = facts_of(training_loop(body));
  for (const Call* call : facts.method_calls("cuda")) host_allocation(facts, *call->receiver);
  EXPECT_FALSE(facts.files.empty());
}

// A switch of a network that nothing sets chooses nothing; a call that sets it does.
TEST(ChosenPrecision, SwitchesThatNothingSetsDoNotCount) {
  const std::string network =
      "import torch\n"
      "class Net(torch.nn.Module):\n"
      "    def __init__(self, use_fp16=False):\n"
      "        super().__init__()\n"
      "        self.dtype = torch.float16 if use_fp16 else torch.float32\n"
      "        self.layer = torch.nn.Linear(8, 8)\n"
      "    def forward(self, x):\n"
      "        return self.layer(x.type(self.dtype))\n";
  const std::string training =
      "model = net.cuda()\n"
      "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
      "for x in loader:\n"
      "    model(x.cuda()).mean().backward()\n"
      "    optimizer.step()\n";
  const auto chooses = [&](const std::string& made) {
    const SourceFacts facts = facts_of(network + made + training);
    return facts.programs.size() == 1 && chooses_precision(facts, facts.programs.front());
  };
  EXPECT_FALSE(chooses("net = Net()\n"));
  EXPECT_FALSE(chooses("net = Net(use_fp16=False)\n"));
  EXPECT_TRUE(chooses("net = Net(use_fp16=True)\n"));
}

// `precision=` of a trainer; where a call of the file gives one digit, it is of printed numbers.
// Words count where they choose something, not where they are imported, explained or asked for.
TEST(ChosenPrecision, IsSaidByWordsThatChooseOne) {
  struct Case {
    const char* line;
    bool chooses;
  };
  for (const Case& test : {
           Case{"run = Runner(precision=16)\n", true},
           Case{"run = Runner(precision=level)\n", true},
           Case{"show(loss, precision=3)\n", false},
           Case{"run = Runner(precision=16, shown=text_of(precision=2))\n", false},
           Case{"step += 1  # precision=", false},
           Case{"", false},
           Case{"show(double_precision=level)\n", false},
           Case{"recall = score(precision=level)\n", false},
           Case{"np.set_printoptions(precision=level)\n", false},
           Case{"with torch.autocast('cuda'):\n    pass\n", true},
           Case{"raise ValueError('no autocast')\n", false},
           Case{"from tools import autocast\n", false},
           Case{"import autocast\n", false},
           Case{"'autocast'\n", false},
           Case{"step += 1  # autocast\n", false},
           Case{"scaler = torch.cuda.amp.GradScaler()\n", false},
           Case{"parser.add_argument('--amp')\n", true},
           Case{"parser.add_argument('--apex')\n", true},
           Case{"norm = apex.normalization\n", false},
           Case{"step = use_apex\n", true},
           Case{"x = np.float16(1)\n", false},
           Case{"x = x.to(torch.float16)\n", true},
           Case{"step = x.dtype == torch.float16\n", false},
           Case{"step = x.dtype in (torch.bfloat16,)\n", false},
           Case{"x = x.to(torch.bfloat16)\n", true},
           Case{"x = torch.cuda.HalfTensor(3)\n", true},
           Case{"hvd.allreduce(x, to=fp16)\n", false},
           Case{"opt.fp16 = True\n", true},
           Case{"raise ValueError('no fp16')\n", false},
           Case{"model.half()\n", true},
           Case{"import fairseq\n", false},
           Case{"step = fairseq.utils\n", true},
           Case{"parser = Trainer.add_argparse_args(parser)\n", false},
           Case{"from mmcv.runner import run\n", true},
           Case{"from mmengine.utils import run\n", true},
           Case{"from mmcv.parallel import run\n", true},
           Case{"from mmcv.utils import run\n", false},
           Case{"import mmcv\nrunner = build_runner(cfg)\n", true},
           Case{"runner = build_runner(cfg)\n", false},
       }) {
    SCOPED_TRACE(test.line);
    const std::string loop = training_loop("    model(x).sum().backward()\n    optimizer.step()\n");
    const SourceFacts facts = facts_of(loop + test.line);
    ASSERT_EQ(facts.programs.size(), 1u);
    EXPECT_EQ(chooses_precision(facts, facts.programs.front()), test.chooses);
  }
}

TEST(MainConvolution, IsOfANetworkOfALibraryOrWide) {
  struct Case {
    const char* made;
    std::string expected;
  };
  for (const Case& test : {
           Case{"torchvision.models.resnet18()", "torchvision.models.resnet18"},
           Case{"torchvision.models.vit_b_16()", ""},
           Case{"torchvision.models.inception_v3()", ""},
           Case{"segmentation_models_pytorch.Unet()", "segmentation_models_pytorch.Unet"},
           Case{"segmentation_models_pytorch.losses.DiceLoss()", ""},
           Case{"diffusers.UNet2DModel(sample_size=64)", "diffusers.UNet2DModel"},
           Case{"diffusers.AutoencoderKL()", ""},
           Case{"torch.nn.Conv2d(16, 32, 3)", "Conv2d of 16 to 32 channels"},
           Case{"torch.nn.Conv2d(15, 32, 3)", ""},
           Case{"torch.nn.Conv2d(16, 31, 3)", ""},
           Case{"torch.nn.Conv2d(32, 32, 3, groups=32)", ""},
       }) {
    SCOPED_TRACE(test.made);
    const SourceFacts facts = facts_of(
        "import diffusers\nimport segmentation_models_pytorch\nimport torch\nimport torchvision\n"
        "net = " +
        std::string(test.made) + "\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = main_convolution(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "", test.expected);
  }
}

TEST(MainConvolution, MayBeWrittenWithWeightsOfItsOwn) {
  struct Case {
    const char* weights;
    std::string expected;
  };
  for (const Case& test : {
           Case{"torch.randn(64, 32, 3, 3)", "own convolution of 32 to 64 channels"},
           Case{"torch.randn(1, 64, 32, 3, 3)", "own convolution of 32 to 64 channels"},
           Case{"torch.randn(64, 32, *window)", "own convolution of 32 to 64 channels"},
           Case{"torch.randn(64, 31, 3, 3)", ""},
           Case{"torch.randn(64, 32, 48, 3)", ""},
           Case{"torch.randn(64, 32, 3)", ""},
           Case{"torch.randn(64, 32)", ""},
           Case{"torch.full((64, 32, 3, 3), 0)", ""},
       }) {
    SCOPED_TRACE(test.weights);
    const SourceFacts facts = facts_of(
        "import torch\n"
        "class Conv(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(" +
        std::string(test.weights) +
        ")\n"
        "    def forward(self, x):\n"
        "        return torch.nn.functional.conv2d(x, self.weight)\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    const auto found = main_convolution(facts, facts.programs.front());
    EXPECT_EQ(found ? found->text : "", test.expected);
  }
}

// The data of a lesson by their name, unless an option picks others by default.
TEST(Tutorials, TrainOnDigits) {
  struct Case {
    const char* line;
    bool is_one;
  };
  for (const Case& test : {
           Case{"from torchvision.datasets import MNIST\n", true},
           Case{"data = load('mnist')\n", true},
           Case{"data = load('cifar')\n", false},
           Case{"data = load('x')  # MNIST\n", false},
           Case{"'MNIST'\n", false},
           Case{"parser.add_argument('--lr', help='for MNIST')\n", false},
           Case{"parser = argparse.ArgumentParser(description='MNIST')\n", false},
           Case{"show(help='for MNIST')\n", true},
           Case{"parser.add_argument('--dataset', default='mnist')\n", true},
           Case{"parser.add_argument('--dataset', default='cifar', type=load('mnist'))\n", false},
           Case{"parser.add_argument('--dataset', type=load('mnist'))\n", false},
           Case{"parser.add_argument('--data', default='x', type=load('mnist'))\n", true},
           Case{"parser.add_argument('--data', default='x', choices=['x', 'mnist'])\n", false},
           Case{"parser.add_argument('--kind', default='x', choices=['x', 'mnist'])\n", false},
           Case{"parser.add_argument('--kind', default='mnist', choices=['x', 'mnist'])\n", true},
       }) {
    SCOPED_TRACE(test.line);
    const std::string loop = training_loop("    model(x).sum().backward()\n    optimizer.step()\n");
    const SourceFacts facts = facts_of(loop + test.line);
    ASSERT_EQ(facts.programs.size(), 1u);
    EXPECT_EQ(is_tutorial(facts, facts.programs.front()), test.is_one);
  }
}

// Each value is made of eight uses of the one before: the search must not take all ways to it.
TEST(Loaders, AreSearchedFromEachVariableOnce) {
  std::string body = "    a0 = x\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "a" + std::to_string(i - 1);
    body += "    a" + std::to_string(i) + " = mixed(" + before;
    for (int use = 1; use < 8; ++use) body += ", " + before;
    body += ")\n";
  }
  body += "    for part in a11:\n        model(part).sum().backward()\n    optimizer.step()\n";
  const SourceFacts facts = facts_of(training_loop(body));
  EXPECT_FALSE(facts.files.empty());
  for (const Loop* loop : facts.files.front()->loops) {
    EXPECT_EQ(loader_of(facts, loop->statement->value), nullptr);
  }
}

}  // namespace
}  // namespace rooftile::source
