// Einsum of two operands as a batched product, of one as a copy or a reduction.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

// "bhqd,bhkd->bhqk" as labels per axis; an ellipsis becomes capital letters from the right.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

std::string expand(const std::string& term, std::size_t rank) {
  const std::size_t dots = term.find("...");
  if (dots == std::string::npos) return term;
  const std::size_t named = term.size() - 3;
  std::string hidden;
  for (std::size_t i = named; i < rank; ++i) {
    hidden.insert(hidden.begin(), static_cast<char>('\x01' + static_cast<char>(i - named)));
  }
  return term.substr(0, dots) + hidden + term.substr(dots + 3);
}

std::optional<Equation> parse(std::string text, const std::vector<Shape>& shapes) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos) return {};
  Equation equation;
  std::size_t longest = 0;
  std::string left = text.substr(0, arrow);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const std::string term = left.substr(0, comma);
    equation.inputs.push_back(expand(term, shapes[i].size()));
    if (equation.inputs.back().size() != shapes[i].size()) return {};
    if (term.find("...") != std::string::npos) {
      longest = std::max(longest, shapes[i].size() + 3 - term.size());
    }
    left = comma < left.size() ? left.substr(comma + 1) : std::string();
  }
  if (!left.empty()) return {};
  const std::string right = text.substr(arrow + 2);
  const bool dots = right.find("...") != std::string::npos;
  equation.output = expand(right, dots ? right.size() - 3 + longest : right.size());
  return equation;
}

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Product over the labels of `labels` that satisfy `wanted`.
template <class Wanted>
std::int64_t size_of(const std::string& labels, const std::map<char, std::int64_t>& sizes,
                     Wanted wanted) {
  std::int64_t result = 1;
  for (const char label : labels) {
    if (wanted(label)) result = bounded_product(result, sizes.at(label));
  }
  return result;
}

std::optional<Gemm> make_gemm(const std::string& a, const std::string& b, const std::string& out,
                              const std::map<char, std::int64_t>& sizes) {
  for (const char label : a) {
    if (!has(b, label) && !has(out, label)) return {};  // summed over one operand alone
  }
  for (const char label : b) {
    if (!has(a, label) && !has(out, label)) return {};
  }
  Gemm gemm;
  gemm.batch = size_of(a, sizes, [&](char l) { return has(b, l) && has(out, l); });
  gemm.k = size_of(a, sizes, [&](char l) { return has(b, l) && !has(out, l); });
  gemm.m = size_of(a, sizes, [&](char l) { return !has(b, l); });
  gemm.n = size_of(b, sizes, [&](char l) { return !has(a, l); });
  const bool x_transposed = !a.empty() && !has(b, a.back());
  const bool w_transposed = !b.empty() && has(a, b.back()) && !has(out, b.back());
  gemm.layout = x_transposed ? (w_transposed ? GemmLayout::tt : GemmLayout::tn)
                             : (w_transposed ? GemmLayout::nt : GemmLayout::nn);
  return gemm;
}

Outcome convert_single(Conversion& c, const Node& node, const Equation& equation,
                       const Shape& shape) {
  const auto out = c.output_shape(node, 0);
  if (!out) return Outcome::unknown_shape;
  if (equation.output.size() < equation.inputs[0].size()) {
    c.add(node, Reduction{"sum", product(shape), product(*out)}, c.simple_dtypes(node));
  } else {
    c.add(node, LayoutConversion{product(shape), {}}, c.simple_dtypes(node));
  }
  return Outcome::done;
}

}  // namespace

Outcome convert_einsum(Conversion& c, const Node& node) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto shape = c.input_shape(node, i);
    if (!shape) return Outcome::unknown_shape;
    shapes.push_back(*shape);
  }
  if (shapes.empty() || shapes.size() > 2) return Outcome::unsupported;
  const auto equation = parse(string_attribute(node, "equation", ""), shapes);
  if (!equation) return Outcome::unsupported;
  if (shapes.size() == 1) return convert_single(c, node, *equation, shapes[0]);
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      std::int64_t& size = sizes[equation->inputs[i][axis]];
      size = std::max(size, shapes[i][axis]);
    }
  }
  // A weight on the left is the product's second operand.
  const bool swap = c.is_constant(node, 0) && !c.is_constant(node, 1);
  const std::size_t x = swap ? 1 : 0;
  auto gemm = make_gemm(equation->inputs[x], equation->inputs[1 - x], equation->output, sizes);
  if (!gemm) return Outcome::unsupported;
  gemm->weight_is_parameter = c.is_constant(node, 1 - x);
  c.add(node, *gemm, c.matrix_dtypes(node, x, 1 - x));
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
