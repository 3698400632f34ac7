#include "rooftile/analysis/memory/spreading.h"

#include <algorithm>
#include <cmath>

#include "rooftile/workload/rebatch.h"

namespace rooftile {
namespace {

std::optional<Range<Seconds>> collective_time(const TimeModel& model, CollectiveKind kind,
                                              double elements, Dtype dtype, std::int64_t gpus) {
  Op op;
  const Link link = model.device().nvlink_bandwidth ? Link::nvlink : Link::pcie;
  op.body = Collective{kind, std::llround(std::min(elements, 9e15)), gpus, link};
  op.dtypes = Dtypes(dtype);
  const auto time = model.estimate(op);
  return time ? std::optional(time->time) : std::nullopt;
}

const Attention* forward_attention(const Op& op) {
  const auto* attention = std::get_if<Attention>(&op.body);
  return attention != nullptr && op.phase == Phase::forward ? attention : nullptr;
}

const Gemm* forward_layer(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  const bool is_layer = gemm != nullptr && gemm->weight_is_parameter && op.phase == Phase::forward;
  return is_layer ? gemm : nullptr;
}

// One product for each expert.
const Gemm* expert_layer(const Op& op) {
  const Gemm* gemm = forward_layer(op);
  return gemm != nullptr && gemm->batch > 1 ? gemm : nullptr;
}

bool is_addition(const Op& op) {
  const auto* add = std::get_if<Elementwise>(&op.body);
  return add != nullptr && op.phase == Phase::forward && add->fn == "add" && add->inputs == 2;
}

}  // namespace

std::optional<Range<Seconds>> sharding_transfers(const Workload& workload, const TimeModel& model,
                                                 std::int64_t gpus) {
  Dtype dtype = Dtype::fp32;
  const auto first = std::ranges::find_if(workload.ops, is_matrix_op);
  if (first != workload.ops.end()) dtype = first->dtypes.weight;
  const double parameters = count_parameters(workload);
  const auto gather = collective_time(model, CollectiveKind::all_gather, parameters, dtype, gpus);
  const auto reduce =
      collective_time(model, CollectiveKind::reduce_scatter, parameters, dtype, gpus);
  if (!gather || !reduce) return std::nullopt;
  return *gather * 2 + *reduce;
}

bool divides_heads(const Workload& workload, std::int64_t gpus) {
  return std::ranges::all_of(workload.ops, [&](const Op& op) {
    const Attention* a = forward_attention(op);
    if (a == nullptr) return true;
    return a->heads % gpus == 0 && (a->kv_heads % gpus == 0 || gpus % a->kv_heads == 0);
  });
}

std::optional<Range<Seconds>> tensor_parallel_sums(const Workload& workload, const TimeModel& model,
                                                   std::int64_t gpus) {
  Range<Seconds> sum{};
  bool in_block = false, known = false;  // a layer since the last sum
  for (const Op& op : workload.ops) {
    in_block = in_block || forward_layer(op) != nullptr;
    if (!in_block || !is_addition(op)) continue;
    const double elements = to_double(std::get<Elementwise>(op.body).elements);
    const auto time =
        collective_time(model, CollectiveKind::all_reduce, elements, op.dtypes.output, gpus);
    if (!time) return std::nullopt;
    sum += *time * to_double(op.count);
    in_block = false;
    known = true;
  }
  return known ? std::optional(sum) : std::nullopt;
}

double share_of_cache(const Workload& workload, std::int64_t gpus) {
  std::int64_t fewest = gpus;
  for (const Op& op : workload.ops) {
    if (const Attention* a = forward_attention(op)) fewest = std::min(fewest, a->kv_heads);
  }
  return 1 / to_double(std::max<std::int64_t>(fewest, 1));
}

namespace {

struct Experts {
  double elements = 0;  // of all, also of those that no token reaches
  double number = 0;    // of a layer
};

// A decode step lists the experts that its tokens reach; the model's parameters tell of the others.
Experts experts_of(const Workload& workload) {
  double others = 0, each = 0;
  for (const Op& op : workload.ops) {
    if (op.phase != Phase::forward) continue;
    const double elements = count_parameters(op) * to_double(op.count);
    const Gemm* expert = expert_layer(op);
    if (expert == nullptr) others += elements;
    if (expert != nullptr) each += elements / to_double(expert->batch);
  }
  if (each <= 0) return {};
  const double elements = std::max(0.0, count_parameters(workload) - others);
  return {elements, std::round(elements / each)};
}

// Rows of activations before the first and behind the last product of the experts of a block.
std::optional<Range<Seconds>> expert_transfers(const Workload& workload, const TimeModel& model,
                                               std::int64_t gpus) {
  Range<Seconds> sum{};
  bool known = true;
  const double senders = to_double(std::min(gpus, workload.batch.value_or(1)));
  const auto send = [&](const Op& op, const Gemm& expert, std::int64_t width) {
    const double elements =
        to_double(expert.m) * to_double(expert.batch) * to_double(width) / senders;
    const auto time =
        collective_time(model, CollectiveKind::all_to_all, elements, op.dtypes.output, gpus);
    known = known && time.has_value();
    if (time) sum += *time * to_double(op.count);
  };
  const Op* last = nullptr;
  const auto close = [&] {
    if (last != nullptr) send(*last, *expert_layer(*last), expert_layer(*last)->n);
    last = nullptr;
  };
  for (const Op& op : workload.ops) {
    if (const Gemm* expert = expert_layer(op)) {
      if (last == nullptr) send(op, *expert, expert->k);
      last = &op;
    } else if (forward_layer(op) != nullptr || forward_attention(op) != nullptr) {
      close();
    }
  }
  close();
  return known ? std::optional(sum) : std::nullopt;
}

Seconds time_of_all(const Workload& workload, const TimeModel& model) {
  Seconds sum;
  for (const Op& op : workload.ops) {
    if (const auto time = model.estimate(op)) sum += time->time.expected * to_double(op.count);
  }
  return sum;
}

// What one of the GPUs runs: its samples, and its experts for the tokens of all.
Workload part_of_one(const Workload& workload, std::int64_t gpus) {
  const std::int64_t batch = workload.batch.value_or(1);
  Workload part = at_batch(workload, (batch + gpus - 1) / gpus).value_or(workload);
  for (std::size_t i = 0; i < part.ops.size(); ++i) {
    if (expert_layer(workload.ops[i]) == nullptr) continue;
    part.ops[i] = workload.ops[i];
    auto& expert = std::get<Gemm>(part.ops[i].body);
    expert.batch = (expert.batch + gpus - 1) / gpus;
  }
  return part;
}

}  // namespace

std::optional<ExpertPlacement> place_experts(const Workload& workload, const TimeModel& model,
                                             std::int64_t gpus) {
  const Experts experts = experts_of(workload);
  if (experts.number < to_double(gpus)) return std::nullopt;
  ExpertPlacement placement;
  placement.expert_share = experts.elements / count_parameters(workload);
  const Seconds whole = time_of_all(workload, model);
  if (whole <= Seconds()) return std::nullopt;
  placement.pass_share = time_of_all(part_of_one(workload, gpus), model) / whole;
  placement.transfers = expert_transfers(workload, model, gpus);
  return placement;
}

}  // namespace rooftile
