#include "rooftile/rules/source_finding.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/rules/rule.h"

namespace rooftile {
namespace {

source::SourceFacts facts_of(std::string_view path, const std::string& text) {
  Result<source::SourceFacts> facts = read_python_text(path, text);
  EXPECT_TRUE(facts) << to_string(facts.error());
  return facts ? *std::move(facts) : source::SourceFacts();
}

std::vector<Finding> waits_in(std::string_view path, const std::string& text) {
  return find_rule("launch/sync-every-step")->in_scripts(facts_of(path, text), nullptr);
}

TEST(SourceFinding, NamesThePlaceAndTheStepsOfAScript) {
  const auto findings = waits_in("train.py", R"(import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("größer",  loss.item())
)");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].location.line, 9);
  EXPECT_EQ(findings[0].step, "train.py:4");
  EXPECT_EQ(findings[0].spot.line, 9);
  EXPECT_EQ(findings[0].spot.column, 22);  // in characters
  EXPECT_EQ(findings[0].spot.code, "print(\"größer\", loss.item())");
}

TEST(SourceFinding, NamesTheCellOfANotebook) {
  const auto findings = waits_in("train.ipynb", R"json({"cells": [
{"cell_type": "markdown", "source": ["A network"]},
{"cell_type": "code", "source": ["import torch\n", "model = torch.nn.Linear(8, 8).cuda()\n",
 "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"]},
{"cell_type": "code", "source": ["for x in loader:\n", "    loss = model(x.cuda()).sum()\n",
 "    loss.backward()\n", "    optimizer.step()\n", "    optimizer.zero_grad()\n",
 "    print(loss.item())"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})json");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].location.line, 6);
  EXPECT_EQ(findings[0].spot.cell, 3);
  EXPECT_EQ(findings[0].step, "train.ipynb, cell 3, line 1");
  EXPECT_TRUE(findings[0].message.ends_with(" (cell 3, line 6)")) << findings[0].message;
}

TEST(SourceFinding, CodeOfMoreThanSixtyCharactersIsCutInside) {
  const auto shown = [](std::size_t letters) {
    const auto facts = facts_of("f.py", "import torch\nf(" + std::string(letters, 'a') + ")\n");
    const source::File& file = *facts.files.front();
    return code_text(file, file.calls.front()->expr);
  };
  EXPECT_EQ(shown(57), "f(" + std::string(57, 'a') + ")");
  EXPECT_EQ(shown(58), "f(" + std::string(35, 'a') + "..." + std::string(19, 'a') + ")");
}

TEST(SourceFinding, OfAnEvaluationIsInformationUnlessTheTrainingOfItsFileHasIt) {
  const auto in_file = [](const char* file) {
    Finding finding;
    finding.location.file = file;
    return finding;
  };
  std::vector<Finding> findings = {in_file("told.py"), in_file("information.py")};
  findings[1].own_level = Level::info;
  add_of_evaluation({in_file("told.py"), in_file("information.py"), in_file("other.py")}, findings);
  ASSERT_EQ(findings.size(), 5U);
  EXPECT_FALSE(findings[2].own_level);
  EXPECT_EQ(findings[3].own_level, Level::info);
  EXPECT_EQ(findings[4].own_level, Level::info);
}

}  // namespace
}  // namespace rooftile
