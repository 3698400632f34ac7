#include "rooftile/workload/layers_of_one_input.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

constexpr std::int64_t kAdapterWidth = 64;

bool is_projection(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && op.phase == Phase::forward && gemm->weight_is_parameter &&
         gemm->batch == 1 && gemm->n >= kAdapterWidth && !op.inputs.empty() && !op.name.empty();
}

bool is_named(const Op& op, std::string_view fn) {
  const auto* elementwise = std::get_if<Elementwise>(&op.body);
  return elementwise != nullptr && elementwise->fn == fn;
}

// Scores over the layer's outputs: their softmax, or a sigmoid by which results of experts are
// weighted.
bool is_router(const Workload& workload, const Graph& graph, std::size_t layer) {
  const std::int64_t outputs = std::get<Gemm>(workload.ops[layer].body).n;
  const auto weighs = [&](std::size_t reader) {
    return is_named(workload.ops[reader], "weighted_sum");
  };
  const auto scores = [&](std::size_t reader) {
    const Op& op = workload.ops[reader];
    if (const auto* softmax = std::get_if<Softmax>(&op.body)) return softmax->cols == outputs;
    return is_named(op, "sigmoid") && !op.outputs.empty() &&
           std::ranges::any_of(graph.consumers(op.outputs.front()), weighs);
  };
  const auto& written = workload.ops[layer].outputs;
  return !written.empty() && std::ranges::any_of(graph.consumers(written.front()), scores);
}

// Under autocast each layer reads a cast of its own.
const std::string& before_cast(const Workload& workload, const Graph& graph,
                               const std::string& value) {
  const auto producer = graph.producer(value);
  if (!producer) return value;
  const Op& cast = workload.ops[*producer];
  const bool is_cast = std::holds_alternative<Cast>(cast.body) && cast.inputs.size() == 1;
  return is_cast ? cast.inputs.front() : value;
}

// What must agree for two layers to become one.
auto merge_key(const Workload& workload, const Graph& graph, const Op& op) {
  const auto& gemm = std::get<Gemm>(op.body);
  return std::tuple(before_cast(workload, graph, op.inputs.front()), gemm.m, gemm.k, gemm.layout,
                    op.dtypes.input, op.dtypes.weight, op.count);
}

std::pair<std::string, std::string> module_and_layer(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::pair(std::string(), name)
                                  : std::pair(name.substr(0, dot + 1), name.substr(dot + 1));
}

// By the module they are in: what parallel blocks read is the same, too.
std::map<std::string, std::vector<std::size_t>> by_module(const Workload& workload,
                                                          const std::vector<std::size_t>& layers) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (const std::size_t i : layers) {
    groups[module_and_layer(workload.ops[i].name).first].push_back(i);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

}  // namespace

std::vector<std::vector<std::size_t>> layers_of_one_input(const Workload& workload,
                                                          const Graph& graph) {
  std::map<decltype(merge_key(workload, graph, std::declval<const Op&>())),
           std::vector<std::size_t>>
      by_key;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (!is_projection(workload.ops[i]) || is_router(workload, graph, i)) continue;
    by_key[merge_key(workload, graph, workload.ops[i])].push_back(i);
  }
  std::vector<std::vector<std::size_t>> families;
  for (auto& [key, family] : by_key) {
    if (family.size() > 1) families.push_back(std::move(family));
  }
  std::sort(families.begin(), families.end());
  return families;
}

Op side_by_side(const Workload& workload, const std::vector<std::size_t>& layers) {
  Op op = workload.ops[layers.front()];
  auto& gemm = std::get<Gemm>(op.body);
  for (const std::size_t i : layers) {
    if (i == layers.front()) continue;
    const Op& next = workload.ops[i];
    gemm.n += std::get<Gemm>(next.body).n;
    gemm.bias = gemm.bias || std::get<Gemm>(next.body).bias;
    op.outputs.insert(op.outputs.end(), next.outputs.begin(), next.outputs.end());
    op.name += "+" + module_and_layer(next.name).second;
  }
  return op;
}

void join_layers_of_one_input(Workload& workload) {
  std::vector<bool> joined(workload.ops.size());
  for (const auto& layers : layers_of_one_input(workload, Graph(workload))) {
    for (const auto& [module, group] : by_module(workload, layers)) {
      workload.ops[group.front()] = side_by_side(workload, group);
      for (const std::size_t i : group) joined[i] = i != group.front();
    }
  }
  std::size_t next = 0;
  std::erase_if(workload.ops, [&](const Op&) { return joined[next++]; });
}

}  // namespace rooftile
