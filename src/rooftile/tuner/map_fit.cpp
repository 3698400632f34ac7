#include "rooftile/tuner/map_fit.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/NonLinearOptimization>

namespace rooftile {
namespace {

// Step of the numeric derivative, in log: wide enough to look past the kinks where the model
// changes its choice of tile.
constexpr double kStep = 0.02;
constexpr int kMaxEvaluations = 60;

// The square of this is the pseudo-Huber loss of `error` over `noise`.
double robust(double error, double noise) {
  const double ratio = error / noise;
  const double loss = 2 * (std::sqrt(1 + ratio * ratio) - 1);
  return std::copysign(std::sqrt(loss), error);
}

// The least-squares problem in the form Eigen asks for: one row per point, then one per prior.
class Residuals {
 public:
  using Scalar = double;
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;
  // Names that Eigen reads.
  // NOLINTNEXTLINE(readability-identifier-naming)
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };

  explicit Residuals(const FitProblem& problem)
      : problem_(problem), points_(problem.log_errors(values_of(start())).size()) {}

  // Eigen's interface counts in int.
  int inputs() const { return static_cast<int>(problem_.parameters.size()); }
  int values() const { return static_cast<int>(points_) + inputs(); }

  InputType start() const {
    InputType x(inputs());
    for (int i = 0; i < inputs(); ++i) x[i] = std::log(parameter(i).start);
    return x;
  }

  std::vector<double> values_of(const InputType& x) const {
    std::vector<double> values(problem_.parameters.size());
    for (int i = 0; i < inputs(); ++i) {
      values[static_cast<std::size_t>(i)] =
          std::clamp(std::exp(x[i]), parameter(i).low, parameter(i).high);
    }
    return values;
  }

  int operator()(const InputType& x, ValueType& residuals) const {
    residuals.resize(values());
    const std::vector<double> errors = problem_.log_errors(values_of(x));
    Eigen::Index row = 0;
    for (const double error : errors) residuals[row++] = robust(error, problem_.noise);
    for (int i = 0; i < inputs(); ++i) residuals[row++] = prior(x, i);
    return 0;
  }

  int df(const InputType& x, JacobianType& jacobian) const {
    ValueType here, there;
    (*this)(x, here);
    jacobian.resize(values(), inputs());
    for (int i = 0; i < inputs(); ++i) {
      const double step = x[i] + kStep > std::log(parameter(i).high) ? -kStep : kStep;
      InputType moved = x;
      moved[i] += step;
      (*this)(moved, there);
      jacobian.col(i) = (there - here) / step;
    }
    return 0;
  }

 private:
  const LogParameter& parameter(int i) const {
    return problem_.parameters[static_cast<std::size_t>(i)];
  }
  double prior(const InputType& x, int i) const {
    return (x[i] - std::log(parameter(i).start)) / parameter(i).prior_sd;
  }

  const FitProblem& problem_;
  std::size_t points_;
};

}  // namespace

double robust_cost(std::span<const double> log_errors, double noise) {
  double cost = 0;
  for (const double error : log_errors) {
    const double root = robust(error, noise);
    cost += root * root / 2;
  }
  return cost;
}

FitSolution fit_posterior(const FitProblem& problem) {
  Residuals residuals(problem);
  Eigen::VectorXd x = residuals.start(), rows;
  residuals(x, rows);
  const double at_start = 0.5 * rows.squaredNorm();
  Eigen::LevenbergMarquardt<Residuals> search(residuals);
  search.parameters.maxfev = kMaxEvaluations;
  search.parameters.xtol = search.parameters.ftol = 1e-5;
  search.minimize(x);
  residuals(x, rows);
  const double cost = 0.5 * rows.squaredNorm();
  if (!(cost < at_start)) return {residuals.values_of(residuals.start()), at_start};
  return {residuals.values_of(x), cost};
}

}  // namespace rooftile
