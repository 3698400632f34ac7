// Operators that wait for memory: what the table of streams.inc says, as operations.
#include "rooftile/aten/streams.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "rooftile/aten/handlers.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

#define STREAMS(kind, reads, results, names) {StreamKind::kind, reads, results, names},
constexpr StreamRow kRows[] = {
#include "rooftile/aten/streams.inc"
};
#undef STREAMS

constexpr std::string_view kBackward = "_backward";

bool is_position(char letter) { return letter >= '0' && letter <= '9'; }

bool is_floating(Dtype dtype) { return dtype <= Dtype::fp4; }

// The shape that all fit to; empty where they do not, or there are none.
Extents common_shape(const std::vector<Tensor>& tensors) {
  Extents shape;
  for (const Tensor& tensor : tensors) {
    if (!broadcast(tensor.dims, shape)) return {};
  }
  return shape;
}

// PyTorch's promotion: floating point before integers before bool, then the wider; two floating
// types of one width meet in fp32.
Dtype promoted(Dtype a, Dtype b) {
  if (a == b) return a;
  const auto rank = [](Dtype dtype) {
    return (is_floating(dtype) ? 1000 : dtype == Dtype::boolean ? 0 : 500) + info(dtype).bits;
  };
  if (rank(a) == rank(b)) return is_floating(a) ? Dtype::fp32 : a;
  return rank(a) > rank(b) ? a : b;
}

Dtype common_type(const std::vector<Tensor>& tensors) {
  Dtype type = tensors.front().dtype;
  for (const Tensor& tensor : tensors) type = promoted(type, tensor.dtype);
  return type;
}

// Elements that lie in memory: a repeated axis (stride 0) once.
double stored_elements(const Tensor& tensor) {
  double elements = 1;
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
    const bool repeats = !tensor.strides.empty() && tensor.strides[axis] == 0;
    if (!repeats) elements *= to_double(tensor.size(axis));
  }
  return elements;
}

bool is_dense(const Tensor& tensor) {
  std::int64_t expected = 1;
  const std::vector<std::size_t> order = memory_order(tensor, tensor);
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (tensor.strides[*axis] != expected) return false;
    expected *= tensor.size(*axis);
  }
  return expected == tensor.elements();
}

// Masks are read as they are; every other type that differs is converted.
bool converts(const std::vector<Tensor>& tensors, Dtype common, std::optional<Dtype> target) {
  if (target && *target != common && *target != Dtype::boolean) return true;
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
    return tensor.dtype != common && tensor.dtype != Dtype::boolean;
  });
}

// The argument that a result is as large as; half of argument 0 along the axis at position 1.
std::optional<Tensor> target_of(const StreamCall& call, char letter) {
  if (is_position(letter)) return call.arguments.tensor(position(letter));
  if (letter == 'o') {
    for (std::size_t at = call.arguments.count(); at > 0; --at) {
      if (auto tensor = call.arguments.tensor(at - 1)) return tensor;
    }
    return std::nullopt;
  }
  auto half = call.arguments.tensor(0);
  if (!half) return half;
  const auto rank = static_cast<std::int64_t>(half->rank());
  std::int64_t axis = call.arguments.integer(1).value_or(-1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  std::int64_t& halved = half->dims[static_cast<std::size_t>(axis)];
  if (halved % 2 == 0) halved /= 2;
  return half;
}

// Results of the size of an argument, whatever is read.
std::vector<Op> like_an_argument(const StreamCall& call) {
  const std::vector<Tensor> read = tensors_read(call);
  double bytes = bytes_read(read);
  std::optional<Tensor> target;
  for (const char letter : call.row.results) {
    target = target_of(call, letter);
    if (!target) return {};
    bytes += size_of(to_double(target->elements()), target->dtype);
  }
  const bool is_regular = std::all_of(read.begin(), read.end(), [&](const Tensor& tensor) {
    return tensor.elements() == target->elements();
  });
  return elementwise_pass(call, to_double(target->elements()), static_cast<double>(read.size()),
                          Dtypes(target->dtype), bytes,
                          is_regular ? Walk::contiguous : Walk::strided);
}

// What one element for each place of the common shape takes.
struct Broadcast {
  std::vector<Tensor> whole;  // operands of that shape
  double elements = 0;
  Dtype type = Dtype::fp32;
  std::optional<Dtype> target;  // in place: the type of the first argument
};

std::optional<Broadcast> broadcast_of(const StreamCall& call, const std::vector<Tensor>& read) {
  const Extents shape = common_shape(read);
  if (shape.empty()) return std::nullopt;
  Broadcast found{{}, element_count(shape), common_type(read), std::nullopt};
  for (const Tensor& tensor : read) {
    if (to_double(tensor.elements()) == found.elements) found.whole.push_back(tensor);
  }
  if (!call.in_place) return found;
  const auto target = call.arguments.tensor(0);
  if (!target || to_double(target->elements()) != found.elements) return std::nullopt;
  found.target = target->dtype;
  return found;
}

std::vector<Op> pointwise(const StreamCall& call) {
  const char letter = call.row.results.front();
  if (is_position(letter) || letter == 'h' || letter == 'o') return like_an_argument(call);
  const std::vector<Tensor> read = tensors_read(call);
  const auto all = broadcast_of(call, read);
  if (!all) return {};
  const auto type_of = [&](char result) {
    return all->target.value_or(result_type(result, all->type));
  };
  double bytes = bytes_read(read);
  for (const char result : call.row.results) bytes += size_of(all->elements, type_of(result));
  Walk walk = all->whole.size() < read.size() ? Walk::strided : walk_of(all->whole);
  if (walk == Walk::contiguous && converts(read, all->type, all->target)) walk = Walk::converting;
  const auto inputs = std::max<std::size_t>(all->whole.size(), 1);
  return elementwise_pass(call, all->elements, static_cast<double>(inputs),
                          Dtypes(all->type, all->type, type_of(letter)), bytes, walk);
}

// Which axes are reduced; nothing where the arguments do not tell. Axes are never the last
// argument: that is the type of the result, or whether to correct a variance.
std::optional<std::vector<bool>> reduced_axes(const StreamCall& call, const Tensor& input) {
  const std::size_t at = call.detail_at();
  std::vector<bool> all(input.rank(), true);
  if (call.arguments.count() <= at + 1 || call.arguments.is_absent(at)) return all;
  const auto axes = call.arguments.integers(at);
  if (!axes) return std::nullopt;
  if (axes->empty()) return all;
  std::vector<bool> reduced(input.rank(), false);
  const auto rank = static_cast<std::int64_t>(input.rank());
  for (const std::int64_t axis : *axes) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  return reduced;
}

// The axis whose neighbours are neighbours in memory.
std::size_t fastest_axis(const Tensor& tensor) {
  if (!tensor.strides.empty()) {
    const auto order = memory_order(tensor, tensor);
    if (!order.empty()) return order.back();
  }
  std::size_t axis = tensor.rank() - 1;
  while (axis > 0 && tensor.size(axis) == 1) --axis;
  return axis;
}

// sum(input, …, type): the type that was asked for.
std::optional<Dtype> sum_type(const StreamCall& call) {
  if (call.row.results != "s" || call.arguments.count() < 2) return std::nullopt;
  return parse_type_number(call.arguments.value(call.arguments.count() - 1));
}

std::vector<Op> reduction(const StreamCall& call, const std::vector<Tensor>& read,
                          std::int64_t outputs, Walk walk) {
  const Tensor& input = read.front();
  const auto asked = sum_type(call);
  const auto type_of = [&](char letter) {
    return asked.value_or(result_type(letter, input.dtype));
  };
  const Dtype result = type_of(call.row.results.front());
  double bytes = bytes_read(read);
  for (const char letter : call.row.results) {
    bytes += size_of(to_double(outputs), type_of(letter));
  }
  if (bytes > to_double(kMaxSize)) return {};
  const double usual =
      size_of(to_double(input.elements()), input.dtype) + size_of(to_double(outputs), result);
  Streams streams{.walk = walk};
  if (bytes != usual) streams.bytes = static_cast<std::int64_t>(bytes);
  return with_streams(Reduction{std::string(call.name), input.elements(), outputs},
                      Dtypes(input.dtype, input.dtype, result), call.phase(), streams);
}

// max(input, other) and its relatives are no reduction.
std::vector<Op> reduce(const StreamCall& call) {
  static constexpr StreamRow kBinary{StreamKind::pointwise, "01", "=", {}};
  if (call.reads() == "0" && call.arguments.tensor(0) && call.arguments.tensor(call.detail_at())) {
    return pointwise({kBinary, call.name, call.arguments, call.in_place});
  }
  const std::vector<Tensor> read = tensors_read(call);
  if (read.empty()) return {};
  const auto reduced = reduced_axes(call, read.front());
  if (!reduced) return {};
  std::int64_t outputs = 1;
  for (std::size_t axis = 0; axis < reduced->size(); ++axis) {
    if (!(*reduced)[axis]) outputs *= read.front().size(axis);
  }
  const bool along_rows = (*reduced)[fastest_axis(read.front())];
  return reduction(call, read, outputs, along_rows ? Walk::usual : Walk::strided);
}

std::vector<Op> loss(const StreamCall& call) {
  constexpr std::int64_t kKeepsElements = 0;
  const auto how = call.arguments.integer(call.detail_at());
  if (how && *how == kKeepsElements) return pointwise(call);
  const std::vector<Tensor> read = tensors_read(call);
  if (!how || read.size() < 2) return {};
  return reduction(call, read, 1, Walk::usual);
}

const StreamRow* row_of(std::string_view name) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, const StreamRow*> by_name;
    for (const StreamRow& row : kRows) {
      for (const std::string_view entry : split(row.names, ' ')) by_name.emplace(entry, &row);
    }
    return by_name;
  }();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

// Its row, of an operator in place ("add_") that of the name without the mark where it has none of
// its own; and whether it is in place.
std::pair<const StreamRow*, bool> row_in_any_form(std::string_view name) {
  const bool in_place = name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
  const StreamRow* row = row_of(name);
  if (row == nullptr && in_place) row = row_of(name.substr(0, name.size() - 1));
  return {row, in_place};
}

}  // namespace

Phase StreamCall::phase() const {
  const bool backward =
      name.size() > kBackward.size() && name.substr(name.size() - kBackward.size()) == kBackward;
  return backward ? Phase::dgrad : Phase::forward;
}

std::vector<Tensor> tensors_read(const StreamCall& call) {
  std::vector<Tensor> tensors;
  for (const char digit : call.reads()) {
    if (auto tensor = call.arguments.tensor(position(digit))) tensors.push_back(*tensor);
  }
  return tensors;
}

bool broadcast(const Extents& dims, Extents& shape) {
  if (dims.size() > shape.size()) shape.insert(shape.begin(), dims.size() - shape.size(), 1);
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    const std::int64_t size = dims[dims.size() - back];
    std::int64_t& common = shape[shape.size() - back];
    if (size != common && size != 1 && common != 1) return false;
    common = std::max(common, size);
  }
  return element_count(shape) <= kMaxElements;
}

Dtype result_type(char letter, Dtype common) {
  if (letter == 'b') return Dtype::boolean;
  if (letter == 'l' || (letter == 's' && !is_floating(common))) return Dtype::int64;
  return letter == 'f' && !is_floating(common) ? Dtype::fp32 : common;
}

double size_of(double elements, Dtype dtype) { return elements * size_in_bytes(dtype); }

double bytes_read(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += size_of(stored_elements(tensor), tensor.dtype);
  return bytes;
}

std::vector<std::size_t> memory_order(const Tensor& tensor, const Tensor& source) {
  std::vector<std::size_t> order;
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) > 1 && source.strides[axis] > 0) order.push_back(axis);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensor.strides[a] > tensor.strides[b];
  });
  return order;
}

Walk walk_of(const std::vector<Tensor>& tensors) {
  Walk walk = Walk::contiguous;
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (tensor.strides.empty()) continue;
    if (!is_dense(tensor)) walk = Walk::strided;
    if (first == nullptr) first = &tensor;
    const auto here = memory_order(tensor, tensor), there = memory_order(*first, *first);
    if (here == there || here.empty() || there.empty()) continue;
    if (here.back() != there.back()) return Walk::transposed;
    walk = Walk::strided;
  }
  return walk;
}

std::vector<Op> with_streams(Body body, const Dtypes& dtypes, Phase phase, const Streams& streams) {
  std::vector<Op> ops = valid(std::move(body), dtypes, phase);
  for (Op& op : ops) op.streams = streams;
  return ops;
}

std::vector<Op> elementwise_pass(const StreamCall& call, double elements, double inputs,
                                 const Dtypes& dtypes, double bytes, Walk walk) {
  if (elements < 1 || elements > to_double(kMaxSize) || bytes > to_double(kMaxSize)) return {};
  const double usual = size_of(elements * inputs, dtypes.input) + size_of(elements, dtypes.output);
  Streams streams{.walk = walk == Walk::contiguous ? Walk::usual : walk};
  if (bytes != usual || call.phase() != Phase::forward) {
    streams.bytes = static_cast<std::int64_t>(bytes);
  }
  return with_streams(Elementwise{std::string(call.name), static_cast<std::int64_t>(elements),
                                  static_cast<std::int64_t>(inputs)},
                      dtypes, call.phase(), streams);
}

bool is_pass(std::string_view name) {
  if (name == "copy_" || name == "_to_copy") return true;
  const StreamRow* row = row_in_any_form(name).first;
  return row != nullptr && row->kind == StreamKind::pointwise;
}

Answer stream_op(std::string_view name, const Arguments& arguments) {
  if (name == "copy_") return copy_between(arguments);
  if (name == "_to_copy") return copy_as(arguments);
  const auto [row, in_place] = row_in_any_form(name);
  if (row == nullptr) return std::nullopt;
  if (in_place) name.remove_suffix(1);
  const StreamCall call{*row, name, arguments, in_place};
  if (row->kind == StreamKind::pointwise) return pointwise(call);
  if (row->kind == StreamKind::reduce) return reduce(call);
  return row->kind == StreamKind::loss ? loss(call) : movement(call);
}

}  // namespace rooftile::aten_detail
