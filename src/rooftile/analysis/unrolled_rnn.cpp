#include "rooftile/analysis/unrolled_rnn.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace rooftile {
namespace {

constexpr std::int64_t kMinSteps = 8;
constexpr std::size_t kMaxRegion = 64;  // operations of one cell

bool is_one_step_cell(const Op& op) {
  const auto* rnn = std::get_if<Recurrent>(&op.body);
  return rnn != nullptr && rnn->seq == 1;
}

bool is_product(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return (gemm != nullptr && gemm->weight_is_parameter) || is_one_step_cell(op);
}

bool computes(const Op& op, std::string_view fn) {
  const auto* elementwise = std::get_if<Elementwise>(&op.body);
  return elementwise != nullptr && elementwise->fn == fn;
}

bool breaks_cell(const Op& op) {
  return std::holds_alternative<Normalization>(op.body) ||
         std::holds_alternative<Softmax>(op.body) || std::holds_alternative<Embedding>(op.body);
}

// What an operation's input is made from, back to the nearest products.
struct Region {
  std::vector<std::size_t> between;  // pointwise and the like
  std::vector<std::size_t> products;
  bool has_gates = false, plain = true;
};

Region region_behind(const Workload& workload, const Graph& graph, std::size_t start) {
  Region region;
  std::vector<std::size_t> stack{start};
  std::set<std::size_t> seen{start};
  bool sigmoid = false, tanh = false;
  while (!stack.empty() && seen.size() < kMaxRegion) {
    const std::size_t op = stack.back();
    stack.pop_back();
    for (const std::string& value : workload.ops[op].inputs) {
      const auto producer = graph.producer(value);
      if (!producer || *producer >= start || !seen.insert(*producer).second) continue;
      const Op& before = workload.ops[*producer];
      if (is_matrix_op(before)) {
        region.products.push_back(*producer);
        continue;
      }
      region.has_gates = region.has_gates || computes(before, "lstm_cell");
      sigmoid = sigmoid || computes(before, "sigmoid");
      tanh = tanh || computes(before, "tanh");
      region.plain = region.plain && !breaks_cell(before);
      region.between.push_back(*producer);
      stack.push_back(*producer);
    }
  }
  region.has_gates = region.has_gates || (sigmoid && tanh);
  return region;
}

struct Node {
  Region region;
  std::optional<std::size_t> previous;  // the equal product one step before
  std::int64_t depth = 1;
};

// A cheap look before the search: gated cells need both functions.
bool may_hold_cells(const Workload& workload) {
  bool sigmoid = false, tanh = false;
  for (const Op& op : workload.ops) {
    sigmoid = sigmoid || computes(op, "sigmoid");
    tanh = tanh || computes(op, "tanh");
    if (is_one_step_cell(op) || computes(op, "lstm_cell") || (sigmoid && tanh)) return true;
  }
  return false;
}

class LoopSearch {
 public:
  LoopSearch(const Workload& workload, const Graph& graph)
      : workload_(workload), graph_(graph), ops_(workload.ops) {
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (ops_[op].phase != Phase::forward || !is_product(ops_[op])) continue;
      nodes_.emplace(op, node_at(op, region_behind(workload, graph, op)));
    }
  }

  std::vector<UnrolledLoop> loops() {
    std::vector<std::size_t> by_depth;
    for (const auto& [op, node] : nodes_) {
      if (node.depth >= kMinSteps) by_depth.push_back(op);
    }
    std::stable_sort(by_depth.begin(), by_depth.end(), [&](std::size_t a, std::size_t b) {
      return nodes_.at(a).depth > nodes_.at(b).depth;
    });
    std::vector<UnrolledLoop> all;
    for (const std::size_t op : by_depth) {
      const std::vector<std::size_t> chain = unclaimed_chain(op);
      if (static_cast<std::int64_t>(chain.size()) >= kMinSteps) all.push_back(loop_of(chain));
    }
    return all;
  }

 private:
  Node node_at(std::size_t op, Region region) const {
    Node node{std::move(region), std::nullopt, 1};
    if (!node.region.has_gates && !is_one_step_cell(ops_[op])) return node;
    for (const std::size_t before : node.region.products) {
      const auto found = nodes_.find(before);
      const bool equal = found != nodes_.end() && ops_[before].body == ops_[op].body &&
                         ops_[before].dtypes == ops_[op].dtypes;
      if (equal && found->second.depth >= node.depth) {
        node.previous = before;
        node.depth = found->second.depth + 1;
      }
    }
    return node;
  }

  std::vector<std::size_t> unclaimed_chain(std::size_t last) const {
    std::vector<std::size_t> chain;
    for (std::optional<std::size_t> op = last; op && !claimed_.contains(*op);
         op = nodes_.at(*op).previous) {
      chain.push_back(*op);
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  // Separate gates: other equal products that read the same step, or the same initial state.
  std::set<std::size_t> with_siblings(const std::vector<std::size_t>& chain) const {
    const Op& first = ops_[chain.front()];
    std::set<std::size_t> steps(chain.begin(), chain.end());
    for (const auto& [op, node] : nodes_) {
      const bool same_step = node.previous
                                 ? std::binary_search(chain.begin(), chain.end(), *node.previous)
                                 : !first.inputs.empty() && ops_[op].inputs == first.inputs;
      if (same_step && ops_[op].body == first.body && !claimed_.contains(op)) steps.insert(op);
    }
    return steps;
  }

  bool depends_on(std::size_t op, const std::set<std::size_t>& steps) const {
    const auto& products = nodes_.at(op).region.products;
    return std::any_of(products.begin(), products.end(),
                       [&](std::size_t product) { return steps.contains(product); });
  }

  // The step's input is computed from another step's output, as in a decoder.
  bool is_fed_back(const Region& region, const std::set<std::size_t>& steps) const {
    return std::any_of(region.products.begin(), region.products.end(), [&](std::size_t product) {
      return nodes_.contains(product) && !steps.contains(product) && depends_on(product, steps);
    });
  }

  // Products that meet the last step's in its gates.
  std::vector<std::size_t> products_beside(std::size_t last) const {
    std::vector<std::size_t> products;
    for (const std::string& value : ops_[last].outputs) {
      for (const std::size_t reader : graph_.consumers(value)) {
        const Region region = region_behind(workload_, graph_, reader);
        products.insert(products.end(), region.products.begin(), region.products.end());
      }
    }
    return products;
  }

  std::set<std::size_t> projections_of(const std::set<std::size_t>& steps) const {
    std::vector<std::size_t> beside = products_beside(*steps.rbegin());
    for (const std::size_t step : steps) {
      const auto& products = nodes_.at(step).region.products;
      beside.insert(beside.end(), products.begin(), products.end());
    }
    std::set<std::size_t> projections;
    for (const std::size_t product : beside) {
      const bool is_candidate = nodes_.contains(product) && !steps.contains(product);
      if (is_candidate && !claimed_.contains(product) && !depends_on(product, steps)) {
        projections.insert(product);
      }
    }
    return projections;
  }

  // Products of the steps' states whose results no product reads: a decoder's logits are of those
  // only where the prediction is not fed back.
  std::vector<std::size_t> outputs_of(const std::set<std::size_t>& steps) const {
    std::set<std::size_t> read;
    for (const auto& [op, node] : nodes_) {
      read.insert(node.region.products.begin(), node.region.products.end());
    }
    std::vector<std::size_t> outputs;
    for (const auto& [op, node] : nodes_) {
      const bool is_inner = steps.contains(op) || claimed_.contains(op) || read.contains(op);
      if (!is_inner && !is_one_step_cell(ops_[op]) && depends_on(op, steps)) outputs.push_back(op);
    }
    return outputs;
  }

  UnrolledLoop loop_of(const std::vector<std::size_t>& chain) {
    const std::set<std::size_t> steps = with_siblings(chain);
    const std::set<std::size_t> projections = projections_of(steps);
    std::set<std::size_t> between;
    UnrolledLoop loop;
    for (const std::size_t step : steps) {
      if (!depends_on(step, steps)) continue;
      const Region& region = nodes_.at(step).region;
      loop.plain = loop.plain && region.plain && !is_fed_back(region, steps);
      between.insert(region.between.begin(), region.between.end());
    }
    claimed_.insert(steps.begin(), steps.end());
    loop.length = static_cast<std::int64_t>(chain.size());
    loop.products_per_step = (static_cast<std::int64_t>(steps.size()) - 1) / loop.length + 1;
    loop.steps.assign(steps.begin(), steps.end());
    loop.projections.assign(projections.begin(), projections.end());
    loop.outputs = outputs_of(steps);
    loop.pointwise.assign(between.begin(), between.end());
    return loop;
  }

  const Workload& workload_;
  const Graph& graph_;
  const std::vector<Op>& ops_;
  std::map<std::size_t, Node> nodes_;
  std::set<std::size_t> claimed_;
};

}  // namespace

std::vector<UnrolledLoop> find_unrolled_loops(const Workload& workload, const Graph& graph) {
  return may_hold_cells(workload) ? LoopSearch(workload, graph).loops()
                                  : std::vector<UnrolledLoop>{};
}

}  // namespace rooftile
