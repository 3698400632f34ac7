#include "rooftile/workload/graph.h"

namespace rooftile {

Graph::Graph(const Workload& workload) : workload_(workload) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.phase != Phase::forward) continue;
    for (const std::string& value : op.outputs) producers_.emplace(value, i);
    for (const std::string& value : op.inputs) {
      std::vector<std::size_t>& readers = consumers_[value];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
  }
}

std::optional<std::size_t> Graph::producer(std::string_view value) const {
  const auto found = producers_.find(value);
  if (found == producers_.end()) return std::nullopt;
  return found->second;
}

const std::vector<std::size_t>& Graph::consumers(std::string_view value) const {
  static const std::vector<std::size_t> none;
  const auto found = consumers_.find(value);
  return found == consumers_.end() ? none : found->second;
}

std::optional<std::size_t> Graph::sole_consumer(std::size_t op) const {
  std::optional<std::size_t> only;
  for (const std::string& value : workload_.ops[op].outputs) {
    for (const std::size_t reader : consumers(value)) {
      if (only && *only != reader) return std::nullopt;
      only = reader;
    }
  }
  return only;
}

std::optional<std::size_t> Graph::producer_of(std::size_t op, std::size_t input) const {
  const std::vector<std::string>& inputs = workload_.ops[op].inputs;
  return input < inputs.size() ? producer(inputs[input]) : std::nullopt;
}

}  // namespace rooftile
