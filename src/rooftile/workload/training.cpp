#include "rooftile/workload/training.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_set>

#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

bool has_backward(const Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(),
                     [](const Op& op) { return op.phase != Phase::forward; });
}

// Whether anything differentiable is computed: integer arithmetic has no gradient.
bool is_differentiable(const Op& op) {
  switch (op.dtypes.input) {
    case Dtype::int64:
    case Dtype::int32:
    case Dtype::int16:
    case Dtype::boolean:
      return std::holds_alternative<Embedding>(op.body);
    default:
      break;
  }
  return !std::holds_alternative<Collective>(op.body) &&
         !std::holds_alternative<OptimizerStep>(op.body);
}

// Which operations need the gradient of their input: those behind a trained weight. Follows the
// named values; an operation without names follows the one before it in the list.
std::vector<bool> input_needs_gradient(const std::vector<Op>& ops) {
  std::unordered_set<std::string> with_gradient;
  std::vector<bool> needs;
  bool previous = false;
  for (const Op& op : ops) {
    const bool input = op.inputs.empty()
                           ? previous
                           : std::any_of(op.inputs.begin(), op.inputs.end(),
                                         [&](const auto& v) { return with_gradient.contains(v); });
    needs.push_back(input && is_differentiable(op));
    previous = previous || (is_differentiable(op) && (needs.back() || count_parameters(op) > 0));
    if (is_differentiable(op) && (needs.back() || count_parameters(op) > 0)) {
      with_gradient.insert(op.outputs.begin(), op.outputs.end());
    }
  }
  return needs;
}

Op in_phase(const Op& forward, Phase phase) {
  Op op = forward;
  op.phase = phase;
  op.inputs.clear();
  op.outputs.clear();
  op.measured.reset();
  return op;
}

// Products have a separate weight gradient; norms reduce theirs in the same pass over the data.
bool has_wgrad(const Op& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) return gemm->weight_is_parameter;
  return std::holds_alternative<Convolution>(op.body) ||
         std::holds_alternative<Recurrent>(op.body) || std::holds_alternative<Embedding>(op.body);
}

// The gradient of a bias is the sum of the output's gradient over all rows: a kernel of its own.
std::optional<Op> bias_gradient(const Op& forward) {
  double rows = 0;
  Reduction sum;
  sum.fn = "sum";
  if (const auto* gemm = std::get_if<Gemm>(&forward.body); gemm != nullptr && gemm->bias) {
    rows = static_cast<double>(gemm->batch) * static_cast<double>(gemm->m);
    sum.outputs = gemm->n;
  } else if (const auto* conv = std::get_if<Convolution>(&forward.body);
             conv != nullptr && conv->bias) {
    rows = static_cast<double>(conv->n) * element_count(output_extents(*conv));
    sum.outputs = conv->k;
  }
  if (rows <= 1) return std::nullopt;
  const double elements = rows * static_cast<double>(sum.outputs);
  sum.elements = std::llround(std::min(elements, double{kMaxSize}));
  Op op = in_phase(forward, Phase::wgrad);
  op.body = sum;
  op.dtypes.input = forward.dtypes.output;
  op.streams = {};
  // Blocks take neighbouring columns and go down the rows: whole lines of memory.
  op.streams.walk = Walk::contiguous;
  return op;
}

void add_backward(const Op& forward, bool needs_dgrad, std::vector<Op>& ops) {
  if (!is_differentiable(forward)) return;
  // A lookup has a weight gradient only; its input is indices. A recurrent layer goes back through
  // its steps whether or not its input needs a gradient.
  const bool goes_back = needs_dgrad || std::holds_alternative<Recurrent>(forward.body);
  if (goes_back && !std::holds_alternative<Embedding>(forward.body)) {
    ops.push_back(in_phase(forward, Phase::dgrad));
  }
  if (has_wgrad(forward)) ops.push_back(in_phase(forward, Phase::wgrad));
  if (const auto sum = bias_gradient(forward)) ops.push_back(*sum);
}

// How BatchNorm goes over its input: twice where it takes its statistics from it.
void walk_batch_norms(Walk walk, std::vector<Op>& ops) {
  for (Op& op : ops) {
    const auto* norm = std::get_if<Normalization>(&op.body);
    if (norm != nullptr && norm->fn == NormKind::batch) op.streams.walk = walk;
  }
}

}  // namespace

Workload derive_inference(Workload forward) {
  if (!has_backward(forward)) walk_batch_norms(Walk::contiguous, forward.ops);
  return forward;
}

Workload derive_training(Workload workload, OptimizerKind optimizer) {
  if (has_backward(workload)) return workload;
  workload.mode = Mode::training;
  walk_batch_norms(Walk::usual, workload.ops);
  const std::vector<Op> forward = workload.ops;
  const std::vector<bool> needs_dgrad = input_needs_gradient(forward);
  for (std::size_t i = forward.size(); i-- > 0;) {
    add_backward(forward[i], needs_dgrad[i], workload.ops);
  }
  const double parameters = count_parameters(workload);
  if (parameters >= 1) {
    Op step;
    step.name = "optimizer";
    step.body = OptimizerStep{optimizer, std::llround(std::min(parameters, double{kMaxSize}))};
    step.phase = Phase::optimizer;
    if (!forward.empty()) step.source.file = forward.front().source.file;
    workload.ops.push_back(std::move(step));
  }
  return workload;
}

}  // namespace rooftile
