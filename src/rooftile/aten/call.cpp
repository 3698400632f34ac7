#include "rooftile/aten/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

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
  fills,
  moves,
  drops,
  inserts,
  sized,
  adapts,
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

std::string_view name_of(const AtenCall& call) {
  return std::string_view(call.target).substr(0, call.target.find('.'));
}

bool is_tensor(const AtenValue& value) {
  return aten_detail::parse_type(value.type).has_value() && value.value.empty();
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
    elements = std::min(elements * static_cast<double>(dims[axis]), kMaxElements);
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

CallWork copied_where_changed(const AtenCall& call, bool always) {
  const AtenValue* source = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.results, 0);
  if (source == nullptr || target == nullptr) return {};
  if (!always && source->type == target->type && same_order(*source, *target)) return as_view();
  return copied(*target, *source);
}

CallWork reshaped(const AtenCall& call) {
  const AtenValue* source = tensor_at(call.arguments, 0);
  const AtenValue* target = tensor_at(call.results, 0);
  if (source == nullptr || target == nullptr) return {};
  if (fits_without_copy(*source, target->dims)) return as_view();
  AtenValue copy = *source;
  copy.strides = contiguous_strides(copy.dims);
  return copied(copy, *source);
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
  std::vector<Op> ops = aten_detail::with_streams(
      Elementwise{std::string(name), elements, static_cast<std::int64_t>(read.size())},
      Dtypes(in, in, written.front().dtype), Phase::forward,
      {Walk::strided, static_cast<std::int64_t>(bytes), 0});
  for (Op& op : ops) op.name = fmt::format("aten::{}", name);
  return as_work(std::move(ops));
}

CallWork filled(const AtenCall& call) {
  const AtenValue* target = tensor_at(call.results, 0);
  if (target == nullptr) return {};
  return as_operator("fill_", {*target, scalar("0")});
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
  return as_operator(name_of(call), arguments);
}

CallWork adapted(const Row& row, const AtenCall& call) {
  const auto axes = static_cast<std::size_t>(parse_integer(row.detail).value_or(0));
  const std::vector<Tensor> read = tensors_of(call.arguments), written = tensors_of(call.results);
  if (read.empty() || written.empty() || read.front().rank() != written.front().rank()) return {};
  const Tensor &input = read.front(), &output = written.front();
  const std::size_t rank = input.rank();
  if (rank < axes + 1 || rank > axes + 2) return {};
  const bool is_max = contains(name_of(call), "max");
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

CallWork multiplied(const AtenCall& call) {
  const AtenValue* first = tensor_at(call.arguments, 0);
  const AtenValue* second = tensor_at(call.arguments, 1);
  if (first == nullptr || second == nullptr) return {};
  if (first->dims.empty() || second->dims.empty()) return {};
  if (first->dims.size() == 1 && second->dims.size() == 1) {
    return as_operator("dot", {*first, *second});
  }
  AtenValue x = first->dims.size() == 1 ? with_axis(*first, true) : *first;
  AtenValue w = second->dims.size() == 1 ? with_axis(*second, false) : *second;
  if (w.dims.size() == 2) return as_operator("matmul", {x, w});
  Extents batches(x.dims.begin(), x.dims.end() - 2);
  if (!aten_detail::broadcast({w.dims.begin(), w.dims.end() - 2}, batches)) return {};
  return as_operator("matmul", {over_batches(x, batches), over_batches(w, batches)});
}

CallWork attended(const AtenCall& call) {
  std::vector<AtenValue> arguments = call.arguments;
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 3); ++i) {
    AtenValue& tensor = arguments[i];
    if (tensor.dims.size() != 3) continue;
    tensor.dims.insert(tensor.dims.begin() + 1, 1);
    if (!tensor.strides.empty()) tensor.strides.insert(tensor.strides.begin() + 1, 1);
  }
  return as_operator(name_of(call), arguments);
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

// lstm(input, hx, weights, has_biases, layers, dropout, train, bidirectional, batch_first) in the
// order of _cudnn_rnn. Packed sequences hide their shape.
CallWork recurred(const Row& row, const AtenCall& call) {
  const AtenValue* given = tensor_at(call.arguments, 0);
  if (given == nullptr || call.arguments.size() != 9 || !call.target.ends_with(".input")) return {};
  const OpArguments recorded = as_recorded(call.arguments);
  const Arguments arguments(recorded);
  std::vector<Extents> states = arguments.list(1);
  if (const AtenValue* state = tensor_at(call.arguments, 1)) states = {state->dims};
  if (states.empty() || states.front().empty() || states.back().empty()) return {};
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
    case How::copies:
      return copied_where_changed(call, row.how == How::copies);
    case How::shapes:
      return reshaped(call);
    case How::fills:
      return filled(call);
    case How::moves:
      return passed(name_of(call), tensors_of(call.arguments), tensors_of(call.results));
    case How::drops:
      return dropped(row, call);
    case How::inserts:
      return inserted(row, call);
    case How::sized:
      return sized(call);
    case How::adapts:
      return adapted(row, call);
    case How::product:
      return multiplied(call);
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

// Where no tensor has axes each counts as one element: the kernel runs all the same.
void give_axes(AtenCall& call) {
  const auto has_axes = [](const AtenValue& value) {
    return !value.dims.empty() || value.type.starts_with("TensorList");
  };
  if (std::any_of(call.arguments.begin(), call.arguments.end(), has_axes) ||
      std::any_of(call.results.begin(), call.results.end(), has_axes)) {
    return;
  }
  for (std::vector<AtenValue>* values : {&call.arguments, &call.results}) {
    for (AtenValue& value : *values) {
      if (is_tensor(value)) value.dims = value.strides = {1};
    }
  }
}

}  // namespace

CallWork work_of(const AtenCall& given) {
  AtenCall call = given;
  give_axes(call);
  const Row* row = row_of(name_of(call));
  CallWork work =
      row == nullptr ? as_operator(name_of(call), call.arguments) : composite(*row, call);
  for (Op& op : work.ops) {
    if (op.name.empty()) op.name = fmt::format("aten::{}", name_of(call));
  }
  return work;
}

std::optional<Dtype> aten_dtype(std::string_view type) { return aten_detail::parse_type(type); }

bool is_in_place(const AtenCall& call) {
  const std::string_view name = name_of(call);
  return name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
}

}  // namespace rooftile
