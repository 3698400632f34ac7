#include "rooftile/analysis/op_math.h"

#include "rooftile/analysis/bound_share.h"
#include "rooftile/analysis/convolution.h"

namespace rooftile {
namespace {

bool is_cudnn_layer(const Op& op) {
  return std::holds_alternative<Convolution>(op.body) || std::holds_alternative<Recurrent>(op.body);
}

bool has_vector(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && (gemm->m == 1 || gemm->n == 1);
}

bool is_depthwise_layer(const Op& op) {
  const auto* conv = std::get_if<Convolution>(&op.body);
  return conv != nullptr && is_depthwise(*conv);
}

struct Times {
  Seconds all, tensor_cores, memory, latency;

  double share_of(Seconds part) const { return all > Seconds(0) ? part / all : 0; }
  double share() const { return share_of(tensor_cores); }
};

}  // namespace

MathUnit math_unit(const Device& device, const Op& op) {
  if (!is_matrix_op(op)) return math_unit(device, Dtype::fp32);
  const Dtype given = op.dtypes.input;
  return math_unit(device, is_cudnn_layer(op) ? cudnn_math(device, given) : given);
}

std::optional<FlopPerByte> ridge(const Device& device, const Op& op) {
  const bool computes = count_cost(op).flop > Flop(0);
  if (!computes || !(device.dram_bandwidth.value() > 0)) return std::nullopt;
  return math_unit(device, op).peak / device.dram_bandwidth;
}

bool uses_tensor_cores(const Device& device, const Op& op) {
  return is_matrix_op(op) && !has_vector(op) && !is_depthwise_layer(op) &&
         math_unit(device, op).tensor_cores;
}

TensorCoreShare tensor_core_share(const Workload& workload, const Analysis& analysis,
                                  const Device& device) {
  Times total;
  std::map<std::string, Times> by_kind;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    const auto known = known_time_in_pass(analysis.ops[i], op.count);
    if (!known) continue;
    const Seconds time = known->expected;
    const bool is_on = uses_tensor_cores(device, op);
    for (Times* times : {&total, &by_kind[std::string(kind_name(op.body))]}) {
      times->all += time;
      if (is_on) times->tensor_cores += time;
    }
    const Bound limit = is_on ? limit_of(op, analysis.ops[i], device) : Bound::unknown;
    if (limit == Bound::memory) total.memory += time;
    if (limit == Bound::latency) total.latency += time;
  }
  TensorCoreShare share{
      total.share(), total.share_of(total.memory), total.share_of(total.latency), {}};
  for (const auto& [kind, times] : by_kind) share.kinds[kind] = times.share();
  return share;
}

}  // namespace rooftile
