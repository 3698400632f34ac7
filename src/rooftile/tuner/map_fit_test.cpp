#include "rooftile/tuner/map_fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rooftile {
namespace {

// Each point measures the first constant itself.
FitProblem direct(double start, double prior_sd, std::vector<double> measured) {
  FitProblem problem;
  problem.parameters = {{start, prior_sd, 1e-3, 1e3}};
  problem.log_errors = [measured](std::span<const double> values) {
    std::vector<double> errors;
    for (const double m : measured) errors.push_back(std::log(values[0] / m));
    return errors;
  };
  return problem;
}

TEST(FitPosterior, FollowsThePointsWhereThePriorIsWide) {
  const FitSolution solution = fit_posterior(direct(1, 100, {2, 2, 2}));
  EXPECT_NEAR(solution.values[0], 2, 1e-3);
}

TEST(FitPosterior, WeighsPriorAndPointsByTheirVariances) {
  // One point of the prior's own uncertainty: half way, in log. The loss is quadratic this near.
  FitProblem problem = direct(1, 0.12, {1.02});
  const FitSolution solution = fit_posterior(problem);
  EXPECT_NEAR(std::log(solution.values[0]), 0.5 * std::log(1.02), 2e-4);
}

TEST(FitPosterior, OneOutlierAmongManyMovesLittle) {
  const FitSolution solution = fit_posterior(direct(1, 100, {1, 1, 1, 1, 1, 1, 1, 1, 1, 20}));
  EXPECT_NEAR(solution.values[0], 1, 0.02);  // their geometric mean is 1.35
}

TEST(FitPosterior, StaysWithinBoundsAndLeavesThem) {
  FitProblem problem = direct(5, 100, {50, 50});
  problem.parameters[0].high = 10;
  EXPECT_NEAR(fit_posterior(problem).values[0], 10, 1e-9);
  problem.parameters[0] = {10, 100, 1e-3, 10};
  problem.log_errors = [](std::span<const double> values) {
    return std::vector<double>{std::log(values[0] / 4)};
  };
  EXPECT_NEAR(fit_posterior(problem).values[0], 4, 0.01);
}

TEST(FitPosterior, IsNeverWorseThanTheStart) {
  FitProblem problem = direct(3, 0.1, {3, 3});
  const FitSolution solution = fit_posterior(problem);
  EXPECT_NEAR(solution.values[0], 3, 1e-6);
  EXPECT_NEAR(solution.cost, 0, 1e-9);
}

}  // namespace
}  // namespace rooftile
