// LSTM, GRU and RNN: X [seq, batch, input], W [directions, gates·hidden, input], R, B, lengths.
#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

Cell cell_of(const Node& node) {
  if (node.op.ends_with("LSTM")) return Cell::lstm;
  if (node.op == "GRU") return Cell::gru;
  const auto activations = strings_attribute(node, "activations");
  return !activations.empty() && activations[0] == "Relu" ? Cell::rnn_relu : Cell::rnn_tanh;
}

std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

}  // namespace

Outcome convert_recurrent(Conversion& c, const Node& node) {
  const auto x = c.input_shape(node, 0);
  const auto w = c.input_shape(node, 1);
  if (!x || !w || x->size() != 3 || w->size() != 3) return Outcome::unknown_shape;
  Recurrent rnn;
  rnn.cell = cell_of(node);
  const bool batch_first = int_attribute(node, "layout", 0) != 0;
  rnn.seq = (*x)[batch_first ? 1 : 0];
  rnn.batch = (*x)[batch_first ? 0 : 1];
  rnn.input = (*x)[2];
  // DynamicQuantizeLSTM stores its weight as [directions, input, 4·hidden].
  const std::int64_t rows = node.op == "DynamicQuantizeLSTM" ? (*w)[2] : (*w)[1];
  rnn.hidden = int_attribute(node, "hidden_size", rows / gates_of(rnn.cell));
  rnn.directions = (*w)[0];
  rnn.bias = c.input(node, 3) != nullptr;
  const Value* lengths = c.input(node, 4);
  // Lengths that are all equal to the sequence pack nothing.
  rnn.packed = lengths != nullptr && !lengths->has_numbers && !c.is_constant(node, 4);
  c.add(node, rnn, c.matrix_dtypes(node, 0, 1));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
