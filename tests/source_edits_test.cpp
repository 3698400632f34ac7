// Edits of calls and lines, by the text before and after.
#include "rooftile/workload/source_edits.h"

#include <gtest/gtest.h>

#include <string>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

constexpr const char* kHead = "import torch\n";

// The script with the edit that is made of its call of f(); "none" where there is none.
template <class Make>
std::string edited(const std::string& text, const Make& make) {
  const auto facts = read_python_text("t.py", kHead + text);
  const auto edit = make(*facts->method_calls("f").front());
  if (!edit) return "none";
  return apply_edits(*facts->files.front(), {*edit})->substr(std::string(kHead).size());
}

std::string with_argument(const std::string& text) {
  return edited(text, [](const Call& call) { return add_argument(call, "new", "1"); });
}

TEST(SourceEdits, AddAnArgumentAsTheOthersAreWritten) {
  EXPECT_EQ(with_argument("f()\n"), "f(new=1)\n");
  EXPECT_EQ(with_argument("f(a)\n"), "f(a, new=1)\n");
  EXPECT_EQ(with_argument("f(a, b=2,)\n"), "f(a, b=2, new=1,)\n");
  EXPECT_EQ(with_argument("f((a))\n"), "f((a), new=1)\n");
  EXPECT_EQ(with_argument("f(\n    a,\n    b,\n)\n"), "f(\n    a,\n    b,\n    new=1,\n)\n");
  EXPECT_EQ(with_argument("f(\n    a,\n    b  # why\n)\n"),
            "f(\n    a,\n    b,  # why\n    new=1\n)\n");
  EXPECT_EQ(with_argument("f(\n    a,  # first\n)\n"), "f(\n    a,  # first\n    new=1,\n)\n");
  EXPECT_EQ(with_argument("f(*a)\n"), "none");
  EXPECT_EQ(with_argument("f(**a)\n"), "none");
  EXPECT_EQ(with_argument("f(new=2)\n"), "none");
  EXPECT_EQ(with_argument("f(x for x in a)\n"), "none") << "it has no parentheses of its own";
  EXPECT_EQ(with_argument("f((x for x in a))\n"), "f((x for x in a), new=1)\n");
}

std::string without_argument(const std::string& text) {
  return edited(text, [](const Call& call) { return remove_argument(call, *call.argument("b")); });
}

TEST(SourceEdits, RemoveAnArgumentWithItsComma) {
  EXPECT_EQ(without_argument("f(b=1)\n"), "f()\n");
  EXPECT_EQ(without_argument("f(a, b=1)\n"), "f(a)\n");
  EXPECT_EQ(without_argument("f(b=1, a=2)\n"), "f(a=2)\n");
}

// The script with a line around its call of f(), and without that statement.
std::string with_lines(const std::string& text) {
  const auto facts = read_python_text("t.py", kHead + text);
  const Statement& statement = *facts->method_calls("f").front()->statement;
  const auto before = insert_line_before(statement, "x"), after = insert_line_after(statement, "y");
  if (!before || !after) return "none";
  return apply_edits(*facts->files.front(), {*before, *after})->substr(std::string(kHead).size());
}

TEST(SourceEdits, LinesHaveTheIndentationOfTheStatement) {
  EXPECT_EQ(with_lines("f()\n"), "x\nf()\ny\n");
  EXPECT_EQ(with_lines("if a:\n    f()\n    b()\n"), "if a:\n    x\n    f()\n    y\n    b()\n");
  EXPECT_EQ(with_lines("if a: f()\n"), "none");
  EXPECT_EQ(with_lines("f(); b()\n"), "none");
}

std::string without_statement(const std::string& text) {
  return edited(text, [](const Call& call) { return remove_statement(*call.statement); });
}

TEST(SourceEdits, TheOnlyStatementOfABlockIsReplaced) {
  EXPECT_EQ(without_statement("f()\na()\n"), "a()\n");
  EXPECT_EQ(without_statement("if a:\n    f()\nb()\n"), "if a:\n    pass\nb()\n");
  EXPECT_EQ(without_statement("if a:\n    f()\n    b()\n"), "if a:\n    b()\n");
  EXPECT_EQ(without_statement("a(); f()\n"), "none");
}

TEST(SourceEdits, OverlapsAreAnError) {
  const auto facts = read_python_text("t.py", "import torch\nf(a)\n");
  const File& file = *facts->files.front();
  EXPECT_FALSE(apply_edits(file, {replace(file, {0, 6}, "x"), replace(file, {5, 8}, "y")}));
  EXPECT_EQ(apply_edits(file, {replace(file, {13, 14}, "g"), replace(file, {0, 6}, "i")}).value(),
            "i torch\ng(a)\n");
}

}  // namespace
}  // namespace rooftile::source
