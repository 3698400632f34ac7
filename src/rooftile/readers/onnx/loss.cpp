// Losses: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss on scores [n, classes, ..].
#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

// Of [n, classes, ..]: how many samples and positions are classified.
std::optional<std::int64_t> rows_of(const std::optional<Shape>& scores) {
  if (!scores || scores->size() < 2) return {};
  return product(*scores) / (*scores)[1];
}

}  // namespace

// One kernel makes log-probabilities of the scores, which the gradient needs; picking those of the
// labels reads one number of each row.
Outcome convert_cross_entropy(Conversion& c, const Node& node) {
  const auto scores = c.input_shape(node, 0);
  const auto rows = rows_of(scores);
  if (!rows) return Outcome::unknown_shape;
  c.add(node, Softmax{*rows, (*scores)[1]}, Dtypes(c.dtype(c.input(node, 0))));
  return Outcome::done;
}

Outcome convert_nll_loss(Conversion& c, const Node& node) {
  const auto rows = rows_of(c.input_shape(node, 0));
  const auto out = c.output_shape(node, 0);
  if (!rows || !out) return Outcome::unknown_shape;
  c.add(node, Reduction{"nll_loss", *rows, product(*out)}, c.simple_dtypes(node));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
