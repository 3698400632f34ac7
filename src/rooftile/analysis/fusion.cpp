#include "rooftile/analysis/fusion.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "rooftile/analysis/cost.h"

namespace rooftile {
namespace {

// Elements of the full-size tensor an operation passes over; 0 for those that do not fuse.
double fusible_elements(const Op& op) {
  if (op.phase != Phase::forward) return 0;
  if (const auto* elementwise = std::get_if<Elementwise>(&op.body)) {
    return to_double(elementwise->elements);
  }
  if (const auto* cast = std::get_if<Cast>(&op.body)) return to_double(cast->elements);
  if (const auto* softmax = std::get_if<Softmax>(&op.body)) {
    return to_double(softmax->rows) * to_double(softmax->cols);
  }
  const auto* norm = std::get_if<Normalization>(&op.body);
  return norm != nullptr ? to_double(norm->rows) * to_double(norm->cols) : 0;
}

bool needs_whole_input(const Op& op) {
  const auto* norm = std::get_if<Normalization>(&op.body);
  return norm != nullptr && norm->fn != NormKind::layer && norm->fn != NormKind::rms;
}

// Union-find over the operations.
class Groups {
 public:
  explicit Groups(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  std::size_t root(std::size_t op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }
  void join(std::size_t a, std::size_t b) { parent_[root(b)] = root(a); }

 private:
  std::vector<std::size_t> parent_;
};

class FusionSearch {
 public:
  FusionSearch(const Workload& workload, const Graph& graph, const std::vector<bool>& excluded)
      : ops_(workload.ops),
        graph_(graph),
        excluded_(excluded),
        groups_(workload.ops.size()),
        stages_(workload.ops.size()),
        saved_(workload.ops.size()) {
    find_stages();
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (is_fusible(op)) visit(op);
    }
  }

  std::vector<FusibleRun> runs() {
    std::map<std::size_t, FusibleRun> by_root;
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (!is_fusible(op)) continue;
      FusibleRun& run = by_root[groups_.root(op)];
      const Bytes bytes = count_cost(ops_[op]).bytes;
      run.ops.push_back(op);
      run.before += bytes;
      run.after += std::max(Bytes(0), bytes - saved_[op]);
    }
    std::vector<FusibleRun> all;
    for (auto& [root, run] : by_root) {
      if (run.ops.size() > 1) all.push_back(std::move(run));
    }
    return all;
  }

 private:
  bool is_fusible(std::size_t op) const { return !excluded_[op] && fusible_elements(ops_[op]) > 0; }

  // Operations of one stage depend on each other through fusible operations alone, so they can
  // share a kernel; a residual add and the product it waits for cannot.
  void find_stages() {
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      for (const std::string& value : ops_[op].inputs) {
        const auto producer = graph_.producer(value);
        if (!producer || *producer >= op) continue;
        const bool ends_stage = !is_fusible(*producer) || needs_whole_input(ops_[op]);
        stages_[op] = std::max(stages_[op], stages_[*producer] + (ends_stage ? 1u : 0u));
      }
    }
  }

  // A value of about full size that stays in registers between the two.
  bool passes_on(std::size_t producer, std::size_t reader) const {
    if (!is_fusible(reader) || stages_[producer] != stages_[reader]) return false;
    const double written = fusible_elements(ops_[producer]);
    const double read = fusible_elements(ops_[reader]);
    return ops_[producer].count == ops_[reader].count && 2 * written > read && written <= 2 * read;
  }

  // Takes a value of full size element by element: a reduction too, but no product.
  bool reads_elements(std::size_t reader, double elements) const {
    const Op& op = ops_[reader];
    double read = is_fusible(reader) ? fusible_elements(op) : 0;
    if (const auto* reduction = std::get_if<Reduction>(&op.body)) {
      read = to_double(reduction->elements);
    } else if (const auto* pool = std::get_if<Pooling>(&op.body)) {
      // Over the whole image it is a mean.
      if (pool->kernel == pool->input && pool->fn == PoolKind::average) read = read_elements(*pool);
    }
    return read == elements && op.phase == Phase::forward && !needs_whole_input(op);
  }

  static double read_elements(const Pooling& pool) {
    double elements = to_double(pool.n) * to_double(pool.c);
    for (const std::int64_t size : pool.input) elements *= to_double(size);
    return elements;
  }

  // An activation whose readers cannot share a kernel, as the mean and the scaling of
  // squeeze-and-excitation: each computes it again from what it reads, and nobody writes it.
  // Source: PyTorch Inductor keeps a pointwise value of few reads unrealized, however many readers
  // it has (torch/_inductor/ir.py, should_realize_on_reuse).
  bool is_computed_by_readers(std::size_t op) const {
    const auto* activation = std::get_if<Elementwise>(&ops_[op].body);
    if (activation == nullptr || activation->inputs != 1 || ops_[op].outputs.size() != 1) {
      return false;
    }
    const auto& readers = graph_.consumers(ops_[op].outputs.front());
    const double elements = fusible_elements(ops_[op]);
    const bool all = std::ranges::all_of(readers, [&](std::size_t reader) {
      return reader > op && ops_[reader].count == ops_[op].count &&
             reads_elements(reader, elements);
    });
    return all && std::ranges::any_of(readers, [&](std::size_t reader) {
             return is_fusible(reader) && stages_[reader] != stages_[op];
           });
  }

  void fold_into_readers(std::size_t op) {
    for (const std::size_t reader : graph_.consumers(ops_[op].outputs.front())) {
      if (is_fusible(reader)) groups_.join(op, reader);
    }
    saved_[op] += count_cost(ops_[op]).bytes;
  }

  void visit(std::size_t op) {
    if (is_computed_by_readers(op)) return fold_into_readers(op);
    bool any = false, all = true;
    const double elements = fusible_elements(ops_[op]);
    for (const std::string& value : ops_[op].outputs) {
      for (const std::size_t reader : graph_.consumers(value)) {
        const bool fuses = reader > op && passes_on(op, reader);
        all = all && fuses;
        if (!fuses) continue;
        any = true;
        groups_.join(op, reader);
        saved_[reader] += storage(elements, ops_[reader].dtypes.input);
      }
    }
    if (any && all) saved_[op] += storage(elements, ops_[op].dtypes.output);
  }

  const std::vector<Op>& ops_;
  const Graph& graph_;
  const std::vector<bool>& excluded_;
  Groups groups_;
  std::vector<unsigned> stages_;
  std::vector<Bytes> saved_;
};

}  // namespace

std::vector<FusibleRun> find_fusible_runs(const Workload& workload, const Graph& graph,
                                          const std::vector<bool>& excluded) {
  return FusionSearch(workload, graph, excluded).runs();
}

}  // namespace rooftile
