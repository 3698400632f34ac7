// CTC loss and weight norm, which no kind of operation describes: flop and bytes by what their CUDA
// kernels do (aten/src/ATen/native/cuda/LossCTC.cu and WeightNorm.cu of PyTorch 2.13).
#include <algorithm>
#include <cmath>

#include "rooftile/aten/handlers.h"
#include "rooftile/aten/streams.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

std::vector<Op> other_of(std::string_view name, double flop, double bytes, Dtype dtype,
                         Phase phase) {
  const double most = to_double(kMaxSize);
  if (flop > most || bytes < 1 || bytes > most) return {};
  return valid(
      Other{std::string(name), static_cast<std::int64_t>(flop), static_cast<std::int64_t>(bytes)},
      Dtypes(dtype), phase);
}

// Elements of the scores [steps, samples, classes], and of the states: a blank around each label.
struct CtcSizes {
  double scores = 0, states = 0;
  Dtype dtype = Dtype::fp32;
};

// Labels come as [samples, longest] or one behind the other.
std::optional<CtcSizes> ctc_sizes(const Arguments& arguments, std::size_t first) {
  const auto scores = arguments.tensor(first), labels = arguments.tensor(first + 1);
  if (!scores || !labels || scores->rank() < 2 || scores->rank() > 3) return std::nullopt;
  const double samples = scores->rank() == 3 ? to_double(scores->size(1)) : 1;
  const double of_sample = std::ceil(to_double(labels->elements()) / samples);
  return CtcSizes{to_double(scores->elements()),
                  to_double(scores->size(0)) * samples * (2 * of_sample + 1), scores->dtype};
}

// A state adds up three states of the step before in logarithms: two maxima, three differences,
// three exponentials, two sums, a logarithm, the maximum and the score.
constexpr double kFlopOfState = 13;

// The alphas are written; what is read of the scores are the labels' alone.
std::vector<Op> ctc_forward(const CtcSizes& sizes) {
  return other_of("ctc_loss", kFlopOfState * sizes.states,
                  size_of(sizes.states + std::min(sizes.states, sizes.scores), sizes.dtype),
                  sizes.dtype, Phase::forward);
}

// The betas as the alphas, then both are read and added up by class (six operations each); the
// gradient is filled, read and written against the scores (three operations).
std::vector<Op> ctc_backward(const CtcSizes& sizes) {
  const double states = 3 * sizes.states + std::min(sizes.states, sizes.scores);
  return other_of("ctc_loss", (kFlopOfState + 6) * sizes.states + 3 * sizes.scores,
                  size_of(states + 4 * sizes.scores, sizes.dtype), sizes.dtype, Phase::dgrad);
}

std::vector<Op> ctc(const Arguments& arguments, bool backward) {
  const auto sizes = ctc_sizes(arguments, backward ? 1 : 0);
  if (!sizes) return {};
  return backward ? ctc_backward(*sizes) : ctc_forward(*sizes);
}

// A block takes one row: it squares and adds up v (two operations an element), whose second reading
// comes from the cache, and writes v·g/‖v‖.
std::vector<Op> weight_norm(const Arguments& arguments) {
  const auto v = arguments.tensor(0), g = arguments.tensor(1);
  if (!v || !g) return {};
  const double elements = to_double(v->elements()), rows = to_double(g->elements());
  return other_of("weight_norm", 3 * elements, size_of(2 * elements + 2 * rows, v->dtype), v->dtype,
                  Phase::forward);
}

// Of the gradient and v: their product's sum (two operations an element), then
// g/‖v‖·(gradient − v·sum/‖v‖²), four at most.
std::vector<Op> weight_norm_gradient(const Arguments& arguments) {
  const auto gradient = arguments.tensor(0), v = arguments.tensor(1), g = arguments.tensor(2);
  if (!gradient || !v || !g || gradient->dims != v->dims) return {};
  const double elements = to_double(v->elements()), rows = to_double(g->elements());
  return other_of("weight_norm", 6 * elements, size_of(3 * elements + 3 * rows, v->dtype), v->dtype,
                  Phase::dgrad);
}

}  // namespace

Answer special_op(std::string_view name, const Arguments& arguments) {
  if (name == "ctc_loss" || name == "_ctc_loss") return ctc(arguments, false);
  if (name == "_ctc_loss_backward") return ctc(arguments, true);
  if (name == "_weight_norm" || name == "_weight_norm_interface") return weight_norm(arguments);
  if (name == "_weight_norm_interface_backward") return weight_norm_gradient(arguments);
  return std::nullopt;
}

}  // namespace rooftile::aten_detail
