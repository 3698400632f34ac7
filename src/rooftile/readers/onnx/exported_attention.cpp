#include "rooftile/readers/onnx/exported_attention.h"

#include <cmath>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/names.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::ints_attribute;
using onnx_format::kNoValue;
using onnx_format::Node;
using onnx_format::Shape;
using onnx_format::ValueId;
using Index = std::int32_t;

constexpr std::string_view kCall = "scaled_dot_product";

enum class Role { query, key, value };

class AttentionFinder {
 public:
  AttentionFinder(const PatternGraph& graph, Index softmax) : graph_(graph), softmax_(softmax) {}

  std::optional<ExportedCall> run() {
    if (!find_values() || !find_scores() || !is_library_call()) return {};
    call_.nodes.insert(call_.nodes.end(), {scores_, softmax_, values_});
    const ValueId q = unwrap(graph_.input(scores_, 0), Role::query);
    const ValueId k = unwrap(graph_.input(scores_, 1), Role::key);
    const ValueId v = unwrap(graph_.input(values_, 1), Role::value);
    if (!set_sizes(k)) return {};
    call_.reads = {q, k, v};
    if (mask_ != kNoValue) call_.reads.push_back(mask_);
    follow_result();
    call_.name = "scaled_dot_product_attention";
    call_.named_after = values_;
    return std::move(call_);
  }

 private:
  void take(Index node) { call_.nodes.push_back(node); }

  // Dropout in inference and casts, which the fused kernel does on the way.
  ValueId skip_down(ValueId id) {
    for (Index next = graph_.reader(id); graph_.is_any(next, {"Dropout", "Identity", "Cast"});
         next = graph_.reader(id)) {
      take(next);
      id = graph_.output(next);
    }
    return id;
  }

  // Where(IsNaN(weights), 0, weights): rows that see no key.
  ValueId skip_empty_rows(ValueId id) {
    if (id == kNoValue || graph_.value(id).consumers.size() != 2) return id;
    Index check = graph_.value(id).consumers[0], choice = graph_.value(id).consumers[1];
    if (!graph_.is(check, "IsNaN")) std::swap(check, choice);
    const bool fits = graph_.is(check, "IsNaN") && graph_.is(choice, "Where") &&
                      graph_.input(choice, 0) == graph_.output(check) &&
                      graph_.input(choice, 2) == id;
    if (!fits) return id;
    take(check);
    take(choice);
    return graph_.output(choice);
  }

  bool find_values() {
    const ValueId weights = skip_down(skip_empty_rows(graph_.output(softmax_)));
    values_ = graph_.reader(weights);
    return graph_.is(values_, "MatMul") && graph_.input(values_, 0) == weights &&
           graph_.is_activation(graph_.input(values_, 1));
  }

  bool find_scores() {
    ValueId id = graph_.input(softmax_, 0);
    Index above = graph_.producer(id);
    // What others read as well is no part of the call.
    while (graph_.is_any(above, {"Cast", "Identity"}) && graph_.reader(id) >= 0) {
      take(above);
      id = graph_.input(above, 0);
      above = graph_.producer(id);
    }
    if (graph_.is(above, "Add")) {
      take(above);
      const bool second = graph_.is(graph_.producer(graph_.input(above, 1)), "MatMul");
      const ValueId product = graph_.input(above, second ? 1 : 0);
      find_mask(graph_.other_input(above, product));
      above = graph_.producer(product);
    }
    scores_ = above;
    return graph_.is(scores_, "MatMul") && graph_.is_activation(graph_.input(scores_, 0)) &&
           graph_.is_activation(graph_.input(scores_, 1));
  }

  // Where(mask, 0, -inf) makes numbers of a boolean mask; of is_causal, the triangle before it is
  // the exporter's as well.
  void find_mask(ValueId added) {
    mask_ = added;
    causal_ = added != kNoValue && graph_.value(added).hides_later_keys;
    const Index choice = graph_.producer(added);
    const bool converts = graph_.is(choice, "Where") && graph_.reader(added) >= 0 &&
                          graph_.is_scalar(graph_.input(choice, 1)) &&
                          graph_.is_scalar(graph_.input(choice, 2));
    if (!converts) return;
    take(choice);
    mask_ = graph_.input(choice, 0);
    for (const std::string_view op : {"Equal", "Trilu"}) {
      const Index above = graph_.producer(mask_);
      if (!graph_.is(above, op) || graph_.reader(mask_) < 0) return;
      take(above);
      mask_ = graph_.input(above, 0);
    }
  }

  bool scales(Index mul) const {
    return graph_.is(mul, "Mul") &&
           (graph_.is_scalar(graph_.input(mul, 0)) || graph_.is_scalar(graph_.input(mul, 1)));
  }

  ValueId factor_of(Index mul) const {
    return graph_.input(mul, graph_.is_scalar(graph_.input(mul, 1)) ? 1 : 0);
  }

  // Newer exporters name the call in the node's metadata or in the function that holds it; of the
  // older one, the form is the evidence.
  bool is_library_call() const {
    const Node& node = graph_.node(softmax_);
    const std::string call = library_call(node);
    if (!call.empty()) return contains(call, kCall);
    if (contains(node.name, kCall)) return true;
    const Index q = graph_.producer(graph_.input(scores_, 0));
    const Index k = graph_.producer(graph_.input(scores_, 1));
    if (!scales(q) || !scales(k)) return false;
    const auto a = graph_.scalar(factor_of(q)), b = graph_.scalar(factor_of(k));
    constexpr double kSame = 1e-3;  // one number, rounded to 16 bits at most
    return !a || !b || std::fabs(*a - *b) <= kSame * std::fabs(*b);
  }

  bool belongs_to_call(Index node) const {
    return contains(library_call(graph_.node(node)), kCall) ||
           contains(graph_.node(node).name, kCall);
  }

  // From an operand to what the call was given: its scale, the transpose of the keys, and
  // reorderings that are strides of a view to a fused kernel. Of those before the call, the one
  // that splits off the heads.
  ValueId unwrap(ValueId id, Role role) {
    bool split = false, turned = role != Role::key;
    for (bool first = true; graph_.reader(id) >= 0; first = false) {
      const Index above = graph_.producer(id);
      const bool scale = role != Role::value && first && scales(above);
      const bool turn = !turned && graph_.is(above, "Transpose") && swaps_last_two(perm_of(above));
      const bool own = graph_.is_any(above, {"Transpose", "Reshape", "Expand", "Unsqueeze"}) &&
                       belongs_to_call(above);
      const bool view = !split && (is_split(above) || unfolds_split(above));
      if (!scale && !turn && !own && !view) break;
      turned = turned || turn;
      split = split || (!own && is_split(above));
      take(above);
      id = graph_.input(above, scale && graph_.is_scalar(graph_.input(above, 0)) ? 1 : 0);
    }
    return id;
  }

  // nn.MultiheadAttention splits [length, batch·heads, size] and unfolds it to four axes.
  bool unfolds_split(Index reshape) const {
    const Index before = graph_.producer(graph_.input(reshape, 0));
    return graph_.is(reshape, "Reshape") && is_split(before) &&
           graph_.reader(graph_.input(reshape, 0)) == reshape;
  }

  // Keeps the elements of a head together, or turns the keys as well.
  bool is_split(Index node) const {
    if (!graph_.is(node, "Transpose")) return false;
    const Extents perm = perm_of(node);
    return keeps_last_axis(perm) || perm == Extents{0, 2, 3, 1};
  }

  Extents perm_of(Index transpose) const { return ints_attribute(graph_.node(transpose), "perm"); }

  // [batch, heads, queries, size] or [batch·heads, queries, size].
  bool set_sizes(ValueId key) {
    const auto& q = graph_.shape(graph_.input(scores_, 0));
    const auto& k = graph_.shape(graph_.input(scores_, 1));
    const auto& v = graph_.shape(graph_.input(values_, 1));
    const auto& whole_key = graph_.shape(key);
    if (!q || !k || !v || !whole_key || q->size() < 3 || q->size() > 4) return false;
    if (k->size() != q->size() || v->size() != q->size()) return false;
    const std::size_t rank = q->size();
    for (std::size_t i = 0; i + 2 < rank; ++i) {
      if ((*q)[i] != (*k)[i] || (*q)[i] != (*v)[i]) return false;
    }
    Attention body;
    body.batch = rank == 4 ? (*q)[0] : 1;
    body.heads = (*q)[rank - 3];
    body.query_len = (*q)[rank - 2];
    body.head_dim = (*q)[rank - 1];
    body.kv_len = (*k)[rank - 1];
    body.value_dim = (*v)[rank - 1];
    // Fewer heads of keys and values are repeated inside the call.
    const double repeated = onnx_format::element_count(*k) / onnx_format::element_count(*whole_key);
    body.kv_heads = repeated > 1
                        ? static_cast<std::int64_t>(static_cast<double>(body.heads) / repeated)
                        : body.heads;
    body.causal = causal_;
    call_.body = body;
    return body.kv_heads > 0;
  }

  // The fused kernel writes its result as the projection reads it.
  void follow_result() {
    call_.writes = graph_.output(values_);
    Index next = graph_.reader(call_.writes);
    const bool reshaped = graph_.is(next, "Reshape") &&
                          graph_.shape(call_.writes) == graph_.shape(graph_.output(next));
    const Index before = reshaped ? next : -1;
    if (reshaped) next = graph_.reader(graph_.output(next));
    if (!graph_.is(next, "Transpose")) return;
    if (perm_of(next) != Extents{0, 2, 1, 3}) return;
    if (before >= 0) take(before);
    take(next);
    call_.writes = graph_.output(next);
  }

  const PatternGraph& graph_;
  Index softmax_, scores_ = -1, values_ = -1;
  ValueId mask_ = kNoValue;
  bool causal_ = false;
  ExportedCall call_;
};

}  // namespace

std::optional<ExportedCall> find_exported_attention(const PatternGraph& graph, Index softmax) {
  return AttentionFinder(graph, softmax).run();
}

}  // namespace rooftile::onnx_reader_detail
