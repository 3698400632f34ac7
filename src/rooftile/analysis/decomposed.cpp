#include "rooftile/analysis/decomposed.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace rooftile {
namespace {

constexpr int kMaxSmallSteps = 5;  // add epsilon, root, reciprocal …

class Finder {
 public:
  Finder(const Workload& workload, const Graph& graph) : workload_(workload), graph_(graph) {}

  // The pattern whose last reduction is `op`.
  std::optional<Decomposed> at_reduction(std::size_t op) const {
    const auto* reduction = std::get_if<Reduction>(&workload_.ops[op].body);
    if (reduction == nullptr || reduction->outputs < 1) return std::nullopt;
    if (reduction->fn == "mean") return norm_at(op, *reduction);
    if (reduction->fn == "sum") return softmax_at(op, *reduction);
    return std::nullopt;
  }

 private:
  using Index = std::optional<std::size_t>;

  const Op& op(std::size_t index) const { return workload_.ops[index]; }

  bool computes(Index index, std::string_view fn) const {
    if (!index) return false;
    const auto* elementwise = std::get_if<Elementwise>(&op(*index).body);
    return elementwise != nullptr && elementwise->fn == fn;
  }
  bool computes_any(Index index, std::string_view a, std::string_view b) const {
    return computes(index, a) || computes(index, b);
  }
  bool reduces(Index index, std::string_view fn) const {
    if (!index) return false;
    const auto* reduction = std::get_if<Reduction>(&op(*index).body);
    return reduction != nullptr && reduction->fn == fn;
  }

  bool reads(std::size_t index, std::string_view value) const {
    const auto& inputs = op(index).inputs;
    return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  }

  // x in x² as pow(x, 2) or x·x.
  std::optional<std::string_view> squared_value(Index square) const {
    if (!computes_any(square, "pow", "mul")) return std::nullopt;
    const auto& inputs = op(*square).inputs;
    if (inputs.empty()) return std::nullopt;
    const bool is_product = computes(square, "mul");
    const bool same = std::all_of(inputs.begin(), inputs.end(),
                                  [&](const std::string& value) { return value == inputs[0]; });
    if (is_product && !same) return std::nullopt;
    return inputs[0];
  }

  // Follows operations on the reduced values to the one that scales `value`; adds them to `ops`.
  Index scaling_of(std::string_view value, std::size_t reduction, double reduced,
                   std::vector<std::size_t>& ops) const {
    std::size_t last = reduction;
    for (int step = 0; step < kMaxSmallSteps; ++step) {
      const Index next = graph_.sole_consumer(last);
      if (!next) return std::nullopt;
      if (computes_any(next, "div", "mul") && reads(*next, value)) return next;
      const auto* small = std::get_if<Elementwise>(&op(*next).body);
      if (small == nullptr || static_cast<double>(small->elements) > reduced) return std::nullopt;
      ops.push_back(*next);
      last = *next;
    }
    return std::nullopt;
  }

  // Multiplication with and addition of per-column weights behind a norm.
  void add_affine(std::size_t scaling, std::vector<std::size_t>& ops) const {
    std::size_t last = scaling;
    for (const std::string_view fn : {"mul", "add"}) {
      const Index next = graph_.sole_consumer(last);
      if (!computes(next, fn) || std::get<Elementwise>(op(*next).body).inputs != 1) return;
      ops.push_back(*next);
      last = *next;
    }
  }

  // The mean that the subtraction which made `value` took off.
  std::optional<std::pair<std::size_t, std::size_t>> centering_of(std::string_view value) const {
    const Index sub = graph_.producer(value);
    if (!computes(sub, "sub") || op(*sub).inputs.size() != 2) return std::nullopt;
    const Index mean = graph_.producer(op(*sub).inputs[1]);
    const bool centers = reduces(mean, "mean") && !op(*mean).inputs.empty() &&
                         op(*mean).inputs[0] == op(*sub).inputs[0];
    if (!centers) return std::nullopt;
    return std::pair(*mean, *sub);
  }

  std::optional<Decomposed> norm_at(std::size_t reduction, const Reduction& body) const {
    const Index square = graph_.producer_of(reduction);
    const auto value = squared_value(square);
    if (!value) return std::nullopt;
    std::vector<std::size_t> ops{*square, reduction};
    const Index scaling = scaling_of(*value, reduction, static_cast<double>(body.outputs), ops);
    if (!scaling) return std::nullopt;
    ops.push_back(*scaling);
    add_affine(*scaling, ops);
    const auto centering = centering_of(*value);
    if (centering) ops.insert(ops.end(), {centering->first, centering->second});
    std::sort(ops.begin(), ops.end());
    const NormKind kind = centering ? NormKind::layer : NormKind::rms;
    return Decomposed{Normalization{kind, body.outputs, body.elements / body.outputs},
                      std::move(ops)};
  }

  std::optional<Decomposed> softmax_at(std::size_t reduction, const Reduction& body) const {
    const Index exponential = graph_.producer_of(reduction);
    if (!computes(exponential, "exp") || op(*exponential).outputs.empty()) return std::nullopt;
    std::vector<std::size_t> ops{*exponential, reduction};
    const Index division =
        scaling_of(op(*exponential).outputs[0], reduction, static_cast<double>(body.outputs), ops);
    if (!division) return std::nullopt;
    ops.push_back(*division);
    const Index sub = graph_.producer_of(*exponential);
    if (computes(sub, "sub") && op(*sub).inputs.size() == 2) {
      const Index maximum = graph_.producer(op(*sub).inputs[1]);
      if (reduces(maximum, "max")) ops.insert(ops.end(), {*sub, *maximum});
    }
    std::sort(ops.begin(), ops.end());
    return Decomposed{Softmax{body.outputs, body.elements / body.outputs}, std::move(ops)};
  }

  const Workload& workload_;
  const Graph& graph_;
};

}  // namespace

std::vector<Decomposed> find_decomposed(const Workload& workload, const Graph& graph) {
  const Finder finder(workload, graph);
  std::vector<Decomposed> all;
  for (std::size_t op = 0; op < workload.ops.size(); ++op) {
    if (workload.ops[op].phase != Phase::forward) continue;
    if (auto found = finder.at_reduction(op)) all.push_back(*std::move(found));
  }
  return all;
}

}  // namespace rooftile
