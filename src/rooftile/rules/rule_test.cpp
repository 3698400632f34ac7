#include "rooftile/rules/rule.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/gate.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

std::vector<Finding> speak(const RuleInput& /*input*/) { return std::vector<Finding>(1); }

Rule rule_of(std::string_view id, Level level, Typical typical = Typical::unknown) {
  return {.id = id, .level = level, .typical = typical, .in_ops = speak};
}

TEST(RunRules, WithoutSavingsTheUsuallyLargestChangeStandsFirst) {
  const Rule vocabulary = rule_of("gemm/odd-vocabulary", Level::advice);
  const Rule sync = rule_of("launch/sync-every-step", Level::advice, Typical::tenth);
  const Rule amp = rule_of("precision/amp-off", Level::advice, Typical::half);
  const Rule scaler = rule_of("precision/several-scalers", Level::warning);
  const Rule hint = rule_of("compile/not-compiled", Level::info);
  const Rule broken = rule_of("precision/unscaled-twice", Level::error);
  const Rule* const rules[] = {&vocabulary, &hint, &sync, &amp, &scaler, &broken};
  const Workload workload;
  const TimeModel model(Device{});
  const Analysis analysis = analyse(workload, model);
  const std::vector<Finding> findings =
      run_rules({workload, analysis, model, Graph(workload)}, rules);
  std::vector<std::string> order;
  for (const Finding& finding : findings) order.push_back(finding.rule);
  const std::vector<std::string> expected = {
      "precision/unscaled-twice", "precision/several-scalers", "precision/amp-off",
      "launch/sync-every-step",   "gemm/odd-vocabulary",       "compile/not-compiled"};
  EXPECT_EQ(order, expected);
}

TEST(RunRules, LevelsOfScriptsAndTraces) {
  Rule rule = rule_of("launch/sync-every-step", Level::advice);
  rule.level_in_traces = Level::warning;
  rule.in_traces = speak;
  const Workload workload;
  const TimeModel model(Device{});
  const Analysis analysis = analyse(workload, model);
  const std::vector<Finding> findings = detect(rule, {workload, analysis, model, Graph(workload)});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_FALSE(findings[0].own_level);  // in operations
  EXPECT_EQ(findings[1].own_level, Level::warning);
}

TEST(FindingAt, CountsTheRunsOfTheOperation) {
  const auto workload = parse_workload("gemm layer fp16 m=8 n=8 k=8 count=3", "layers.txt");
  ASSERT_TRUE(workload) << to_string(workload.error());
  const TimeModel model(*find_device("h100_sxm"));
  const Analysis analysis = analyse(*workload, model);
  const Finding finding = finding_at({*workload, analysis, model, Graph(*workload)}, 0, "slow", {},
                                     Range<Seconds>{Seconds(1), Seconds(2), Seconds(4)});
  EXPECT_EQ(finding.count, 3);
  EXPECT_EQ(finding.location.node, "layer");
  EXPECT_EQ(finding.ops, std::vector<std::size_t>{0});
  ASSERT_TRUE(finding.saving);
  EXPECT_EQ(finding.saving->low, Seconds(3));
  EXPECT_EQ(finding.saving->expected, Seconds(6));
  EXPECT_EQ(finding.saving->high, Seconds(12));
}

TEST(FindRule, FormerNamesAreUnderstood) {
  const Rule* rule = find_rule("input_pipeline/no-workers");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->id, "input_pipeline/loader-stall");
  EXPECT_TRUE(is_named(*rule, "input_pipeline/no-workers"));
  EXPECT_TRUE(is_named(*rule, "*/no-*"));
  EXPECT_TRUE(is_named(*rule, "input_pipeline/loader-stall"));
  EXPECT_FALSE(is_named(*rule, "input_pipeline/unpinned-batches"));
  EXPECT_EQ(find_rule(""), nullptr);
}

std::vector<Finding> find_at_one_place(const source::SourceFacts&) {
  Finding finding;
  finding.location.file = "train.py";
  finding.spot.line = 7;
  return {finding};
}

TEST(RunRules, WhatAnotherFindingIncludesIsInformation) {
  const Rule pinning{.id = "a/pinning", .in_scripts = find_at_one_place};
  const Rule workers{.id = "a/workers", .in_scripts = find_at_one_place, .covers = "a/pinning"};
  Workload workload;
  workload.source = std::make_shared<const source::SourceFacts>();
  const Rule* const both[] = {&pinning, &workers};
  const std::vector<Finding> findings = run_rules(workload, both);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].rule, "a/workers");
  EXPECT_EQ(findings[0].level, Level::advice);
  EXPECT_EQ(findings[1].level, Level::info);
  EXPECT_EQ(findings[1].covered_by, "a/workers");
  const Rule* const alone[] = {&pinning};
  EXPECT_EQ(run_rules(workload, alone)[0].level, Level::advice);
}

std::vector<Finding> find_fused(const source::SourceFacts&) {
  Finding finding;
  finding.location.file = "train.py";
  finding.fix = {
      "Pass fused=True", Exactness::exact_arithmetic, {{"train.py", 0, 0, "fused=True"}}, true};
  return {finding};
}

TEST(RunRules, WhatTheNamedPyTorchLacksIsSaidAndNotWritten) {
  const Rule rule{.id = "a/fused", .in_scripts = find_fused};
  const Rule* const rules[] = {&rule};
  const auto fix_on = [&](std::optional<source::TorchVersion> least) {
    auto facts = std::make_shared<source::SourceFacts>();
    facts->least_torch = least;
    Workload workload;
    workload.source = facts;
    return run_rules(workload, rules).front().fix;
  };
  const Fix old = fix_on(source::TorchVersion{1, 8});
  EXPECT_EQ(old.text, "Pass fused=True; needs PyTorch 2.0, the project names 1.8");
  EXPECT_TRUE(old.edits.empty());
  EXPECT_FALSE(old.safe);
  for (const auto& least : {std::optional(source::TorchVersion{2, 0}), {}}) {
    EXPECT_EQ(fix_on(least).text, "Pass fused=True");
    EXPECT_EQ(fix_on(least).edits.size(), 1U);
  }
}

std::vector<Finding> find_copied(const source::SourceFacts&) {
  std::vector<Finding> findings(3);
  findings[0].location.file = "train.ipynb";
  findings[0].message = "`loss.item()` waits";
  findings[1].location.file = "train.py";
  findings[1].message = "`loss.item()` waits";
  findings[2].location.file = "train.ipynb";
  findings[2].message = "`accuracy.item()` waits";
  return findings;
}

TEST(RunRules, ACopyInANotebookIsLeftOut) {
  const Rule rule{.id = "a/wait", .in_scripts = find_copied};
  const Rule* const rules[] = {&rule};
  Workload workload;
  workload.source = std::make_shared<const source::SourceFacts>();
  const std::vector<Finding> findings = run_rules(workload, rules);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].location.file, "train.py");
  EXPECT_EQ(findings[1].message, "`accuracy.item()` waits");
}

}  // namespace
}  // namespace rooftile
