#include "rooftile/workload/rebatch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

constexpr double kMostBytes = 9e18;  // within 64 bits

// Changes the sizes of one operation that count samples.
struct ScaleSamples {
  std::int64_t from, to;

  bool holds_batch(std::int64_t size) const { return size % from == 0; }
  // Beyond the bounds of validate.h rather than beyond 64 bits.
  void grow(std::int64_t& size) const {
    const double grown = to_double(size / from) * to_double(to);
    size = grown > to_double(kMaxSize) ? kMaxSize + 1 : size / from * to;
  }
  bool scale(std::int64_t& size) const {
    if (!holds_batch(size)) return false;
    grow(size);
    return true;
  }

  void rows(Gemm& g) const {
    const std::int64_t before = g.m;
    if (!scale(g.m)) return;
    if (g.x_stride == before) g.x_stride = g.m;
  }
  void operator()(Gemm& g) const {
    if (!g.weight_is_parameter && scale(g.batch)) return;
    if (g.weight_is_parameter && g.batch > 1 && !holds_batch(g.m)) {
      // The tokens of each expert, rounded up.
      g.m = (g.m * to + from - 1) / from;
      return;
    }
    rows(g);
  }
  void operator()(Convolution& c) const { scale(c.n); }
  void operator()(Attention& a) const { scale(a.batch); }
  void operator()(Recurrent& r) const {
    scale(r.batch);
    if (r.tokens > 0) scale(r.tokens);
  }
  void operator()(Normalization& n) const { scale(n.rows); }
  void operator()(Softmax& s) const { scale(s.rows); }
  void operator()(Pooling& p) const { scale(p.n); }
  void operator()(Elementwise& e) const { scale(e.elements); }
  void operator()(Reduction& r) const {
    if (scale(r.elements)) scale(r.outputs);
  }
  void operator()(Embedding& e) const {
    scale(e.lookups);
    if (e.bags > 0) scale(e.bags);
  }
  void operator()(LayoutConversion& l) const { scale(l.elements); }
  void operator()(Cast& c) const {
    if (scale(c.elements)) scale(c.rows);
  }
  void operator()(Collective&) const {}     // of gradients, where a batch is stated
  void operator()(OptimizerStep&) const {}  // of weights
  void operator()(Other& o) const {
    scale(o.flop);
    scale(o.bytes);
  }
};

// Which copies and casts are of weights, by the values that they read: those of weights have no
// names. Values of the backward pass have none either; there it is a size that a weight has. Their
// sizes stay, though most hold the batch as a factor.
class WeightCopies {
 public:
  explicit WeightCopies(const Workload& workload)
      : knows_values_(
            std::ranges::any_of(workload.ops, [](const Op& op) { return !op.inputs.empty(); })) {}

  // Of the operations in their order.
  bool next(const Op& op) {
    const std::optional<std::int64_t> elements = copied(op);
    if (!elements || !knows_values_) return false;
    const bool is_weight = op.inputs.empty() && op.phase != Phase::forward
                               ? sizes_.contains(*elements)
                               : std::ranges::all_of(op.inputs, [&](const std::string& value) {
                                   return weights_.contains(value);
                                 });
    if (is_weight) {
      weights_.insert(op.outputs.begin(), op.outputs.end());
      sizes_.insert(*elements);
    }
    return is_weight;
  }

 private:
  static std::optional<std::int64_t> copied(const Op& op) {
    if (const auto* cast = std::get_if<Cast>(&op.body)) return cast->elements;
    if (const auto* copy = std::get_if<LayoutConversion>(&op.body)) return copy->elements;
    return std::nullopt;
  }

  bool knows_values_;
  std::unordered_set<std::string_view> weights_;
  std::unordered_set<std::int64_t> sizes_;
};

// A dense gradient of a table is written whole, whatever the batch.
std::int64_t bytes_of_weights(const Op& op) {
  const auto* e = std::get_if<Embedding>(&op.body);
  if (e == nullptr || op.phase == Phase::forward) return 0;
  const double table = to_double(e->vocab) * to_double(e->width) * size_in_bytes(op.dtypes.output);
  return table <= to_double(op.streams.bytes) ? static_cast<std::int64_t>(table) : 0;
}

// What was recorded of the operation's memory grows with its samples, too.
void scale_streams(const Op& before, double growth, Op& op) {
  if (op.body == before.body) return;
  const auto grown = [&](std::int64_t size) {
    return static_cast<std::int64_t>(std::min(std::ceil(to_double(size) * growth), kMostBytes));
  };
  const std::int64_t weights = bytes_of_weights(before);
  op.streams.bytes = weights + grown(before.streams.bytes - weights);
  op.streams.elements = grown(before.streams.elements);
}

constexpr std::int64_t kMaxBatch = std::int64_t{1} << 25;  // keeps products within 64 bits

}  // namespace

std::optional<Workload> at_batch(const Workload& workload, std::int64_t batch) {
  const std::int64_t now = workload.batch.value_or(0);
  if (now < 1 || now > kMaxBatch || batch < 1 || batch > kMaxBatch) return std::nullopt;
  Workload changed = workload;
  changed.batch = batch;
  for (auto* kept : {&changed.kv_cache_bytes, &changed.recurrent_state_bytes}) {
    if (*kept) **kept *= to_double(batch) / to_double(now);
  }
  if (changed.pass_memory) changed.pass_memory->activations *= to_double(batch) / to_double(now);
  const ScaleSamples scale{now, batch};
  WeightCopies weight_copies(workload);
  for (std::size_t i = 0; i < changed.ops.size(); ++i) {
    Op& op = changed.ops[i];
    if (weight_copies.next(workload.ops[i])) continue;
    std::visit(scale, op.body);
    scale_streams(workload.ops[i], to_double(batch) / to_double(now), op);
    op.measured.reset();
    if (find_invalid_dim(op)) return std::nullopt;
  }
  return changed;
}

}  // namespace rooftile
