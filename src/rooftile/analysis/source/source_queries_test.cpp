// Facts of small scripts, and what the queries make of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rooftile/analysis/source/asked_truth.h"
#include "rooftile/analysis/source/attention_by_hand.h"
#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_store.h"

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

// Items that are texts by their keys, also of lists of them.
TEST(AskedTruth, KnowsTextsByTheirKeys) {
  struct Case {
    const char* item;
    bool is_text;
  };
  for (const Case& test : {
           Case{"batch['text']", true},
           Case{"batch['Texts']", true},
           Case{"batch['caption']", true},
           Case{"batch['captions']", true},
           Case{"batch['file_name']", true},
           Case{"batch['names']", true},
           Case{"batch['image_path']", true},
           Case{"batch['paths']", true},
           Case{"batch['context']", false},
           Case{"batch['named']", false},
           Case{"batch[0]", false},
           Case{"batch", false},
           Case{"batch['text'][0][0][0]", true},
           Case{"batch['text'][0][0][0][0]", false},
       }) {
    SCOPED_TRACE(test.item);
    const SourceFacts facts = facts_of("import torch\nitem = " + std::string(test.item) + "\n");
    EXPECT_EQ(is_text_item(*facts.files.front()->statements.back()->value), test.is_text);
  }
}

// What Python answers by itself, by the name of the question.
TEST(AskedTruth, KnowsQuestionsThatNeedNoGpu) {
  struct Case {
    const char* question;
    bool is_known;
  };
  for (const Case& test : {
           Case{"is_ready()", true},
           Case{"model.is_ready(x)", true},
           Case{"model.has_bias()", true},
           Case{"model.has_bias(x)", false},
           Case{"has_bias()", false},
           Case{"model.half_enabled()", true},
           Case{"model.half_enabled(x)", false},
           Case{"model.enabled()", false},
           Case{"mask.any()", false},
       }) {
    SCOPED_TRACE(test.question);
    const SourceFacts facts =
        facts_of("import torch\nknown = " + std::string(test.question) + "\n");
    EXPECT_EQ(knows_without_gpu(*facts.files.front()->statements.back()->value->call()),
              test.is_known);
  }
}

TEST(Words, StartWithACapital) {
  for (const char* word : {"A", "Model", "ZeroPad"}) EXPECT_TRUE(starts_with_capital(word)) << word;
  for (const char* word : {"", "a", "zeros", "@A", "[A", "_Net", "3D"}) {
    EXPECT_FALSE(starts_with_capital(word)) << word;
  }
}

TEST(Words, NameAnEvaluation) {
  struct Case {
    const char* name;
    const char* body;
    bool is_one;
  };
  for (const Case& test : {
           Case{"evaluate", "model(x)", true},
           Case{"validation", "model(x)", true},
           Case{"Validate", "model(x)", true},
           Case{"test", "model(x)", true},
           Case{"val", "model(x)", true},
           Case{"test_net", "model(x)", true},
           Case{"run_eval", "model(x)", true},
           Case{"run_validation", "model(x)", true},
           Case{"value", "model(x)", false},
           Case{"testing", "model(x)", false},
           Case{"model_test", "model(x)", false},
           Case{"evaluate_training", "model(x)", false},
           Case{"evaluate", "model(x).backward()", false},
           Case{"evaluate", "self.manual_backward(x)", false},
           Case{"evaluate", "model.train()", false},
           Case{"evaluate", "model.eval()", true},
       }) {
    SCOPED_TRACE(test.name + (" " + std::string(test.body)));
    const SourceFacts facts = facts_of("import torch\ndef " + std::string(test.name) +
                                       "(model, x):\n    " + test.body + "\n");
    EXPECT_EQ(is_named_evaluation(*facts.files.front()->functions.front()), test.is_one);
  }
}

// A function that a forward calls so often, or under so many others.
TEST(ProgramQueries, RunsInTheForwardThatAloneCallsIt) {
  const auto runs = [](const std::string& functions, const std::string& body) {
    const SourceFacts facts = facts_of("import torch\ndef part(x):\n    return x\n" + functions +
                                       "class Net(torch.nn.Module):\n    def forward(self, x):\n" +
                                       body + "        return x\n");
    return runs_in_forward(facts.files.front()->functions.front());
  };
  const auto repeated = [](int times) {
    std::string body;
    for (int i = 0; i < times; ++i) body += "        x = part(x)\n";
    return body;
  };
  const auto below = [](int levels) {
    std::string functions;
    for (int i = 0; i < levels; ++i) {
      functions += "def f" + std::to_string(i) + "(x):\n    return " +
                   (i == 0 ? "part" : "f" + std::to_string(i - 1)) + "(x)\n";
    }
    return functions;
  };
  EXPECT_FALSE(runs("", ""));
  EXPECT_TRUE(runs("", repeated(8)));
  EXPECT_FALSE(runs("", repeated(9)));
  EXPECT_FALSE(runs("part(3)\n", repeated(1)));
  EXPECT_TRUE(runs(below(2), "        x = f1(x)\n"));
  EXPECT_FALSE(runs(below(3), "        x = f2(x)\n"));
}

// By the number of passes, by names, and by what stands beside the loop.
TEST(ProgramQueries, KnowEvaluationsByTheUser) {
  struct Case {
    const char* function;
    const char* range;
    const char* beside;
    bool is_one;
  };
  for (const Case& test : {
           Case{"run", "range(1000)", "", false},
           Case{"run", "range(1, 1000)", "", false},
           Case{"time_validate", "range(1000)", "", false},
           Case{"time_validate", "range(1001)", "", true},
           Case{"time_validate", "range(1, 1000)", "", false},
           Case{"time_validate", "range(1, 1001)", "", true},
           Case{"time_validate", "range(n)", "", true},
           Case{"time_validate", "data", "", true},
           Case{"validate", "range(10)", "", true},
           Case{"test_net", "range(10)", "", true},
           Case{"evaluate", "range(10)", "", true},
           Case{"infer", "range(10)", "", true},
           Case{"predict", "range(10)", "", true},
           Case{"run", "range(10)", "    model.eval()\n", true},
           Case{"bench_test", "range(10)", "", false},
           Case{"warm_up_test", "range(10)", "", false},
           Case{"profile_test", "range(10)", "", false},
           Case{"test_latency", "range(10)", "", false},
           Case{"test_speed", "range(10)", "", false},
           Case{"test_fps", "range(10)", "", false},
           Case{"validate", "range(10)", "    begin = time.time()\n", false},
           Case{"validate", "range(10)", "    torch.cuda.synchronize()\n", false},
           Case{"validate", "range(10)", "    begin = torch.cuda.Event()\n", false},
       }) {
    const std::string name = test.function;
    SCOPED_TRACE(name + " " + test.range + " " + test.beside);
    const SourceFacts facts = facts_of(
        "import time\nimport torch\n"
        "def " +
        name + "(model, data):\n" + test.beside + "    for i in " + test.range +
        ":\n        print(model(data[i].cuda()))\n" +
        training_loop("    model(x.cuda()).sum().backward()\n    optimizer.step()\n") + name +
        "(model, data)\n");
    for (const Loop* loop : facts.files.front()->loops) {
      if (loop->function == nullptr) continue;
      EXPECT_EQ(is_user_evaluation(facts, *loop), test.is_one);
    }
  }
}

// Steps of a sequence are more than a few, and no layers.
TEST(TimeLoops, GoThroughASequence) {
  struct Case {
    const char* method;
    const char* iterable;
    bool is_one;
  };
  for (const Case& test : {
           Case{"forward", "range(4)", false},
           Case{"forward", "range(5)", true},
           Case{"forward", "range(10)", true},
           Case{"forward", "range(2, 4)", false},
           Case{"forward", "range(2, 5)", true},
           Case{"forward", "range(x.size(1))", true},
           Case{"forward", "range(self.num_layers)", false},
           Case{"forward", "range(blocks)", false},
           Case{"forward", "x", true},
           Case{"generate", "range(5)", false},
       }) {
    SCOPED_TRACE(test.method + (" " + std::string(test.iterable)));
    const SourceFacts facts =
        facts_of("import torch\nclass Net(torch.nn.Module):\n    def " + std::string(test.method) +
                 "(self, x):\n        for t in " + test.iterable +
                 ":\n            h = h + x[t]\n        return h\n");
    EXPECT_EQ(time_loops(*facts.files.front()).size(), test.is_one ? 1u : 0u);
  }
}

// More than a few passes in each step, in a loop or a comprehension.
TEST(StepWaits, AreRepeatedByALoopInTheStep) {
  struct Case {
    const char* iterable;
    bool repeats;
  };
  for (const Case& test : {
           Case{"range(4)", false},
           Case{"range(5)", true},
           Case{"range(1, 5)", true},
           Case{"range(n)", true},
           Case{"[1, 2, 3, 4]", false},
           Case{"[1, 2, 3, 4, 5]", true},
           Case{"(1, 2, 3, 4)", false},
           Case{"(1, 2, 3, 4, 5)", true},
           Case{"losses.items()", false},
           Case{"net.state_dict().items()", true},
           Case{"values", true},
       }) {
    const std::string iterable = test.iterable;
    for (const std::string& read : {"    for i in " + iterable + ":\n        print(loss.item())\n",
                                    "    print([loss.item() for i in " + iterable + "])\n"}) {
      SCOPED_TRACE(read);
      const SourceFacts facts =
          facts_of(training_loop("    loss = model(x.cuda()).sum()\n"
                                 "    loss.backward()\n"
                                 "    optimizer.step()\n" +
                                 read));
      const auto& items = facts.method_calls("item");
      ASSERT_EQ(items.size(), 1u);
      const Call& item = *items.front();
      EXPECT_EQ(loop_in_step(facts, *item.statement, item.expr) != nullptr, test.repeats);
    }
  }
}

// What is done with queries before their product with the keys.
TEST(AttentionByHand, TellsDimensionsAndScales) {
  struct Case {
    const char* line;
    std::size_t dimensions;  // 0: not seen
    bool are_scaled;
  };
  for (const Case& test : {
           Case{"q = q.view(b, h, n, d)", 4, false},
           Case{"q = q.view(b, w, h, n, d)", 5, false},
           Case{"q, k, v = x.view(3, b, h, n, d)", 4, false},
           Case{"q, k, v = x.view(n)", 0, false},
           Case{"q = q.view(b, w, h, n, d).transpose(1, 2)", 5, false},
           Case{"q = q.transpose(1, 2)", 0, false},
           Case{"q = q.flip(0, 1, 2)", 0, false},
           Case{"q = rearrange(q, 'b n (h d) -> b h n d')", 4, false},
           Case{"q = rearrange(q, 'b t n (h d) -> b t h n d')", 5, false},
           Case{"q = rearrange(q, 'b t n (h d) -> (b t) h n d')", 4, false},
           Case{"q, k, v = map(lambda t: rearrange(t, 'b n (h d) -> b h n d'), (q, k, v))", 4,
                false},
           Case{"q = q * 0.1", 0, true},
           Case{"q = q / 8", 0, true},
           Case{"q = q.mul(0.1)", 0, true},
           Case{"q = q + 0.1", 0, false},
       }) {
    SCOPED_TRACE(test.line);
    const SourceFacts facts = facts_of(
        "import torch\nfrom einops import rearrange\n"
        "class Attention(torch.nn.Module):\n"
        "    def forward(self, q, k, v, x):\n        " +
        std::string(test.line) +
        "\n"
        "        weights = torch.softmax(q @ k.transpose(-2, -1), -1)\n"
        "        return weights @ v\n");
    const auto attention = attention_by_hand(*facts.files.front()->functions.front());
    ASSERT_TRUE(attention.has_value());
    const AttentionInputs inputs = inputs_of(facts, *attention);
    EXPECT_EQ(inputs.dimensions, test.dimensions);
    EXPECT_EQ(inputs.are_scaled, test.are_scaled);
  }
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

TEST(CompiledCode, BreaksWhereItLeavesTheGraph) {
  const std::string long_name(35, 'a');
  struct Case {
    std::string line, expected;
  };
  for (const Case& test : {
           Case{"x.item()", "x.item()"},
           Case{"x.tolist()", "x.tolist()"},
           Case{"x.item(0)", ""},
           Case{long_name + ".item()", long_name + ".item()"},
           Case{"a" + long_name + ".item()", "..." + long_name + ".item()"},
           Case{"float(torch.zeros(3))", "float(...)"},
           Case{"float(3)", ""},
           Case{"print(x)", "print(...)"},
           Case{"logger.info(x)", "logger.info(...)"},
           Case{"other.info(x)", ""},
           Case{"logging.warning(x)", "logging.warning(...)"},
           Case{"logging.getLogger()", ""},
           Case{"y.numpy()", "y.numpy()"},
           Case{"np.sum(torch.zeros(3))", "np.sum(...)"},
           Case{"np.sum(3)", ""},
           Case{"if torch.zeros(3).sum() > 0:\n        pass", "a branch on a tensor's value"},
           Case{"if not torch.zeros(3).any():\n        pass", "a branch on a tensor's value"},
           Case{"if y.any():\n        pass", ""},
       }) {
    SCOPED_TRACE(test.line);
    const SourceFacts facts = facts_of(
        "import logging\nimport numpy as np\nimport torch\ndef work(x):\n    " + test.line +
        "\n    return x\nwork = torch.compile(work)\n" +
        training_loop("    work(model(x.cuda())).sum().backward()\n    optimizer.step()\n"));
    const auto breaks = graph_breaks(facts, *facts.files.front()->functions.front());
    EXPECT_EQ(breaks.empty() ? "" : breaks.front().text, test.expected);
    EXPECT_LE(breaks.size(), 1u);
  }
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

TEST(ModelSize, IsFollowedThroughSoManyParts) {
  struct Case {
    const char* before;
    const char* behind;
  };
  for (const Case& test : {Case{"[", "]"}, Case{"min(", ")"}, Case{"", "[0]"}}) {
    for (const int parts : {9, 10}) {
      std::string size = "a";
      for (int i = 0; i < parts; ++i) size = test.before + size + test.behind;
      SCOPED_TRACE(size);
      const SourceFacts facts =
          facts_of("import torch\nfrom torch import nn\ndef block(a):\n    return nn.Conv2d(" +
                   size + ", 640, 3)\nblock(200)\nblock(150)\n");
      ASSERT_EQ(facts.programs.size(), 1u);
      const auto found = tensor_core_sized_layer(facts, facts.programs.front());
      EXPECT_EQ(found ? found->text : "",
                parts < 10 ? "Conv2d of 200 to 640 channels" : "Conv2d to 640 channels");
    }
  }
}

// What a settings file gives a constructor; other functions may have parameters of the same name.
TEST(ModelSize, IsWhatSettingsGiveTheConstructor) {
  const SourceFacts facts = facts_of(
      "import torch\n"
      "class Net(torch.nn.Module):\n"
      "    def __init__(self, width):\n"
      "        super().__init__()\n"
      "        self.first = torch.nn.Conv2d(width, 640, 3)\n"
      "    def widen(self, height):\n"
      "        self.second = torch.nn.Conv2d(height, 640, 3)\n");
  facts.store().kept<NamedInSettings>().sizes["Net"] = {{"width", 96}, {"height", 200}};
  ASSERT_EQ(facts.programs.size(), 1u);
  const auto found = tensor_core_sized_layer(facts, facts.programs.front());
  EXPECT_EQ(found ? found->text : "", "Conv2d of 96 to 640 channels");
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
           Case{"parser.add_argument('--data', default='x', choices=['x', 'y'], type=load('mnist'))"
                "\n",
                false},
           Case{"parser.add_argument('--kind', default='x', choices=['x', 'y'], type=load('mnist'))"
                "\n",
                true},
           Case{"parser.add_argument('--dataset', default='MNIST')\n", true},
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

TEST(Loaders, HaveLargeSamplesOfLargeImages) {
  const std::string own =
      "class Own(torch.utils.data.Dataset):\n"
      "    def __init__(self, paths):\n"
      "        self.all = np.load(paths)\n"
      "    def __getitem__(self, i):\n";
  struct Case {
    std::string before;
    const char* data;
    bool are_large;
  };
  for (const Case& test : {
           Case{"", "torchvision.datasets.ImageFolder('x')", true},
           Case{"", "torchvision.datasets.ImageFolder('x', Resize(64))", false},
           Case{"", "torchvision.datasets.ImageFolder('x', Resize(65))", true},
           Case{"", "torchvision.datasets.ImageFolder('x', Resize((64, 80)))", false},
           Case{"", "torchvision.datasets.ImageFolder('x', Resize([65, 64]))", true},
           Case{"", "torchvision.datasets.ImageFolder('x', Resize(*sizes))", true},
           Case{"", "torchvision.datasets.ImageFolder('x', RandomCrop(32, padding=4))", false},
           Case{"", "torchvision.datasets.CIFAR10('x')", false},
           Case{"", "torch.utils.data.TensorDataset(x, y)", false},
           Case{own + "        return self.all[i]\n", "Own('x')", false},
           Case{own + "        return np.load(self.paths[i])\n", "Own('x')", true},
           Case{own + "        return Image.open(self.paths[i])\n", "Own('x')", true},
       }) {
    SCOPED_TRACE(test.before + test.data);
    const SourceFacts facts = facts_of(
        "import numpy as np\nimport torch\nimport torchvision\nfrom PIL import Image\n"
        "from torchvision.transforms import RandomCrop, Resize\n" +
        test.before + "loader = torch.utils.data.DataLoader(" + test.data + ", 8)\n");
    const auto loaders = facts.constructions(TypeKind::loader);
    ASSERT_EQ(loaders.size(), 1u);
    EXPECT_EQ(has_large_samples(facts, *loaders.front()), test.are_large);
  }
}

TEST(Loaders, CopyAFewFunctionsDown) {
  const SourceFacts facts = facts_of(
      "import torch\n"
      "def f0(x):\n    return x.cuda()\n"
      "def f1(x):\n    return f0(x)\n"
      "def f2(x):\n    return f1(x)\n"
      "def f3(x):\n    return f2(x)\n"
      "f3(torch.zeros(3))\n");
  const auto& functions = facts.files.front()->functions;
  ASSERT_EQ(functions.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(copy_below(facts, *functions[i]), nullptr) << i;
  EXPECT_EQ(copy_below(facts, *functions[3]), nullptr);
}

TEST(Loaders, HaveSamplesOnTheGpuInPartsOfData) {
  for (const int parts : {0, 1, 3, 4}) {
    std::string data = "torch.utils.data.TensorDataset(x, y)";
    for (int i = 0; i < parts; ++i) data = "torch.utils.data.Subset(" + data + ", ids)";
    SCOPED_TRACE(data);
    const SourceFacts facts = facts_of(
        "import torch\nx = torch.zeros(8).cuda()\n"
        "loader = torch.utils.data.DataLoader(" +
        data + ", 8)\n");
    const auto loaders = facts.constructions(TypeKind::loader);
    ASSERT_EQ(loaders.size(), 1u);
    EXPECT_EQ(has_gpu_samples(facts, *loaders.front()), parts < 4);
  }
}

TEST(Loaders, CollateToArrays) {
  struct Case {
    const char* given;
    bool are_arrays;
  };
  for (const Case& test : {
           Case{"np.stack(batch)", true},
           Case{"np.stack(batch), np.zeros(3)", true},
           Case{"[np.stack(batch)]", true},
           Case{"np.stack(batch), torch.zeros(3)", false},
           Case{"{'x': np.stack(batch)}", false},
           Case{"torch.stack(batch)", false},
           Case{"batch", false},
           Case{"()", false},
       }) {
    SCOPED_TRACE(test.given);
    const SourceFacts facts =
        facts_of("import numpy as np\nimport torch\ndef collate(batch):\n    return " +
                 std::string(test.given) +
                 "\nloader = torch.utils.data.DataLoader(data, 8, collate_fn=collate)\n");
    const auto loaders = facts.constructions(TypeKind::loader);
    ASSERT_EQ(loaders.size(), 1u);
    EXPECT_EQ(collates_to_arrays(*loaders.front()), test.are_arrays);
  }
}

// What the optimizer holds beside a frozen network.
TEST(HeadTraining, IsOfOneLinearLayer) {
  const auto module = [](const std::string& name, const std::string& parameters,
                         const std::string& body) {
    return "class " + name + "(nn.Module):\n    def __init__(self" + parameters +
           "):\n        super().__init__()\n" + body;
  };
  const auto nested = [&](int levels) {
    std::string classes = module("M1", "", "        self.norm = nn.LayerNorm(8)\n");
    for (int i = 2; i <= levels; ++i) {
      classes += module("M" + std::to_string(i), "",
                        "        self.inner = M" + std::to_string(i - 1) + "()\n");
    }
    return classes;
  };
  const std::string linear = "        self.linear = nn.Linear(8, 2)\n";
  struct Case {
    std::string classes;
    const char* made;
    bool is_head;
  };
  for (const Case& test : {
           Case{"", "nn.Linear(8, 2)", true},
           Case{"", "nn.Conv2d(8, 2, 1)", false},
           Case{"", "load()", false},
           Case{module("Head", "", linear), "Head()", true},
           Case{module("Head", "", linear), "Head(backbone)", false},
           Case{module("Head", "", linear + "        self.more = nn.Linear(8, 8)\n"), "Head()",
                false},
           Case{module("Head", "", linear + "        self.more = nn.Parameter(x)\n"), "Head()",
                false},
           Case{nested(3) + module("Head", "", linear + "        self.inner = M3()\n"), "Head()",
                true},
           Case{nested(4) + module("Head", "", linear + "        self.inner = M4()\n"), "Head()",
                false},
           Case{"def conv():\n    return nn.Conv2d(8, 8, 3)\n" +
                    module("Head", "", linear + "        self.more = conv()\n"),
                "Head()", false},
           Case{module("Head", ", block", linear + "        self.more = block(8)\n"), "Head(wide)",
                false},
           Case{module("Head", ", norm", linear + "        self.more = norm(8)\n"), "Head(wide)",
                true},
           Case{module("Head", ", base", linear + "        self.base = base\n") +
                    "    def forward(self, x):\n        return self.linear(self.base(x))\n",
                "Head(wide)", false},
           Case{module("Head", ", rate", linear + "        self.rate = rate\n") +
                    "    def forward(self, x):\n        return self.linear(x) * self.rate\n",
                "Head(wide)", true},
       }) {
    SCOPED_TRACE(test.classes + test.made);
    const SourceFacts facts =
        facts_of("import torch\nimport torchvision\nfrom torch import nn\n" + test.classes +
                 "backbone = torchvision.models.resnet50().cuda()\n"
                 "net = " +
                 test.made +
                 ".cuda()\n"
                 "for p in backbone.parameters():\n"
                 "    p.requires_grad = False\n"
                 "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
                 "for x, y in loader:\n"
                 "    net(backbone(x.cuda())).sum().backward()\n"
                 "    optimizer.step()\n");
    ASSERT_EQ(facts.programs.size(), 1u);
    EXPECT_EQ(trains_head_only(facts, facts.programs.front()), test.is_head);
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
