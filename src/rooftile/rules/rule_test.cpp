#include "rooftile/rules/rule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rooftile {
namespace {

std::vector<Finding> speak(const RuleInput& /*input*/) { return std::vector<Finding>(1); }

Rule rule_of(std::string_view id, Level level) { return {id, level, Cause::none, "", "", speak}; }

TEST(RunRules, WithoutSavingsTheUsuallyLargestChangeStandsFirst) {
  const Rule vocabulary = rule_of("gemm/odd-vocabulary", Level::advice);
  const Rule sync = rule_of("launch/sync-every-step", Level::advice);
  const Rule amp = rule_of("precision/amp-off", Level::advice);
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

}  // namespace
}  // namespace rooftile
