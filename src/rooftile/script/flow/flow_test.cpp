// What values of scripts come to, as tables of scripts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/flow/known_value.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::script {
namespace {

std::string text_of(const Value& value) {
  std::string text;
  switch (value.kind) {
    case ValueKind::none:
      text = "None";
      break;
    case ValueKind::boolean:
      text = value.boolean ? "True" : "False";
      break;
    case ValueKind::integer:
      text = std::to_string(value.integer);
      break;
    case ValueKind::real:
      text = fmt::format("{}", value.real);
      break;
    case ValueKind::list:
      text = "list";
      break;
    case ValueKind::text:
      text = fmt::format("'{}'", value.text);
      break;
    case ValueKind::name:
      text = value.text;
      break;
    default:
      return "?";
  }
  return value.certainty == Certainty::configurable ? text + " by default" : text;
}

// What the first call of `ask` gets.
std::string asked(const std::string& script) {
  const SourceFacts facts = read_python_text("train.py", script).value();
  const auto& calls = facts.method_calls("ask");
  return calls.empty() ? "no call" : text_of(facts.value(calls[0]->arguments[0].value));
}

struct ValueCase {
  const char* script;
  const char* value;
};

class FlowValues : public testing::TestWithParam<ValueCase> {};

TEST_P(FlowValues, AreWhatTheScriptSays) {
  EXPECT_EQ(asked(GetParam().script), GetParam().value) << GetParam().script;
}

const ValueCase kVariables[] = {
    {"ask(4)", "4"},
    {"n = 4\nm = n\nask(m * 2)", "8"},
    {"n = 4\nn = 5\nask(n)", "5"},
    {"n = 4\nn -= 4\nask(n)", "0"},
    {"a, b = 1, 2\nask(b)", "2"},
    {"a, *b, c = 1, 2, 3\nask(c)", "?"},
    {"n = (m := 3)\nask(m)", "3"},
    {"n = 4\ndel n\nask(n)", "?"},
    {"n = None\nask(n or 3)", "3"},
    {"n = 2\nask(n or 3)", "2"},
    {"n = 2\nask(n and 3)", "3"},
    {"ask(not [])", "True"},
    {"ask(1_000 // 3)", "333"},
    {"ask(7 % 0)", "?"},
    {"ask(2.5 >= 2)", "True"},
    {"ask(1.5 >= 2)", "False"},
    {"ask(2.5 <= 2)", "False"},
    {"import torch\ndtype = torch.float16\nask(dtype)", "torch.float16"},
    {"i = 1\nask(f'cuda:{i}')", "'cuda:1'"},
    {"i = 1.5\nask(f'{i:.3f}')", "?"},
    {"ask(max(2, 3, 1))", "3"},
    {"ask(min(2, x))", "?"},
    {"ask(len([1, 2]))", "2"},
    {"ask(len([*x]))", "?"},
    {"ask(bool(0))", "False"},
    {"ask(int('8'))", "8"},
    {"ask(int(False))", "0"},
    {"ask(1 == True)", "?"},
    {"ask('a' == 'b')", "False"},
    {"ask(n)\nn = 3", "?"},
};
INSTANTIATE_TEST_SUITE_P(Variables, FlowValues, testing::ValuesIn(kVariables));

const ValueCase kBranches[] = {
    {"if x:\n  n = 0\nelse:\n  n = 0\nask(n)", "0"},
    {"if x:\n  n = 0\nelse:\n  n = 1\nask(n)", "?"},
    {"if True:\n  n = 0\nelse:\n  n = 1\nask(n)", "0"},
    {"ask(0 if x else 0)", "0"},
    {"n = None\nif n is None:\n  n = 3\nask(n)", "3"},
    {"n = 5\nif n is None:\n  n = 3\nask(n)", "5"},
    {"def f(n=None):\n  if n is None:\n    n = 3\n  ask(n)", "3 by default"},
    {"def f(n=None, on=False):\n  if on:\n    n = 3\n  ask(n)", "None by default"},
    {"try:\n  n = 0\nexcept E:\n  n = 0\nask(n)", "0"},
    {"n = 1\ntry:\n  n = 0\nexcept E:\n  pass\nask(n)", "?"},
    {"n = 1\nfor x in y:\n  n = 0\nask(n)", "?"},
    {"n = 1\nfor x in y:\n  n = n\nask(n)", "1"},
    {"n = 1\nfor x in y:\n  n += 1\nask(n)", "?"},
    {"n = 1\nwhile True:\n  n = 0\n  break\nask(n)", "0"},
    {"for n in [3, 3]:\n  ask(n)", "3"},
    {"for n in [3, 4]:\n  ask(n)", "?"},
    {"for i, n in enumerate([3, 3]):\n  ask(n)", "3"},
    {"for m, n in zip([1, 1], [3, 3]):\n  ask(n)", "3"},
    {"for n in [3 for i in x]:\n  ask(n)", "3"},
    {"n = (3, 4)\nask(n[1])", "4"},
    {"n = (3, 4)\nask(n[x])", "?"},
    {"n = 4\nmatch v:\n  case n:\n    ask(n)", "?"},
    {"n = 4\ntry:\n  f()\nexcept E as n:\n  ask(n)", "?"},
    {"n = 4\nx = [n for n in y]\nask(n)", "4"},
    {"with open(x) as n:\n  ask(n)", "?"},
};
INSTANTIATE_TEST_SUITE_P(Branches, FlowValues, testing::ValuesIn(kBranches));

const ValueCase kFunctions[] = {
    {"def opt():\n  return 0\nask(opt())", "0"},
    {"def opt(n):\n  return n\nask(opt(0))\nopt(4)", "0"},
    {"def opt(n):\n  return n * 2\nask(opt(n=3))\nopt(4)", "6"},
    {"def opt(n=3):\n  return n\nask(opt())\nopt(4)", "3"},
    {"def opt(n):\n  if n:\n    return 1\n  return 0\nask(opt(False))\nopt(True)", "0"},
    {"def opt(n):\n  if n:\n    return 1\nask(opt(n=0))", "None"},
    {"def opt(n):\n  return opt(n)\nask(opt(0))", "?"},
    {"def opt():\n  yield 0\nask(opt())", "?"},
    {"async def opt():\n  return 0\nask(opt())", "?"},
    {"@unknown\ndef opt():\n  return 0\nask(opt())", "?"},
    {"import functools\n@functools.lru_cache\ndef opt():\n  return 0\nask(opt())", "0"},
    {"opt = lambda: 0\nask(opt())", "0"},
    {"opt = lambda n, m=2: n + m\nask(opt(1))", "3"},
    {"def f():\n  n = 4\n  def g():\n    ask(n)\n  g()", "4"},
    {"def f():\n  n = 4\n  def g():\n    nonlocal n\n    n = 5\n  ask(n)", "?"},
    {"n = 4\ndef f():\n  ask(n)", "4"},
    {"n = 4\ndef f():\n  global n\n  n = 5\ndef g():\n  ask(n)", "?"},
    {"def f(n):\n  ask(n)\nf(4)", "4"},
    {"def f(n):\n  ask(n)\nf(4)\nf(4)", "4"},
    {"def f(n):\n  ask(n)\nf(4)\nf(5)", "?"},
    {"import math\ndef f(n):\n  ask(n == math.inf)\nf(2)", "False"},
    {"def f(n):\n  ask(n in ['a', 'b'])\nf('b')", "True"},
    {"def f(n):\n  ask('a' not in n)\nf('abc')", "False"},
    {"def f(n):\n  ask(n in [x, 'b'])\nf('a')", "?"},
    {"def f(n, *rest):\n  ask(rest)\nf(4, 5)", "?"},
    {"def f(n):\n  ask(n)\nf(*x)", "?"},
    {"def sizes():\n  return 2, 3\na, b = sizes()\nask(b)", "3"},
    {"def a(n):\n  return b(n)\ndef b(n):\n  return n\nask(a(1))", "1"},
};
INSTANTIATE_TEST_SUITE_P(Functions, FlowValues, testing::ValuesIn(kFunctions));

const ValueCase kObjects[] = {
    {"class C:\n  n = 3\nask(C.n)", "3"},
    {"class C:\n  def __init__(self):\n    self.n = 3\nc = C()\nask(c.n)", "3"},
    {"class C:\n  def __init__(self, n):\n    self.n = n\nc = C(3)\nask(c.n)", "3"},
    {"class C:\n  def __init__(self):\n    self.n = 3\n  def f(self):\n    self.n = 4\nask(C().n)",
     "?"},
    {"class C:\n  n = 3\nc = C()\nc.n = 4\nask(c.n)", "?"},
    {"class C:\n  def n(self):\n    return 3\nask(C().n())", "3"},
    {"class C:\n  def n(self):\n    return 3\nclass D(C):\n  def n(self):\n    return "
     "4\nask(C().n())",
     "?"},
    {"class C:\n  @property\n  def n(self):\n    return 3\nask(C().n)", "3"},
    {"def f(x):\n  ask(x.size())\nclass C:\n  def size(self):\n    return 3\nC().size()", "?"},
    {"from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 3\nc = C()\nask(c.n)",
     "3 by default"},
    {"from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int\nc = C(3)\nask(c.n)",
     "3 by default"},
    {"from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 3\nc = C(n=4)\nask(c.n)",
     "?"},
    {"c = {'n': 3}\nask(c['n'])", "3 by default"},
    {"c = dict(n=3)\nask(c['n'])", "3 by default"},
};
INSTANTIATE_TEST_SUITE_P(Objects, FlowValues, testing::ValuesIn(kObjects));

const ValueCase kOptions[] = {
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=3)\n"
     "args = p.parse_args()\nask(args.n)",
     "3 by default"},
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, "
     "default='3')\n"
     "args = p.parse_args()\nn = args.n\nask(n - 3)",
     "0 by default"},
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--on', action='store_true')\n"
     "args = p.parse_args()\nask(4 if args.on else 0)",
     "0 by default"},
    {"import argparse\np = argparse.ArgumentParser()\n"
     "p.add_argument('--off', action='store_true', default=True)\n"
     "args = p.parse_args()\nask(args.off)",
     "True"},
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=3)\n"
     "def get(args):\n  return args.n\nargs = p.parse_args()\nask(get(args))",
     "3 by default"},
    {"import os\nask(int(os.environ.get('N', '0')))", "0 by default"},
    {"import os\nask(os.getenv('N'))", "?"},
    {"import os\nask(os.cpu_count())", "?"},
    {"import torch\nask(torch.cuda.is_available())", "True by default"},
    {"import torch\nask('cuda' if torch.cuda.is_available() else 'cpu')", "'cuda' by default"},
    {"import torch\nd = torch.device('cuda')\nask(d.type == 'cuda')", "True by default"},
    {"for i in range(1):\n  ask(i)", "0"},
    {"n = 1\nfor i in range(n):\n  ask(i == n - 1)", "True"},
    {"for i in range(2):\n  ask(i)", "?"},
    {"for i in range(1, 2):\n  ask(i)", "?"},
    {"exec(open('c.py').read())\nn = 3\ndef f():\n  ask(n)", "3 by default"},
};
INSTANTIATE_TEST_SUITE_P(Options, FlowValues, testing::ValuesIn(kOptions));

// ---- origins

// What the first call of `ask` gets may be, as it is written.
std::string asked_origins(const std::string& script) {
  const SourceFacts facts = read_python_text("train.py", script).value();
  const auto& calls = facts.method_calls("ask");
  if (calls.empty()) return "no call";
  std::string text;
  for (const source::Expr* each : origins(facts, *calls[0]->arguments[0].value)) {
    if (!text.empty()) text += ", ";
    text += each->statement->file->slice(each->range);
  }
  return text;
}

class FlowOrigins : public testing::TestWithParam<ValueCase> {};

TEST_P(FlowOrigins, AreWhereTheValueWasMade) {
  EXPECT_EQ(asked_origins(GetParam().script), GetParam().value) << GetParam().script;
}

const ValueCase kOrigins[] = {
    {"ask(make(4))", "make(4)"},
    {"x = make()\ny = x\nask(y)", "make()"},
    {"if a:\n  x = f()\nelse:\n  x = g()\nask(x)", "f(), g()"},
    {"if False:\n  x = f()\nelse:\n  x = g()\nask(x)", "g()"},
    {"x = f()\nfor i in y:\n  x = g(x)\nask(x)", "f(), g(x)"},
    {"x = f()\nfor i in y:\n  x = x\nask(x)", "f()"},
    {"x, y = f(), g()\nask(y)", "g()"},
    {"x, y = f()\nask(y)", "y"},
    {"ask(f() if a else g())", "f(), g()"},
    {"x = None\nask(x or f())", "f()"},
    {"def f(x):\n  ask(x)\nf(g())\nf(h())", "g(), h()"},
    {"def f(x, y=2):\n  ask(y)\nf(g())", "2"},
    {"def f(x):\n  y = x\n  ask(y)", "x"},
    {"def f(x):\n  return g(x)\nask(f(1))", "g(x)"},
    {"def f(x):\n  return x\nask(f(g()))\nf(h())", "g()"},
    {"def f(a):\n  if a:\n    return g()\n  return h()\nask(f(True))", "g()"},
    {"def f():\n  return g(), h()\na, b = f()\nask(b)", "h()"},
    {"def f(a):\n  if a:\n    return 1, g()\n  return 2, h()\na, b = f(c)\nask(b)", "g(), h()"},
    {"class C:\n  def __init__(self, x):\n    self.x = x\n  def f(self):\n    ask(self.x)\nC(g())",
     "g()"},
    {"f = lambda x: g(x)\nask(f(1))", "g(x)"},
    {"from torch.autograd import Variable\nx = g()\nask(Variable(x))", "g()"},
    {"for x, y in zip(a(), b()):\n  ask(y)", "y"},
    {"def f():\n  return [(g(), h()) for i in x]\nfor a, b in f():\n  ask(b)", "h()"},
    {"class C:\n  def __init__(self, x):\n    self.x = x\n  def f(self):\n    ask(self.x[1])\n"
     "C([g(), h()])",
     "h()"},
    {"def f(x):\n  if x:\n    return f(x)\n  return g()\nask(f(h()))", "g()"},
};
INSTANTIATE_TEST_SUITE_P(Origins, FlowOrigins, testing::ValuesIn(kOrigins));

// ---- the lattice

std::vector<KnownValue> some_values() {
  std::vector<KnownValue> all{KnownValue(), KnownValue::anything()};
  for (int n = 0; n < 4; ++n) all.push_back(KnownValue::of(integer_constant(n, nullptr)));
  KnownValue two = all[2];
  two.join(all[3]);
  KnownValue by_default = all[2];
  by_default.weaken(Certainty::configurable);
  all.push_back(two);
  all.push_back(by_default);
  return all;
}

bool is_below(const KnownValue& a, const KnownValue& b) {
  KnownValue joined = b;
  return !joined.join(a);
}

TEST(KnownValue, JoinsAreLeastUpperBounds) {
  const auto all = some_values();
  for (const KnownValue& a : all) {
    EXPECT_TRUE(is_below(a, a));
    EXPECT_TRUE(is_below(KnownValue(), a));
    EXPECT_TRUE(is_below(a, KnownValue::anything()));
    for (const KnownValue& b : all) {
      KnownValue ab = a, ba = b;
      ab.join(b);
      ba.join(a);
      EXPECT_TRUE(is_below(a, ab) && is_below(b, ab));
      EXPECT_TRUE(is_below(ab, ba) && is_below(ba, ab));
      for (const KnownValue& c : all) {
        if (is_below(a, c) && is_below(b, c)) EXPECT_TRUE(is_below(ab, c));
      }
    }
  }
}

TEST(KnownValue, RisesAtMostAsOftenAsItsHeightSays) {
  KnownValue value;
  int rises = 0;
  for (const Certainty certainty :
       {Certainty::literal, Certainty::constant, Certainty::configurable}) {
    for (int n = 0; n < 10; ++n) {
      KnownValue one = KnownValue::of(integer_constant(n % 4, nullptr));
      one.weaken(certainty);
      rises += value.join(one) ? 1 : 0;
    }
  }
  rises += value.join(KnownValue::of(integer_constant(9, nullptr))) ? 1 : 0;
  EXPECT_TRUE(value.is_anything());
  EXPECT_EQ(rises, static_cast<int>(3 * kMaxConstants + 1));
}

// A long chain of values, a wide cycle of them and deep recursion need neither stack nor patience.
TEST(Flow, IsDoneWithLargeScripts) {
  std::string chain = "n0 = 1\n", cycle = "def f(x):\n", calls = "def g0():\n  return 3\n";
  for (int i = 0; i < 20000; ++i) chain += fmt::format("n{} = n{}\n", i + 1, i);
  EXPECT_EQ(asked(chain + "ask(n20000)\n"), "1");
  for (int i = 0; i < 300; ++i) cycle += fmt::format("  v{} = 1\n", i);
  cycle += "  while x:\n";
  for (int i = 0; i < 300; ++i) cycle += fmt::format("    v{} = v{}\n", i, (i + 1) % 300);
  EXPECT_EQ(asked(cycle + "  ask(v7)\n"), "1");
  for (int i = 0; i < 3000; ++i) calls += fmt::format("def g{}():\n  return g{}()\n", i + 1, i);
  EXPECT_EQ(asked(calls + "ask(g3000())\n"), "3");
}

}  // namespace
}  // namespace rooftile::script
