#include "rooftile/aten/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rooftile/aten/complex.h"
#include "rooftile/aten/handlers.h"
#include "rooftile/aten/operator.h"
#include "rooftile/aten/streams.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

using aten_detail::Arguments;
using aten_detail::Tensor;

enum class How {
  view,
  free,
  changes,
  shapes,
  copies,
  takes,
  renamed,
  fills,
  moves,
  drops,
  inserts,
  sized,
  adapts,
  linear,
  product,
  heads,
  joins,
  entropy,
  einsum,
  cells
};

struct Row {
  How how;
  std::string_view detail, names;
};

#define CALLS(how, detail, names) Row{How::how, detail, names},
constexpr Row kRows[] = {
#include "rooftile/aten/calls.inc"
};
#undef CALLS

const Row* row_of(std::string_view name) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, const Row*> by_name;
    for (const Row& row : kRows) {
      for (const std::string_view entry : split(row.names, ' ')) by_name.emplace(entry, &row);
    }
    return by_name;
  }();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

bool is_tensor(const AtenValue& value) {
  return aten_element_bytes(value.type).has_value() && value.value.empty();
}

// Argument or result `position`, if it is a tensor.
const AtenValue* tensor_at(const std::vector<AtenValue>& values, std::size_t position) {
  return position < values.size() && is_tensor(values[position]) ? &values[position] : nullptr;
}

AtenValue scalar(std::string value) { return {{}, {}, "Scalar", std::move(value)}; }

AtenValue numbers(const std::vector<std::int64_t>& values) {
  return {{}, {}, "ScalarList", fmt::format("[{}]", fmt::join(values, ","))};
}

CallWork as_work(std::vector<Op> ops) {
  return {ops.empty() ? CallKind::unknown : CallKind::work, std::move(ops)};
}

CallWork as_operator(std::string_view name, const std::vector<AtenValue>& arguments) {
  return as_work(aten_ops(fmt::format("aten::{}", name), as_recorded(arguments)));
}

CallWork as_view() { return {CallKind::view, {}}; }

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  double elements = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = static_cast<std::int64_t>(elements);
    elements = std::clamp(elements * static_cast<double>(dims[axis]), -kMaxElements, kMaxElements);
  }
  return strides;
}

// Axes of one element have any stride.
bool same_order(const AtenValue& a, const AtenValue& b) {
  if (a.dims != b.dims || a.strides.size() != b.strides.size()) return false;
  for (std::size_t axis = 0; axis < a.strides.size(); ++axis) {
    if (a.dims[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

// Axes that lie behind one another in memory, from the slowest: elements, and the last one's
// stride.
struct Run {
  double elements = 1;
  std::int64_t stride = 1;
};

std::vector<Run> runs_of(const AtenValue& tensor) {
  std::vector<Run> runs;
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const std::int64_t size = tensor.dims[axis], stride = tensor.strides[axis];
    if (size == 1) continue;
    const double whole = static_cast<double>(size) * static_cast<double>(stride);
    if (!runs.empty() && static_cast<double>(runs.back().stride) == whole) {
      runs.back().elements *= static_cast<double>(size);
      runs.back().stride = stride;
    } else {
      runs.push_back({static_cast<double>(size), stride});
    }
  }
  return runs;
}

// As PyTorch's computeStride: each run splits into axes of the new shape, none crosses two runs.
bool fits_without_copy(const AtenValue& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.strides.size() != tensor.dims.size()) return true;
  const std::vector<Run> runs = runs_of(tensor);
  std::size_t axis = 0;
  for (const Run& run : runs) {
    double elements = 1;
    while (axis < shape.size() && (elements < run.elements || shape[axis] == 1)) {
      elements *= static_cast<double>(shape[axis++]);
    }
    if (elements != run.elements) return false;
  }
  return true;
}

CallWork copied(const AtenValue& target, const AtenValue& source) {
  return as_operator("copy_", {target, source, scalar("False")});
}

CallWork copied_where_changed(const AtenCall& call) {
  const AtenValue* source = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.results, 0);
  if (source == nullptr || target == nullptr) return {};
  if (source->type == target->type && same_order(*source, *target)) return as_view();
  return copied(*target, *source);
}

// A copy with contiguous axes.
CallWork made_contiguous(const AtenValue& source) {
  AtenValue copy = source;
  copy.strides = contiguous_strides(copy.dims);
  return copied(copy, source);
}

CallWork reshaped(const AtenCall& call) {
  const AtenValue* source = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.results, 0);
  if (source == nullptr || target == nullptr) return {};
  return fits_without_copy(*source, target->dims) ? as_view() : made_contiguous(*source);
}

std::vector<Tensor> tensors_of(const std::vector<AtenValue>& values) {
  const OpArguments recorded = as_recorded(values);
  const Arguments arguments(recorded);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auto tensor = arguments.tensor(i)) tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

// One pass over the results and the `read` tensors.
CallWork passed(std::string_view name, const std::vector<Tensor>& read,
                const std::vector<Tensor>& written) {
  if (written.empty()) return {};
  double bytes = aten_detail::bytes_read(read);
  for (const Tensor& tensor : written) {
    bytes += aten_detail::size_of(static_cast<double>(tensor.elements()), tensor.dtype);
  }
  const std::int64_t elements = written.front().elements();
  if (bytes > static_cast<double>(kMaxSize)) return {};
  const Dtype in = read.empty() ? written.front().dtype : read.front().dtype;
  return as_work(aten_detail::with_streams(
      Elementwise{std::string(name), elements, static_cast<std::int64_t>(read.size())},
      Dtypes(in, in, written.front().dtype), Phase::forward,
      {Walk::strided, static_cast<std::int64_t>(bytes), 0}));
}

// Of argument 0 no more is read than the result holds.
CallWork taken(std::string_view name, const AtenCall& call) {
  const std::vector<Tensor> written = tensors_of(call.results);
  std::vector<Tensor> read = tensors_of(call.arguments);
  if (read.empty() || written.empty()) return {};
  read.resize(1);
  const Dtype dtype = read.front().dtype;
  if (read.front().elements() > written.front().elements()) {
    read = {{written.front().dims, {}, dtype}};
  }
  return passed(name, read, written);
}

CallWork copied_always(const AtenCall& call) {
  const AtenValue* source = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.results, 0);
  if (source == nullptr || target == nullptr) return {};
  CallWork copy = copied(*target, *source);
  return copy.kind == CallKind::work ? copy : taken("copy", call);
}

CallWork filled(const AtenCall& call) {
  const AtenValue* target = tensor_at(call.results, 0);
  if (target == nullptr) return {};
  AtenValue filled_tensor = *target;
  if (target->dims.empty()) filled_tensor.dims = filled_tensor.strides = {1};
  return as_operator("fill_", {filled_tensor, scalar("0")});
}

CallWork dropped(const Row& row, const AtenCall& call) {
  const auto at = static_cast<std::size_t>(parse_integer(row.detail).value_or(0));
  if (at >= call.arguments.size() || call.arguments[at].value != "True") return as_view();
  if (parse_number(call.arguments[1].value) == 0.0) return as_view();
  return as_operator("native_dropout", call.arguments);
}

CallWork inserted(const Row& row, const AtenCall& call) {
  const std::vector<std::string_view> words = split(row.detail, ' ');
  const auto at = static_cast<std::size_t>(parse_integer(words[1]).value_or(0));
  if (at > call.arguments.size()) return {};
  std::vector<AtenValue> arguments = call.arguments;
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(at),
                   scalar(std::string(words[2])));
  return as_operator(words[0], arguments);
}

CallWork sized(const AtenCall& call) {
  const AtenValue* target = tensor_at(call.results, 0);
  if (target == nullptr || target->dims.size() < 3 || call.arguments.size() < 2) return {};
  std::vector<AtenValue> arguments = call.arguments;
  arguments[1] = numbers({target->dims.begin() + 2, target->dims.end()});
  return as_operator(call.name, arguments);
}

CallWork adapted(const Row& row, const AtenCall& call) {
  const auto axes = static_cast<std::size_t>(parse_integer(row.detail).value_or(0));
  const std::vector<Tensor> read = tensors_of(call.arguments), written = tensors_of(call.results);
  if (read.empty() || written.empty() || read.front().rank() != written.front().rank()) return {};
  const Tensor &input = read.front(), &output = written.front();
  const std::size_t rank = input.rank();
  if (rank < axes + 1 || rank > axes + 2) return {};
  const bool is_max = contains(call.name, "max");
  Pooling pool;
  pool.fn = is_max ? PoolKind::max : PoolKind::average;
  pool.n = rank == axes + 2 ? input.size(0) : 1;
  pool.c = input.size(rank - axes - 1);
  std::vector<std::int64_t> reduced;
  bool to_one = !is_max;
  for (std::size_t axis = rank - axes; axis < rank; ++axis) {
    pool.input.push_back(input.size(axis));
    pool.output.push_back(output.size(axis));
    pool.kernel.push_back((input.size(axis) + output.size(axis) - 1) / output.size(axis));
    reduced.push_back(static_cast<std::int64_t>(axis));
    to_one = to_one && output.size(axis) == 1;
  }
  if (to_one) {
    return as_operator("mean", {call.arguments[0], numbers(reduced), scalar("True"), AtenValue()});
  }
  return as_work(aten_detail::valid(std::move(pool), Dtypes(input.dtype)));
}

// Puts an axis of one element in front or behind.
AtenValue with_axis(AtenValue tensor, bool in_front) {
  const auto axis = static_cast<std::ptrdiff_t>(in_front ? 0 : tensor.dims.size());
  tensor.dims.insert(tensor.dims.begin() + axis, 1);
  if (!tensor.strides.empty()) tensor.strides.insert(tensor.strides.begin() + axis, 1);
  return tensor;
}

// The axes before the last two as those of `batches`; what is repeated has stride 0.
AtenValue over_batches(AtenValue tensor, const Extents& batches) {
  if (tensor.strides.size() != tensor.dims.size()) {
    tensor.strides = contiguous_strides(tensor.dims);
  }
  while (tensor.dims.size() < batches.size() + 2) {
    tensor.dims.insert(tensor.dims.begin(), 1);
    tensor.strides.insert(tensor.strides.begin(), 0);
  }
  for (std::size_t axis = 0; axis < batches.size(); ++axis) {
    if (tensor.dims[axis] != batches[axis]) tensor.strides[axis] = 0;
    tensor.dims[axis] = batches[axis];
  }
  return tensor;
}

void append(CallWork& work, CallWork more) {
  work.ops.insert(work.ops.end(), std::make_move_iterator(more.ops.begin()),
                  std::make_move_iterator(more.ops.end()));
  work.kind = more.kind == CallKind::unknown ? CallKind::unknown : work.kind;
}

// An operand of a product whose axes before the last `kept` become one: where its order in memory
// does not allow that, it is copied first.
AtenValue merged(AtenValue tensor, std::size_t kept, CallWork& work) {
  if (tensor.strides.size() != tensor.dims.size() || tensor.dims.size() <= kept + 1) return tensor;
  const auto rest = tensor.dims.end() - static_cast<std::ptrdiff_t>(kept);
  const double rows = element_count({tensor.dims.begin(), rest});
  if (rows < 0 || rows > kMaxElements) return tensor;
  Extents shape(rest, tensor.dims.end());
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows));
  if (fits_without_copy(tensor, shape)) return tensor;
  append(work, made_contiguous(tensor));
  tensor.strides = contiguous_strides(tensor.dims);
  return tensor;
}

CallWork multiplied(const AtenValue& first, const AtenValue& second) {
  if (first.dims.empty() || second.dims.empty()) return {};
  if (first.dims.size() == 1 && second.dims.size() == 1) {
    return as_operator("dot", {first, second});
  }
  AtenValue x = first.dims.size() == 1 ? with_axis(first, true) : first;
  AtenValue w = second.dims.size() == 1 ? with_axis(second, false) : second;
  CallWork work{CallKind::work, {}};
  if (w.dims.size() == 2) {
    x = merged(std::move(x), 1, work);
    append(work, as_operator("matmul", {x, w}));
    return work;
  }
  Extents batches(x.dims.begin(), x.dims.end() - 2);
  if (!aten_detail::broadcast({w.dims.begin(), w.dims.end() - 2}, batches)) return {};
  x = merged(over_batches(std::move(x), batches), 2, work);
  w = merged(over_batches(std::move(w), batches), 2, work);
  append(work, as_operator("matmul", {x, w}));
  return work;
}

CallWork product_of_two(const AtenCall& call) {
  const AtenValue* x = tensor_at(call.arguments, 0);
  const AtenValue* w = tensor_at(call.arguments, 1);
  return x != nullptr && w != nullptr ? multiplied(*x, *w) : CallWork();
}

bool is_contiguous(const AtenValue& tensor) {
  AtenValue dense = tensor;
  dense.strides = contiguous_strides(tensor.dims);
  return tensor.strides.empty() || same_order(tensor, dense);
}

// As at::linear: rows that do not lie one behind the other are copied, and then the bias is added
// by a kernel of its own.
CallWork linear_layer(const AtenCall& call) {
  const AtenValue* x = tensor_at(call.arguments, 0);
  const AtenValue* w = tensor_at(call.arguments, 1);
  const AtenValue* bias = tensor_at(call.arguments, 2);
  if (x == nullptr || w == nullptr) return {};
  CallWork work{CallKind::work, {}};
  const AtenValue rows = merged(*x, 1, work);
  const bool fuses = x->dims.size() == 2 || is_contiguous(*x) || call.results.empty();
  const bool has_bias = bias != nullptr;
  append(work, as_operator("linear", {rows, *w, has_bias && fuses ? *bias : AtenValue()}));
  if (has_bias && !fuses) {
    append(work, as_operator("add", {call.results[0], *bias, scalar("1")}));
  }
  return work;
}

CallWork attended(const AtenCall& call) {
  std::vector<AtenValue> arguments = call.arguments;
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 3); ++i) {
    AtenValue& tensor = arguments[i];
    if (tensor.dims.size() != 3) continue;
    tensor.dims.insert(tensor.dims.begin() + 1, 1);
    if (!tensor.strides.empty()) tensor.strides.insert(tensor.strides.begin() + 1, 1);
  }
  return as_operator(call.name, arguments);
}

CallWork joined(const AtenCall& call) {
  const bool has_axis = call.arguments.size() > 1;
  return as_operator("cat", {call.arguments.empty() ? AtenValue() : call.arguments[0],
                             has_axis ? call.arguments[1] : scalar("0")});
}

// The classes are on axis 1, of one sample alone on axis 0.
CallWork entropy(const AtenCall& call) {
  const AtenValue* scores = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.arguments, 1);
  if (scores == nullptr || target == nullptr || scores->dims.empty()) return {};
  const std::string axis = scores->dims.size() > 1 ? "1" : "0";
  CallWork work = as_operator("log_softmax", {*scores, scalar(axis), AtenValue()});
  const bool are_shares = target->type == scores->type && target->dims == scores->dims;
  const CallWork loss = are_shares ? as_operator("mul", {*scores, *target})
                                   : as_operator("nll_loss_forward", {*scores, *target});
  if (work.ops.empty() || loss.ops.empty()) return {};
  work.ops.insert(work.ops.end(), loss.ops.begin(), loss.ops.end());
  return work;
}

// Which operands and the result hold a letter of an equation, and its size.
struct Letter {
  bool in_first = false, in_second = false, in_result = false;
  std::int64_t size = 1;
};

std::optional<std::unordered_map<char, Letter>> letters_of(std::string_view equation,
                                                           const std::vector<Extents>& operands) {
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos || arrow < comma)
    return {};
  const std::string_view parts[] = {equation.substr(0, comma),
                                    equation.substr(comma + 1, arrow - comma - 1)};
  std::unordered_map<char, Letter> letters;
  for (std::size_t i = 0; i < 2; ++i) {
    if (operands.size() != 2 || parts[i].size() != operands[i].size()) return {};
    for (std::size_t axis = 0; axis < parts[i].size(); ++axis) {
      Letter& letter = letters[parts[i][axis]];
      bool& here = i == 0 ? letter.in_first : letter.in_second;
      if (here) return {};  // a diagonal
      here = true;
      letter.size = std::max(letter.size, operands[i][axis]);
    }
  }
  for (const char name : equation.substr(arrow + 2)) {
    const auto found = letters.find(name);
    if (found == letters.end()) return {};
    found->second.in_result = true;
  }
  return letters;
}

// einsum(equation, [x, w]): letters of both and the result are batches; without a letter that is
// summed the operands are multiplied one by one.
CallWork by_equation(const AtenCall& call) {
  if (call.arguments.size() < 2) return {};
  const OpArguments recorded = as_recorded(call.arguments);
  const Arguments arguments(recorded);
  std::string equation(arguments.value(0));
  std::erase(equation, ' ');
  const std::vector<Extents> operands = arguments.list(1);
  const auto letters = letters_of(equation, operands);
  const auto dtype = arguments.list_type(1);
  if (!letters || !dtype) return {};
  Gemm gemm{.m = 1, .n = 1, .k = 1, .layout = GemmLayout::nn, .weight_is_parameter = false};
  double largest = 1;
  bool sums = false;
  for (const auto& [name, letter] : *letters) {
    const bool in_both = letter.in_first && letter.in_second;
    if (!in_both && !letter.in_result) return {};
    sums = sums || !letter.in_result;
    std::int64_t& size = !letter.in_result ? gemm.k
                         : in_both         ? gemm.batch
                         : letter.in_first ? gemm.m
                                           : gemm.n;
    largest *= static_cast<double>(letter.size);
    if (largest > kMaxElements * kMaxElements || size > kMaxSize) return {};
    size *= letter.size;
  }
  if (!sums) {
    std::vector<Tensor> read;
    for (const Extents& dims : operands) read.push_back({dims, {}, *dtype});
    return passed("mul", read, tensors_of(call.results));
  }
  return as_work(aten_detail::valid(gemm, Dtypes(*dtype)));
}

// Sizes of the states of lstm and its like: a list of two, or a tensor.
std::vector<Extents> states_at(const AtenCall& call, std::size_t position) {
  const OpArguments recorded = as_recorded(call.arguments);
  std::vector<Extents> states = Arguments(recorded).list(position);
  if (const AtenValue* state = tensor_at(call.arguments, position)) states = {state->dims};
  for (const Extents& state : states) {
    if (state.empty()) return {};
  }
  return states;
}

// lstm(data, batch sizes, hx, weights, has_biases, layers, dropout, train, bidirectional): rows of
// sequences behind one another, and for each step the number of sequences that have it. The states
// tell how many sequences there are, the batch sizes' length the longest.
CallWork recurred_packed(const Row& row, const AtenCall& call) {
  const AtenValue &rows = call.arguments[0], &lengths = call.arguments[1];
  const std::vector<Extents> states = states_at(call, 2);
  const auto cell = aten_detail::parse_cell(parse_integer(row.detail));
  const auto layers = parse_integer(call.arguments[5].value);
  if (!cell || !layers || states.empty() || states.front().size() != 3) return {};
  if (rows.dims.size() != 2 || lengths.dims.size() != 1) return {};
  const std::int64_t hidden = states.back().back(), result = states.front().back();
  return as_work(
      aten_detail::valid(Recurrent{.cell = *cell,
                                   .batch = states.front()[1],
                                   .seq = lengths.dims[0],
                                   .input = rows.dims[1],
                                   .hidden = hidden,
                                   .layers = *layers,
                                   .directions = call.arguments[8].value == "True" ? 2 : 1,
                                   .projection = result == hidden ? 0 : result,
                                   .packed = true,
                                   .tokens = rows.dims[0],
                                   .bias = call.arguments[4].value == "True"},
                         Dtypes(aten_detail::parse_type(rows.type).value_or(Dtype::fp32))));
}

// lstm(input, hx, weights, has_biases, layers, dropout, train, bidirectional, batch_first) in the
// order of _cudnn_rnn.
CallWork recurred(const Row& row, const AtenCall& call) {
  const AtenValue* given = tensor_at(call.arguments, 0);
  if (given == nullptr || call.arguments.size() != 9) return {};
  if (call.overload == "data") return recurred_packed(row, call);
  if (call.overload != "input") return {};
  const std::vector<Extents> states = states_at(call, 1);
  if (states.empty()) return {};
  const std::int64_t hidden = states.back().back(), result = states.front().back();
  AtenValue input = *given;
  if (input.dims.size() == 2) {
    input.dims.insert(input.dims.begin() + 1, 1);
    input.strides.clear();
  }
  const bool is_single = given->dims.size() == 2;
  const AtenValue none, no = scalar("False");
  return as_operator(
      "_cudnn_rnn", {input, none, scalar(call.arguments[3].value == "True" ? "4" : "2"), none, none,
                     none, scalar(std::string(row.detail)), scalar(std::to_string(hidden)),
                     scalar(std::to_string(result == hidden ? 0 : result)), call.arguments[4],
                     is_single ? no : call.arguments[8], call.arguments[5], call.arguments[6],
                     call.arguments[7], numbers({}), none});
}

CallWork composite(const Row& row, const AtenCall& call) {
  switch (row.how) {
    case How::view:
      return as_view();
    case How::free:
      return {CallKind::free, {}};
    case How::changes:
      return copied_where_changed(call);
    case How::copies:
      return copied_always(call);
    case How::takes:
      return taken(row.detail, call);
    case How::renamed:
      return as_operator(row.detail, call.arguments);
    case How::shapes:
      return reshaped(call);
    case How::fills:
      return filled(call);
    case How::moves:
      return passed(call.name, tensors_of(call.arguments), tensors_of(call.results));
    case How::drops:
      return dropped(row, call);
    case How::inserts:
      return inserted(row, call);
    case How::sized:
      return sized(call);
    case How::adapts:
      return adapted(row, call);
    case How::linear:
      return linear_layer(call);
    case How::product:
      return product_of_two(call);
    case How::heads:
      return attended(call);
    case How::joins:
      return joined(call);
    case How::entropy:
      return entropy(call);
    case How::einsum:
      return by_equation(call);
    case How::cells:
      return recurred(row, call);
  }
  return {};
}

bool has_axes(const AtenValue& value) {
  return !value.dims.empty() || value.type.starts_with("TensorList");
}

bool is_without_axes(const AtenCall& call) {
  return std::ranges::none_of(call.arguments, has_axes) &&
         std::ranges::none_of(call.results, has_axes);
}

// Where no tensor has axes each counts as one element: the kernel runs all the same.
AtenCall with_axes(AtenCall call) {
  for (std::vector<AtenValue>* values : {&call.arguments, &call.results}) {
    for (AtenValue& value : *values) {
      if (is_tensor(value)) value.dims = value.strides = {1};
    }
  }
  return call;
}

bool writes_nothing(const AtenCall& call) {
  const auto is_empty = [](const AtenValue& value) {
    return std::ranges::find(value.dims, 0) != value.dims.end();
  };
  return !call.results.empty() && std::ranges::all_of(call.results, is_empty);
}

// Whether all that is read and written are single numbers: a launch and no more.
bool is_of_single_numbers(const AtenCall& call) {
  const auto is_single = [](const AtenValue& value) {
    return std::ranges::all_of(value.dims, [](std::int64_t size) { return size == 1; }) &&
           !value.type.starts_with("TensorList");
  };
  return !call.name.empty() && !call.results.empty() &&
         std::ranges::all_of(call.arguments, is_single) &&
         std::ranges::all_of(call.results, is_single);
}

CallWork work_of_aten(const AtenCall& call) {
  const Row* row = row_of(call.name);
  CallWork work = row == nullptr ? as_operator(call.name, call.arguments) : composite(*row, call);
  if (work.kind == CallKind::unknown && is_of_single_numbers(call)) {
    work = passed(call.name, tensors_of(call.arguments), tensors_of(call.results));
  }
  for (Op& op : work.ops) op.name.clear();
  return work;
}

}  // namespace

CallWork work_of(const AtenCall& call) {
  if (writes_nothing(call)) return {CallKind::free, {}};
  if (call.library != "aten") return {};
  return is_without_axes(call) ? work_of_aten(with_axes(call)) : work_of_aten(call);
}

std::optional<Dtype> aten_dtype(std::string_view type) { return aten_detail::parse_type(type); }

std::optional<double> aten_element_bytes(std::string_view type) {
  if (const auto dtype = aten_detail::parse_type(type)) return size_in_bytes(*dtype);
  const auto part = aten_detail::parse_complex(type);
  return part ? std::optional(2 * size_in_bytes(*part)) : std::nullopt;
}

bool is_in_place(const AtenCall& call) {
  const std::string_view name = call.name;
  return name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
}

}  // namespace rooftile
