#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/readers/onnx/exported_pointwise.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::kNoValue;
using onnx_format::ValueId;

constexpr std::size_t kLstmGates = 4;

// c' = sigmoid(f)*c + sigmoid(i)*tanh(g), h' = sigmoid(o)*tanh(c'), with the gates in PyTorch's
// order i, f, g, o.
class LstmCellFinder {
 public:
  LstmCellFinder(const PatternGraph& graph, std::int32_t split) : graph_(graph), split_(split) {}

  std::optional<ExportedCall> run() {
    if (graph_.node(split_).outputs.size() != kLstmGates || !find_sum()) return {};
    const ValueId input = gate(0, "Sigmoid"), forget = gate(1, "Sigmoid"), fresh = gate(2, "Tanh"),
                  output = gate(3, "Sigmoid");
    if (input == kNoValue || forget == kNoValue || fresh == kNoValue || output == kNoValue) {
      return {};
    }
    const ValueId written = common_result(input, fresh, "Mul");
    const ValueId kept = result_of(forget, "Mul");
    call_.state = common_result(written, kept, "Add");
    const ValueId squashed = reader_with(call_.state, "Tanh");
    call_.writes = common_result(squashed, output, "Mul");
    const auto& gates = graph_.shape(graph_.input(split_, 0));
    if (call_.writes == kNoValue || !gates) return {};
    call_.nodes.push_back(split_);
    call_.name = "lstm_cell";
    call_.body = Elementwise{std::string(call_.name), product(*gates), 2};
    return std::move(call_);
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

  // The state has other readers: the next step, or the network's output.
  ValueId reader_with(ValueId id, std::string_view op) {
    if (id == kNoValue) return kNoValue;
    for (const std::int32_t reader : graph_.value(id).consumers) {
      if (!graph_.is(reader, op)) continue;
      call_.nodes.push_back(reader);
      return graph_.output(reader);
    }
    return kNoValue;
  }

  const PatternGraph& graph_;
  std::int32_t split_;
  ExportedCall call_;
};

}  // namespace

std::optional<ExportedCall> find_exported_cell(const PatternGraph& graph, std::int32_t split) {
  return LstmCellFinder(graph, split).run();
}

}  // namespace rooftile::onnx_reader_detail
