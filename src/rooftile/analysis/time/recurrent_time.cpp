// Recurrent layers: the input products of all steps at once, then step after step.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/persistent_rnn.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {
namespace {

bool is_sequential(const MatrixProduct& product, const Recurrent& rnn) {
  return product.repeats >= rnn.seq * rnn.layers && rnn.seq > 1;
}

RnnAlgorithm algorithm_of(const TimeContext& context, const Op& op, const Recurrent& rnn) {
  const RnnChoice choice = cudnn_rnn_algorithm(rnn, op.dtypes.input, context.device);
  return op.phase == Phase::forward ? choice.forward : choice.backward;
}

// The ranges of steps stand for constants of one algorithm that nobody measured, which layers of
// all sizes share; the part that they do not is assumed.
constexpr double kUnsharedOfSteps = 1.0 / 3;

// Weights stay in registers and shared memory: a step is its math and one grid-wide barrier. Where
// a block has room for all of them, each runs one sample on its SM's CUDA cores.
TimeEstimate persistent_steps(const TimeContext& context, const MatrixProduct& product,
                              RnnAlgorithm algorithm, const Recurrent& rnn) {
  const auto& section = context.calibration.recurrent;
  const RecurrentConstants& c = section.constants;
  const double steps = static_cast<double>(product.repeats);
  TimeEstimate estimate;
  if (algorithm == RnnAlgorithm::persist_small) {
    const double waves = std::ceil(static_cast<double>(rnn.batch) / context.device.sms);
    const MathUnit cores = math_unit(context.running, Dtype::fp32);
    estimate.launch = c.small_step * steps * waves;
    estimate.compute =
        product.flop() / static_cast<double>(rnn.batch) * context.device.sms * waves / cores.peak;
  } else {
    const MathUnit unit = math_unit(context.running, product.math);
    estimate.launch = c.persistent_step * steps;
    estimate.compute = product.flop() / (unit.peak * c.persistent_math_efficiency);
  }
  estimate.bound = estimate.compute > estimate.launch ? Bound::math : Bound::latency;
  set_time(estimate, estimate.launch + estimate.compute, c.interval, widening(context, section));
  estimate.kernels = Kernels::persistent_recurrent;
  estimate.unshared = kUnsharedOfSteps;
  return estimate;
}

TimeEstimate standard_steps(const TimeContext& context, const MatrixProduct& product) {
  const auto& section = context.calibration.recurrent;
  const RecurrentConstants& c = section.constants;
  const double steps = static_cast<double>(product.repeats);
  TimeEstimate pointwise;
  pointwise.bound = Bound::latency;
  pointwise.launch = c.step * steps;
  set_time(pointwise, pointwise.launch, c.step_interval, widening(context, section));
  ProductTraits traits;
  const Intervals intervals{c.interval, c.interval, c.interval};
  traits.intervals = &intervals;
  traits.widening = widening(context, section);
  TimeEstimate steps_of_all = estimate_product(context, product, traits) + pointwise;
  steps_of_all.kernels = Kernels::recurrent;
  steps_of_all.unshared = kUnsharedOfSteps;
  return steps_of_all;
}

}  // namespace

TimeEstimate estimate_recurrent(const TimeContext& context, const Op& op, const Recurrent& rnn) {
  const RnnAlgorithm algorithm = algorithm_of(context, op, rnn);
  TimeEstimate total;
  bool first = true;
  for (MatrixProduct& product : matrix_products(op)) {
    product.math = cudnn_math(context.device, product.math);
    TimeEstimate part;
    if (!is_sequential(product, rnn)) {
      part = estimate_product(context, product);
    } else {
      part = algorithm == RnnAlgorithm::standard
                 ? standard_steps(context, product)
                 : persistent_steps(context, product, algorithm, rnn);
    }
    total = first ? part : total + part;
    first = false;
  }
  return total;
}

}  // namespace rooftile
