#include "rooftile/script/reach/reach.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/reach/sure.h"

namespace rooftile::source {
namespace {

// A program that trains; `body` is what each step does after the update, `more` are functions.
SourceFacts facts_of(const std::string& body, const std::string& more = {}) {
  const std::string text = R"(import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
)" + more + R"(
for step, x in enumerate(torch.utils.data.DataLoader(data)):
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
)" + body;
  return read_python_text("train.py", text).value();
}

Ways ways_to_mark(const SourceFacts& facts) {
  const auto& calls = facts.method_calls("mark");
  EXPECT_EQ(calls.size(), 1U);
  return ways_to(facts, *calls.front());
}

TEST(Reach, KnowsTheStepLoop) {
  const Ways ways = ways_to_mark(facts_of("    mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().trains());
  EXPECT_NE(ways.front().step_loop, nullptr);
  EXPECT_EQ(ways.front().shut, Shut::no);
  EXPECT_FALSE(ways.front().is_off_by_default);
}

TEST(Reach, GoesThroughAnyNumberOfCalls) {
  std::string chain = "def f0():\n    mark()\n";
  for (int i = 1; i < 40; ++i) {
    chain += "def f" + std::to_string(i) + "():\n    f" + std::to_string(i - 1) + "()\n";
  }
  const Ways ways = ways_to_mark(facts_of("    f39()\n", chain));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().in_each_training_step());
}

TEST(Reach, EndsOnRecursion) {
  const Ways ways = ways_to_mark(
      facts_of("    f(3)\n",
               "def f(n):\n    mark()\n    g(n - 1)\ndef g(n):\n    if n > 0:\n        f(n)\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().in_each_training_step());
}

TEST(Reach, JoinsWaysThatAgree) {
  std::string calls;
  for (int i = 0; i < 100; ++i) calls += "    f()\n";
  EXPECT_EQ(ways_to_mark(facts_of(calls, "def f():\n    mark()\n")).size(), 1U);
}

TEST(Reach, KeepsTheWayThatLetsMorePass) {
  const Ways ways = ways_to_mark(
      facts_of("    if step % 100 == 0:\n        f()\n    f()\n", "def f():\n    mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_EQ(ways.front().shut, Shut::no);
}

TEST(Reach, KnowsWhatIsRare) {
  const Ways ways = ways_to_mark(facts_of("    if step % 100 == 0:\n        mark()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_EQ(ways.front().shut, Shut::yes);
}

TEST(Reach, FindsNoWayToWhatNothingCalls) {
  EXPECT_TRUE(ways_to_mark(facts_of("    pass\n", "# f() was called here\ndef f():\n    mark()\n"))
                  .empty());
  EXPECT_TRUE(ways_to_mark(facts_of("    pass\n",
                                    "def f():\n    mark()\ndef g():\n    h()\n"
                                    "def h():\n    f()\n"))
                  .empty());
}

TEST(Reach, TakesWhatIsNamedForCalled) {
  EXPECT_FALSE(
      ways_to_mark(facts_of("    pass\n", "def f():\n    mark()\nhooks = {'f': f}\n")).empty());
}

// A branch for an argument that each caller gives, or that no caller gives.
TEST(Reach, KnowsWhatCallersPass) {
  const std::string asks = "def f(scale=None):\n    if scale is not None:\n        mark()\n";
  EXPECT_TRUE(ways_to_mark(facts_of("    f()\n", asks)).empty());
  EXPECT_FALSE(ways_to_mark(facts_of("    f(2)\n    f()\n", asks)).empty());
  const std::string lacks = "def f(scale=None):\n    if scale is None:\n        mark()\n";
  EXPECT_TRUE(ways_to_mark(facts_of("    f(2)\n    f(scale=3)\n", lacks)).empty());
}

TEST(Reach, KnowsWhatIsOffByDefault) {
  const Ways ways = ways_to_mark(facts_of("    if args.log:\n        mark()\n",
                                          "import argparse\nparser = argparse.ArgumentParser()\n"
                                          "parser.add_argument('--log', action='store_true')\n"
                                          "args = parser.parse_args()\n"));
  ASSERT_EQ(ways.size(), 1U);
  EXPECT_TRUE(ways.front().is_off_by_default);
}

TEST(Reach, KnowsWhereGradientsAreOff) {
  const Ways ways = ways_to_mark(
      facts_of("    with torch.no_grad():\n        f()\n    f()\n", "def f():\n    mark()\n"));
  ASSERT_EQ(ways.size(), 2U);
  EXPECT_EQ(std::ranges::count_if(ways, &Way::gradients_off), 1);
}

// `timed(load)` does not lead to `train`, which another call hands over.
TEST(Reach, FollowsTheFunctionThatIsHandedOver) {
  const Ways ways = ways_to_mark(facts_of("    timed(load)\n",
                                          "def load():\n    pass\ndef save():\n    mark()\n"
                                          "def timed(run):\n    run()\ntimed(save)\n"));
  EXPECT_TRUE(std::ranges::none_of(ways, &Way::trains));
}

// `globals()[name]()` may make the class itself, but not where one that derives from it is made.
TEST(Reach, KnowsMethodsThatAreOverridden) {
  const std::string classes =
      "class Base:\n  def f(self):\n    mark()\nclass Derived(Base):\n  def f(self):\n    pass\n";
  const std::string by_name = "made = globals()[args.kind]()\n";
  const auto ways = [](const std::string& more) {
    return ways_to_mark(facts_of("    pass\n", more));
  };
  EXPECT_TRUE(ways(classes).empty());
  EXPECT_TRUE(ways(classes + "Derived()\n").empty());
  EXPECT_FALSE(ways(classes + by_name).empty());
  EXPECT_TRUE(ways(classes + by_name + "Derived()\n").empty());
  const std::string plain = "class Plain(Base):\n  pass\n";
  EXPECT_FALSE(ways(classes + plain + by_name + "Derived()\n").empty());
}

struct KeptCase {
  const char* usual;  // of a parameter that the constructor keeps
  const char* test;   // of what it keeps, in forward
  const char* given;  // by who makes the module; x is not known
  const char* more;   // methods
  bool is_off;
};

// A rate that is a number by default is None only where somebody says so.
TEST(Reach, KnowsWhatAConstructorKeeps) {
  const char* const reset = "  def reset(self):\n    self.rate = 3\n";
  const KeptCase cases[] = {
      {"0.1", "is None", "", "", true},
      {"0.1", "is None", "x", "", true},
      {"1", "is None", "x", "", true},
      {"0.1", "is not None", "x", "", false},
      {"0.1", "is None", "None", "", false},
      {"'a'", "is None", "x", "", false},
      {"None", "is None", "x", "", false},
      {"0.1", "> 3", "x", "", false},
      {"0.1", "is None", "x", reset, false},
      {"0.1", "is None", "x).cuda()\nlast = Norm(", "", true},
      {"0.1", "is None", "x).cuda()\nlast = Norm(None", "", false},
      {"0.1", "is None", "x).cuda()\nlast = Norm(rate=None", "", false},
      {"0.1", "is None", "x).cuda()\nlast = Norm(rate=3", "", true},
  };
  for (const auto& [usual, test, given, more, is_off] : cases) {
    const std::string norm =
        std::string("class Norm(torch.nn.Module):\n  def __init__(self, rate=") + usual +
        "):\n    super().__init__()\n    self.rate = rate\n" + more +
        "  def forward(self, x):\n    if self.rate " + test + ":\n      mark()\nnorm = Norm(" +
        given + ").cuda()\n";
    const Ways ways = ways_to_mark(facts_of("    norm(x)\n", norm));
    ASSERT_EQ(ways.size(), 1U) << norm;
    EXPECT_EQ(ways.front().is_off_by_default, is_off) << norm;
  }
}

// `net(x, stage=config.stage)` of what `wrap` gives may call the forward of any module, with
// another stage than its default; a text picks one of several ways.
TEST(Reach, KeywordsOfCallsThatAreNotFollowedReplaceDefaultsOfForward) {
  const SourceFacts facts =
      facts_of("    net(x, stage=config.stage)\n    other.encode(x, stage=config.stage)\n",
               R"(
class Net(torch.nn.Module):
    def forward(self, x, stage=2, kind=2):
        if stage == 1:
            mark0()
        if stage == 2:
            mark1()
        if stage == 'b':
            mark2()
        if kind == 1:
            mark3()

    def encode(self, x, stage=2):
        if stage == 1:
            mark4()

net = wrap(Net().cuda())
)");
  const bool is_off[] = {false, false, true, true, true};
  for (std::size_t i = 0; i < std::size(is_off); ++i) {
    const auto& calls = facts.method_calls("mark" + std::to_string(i));
    ASSERT_EQ(calls.size(), 1U);
    const Ways& ways = ways_to(facts, *calls.front());
    ASSERT_EQ(ways.size(), 1U) << i;
    EXPECT_EQ(ways.front().is_off_by_default, is_off[i]) << i;
  }
}

// ---- what conditions let pass

const std::string kArguments = R"(import argparse, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument('--log', action='store_true')
parser.add_argument('--amp', type=int, default=1)
parser.add_argument('--kind', default='a')
args = parser.parse_args()
)";

// On how many passes of the step loop it runs, and what else the way there says.
std::string passes_of(const Ways& ways) {
  if (ways.empty()) return "never";
  const Way& way = ways.front();
  const bool is_open = way.shut == Shut::no;
  std::string text = is_open                       ? (way.is_conditional ? "most" : "all")
                     : way.shut == Shut::condition ? "some"
                                                   : "few";
  if (way.is_shut_for_good) text += ", for good";
  if (!is_open && !way.is_conditional) text += ", as an option";
  if (way.is_off_by_default) text += ", off";
  if (way.is_off_by_default && !way.is_off_when_launched) text += ", unless launched so";
  if (way.is_in_inner_loop) text += ", inner loop";
  if (way.gradients_off) text += ", no gradients";
  if (way.autocast != nullptr) text += way.is_autocast_off ? ", autocast off" : ", autocast";
  if (way.is_for_inference) text += ", for inference";
  return ways.size() == 1 ? text : text + " and other ways";
}

struct PassesCase {
  const char* passes;
  std::vector<std::string> code;
};

std::string mark(std::size_t number) { return "mark" + std::to_string(number); }

void expect_passes(const SourceFacts& facts, std::span<const PassesCase> cases) {
  std::size_t number = 0;
  for (const PassesCase& each : cases) {
    for (const std::string& code : each.code) {
      const auto& calls = facts.method_calls(mark(number++));
      ASSERT_EQ(calls.size(), 1U) << code;
      EXPECT_EQ(passes_of(ways_to(facts, *calls.front())), each.passes) << code;
    }
  }
}

// By how many passes they let through; a semicolon behind each.
const std::pair<const char*, const char*> kConditions[] = {
    {"most",
     R"(
step % 9 == 0; step % accum == 0; step > 3; not (a or b); not a; rank % 2 == 0 or step == 1;
x.size(0) > 0; x.shape[0] > 0; x.size()[0] > 0; num_boxes > 0; n_points > 0; counts > 0;
box_count > 0; box_num > 0; mask.any(); valid.any(); keep.any(); pos.any(); ind.any();
not mask.any(); x.numel(); x.numel() > 0; x.nelement() != 0; x.dim() > 0; mask.sum() > 0;
mask.sum().item() > 0; mask.count_nonzero() > 0; x.dim() == 4; x.ndim == 4; x.ndimension() == 2;
x.size(1) == 3; x.size(-1) == 3; x.shape[1] == 3; x.shape[-1] == 3; x.size()[1] == 3;
x.ndim == 4 and x.size(1) == 3; not key not in cache; time.time() < end;
time.perf_counter() <= end; time.monotonic() < end; not time.time() < end; 'aux' in outputs;
'aux' in batch; 'aux' in preds; 'aux' in inputs; 'aux' in extras; not 'aux' in outputs;
p.requires_grad; global_step > warmup; global_step >= warmup; n_iter > warmup; epoch_no > 3;
len(memory) > batch_size; use_gpu; use_cuda; world_size > 1; distributed; use_ddp;
a or (rank % 100 == 0 and b); a or (b and local_rank % 100 == 0);)"},
    {"few, for good",
     R"(
step % 10 == 0; step % 0 == 0; step % n == 0; not step % 100; 0 == step % 100; step % 100 is 0;
step == 0; step < 3; i == 3; it == 3; idx == 3; n_batch == 3; count == 3; step + 1 == 3;
batch_idx == 0; batch_i == 1; epoch == 0; iteration == 0; step % 100 == 0 or step == last;
(n > 0 and step % 100 == 0) or step == 1; a or (step % 100 == 0 and b);
global_step < warmup;)"},
    {"all",
     R"(
step % 100; step % 100 != 0; rank == 0; rank != 0; local_rank in [-1, 0]; rank <= 0; rank < 1;
rank > 0; rank == 3; get_rank() == 0; process_index == 0; is_main; is_master; master_process;
is_rank_zero; is_global_zero; is_rank_0; is_primary; is_world_process_zero; training; is_train;
is_training; train; phase == 'train'; mode == 'val'; split == 'train'; __name__ == '__main__';
True; 1; len(x) > 0; len(x) != 0; not len(x) == 0; len(x); len(x) > 1; len(x, y) == 0;
x.rank == 4; 'aux' in self.outputs; model; optimizer; not model; p.grad is not None;
p.grad is None; p.data is not None; torch.cuda.is_available(); self.x > 3; args.amp;
args.kind == 'a'; args.kind in ['a', 'c']; args.unknown; args.unknown == 'b'; args.train;
args.do_train; args.eval; args.task == 'a'; args.test_only; args.kind == 'train';
args.kind == 'test'; cfg.x; self.cfg.x; self.flag; hparams.x; hps.x; FLAGS.x; conf.x; optim.x;
opt.x; params.x; args; cfg.get('kind', 'none'); cfg.get('a').get('b'); cfg.get('kind', (1, 2));
cfg.get('kind', 2.5); cfg.get('kind', True); cfg.optimizer.get('kind'); self.cfg.get('kind');
self.kind.startswith('a'); self.kind.endswith('a'); self.kind.lower() == 'a';
self.kind.upper() == 'a'; self.kind.strip() == 'a'; self.kind.split('a'); hasattr(model, 'x');
isinstance(x, list); getattr(model, 'x'); type(x); len(x) == 3; torch.is_tensor(x);
torch.is_grad_enabled(); exists(mask); mask is None; mask is not None; mask == None;
str(type(x)) == 'a'; self.interval == 3;)"},
    {"some",
     R"(
counter == 3; phase != 'train'; a or b; a or f(step % 100 == 0); a or (b or step % 100 == 0);
x.size(1)[0] > 0; points > 0; other.any(); mask.any(0);
mask_nan.any(); mask_inf.any(); bad_mask.any(); invalid.any(); any(mask); x.numel() == 0;
not x.numel(); x.numel(1) == 0; x.numel() <= 0; mask.sum(); mask.mean() > 0; x.dim(1) == 4;
x.size(0) == 3; x.shape[0] == 3; x.stride[1] == 3; x.size(1, 2) == 3; x.ndim == n;
x.ndim == 4 or y > 3; 'key' not in cache; key not in cache(); key in cache; time.time() > end;
time.clock() < end; 'aux' in other; 'aux' not in outputs; aux in outputs; group.get('ignore');
x.item() > 0; size(memory) > batch_size; lr > warmup; x > 3; kwargs; cfg.get('kind', other);
cfg.get(kind); cfg['kind']; cfg.get(); cfg.get(*names); table.get('kind'); self.get('kind');
self.kind.startswith(other); self.kind.replace('a', 'b'); word.startswith('a'); callable(x);
apex.is_available(); dist.is_initialized(); self.exists(mask); mask == None == x;
int(version[0]) < 1; float(version[0]) < 1; self.calls_since == 3; self.since_draw == 3;
self.counter == 3;)"},
    {"few, for good, off", R"(
debug; verbose; profiling; dry_run; sanity_check; opt.debug > 0;)"},
    {"few", R"(a and b;)"},
    {"never", R"(False; 0;)"},
    {"few, as an option", R"(len(x) == 0; not len(x) > 0; not len(x);)"},
    {"some, for good", R"(key not in cache;)"},
    {"all, off",
     R"(
not torch.cuda.is_available(); args.log; not args.amp; args.log and args.amp; args.kind == 'b';
args.kind != 'a'; args.kind in ['b', 'c']; cfg.get('kind', None);)"},
    {"most, off", R"(x.device == 'cpu';)"},
    {"all, off, unless launched so", R"(torch.version.cuda == '11';)"},
};

TEST(Reach, KnowsWhatConditionsLetPass) {
  std::vector<PassesCase> cases;
  std::string body;
  std::size_t number = 0;
  for (const auto& [passes, conditions] : kConditions) {
    cases.push_back({passes, {}});
    for (const std::string_view each : split(conditions, ';')) {
      const std::string condition(trim(each));
      if (condition.empty()) continue;
      body += "    if " + condition + ":\n        " + mark(number++) + "()\n";
      cases.back().code.push_back(condition);
    }
  }
  expect_passes(facts_of(body, kArguments), cases);
}

// Statements of a step with a `mark()` among them.
const PassesCase kBlocks[] = {
    {"some, for good",
     {"if key not in cache:\n  mark()\n  continue", "if bad:\n  f()\n  mark()\n  return",
      "if bad:\n  mark()\n  break", "if bad:\n  mark()\n  raise E",
      "if bad:\n  mark()\n  sys.exit()", "if bad:\n  mark()\n  os._exit(0)",
      "if bad:\n  mark()\n  quit()", "if bad:\n  mark()\n  return",
      "if global_step >= last:\n  mark()\n  break", "if lr >= last:\n  mark()\n  break"}},
    {"some",
     {"y = bad or (worse and mark())",
      "f(bad and mark())",
      "if a:\n  f()\nelif b:\n  mark()\nelse:\n  raise E",
      "if a:\n  mark()\nelif b:\n  f()\nelse:\n  raise E",
      "if bad:\n  mark()\n  f()",
      "def g(y, log=None):\n  if log:\n    mark()\ng(x, log=f)",
      "def g(y):\n  if y:\n    mark()\n    return\n  g(y)\ng(x)",
      "should |= step % 100 == 0\nif should:\n  mark()",
      "should = step % 100\nif should:\n  mark()",
      "should = step % 100 == 0 and bad\nif should:\n  mark()",
      "if f(first):\n  first = False\n  mark()",
      "if rank == 3 and bad:\n  mark()",
      "if bad:\n  mark()\n  continue",
      "if ok:\n  mark()\nelse:\n  f()",
      "ignore = other['ignore']\nif ignore:\n  mark()",
      "ignore = group.pop('ignore')\nif ignore:\n  mark()",
      "kind = model.a\nif kind == 'a':\n  mark()",
      "a = cfg.a\nb = cfg.b\nc = cfg.c\nd = cfg.d\nif a == b == c == d:\n  mark()",
      "should = step == last and step % 100 == 0\nif should:\n  mark()",
      "should = bad or worse\nif should:\n  mark()",
      "y = mark() if bad else None",
      "y = f(mark()) if bad else None",
      "y = bad and mark()",
      "def g(writer):\n  if writer:\n    mark()\ng(writer)"}},
    {"most",
     {"y = f() if bad else (g() if worse else mark())",
      "y = bad or not mark()",
      "y = mark() if not bad else None",
      "if ok:\n  mark()\nelse:\n  f()\n  raise E",
      "if bad:\n  f()\n  raise E\nelse:\n  mark()",
      "if not key in cache:\n  mark()",
      "if not bad:\n  mark()\n  raise E",
      "if bad:\n  continue\nif worse:\n  continue\nmark()",
      "if step % 9:\n  continue\nmark()",
      "should = bad or step % 100 == 0\nif not should:\n  mark()",
      "if not (step % 100 == 0 or bad):\n  mark()",
      "if not (step % 100 == 0 and bad):\n  mark()",
      "if global_step >= last:\n  mark()\n  continue",
      "if not global_step >= last:\n  mark()\n  break",
      "if ok:\n  mark()\nelse:\n  raise E",
      "if bad:\n  raise E\nelse:\n  mark()",
      "if bad:\n  continue\nmark()",
      "if not ok:\n  continue\nmark()",
      "ignore = group.get('ignore')\nif ignore:\n  mark()",
      "ignore = param_group['ignore']\nif not ignore:\n  mark()",
      "y = None if bad else mark()",
      "y = bad or mark()",
      "def g(y):\n  if bad:\n    return\n  mark()\ng(x)"}},
    {"few, for good",
     {"y = step % 100 == 0 and mark()",
      "y = step % 100 or mark()",
      "f(mark() if step % 100 == 0 else None)",
      "def g(y):\n  mark()\nif step % 100 == 0:\n  g(x)",
      "should: bool = step % 100 == 0\nif should:\n  mark()",
      "if step % 100 == 0 and step % 7 == 0:\n  mark()",
      "if not not step % 100 == 0:\n  mark()",
      "if self.table is None and bad:\n  self.table = f()\n  mark()",
      "if self.first:\n  self.first = False\n  mark()\nelse:\n  f()",
      "if first:\n  first = False\n  mark()",
      "if self.first and bad:\n  self.first = False\n  mark()",
      "if step % 9 == 0 and step % 100 == 0:\n  mark()",
      "if (step + 1) % 100 == 0:\n  mark()",
      "if step is 3:\n  mark()",
      "if step - 1 < 3:\n  mark()",
      "if n_iter < 3:\n  mark()",
      "if step == 3 and bad:\n  mark()",
      "if step % 100:\n  continue\nmark()",
      "if step % 100 != 0:\n  f()\n  continue\nmark()",
      "try:\n  f()\nexcept E:\n  mark()",
      "if self.graph is None:\n  self.graph = f()\n  mark()",
      "if self.first:\n  self.first = False\n  mark()",
      "if not self.ready:\n  self.ready = True\n  mark()",
      "if not hasattr(self, 'mask'):\n  self.mask = 3\n  mark()",
      "if not hasattr(self, 'mask'):\n  self.register_buffer('mask', 3)\n  mark()",
      "should = step % 100 == 0 or step == last\nif should:\n  mark()",
      "should = step % 100 == 0\nif should:\n  mark()",
      "should = step % 100 == 0 or step % 50 == 1\nif should:\n  mark()",
      "y = mark() if step % 100 == 0 else None",
      "if bad:\n  if step % 100 == 0:\n    mark()",
      "if self.table is not None:\n  continue\nself.table = f()\nmark()",
      "if self.table is not None and n <= 3:\n  continue\nself.table = f()\nmark()",
      "with ignored():\n  return f(x)\nmark()",
      "try:\n  return f(x)\nexcept E:\n  f()\nmark()",
      "def g(y):\n  if step % 100:\n    return\n  mark()\ng(x)"}},
    {"all",
     {"y = (f() if mark() else g())",
      "y = mark() or bad",
      "y = not mark()",
      "y = step % 100 and mark()",
      "if self.graph is None:\n  f()\n  self.graph = g()\nelse:\n  mark()",
      "if bad:\n  raise E\nmark()",
      "if bad:\n  return\nmark()",
      "if step < 3:\n  continue\nmark()",
      "if step == 0:\n  continue\nmark()",
      "if rank != 0:\n  continue\nmark()",
      "if debug:\n  continue\nmark()",
      "if args.log:\n  continue\nmark()",
      "if not self.training:\n  continue\nmark()",
      "if step == 3:\n  break\nmark()",
      "try:\n  f()\nexcept E:\n  f()\n  continue\nmark()",
      "try:\n  f()\nexcept E:\n  raise\nmark()",
      "try:\n  mark()\nfinally:\n  f()",
      "try:\n  f()\nexcept E:\n  pass\nfinally:\n  mark()",
      "try:\n  return f(x)\nfinally:\n  mark()",
      "def g(y, on=False):\n  if on:\n    mark()\ng(x, on=True)",
      "def g(y, on=False):\n  if on:\n    mark()\ng(x, True)",
      "def g(y, on=True):\n  if not on:\n    return\n  mark()\ng(x)",
      "def g(y, n=3):\n  if n > 2:\n    mark()\ng(x)",
      "def g(y, kind='a'):\n  if kind in ('b', 'c'):\n    mark()\ng(x, 'c')",
      "def g(y, mask=None):\n  if mask is not None:\n    mark()\ng(x, torch.ones(3))",
      "def g(y):\n  def h():\n    mark()\n  h()\ng(x)",
      "def g(y):\n  mark()\nif bad:\n  g(x)\ng(x)",
      "should = step % 100 != 0\nif should:\n  mark()",
      "should = step % 100 == 0\nif not should:\n  mark()",
      "with make() as ctx:\n  with ctx:\n    mark()",
      "@other\ndef g(y):\n  mark()\ng(x)",
      "if not self.first:\n  self.first = False\n  mark()",
      "if rank == n:\n  mark()",
      "if dist.get_rank() == 0:\n  mark()",
      "if args.local_rank in (-1, 0):\n  mark()",
      "if rank != n:\n  mark()",
      "if not debug:\n  mark()",
      "if not step < 3:\n  mark()",
      "if mode is 'train':\n  mark()",
      "if phase == 'val':\n  mark()",
      "if __name__ != '__main__':\n  mark()",
      "if bad:\n  continue\nelse:\n  f()\nmark()",
      "if bad:\n  break\nmark()",
      "if bad:\n  f()\nmark()",
      "try:\n  mark()\nexcept E:\n  f()",
      "try:\n  f()\nfinally:\n  mark()",
      "try:\n  f()\nexcept E:\n  f()\nelse:\n  mark()",
      "if self.graph is None:\n  self.other = f()\n  mark()",
      "if self.graph is not None:\n  self.graph = f()\n  mark()",
      "if self.first:\n  self.first = True\n  mark()",
      "if self.first:\n  mark()",
      "if self.first:\n  self.first = 0\n  mark()",
      "if not hasattr(self, 'mask'):\n  self.register_buffer('other', 3)\n  mark()",
      "if hasattr(self, 'mask'):\n  self.mask = 3\n  mark()",
      "if not hasattr(self, 'mask'):\n  self.other = 3\n  mark()",
      "if not hasattr(self):\n  self.mask = 3\n  mark()",
      "ignore = group['ignore']\nif ignore is not None:\n  mark()",
      "with torch.no_grad():\n  with torch.enable_grad():\n    mark()",
      "with torch.set_grad_enabled(True):\n  mark()",
      "with model.no_sync():\n  mark()",
      "with other():\n  mark()",
      "for y in x:\n  f()\nelse:\n  mark()",
      "kind = cfg.kind\nif kind == 'a':\n  mark()",
      "kind = cfg.get('kind', 'a')\nif kind == 'a':\n  mark()",
      "kind = cfg.a\nif kind == cfg.b:\n  mark()",
      "a = cfg.a\nb = cfg.b\nc = cfg.c\nif a == b == c:\n  mark()",
      "kind = torch.__version__\nif kind > '2':\n  mark()",
      "should = step == last or step % 100 == 0\nif not should:\n  mark()",
      "y = mark() and bad",
      "y = mark() if self.training else None",
      "if args.log:\n  f()\nelse:\n  mark()",
      "if best is None:\n  best = f()\n  mark()",
      "if self.table is not None:\n  continue\nself.other = f()\nmark()",
      "if self.table is None:\n  continue\nself.table = f()\nmark()",
      "if table is not None:\n  continue\ntable = f()\nmark()",
      "with ignored():\n  f(x)\nmark()",
      "if bad:\n  if worse:\n    continue\nmark()",
      "def g(y):\n  if y is not None:\n    mark()\ng(x)",
      "def g(y=None):\n  if y is None:\n    mark()\ng()",
      "def g(y=False):\n  if y:\n    mark()\ng(True)",
      "def g(y=True):\n  if y:\n    mark()\ng(**options)",
      "def g(y=False):\n  if not y:\n    mark()\ng(**options)",
      "def g(kind):\n  if kind == 'a':\n    mark()\ng(args.kind)",
      "def g(kind):\n  if kind == 'a':\n    mark()\ng(self.kind)",
      "def g(kind):\n  if kind > 'a':\n    mark()\ng(self.kind)",
      "def g(flag):\n  if flag:\n    mark()\ng(cfg.flag)",
      "def g(flag):\n  if flag is not None:\n    mark()\ng(cfg.flag)",
      "def h(run):\n  run()\ndef g():\n  mark()\nh(g)",
      "f = lambda: mark()\nf()",
      "if self.training:\n  mark()",
      "if targets is not None:\n  mark()",
      "if labels is None:\n  mark()",
      "if args.log is not None:\n  mark()",
      "if args.do_eval:\n  mark()",
      "if args.run_test:\n  mark()",
      "if args.eval_only:\n  mark()",
      "if args.train_file is not None:\n  mark()",
      "if args.finetune:\n  mark()"}},
    {"most, inner loop",
     {"for name, y in x.items():\n  if not name.startswith('a'):\n    mark()",
      "for name in names:\n  if name != 'a':\n    mark()",
      "for name in names:\n  if 'a' in name:\n    mark()",
      "for name in names:\n  if 'a' not in name:\n    mark()",
      "for name in names:\n  if name.startswith('a'):\n    mark()",
      "for name in names:\n  if name.endswith('a') or 'b' in name:\n    mark()",
      "for name in names:\n  if not name != 'a':\n    mark()",
      "for y in range(3):\n  if y % 2 == 0:\n    mark()"}},
    {"some, inner loop",
     {"for name, y in x.items():\n  if 'a' in name and bad:\n    mark()",
      "for y in x:\n  if y in other:\n    mark()", "for i in range(3):\n  if i > 0:\n    mark()",
      "while n < 3:\n  if n == 2:\n    mark()\n  n += 1",
      "for name in names:\n  if name == 'a':\n    mark()",
      "for name in names:\n  if name.endswith('a') or x > 3:\n    mark()",
      "for name in names:\n  if name.find('a'):\n    mark()",
      "for name in names:\n  if other.startswith('a'):\n    mark()",
      "for name in names:\n  if name in 'a':\n    mark()",
      "for name in names:\n  if name != other:\n    mark()",
      "best = None\nfor y in x:\n  if best is None and bad:\n    best = f()\n    mark()",
      "for y in range(3):\n  if y == 0:\n    mark()"}},
    {"all, inner loop",
     {"for y in x:\n  if y is None:\n    continue\n  mark()",
      "for y in x:\n  if y.grad is not None:\n    mark()",
      "for i in range(3):\n  if i % 2:\n    mark()", "for y in x:\n  for z in y:\n    mark()",
      "while n < 3:\n  mark()\n  n += 1", "for ctx in managers:\n  with ctx:\n    mark()",
      "for p in model.parameters():\n  if p.grad is None:\n    continue\n  mark()",
      "while other:\n  mark()", "for y in x:\n  mark()\nelse:\n  f()",
      "for y in x:\n  best = None\n  if best is None:\n    best = f()\n    mark()",
      "best = None\nfor y in x:\n  if best is None:\n    best = None\n    mark()",
      "best = None\nfor y in x:\n  if best is None:\n    best += f()\n    mark()",
      "for y in x:\n  if bad:\n    return\n  mark()", "for y in x:\n  if bad:\n    break\n  mark()",
      "while True:\n  mark()\n  break"}},
    {"all, no gradients",
     {"def g(y):\n  mark()\nwith torch.no_grad():\n  g(x)", "@nograd\ndef g(y):\n  mark()\ng(x)",
      "@torch.no_grad\ndef g(y):\n  mark()\ng(x)", "with torch.no_grad():\n  mark()",
      "with torch.inference_mode():\n  mark()", "with torch.set_grad_enabled(False):\n  mark()",
      "ctx = torch.no_grad()\nwith ctx:\n  mark()",
      "with nullcontext() if cpu else torch.no_grad():\n  mark()",
      "with torch.no_grad() if evaluating else other():\n  mark()",
      "@torch.no_grad()\ndef g(y):\n  mark()\ng(x)",
      "@torch.inference_mode()\ndef g(y):\n  mark()\ng(x)", "@no_grad\ndef g(y):\n  mark()\ng(x)",
      "def g(y):\n  with torch.no_grad():\n    mark()\n  return y\ng(x)"}},
    {"all, autocast",
     {"ctx = torch.autocast('cuda')\nwith ctx:\n  mark()",
      "with torch.cuda.amp.autocast():\n  mark()", "with torch.cpu.amp.autocast():\n  mark()",
      "with self.autocast():\n  mark()", "with accelerator.autocast():\n  mark()",
      "with torch.autocast('cuda'):\n  mark()",
      "with torch.autocast('cuda', enabled=args.log):\n  mark()"}},
    {"few", {"y = bad and worse and mark()", "if bad:\n  if worse:\n    mark()"}},
    {"few, for good, off",
     {"if opt.debug >= 1:\n  mark()", "if not verbose:\n  f()\nelse:\n  mark()"}},
    {"few, for good, inner loop",
     {"for i in range(3):\n  if i == 2:\n    mark()",
      "best = None\nfor y in x:\n  if best is None:\n    best = f()\n    mark()",
      "best = None\nfor y in x:\n  if best is None:\n    best = f()\n    mark()\nif bad:\n  return "
      "None",
      "while bad:\n  if self.best is None:\n    self.best = f()\n    mark()"}},
    {"all, off, inner loop",
     {"best = 3\nfor y in x:\n  if best is None:\n    best = f()\n    mark()"}},
    {"never",
     {"def g(y, on=False):\n  if on:\n    mark()\ng(x)",
      "def g(y, on=True):\n  if on:\n    return\n  mark()\ng(x)",
      "def g(y, n=3):\n  if n > 3:\n    mark()\ng(x)",
      "def g(y, n=3):\n  if n == 3:\n    mark()\ng(x, 4)",
      "def g(y, kind='a'):\n  if kind == 'b':\n    mark()\ng(x)",
      "def g(y, log=None):\n  if log is not None:\n    mark()\ng(x)",
      "def g(y, mask=None):\n  if mask is None:\n    mark()\ng(x, torch.ones(3))",
      "def g(y):\n  if y is None:\n    mark()\ng(x)"}},
    {"all, off",
     {"if not args.log:\n  continue\nmark()", "def g(y=None):\n  if y:\n    mark()\ng(y=args.log)",
      "def g(kind):\n  if kind != 'a':\n    mark()\ng(other.kind)",
      "if args.log == True:\n  mark()"}},
    {"few, for good, as an option", {"def g(y=False):\n  if y:\n    mark()\ng(**options)"}},
    {"all, for inference",
     {"if self.training:\n  continue\nmark()", "if not self.training:\n  mark()",
      "if model.training:\n  f()\nelse:\n  mark()"}},
    {"some, for inference", {"if inference:\n  mark()"}},
    {"all, autocast off",
     {"with torch.autocast('cuda', enabled=args.log):\n  if args.log:\n    f()\n  else:\n    "
      "mark()"}},
};

// Each in a function of its own, so that their names do not meet.
std::string function_around(std::string code, std::size_t number) {
  code.replace(code.find("mark()"), 4, mark(number));
  const std::string name = "train" + std::to_string(number);
  std::string text = "def " + name +
                     "(self, model, optimizer, cfg):\n"
                     "    for step, x in enumerate(torch.utils.data.DataLoader(data)):\n"
                     "        model(x.cuda()).sum().backward()\n"
                     "        optimizer.step()\n        ";
  for (const char c : code) text += c == '\n' ? "\n        " : std::string(1, c);
  return text + "\n" + name + "(object, model, optimizer, cfg)\n";
}

TEST(Reach, KnowsWhatBlocksLetPass) {
  std::string functions = kArguments;
  std::size_t number = 0;
  for (const PassesCase& each : kBlocks) {
    for (const std::string& code : each.code) functions += function_around(code, number++);
  }
  expect_passes(facts_of("    pass\n", functions), kBlocks);
}

// ---- what a run is started for

struct RunCase {
  const char* passes;
  const char* option;     // how each word is declared; the word stands for @
  const char* condition;  // on each of them
  const char* words;
};

// A condition on what the run is for says nothing against the code behind it, though it is off by
// default.
const RunCase kRuns[] = {
    {"all", "'--@', action='store_true'", "args.@",
     "train training eval evaluate test validate eval_test eval_dev test_eval train_eval "
     "test_model eval_model train_only test_only eval_model_only do_train run_test do_eval "
     "do_evaluate run_evaluation do_test do_testing do_predict do_prediction do_infer "
     "run_inference do_valid do_validate do_validation do_finetune do_pretrain do_generate "
     "do_sample Eval"},
    {"all, off", "'--@', action='store_true'", "args.@",
     "predict valid finetune pretrain generate sample do_log run_log log_only tests "
     "retrain do_tests only"},
    {"all, off, for inference", "'--@', action='store_true'", "args.@", "infer inference"},
    {"all", "'--@', action='store_true'", "args.@ == True", "training_only evaluate_only"},
    {"all", "'--@', action='store_true'", "args.@ is True", "validate_only eval_test_only"},
    {"all, off", "'--@', action='store_true'", "args.@ == True", "do_draw draw_only"},
    {"all", "'--x_@', default='fit'", "args.x_@ == '@'",
     "train_query training test eval val infer predict sample evaluate validate inference "
     "generate"},
    {"all, off", "'--x_@', default='fit'", "args.x_@ == '@'", "tests retrain other finetune"},
    {"all, off", "'--x_@', default='fit'", "not args.x_@ == 'fit'", "a"},
    {"all, off", "'--x_@', default='fit'", "args.x_@ != 'fit'", "b"},
    {"all, off", "'--x_@', default='fit'", "args.x_@ is 'test'", "c"},
    {"all, off", "'--x_@', default='fit'", "args.x_@ in ['test']", "d"},
    {"all", "'--@', default='a'", "args.@ == 'b'", "task task_name task_type"},
    {"all, off", "'--@', default='a'", "args.@ == 'b'", "tasks"},
    {"all", "'--@'", "args.@ is not None", "train_file train_data"},
    {"all", "'--@'", "args.@ != None", "train_dir train_path"},
    {"all, off", "'--@'", "args.@ is not None", "train_files data_file"},
};

std::string with_word(std::string text, std::string_view word) {
  for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) {
    text.replace(at, 1, word);
  }
  return text;
}

TEST(Reach, KnowsWhatARunIsStartedFor) {
  std::string options, body;
  std::vector<PassesCase> cases;
  std::size_t number = 0;
  for (const auto& [passes, option, condition, words] : kRuns) {
    cases.push_back({passes, {}});
    for (const std::string_view word : split(words, ' ')) {
      options += "parser.add_argument(" + with_word(option, word) + ")\n";
      cases.back().code.push_back(with_word(condition, word));
      body += "    if " + cases.back().code.back() + ":\n        " + mark(number++) + "()\n";
    }
  }
  const std::string parser = "import argparse\nparser = argparse.ArgumentParser()\n";
  expect_passes(facts_of(body, parser + options + "args = parser.parse_args()\n"), cases);
}

// ---- what is sure to run

struct SureCase {
  const char* body;  // of a step
  const char* more;  // above the loop
  bool is_sure;
};

TEST(Reach, KnowsWhatIsSureToRun) {
  const std::string net =
      "class Net(torch.nn.Module):\n  def __init__(self, n):\n    super().__init__()\n"
      "  def forward(self, x):\n    mark()\n";
  const SureCase cases[] = {
      {"    mark()\n", "", true},
      {"    a = input()\n    mark()\n", "", false},
      {"    mark()\n", "a = input()\n", true},
      {"    print 'x'\n    mark()\n", "", false},
      {"    if args.kind == 'a':\n        mark()\n", "", true},
      {"    if args.other == 'b':\n        mark()\n", "", false},
      {"    if args.other:\n        mark()\n", "", false},
      {"    if not args.other:\n        mark()\n", "", false},
      {"    if args.other is None:\n        mark()\n", "", true},
      {"    if len(args.other) > 3:\n        mark()\n", "", true},
      {"    if args.other > 3:\n        mark()\n", "", true},
      {"    if isinstance(x, list):\n        mark()\n", "", false},
      {"    f()\n", "def f():\n  mark()\n", true},
      {"    if args.other == 'b':\n        f()\n", "def f():\n  mark()\n", false},
      {"    if args.other == 'b':\n        f()\n    f()\n", "def f():\n  mark()\n", true},
      {"    Net(8)(x)\n", net.c_str(), true},
      {"    if args.other == 'b':\n        Net(8)(x)\n", net.c_str(), false},
      {"    if args.other == 'bee':\n        mark()\n", "use = 'bee'\n", true},
      {"    if args.other == 'bee':\n        mark()\n", "", false},
      {"    if args.other == 'bee':\n        mark()\n", "def f(use='bee'):\n  pass\n", true},
      {"    if args.other == 'bee':\n        mark()\n", "parser.add_argument('--x', help='bee')\n",
       false},
      {"    if args.other == 'bee':\n        mark()\n", "'bee'\n", false},
      {"    if args.other == 'bee':\n        pass\n    elif args.other == 'cat':\n        mark()\n",
       "use = 'cat'\n", true},
      {"    if args.other == 'bee':\n        pass\n    elif args.other == 'cat':\n        mark()\n",
       "", false},
      {"    if args.other.lower() == 'x':\n        mark()\n", "", false},
      {"    if cuda == 'x':\n        mark()\n", "", true},
      {"    if args.task == 'x':\n        mark()\n", "", true},
  };
  for (const auto& [body, more, is_sure] : cases) {
    const SourceFacts facts = facts_of(body, kArguments + more);
    const auto& calls = facts.method_calls("mark");
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(is_sure_to_run(facts, *calls.front()->statement), is_sure) << more << body;
  }
}

}  // namespace
}  // namespace rooftile::source
