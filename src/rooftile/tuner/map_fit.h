// Maximum a posteriori fit of positive constants to relative errors.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace rooftile {

// A positive constant that is searched on a log scale, with a Gaussian prior there.
struct LogParameter {
  double start = 1;     // also the centre of the prior
  double prior_sd = 1;  // of its logarithm
  double low = 0, high = 0;
};

struct FitProblem {
  std::vector<LogParameter> parameters;
  // ln(predicted / measured) of each point under these values; always as many.
  std::function<std::vector<double>(std::span<const double>)> log_errors;
  // Standard deviation of a point's error; beyond it the loss grows linearly (pseudo-Huber).
  double noise = 0.12;
};

// Half the sum of squares of such errors, the pseudo-Huber loss of each.
double robust_cost(std::span<const double> log_errors, double noise);

struct FitSolution {
  std::vector<double> values;  // within the parameters' bounds
  double cost = 0;             // half the sum of squares, of points and priors
};

// Levenberg-Marquardt from the start values; the result is never worse than the start.
FitSolution fit_posterior(const FitProblem& problem);

}  // namespace rooftile
