// Fourier transforms.
#include <cmath>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

// The usual count of a complex transform of n points, 5 n log2 n; of real input half of it (Frigo
// and Johnson, "The Design and Implementation of FFTW3", 2005).
double transform_flop(double points, bool real) {
  return points < 2 ? 0 : (real ? 2.5 : 5.0) * points * std::log2(points);
}

Outcome add_transform(Conversion& c, const Node& node, double flop, double bytes) {
  constexpr double kLargest = 1e18;
  if (!(flop < kLargest && bytes < kLargest)) return Outcome::unknown_shape;
  c.add(node, Other{snake_case(node.op), std::llround(flop), std::llround(bytes)},
        c.simple_dtypes(node));
  return Outcome::done;
}

std::int64_t transform_axis(const Conversion& c, const Node& node) {
  const Value* axis = c.input(node, 2);  // since opset 20; an attribute before
  if (axis != nullptr && axis->has_numbers && axis->numbers.size() == 1) {
    return static_cast<std::int64_t>(axis->numbers[0]);
  }
  return int_attribute(node, "axis", node.opset >= 20 ? -2 : 1);
}

}  // namespace

// [.., n, 1 or 2] along one axis: real or complex numbers in the last one.
Outcome convert_dft(Conversion& c, const Node& node) {
  const auto in = c.input_shape(node, 0);
  const auto out = c.output_shape(node, 0);
  if (!in || !out || in->size() < 2) return Outcome::unknown_shape;
  const auto axis = normal_axis(transform_axis(c, node), in->size());
  if (!axis || *axis + 1 >= in->size()) return Outcome::unknown_shape;
  const auto points = static_cast<double>((*in)[*axis]);
  const auto complex_width = static_cast<double>(in->back());
  const double lines = onnx_format::element_count(*in) / points / complex_width;
  return add_transform(c, node, lines * transform_flop(points, in->back() == 1),
                       c.bytes(c.input(node, 0)) + c.bytes(c.output(node, 0)));
}

// STFT(signal [batch, length, 1 or 2], step, window, frame length) -> [batch, frames, bins, 2]: the
// frames times the window are written, then transformed.
Outcome convert_stft(Conversion& c, const Node& node) {
  const auto signal = c.input_shape(node, 0);
  const auto out = c.output_shape(node, 0);
  if (!signal || !out || out->size() != 4 || signal->size() < 2) return Outcome::unknown_shape;
  const bool real = signal->size() == 2 || signal->back() == 1;
  // One-sided: n/2 + 1 bins.
  const std::int64_t bins = (*out)[2];
  const Value* length = c.input(node, 3);
  const auto window = c.input_shape(node, 2);
  double points = static_cast<double>(real ? 2 * (bins - 1) : bins);
  if (window && window->size() == 1) points = static_cast<double>((*window)[0]);
  if (length != nullptr && length->has_numbers && length->numbers.size() == 1) {
    points = length->numbers[0];
  }
  const double frames = static_cast<double>((*out)[0]) * static_cast<double>((*out)[1]);
  const double framed = frames * points * (real ? 1 : 2);
  const double framed_bytes = storage(framed, c.dtype(c.input(node, 0))).value();
  return add_transform(c, node, framed + frames * transform_flop(points, real),
                       c.bytes(c.input(node, 0)) + 2 * framed_bytes + c.bytes(c.output(node, 0)));
}

}  // namespace rooftile::onnx_reader_detail
