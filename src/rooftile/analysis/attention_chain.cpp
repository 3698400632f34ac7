#include "rooftile/analysis/attention_chain.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace rooftile {
namespace {

// Scale, mask, cast and dropout; a longer way is something else.
constexpr int kMaxSteps = 6;
// A mask makes two, a fused scale three; more inputs would only cost time on odd graphs.
constexpr std::size_t kMaxInputs = 3;

const Gemm* activation_product(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && !gemm->weight_is_parameter ? gemm : nullptr;
}

bool is_pointwise(const Op& op) {
  return std::holds_alternative<Elementwise>(op.body) || std::holds_alternative<Cast>(op.body);
}

// The product above the softmax, and what lies between. A mask is an operand as well, so each input
// of a pointwise operation is tried.
std::optional<std::size_t> find_scores(const Workload& workload, const Graph& graph,
                                       std::size_t from, int steps,
                                       std::vector<std::size_t>& between) {
  const std::size_t inputs = std::min(workload.ops[from].inputs.size(), kMaxInputs);
  for (std::size_t input = 0; input < inputs; ++input) {
    const std::optional<std::size_t> producer = graph.producer_of(from, input);
    if (!producer || *producer == from) continue;
    const Op& op = workload.ops[*producer];
    if (activation_product(op) != nullptr) return producer;
    if (steps == 0 || !is_pointwise(op)) continue;
    if (const auto found = find_scores(workload, graph, *producer, steps - 1, between)) {
      between.push_back(*producer);
      return found;
    }
  }
  return std::nullopt;
}

// The one reader of the operation's result; of two, a choice that depends on whether it is NaN.
std::optional<std::size_t> next_of(const Workload& workload, const Graph& graph, std::size_t op,
                                   std::vector<std::size_t>& between) {
  if (const auto only = graph.sole_consumer(op)) return only;
  if (workload.ops[op].outputs.size() != 1) return std::nullopt;
  const auto& readers = graph.consumers(workload.ops[op].outputs.front());
  if (readers.size() != 2) return std::nullopt;
  const std::size_t check = readers[0], choice = readers[1];
  const auto is_fn = [&](std::size_t reader, std::string_view fn) {
    const auto* elementwise = std::get_if<Elementwise>(&workload.ops[reader].body);
    return elementwise != nullptr && elementwise->fn == fn;
  };
  const bool fits =
      is_fn(check, "is_nan") && is_fn(choice, "where") && graph.sole_consumer(check) == choice;
  if (!fits) return std::nullopt;
  between.push_back(check);
  return choice;
}

std::optional<std::size_t> find_values(const Workload& workload, const Graph& graph,
                                       std::size_t from, std::vector<std::size_t>& between) {
  std::optional<std::size_t> next = next_of(workload, graph, from, between);
  for (int step = 0; next && step <= kMaxSteps; ++step) {
    const Op& op = workload.ops[*next];
    if (activation_product(op) != nullptr) return next;
    if (!is_pointwise(op)) return std::nullopt;
    between.push_back(*next);
    next = graph.sole_consumer(*next);
  }
  return std::nullopt;
}

bool fit_together(const Gemm& scores, const Softmax& softmax, const Gemm& values) {
  return scores.n == softmax.cols && values.k == softmax.cols && scores.m == values.m &&
         scores.batch == values.batch;
}

std::optional<AttentionChain> chain_at(const Workload& workload, const Graph& graph,
                                       std::size_t softmax) {
  AttentionChain chain;
  chain.softmax = softmax;
  const auto scores = find_scores(workload, graph, softmax, kMaxSteps, chain.ops);
  const auto values = find_values(workload, graph, softmax, chain.ops);
  if (!scores || !values) return std::nullopt;
  const Gemm& first = *activation_product(workload.ops[*scores]);
  const Gemm& second = *activation_product(workload.ops[*values]);
  if (!fit_together(first, std::get<Softmax>(workload.ops[softmax].body), second)) {
    return std::nullopt;
  }
  chain.scores = *scores;
  chain.values = *values;
  chain.ops.insert(chain.ops.end(), {*scores, softmax, *values});
  std::sort(chain.ops.begin(), chain.ops.end());
  chain.attention = {.batch = 1,
                     .heads = first.batch,
                     .kv_heads = first.batch,
                     .query_len = first.m,
                     .kv_len = first.n,
                     .head_dim = first.k,
                     .value_dim = second.n};
  return chain;
}

}  // namespace

std::vector<AttentionChain> find_attention_chains(const Workload& workload, const Graph& graph) {
  std::vector<AttentionChain> chains;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.phase != Phase::forward || !std::holds_alternative<Softmax>(op.body)) continue;
    if (std::optional<AttentionChain> chain = chain_at(workload, graph, i)) {
      chains.push_back(std::move(*chain));
    }
  }
  return chains;
}

}  // namespace rooftile
