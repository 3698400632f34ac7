// What workload/source_syntax.h promises of statements and expressions, in the scripts of all specs
// and of the fuzz corpus, whole and broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec_cases.h"

namespace rooftile {
namespace {

using source::Argument;
using source::Call;
using source::ClassDef;
using source::Expr;
using source::ExprKind;
using source::File;
using source::FunctionDef;
using source::Loop;
using source::Statement;
using source::StatementKind;

constexpr std::size_t kAny = SIZE_MAX;

// The least and the most children of an expression.
std::pair<std::size_t, std::size_t> children_of(ExprKind kind) {
  switch (kind) {
    case ExprKind::name:
    case ExprKind::text:
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
    case ExprKind::none:
    case ExprKind::ellipsis:
    case ExprKind::other:
      return {0, 0};
    case ExprKind::attribute:
    case ExprKind::lambda:
      return {1, 1};
    case ExprKind::call:
    case ExprKind::unary:
    case ExprKind::logical:
    case ExprKind::starred:
    case ExprKind::await:
      return {1, kAny};
    case ExprKind::subscript:
    case ExprKind::binary:
    case ExprKind::comparison:
    case ExprKind::comprehension:
    case ExprKind::for_clause:
    case ExprKind::walrus:
      return {2, kAny};
    case ExprKind::conditional:
      return {3, kAny};
    case ExprKind::slice:
    case ExprKind::format:
    case ExprKind::list:
    case ExprKind::tuple:
    case ExprKind::set:
    case ExprKind::dict:
    case ExprKind::yield:
      return {0, kAny};
  }
  return {0, kAny};
}

bool has_value(StatementKind kind) {
  switch (kind) {
    case StatementKind::expression:
    case StatementKind::if_:
    case StatementKind::for_:
    case StatementKind::while_:
    case StatementKind::match_:
    case StatementKind::assert_:
    case StatementKind::delete_:
    case StatementKind::print:
      return true;
    default:
      return false;
  }
}

// All statements, expressions and calls of a file.
class Walk {
 public:
  explicit Walk(const File& file) : file_(file) {}

  void run() {
    for (const Statement* statement : file_.statements) check(*statement);
    for (const Call* call : file_.calls) check(*call);
    for (const FunctionDef* def : file_.functions) {
      EXPECT_EQ(def->statement->function_def, def) << def->name;
      check(*def);
    }
    for (const ClassDef* def : file_.classes) check(*def);
    for (const Loop* loop : file_.loops) {
      EXPECT_EQ(loop->statement->loop, loop);
      EXPECT_EQ(loop->file, &file_);
    }
  }

 private:
  std::string_view text(source::ByteRange range) const { return file_.slice(range); }

  void check(const Statement& statement) {
    const std::string_view here = text(statement.range);
    const StatementKind kind = statement.kind;
    EXPECT_EQ(statement.file, &file_) << here;
    const bool is_in_block =
        statement.index < statement.block.size() && statement.block[statement.index] == &statement;
    EXPECT_TRUE(is_in_block) << here;
    const bool is_loop = kind == StatementKind::for_ || kind == StatementKind::while_;
    EXPECT_EQ(statement.loop != nullptr, is_loop) << here;
    EXPECT_EQ(statement.function_def != nullptr, kind == StatementKind::function) << here;
    EXPECT_EQ(statement.class_def != nullptr, kind == StatementKind::class_) << here;
    const bool has_target = kind == StatementKind::assignment || kind == StatementKind::for_;
    EXPECT_EQ(statement.target != nullptr, has_target) << here;
    if (has_value(kind)) EXPECT_NE(statement.value, nullptr) << here;
    if (statement.value != nullptr) check(statement.value, nullptr);
    if (statement.target != nullptr) check(statement.target, nullptr);
    for (const source::WithItem& item : statement.items) {
      ASSERT_NE(item.context, nullptr) << here;
      check(item.context, item.context->parent);  // a tuple where several stand in parentheses
      if (item.target != nullptr) check(item.target, nullptr);
    }
  }

  void check(const Expr* expr, const Expr* parent) {
    ASSERT_NE(expr, nullptr);
    const std::string_view here = text(expr->range);
    const std::size_t count = expr->children().size();
    const auto [least, most] = children_of(expr->kind);
    EXPECT_GE(count, least) << here;
    EXPECT_LE(count, most) << here;
    if (expr->kind == ExprKind::dict) EXPECT_EQ(count % 2, 0U) << here;
    if (expr->kind == ExprKind::comprehension) {
      EXPECT_GT(std::ranges::count(expr->children(), ExprKind::for_clause, &Expr::kind), 0) << here;
    }
    EXPECT_EQ(expr->parent, parent) << here;
    EXPECT_NE(expr->type, nullptr) << here;
    ASSERT_NE(expr->statement, nullptr) << here;
    EXPECT_EQ(expr->statement->file, &file_) << here;
    EXPECT_EQ(expr->call() != nullptr, expr->kind == ExprKind::call) << here;
    if (expr->call() != nullptr) EXPECT_EQ(expr->call()->expr, expr) << here;
    EXPECT_EQ(expr->function() != nullptr, expr->kind == ExprKind::lambda) << here;
    if (expr->function() != nullptr) check(*expr->function());
    for (const Expr* child : expr->children()) check(child, expr);
  }

  void check(const Call& call) {
    ASSERT_NE(call.expr, nullptr);
    const std::string_view here = text(call.expr->range);
    EXPECT_EQ(call.expr->call(), &call) << here;
    ASSERT_NE(call.statement, nullptr) << here;
    EXPECT_EQ(call.statement, call.expr->statement) << here;
    EXPECT_EQ(call.file, &file_) << here;
    ASSERT_FALSE(call.expr->children().empty()) << here;
    const Expr& callee = *call.expr->children()[0];
    const bool is_method = callee.kind == ExprKind::attribute;
    EXPECT_EQ(call.receiver, is_method ? callee.children()[0] : nullptr) << here;
    for (const Argument& argument : call.arguments) EXPECT_NE(argument.value, nullptr) << here;
  }

  void check(const FunctionDef& def) {
    ASSERT_NE(def.statement, nullptr) << def.name;
    EXPECT_EQ(def.file, &file_) << def.name;
    EXPECT_NE(def.returns, nullptr) << def.name;
    for (const Expr* decorator : def.decorators) check(decorator, nullptr);
    for (const source::Parameter& parameter : def.parameters) {
      EXPECT_NE(parameter.type, nullptr) << def.name;
      if (parameter.default_value != nullptr) check(parameter.default_value, nullptr);
      if (parameter.annotation != nullptr) check(parameter.annotation, nullptr);
    }
  }

  void check(const ClassDef& def) {
    ASSERT_NE(def.statement, nullptr) << def.name;
    EXPECT_EQ(def.statement->class_def, &def) << def.name;
    EXPECT_EQ(def.file, &file_) << def.name;
    for (const Expr* decorator : def.decorators) check(decorator, nullptr);
    for (const Expr* base : def.bases) check(base, nullptr);
    for (const source::Layer& layer : def.layers) {
      EXPECT_NE(layer.made_by, nullptr) << def.name;
      EXPECT_NE(layer.statement, nullptr) << def.name;
    }
  }

  const File& file_;
};

void check_scripts(const std::vector<std::pair<std::string, std::string>>& path_and_bytes) {
  const Result<SourceFacts> facts = read_python_texts(path_and_bytes);
  ASSERT_TRUE(facts.has_value()) << to_string(facts.error());
  for (const auto& file : facts->files) Walk(*file).run();
}

// Without one byte in so many.
std::string broken(const std::string& text, std::size_t each) {
  std::string left;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((i + text.size()) % each != 0) left += text[i];
  }
  return left;
}

class SyntaxOfSpec : public testing::TestWithParam<fs::path> {};

TEST_P(SyntaxOfSpec, HoldsWhatIsPromised) {
  for (const SpecCase& one : cases_of(GetParam())) {
    if (one.scripts.empty()) continue;
    SCOPED_TRACE(one.heading);
    std::vector<std::pair<std::string, std::string>> whole, partial;
    for (const ScriptFile& script : one.scripts) {
      whole.emplace_back(script.name, script.text);
      partial.emplace_back(script.name, broken(script.text, 61));
    }
    check_scripts(whole);
    check_scripts(partial);
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, SyntaxOfSpec, testing::ValuesIn(spec_files()),
                         [](const auto& test) {
                           std::string name = test_name(rule_of(test.param));
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TEST(SourceSyntax, HoldsWhatIsPromisedInTheFuzzCorpus) {
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/fuzz/corpus/python")) {
    const std::string text = read_text(entry.path());
    SCOPED_TRACE(entry.path());
    check_scripts({{"train.py", text}});
    for (const std::size_t each : {7U, 23U, 61U}) {
      check_scripts({{"train.py", broken(text, each)}});
    }
  }
}

// Everything that has children of its own.
constexpr std::string_view kOfAllKinds = R"py(
@decorated(a.b)
class Net(nn.Module, metaclass=Meta):
    x: int = field(default=3)
    def f(self, a, *b, c: int = g(1), **d) -> List[int]: return self.layer(a)[0, 1:2, ..., ::3]
async def main():
    async with make() as a, other: await a
    with (one(), two()): pass
    for i, *rest in 1, f(x): yield
    else: pass
    while (n := h()) < 4 <= 5 not in z is not w: break
if not a and b or -c ** ~d: e = f if g else h
elif q: del a, b[0]
else: assert a, "m"
items = [i for j in x if j for i in j if i], {k: v for k, v in z.items()}, {s async for s in t}
f(*a, **b, c=lambda x, y=z(): x + y)(i for i in j)
table = {**a, "b": 1, **c, d: {1, 2}}
first = second += f"a{b!r:>{w}}c" "d"
x[0]: int
match x, y:
    case [a, *_] if b: c()
try: pass
except* E as e: raise E from f
finally: raise
print >>out, "x", 3
print "a", b
)py";

TEST(SourceSyntax, HoldsWhatIsPromisedWhereSomethingIsMissing) {
  const std::string text(kOfAllKinds);
  check_scripts({{"train.py", text}});
  for (std::size_t at = 0; at < text.size(); at += 5) {
    SCOPED_TRACE(at);
    const std::string start = text.substr(0, at);
    check_scripts({{"train.py", start}});
    check_scripts({{"train.py", start + text.substr(std::min(at + 3 + at % 5, text.size()))}});
  }
}

}  // namespace
}  // namespace rooftile
