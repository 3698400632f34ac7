// What values of scripts come to, as tables of scripts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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
    {"import functools\n@functools.lru_cache(maxsize=1)\ndef opt():\n  return 0\nask(opt())", "0"},
    {"import torch\n@torch.no_grad\ndef opt():\n  return 0\nask(opt())", "0"},
    {"import torch\n@torch.no_grad()\ndef opt():\n  return 0\nask(opt())", "0"},
    {"@cache\ndef opt():\n  return 0\nask(opt())", "0"},
    {"@cache\n@unknown\ndef opt():\n  return 0\nask(opt())", "?"},
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
    {"class C:\n  def set(self, k):\n    self.n = k\n    return k\nc = C()\nd = C()\nd.set(4)\n"
     "ask(c.set(3) - d.n)",
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

const ValueCase kOperators[] = {
    {"ask(-7 // 2)", "-4"},
    {"ask(-7 % 3)", "2"},
    {"ask(7 / 2)", "3.5"},
    {"ask(2 ** 10)", "1024"},
    {"ask(2 ** 64)", "?"},
    {"ask(0.5 ** 63 > 0)", "True"},
    {"ask(2 ** -64)", "?"},
    {"ask(1 / 0)", "?"},
    {"ask(1 // 0)", "?"},
    {"ask(1e308 * 10)", "?"},
    {"ask(int(9e14))", "900000000000000"},
    {"ask(int(1e15))", "?"},
    {"ask(int(1.2e15))", "?"},
    {"ask(2 - 3 * 4)", "-10"},
    {"ask(4 + 3.5)", "7.5"},
    {"ask('a' + 'b')", "?"},
    {"ask(5 & 1)", "?"},
    {"ask(-(-3))", "3"},
    {"ask(-2.5)", "-2.5"},
    {"ask(-'a')", "?"},
    {"ask(+3)", "?"},
    {"ask(3 < 3)", "False"},
    {"ask(3 <= 3)", "True"},
    {"ask(3 > 3)", "False"},
    {"ask(3 >= 3)", "True"},
    {"ask(3 != 3)", "False"},
    {"ask(3 is 3)", "True"},
    {"ask(3 is not 3)", "False"},
    {"ask('a' < 'b')", "?"},
    {"ask(None == 3)", "False"},
    {"ask([1] == [1])", "?"},
    {"ask([1] is None)", "False"},
    {"ask(None is not None)", "False"},
    {"ask(True == True)", "True"},
    {"ask(True != False)", "True"},
    {"import torch\nask(torch.float16 == torch.float16)", "True"},
    {"import torch\nask(torch.float16 == torch.half)", "?"},
    {"import torch\nask(torch.float16 == 'x')", "False"},
    {"ask('b' in 'abc')", "True"},
    {"ask('x' in ['a'])", "False"},
    {"ask('x' not in ('a', 'b'))", "True"},
    {"ask(2 in (1, 2))", "True"},
    {"ask(2 in {1, 2})", "?"},
    {"ask('a' in {'a': 1})", "?"},
    {"ask(1 in 'a')", "?"},
    {"ask(not 0)", "True"},
    {"ask(not 'a')", "False"},
    {"ask(not None)", "True"},
};
INSTANTIATE_TEST_SUITE_P(Operators, FlowValues, testing::ValuesIn(kOperators));

const ValueCase kBuiltins[] = {
    {"ask(str(8))", "'8'"},
    {"ask(str('a'))", "'a'"},
    {"ask(str(2.5))", "?"},
    {"ask(str(True))", "?"},
    {"ask(str(None))", "?"},
    {"ask(float('2.5'))", "2.5"},
    {"ask(float(2))", "2"},
    {"ask(bool('a'))", "True"},
    {"ask(bool(''))", "False"},
    {"ask(int(2.7))", "2"},
    {"ask(int(-2.7))", "-2"},
    {"ask(int(True))", "1"},
    {"ask(int('x'))", "?"},
    {"ask(int())", "?"},
    {"ask(int(*x))", "?"},
    {"ask(min(2, 3, 1))", "1"},
    {"ask(max(2, 2.5))", "2.5"},
    {"ask(abs(-3))", "3"},
    {"ask(abs(3))", "3"},
    {"ask(abs(-2.5))", "2.5"},
    {"ask(len((1, 2, 3)))", "3"},
    {"ask(len({'a': 1}))", "?"},
    {"ask(len('abc'))", "?"},
    {"ask(len([]))", "0"},
    {"ask(min('a', 2))", "?"},
    {"ask(max(2))", "2"},
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, "
     "default=3)\nargs = p.parse_args()\nask(max(args.n, 2))",
     "3 by default"},
    {"import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, "
     "default=3)\nargs = p.parse_args()\nask(max(args.n, 5))",
     "5 by default"},
    {"i = 1\nj = 'a'\nask(f'{j}-{i}')", "'a-1'"},
    {"i = 1.5\nask(f'{i}')", "?"},
    {"i = 1\nask(f'{i!r}')", "?"},
    {"i = 1\nask(f'{i=}')", "?"},
    {"i = 1\nask(f'{{{i}}}')", "?"},
    {"i = 1\nask(f'a{i}b{i}')", "'a1b1'"},
    {"ask(f'{x}')", "?"},
};
INSTANTIATE_TEST_SUITE_P(Builtins, FlowValues, testing::ValuesIn(kBuiltins));

const ValueCase kNarrowing[] = {
    {"if x:\n  n = 0\nelse:\n  n = 2\nif n:\n  pass\nelse:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = 0\nelse:\n  n = 2\nif not n:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n is None:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n is not None:\n  pass\nelse:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif None != n:\n  pass\nelse:\n  n = 2\nask(n)", "?"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n == None:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n != None:\n  n = n\nelse:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nm = n\nif m is None:\n  n = 2\nask(n)", "2"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif y is None:\n  n = 2\nask(n)", "?"},
    {"if x:\n  n = 3\nelse:\n  n = 2\nif n is None:\n  n = 2\nask(n)", "?"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n is None and y:\n  n = 2\nask(n)", "?"},
    {"if x:\n  n = None\nelse:\n  n = 2\nif n is None or y:\n  n = 2\nask(n)", "?"},
    {"def f(n=None):\n  if x:\n    n = 2\n  if n is None:\n    n = 2\n  ask(n)\nf()",
     "2 by default"},
};
INSTANTIATE_TEST_SUITE_P(Narrowing, FlowValues, testing::ValuesIn(kNarrowing));

const ValueCase kStatements[] = {
    {"n = 1\ntry:\n  with f() as n:\n    n = 1\nexcept E:\n  ask(n)", "?"},
    {"n = 1\ntry:\n  n = 1\nexcept E:\n  ask(n)", "1"},
    {"n = 1\ntry:\n  f()\nfinally:\n  n = 2\nask(n)", "2"},
    {"n = 1\ntry:\n  f()\nexcept E:\n  n = 2\nelse:\n  n = 2\nask(n)", "2"},
    {"n = 1\nfor x in y:\n  n = 2\nelse:\n  n = 2\nask(n)", "2"},
    {"n = 1\nfor x in y:\n  if x:\n    n = 3\n    break\nelse:\n  n = 3\nask(n)", "3"},
    {"n = 1\nwhile x:\n  n = 2\nelse:\n  n = 2\nask(n)", "2"},
    {"n = 1\nwhile x:\n  if y:\n    continue\n  n = 2\nask(n)", "?"},
    {"n = 1\nfor x in y:\n  break\n  n = 2\nask(n)", "1"},
    {"n = 1\nz = [(n := 2) for x in y]\nask(n)", "?"},
    {"n = 1\nz = [(n := 1) for x in y if x > 2]\nask(n)", "1"},
    {"n = 1\nz = [(n := 2) for x in y if x > 2]\nask(n)", "?"},
    {"n = 1\nz = [x for x in y if (n := 2) > x]\nask(n)", "?"},
    {"n = 1\nz = {x: (n := 2) for x in y}\nask(n)", "?"},
    {"n = [x for x in [3, 3]]\nfor m in n:\n  ask(m)", "3"},
    {"n = 2\nn: int\nask(n)", "2"},
    {"n: int = 2\nask(n)", "2"},
    {"n = 2\nn *= 3\nask(n)", "6"},
    {"n = 7\nn //= 2\nask(n)", "3"},
    {"n = 2\nn **= 3\nask(n)", "8"},
    {"a = b = 2\nask(a + b)", "4"},
    {"(a, b), c = (1, 2), 3\nask(b)", "2"},
    {"[a, b] = [1, 2]\nask(a)", "1"},
    {"a, *b = 1, 2, 3\nask(a)", "1"},
    {"a, *b = 1, 2, 3\nask(b)", "?"},
    {"n = (3, 4)\nask(n[2])", "?"},
    {"n = (3, 4)\nask(n[-1])", "?"},
    {"n = [3, *x]\nask(n[0])", "?"},
    {"n = {'a': 3}\nask(n[0])", "?"},
    {"n = 3\nmatch v:\n  case 1:\n    n = 4\n  case 2:\n    n = 4\n  case _:\n    n = 4\nask(n)",
     "?"},
    {"n = 3\nmatch v:\n  case 1:\n    n = 3\nask(n)", "3"},
    {"n = 1\nif x:\n  raise E\nelse:\n  n = 2\nask(n)", "2"},
    {"def f():\n  n = 1\n  if x:\n    return\n    n = 2\n  ask(n)\nf()", "1"},
    {"import torch as n\nask(n)", "torch"},
    {"def n():\n  return 1\nask(n)", "train.n"},
    {"class n:\n  pass\nask(n)", "train.n"},
    {"n = 3\ndel (n)\nask(n)", "?"},
    {"n = 3\nm = 4\ndel n, m\nask(m)", "?"},
    {"n = 3\ndel n[0]\nask(n)", "3"},
    {"n = lambda k=4: k\nask(n())", "4"},
    {"n = lambda k=4: k\nask(n(5))", "5"},
    {"k = 0\nz = [(ask(k), (k := 1)) for x in y]", "?"},
    {"k = 0\nz = [ask(k) for x in y]", "0"},
    {"k = 0\nz = [ask(x) for x in [3, 3]]", "3"},
    {"n = 1\nz = [n for n in [2, 2] if ask(n)]", "2"},
    {"n = 1\nz = {n: 1 for n, m in y if ask(1)}", "1"},
    {"z = [ask(m) for n in y for m in [5, 5]]", "5"},
    {"n = (2 if x else 2) + 1\nask(n)", "3"},
    {"n = 2 if x else 3\nask(n)", "?"},
    {"n = 0 or 3\nask(n)", "3"},
    {"n = 0 and 3\nask(n)", "0"},
    {"n = 1 and 2 and 3\nask(n)", "3"},
    {"n = x and 3\nask(n)", "?"},
    {"n = 1\ndef f():\n  return n\nask(f())", "1"},
    {"def f(*, n=3):\n  return n\nask(f())", "3"},
    {"def f(n, /):\n  return n\nask(f(3))", "3"},
    {"n = 1\nclass C:\n  n = 2\nask(n)", "1"},
    {"def f():\n  global n, m\n  n = 5\n  m = 3\nm = 3\nf()\nask(m)", "3"},
    {"n = 1\ntry:\n  raise E\nexcept E:\n  n = 2\nask(n)", "2"},
    {"n = 1\ntry:\n  n = 2\n  raise E\nexcept E:\n  ask(n)", "?"},
    {"n = 1\nwhile x:\n  n = 1\n  if y:\n    break\n  n = 2\nask(n)", "?"},
    {"n = 1\nfor x in y:\n  n = 2\n  continue\n  n = 3\nask(n)", "?"},
    {"n = 2\nfor x in y:\n  n = 2\n  continue\n  n = 3\nask(n)", "2"},
    {"n = 2\nwith f():\n  n = 3\nask(n)", "3"},
    {"n = 2\nasync def f():\n  n = 3\nask(n)", "2"},
    {"n = 2\nassert n\nask(n)", "2"},
    {"n = [2, 3]\nn[0] = 4\nask(n[1])", "3"},
};
INSTANTIATE_TEST_SUITE_P(Statements, FlowValues, testing::ValuesIn(kStatements));

// ---- several files

struct FilesCase {
  std::vector<std::pair<std::string, std::string>> files;
  const char* value;
};

TEST(Flow, FollowsNamesIntoOtherFiles) {
  const FilesCase cases[] = {
      {{{"sizes.py", "N = 4\n"}, {"train.py", "from sizes import N\nask(N)\n"}}, "4"},
      {{{"sizes.py", "N = 4\n"}, {"train.py", "from sizes import N as M\nask(M)\n"}}, "4"},
      {{{"sizes.py", "N = 4\n"}, {"train.py", "import sizes\nask(sizes.N)\n"}}, "4"},
      {{{"sizes.py", "N = 4\n"}, {"train.py", "from sizes import N\ndef f():\n  ask(N)\nf()\n"}},
       "4"},
      {{{"sizes.py", "N = 4\n"},
        {"train.py", "try:\n  from sizes import N\nexcept E:\n  N = 4\nask(N)\n"}},
       "4"},
      {{{"sizes.py", "def f():\n  global N\n  N = 5\nN = 4\n"},
        {"train.py", "from sizes import N\nask(N)\n"}},
       "sizes.N"},
      {{{"sizes.py", "def n():\n  return 4\n"}, {"train.py", "import sizes\nask(sizes.n())\n"}},
       "4"},
      {{{"sizes.py", "N = 4\n"}, {"train.py", "import sizes\nsizes.N = 5\nask(sizes.N)\n"}}, "?"},
  };
  for (const auto& [files, value] : cases) {
    const SourceFacts facts = read_python_texts(files).value();
    const auto& calls = facts.method_calls("ask");
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(text_of(facts.value(calls[0]->arguments[0].value)), value) << files[1].second;
  }
}

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

// Whether what `ask` gets comes from a call of `make`.
bool comes_from_make(const std::string& script) {
  const SourceFacts facts = read_python_text("train.py", script).value();
  const auto& calls = facts.method_calls("ask");
  return !calls.empty() &&
         find_source(facts, *calls[0]->arguments[0].value, [](const source::Expr& expr) {
           const source::Call* call = expr.call();
           if (call != nullptr && call->method == "make") return SourceStep::found;
           return call != nullptr && call->method == "other" ? SourceStep::stop : SourceStep::go_on;
         });
}

TEST(Flow, FindsWhatAValueIsMadeOf) {
  for (const char* script :
       {"ask(make())", "x = make()\nask(x + 1)", "for x in make():\n  ask(x)",
        "for x, y in make():\n  ask(y)", "x = make().run(1)\nask(x)", "ask(run(1, make()))",
        "ask(make()[0])", "x = [1, make()]\nask(x)", "ask(f'{make()}')", "ask(1 if a else make())",
        "ask(a or make())", "ask(-make())", "ask(make() > 1)", "ask([x for x in make()])",
        "def f():\n  return make()\nask(f())", "def f(x):\n  ask(x)\nf(make())",
        "x = 1\nfor i in y:\n  x = x + make()\nask(x)", "ask(make().size)"}) {
    EXPECT_TRUE(comes_from_make(script)) << script;
  }
  for (const char* script :
       {"ask(1)", "make()\nask(x)", "ask(other(make()))", "ask(x[make()])",
        "x = make()\nx = 1\nask(x)", "ask(lambda: make())", "with make() as x:\n  ask(x)",
        "if False:\n  x = make()\nelse:\n  x = 1\nask(x)"}) {
    EXPECT_FALSE(comes_from_make(script)) << script;
  }
}

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
