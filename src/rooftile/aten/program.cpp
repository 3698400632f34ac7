#include "rooftile/aten/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "rooftile/aten/arguments.h"
#include "rooftile/aten/operator.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

constexpr std::string_view kPrefix = "aten::";
constexpr std::size_t kMostUnknown = 256;  // names

// Write their results and read nothing, or next to nothing.
constexpr std::string_view kFills[] = {"arange",
                                       "bernoulli",
                                       "eye",
                                       "full",
                                       "full_like",
                                       "linspace",
                                       "new_full",
                                       "new_ones",
                                       "new_zeros",
                                       "nll_loss_backward",
                                       "nll_loss2d_backward",
                                       "normal",
                                       "ones",
                                       "ones_like",
                                       "rand",
                                       "rand_like",
                                       "randint",
                                       "randint_like",
                                       "randn",
                                       "randn_like",
                                       "randperm",
                                       "scalar_tensor",
                                       "tril_indices",
                                       "triu_indices",
                                       "zeros",
                                       "zeros_like"};

// Copy elements of their first argument to other places, or their gradients do.
constexpr std::string_view kMoves[] = {"_reshape_copy",
                                       "_to_copy",
                                       "as_strided_scatter",
                                       "as_strided_copy",
                                       "col2im",
                                       "constant_pad_nd",
                                       "diag_embed",
                                       "diagonal_backward",
                                       "diagonal_copy",
                                       "expand_copy",
                                       "flip",
                                       "im2col",
                                       "pixel_shuffle",
                                       "pixel_unshuffle",
                                       "reflection_pad1d",
                                       "reflection_pad1d_backward",
                                       "reflection_pad2d",
                                       "reflection_pad2d_backward",
                                       "repeat",
                                       "repeat_interleave",
                                       "replication_pad1d",
                                       "replication_pad1d_backward",
                                       "replication_pad2d",
                                       "replication_pad2d_backward",
                                       "replication_pad3d",
                                       "roll",
                                       "rot90",
                                       "select_backward",
                                       "select_scatter",
                                       "slice_backward",
                                       "slice_scatter",
                                       "split_with_sizes_copy",
                                       "unfold_backward",
                                       "unfold_copy",
                                       "view_copy"};

template <std::size_t kCount>
bool is_in(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string_view short_name(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

struct Written {
  double elements = 0, bytes = 0;
  std::optional<Dtype> dtype;  // of the largest
};

// Nothing where a size is out of bounds or a type unknown.
std::optional<Written> written_by(const ProgramCall& call) {
  Written sum;
  double most = -1;
  for (std::size_t i = 0; i < call.results.size() && i < call.result_types.size(); ++i) {
    const auto dtype = aten_detail::parse_type(call.result_types[i]);
    const double elements = element_count(call.results[i]);
    if (!dtype || elements < 0 || elements > kMaxElements) return std::nullopt;
    sum.elements += elements;
    sum.bytes += elements * size_in_bytes(*dtype);
    if (elements > most) sum.dtype = dtype;
    most = std::max(most, elements);
  }
  return sum;
}

Op pass_over(std::string_view fn, double elements, double inputs, Dtype dtype, double bytes) {
  Op op;
  op.body = Elementwise{std::string(fn), std::max<std::int64_t>(1, std::llround(elements)),
                        static_cast<std::int64_t>(inputs)};
  op.dtypes = Dtypes(dtype);
  op.streams.bytes = std::max<std::int64_t>(1, std::llround(bytes));
  return op;
}

// Whether all that is read and written are single numbers: a launch and no more.
bool is_scalar_work(const ProgramCall& call) {
  const auto is_single = [](const Extents& dims) { return element_count(dims) <= 1; };
  return !call.results.empty() && std::ranges::all_of(call.arguments.dims, is_single) &&
         std::ranges::all_of(call.results, is_single);
}

bool is_empty_work(const ProgramCall& call) {
  const auto is_empty = [](const Extents& dims) {
    return std::ranges::find(dims, 0) != dims.end();
  };
  return !call.results.empty() && std::ranges::all_of(call.results, is_empty);
}

// By what it writes.
std::optional<Op> described_by_results(const ProgramCall& call) {
  const std::string_view name = short_name(call.name);
  const auto written = written_by(call);
  if (!written || written->elements > to_double(kMaxSize) || written->bytes > to_double(kMaxSize)) {
    return std::nullopt;
  }
  const Dtype dtype = written->dtype.value_or(Dtype::fp32);
  if (is_in(kFills, name)) return pass_over(name, written->elements, 0, dtype, written->bytes);
  if (is_in(kMoves, name)) {
    const aten_detail::Arguments arguments(call.arguments);
    const auto source = arguments.tensor(0);
    // No more than the result holds is read.
    double read = written->bytes;
    if (source) read = std::min(read, to_double(source->elements()) * size_in_bytes(source->dtype));
    return pass_over(name, written->elements, 1, dtype, written->bytes + read);
  }
  if (is_scalar_work(call)) return pass_over(name, 1, 1, dtype, 1);
  return std::nullopt;
}

// Bytes of an operation that reads and writes as in a forward pass, whatever pass it runs in.
std::int64_t bytes_in_forward(const Op& op) {
  double elements = 0, reads = 1, writes = 1;
  if (const auto* pass = std::get_if<Elementwise>(&op.body)) {
    elements = to_double(pass->elements);
    reads = to_double(pass->inputs);
  } else if (const auto* softmax = std::get_if<Softmax>(&op.body)) {
    elements = to_double(softmax->rows) * to_double(softmax->cols);
  } else if (const auto* norm = std::get_if<Normalization>(&op.body)) {
    elements = to_double(norm->rows) * to_double(norm->cols);
  } else {
    return 0;  // the pass makes no difference
  }
  const double bytes = elements * (reads * size_in_bytes(op.dtypes.input) +
                                   writes * size_in_bytes(op.dtypes.output));
  return std::llround(std::min(bytes, to_double(kMaxSize)));
}

// The gradient that a product computes whose layer is not known: dx = dout·w of a layer that has
// its sizes.
Op as_gradient(Op product) {
  auto& gemm = std::get<Gemm>(product.body);
  std::swap(gemm.n, gemm.k);
  std::swap(gemm.w_stride, gemm.out_stride);
  const bool x = gemm.layout == GemmLayout::tn || gemm.layout == GemmLayout::tt;
  const bool w = gemm.layout == GemmLayout::nt || gemm.layout == GemmLayout::tt;
  // dout·w reads w as it is stored for the forward pass, that is transposed.
  gemm.layout = x ? (w ? GemmLayout::tn : GemmLayout::tt) : (w ? GemmLayout::nn : GemmLayout::nt);
  gemm.w_stride = 0;
  gemm.out_stride = 0;
  product.phase = Phase::dgrad;
  return product;
}

bool is_named_by_module(const Op& op) {
  return std::holds_alternative<Gemm>(op.body) || std::holds_alternative<Convolution>(op.body) ||
         std::holds_alternative<Attention>(op.body) || std::holds_alternative<Recurrent>(op.body) ||
         std::holds_alternative<Normalization>(op.body) ||
         std::holds_alternative<Embedding>(op.body);
}

std::string name_in(const std::string& module, const Op& op, std::string_view operator_name) {
  const std::string_view name = short_name(operator_name);
  if (module.empty()) return std::string(name);
  const auto* gemm = std::get_if<Gemm>(&op.body);
  const bool is_layer = is_named_by_module(op) && (gemm == nullptr || gemm->batch == 1);
  return is_layer ? module : fmt::format("{}:{}", module, name);
}

}  // namespace

std::vector<Op> AtenProgram::backward_ops(const ProgramCall& call, std::vector<Op> ops) const {
  const auto forward = forward_products_.find(call.sequence);
  for (Op& op : ops) {
    if (std::holds_alternative<Gemm>(op.body)) {
      auto layer = forward == forward_products_.end()
                       ? std::nullopt
                       : as_backward_of(forward->second, op, !call.arguments.strides.empty());
      op = layer ? *std::move(layer) : as_gradient(std::move(op));
      // Of a product of two activations both gradients run as operators of their own.
      std::get<Gemm>(op.body).weight_is_parameter = true;
      continue;
    }
    if (op.phase != Phase::forward) continue;
    if (op.streams.bytes == 0) op.streams.bytes = bytes_in_forward(op);
    op.phase = Phase::dgrad;
  }
  return ops;
}

std::vector<Op> AtenProgram::ops_of(const ProgramCall& call) {
  std::vector<Op> ops = aten_ops(call.name, call.arguments);
  if (ops.empty()) {
    if (auto op = described_by_results(call)) ops.push_back(*std::move(op));
  }
  if (call.backward) return backward_ops(call, std::move(ops));
  if (ops.size() == 1 && call.sequence >= 0 && std::holds_alternative<Gemm>(ops.front().body)) {
    forward_products_.emplace(call.sequence, ops.front());
  }
  return ops;
}

void AtenProgram::add(ProgramCall call) {
  if (is_empty_work(call)) return;
  std::vector<Op> ops = ops_of(call);
  if (ops.empty()) {
    const bool is_new = !unknown_.contains(call.name);
    ++unknown_[is_new && unknown_.size() >= kMostUnknown ? "other operators" : call.name];
    return;
  }
  for (Op& op : ops) {
    op.name = name_in(call.source.module, op, call.name);
    op.source = call.source;
    op.source.node = op.name;
    if (!call.backward) {
      op.inputs = call.reads;
      op.outputs = call.writes;
    }
    ops_.push_back(std::move(op));
  }
}

std::vector<Op> AtenProgram::take_ops() { return fold_repeated_layers(std::move(ops_)); }

}  // namespace rooftile
