#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/exported_pointwise.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;
using onnx_format::ValueId;

constexpr std::size_t kLstmGates = 4, kGruGates = 3;

// Collects the nodes of a cell while it follows its values.
class CellFinder {
 protected:
  CellFinder(const PatternGraph& graph, std::int32_t split) : graph_(graph), split_(split) {}

  // The result of the one node that reads the value, if it is this operator.
  ValueId result_of(ValueId id, std::string_view op) {
    const std::int32_t reader = graph_.reader(id);
    if (!graph_.is(reader, op)) return kNoValue;
    call_.nodes.push_back(reader);
    return graph_.output(reader);
  }

  ValueId common_result(ValueId a, ValueId b, std::string_view op) {
    const std::int32_t reader = graph_.reader(a);
    if (!graph_.is(reader, op) || graph_.other_input(reader, a) != b) return kNoValue;
    return result_of(a, op);
  }

  // Of a value with other readers: a state, which the next step and the network's output read.
  ValueId result_among(ValueId id, std::string_view op) {
    if (id == kNoValue) return kNoValue;
    for (const std::int32_t reader : graph_.value(id).consumers) {
      if (!graph_.is(reader, op)) continue;
      call_.nodes.push_back(reader);
      return graph_.output(reader);
    }
    return kNoValue;
  }

  // One kernel computes the cell from the products of the input and of the state.
  std::optional<ExportedCall> finish(std::string_view name) {
    const auto& gates = graph_.shape(graph_.input(split_, 0));
    if (call_.writes == kNoValue || !gates) return {};
    call_.nodes.push_back(split_);
    call_.name = name;
    call_.body = Elementwise{std::string(name), product(*gates), 2};
    return std::move(call_);
  }

  const PatternGraph& graph_;
  std::int32_t split_;
  ExportedCall call_;
};

// c' = sigmoid(f)*c + sigmoid(i)*tanh(g), h' = sigmoid(o)*tanh(c'), with the gates in PyTorch's
// order i, f, g, o.
class LstmCellFinder : CellFinder {
 public:
  LstmCellFinder(const PatternGraph& graph, std::int32_t split) : CellFinder(graph, split) {}

  std::optional<ExportedCall> run() {
    if (!find_sum()) return {};
    const ValueId input = gate(0, "Sigmoid"), forget = gate(1, "Sigmoid"), fresh = gate(2, "Tanh"),
                  output = gate(3, "Sigmoid");
    if (input == kNoValue || forget == kNoValue || fresh == kNoValue || output == kNoValue) {
      return {};
    }
    const ValueId written = common_result(input, fresh, "Mul");
    const ValueId kept = result_of(forget, "Mul");
    call_.state = common_result(written, kept, "Add");
    const ValueId squashed = result_among(call_.state, "Tanh");
    call_.writes = common_result(squashed, output, "Mul");
    return finish("lstm_cell");
  }

 private:
  // The sum of the two products, which the cell's kernel does as well.
  bool find_sum() {
    const std::int32_t add = graph_.producer(graph_.input(split_, 0));
    if (!graph_.is(add, "Add")) return false;
    call_.nodes.push_back(add);
    call_.reads = {graph_.input(add, 0), graph_.input(add, 1)};
    return true;
  }

  ValueId gate(std::size_t index, std::string_view activation) {
    return result_of(graph_.node(split_).outputs[index], activation);
  }
};

// n = tanh(i + sigmoid(r)*s), h' = (h - n)*sigmoid(z) + n, where r, z and the last are gates of the
// input and of the state; those of r and z are added.
class GruCellFinder : CellFinder {
 public:
  GruCellFinder(const PatternGraph& graph, std::int32_t split) : CellFinder(graph, split) {}

  std::optional<ExportedCall> run() {
    const ValueId reset = gate(0), update = gate(1);
    if (reset == kNoValue || update == kNoValue) return {};
    const ValueId fresh = fresh_state(reset);
    const ValueId change = result_among(fresh, "Sub");
    const ValueId state = graph_.input(graph_.producer(change), 0);
    if (state == kNoValue || graph_.input(graph_.producer(change), 1) != fresh) return {};
    const ValueId kept = common_result(change, update, "Mul");
    call_.writes = common_result(kept, fresh, "Add");
    call_.nodes.push_back(other_);
    call_.reads = {graph_.input(split_, 0), graph_.input(other_, 0), state};
    return finish("gru_cell");
  }

 private:
  ValueId part(std::int32_t split, std::size_t index) const {
    return graph_.node(split).outputs[index];
  }

  // sigmoid(a + b) of the parts of both splits; the first gate finds the other split.
  ValueId gate(std::size_t index) {
    const ValueId own = part(split_, index);
    const ValueId theirs = graph_.other_input(graph_.reader(own), own);
    const std::int32_t split = graph_.producer(theirs);
    if (!graph_.is(split, "Split") || graph_.node(split).outputs.size() != kGruGates ||
        split == split_ || part(split, index) != theirs || (other_ >= 0 && split != other_)) {
      return kNoValue;
    }
    other_ = split;
    return result_of(common_result(own, theirs, "Add"), "Sigmoid");
  }

  // The reset gate scales the state's part, whichever of the splits has it.
  ValueId fresh_state(ValueId reset) {
    const ValueId scaled = graph_.other_input(graph_.reader(reset), reset);
    const bool own = scaled == part(split_, 2);
    if (!own && scaled != part(other_, 2)) return kNoValue;
    const ValueId product = common_result(reset, scaled, "Mul");
    return result_of(common_result(product, part(own ? other_ : split_, 2), "Add"), "Tanh");
  }

  std::int32_t other_ = -1;
};

}  // namespace

std::optional<ExportedCall> find_exported_cell(const PatternGraph& graph, std::int32_t split) {
  const std::size_t gates = graph.node(split).outputs.size();
  if (gates == kLstmGates) return LstmCellFinder(graph, split).run();
  return gates == kGruGates ? GruCellFinder(graph, split).run() : std::nullopt;
}

}  // namespace rooftile::onnx_reader_detail
