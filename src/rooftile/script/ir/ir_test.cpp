// Scripts as control-flow graphs: tables of text.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/ir/lower.h"
#include "tests/support/golden.h"
#include "tests/support/ir_text.h"

namespace rooftile::script {
namespace {

SourceFacts facts_of(std::string_view text) { return read_python_text("train.py", text).value(); }

std::string ir_of(std::string_view script, std::size_t function = 0) {
  const SourceFacts facts = facts_of(script);
  return ir_text(*Unit(*facts.files.front()).all().at(function));
}

struct IrCase {
  const char* what;
  const char* script;
  std::size_t function;
  const char* text;
};

const IrCase kCases[] = {
    {"variables become values", "a = 1\nb = a + a\n", 0, R"(module "train"
b0:
  %0 = constant "1"
  %1 = name "a" %0
  %2 = name "a" %0
  %3 = operation "+" %1 %2
  leave
exit "a" %0
exit "b" %3
)"},
    {"branches meet in a phi", "def f(n):\n  if n:\n    n = 2\n  return n\n", 1,
     R"(function "train.f"
b0:
  %0 = parameter "n"
  %1 = name "n" %0
  if %1 b1 b2
b1: from b0
  %2 = constant "2"
  goto b3
b2: from b0
  goto b3
b3: from b1 b2
  %3 = phi "n" %2 %0
  %4 = name "n" %3
  %5 = result %4
  leave
)"},
    {"a loop behind a return has something before it",
     "def f(x, y):\n  return\n  while x:\n    x = 1\n  return y\n", 1, R"(function "train.f"
b0:
  %0 = parameter "x"
  %1 = parameter "y"
  %2 = constant "None"
  %3 = result %2
  leave
b1: from b5 b2
  %4 = phi "x" %9 %6
  %5 = name "x" %4
  if %5 b2 b3
b2: from b1
  %6 = constant "1"
  goto b1
b3: from b1
  goto b4
b4: from b3
  %7 = name "y" %10
  %8 = result %7
  leave
b5:
  %9 = undefined
  %10 = undefined
  goto b1
)"},
    {"a loop brings back what it changed, and keeps what it did not",
     "def f(xs, k):\n  n = 0\n  for x in xs:\n    n += k\n  return n\n", 1, R"(function "train.f"
b0:
  %0 = parameter "xs"
  %1 = parameter "k"
  %2 = constant "0"
  %3 = name "xs" %0
  goto b1
b1: from b0 b2
  %4 = phi "n" %2 %8
  either b2 b3
b2: from b1
  %5 = iterate %3
  %6 = name "k" %1
  %7 = name "n" %4
  %8 = operation "+" %7 %6
  goto b1
b3: from b1
  goto b4
b4: from b3
  %9 = name "n" %4
  %10 = result %9
  leave
)"},
    {"`or` and conditional expressions are blocks", "x = a or b\n", 0, R"(module "train"
b0:
  %0 = free "a"
  %1 = name "a" %0
  %2 = free "b"
  if %1 b1 b2
b1: from b0 b2
  %3 = phi ".0" %1 %4
  leave
b2: from b0
  %4 = name "b" %2
  goto b1
exit "x" %3
)"},
    {"a comprehension is a loop with variables of its own", "x = 1\ny = [x for x in x]\n", 0,
     R"(module "train"
b0:
  %0 = constant "1"
  %1 = name "x" %0
  goto b3
b1: from b3
  %2 = iterate %1
  %3 = name "x" %2
  goto b3
b2: from b3
  %4 = sequence "comprehension" %3
  leave
b3: from b0 b1
  either b1 b2
exit "x" %0
exit "y" %4
)"},
    {"a lambda is a function", "f = lambda x, k=2: x * k\n", 1, R"(lambda "lambda"
b0:
  %0 = parameter "x"
  %1 = parameter "k"
  %2 = name "x" %0
  %3 = name "k" %1
  %4 = operation "*" %2 %3
  %5 = result %4
  leave
)"},
    {"a handler sees each value that its try may have assigned",
     "x = 0\ntry:\n  x = 1\nexcept E:\n  y = x\n", 0, R"(module "train"
b0:
  %0 = constant "0"
  %1 = free "y"
  either b2 b1
b1: from b0 b2
  %2 = phi "x" %0 %3
  either b5 b6
b2: from b0
  %3 = constant "1"
  either b4 b1
b3: from b4 b5
  %4 = phi "x" %3 %2
  %5 = phi "y" %1 %6
  leave
b4: from b2
  goto b3
b5: from b1
  %6 = name "x" %2
  goto b3
b6: from b1
  leave
exit "x" %4
exit "y" %5
)"},
    {"names that a pattern binds are not known", "x = 1\nmatch v:\n  case P(x):\n    pass\n", 0,
     R"(module "train"
b0:
  %0 = constant "1"
  %1 = free "v"
  %2 = name "v" %1
  %3 = free "P"
  either b2 b3
b1: from b2 b3
  %4 = phi "x" %7 %0
  %5 = phi "P" %6 %3
  leave
b2: from b0
  %6 = unknown
  %7 = unknown
  goto b1
b3: from b0
  goto b1
exit "x" %4
exit "P" %5
)"},
    {"class bodies, imports, decorators and attributes",
     "import torch as t\n@t.d\nclass C:\n  k = 3\n  def f(self):\n    self.x = 1\n", 0,
     R"(module "train"
b0:
  %0 = import "torch"
  %1 = definition "train.C"
  %2 = name "t" %0
  %3 = attribute "d" %2
  %4 = decorated %3 %1
  leave
exit "t" %0
exit "C" %4
)"},
    {"a store is an instruction", "class C:\n  def f(self):\n    self.x, self.y = 1, 2\n", 2,
     R"(function "train.C.f"
b0:
  %0 = parameter "self"
  %1 = constant "1"
  %2 = constant "2"
  %3 = sequence "tuple" %1 %2
  %4 = element "0" %3
  %5 = name "self" %0
  %6 = store_attribute "x" %5 %4
  %7 = element "1" %3
  %8 = name "self" %0
  %9 = store_attribute "y" %8 %7
  leave
)"},
};

TEST(Ir, IsAsTheTableSays) {
  for (const IrCase& each : kCases) {
    EXPECT_EQ(ir_of(each.script, each.function), each.text) << each.what << "\n" << each.script;
  }
}

constexpr const char* kLong = R"(
import os
from lib import *

@wrap(3)
async def main(cfg, *rest, lr: float = 1e-3, **options):
    global COUNT
    COUNT = 0
    with open(cfg.path) as f, lock:
        text = f"{f.name} \"quoted\" {lr:.3f}"
    try:
        for i, (a, *b) in enumerate(rest):
            if i % 2 == 0 and not a or b:
                continue
            while a < 10:
                a += (y := a + 1)
                if y > 5:
                    break
            else:
                raise ValueError("no\nline")
            options["k"][1:2] = [x + y for x in b if x for y in x if y] + [*b]
    except (A, B) as error:
        print(error)
    finally:
        del text
    assert await rest[0](lambda z, *w, q=lr: (yield z)), {"a": {1, 2}, **options}
    return (cfg if lr else None), {k: v for k, v in options.items()}

class Net(Base, metaclass=M):
    size: int = 4
    half = size // 2

    @property
    def net(self):
        def inner(): return self.size, COUNT
        return inner
)";

// What SSA form means: operands exist, phis have one for each predecessor, and a value is used only
// where it has been made.
TEST(Ir, HoldsWhatSsaFormPromises) {
  const SourceFacts facts = facts_of(kLong);
  Unit unit(*facts.files.front());
  for (const Function* function : unit.all()) {
    for (BlockId id = 0; id < function->blocks.size(); ++id) {
      const Block& block = function->blocks[id];
      for (const BlockId next : {block.next, block.otherwise}) {
        if (next == kNone) continue;
        const auto& back = function->blocks.at(next).predecessors;
        EXPECT_NE(std::ranges::find(back, id), back.end());
      }
      for (const ValueId value : block.instructions) {
        const Instruction& made = function->values.at(value);
        EXPECT_EQ(made.block, id);
        if (made.op == Op::phi) EXPECT_EQ(made.operands.size(), block.predecessors.size());
        for (const ValueId operand : made.operands) {
          ASSERT_LT(operand, function->values.size());
          const bool is_here = function->values[operand].block == id;
          if (is_here && made.op != Op::phi) EXPECT_LT(operand, value) << ir_text(*function);
        }
      }
    }
  }
}

// Every expression that runs has its value, and the instruction of a value its expression.
TEST(Ir, ExpressionsHaveTheirValues) {
  const SourceFacts facts = facts_of(kLong);
  Unit unit(*facts.files.front());
  std::size_t found = 0;
  for (const source::Call* call : facts.files.front()->calls) {
    const auto place = unit.place(*call->expr);
    ASSERT_TRUE(place) << facts.files.front()->slice(call->expr->range);
    const Instruction& made = place->function->values.at(place->value);
    EXPECT_EQ(made.expr, call->expr);
    EXPECT_EQ(made.op, Op::call);
    ++found;
  }
  EXPECT_EQ(found, 7U);
}

// Each form of statement and expression, also those that kLong lacks.
constexpr const char* kForms = R"(
import a.b, c as d
from e import f as g, h
from i import *
k = m = {1, n}, {"x": 1, **o}, [*p], (q,), ..., None, True, 1.5, b"z", -r, not s, t[1:2, ::u]
v: int
w: float = x if y else z
a1, (b1, *c1), [d1] = e1
f1.g1 = h1[i1] = j1
k1[l1].m1 += n1
o1 @= p1
q1 = r1 and s1 and t1 or u1
v1 = w1 < x1 <= y1, z1 in a2, b2 is not c2
del d2, (e2, f2), g2.h2, i2[j2]
assert k2, l2
print(f"{m2} {n2!r:>{o2}}", *p2, q2=r2, **s2)
t2 = [u2 for v2 in w2 if x2 if y2 for (z2, *a3) in b3]
c3 = {d3 for d3 in e3}, {f3: g3 for f3, g3 in h3}, (i3 async for i3 in j3)
k3 = [[l3 for l3 in m3] for m3 in n3]
o3 = lambda p3, *q3, r3=s3, **t3: (u3 := p3) + v3
(w3)

def x3(y3: z3, /, a4=b4, *c4, d4: e4 = f4, **g4) -> h4:
    global i4, j4
    i4 = j4
    def k4():
        nonlocal y3
        y3 = yield
        y3 = yield l4
        yield from m4
        return
    if n4:
        return o4
    elif p4:
        raise q4 from r4
    else:
        pass
    return k4

@s4.t4
@u4(v4)
class W4(X4, y4=z4):
    a5 = b5
    c5 = a5
    @property
    def d5(self): return self.a5
    async def e5(self):
        async with f5(), g5 as (h5, i5):
            await j5
        async for k5 in l5:
            break
        else:
            m5 = 1
        return m5

for n5, o5.p5 in q5:
    if r5:
        continue
    if s5:
        break
    t5 = n5
else:
    t5 = u5
for v5[w5] in x5: pass
while y5:
    z5 = z5 + 1
    if a6: continue
    if b6: break
    raise c6
else:
    z5 = 0
while True:
    pass
d6 = unreached
)";

constexpr const char* kRaised = R"(
def a():
    try:
        b = 1
        raise c
        b = 2
    except d:
        e = b
    except (f, g) as h:
        e = h
        raise
    except:
        return b
    else:
        e = 3
    finally:
        i = e
    return i

def j():
    try:
        try:
            k = 1
            if l: return k
        finally:
            k = 2
    except m:
        k = 3
    with n as o, p() as q.r:
        o = 4
    return k, o

def s():
    for t in u:
        try:
            v = t
            continue
        except w:
            break
        finally:
            v = 5
    return v

def x(y):
    match y:
        case 1 | 2: z = y
        case A(b=c1, d=[e1, *f1]) if c1 > 2:
            z = c1
        case {"k": v1, **w1}:
            return v1
        case _:
            raise z
    return z

def g1():
    return 1
    h1 = 2
    return h1

def i1():
    break
    continue
)";

TEST(Ir, OfWholeScriptsIsAsInTheGoldens) {
  for (const auto& [name, script] :
       {std::pair("long", kLong), std::pair("forms", kForms), std::pair("raised", kRaised)}) {
    const SourceFacts facts = facts_of(script);
    Unit unit(*facts.files.front());
    std::string text;
    for (const Function* function : unit.all()) text += ir_text(*function);
    expect_golden(std::string(ROOFTILE_ROOT) + "/tests/golden/ir/" + name + ".txt", text);
  }
}

// Long functions cost neither stack nor a time that grows faster than they do.
TEST(Ir, LongChainsOfBranchesAreLowered) {
  std::string text = "def f(x, y):\n";
  for (int i = 0; i < 20000; ++i) text += "  if y:\n    y = x\n";
  text += "  return y\n";
  const SourceFacts facts = facts_of(text);
  Unit unit(*facts.files.front());
  EXPECT_EQ(unit.all().at(1)->blocks.size(), 60001U);
}

}  // namespace
}  // namespace rooftile::script
