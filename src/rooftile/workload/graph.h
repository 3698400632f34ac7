// Who writes and who reads each named value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/workload/workload.h"

namespace rooftile {

// Indices into Workload::ops of the forward operations; the workload must outlive the graph.
class Graph {
 public:
  explicit Graph(const Workload& workload);

  // The operation that writes the value; empty for inputs of the network and unknown names.
  std::optional<std::size_t> producer(std::string_view value) const;
  // Operations that read the value, in order.
  const std::vector<std::size_t>& consumers(std::string_view value) const;
  // The only operation that reads any output of `op`; empty when several do or none.
  std::optional<std::size_t> sole_consumer(std::size_t op) const;
  // The producer of the operation's input number `input`.
  std::optional<std::size_t> producer_of(std::size_t op, std::size_t input = 0) const;

 private:
  const Workload& workload_;
  std::unordered_map<std::string_view, std::size_t> producers_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> consumers_;
};

}  // namespace rooftile
